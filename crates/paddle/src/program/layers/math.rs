//! Element-wise functions, reductions, and reshapes.

use lodstone_model::DType;

use crate::program::error::Result;
use crate::program::network::{Network, Variable};
use crate::program::operator::Operator;

/// Appends the operator of one input and one output `kind`: `relu`, `tanh`, `mean`.
pub(super) fn unary(net: &mut Network, kind: &str, x: &Variable) -> Result<Variable> {
    let name = net.name(kind);
    net.call(&name, "Out", Operator::new(kind).input("X", [x]))
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// If the operator rejects its input.
        pub fn $name(net: &mut Network, x: &Variable) -> Result<Variable> {
            unary(net, stringify!($name), x)
        })+
    };
}

unary! {
    /// The rectifier: `max(x, 0)`.
    relu,
    /// The Gaussian error linear unit, computed exactly.
    gelu,
    /// The hyperbolic tangent.
    tanh,
    /// The logistic function.
    sigmoid,
    /// Softmax along the last dim.
    softmax,
    /// The square of each element.
    square,
    /// The negation of each Boolean.
    logical_not,
}

/// `add`, `sub`, `mul`, `div`, `max`, `min`, `pow`: the dims of the second operand are aligned with those of the first from
/// `axis`; -1 aligns them at the end.
///
/// # Errors
/// If the dims do not match.
pub fn elementwise(
    net: &mut Network,
    kind: &str,
    x: &Variable,
    y: &Variable,
    axis: i32,
) -> Result<Variable> {
    let kind = format!("elementwise_{kind}");
    let name = net.name(&kind);
    let both = Operator::new(&kind).input("X", [x]).input("Y", [y]).attribute("axis", axis);
    net.call(&name, "Out", both)
}

/// `sum`, `mean`, `max`, `min`, `prod` over dims; over all if `dims` is empty.
///
/// # Errors
/// If a dim does not exist.
pub fn reduce(
    net: &mut Network,
    kind: &str,
    x: &Variable,
    dims: &[i32],
    keep: bool,
) -> Result<Variable> {
    let kind = format!("reduce_{kind}");
    let name = net.name(&kind);
    // Empty dims mean all of them; for a sum, `reduce_all` is not set as well.
    let reduce = Operator::new(&kind)
        .input("X", [x])
        .attribute("dim", dims.to_vec())
        .attribute("keep_dim", keep)
        .attribute("reduce_all", dims.is_empty() && kind != "reduce_sum");
    net.call(&name, "Out", reduce)
}

/// The mean of all elements.
///
/// # Errors
/// If the operator rejects its input.
pub fn mean(net: &mut Network, x: &Variable) -> Result<Variable> {
    reduce(net, "mean", x, &[], false)
}

/// Multiplies each element by a factor, and adds a bias.
///
/// # Errors
/// If the operator rejects its input.
pub fn scale(net: &mut Network, x: &Variable, factor: f32, bias: f32) -> Result<Variable> {
    let name = net.name("scale");
    let scale = Operator::new("scale").input("X", [x]).attribute("scale", factor);
    net.call(&name, "Out", scale.attribute("bias", bias))
}

/// Converts the elements to another type.
///
/// # Errors
/// If programs do not have the type, or the variable does not exist.
pub fn cast(net: &mut Network, x: &Variable, dtype: DType) -> Result<Variable> {
    let name = net.name("cast");
    let from = net.dtype(x)?;
    let cast = Operator::new("cast").input("X", [x]);
    net.call(&name, "Out", cast.dtype("in_dtype", from).dtype("out_dtype", dtype))
}

/// Appends a comparison such as `less_than`.
fn compare(net: &mut Network, kind: &str, x: &Variable, y: &Variable) -> Result<Variable> {
    let name = net.name(kind);
    net.call(&name, "Out", Operator::new(kind).input("X", [x]).input("Y", [y]))
}

macro_rules! compare {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// If the dims do not match.
        pub fn $name(net: &mut Network, x: &Variable, y: &Variable) -> Result<Variable> {
            compare(net, stringify!($name), x, y)
        })+
    };
}

compare! {
    /// Whether the first is less than the second.
    less_than,
    /// Whether the first is at most the second.
    less_equal,
    /// Whether the first is greater than the second.
    greater_than,
    /// Whether the first is at least the second.
    greater_equal,
    /// Whether both are equal.
    equal,
    /// Whether both differ.
    not_equal,
    /// Whether both are true.
    logical_and,
    /// Whether at least one is true.
    logical_or,
    /// Whether exactly one is true.
    logical_xor,
}

/// Changes the dims: 0 keeps a dim, -1 is inferred.
///
/// # Errors
/// If the number of elements does not match.
pub fn reshape(net: &mut Network, x: &Variable, shape: &[i32]) -> Result<Variable> {
    let name = net.name("reshape2");
    let shapes = Variable::named(&net.name(&format!("{name}.tmp")));
    let reshape = Operator::new("reshape2").input("X", [x]).output("XShape", [&shapes]);
    net.call(&name, "Out", reshape.attribute("shape", shape.to_vec()))
}

/// Concatenates tensors along an axis.
///
/// # Errors
/// If their dims do not match.
pub fn concat(net: &mut Network, values: &[&Variable], axis: i32) -> Result<Variable> {
    let name = net.name("concat");
    let concat = Operator::new("concat").input("X", values.iter().copied());
    net.call(&name, "Out", concat.attribute("axis", axis))
}

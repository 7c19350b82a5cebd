//! Element by element, along extents, and the same elements under other extents.

use lodstone_model::DType;

use crate::program::error::Result;
use crate::program::network::{Network, Variable};
use crate::program::operator::Operator;

/// The operator of one input and one output that is called so: `relu`, `tanh`, `mean`.
pub(super) fn unary(net: &mut Network, kind: &str, x: &Variable) -> Result<Variable> {
    let name = net.name(kind);
    net.call(&name, "Out", Operator::new(kind).input("X", [x]))
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// If it cannot take what it is given.
        pub fn $name(net: &mut Network, x: &Variable) -> Result<Variable> {
            unary(net, stringify!($name), x)
        })+
    };
}

unary! {
    /// What is above 0.
    relu,
    /// The exact curve of Gauss' error function.
    gelu,
    /// The hyperbolic tangent.
    tanh,
    /// The logistic curve.
    sigmoid,
    /// Shares along the last extent.
    softmax,
    /// Each element times itself.
    square,
    /// Where it is not true.
    logical_not,
}

/// `add`, `sub`, `mul`, `div`, `max`, `min`, `pow`: the second is laid over the first from `axis` on; -1 for its
/// end.
///
/// # Errors
/// If they do not fit each other.
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

/// `sum`, `mean`, `max`, `min`, `prod` over extents; over all if there are none.
///
/// # Errors
/// If there are no such extents.
pub fn reduce(
    net: &mut Network,
    kind: &str,
    x: &Variable,
    dims: &[i32],
    keep: bool,
) -> Result<Variable> {
    let kind = format!("reduce_{kind}");
    let name = net.name(&kind);
    // No extents are all of them; a sum is not told so twice.
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
/// If it cannot take what it is given.
pub fn mean(net: &mut Network, x: &Variable) -> Result<Variable> {
    reduce(net, "mean", x, &[], false)
}

/// Each element times a number, and then another added.
///
/// # Errors
/// If it cannot take what it is given.
pub fn scale(net: &mut Network, x: &Variable, factor: f32, bias: f32) -> Result<Variable> {
    let name = net.name("scale");
    let scale = Operator::new("scale").input("X", [x]).attribute("scale", factor);
    net.call(&name, "Out", scale.attribute("bias", bias))
}

/// The elements as another type.
///
/// # Errors
/// If the program has no such type, or no such variable.
pub fn cast(net: &mut Network, x: &Variable, dtype: DType) -> Result<Variable> {
    let name = net.name("cast");
    let from = net.dtype(x)?;
    let cast = Operator::new("cast").input("X", [x]);
    net.call(&name, "Out", cast.dtype("in_dtype", from).dtype("out_dtype", dtype))
}

/// `less_than` and its like: of which elements of two it is true.
fn compare(net: &mut Network, kind: &str, x: &Variable, y: &Variable) -> Result<Variable> {
    let name = net.name(kind);
    net.call(&name, "Out", Operator::new(kind).input("X", [x]).input("Y", [y]))
}

macro_rules! compare {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// If the two do not fit each other.
        pub fn $name(net: &mut Network, x: &Variable, y: &Variable) -> Result<Variable> {
            compare(net, stringify!($name), x, y)
        })+
    };
}

compare! {
    /// Where the first is below the second.
    less_than,
    /// Where the first is not above the second.
    less_equal,
    /// Where the first is above the second.
    greater_than,
    /// Where the first is not below the second.
    greater_equal,
    /// Where the two are the same.
    equal,
    /// Where the two are not the same.
    not_equal,
    /// Where both are true.
    logical_and,
    /// Where one of the two is true, or both.
    logical_or,
    /// Where one of the two is true.
    logical_xor,
}

/// Other extents: 0 keeps one, -1 is what is left.
///
/// # Errors
/// If the elements do not fit them.
pub fn reshape(net: &mut Network, x: &Variable, shape: &[i32]) -> Result<Variable> {
    let name = net.name("reshape2");
    let shapes = Variable::named(&net.name(&format!("{name}.tmp")));
    let reshape = Operator::new("reshape2").input("X", [x]).output("XShape", [&shapes]);
    net.call(&name, "Out", reshape.attribute("shape", shape.to_vec()))
}

/// One behind the other along an axis.
///
/// # Errors
/// If they do not fit each other.
pub fn concat(net: &mut Network, values: &[&Variable], axis: i32) -> Result<Variable> {
    let name = net.name("concat");
    let concat = Operator::new("concat").input("X", values.iter().copied());
    net.call(&name, "Out", concat.attribute("axis", axis))
}

//! Arithmetic and comparisons, of two tensors or with a scalar.
//!
//! Comparisons return numbers of the type of their operands.

use lodstone_model::DType;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule};
use crate::onnx::{Value, int};

/// A function of two values.
pub(super) type Binary = fn(&mut Node<'_>, &Value, &Value) -> Outcome;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("_contrib_quadratic", Rule::One(quadratic)),
    ("_div_scalar", Rule::One(|node| scalar(node, div))),
    ("_equal", Rule::One(|node| equal_shapes(node, equal))),
    ("_equal_scalar", Rule::One(|node| scalar(node, equal))),
    ("_grad_add", Rule::One(|node| equal_shapes(node, add))),
    ("_greater", Rule::One(|node| equal_shapes(node, greater))),
    ("_greater_equal", Rule::One(|node| equal_shapes(node, greater_equal))),
    ("_greater_equal_scalar", Rule::One(|node| scalar(node, greater_equal))),
    ("_greater_scalar", Rule::One(|node| scalar(node, greater))),
    ("_hypot", Rule::One(|node| equal_shapes(node, hypot))),
    ("_hypot_scalar", Rule::One(|node| scalar(node, hypot))),
    ("_lesser", Rule::One(|node| equal_shapes(node, lesser))),
    ("_lesser_equal", Rule::One(|node| equal_shapes(node, lesser_equal))),
    ("_lesser_equal_scalar", Rule::One(|node| scalar(node, lesser_equal))),
    ("_lesser_scalar", Rule::One(|node| scalar(node, lesser))),
    ("_logical_and", Rule::One(|node| equal_shapes(node, and))),
    ("_logical_and_scalar", Rule::One(|node| scalar(node, and))),
    ("_logical_or", Rule::One(|node| equal_shapes(node, or))),
    ("_logical_or_scalar", Rule::One(|node| scalar(node, or))),
    ("_logical_xor", Rule::One(|node| equal_shapes(node, xor))),
    ("_logical_xor_scalar", Rule::One(|node| scalar(node, xor))),
    ("_maximum", Rule::One(|node| equal_shapes(node, maximum))),
    ("_maximum_scalar", Rule::One(|node| scalar(node, maximum))),
    ("_minimum", Rule::One(|node| equal_shapes(node, minimum))),
    ("_minimum_scalar", Rule::One(|node| scalar(node, minimum))),
    ("_minus_scalar", Rule::One(|node| scalar(node, sub))),
    ("_mod", Rule::One(|node| equal_shapes(node, modulo))),
    ("_mod_scalar", Rule::One(|node| scalar(node, modulo))),
    ("_mul_scalar", Rule::One(|node| scalar(node, mul))),
    ("_not_equal", Rule::One(|node| equal_shapes(node, not_equal))),
    ("_not_equal_scalar", Rule::One(|node| scalar(node, not_equal))),
    ("_plus_scalar", Rule::One(|node| scalar(node, add))),
    ("_power", Rule::One(|node| equal_shapes(node, power))),
    ("_power_scalar", Rule::One(|node| scalar(node, power))),
    ("_rdiv_scalar", Rule::One(|node| scalar(node, |node, x, y| div(node, y, x)))),
    ("_rminus_scalar", Rule::One(|node| scalar(node, |node, x, y| sub(node, y, x)))),
    ("_rmod_scalar", Rule::One(|node| scalar(node, |node, x, y| modulo(node, y, x)))),
    ("_rpower_scalar", Rule::One(|node| scalar(node, |node, x, y| power(node, y, x)))),
    ("_scatter_elemwise_div", Rule::One(|node| equal_shapes(node, div))),
    ("_scatter_minus_scalar", Rule::One(|node| scalar(node, sub))),
    ("_scatter_plus_scalar", Rule::One(|node| scalar(node, add))),
    ("add_n", Rule::One(add_n)),
    ("broadcast_add", Rule::One(|node| broadcast(node, add))),
    ("broadcast_div", Rule::One(|node| broadcast(node, div))),
    ("broadcast_equal", Rule::One(|node| broadcast(node, equal))),
    ("broadcast_greater", Rule::One(|node| broadcast(node, greater))),
    ("broadcast_greater_equal", Rule::One(|node| broadcast(node, greater_equal))),
    ("broadcast_hypot", Rule::One(|node| broadcast(node, hypot))),
    ("broadcast_lesser", Rule::One(|node| broadcast(node, lesser))),
    ("broadcast_lesser_equal", Rule::One(|node| broadcast(node, lesser_equal))),
    ("broadcast_logical_and", Rule::One(|node| broadcast(node, and))),
    ("broadcast_logical_or", Rule::One(|node| broadcast(node, or))),
    ("broadcast_logical_xor", Rule::One(|node| broadcast(node, xor))),
    ("broadcast_maximum", Rule::One(|node| broadcast(node, maximum))),
    ("broadcast_minimum", Rule::One(|node| broadcast(node, minimum))),
    ("broadcast_mod", Rule::One(|node| broadcast(node, modulo))),
    ("broadcast_mul", Rule::One(|node| broadcast(node, mul))),
    ("broadcast_not_equal", Rule::One(|node| broadcast(node, not_equal))),
    ("broadcast_power", Rule::One(|node| broadcast(node, power))),
    ("broadcast_sub", Rule::One(|node| broadcast(node, sub))),
    ("elemwise_add", Rule::One(|node| equal_shapes(node, add))),
    ("elemwise_div", Rule::One(|node| equal_shapes(node, div))),
    ("elemwise_mul", Rule::One(|node| equal_shapes(node, mul))),
    ("elemwise_sub", Rule::One(|node| equal_shapes(node, sub))),
    ("smooth_l1", Rule::One(smooth_l1)),
];

fn broadcast(node: &mut Node<'_>, function: Binary) -> Outcome {
    let [x, y] = node.exactly()?;
    function(node, &x, &y)
}

fn equal_shapes(node: &mut Node<'_>, function: Binary) -> Outcome {
    let [x, y] = node.exactly()?;
    check_equal(&x, &y)?;
    function(node, &x, &y)
}

/// Fails if two values have different dims: ONNX would broadcast them.
fn check_equal(x: &Value, y: &Value) -> Outcome<()> {
    let (Ok(left), Ok(right)) = (x.shape(), y.shape()) else { return Ok(()) };
    let is_other = |(x, y): (&lodstone_model::Dim, &lodstone_model::Dim)| {
        use lodstone_model::Dim::Known;
        matches!((x, y), (Known(x), Known(y)) if x != y)
    };
    match left.len() == right.len() && !left.iter().zip(right).any(is_other) {
        true => Ok(()),
        false => {
            Err(format!("expected operands of one shape, found {left:?} and {right:?}").into())
        }
    }
}

/// Applies a function to the input and the attribute `scalar`.
fn scalar(node: &mut Node<'_>, function: Binary) -> Outcome {
    let [x] = node.exactly()?;
    let number = node.attributes.float("scalar", 1.0)?;
    let is_int = node.attributes.flag("is_int", true)?;
    let x = node.promoted_by(&x, is_int)?;
    // The fraction is cut off if the input has integers.
    let number = node.number(x.dtype(), number)?;
    function(node, &x, &number)
}

impl Node<'_> {
    /// Returns a value in the type that it has in arithmetic with a number: integers become floats unless the number is
    /// one of theirs.
    pub(super) fn promoted_by(&mut self, x: &Value, is_int: bool) -> Outcome {
        match is_int || x.dtype().is_float() {
            true => Ok(x.clone()),
            false => self.cast(x, DType::Float64),
        }
    }
}

fn add_n(node: &mut Node<'_>) -> Outcome {
    let all = node.all()?;
    for other in all.iter().skip(1) {
        check_equal(all.first().unwrap_or(other), other)?;
    }
    node.call("Sum", &all.iter().collect::<Vec<_>>(), [])
}

fn add(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    node.add(x, y)
}

fn sub(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    node.sub(x, y)
}

fn mul(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    node.mul(x, y)
}

fn div(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    node.div(x, y)
}

fn maximum(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    node.call("Max", &[x, y], [])
}

fn minimum(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    node.call("Min", &[x, y], [])
}

fn power(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    node.call("Pow", &[x, y], [])
}

pub(super) fn hypot(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    let (x, y) = (node.mul(x, x)?, node.mul(y, y)?);
    let sum = node.add(&x, &y)?;
    node.as_floats(&sum, |node, sum| node.call("Sqrt", &[sum], []))
}

/// The remainder has the sign of the divisor; that of a division by 0 is 0.
pub(super) fn modulo(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    if !x.dtype().is_float() {
        return node.call("Mod", &[x, y], []);
    }
    let zero = node.number(x.dtype(), 0.0)?;
    let rest = node.call("Mod", &[x, y], [int("fmod", 1)])?;
    let product = node.mul(&rest, y)?;
    let is_opposite = node.call("Less", &[&product, &zero], [])?;
    let moved = node.add(&rest, y)?;
    let rest = node.choose(&is_opposite, &moved, &rest)?;
    let is_none = node.call("Equal", &[y, &zero], [])?;
    node.choose(&is_none, &zero, &rest)
}

/// Compares by an ONNX operator.
fn compare(node: &mut Node<'_>, kind: &str, x: &Value, y: &Value) -> Outcome {
    let marks = node.call(kind, &[x, y], [])?;
    node.cast(&marks, x.dtype())
}

fn equal(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    compare(node, "Equal", x, y)
}

fn not_equal(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    let marks = node.call("Equal", &[x, y], [])?;
    let marks = node.call("Not", &[&marks], [])?;
    node.cast(&marks, x.dtype())
}

fn greater(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    compare(node, "Greater", x, y)
}

fn greater_equal(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    compare(node, "GreaterOrEqual", x, y)
}

fn lesser(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    compare(node, "Less", x, y)
}

fn lesser_equal(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    compare(node, "LessOrEqual", x, y)
}

fn logical(node: &mut Node<'_>, kind: &str, x: &Value, y: &Value) -> Outcome {
    let (left, right) = (node.cast(x, DType::Bool)?, node.cast(y, DType::Bool)?);
    let marks = node.call(kind, &[&left, &right], [])?;
    node.cast(&marks, x.dtype())
}

fn and(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    logical(node, "And", x, y)
}

fn or(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    logical(node, "Or", x, y)
}

fn xor(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    logical(node, "Xor", x, y)
}

/// A parabola near 0, and lines beyond `1 / scalar²`.
fn smooth_l1(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let sigma = node.attributes.float("scalar", 1.0)?;
    node.attributes.flag("is_int", true)?;
    let square = sigma * sigma;
    if square == 0.0 {
        return Err(wrong("scalar", "a number other than 0", "0"));
    }
    let size = node.call("Abs", &[&x], [])?;
    let edge = node.number(x.dtype(), 1.0 / square)?;
    let is_near = node.call("Less", &[&size, &edge], [])?;
    let parabola = node.mul(&x, &x)?;
    let parabola = node.times(&parabola, 0.5 * square)?;
    let line = node.plus(&size, -0.5 / square)?;
    node.choose(&is_near, &parabola, &line)
}

fn quadratic(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let factor = |name: &str| node.attributes.float(name, 0.0);
    let (a, b, c) = (factor("a")?, factor("b")?, factor("c")?);
    let square = node.mul(&x, &x)?;
    let (square, line) = (node.times(&square, a)?, node.times(&x, b)?);
    let sum = node.add(&square, &line)?;
    node.plus(&sum, c)
}

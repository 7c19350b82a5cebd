//! Functions of each element.

use lodstone_model::DType;
use lodstone_schema::numbers::exact;

use crate::onnx::{Value, int};
use crate::torch::node::{Node, Outcome, Rule};
use crate::torch::promote::{Category, category};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::abs", Rule::One(absolute)),
    ("aten::absolute", Rule::One(absolute)),
    ("aten::acos", Rule::One(|node| function(node, "Acos"))),
    ("aten::acosh", Rule::One(|node| function(node, "Acosh"))),
    ("aten::arccos", Rule::One(|node| function(node, "Acos"))),
    ("aten::arccosh", Rule::One(|node| function(node, "Acosh"))),
    ("aten::arcsin", Rule::One(|node| function(node, "Asin"))),
    ("aten::arcsinh", Rule::One(|node| function(node, "Asinh"))),
    ("aten::arctan", Rule::One(|node| function(node, "Atan"))),
    ("aten::arctanh", Rule::One(|node| function(node, "Atanh"))),
    ("aten::asin", Rule::One(|node| function(node, "Asin"))),
    ("aten::asinh", Rule::One(|node| function(node, "Asinh"))),
    ("aten::atan", Rule::One(|node| function(node, "Atan"))),
    ("aten::atanh", Rule::One(|node| function(node, "Atanh"))),
    ("aten::bitwise_not", Rule::One(bitwise_not)),
    ("aten::ceil", Rule::One(|node| rounding(node, "Ceil"))),
    ("aten::cos", Rule::One(|node| function(node, "Cos"))),
    ("aten::cosh", Rule::One(|node| function(node, "Cosh"))),
    ("aten::deg2rad", Rule::One(|node| scaled(node, std::f64::consts::PI / 180.0))),
    ("aten::erf", Rule::One(|node| function(node, "Erf"))),
    ("aten::erfc", Rule::One(erfc)),
    ("aten::exp", Rule::One(|node| function(node, "Exp"))),
    ("aten::exp2", Rule::One(exp2)),
    ("aten::expm1", Rule::One(expm1)),
    ("aten::fix", Rule::One(trunc)),
    ("aten::floor", Rule::One(|node| rounding(node, "Floor"))),
    ("aten::frac", Rule::One(frac)),
    ("aten::isfinite", Rule::One(is_finite)),
    ("aten::isinf", Rule::One(|node| infinite(node, true, true))),
    ("aten::isnan", Rule::One(is_nan)),
    ("aten::isneginf", Rule::One(|node| infinite(node, true, false))),
    ("aten::isposinf", Rule::One(|node| infinite(node, false, true))),
    ("aten::log", Rule::One(|node| function(node, "Log"))),
    ("aten::log10", Rule::One(|node| logarithm(node, std::f64::consts::LN_10))),
    ("aten::log1p", Rule::One(log1p)),
    ("aten::log2", Rule::One(|node| logarithm(node, std::f64::consts::LN_2))),
    ("aten::logical_not", Rule::One(logical_not)),
    ("aten::logit", Rule::One(logit)),
    ("aten::nan_to_num", Rule::One(nan_to_num)),
    ("aten::neg", Rule::One(negative)),
    ("aten::negative", Rule::One(negative)),
    ("aten::positive", Rule::One(|node| node.tensor("self"))),
    ("aten::rad2deg", Rule::One(|node| scaled(node, 180.0 / std::f64::consts::PI))),
    ("aten::reciprocal", Rule::One(|node| function(node, "Reciprocal"))),
    ("aten::round", Rule::One(round)),
    ("aten::rsqrt", Rule::One(rsqrt)),
    ("aten::sgn", Rule::One(sign)),
    ("aten::sigmoid", Rule::One(|node| function(node, "Sigmoid"))),
    ("aten::sign", Rule::One(sign)),
    ("aten::signbit", Rule::One(sign_bit)),
    ("aten::sin", Rule::One(|node| function(node, "Sin"))),
    ("aten::sinc", Rule::One(sinc)),
    ("aten::sinh", Rule::One(|node| function(node, "Sinh"))),
    ("aten::special_erf", Rule::One(|node| function(node, "Erf"))),
    ("aten::special_expit", Rule::One(|node| function(node, "Sigmoid"))),
    ("aten::sqrt", Rule::One(|node| function(node, "Sqrt"))),
    ("aten::square", Rule::One(square)),
    ("aten::tan", Rule::One(|node| function(node, "Tan"))),
    ("aten::tanh", Rule::One(|node| function(node, "Tanh"))),
    ("aten::trunc", Rule::One(trunc)),
];

/// Applies a function of floats; integers are cast.
fn function(node: &mut Node<'_>, kind: &str) -> Outcome {
    let x = node.floats("self")?;
    node.call(kind, &[&x], [])
}

/// Applies a function that rounds; integers stay as they are.
fn rounding(node: &mut Node<'_>, kind: &str) -> Outcome {
    let x = node.tensor("self")?;
    match category(x.dtype())? {
        Category::Float => node.call(kind, &[&x], []),
        _ => Ok(x),
    }
}

fn absolute(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    node.call("Abs", &[&x], [])
}

fn negative(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    node.call("Neg", &[&x], [])
}

fn sign(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    if x.dtype() == DType::Bool {
        return Ok(x);
    }
    node.call("Sign", &[&x], [])
}

fn scaled(node: &mut Node<'_>, factor: f64) -> Outcome {
    let x = node.floats("self")?;
    node.times(&x, factor)
}

fn erfc(node: &mut Node<'_>) -> Outcome {
    let x = node.floats("self")?;
    let erf = node.call("Erf", &[&x], [])?;
    let one = node.number(x.dtype(), 1.0)?;
    node.sub(&one, &erf)
}

fn exp2(node: &mut Node<'_>) -> Outcome {
    let x = node.floats("self")?;
    let two = node.number(x.dtype(), 2.0)?;
    node.call("Pow", &[&two, &x], [])
}

/// `exp(x) - 1` as `2 * tanh(x / 2) / (1 - tanh(x / 2))`, which is exact near 0; the plain form elsewhere.
fn expm1(node: &mut Node<'_>) -> Outcome {
    let x = node.floats("self")?;
    let exp = node.call("Exp", &[&x], [])?;
    let plain = node.plus(&exp, -1.0)?;
    let half = node.times(&x, 0.5)?;
    let tanh = node.call("Tanh", &[&half], [])?;
    let double = node.times(&tanh, 2.0)?;
    let one = node.number(x.dtype(), 1.0)?;
    let rest = node.sub(&one, &tanh)?;
    let near = node.div(&double, &rest)?;
    let size = node.call("Abs", &[&x], [])?;
    let limit = node.number(x.dtype(), 0.5)?;
    let is_near = node.call("Less", &[&size, &limit], [])?;
    node.choose(&is_near, &near, &plain)
}

/// `log(1 + x)`, corrected for the rounding of `1 + x`.
fn log1p(node: &mut Node<'_>) -> Outcome {
    let x = node.floats("self")?;
    let sum = node.plus(&x, 1.0)?;
    let log = node.call("Log", &[&sum], [])?;
    let rounded = node.plus(&sum, -1.0)?;
    let ratio = node.div(&x, &rounded)?;
    let exact = node.mul(&log, &ratio)?;
    // Below the precision of 1, the logarithm is x itself; an infinite x is one, too.
    let zero = node.number(x.dtype(), 0.0)?;
    let is_tiny = node.call("Equal", &[&rounded, &zero], [])?;
    let finite = node.choose(&is_tiny, &x, &exact)?;
    let is_infinite = node.call("IsInf", &[&x], [])?;
    node.choose(&is_infinite, &log, &finite)
}

fn logarithm(node: &mut Node<'_>, base: f64) -> Outcome {
    let x = node.floats("self")?;
    let log = node.call("Log", &[&x], [])?;
    let base = node.number(x.dtype(), base)?;
    node.div(&log, &base)
}

fn rsqrt(node: &mut Node<'_>) -> Outcome {
    let x = node.floats("self")?;
    let root = node.call("Sqrt", &[&x], [])?;
    node.call("Reciprocal", &[&root], [])
}

fn square(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let x = if x.dtype() == DType::Bool { node.cast(&x, DType::Int64)? } else { x };
    node.mul(&x, &x)
}

/// Rounds towards zero.
pub(super) fn truncated(node: &mut Node<'_>, x: &Value) -> Outcome {
    if category(x.dtype())? != Category::Float {
        return Ok(x.clone());
    }
    let (size, sign) = (node.call("Abs", &[x], [])?, node.call("Sign", &[x], [])?);
    let floor = node.call("Floor", &[&size], [])?;
    node.mul(&floor, &sign)
}

fn trunc(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    truncated(node, &x)
}

fn frac(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let whole = truncated(node, &x)?;
    node.sub(&x, &whole)
}

/// Rounds half to even, to a number of decimals.
fn round(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    // Without the argument, it rounds to integers.
    let decimals = node.arguments.optional_int("decimals")?.unwrap_or(0);
    if category(x.dtype())? != Category::Float {
        return match decimals {
            0 => Ok(x),
            _ => Err("rounding integers to decimals is not supported".into()),
        };
    }
    if decimals == 0 {
        return node.call("Round", &[&x], []);
    }
    let power = exact::<i32, i64>(decimals.clamp(-300, 300))?.abs();
    let factor = node.number(x.dtype(), 10f64.powi(power))?;
    let scaled = if decimals > 0 { node.mul(&x, &factor)? } else { node.div(&x, &factor)? };
    let rounded = node.call("Round", &[&scaled], [])?;
    if decimals > 0 { node.div(&rounded, &factor) } else { node.mul(&rounded, &factor) }
}

fn bitwise_not(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let kind = if x.dtype() == DType::Bool { "Not" } else { "BitwiseNot" };
    node.call(kind, &[&x], [])
}

fn logical_not(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let x = node.cast(&x, DType::Bool)?;
    node.call("Not", &[&x], [])
}

fn is_nan(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    match category(x.dtype())? {
        Category::Float => node.call("IsNaN", &[&x], []),
        _ => node.constant_like(&x, DType::Bool, 0.0),
    }
}

fn infinite(node: &mut Node<'_>, negative: bool, positive: bool) -> Outcome {
    let x = node.tensor("self")?;
    if category(x.dtype())? != Category::Float {
        return node.constant_like(&x, DType::Bool, 0.0);
    }
    let flags =
        [int("detect_negative", i64::from(negative)), int("detect_positive", i64::from(positive))];
    node.call("IsInf", &[&x], flags)
}

fn is_finite(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    if category(x.dtype())? != Category::Float {
        return node.constant_like(&x, DType::Bool, 1.0);
    }
    let (nan, inf) = (node.call("IsNaN", &[&x], [])?, node.call("IsInf", &[&x], [])?);
    let either = node.call("Or", &[&nan, &inf], [])?;
    node.call("Not", &[&either], [])
}

fn sign_bit(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let zero = node.number(x.dtype(), 0.0)?;
    node.call("Less", &[&x, &zero], [])
}

fn sinc(node: &mut Node<'_>) -> Outcome {
    let x = node.floats("self")?;
    let angle = node.times(&x, std::f64::consts::PI)?;
    let sin = node.call("Sin", &[&angle], [])?;
    let ratio = node.div(&sin, &angle)?;
    let (zero, one) = (node.number(x.dtype(), 0.0)?, node.number(x.dtype(), 1.0)?);
    let is_zero = node.call("Equal", &[&x, &zero], [])?;
    node.choose(&is_zero, &one, &ratio)
}

fn logit(node: &mut Node<'_>) -> Outcome {
    let mut x = node.floats("self")?;
    if let Some(eps) = node.arguments.optional_float("eps")? {
        x = node.clamp(&x, eps, 1.0 - eps)?;
    }
    let one = node.number(x.dtype(), 1.0)?;
    let rest = node.sub(&one, &x)?;
    let odds = node.div(&x, &rest)?;
    node.call("Log", &[&odds], [])
}

/// The largest finite number of a type.
pub(super) fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::Float16 => 65504.0,
        DType::BFloat16 => 3.389_531_389_251_535_5e38,
        DType::Float64 => f64::MAX,
        _ => f64::from(f32::MAX),
    }
}

fn nan_to_num(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    // `None` is 0, as in PyTorch.
    let nan = node.arguments.optional_float("nan")?.unwrap_or(0.0);
    let most = node.arguments.optional_float("posinf")?.unwrap_or(largest(x.dtype()));
    let least = node.arguments.optional_float("neginf")?.unwrap_or(-largest(x.dtype()));
    if category(x.dtype())? != Category::Float {
        return Ok(x);
    }
    let nan = node.number(x.dtype(), nan)?;
    let is_nan = node.call("IsNaN", &[&x], [])?;
    let mut y = node.choose(&is_nan, &nan, &x)?;
    for (number, negative) in [(most, false), (least, true)] {
        let number = node.number(x.dtype(), number)?;
        let flags = [
            int("detect_negative", i64::from(negative)),
            int("detect_positive", i64::from(!negative)),
        ];
        let is_it = node.call("IsInf", &[&x], flags)?;
        y = node.choose(&is_it, &number, &y)?;
    }
    Ok(y)
}

//! Elementary functions of each element: trigonometry, exponentials, logarithms, truncation.

use lodstone_model::DType;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, float};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("acos", |op| op.same("Acos")),
    ("acosh", |op| op.same("Acosh")),
    ("asin", |op| op.same("Asin")),
    ("asinh", |op| op.same("Asinh")),
    ("atan", |op| op.same("Atan")),
    ("atan2", atan2),
    ("atanh", |op| op.same("Atanh")),
    ("celu", celu),
    ("cosh", |op| op.same("Cosh")),
    ("expm1", expm1),
    ("isinf_v2", is_infinite),
    ("log10", log10),
    ("logit", logit),
    ("sinh", |op| op.same("Sinh")),
    ("stanh", scaled_tanh),
    ("tan", |op| op.same("Tan")),
    ("tanh_shrink", tanh_shrink),
    ("trunc", trunc),
];

/// Returns the input; integers become single precision.
fn floats(op: &mut Operator<'_>) -> Outcome<Value> {
    let x = op.input("X")?;
    match x.dtype().is_float() {
        true => Ok(x),
        false => op.cast(&x, DType::Float32),
    }
}

/// `tanh(x / 2) (exp(x) + 1)`, which keeps the precision of small numbers.
fn expm1(op: &mut Operator<'_>) -> Outcome {
    let x = floats(op)?;
    let half = op.times(&x, 0.5)?;
    let tanh = op.call("Tanh", &[&half], [])?;
    let exp = op.call("Exp", &[&x], [])?;
    let more = op.plus(&exp, 1.0)?;
    let y = op.mul(&tanh, &more)?;
    op.put("Out", &y)
}

fn log10(op: &mut Operator<'_>) -> Outcome {
    let x = floats(op)?;
    let log = op.call("Log", &[&x], [])?;
    let y = op.times(&log, std::f64::consts::LOG10_E)?;
    op.put("Out", &y)
}

/// `log(x / (1 - x))`, of numbers that are clipped to `eps` and `1 - eps` first.
fn logit(op: &mut Operator<'_>) -> Outcome {
    let (x, eps) = (op.input("X")?, f64::from(op.float("eps")?));
    let x = if eps == 0.0 { x } else { op.clamp(&x, eps, 1.0 - eps)? };
    let one = op.number(x.dtype(), 1.0)?;
    let rest = op.sub(&one, &x)?;
    let odds = op.div(&x, &rest)?;
    let y = op.call("Log", &[&odds], [])?;
    op.put("Out", &y)
}

/// `max(x, 0) + min(alpha (exp(x / alpha) - 1), 0)`.
fn celu(op: &mut Operator<'_>) -> Outcome {
    let (x, alpha) = (op.input("X")?, op.float("alpha")?);
    if x.dtype() == DType::Float32 && alpha > 0.0 {
        let y = op.call("Celu", &[&x], [float("alpha", alpha)])?;
        return op.put("Out", &y);
    }
    let scaled = op.times(&x, 1.0 / f64::from(alpha))?;
    let exp = op.call("Exp", &[&scaled], [])?;
    let exp = op.plus(&exp, -1.0)?;
    let exp = op.times(&exp, alpha.into())?;
    let zero = op.number(x.dtype(), 0.0)?;
    let below = op.call("Min", &[&exp, &zero], [])?;
    let above = op.call("Max", &[&x, &zero], [])?;
    let y = op.add(&above, &below)?;
    op.put("Out", &y)
}

fn tanh_shrink(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let tanh = op.call("Tanh", &[&x], [])?;
    let y = op.sub(&x, &tanh)?;
    op.put("Out", &y)
}

/// `scale_b tanh(scale_a x)`.
fn scaled_tanh(op: &mut Operator<'_>) -> Outcome {
    let (x, inner, outer) = (op.input("X")?, op.float("scale_a")?, op.float("scale_b")?);
    let scaled = op.times(&x, inner.into())?;
    let tanh = op.call("Tanh", &[&scaled], [])?;
    let y = op.times(&tanh, outer.into())?;
    op.put("Out", &y)
}

/// Rounds towards zero. Integers are whole already.
fn trunc(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    if !x.dtype().is_float() {
        return op.put("Out", &x);
    }
    let zero = op.number(x.dtype(), 0.0)?;
    let is_negative = op.call("Less", &[&x, &zero], [])?;
    let (up, down) = (op.call("Ceil", &[&x], [])?, op.call("Floor", &[&x], [])?);
    let y = op.choose(&is_negative, &up, &down)?;
    op.put("Out", &y)
}

/// Integers are finite.
fn is_infinite(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let y = match x.dtype().is_float() {
        true => op.call("IsInf", &[&x], [])?,
        false => {
            let same = op.call("Equal", &[&x, &x], [])?;
            op.call("Not", &[&same], [])?
        }
    };
    op.put("Out", &y)
}

/// The angle of the point (`X2`, `X1`): that of its absolute coordinates, mirrored by their signs, including those of
/// zeros. Integers become doubles.
fn atan2(op: &mut Operator<'_>) -> Outcome {
    let (y, x) = (op.input("X1")?, op.input("X2")?);
    let to = if y.dtype().is_float() { y.dtype() } else { DType::Float64 };
    let (y, x) = (op.cast(&y, to)?, op.cast(&x, to)?);
    let (high, wide) = (op.call("Abs", &[&y], [])?, op.call("Abs", &[&x], [])?);
    let slope = op.div(&high, &wide)?;
    let angle = op.call("Atan", &[&slope], [])?;
    // The slopes of zeros and of infinities are NaN.
    let zero = op.number(to, 0.0)?;
    let is_zero = op.call("Equal", &[&high, &zero], [])?;
    let diagonal = op.number(to, std::f64::consts::FRAC_PI_4)?;
    let equal = op.choose(&is_zero, &zero, &diagonal)?;
    let is_equal = op.call("Equal", &[&high, &wide], [])?;
    let angle = op.choose(&is_equal, &equal, &angle)?;
    let (is_left, is_below) = (negative(op, &x)?, negative(op, &y)?);
    let half_turn = op.number(to, std::f64::consts::PI)?;
    let mirrored = op.sub(&half_turn, &angle)?;
    let angle = op.choose(&is_left, &mirrored, &angle)?;
    let below = op.call("Neg", &[&angle], [])?;
    let out = op.choose(&is_below, &below, &angle)?;
    op.put("Out", &out)
}

/// Returns which elements have a negative sign, including zeros, whose reciprocals are infinite.
fn negative(op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
    let zero = op.number(x.dtype(), 0.0)?;
    let is_below = op.call("Less", &[x, &zero], [])?;
    let inverse = op.call("Reciprocal", &[x], [])?;
    let is_negative_zero = op.call("Less", &[&inverse, &zero], [])?;
    op.call("Or", &[&is_below, &is_negative_zero], [])
}

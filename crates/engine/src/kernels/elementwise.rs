//! Element-wise functions of one, two and three inputs.

use lodstone_model::DType;

use crate::call::{Call, Outputs, one};
use crate::curves::Erf;
use crate::error::Outcome;
use crate::fused::{EpilogueStep, Rule, maximum, minimum};
use crate::operator::Operator;
use crate::simd::curves;
use crate::tensor::{
    Comparison, Dense, Division, Extreme, Integer, check_alike, floats, floats_are, floats_of_two,
    integers,
};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("Abs", |call| {
        one(number(call.input(0)?, Dense::absolute, Dense::absolute_integers)?)
    })
    .fused(|_| Some(Rule::unary(f32::abs))),
    Operator::dense("Acos", |call| one(floats!(call.input(0)?, T => |x| x.acos())?)),
    Operator::dense("Acosh", |call| one(floats!(call.input(0)?, T => |x| x.acosh())?)),
    Operator::dense("Add", |call| one(call.input(0)?.plus(call.input(1)?)?))
        .fused(|_| Some(Rule::binary(|a, b| a + b)))
        .epilogue(EpilogueStep::Sum),
    Operator::dense("And", |call| truths(call, Dense::and))
        .fused(|_| Some(Rule::logic(|a, b| a * b))),
    Operator::dense("Asin", |call| one(floats!(call.input(0)?, T => |x| x.asin())?)),
    Operator::dense("Asinh", |call| one(floats!(call.input(0)?, T => |x| x.asinh())?)),
    Operator::dense("Atan", |call| one(floats!(call.input(0)?, T => |x| x.atan())?)),
    Operator::dense("Atanh", |call| one(floats!(call.input(0)?, T => |x| x.atanh())?)),
    Operator::dense("BitShift", shift).working(0, 16),
    Operator::dense("BitwiseAnd", |call| one(call.input(0)?.and(call.input(1)?)?)),
    Operator::dense("BitwiseNot", |call| one(call.input(0)?.inverted()?)),
    Operator::dense("BitwiseOr", |call| one(call.input(0)?.or(call.input(1)?)?)),
    Operator::dense("BitwiseXor", |call| one(call.input(0)?.xor(call.input(1)?)?)),
    Operator::dense("Ceil", |call| one(floats!(call.input(0)?, T => |x| x.ceil())?)),
    Operator::dense("Clip", clip)
        .fused(|_| Some(Rule::clamp()))
        .epilogue(EpilogueStep::Clip)
        .working(0, 6),
    Operator::dense("Cos", |call| one(floats!(call.input(0)?, T => |x| x.cos())?)),
    Operator::dense("Cosh", |call| one(floats!(call.input(0)?, T => |x| x.cosh())?)),
    Operator::dense("Div", divide).fused(|_| Some(Rule::binary(|a, b| a / b))).working(0, 16),
    Operator::dense("Erf", |call| one(floats!(call.input(0)?, T => |x| Erf::erf(x))?))
        .fused(|_| Some(Rule::unary(curves::erf)))
        .error(5e-7),
    Operator::dense("Exp", |call| one(floats!(call.input(0)?, T => |x| x.exp())?))
        .fused(|_| Some(Rule::unary(curves::exp)))
        .error(5e-7),
    Operator::dense("Floor", |call| one(floats!(call.input(0)?, T => |x| x.floor())?)),
    Operator::dense("Greater", |call| compare(call, Comparison::Less, true))
        .fused(|_| Some(Rule::comparison(f32::gt))),
    Operator::dense("GreaterOrEqual", |call| compare(call, Comparison::LessOrEqual, true))
        .fused(|_| Some(Rule::comparison(f32::ge))),
    Operator::dense("IsInf", is_inf).working(0, 2),
    Operator::dense("IsNaN", |call| one(call.input(0)?.is_nan()?)).working(0, 8),
    Operator::dense("Less", |call| compare(call, Comparison::Less, false))
        .fused(|_| Some(Rule::comparison(f32::lt))),
    Operator::dense("LessOrEqual", |call| compare(call, Comparison::LessOrEqual, false))
        .fused(|_| Some(Rule::comparison(f32::le))),
    Operator::dense("Log", |call| one(floats!(call.input(0)?, T => |x| x.ln())?))
        .fused(|_| Some(Rule::unary(f32::ln))),
    Operator::dense("Max", |call| extreme(call, Extreme::Greatest))
        .fused(|_| Some(Rule::binary(maximum)))
        .working(0, 2),
    Operator::dense("Mean", mean).working(2, 0),
    Operator::dense("Min", |call| extreme(call, Extreme::Least))
        .fused(|_| Some(Rule::binary(minimum)))
        .working(0, 2),
    Operator::dense("Mod", modulo).working(0, 16),
    Operator::dense("Mul", |call| one(call.input(0)?.times(call.input(1)?)?))
        .fused(|_| Some(Rule::binary(|a, b| a * b))),
    Operator::dense("Neg", neg).fused(|_| Some(Rule::unary(|a| -a))),
    Operator::dense("Not", not).fused(|_| Some(Rule::negation())),
    Operator::dense("Or", |call| truths(call, Dense::or)).fused(|_| Some(Rule::logic(f32::max))),
    Operator::dense("Pow", power).working(12, 0),
    Operator::dense("Reciprocal", |call| one(floats!(call.input(0)?, T => |x| 1.0 / x)?)),
    Operator::dense("Round", |call| one(call.input(0)?.rounded()?)),
    Operator::dense("Sign", sign).working(0, 2),
    Operator::dense("Sin", |call| one(floats!(call.input(0)?, T => |x| x.sin())?)),
    Operator::dense("Sinh", |call| one(floats!(call.input(0)?, T => |x| x.sinh())?)),
    Operator::dense("Sqrt", |call| one(call.input(0)?.root()?))
        .fused(|_| Some(Rule::unary(f32::sqrt))),
    Operator::dense("Sub", |call| one(call.input(0)?.minus(call.input(1)?)?))
        .fused(|_| Some(Rule::binary(|a, b| a - b))),
    Operator::dense("Sum", summed).working(2, 0),
    Operator::dense("Tan", |call| one(floats!(call.input(0)?, T => |x| x.tan())?)),
    Operator::dense("Tanh", |call| one(call.input(0)?.tanh()?))
        .fused(|_| Some(Rule::unary(curves::tanh)))
        .error(5e-7),
    Operator::dense("Where", choose).fused(|_| Some(Rule::selection())).moves(),
    Operator::dense("Xor", |call| truths(call, Dense::xor)),
];

pub(super) fn equal(call: &Call<'_>) -> Outputs {
    compare(call, Comparison::Equal, false)
}

fn is_inf(call: &Call<'_>) -> Outputs {
    let asked = |name: &str| call.int(name, 1) != 0;
    let (below, above) = (asked("detect_negative"), asked("detect_positive"));
    one(floats_are!(call.input(0)?, |x| {
        x.is_infinite() && if x > 0.0 { above } else { below }
    })?)
}

fn mean(call: &Call<'_>) -> Outputs {
    let (first, rest) = split_first(call)?;
    let sum = rest.iter().try_fold(first, |sum, next| sum.plus(next))?;
    one(sum.scaled(1.0 / (rest.len() as f64 + 1.0))?)
}

fn neg(call: &Call<'_>) -> Outputs {
    let float = |x: &Dense| floats!(x, T => |x| -x);
    one(number(call.input(0)?, float, |x| integers!(x, T => |x| Integer::negative(x)))?)
}

fn not(call: &Call<'_>) -> Outputs {
    match call.input(0)?.dtype() {
        DType::Bool => one(call.input(0)?.inverted()?),
        other => Err(format!("expected booleans, found {other}").into()),
    }
}

fn sign(call: &Call<'_>) -> Outputs {
    let float =
        |x: &Dense| floats!(x, T => |x| if x == 0.0 || x.is_nan() { x } else { x.signum() });
    one(number(call.input(0)?, float, |x| integers!(x, T => |x| Integer::sign(x)))?)
}

fn summed(call: &Call<'_>) -> Outputs {
    let (first, rest) = split_first(call)?;
    one(rest.iter().try_fold(first, |sum, next| sum.plus(next))?)
}

/// Applies the function for the elements of a tensor.
fn number(
    x: &Dense,
    floats: impl FnOnce(&Dense) -> Outcome<Dense>,
    integers: impl FnOnce(&Dense) -> Outcome<Dense>,
) -> Outcome<Dense> {
    if x.dtype().is_float() { floats(x) } else { integers(x) }
}

fn split_first(call: &Call<'_>) -> Outcome<(Dense, Vec<Dense>)> {
    let mut all = call.all();
    if all.is_empty() {
        return Err("the inputs are missing".into());
    }
    let rest = all.split_off(1);
    let first = all.pop().ok_or("the inputs are missing")?;
    Ok((first, rest))
}

/// Combines booleans.
fn truths(call: &Call<'_>, of: fn(&Dense, &Dense) -> Outcome<Dense>) -> Outputs {
    match call.input(0)?.dtype() {
        DType::Bool => one(of(call.input(0)?, call.input(1)?)?),
        other => Err(format!("expected booleans, found {other}").into()),
    }
}

/// Compares the inputs, or the second with the first.
fn compare(call: &Call<'_>, how: Comparison, is_swapped: bool) -> Outputs {
    let (a, b) = (call.input(0)?, call.input(1)?);
    one(if is_swapped { b.compared(a, how)? } else { a.compared(b, how)? })
}

/// Returns the second input where the first is true, and the third elsewhere.
fn choose(call: &Call<'_>) -> Outputs {
    one(call.input(2)?.masked(call.input(0)?, call.input(1)?)?)
}

fn extreme(call: &Call<'_>, which: Extreme) -> Outputs {
    let (first, rest) = split_first(call)?;
    one(rest.iter().try_fold(first, |best, next| best.extreme(next, which))?)
}

fn clip(call: &Call<'_>) -> Outputs {
    let mut y = call.input(0)?.clone();
    for (number, which) in [(1, Extreme::Greatest), (2, Extreme::Least)] {
        if let Some(limit) = call.optional(number) {
            if limit.count() != 1 {
                return Err(format!("expected one limit, found {:?}", limit.shape()).into());
            }
            y = y.extreme(&limit.reshaped([])?, which)?;
        }
    }
    one(y)
}

/// Integer division rounds towards 0.
fn divide(call: &Call<'_>) -> Outputs {
    let (a, b) = (call.input(0)?, call.input(1)?);
    one(if a.dtype().is_float() { a.over(b)? } else { a.divided(b, Division::Quotient)? })
}

/// The remainder has the sign of the divisor; with `fmod`, that of the dividend.
fn modulo(call: &Call<'_>) -> Outputs {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let is_truncated = call.int("fmod", 0) != 0;
    one(match (a.dtype().is_float(), is_truncated) {
        (true, true) => floats_of_two!(a, b, |x, y| x % y)?,
        // A zero has the sign of the divisor, too.
        (true, false) => floats_of_two!(a, b, |x, y| {
            let rest = x % y;
            match rest == 0.0 {
                true => rest.copysign(y),
                false if (rest < 0.0) != (y < 0.0) => rest + y,
                false => rest,
            }
        })?,
        (false, true) => a.divided(b, Division::Remainder)?,
        (false, false) => a.divided(b, Division::Modulus)?,
    })
}

/// The result has the type of the base.
fn power(call: &Call<'_>) -> Outputs {
    let (base, exponent) = (call.input(0)?, call.input(1)?);
    let to = base.dtype();
    // Integers go through double precision, which is exact up to 53 bits.
    let through = if to.is_float() { to } else { DType::Float64 };
    one(base.cast_to(through)?.raised(&exponent.cast_to(through)?)?.cast_to(to)?)
}

/// Moves the bits of integers.
fn shift(call: &Call<'_>) -> Outputs {
    let (a, b) = (call.input(0)?, call.input(1)?);
    check_alike(a, b)?;
    one(match call.text("direction").as_deref() {
        Some("LEFT") => a.moved(b, true)?,
        Some("RIGHT") => a.moved(b, false)?,
        _ => return Err("expected `LEFT` or `RIGHT` as `direction`".into()),
    })
}

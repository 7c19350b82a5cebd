//! Element-wise functions of one, two and three inputs.

use lodstone_model::DType;

use super::Run;
use crate::call::{Call, Outputs, one};
use crate::curves::Erf;
use crate::error::Outcome;
use crate::tensor::{
    Comparison, Dense, Division, Integer, check_alike, floats, floats_are, floats_of_two, integers,
};

pub(super) fn kernel(kind: &str) -> Option<Run> {
    Some(match kind {
        "Abs" => |call| one(number(call.input(0)?, Dense::absolute, Dense::absolute_integers)?),
        "Acos" => |call| one(floats!(call.input(0)?, T => |x| x.acos())?),
        "Acosh" => |call| one(floats!(call.input(0)?, T => |x| x.acosh())?),
        "Add" => |call| one(call.input(0)?.plus(call.input(1)?)?),
        "And" => |call| truths(call, Dense::and),
        "Asin" => |call| one(floats!(call.input(0)?, T => |x| x.asin())?),
        "Asinh" => |call| one(floats!(call.input(0)?, T => |x| x.asinh())?),
        "Atan" => |call| one(floats!(call.input(0)?, T => |x| x.atan())?),
        "Atanh" => |call| one(floats!(call.input(0)?, T => |x| x.atanh())?),
        "BitShift" => shift,
        "BitwiseAnd" => |call| one(call.input(0)?.and(call.input(1)?)?),
        "BitwiseNot" => |call| one(call.input(0)?.inverted()?),
        "BitwiseOr" => |call| one(call.input(0)?.or(call.input(1)?)?),
        "BitwiseXor" => |call| one(call.input(0)?.xor(call.input(1)?)?),
        "Ceil" => |call| one(floats!(call.input(0)?, T => |x| x.ceil())?),
        "Clip" => clip,
        "Cos" => |call| one(floats!(call.input(0)?, T => |x| x.cos())?),
        "Cosh" => |call| one(floats!(call.input(0)?, T => |x| x.cosh())?),
        "Div" => divide,
        "Equal" => |call| compare(call, Comparison::Equal, false),
        "Erf" => |call| one(floats!(call.input(0)?, T => |x| Erf::erf(x))?),
        "Exp" => |call| one(floats!(call.input(0)?, T => |x| x.exp())?),
        "Floor" => |call| one(floats!(call.input(0)?, T => |x| x.floor())?),
        "Greater" => |call| compare(call, Comparison::Less, true),
        "GreaterOrEqual" => |call| compare(call, Comparison::LessOrEqual, true),
        "IsInf" => |call| {
            let asked = |name: &str| call.int(name, 1) != 0;
            let (below, above) = (asked("detect_negative"), asked("detect_positive"));
            one(floats_are!(call.input(0)?, |x| {
                x.is_infinite() && if x > 0.0 { above } else { below }
            })?)
        },
        "IsNaN" => |call| one(call.input(0)?.is_nan()?),
        "Less" => |call| compare(call, Comparison::Less, false),
        "LessOrEqual" => |call| compare(call, Comparison::LessOrEqual, false),
        "Log" => |call| one(floats!(call.input(0)?, T => |x| x.ln())?),
        "Max" => |call| extreme(call, true),
        "Mean" => |call| {
            let (first, rest) = split_first(call)?;
            let sum = rest.iter().try_fold(first, |sum, next| sum.plus(next))?;
            one(sum.scaled(1.0 / (rest.len() as f64 + 1.0))?)
        },
        "Min" => |call| extreme(call, false),
        "Mod" => modulo,
        "Mul" => |call| one(call.input(0)?.times(call.input(1)?)?),
        "Neg" => |call| {
            let float = |x: &Dense| floats!(x, T => |x| -x);
            one(number(call.input(0)?, float, |x| integers!(x, T => |x| Integer::negative(x)))?)
        },
        "Not" => |call| match call.input(0)?.dtype() {
            DType::Bool => one(call.input(0)?.inverted()?),
            other => Err(format!("expected booleans, found {other}").into()),
        },
        "Or" => |call| truths(call, Dense::or),
        "Pow" => power,
        "Reciprocal" => |call| one(floats!(call.input(0)?, T => |x| 1.0 / x)?),
        "Round" => |call| one(call.input(0)?.rounded()?),
        "Sign" => |call| {
            let float = |x: &Dense| floats!(x, T => |x| if x == 0.0 || x.is_nan() { x } else { x.signum() });
            one(number(call.input(0)?, float, |x| integers!(x, T => |x| Integer::sign(x)))?)
        },
        "Sin" => |call| one(floats!(call.input(0)?, T => |x| x.sin())?),
        "Sinh" => |call| one(floats!(call.input(0)?, T => |x| x.sinh())?),
        "Sqrt" => |call| one(call.input(0)?.root()?),
        "Sub" => |call| one(call.input(0)?.minus(call.input(1)?)?),
        "Sum" => |call| {
            let (first, rest) = split_first(call)?;
            one(rest.iter().try_fold(first, |sum, next| sum.plus(next))?)
        },
        "Tan" => |call| one(floats!(call.input(0)?, T => |x| x.tan())?),
        "Tanh" => |call| one(call.input(0)?.tanh()?),
        "Where" => choose,
        "Xor" => |call| truths(call, Dense::xor),
        _ => return None,
    })
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

fn extreme(call: &Call<'_>, greatest: bool) -> Outputs {
    let (first, rest) = split_first(call)?;
    one(rest.iter().try_fold(first, |best, next| best.extreme(next, greatest))?)
}

fn clip(call: &Call<'_>) -> Outputs {
    let mut y = call.input(0)?.clone();
    for (number, greatest) in [(1, true), (2, false)] {
        if let Some(limit) = call.optional(number) {
            if limit.count() != 1 {
                return Err(format!("expected one limit, found {:?}", limit.shape()).into());
            }
            y = y.extreme(&limit.reshaped([])?, greatest)?;
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

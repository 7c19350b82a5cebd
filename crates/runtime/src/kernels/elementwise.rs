//! Functions of each element, of two, of three; other types.

use burn_backend::tensor::{BoolTensor, FloatTensor};
use burn_backend::{Backend, BoolStore, DType as BurnType, Scalar};
use lodstone_schema::onnx::dtype;

use super::integers::{Division, divided};
use super::tensor::{aligned, common, converted};
use super::{Call, Run};
use crate::item::{Item, Outcome, burn_type};

type One<B> = Outcome<Vec<Item<B>>>;

pub(super) fn kernel<B: Backend>(kind: &str) -> Option<Run<B>> {
    Some(match kind {
        "Abs" => |call| match call.input(0)? {
            Item::Int(x) => Ok(vec![Item::Int(B::int_abs(x.clone()))]),
            _ => float(call, B::float_abs),
        },
        "Acos" => |call| float(call, B::float_acos),
        "Acosh" => |call| float(call, B::float_acosh),
        "Add" => |call| Ok(vec![call.input(0)?.plus(call.input(1)?)?]),
        "And" => |call| truths(call, B::bool_and),
        "Asin" => |call| float(call, B::float_asin),
        "Asinh" => |call| float(call, B::float_asinh),
        "Atan" => |call| float(call, B::float_atan),
        "Atanh" => |call| float(call, B::float_atanh),
        "Cast" => cast,
        "CastLike" => |call| Ok(vec![converted(call.input(0)?.clone(), call.input(1)?.kind()?)?]),
        "BitwiseAnd" => |call| bits(call, B::bitwise_and),
        "BitwiseNot" => |call| Ok(vec![Item::Int(B::bitwise_not(call.input(0)?.int()?))]),
        "BitwiseOr" => |call| bits(call, B::bitwise_or),
        "BitwiseXor" => |call| bits(call, B::bitwise_xor),
        "Ceil" => |call| float(call, B::float_ceil),
        "Clip" => clip,
        "Cos" => |call| float(call, B::float_cos),
        "Cosh" => |call| float(call, B::float_cosh),
        "Div" => divide,
        "Equal" => |call| compare(call, B::float_equal, B::int_equal, Some(B::bool_equal)),
        "Erf" => |call| float(call, B::float_erf),
        "Exp" => |call| float(call, B::float_exp),
        "Floor" => |call| float(call, B::float_floor),
        "Greater" => |call| compare(call, B::float_greater, B::int_greater, None),
        "GreaterOrEqual" => {
            |call| compare(call, B::float_greater_equal, B::int_greater_equal, None)
        }
        "Identity" => |call| Ok(vec![call.input(0)?.clone()]),
        "IsInf" => |call| {
            let x = call.input(0)?.float()?;
            let is = |limit: f64| {
                B::float_equal_elem(x.clone(), Scalar::Float(limit), BoolStore::Native)
            };
            let asked = |name: &str| call.int(name, 1) != 0;
            Ok(vec![Item::Bool(match (asked("detect_negative"), asked("detect_positive")) {
                (true, true) => B::bool_or(is(f64::NEG_INFINITY), is(f64::INFINITY)),
                (true, false) => is(f64::NEG_INFINITY),
                (false, true) => is(f64::INFINITY),
                (false, false) => B::bool_and(is(0.0), B::bool_not(is(0.0))),
            })])
        },
        "IsNaN" => |call| {
            let x = call.input(0)?.float()?;
            Ok(vec![Item::Bool(B::float_is_nan(x, BoolStore::Native))])
        },
        "Less" => |call| compare(call, B::float_lower, B::int_lower, None),
        "LessOrEqual" => |call| compare(call, B::float_lower_equal, B::int_lower_equal, None),
        "Log" => |call| float(call, B::float_log),
        "Max" => |call| extreme(call, true),
        "Mean" => |call| {
            let (first, rest) = split_first(call)?;
            let sum = rest.iter().try_fold(first, |sum, next| sum.plus(next))?;
            Ok(vec![sum.scaled(1.0 / (rest.len() as f64 + 1.0))?])
        },
        "Min" => |call| extreme(call, false),
        "Mod" => modulo,
        "Mul" => |call| Ok(vec![call.input(0)?.times(call.input(1)?)?]),
        "Neg" => |call| match call.input(0)? {
            Item::Int(x) => Ok(vec![Item::Int(B::int_neg(x.clone()))]),
            _ => float(call, B::float_neg),
        },
        "Not" => |call| Ok(vec![Item::Bool(B::bool_not(call.input(0)?.bool()?))]),
        "Or" => |call| truths(call, B::bool_or),
        "Pow" => power,
        "Reciprocal" => |call| float(call, B::float_recip),
        "Round" => |call| float(call, B::float_round),
        "Sign" => |call| match call.input(0)? {
            Item::Int(x) => Ok(vec![Item::Int(B::int_sign(x.clone()))]),
            _ => float(call, |x| {
                let none = B::float_is_nan(x.clone(), BoolStore::Native);
                B::float_mask_fill(B::float_sign(x), none, Scalar::Float(f64::NAN))
            }),
        },
        "Sin" => |call| float(call, B::float_sin),
        "Sinh" => |call| float(call, B::float_sinh),
        "Sqrt" => |call| float(call, B::float_sqrt),
        "Sub" => |call| Ok(vec![call.input(0)?.minus(call.input(1)?)?]),
        "Sum" => |call| {
            let (first, rest) = split_first(call)?;
            Ok(vec![rest.iter().try_fold(first, |sum, next| sum.plus(next))?])
        },
        "Tan" => |call| float(call, B::float_tan),
        "Tanh" => |call| float(call, B::float_tanh),
        "Where" => choose,
        "Xor" => |call| truths(call, B::bool_xor),
        _ => return None,
    })
}

pub(super) fn float<B: Backend>(
    call: &Call<'_, B>,
    of: impl FnOnce(FloatTensor<B>) -> FloatTensor<B>,
) -> One<B> {
    Ok(vec![Item::Float(of(call.input(0)?.float()?))])
}

fn split_first<B: Backend>(call: &Call<'_, B>) -> Outcome<(Item<B>, Vec<Item<B>>)> {
    let mut all = call.all();
    if all.is_empty() {
        return Err("it has no inputs".into());
    }
    let rest = all.split_off(1);
    let first = all.pop().ok_or("it has no inputs")?;
    Ok((first, rest))
}

fn pair<B: Backend>(call: &Call<'_, B>) -> Outcome<(Item<B>, Item<B>)> {
    aligned(call.input(0)?, call.input(1)?)
}

fn bits<B: Backend>(
    call: &Call<'_, B>,
    of: fn(B::IntTensorPrimitive, B::IntTensorPrimitive) -> B::IntTensorPrimitive,
) -> One<B> {
    let (a, b) = pair(call)?;
    Ok(vec![Item::Int(of(a.int()?, b.int()?))])
}

fn truths<B: Backend>(call: &Call<'_, B>, of: OfBools<B>) -> One<B> {
    let (a, b) = pair(call)?;
    Ok(vec![Item::Bool(of(a.bool()?, b.bool()?))])
}

type OfBools<B> = fn(BoolTensor<B>, BoolTensor<B>) -> BoolTensor<B>;

type Both<T, B> = fn(T, T, BoolStore) -> BoolTensor<B>;

fn compare<B: Backend>(
    call: &Call<'_, B>,
    floats: Both<FloatTensor<B>, B>,
    ints: Both<B::IntTensorPrimitive, B>,
    bools: Option<OfBools<B>>,
) -> One<B> {
    Ok(vec![Item::Bool(match (pair(call)?, bools) {
        ((Item::Float(a), Item::Float(b)), _) => floats(a, b, BoolStore::Native),
        ((Item::Bool(a), Item::Bool(b)), Some(bools)) => bools(a, b),
        ((a, b), _) => ints(a.int()?, b.int()?, BoolStore::Native),
    })])
}

/// Where it is true, the second; otherwise the third.
fn choose<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let (mask, yes, no) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let shape = common(&common(&mask.shape(), &yes.shape())?, &no.shape())?;
    let [mask, yes, no] = [mask, yes, no].map(|item| item.clone().expanded(&shape));
    let mask = mask.bool()?;
    Ok(vec![match (no, yes) {
        (Item::Float(no), yes) => Item::Float(B::float_mask_where(no, mask, yes.float()?)),
        (Item::Int(no), yes) => Item::Int(B::int_mask_where(no, mask, yes.int()?)),
        (Item::Bool(no), yes) => Item::Bool(B::bool_mask_where(no, mask, yes.bool()?)),
    }])
}

fn extreme<B: Backend>(call: &Call<'_, B>, greatest: bool) -> One<B> {
    let (first, rest) = split_first(call)?;
    Ok(vec![rest.iter().try_fold(first, |best, next| best.extreme(next, greatest))?])
}

fn clip<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let mut y = call.input(0)?.clone();
    for (number, greatest) in [(1, true), (2, false)] {
        if let Some(limit) = call.optional(number) {
            y = y.extreme(limit, greatest)?;
        }
    }
    Ok(vec![y])
}

/// Integers are rounded towards 0.
fn divide<B: Backend>(call: &Call<'_, B>) -> One<B> {
    Ok(vec![match pair(call)? {
        (Item::Float(a), Item::Float(b)) => Item::Float(B::float_div(a, b)),
        (a, b) => divided(&a, &b, Division::Whole)?,
    }])
}

/// Of the sign of the divisor; with `fmod` of that of what is divided.
fn modulo<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let truncated = call.int("fmod", 0) != 0;
    Ok(vec![match pair(call)? {
        (Item::Float(a), Item::Float(b)) => {
            let size = B::float_remainder(B::float_abs(a.clone()), B::float_abs(b.clone()));
            let zero = Scalar::Float(0.0);
            let negative =
                |x: &FloatTensor<B>| B::float_lower_elem(x.clone(), zero, BoolStore::Native);
            let rest = B::float_mask_where(size.clone(), negative(&a), B::float_neg(size));
            if truncated {
                return Ok(vec![Item::Float(rest)]);
            }
            let some = B::float_not_equal_elem(rest.clone(), zero, BoolStore::Native);
            let other = B::bool_and(some, B::bool_xor(negative(&rest), negative(&b)));
            let moved = B::float_add(rest.clone(), b);
            Item::Float(B::float_mask_where(rest, other, moved))
        }
        (a, b) => divided(&a, &b, if truncated { Division::Rest } else { Division::Modulus })?,
    }])
}

/// Of the type of the base.
fn power<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let (base, exponent) = (call.input(0)?, call.input(1)?);
    let to = base.kind()?;
    // Integers go through double precision, which has all that fits 53 bits.
    let through = if to.is_float() { to } else { BurnType::F64 };
    let (a, b) = aligned(&base.cast(through)?, &exponent.cast(through)?)?;
    Ok(vec![converted(Item::Float(B::float_powf(a.float()?, b.float()?)), to)?])
}

fn cast<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let to = i32::try_from(call.int("to", 0)).ok().and_then(dtype::from_code);
    let to = to.ok_or("expected an element type")?;
    Ok(vec![converted(call.input(0)?.clone(), burn_type(to)?)?])
}

//! Element-wise functions of one, two and three inputs, and casts.

use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::{BoolStore, DType as BurnType, Scalar};
use burn_flex::{Flex, FlexTensor};

use super::integers::{Division, divided, shifted};
use super::tensor::{aligned, common, converted};
use super::{Call, Made, Run, one};
use crate::item::{Item, Outcome};

pub(super) fn kernel(kind: &str) -> Option<Run> {
    Some(match kind {
        "Abs" => |call| match call.input(0)? {
            Item::Int(x) => one(Item::Int(Flex::int_abs(x.clone()))),
            _ => float(call, Flex::float_abs),
        },
        "Acos" => |call| float(call, Flex::float_acos),
        "Acosh" => |call| float(call, Flex::float_acosh),
        "Add" => |call| one(call.input(0)?.plus(call.input(1)?)?),
        "And" => |call| truths(call, Flex::bool_and),
        "Asin" => |call| float(call, Flex::float_asin),
        "Asinh" => |call| float(call, Flex::float_asinh),
        "Atan" => |call| float(call, Flex::float_atan),
        "Atanh" => |call| float(call, Flex::float_atanh),
        "BitShift" => shifted,
        "BitwiseAnd" => |call| bits(call, Flex::bitwise_and),
        "BitwiseNot" => |call| one(Item::Int(Flex::bitwise_not(call.input(0)?.int()?))),
        "BitwiseOr" => |call| bits(call, Flex::bitwise_or),
        "BitwiseXor" => |call| bits(call, Flex::bitwise_xor),
        "Ceil" => |call| float(call, Flex::float_ceil),
        "Clip" => clip,
        "Cos" => |call| float(call, Flex::float_cos),
        "Cosh" => |call| float(call, Flex::float_cosh),
        "Div" => divide,
        "Equal" => |call| compare(call, Flex::float_equal, Flex::int_equal, Some(Flex::bool_equal)),
        "Erf" => |call| float(call, Flex::float_erf),
        "Exp" => |call| float(call, Flex::float_exp),
        "Floor" => |call| float(call, Flex::float_floor),
        "Greater" => |call| compare(call, Flex::float_greater, Flex::int_greater, None),
        "GreaterOrEqual" => {
            |call| compare(call, Flex::float_greater_equal, Flex::int_greater_equal, None)
        }
        "IsInf" => |call| {
            let x = call.input(0)?.float()?;
            let is = |limit: f64| {
                Flex::float_equal_elem(x.clone(), Scalar::Float(limit), BoolStore::Native)
            };
            let asked = |name: &str| call.int(name, 1) != 0;
            one(Item::Bool(match (asked("detect_negative"), asked("detect_positive")) {
                (true, true) => Flex::bool_or(is(f64::NEG_INFINITY), is(f64::INFINITY)),
                (true, false) => is(f64::NEG_INFINITY),
                (false, true) => is(f64::INFINITY),
                (false, false) => Flex::bool_and(is(0.0), Flex::bool_not(is(0.0))),
            }))
        },
        "IsNaN" => |call| {
            let x = call.input(0)?.float()?;
            one(Item::Bool(Flex::float_is_nan(x, BoolStore::Native)))
        },
        "Less" => |call| compare(call, Flex::float_lower, Flex::int_lower, None),
        "LessOrEqual" => |call| compare(call, Flex::float_lower_equal, Flex::int_lower_equal, None),
        "Log" => |call| float(call, Flex::float_log),
        "Max" => |call| extreme(call, true),
        "Mean" => |call| {
            let (first, rest) = split_first(call)?;
            let sum = rest.iter().try_fold(first, |sum, next| sum.plus(next))?;
            one(sum.scaled(1.0 / (rest.len() as f64 + 1.0))?)
        },
        "Min" => |call| extreme(call, false),
        "Mod" => modulo,
        "Mul" => |call| one(call.input(0)?.times(call.input(1)?)?),
        "Neg" => |call| match call.input(0)? {
            Item::Int(x) => one(Item::Int(Flex::int_neg(x.clone()))),
            _ => float(call, Flex::float_neg),
        },
        "Not" => |call| one(Item::Bool(Flex::bool_not(call.input(0)?.bool()?))),
        "Or" => |call| truths(call, Flex::bool_or),
        "Pow" => power,
        "Reciprocal" => |call| float(call, Flex::float_recip),
        "Round" => |call| float(call, Flex::float_round),
        "Sign" => |call| match call.input(0)? {
            Item::Int(x) => one(Item::Int(Flex::int_sign(x.clone()))),
            _ => float(call, |x| {
                let none = Flex::float_is_nan(x.clone(), BoolStore::Native);
                Flex::float_mask_fill(Flex::float_sign(x), none, Scalar::Float(f64::NAN))
            }),
        },
        "Sin" => |call| float(call, Flex::float_sin),
        "Sinh" => |call| float(call, Flex::float_sinh),
        "Sqrt" => |call| float(call, Flex::float_sqrt),
        "Sub" => |call| one(call.input(0)?.minus(call.input(1)?)?),
        "Sum" => |call| {
            let (first, rest) = split_first(call)?;
            one(rest.iter().try_fold(first, |sum, next| sum.plus(next))?)
        },
        "Tan" => |call| float(call, Flex::float_tan),
        "Tanh" => |call| float(call, Flex::float_tanh),
        "Where" => choose,
        "Xor" => |call| truths(call, Flex::bool_xor),
        _ => return None,
    })
}

pub(super) fn float(call: &Call<'_>, of: impl FnOnce(FlexTensor) -> FlexTensor) -> Made {
    one(Item::Float(of(call.input(0)?.float()?)))
}

fn split_first(call: &Call<'_>) -> Outcome<(Item, Vec<Item>)> {
    let mut all = call.all();
    if all.is_empty() {
        return Err("the inputs are missing".into());
    }
    let rest = all.split_off(1);
    let first = all.pop().ok_or("the inputs are missing")?;
    Ok((first, rest))
}

fn pair(call: &Call<'_>) -> Outcome<(Item, Item)> {
    aligned(call.input(0)?, call.input(1)?)
}

fn bits(call: &Call<'_>, of: fn(FlexTensor, FlexTensor) -> FlexTensor) -> Made {
    let (a, b) = pair(call)?;
    one(Item::Int(of(a.int()?, b.int()?)))
}

fn truths(call: &Call<'_>, of: OfBools) -> Made {
    let (a, b) = pair(call)?;
    one(Item::Bool(of(a.bool()?, b.bool()?)))
}

type OfBools = fn(FlexTensor, FlexTensor) -> FlexTensor;

type Both = fn(FlexTensor, FlexTensor, BoolStore) -> FlexTensor;

fn compare(call: &Call<'_>, floats: Both, ints: Both, bools: Option<OfBools>) -> Made {
    one(Item::Bool(match (pair(call)?, bools) {
        ((Item::Float(a), Item::Float(b)), _) => floats(a, b, BoolStore::Native),
        ((Item::Bool(a), Item::Bool(b)), Some(bools)) => bools(a, b),
        ((a, b), _) => ints(a.int()?, b.int()?, BoolStore::Native),
    }))
}

/// Returns the second input where the first is true, and the third elsewhere.
fn choose(call: &Call<'_>) -> Made {
    let (mask, yes, no) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let shape = common(&common(&mask.shape(), &yes.shape())?, &no.shape())?;
    let [mask, yes, no] = [mask, yes, no].map(|item| item.clone().expanded(&shape));
    let mask = mask.bool()?;
    one(match (no, yes) {
        (Item::Float(no), yes) => Item::Float(Flex::float_mask_where(no, mask, yes.float()?)),
        (Item::Int(no), yes) => Item::Int(Flex::int_mask_where(no, mask, yes.int()?)),
        (Item::Bool(no), yes) => Item::Bool(Flex::bool_mask_where(no, mask, yes.bool()?)),
    })
}

fn extreme(call: &Call<'_>, greatest: bool) -> Made {
    let (first, rest) = split_first(call)?;
    one(rest.iter().try_fold(first, |best, next| best.extreme(next, greatest))?)
}

fn clip(call: &Call<'_>) -> Made {
    let mut y = call.input(0)?.clone();
    for (number, greatest) in [(1, true), (2, false)] {
        if let Some(limit) = call.optional(number) {
            if limit.shape().iter().product::<usize>() != 1 {
                return Err(format!("expected one limit, found {:?}", limit.shape()).into());
            }
            let one = vec![1; y.shape().len()];
            y = y.extreme(&limit.clone().reshaped(one), greatest)?;
        }
    }
    one(y)
}

/// Integer division rounds towards 0.
fn divide(call: &Call<'_>) -> Made {
    one(match pair(call)? {
        (Item::Float(a), Item::Float(b)) => Item::Float(Flex::float_div(a, b)),
        (a, b) => divided(&a, &b, Division::Whole)?,
    })
}

/// The remainder has the sign of the divisor; with `fmod`, that of the dividend.
fn modulo(call: &Call<'_>) -> Made {
    let truncated = call.int("fmod", 0) != 0;
    one(match pair(call)? {
        (Item::Float(a), Item::Float(b)) => {
            let size =
                Flex::float_remainder(Flex::float_abs(a.clone()), Flex::float_abs(b.clone()));
            let zero = Scalar::Float(0.0);
            let negative =
                |x: &FlexTensor| Flex::float_lower_elem(x.clone(), zero, BoolStore::Native);
            if truncated {
                // The reciprocal tells the sign of a zero.
                let signed = Flex::bool_or(negative(&a), negative(&Flex::float_recip(a)));
                let rest = Flex::float_mask_where(size.clone(), signed, Flex::float_neg(size));
                return one(Item::Float(rest));
            }
            let is_zero = Flex::float_equal_elem(size.clone(), zero, BoolStore::Native);
            let is_below = negative(&b);
            let other = Flex::bool_xor(negative(&a), is_below.clone());
            let signed =
                Flex::float_mask_where(size.clone(), negative(&a), Flex::float_neg(size.clone()));
            let moved = Flex::float_add(signed.clone(), b);
            let rest = Flex::float_mask_where(signed, other, moved);
            // A zero has the sign of the divisor, too.
            let zeros = Flex::float_mask_where(size.clone(), is_below, Flex::float_neg(size));
            Item::Float(Flex::float_mask_where(rest, is_zero, zeros))
        }
        (a, b) => divided(&a, &b, if truncated { Division::Rest } else { Division::Modulus })?,
    })
}

/// The result has the type of the base.
fn power(call: &Call<'_>) -> Made {
    let (base, exponent) = (call.input(0)?, call.input(1)?);
    let to = base.kind()?;
    // Integers go through double precision, which is exact up to 53 bits.
    let through = if to.is_float() { to } else { BurnType::F64 };
    let (a, b) = aligned(&base.cast(through)?, &exponent.cast(through)?)?;
    one(converted(Item::Float(Flex::float_powf(a.float()?, b.float()?)), to)?)
}

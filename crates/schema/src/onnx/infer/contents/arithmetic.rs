//! Elements that are computed.

use std::cmp::Ordering;

use lodstone_model::DType;

use super::super::dims::axes_of;
use super::super::indexing::whole;
use super::super::node::{Node, Numbers};
use super::super::value::{Element, approximate};
use super::{Array, Fold, count, dims_from};

use Element as E;

pub(super) const FOLDS: &[(&str, Fold)] = &[
    ("Abs", |node| one(node, |e| int(e)?.checked_abs().map(E::Int), f64::abs)),
    ("Ceil", |node| one(node, |_| None, f64::ceil)),
    ("Floor", |node| one(node, |_| None, f64::floor)),
    ("Neg", |node| one(node, |e| int(e)?.checked_neg().map(E::Int), |x| -x)),
    ("Not", |node| one(node, |e| Some(truth(int(e)? == 0)), |x| x)),
    ("Sign", |node| {
        one(
            node,
            |e| Some(E::Int(int(e)?.signum())),
            |x| x.signum() * f64::from(u8::from(x != 0.0)),
        )
    }),
    ("Sqrt", |node| one(node, |_| None, f64::sqrt)),
    ("Cast", cast),
    ("CastLike", cast),
    ("Add", |node| broadcast_all(node, add)),
    ("Div", |node| broadcast_all(node, div)),
    ("Max", |node| broadcast_all(node, |a, b| pick(a, b, Ordering::Greater))),
    ("Min", |node| broadcast_all(node, |a, b| pick(a, b, Ordering::Less))),
    ("Mod", remainder),
    ("Mul", |node| broadcast_all(node, mul)),
    ("Pow", |node| broadcast_all(node, pow)),
    ("Sub", |node| broadcast_all(node, sub)),
    ("Sum", |node| broadcast_all(node, add)),
    ("And", |node| broadcast_all(node, |a, b| Some(truth(int(a)? != 0 && int(b)? != 0)))),
    ("Or", |node| broadcast_all(node, |a, b| Some(truth(int(a)? != 0 || int(b)? != 0)))),
    ("Xor", |node| broadcast_all(node, |a, b| Some(truth((int(a)? != 0) != (int(b)? != 0))))),
    ("Equal", |node| broadcast_all(node, |a, b| compared(a, b, Ordering::is_eq))),
    ("Greater", |node| broadcast_all(node, |a, b| compared(a, b, Ordering::is_gt))),
    ("GreaterOrEqual", |node| broadcast_all(node, |a, b| compared(a, b, Ordering::is_ge))),
    ("Less", |node| broadcast_all(node, |a, b| compared(a, b, Ordering::is_lt))),
    ("LessOrEqual", |node| broadcast_all(node, |a, b| compared(a, b, Ordering::is_le))),
    ("Where", choose),
    ("ReduceMax", |node| reduce(node, |a, b| pick(a, b, Ordering::Greater))),
    ("ReduceMin", |node| reduce(node, |a, b| pick(a, b, Ordering::Less))),
    ("ReduceProd", |node| reduce(node, mul)),
    ("ReduceSum", |node| reduce(node, add)),
];

/// A binary operation; `None` if the result is unknown.
type Binary = fn(&Element, &Element) -> Option<Element>;

fn int(element: &Element) -> Option<i64> {
    match element {
        E::Int(number) => Some(*number),
        _ => None,
    }
}

fn truth(is: bool) -> Element {
    E::Int(i64::from(is))
}

/// Rounds a value to an element type; unknown if it does not fit.
#[expect(clippy::cast_possible_truncation, reason = "rounds as single precision does")]
fn fitted(element: Option<Element>, dtype: DType) -> Element {
    let range = match dtype {
        DType::Bool => 0..=1,
        DType::Int8 => i64::from(i8::MIN)..=i64::from(i8::MAX),
        DType::Int16 => i64::from(i16::MIN)..=i64::from(i16::MAX),
        DType::Int32 => i64::from(i32::MIN)..=i64::from(i32::MAX),
        DType::Uint8 => 0..=i64::from(u8::MAX),
        DType::Uint16 => 0..=i64::from(u16::MAX),
        DType::Uint32 => 0..=i64::from(u32::MAX),
        DType::Uint64 => 0..=i64::MAX,
        _ => i64::MIN..=i64::MAX,
    };
    let is_float = matches!(dtype, DType::Float32 | DType::Float64);
    match element {
        Some(E::Int(number)) if !dtype.is_float() && range.contains(&number) => E::Int(number),
        Some(E::Float(number)) if is_float && number.is_finite() => match dtype {
            DType::Float32 => E::Float(f64::from(number as f32)),
            _ => E::Float(number),
        },
        Some(E::Symbol(name)) if !dtype.is_float() => E::Symbol(name),
        _ => E::Unknown,
    }
}

fn one(
    node: &mut Node<'_>,
    ints: fn(&Element) -> Option<Element>,
    floats: fn(f64) -> f64,
) -> Option<()> {
    let dtype = node.outputs.first()?.dtype();
    let result = |element: &Element| match element {
        E::Float(number) => Some(E::Float(floats(*number))),
        element => ints(element),
    };
    let elements = node.contents(0)?.iter().map(|element| fitted(result(element), dtype));
    let elements = elements.collect();
    node.set_contents(0, elements);
    Some(())
}

fn cast(node: &mut Node<'_>) -> Option<()> {
    let dtype = node.outputs.first()?.dtype();
    let is_float = matches!(dtype, DType::Float32 | DType::Float64);
    let converted = |element: &Element| match (element, dtype) {
        (E::Int(number), DType::Bool) => Some(truth(*number != 0)),
        (E::Float(number), DType::Bool) => Some(truth(*number != 0.0)),
        (E::Int(number), _) if is_float => Some(E::Float(approximate(*number))),
        (E::Float(number), _) if !dtype.is_float() => whole(*number).map(E::Int),
        (E::Symbol(_), DType::Bool | DType::String) => None,
        (element, _) => Some(element.clone()),
    };
    let elements = node.contents(0)?.iter().map(|element| fitted(converted(element), dtype));
    let elements = elements.collect();
    node.set_contents(0, elements);
    Some(())
}

/// Applies a binary operation to two or more inputs, broadcast.
fn broadcast_all(node: &mut Node<'_>, operation: Binary) -> Option<()> {
    let output = node.outputs.first()?;
    let (dtype, target) = (output.dtype(), dims_from(output.shape()?)?);
    let mut all = Array::of(node, 0)?.broadcast(&target)?;
    for index in 1..node.inputs.len() {
        let next = Array::of(node, index)?.broadcast(&target)?;
        for (element, next) in all.iter_mut().zip(&next) {
            *element = fitted(operation(element, next), dtype);
        }
    }
    node.set_contents(0, all);
    Some(())
}

fn remainder(node: &mut Node<'_>) -> Option<()> {
    if node.flag("fmod") {
        return broadcast_all(node, |a, b| int(a)?.checked_rem(int(b)?).map(E::Int));
    }
    // The result has the sign of the divisor.
    broadcast_all(node, |a, b| {
        let (a, b) = (int(a)?, int(b)?);
        let rest = a.checked_rem(b)?;
        Some(E::Int(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }))
    })
}

fn add(a: &Element, b: &Element) -> Option<Element> {
    match (a, b) {
        (E::Int(a), E::Int(b)) => a.checked_add(*b).map(E::Int),
        (E::Float(a), E::Float(b)) => Some(E::Float(a + b)),
        (symbol @ E::Symbol(_), E::Int(0)) | (E::Int(0), symbol @ E::Symbol(_)) => {
            Some(symbol.clone())
        }
        _ => None,
    }
}

fn sub(a: &Element, b: &Element) -> Option<Element> {
    match (a, b) {
        (E::Int(a), E::Int(b)) => a.checked_sub(*b).map(E::Int),
        (E::Float(a), E::Float(b)) => Some(E::Float(a - b)),
        (E::Symbol(_), E::Int(0)) => Some(a.clone()),
        (E::Symbol(a), E::Symbol(b)) if a == b => Some(E::Int(0)),
        _ => None,
    }
}

fn mul(a: &Element, b: &Element) -> Option<Element> {
    match (a, b) {
        (E::Int(a), E::Int(b)) => a.checked_mul(*b).map(E::Int),
        (E::Float(a), E::Float(b)) => Some(E::Float(a * b)),
        (symbol @ E::Symbol(_), E::Int(1)) | (E::Int(1), symbol @ E::Symbol(_)) => {
            Some(symbol.clone())
        }
        (E::Symbol(_), E::Int(0)) | (E::Int(0), E::Symbol(_)) => Some(E::Int(0)),
        _ => None,
    }
}

/// Integer division truncates towards zero.
fn div(a: &Element, b: &Element) -> Option<Element> {
    match (a, b) {
        (E::Int(a), E::Int(b)) => a.checked_div(*b).map(E::Int),
        (E::Float(a), E::Float(b)) => Some(E::Float(a / b)),
        (E::Symbol(_), E::Int(1)) => Some(a.clone()),
        _ => None,
    }
}

fn pow(a: &Element, b: &Element) -> Option<Element> {
    int(a)?.checked_pow(u32::try_from(int(b)?).ok()?).map(E::Int)
}

/// Compares two elements, if they are known. A dim is never negative.
fn order(a: &Element, b: &Element) -> Option<Ordering> {
    match (a, b) {
        (E::Int(a), E::Int(b)) => Some(a.cmp(b)),
        (E::Float(a), E::Float(b)) => a.partial_cmp(b),
        (E::Symbol(a), E::Symbol(b)) if a == b => Some(Ordering::Equal),
        (E::Symbol(_), E::Int(..0)) => Some(Ordering::Greater),
        (E::Int(..0), E::Symbol(_)) => Some(Ordering::Less),
        _ => None,
    }
}

fn pick(a: &Element, b: &Element, wanted: Ordering) -> Option<Element> {
    let order = order(a, b)?;
    Some(if order == wanted || order.is_eq() { a.clone() } else { b.clone() })
}

fn compared(a: &Element, b: &Element, is: fn(Ordering) -> bool) -> Option<Element> {
    order(a, b).map(|order| truth(is(order)))
}

fn choose(node: &mut Node<'_>) -> Option<()> {
    let target = dims_from(node.outputs.first()?.shape()?)?;
    let condition = Array::of(node, 0)?.broadcast(&target)?;
    let (yes, no) =
        (Array::of(node, 1)?.broadcast(&target)?, Array::of(node, 2)?.broadcast(&target)?);
    let chosen = condition.iter().zip(yes.into_iter().zip(no)).map(|(is, (yes, no))| match is {
        E::Int(0) => no,
        E::Int(_) => yes,
        _ if yes == no => yes,
        _ => E::Unknown,
    });
    let chosen = chosen.collect();
    node.set_contents(0, chosen);
    Some(())
}

/// Reduces along axes, all of them if there are none. Not for floats, whose order of summation differs everywhere.
fn reduce(node: &mut Node<'_>, operation: Binary) -> Option<()> {
    let (data, dtype) = (Array::of(node, 0)?, node.dtype(0));
    let rank = data.dims.len();
    let gone = match node.numbers("axes", 1) {
        Numbers::Known(axes) if !axes.is_empty() => axes_of(&axes, rank).ok()?,
        Numbers::Unknown => return None,
        _ => vec![!node.flag("noop_with_empty_axes"); rank],
    };
    if dtype.is_float() {
        return None;
    }
    let kept = data.dims.iter().zip(&gone).map(|(dim, gone)| if *gone { 1 } else { *dim });
    let mut results: Vec<Option<Element>> = vec![None; count(&kept.collect::<Vec<_>>())?];
    for (place, element) in data.elements.iter().enumerate() {
        // The index of the result, from the last axis to the first.
        let (mut rest, mut target, mut stride) = (place, 0, 1);
        for (dim, gone) in data.dims.iter().zip(&gone).rev() {
            let at = rest.checked_rem(*dim)?;
            rest = rest.checked_div(*dim)?;
            if !gone {
                target += at * stride;
                stride *= dim;
            }
        }
        let result = results.get_mut(target)?;
        *result = Some(match result {
            None => element.clone(),
            Some(before) => fitted(operation(before, element), dtype),
        });
    }
    let elements = results.into_iter().collect::<Option<Vec<_>>>()?;
    node.set_contents(0, elements);
    Some(())
}

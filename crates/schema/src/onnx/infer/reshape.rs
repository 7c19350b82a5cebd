//! Operators that change the shape and keep the elements.

use lodstone_model::{DType, Dim};

use super::Rule;
use super::dims::{Checked, axes_of, axis_of, broadcast, merged, product, show};
use super::node::{Node, Numbers, Outcome};
use super::value::Element;
use crate::Finding;
use crate::numbers::Rank;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Expand", expand),
    ("Flatten", flatten),
    ("Reshape", reshape),
    ("Shape", shape),
    ("Size", size),
    ("Squeeze", squeeze),
    ("Transpose", transpose),
    ("Unsqueeze", unsqueeze),
];

/// Returns the elements of an input of rank 1, each known, a symbol or unknown; `None` if their number is unknown.
pub(super) fn list_of(node: &Node<'_>, index: usize) -> Checked<Option<Vec<Element>>> {
    if let Some(elements) = node.contents(index) {
        return Ok(Some(elements.to_vec()));
    }
    let Some([count]) = node.ranked(index, 1)? else { return Ok(None) };
    let count = match count {
        Dim::Known(count) => usize::try_from(*count).ok(),
        _ => None,
    };
    let count = count.filter(|count| *count <= super::dims::MAX_RANK);
    Ok(count.map(|count| vec![Element::Unknown; count]))
}

fn reshape(node: &mut Node<'_>) -> Outcome {
    let target = match node.ints_attribute("shape") {
        Some(shape) => Some(shape.iter().copied().map(Element::Int).collect()),
        None => list_of(node, 1)?,
    };
    let shape = match target {
        Some(target) => Some(reshaped(node, &target)?),
        None => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// 0 copies the dim of the input at that position, unless `allowzero`; -1 is inferred from the rest.
fn reshaped(node: &Node<'_>, target: &[Element]) -> Checked<Vec<Dim>> {
    let input = node.shape(0);
    let wanted = || {
        let show = |element: &Element| match element {
            Element::Int(number) => number.to_string(),
            other => other.dim().map_or_else(String::new, |dim| dim.to_string()),
        };
        target.iter().map(show).collect::<Vec<_>>().join(", ")
    };
    let (mut shape, mut open) = (Vec::with_capacity(target.len()), Vec::new());
    let mut rest = false;
    for (place, element) in target.iter().enumerate() {
        shape.push(match element {
            Element::Int(-1) if rest => {
                return Err(
                    format!("expected a single -1 in the shape, found [{}]", wanted()).into()
                );
            }
            Element::Int(-1) => {
                rest = true;
                open.push(place);
                Dim::Unknown
            }
            Element::Int(0) if !node.flag("allowzero") => match input {
                None => Dim::Unknown,
                Some(input) => input.get(place).cloned().ok_or_else(|| {
                    format!("expected dim {place} for a 0 in the shape, found {}", show(input))
                })?,
            },
            element => {
                let dim = element.dim();
                let dim = dim
                    .ok_or_else(|| format!("expected dims of at least -1, found [{}]", wanted()))?;
                if dim == Dim::Unknown {
                    open.push(place);
                }
                dim
            }
        });
    }
    let Some(input) = input else { return Ok(shape) };
    let wrong =
        || format!("expected the same number of elements as {}, found [{}]", show(input), wanted());
    match open.as_slice() {
        [] => match (product(input), product(&shape)) {
            (Dim::Known(a), Dim::Known(b)) if a != b => return Err(wrong().into()),
            _ => {}
        },
        [_] if rest && shape.contains(&Dim::Known(0)) => {
            let wrong = format!("expected no 0 beside a -1 in the shape, found [{}]", wanted());
            return Err(wrong.into());
        }
        [place] => {
            let others = shape.iter().enumerate().filter(|(at, _)| at != place);
            let others: Vec<_> = others.map(|(_, dim)| dim.clone()).collect();
            let left = divided(input, &others).ok_or_else(wrong)?;
            if let Some(open) = shape.get_mut(*place) {
                *open = left;
            }
        }
        _ => {}
    }
    Ok(shape)
}

/// The maximum number of symbols of a shape that are compared one by one.
const MAX_SYMBOLS: usize = 16;

/// Divides a product of dims by other dims; `None` if the result is not an integer.
fn divided(all: &[Dim], others: &[Dim]) -> Option<Dim> {
    let apart = |dims: &[Dim]| -> (Vec<Dim>, Vec<Dim>) {
        dims.iter().cloned().partition(|dim| matches!(dim, Dim::Known(_)))
    };
    let ((known, mut symbols), (others, mut rest)) = (apart(all), apart(others));
    if symbols.len() > MAX_SYMBOLS || rest.len() > MAX_SYMBOLS {
        return Some(Dim::Unknown);
    }
    // Equal symbols on both sides cancel out.
    rest.retain(|other| match symbols.iter().position(|dim| dim == other) {
        Some(place) if *other != Dim::Unknown => {
            symbols.swap_remove(place);
            false
        }
        _ => true,
    });
    let others = if rest.is_empty() { product(&others) } else { Dim::Unknown };
    match (product(&known), others) {
        // 0 divided by 0 may be any number.
        (_, Dim::Known(0)) => Some(Dim::Unknown),
        (Dim::Known(all), Dim::Known(others)) if symbols.is_empty() => {
            (all % others == 0).then(|| Dim::Known(all / others))
        }
        (Dim::Known(all), Dim::Known(others)) if all == others => Some(product(&symbols)),
        _ => Some(Dim::Unknown),
    }
}

/// Output: [dims before the axis, dims from the axis].
fn flatten(node: &mut Node<'_>) -> Outcome {
    let shape = match node.shape(0) {
        Some(shape) => {
            let axis = node.int_or("axis", 1);
            // The axis may also be the end, after the last dim.
            let place = match usize::try_from(axis) {
                Ok(place) if place == shape.len() => place,
                _ => axis_of(axis, shape.len())?,
            };
            let (before, after) = shape.split_at(place.min(shape.len()));
            vec![product(before), product(after)]
        }
        None => vec![Dim::Unknown; 2],
    };
    node.tensor(0, node.dtype(0), Some(shape));
    Ok(())
}

fn squeeze(node: &mut Node<'_>) -> Outcome {
    let axes = node.numbers("axes", 1);
    let shape = match (node.shape(0), axes) {
        (Some(shape), Numbers::Known(axes)) => {
            let gone = axes_of(&axes, shape.len())?;
            let one = |dim: &Dim| merged(dim, &Dim::Known(1)).is_some();
            if let Some((dim, _)) = shape.iter().zip(&gone).find(|(dim, gone)| **gone && !one(dim))
            {
                return Err(format!("expected dims of 1 at the axes, found {dim}").into());
            }
            Some(shape.iter().zip(gone).filter(|(_, gone)| !gone).map(|(d, _)| d.clone()).collect())
        }
        (Some(shape), Numbers::Absent) => {
            let known = shape.iter().all(|dim| matches!(dim, Dim::Known(_)));
            let left = shape.iter().filter(|dim| **dim != Dim::Known(1));
            known.then(|| left.cloned().collect())
        }
        _ => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

fn unsqueeze(node: &mut Node<'_>) -> Outcome {
    let shape = match (node.shape(0), node.numbers("axes", 1)) {
        (Some(shape), Numbers::Known(axes)) => {
            let rank = shape.len().saturating_add(axes.len());
            let new = axes_of(&axes, rank)?;
            let mut old = shape.iter();
            let next = |new: bool| if new { None } else { old.next().cloned() };
            Some(new.into_iter().map(next).map(|dim| dim.unwrap_or(Dim::Known(1))).collect())
        }
        (_, Numbers::Absent) => {
            return Err(Finding::from("expected `axes`, found none").about_attribute("axes"));
        }
        (Some(shape), Numbers::Unknown) => match node.shape(1) {
            // Only the rank of the result is known.
            Some([Dim::Known(count)]) => {
                let count = usize::try_from(*count).ok();
                let rank = count.and_then(|count| shape.len().checked_add(count));
                let rank = rank.filter(|rank| *rank <= super::dims::MAX_RANK);
                rank.map(|rank| vec![Dim::Unknown; rank])
            }
            _ => None,
        },
        _ => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

fn transpose(node: &mut Node<'_>) -> Outcome {
    let perm = node.ints_attribute("perm");
    // Unlike other axes, those of `perm` do not count from the end: ONNX and its runtimes reject negative ones.
    if let Some(axis) = perm.and_then(|perm| perm.iter().find(|axis| **axis < 0)) {
        let wrong = format!("expected axes of at least 0, found {axis}");
        return Err(Finding::from(wrong).about_attribute("perm"));
    }
    let shape = match (node.shape(0), perm) {
        (Some(shape), None) => Some(shape.iter().rev().cloned().collect()),
        (Some(shape), Some(perm)) => {
            let whole = axes_of(perm, shape.len())?.iter().all(|named| *named);
            if !whole {
                return Err(Finding::from(format!("expected a `perm` of {} axes", shape.len()))
                    .about_attribute("perm"));
            }
            let dim = |axis: &i64| axis_of(*axis, shape.len()).map(|place| shape.get(place));
            let dims = perm.iter().map(dim).collect::<Checked<Vec<_>>>()?;
            Some(dims.into_iter().flatten().cloned().collect())
        }
        (None, Some(perm)) => Some(vec![Dim::Unknown; perm.len().min(super::dims::MAX_RANK)]),
        (None, None) => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

fn expand(node: &mut Node<'_>) -> Outcome {
    let target = match list_of(node, 1)? {
        Some(target) => {
            let dims = target.iter().map(Element::dim).collect::<Option<Vec<_>>>();
            Some(dims.ok_or("expected dims of at least 0, found a negative one")?)
        }
        None => None,
    };
    let shape = broadcast(&[node.shape(0), target.as_deref()])?;
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// Returns the range of dims between `start` and `end`.
pub(super) fn shape_range(node: &Node<'_>, rank: usize) -> std::ops::Range<usize> {
    let place = |axis: i64| Rank::new(rank).place(axis);
    let start = place(node.int_or("start", 0));
    let end = node.int_attribute("end").map_or(rank, place);
    start..end.max(start)
}

fn shape(node: &mut Node<'_>) -> Outcome {
    let count = match node.shape(0) {
        Some(shape) => Dim::Known(shape_range(node, shape.len()).len() as u64),
        None => Dim::Unknown,
    };
    node.tensor(0, DType::Int64, Some(vec![count]));
    Ok(())
}

fn size(node: &mut Node<'_>) -> Outcome {
    node.known(0, DType::Int64, &[]);
    Ok(())
}

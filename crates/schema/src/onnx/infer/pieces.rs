//! Tensors that are concatenated, split, tiled and padded.

use lodstone_model::Dim;

use super::Rule;
use super::dims::{Checked, axes_of, axis_of, mapped, merged, show, sum};
use super::node::{Node, Numbers, Outcome};
use super::reshape::list_of;
use super::value::Element;
use crate::Finding;
use crate::places::at_mut;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Concat", concat),
    ("DepthToSpace", to_space),
    ("Pad", pad),
    ("SpaceToDepth", to_depth),
    ("Split", split),
    ("Tile", tile),
];

fn tile(node: &mut Node<'_>) -> Outcome {
    let input = node.shape(0);
    let repeats = match (input, node.opset) {
        // Repeats and axis.
        (Some(shape), ..6) => match (node.int(1), node.int(2)) {
            (Some(times), Some(axis)) => {
                let axis = axis_of(axis, shape.len())?;
                let times = |place| Element::Int(if place == axis { times } else { 1 });
                Some((0..shape.len()).map(times).collect())
            }
            _ => Some(vec![Element::Unknown; shape.len()]),
        },
        _ => list_of(node, 1)?,
    };
    let shape = match (input, repeats) {
        (Some(shape), Some(repeats)) if shape.len() != repeats.len() => {
            let found = repeats.len();
            return Err(format!("expected {} repetitions, found {found}", shape.len()).into());
        }
        (Some(shape), Some(repeats)) => {
            let tiled = |(dim, times): (&Dim, &Element)| match (dim, times) {
                (_, Element::Int(times @ ..0)) => {
                    Err(format!("expected repetitions of at least 0, found {times}").into())
                }
                (dim, Element::Int(1)) => Ok(dim.clone()),
                (_, Element::Int(0)) => Ok(Dim::Known(0)),
                (Dim::Known(1), Element::Symbol(name)) => Ok(Dim::Symbol(name.clone())),
                (dim, Element::Int(times)) => {
                    mapped(dim, "a dim", |size| size.checked_mul(i128::from(*times)))
                }
                _ => Ok(Dim::Unknown),
            };
            Some(shape.iter().zip(&repeats).map(tiled).collect::<Checked<_>>()?)
        }
        (Some(shape), None) => Some(vec![Dim::Unknown; shape.len()]),
        (None, Some(repeats)) if node.opset >= 6 => Some(vec![Dim::Unknown; repeats.len()]),
        _ => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

fn concat(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype(0..node.inputs.len())?;
    let axis = match node.int_attribute("axis") {
        Some(axis) => axis,
        None if node.opset < 4 => 1,
        None => return Err(Finding::from("expected an `axis`, found none").about_attribute("axis")),
    };
    let shapes: Vec<_> = (0..node.inputs.len()).map(|index| node.shape(index)).collect();
    let shape = joined(&shapes, axis)?;
    node.tensor(0, dtype, shape);
    Ok(())
}

/// Concatenates shapes along an axis.
pub(super) fn joined(shapes: &[Option<&[Dim]>], axis: i64) -> Checked<Option<Vec<Dim>>> {
    let Some(first) = shapes.iter().flatten().next() else { return Ok(None) };
    let place = axis_of(axis, first.len())?;
    let mut all = first.to_vec();
    let mut length = Dim::Known(0);
    for shape in shapes {
        let Some(shape) = shape else {
            length = Dim::Unknown;
            continue;
        };
        let wrong = || {
            format!(
                "expected shapes that differ only at axis {place}, found {} and {}",
                show(first),
                show(shape)
            )
        };
        if shape.len() != first.len() {
            return Err(wrong().into());
        }
        for (at, (known, dim)) in all.iter_mut().zip(*shape).enumerate() {
            match at == place {
                true => length = sum(&length, dim),
                false => *known = merged(known, dim).ok_or_else(wrong)?,
            }
        }
    }
    *at_mut(&mut all, place)? = length;
    Ok(Some(all))
}

fn split(node: &mut Node<'_>) -> Outcome {
    let count = node.outputs.len();
    let dtype = node.dtype(0);
    let Some(shape) = node.shape(0) else {
        (0..count).for_each(|index| node.tensor(index, dtype, None));
        return Ok(());
    };
    let axis = node.axis("axis", 0, shape.len())?;
    let whole = shape.get(axis).cloned().unwrap_or(Dim::Unknown);
    // From version 18, either the sizes or their number is required, except for a single part.
    let is_counted = node.has_attribute("num_outputs");
    if node.opset >= 18 && node.has(1) == is_counted && (is_counted || count > 1) {
        let found = if is_counted { "both" } else { "neither" };
        return Err(format!("expected `split` or `num_outputs`, found {found}").into());
    }
    let sizes = match node.numbers("split", 1) {
        Numbers::Known(sizes) => {
            let dims: Option<Vec<_>> =
                sizes.iter().map(|size| u64::try_from(*size).ok().map(Dim::Known)).collect();
            let dims =
                dims.ok_or("expected sizes of at least 0 in `split`, found a negative one")?;
            if dims.len() != count {
                return Err(format!(
                    "expected {count} sizes for {count} outputs, found {}",
                    dims.len()
                )
                .into());
            }
            let all = dims.iter().fold(Dim::Known(0), |all, dim| sum(&all, dim));
            if merged(&all, &whole).is_none() {
                return Err(format!("expected sizes with the sum {whole}, found {all}").into());
            }
            dims
        }
        Numbers::Unknown => vec![Dim::Unknown; count],
        Numbers::Absent if count == 1 => vec![whole],
        Numbers::Absent => {
            let parts = count as u64;
            match node.int_attribute("num_outputs") {
                Some(declared) if u64::try_from(declared) != Ok(parts) => {
                    return Err(Finding::from(format!(
                        "expected `num_outputs` of {count} outputs, found {declared}"
                    ))
                    .about_attribute("num_outputs"));
                }
                declared => even(&whole, parts, declared.is_some())?,
            }
        }
    };
    for (index, size) in sizes.into_iter().enumerate() {
        let mut part = shape.to_vec();
        *at_mut(&mut part, axis)? = size;
        node.tensor(index, dtype, Some(part));
    }
    Ok(())
}

/// Splits a dim into equal parts; the last one may be smaller if `uneven`.
fn even(whole: &Dim, parts: u64, uneven: bool) -> Checked<Vec<Dim>> {
    let Dim::Known(whole) = whole else {
        return Ok((0..parts).map(|_| Dim::Unknown).collect());
    };
    if parts == 0 {
        return Ok(Vec::new());
    }
    if whole % parts != 0 && !uneven {
        return Err(format!("expected a multiple of {parts} to split, found {whole}").into());
    }
    let size = whole.div_ceil(parts);
    let part = |index: u64| {
        let begin = index.saturating_mul(size).min(*whole);
        Dim::Known(size.min(whole - begin))
    };
    Ok((0..parts).map(part).collect())
}

fn pad(node: &mut Node<'_>) -> Outcome {
    let dtype = node.dtype(0);
    let Some(shape) = node.shape(0) else {
        node.tensor(0, dtype, None);
        return Ok(());
    };
    let given = node.ints_attribute("pads").or_else(|| node.ints_attribute("paddings"));
    let pads = match given {
        Some(pads) => Some(pads.iter().copied().map(Element::Int).collect()),
        None => list_of(node, 1)?,
    };
    let axes = match node.numbers("axes", 3) {
        Numbers::Absent => (0..shape.len()).collect(),
        Numbers::Known(axes) => {
            axes_of(&axes, shape.len())?;
            axes.iter().map(|axis| axis_of(*axis, shape.len())).collect::<Checked<Vec<_>>>()?
        }
        Numbers::Unknown => {
            node.tensor(0, dtype, Some(vec![Dim::Unknown; shape.len()]));
            return Ok(());
        }
    };
    let Some(pads) = pads else {
        node.tensor(0, dtype, Some(vec![Dim::Unknown; shape.len()]));
        return Ok(());
    };
    if pads.len() != 2 * axes.len() {
        return Err(format!("expected {} pads, found {}", 2 * axes.len(), pads.len()).into());
    }
    let mut padded = shape.to_vec();
    let (begins, ends) = pads.split_at(axes.len());
    for (axis, (begin, end)) in axes.into_iter().zip(begins.iter().zip(ends)) {
        let dim = at_mut(&mut padded, axis)?;
        *dim = match (begin, end) {
            (Element::Int(begin), Element::Int(end)) => {
                let more = i128::from(*begin) + i128::from(*end);
                if more == 0 {
                    continue;
                }
                mapped(dim, "a dim", |dim| Some(dim + more))?
            }
            _ => Dim::Unknown,
        };
    }
    node.tensor(0, dtype, Some(padded));
    Ok(())
}

fn block_size(node: &Node<'_>) -> Checked<i128> {
    let size = node.int_attribute("blocksize").ok_or("expected a `blocksize`, found none")?;
    match size {
        1.. => Ok(i128::from(size)),
        _ => Err(Finding::from(format!("expected a `blocksize` of at least 1, found {size}"))
            .about_attribute("blocksize")),
    }
}

/// Input: [batch, channels, height, width]; the channels hold blocks of pixels.
fn to_space(node: &mut Node<'_>) -> Outcome {
    let size = block_size(node)?;
    let shape = match node.ranked(0, 4)? {
        Some([batch, channels, height, width]) => {
            let side = |dim| mapped(dim, "a dim", |n| n.checked_mul(size));
            Some(vec![
                batch.clone(),
                parted(channels, size.saturating_mul(size), "channels")?,
                side(height)?,
                side(width)?,
            ])
        }
        _ => Some(vec![Dim::Unknown; 4]),
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

fn to_depth(node: &mut Node<'_>) -> Outcome {
    let size = block_size(node)?;
    let shape = match node.ranked(0, 4)? {
        Some([batch, channels, height, width]) => {
            let square = size.saturating_mul(size);
            let channels = mapped(channels, "channels", |dim| dim.checked_mul(square))?;
            Some(vec![
                batch.clone(),
                channels,
                parted(height, size, "rows")?,
                parted(width, size, "columns")?,
            ])
        }
        _ => Some(vec![Dim::Unknown; 4]),
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// Divides a dim by a size.
fn parted(dim: &Dim, size: i128, what: &str) -> Checked<Dim> {
    if let Dim::Known(n) = dim
        && i128::from(*n) % size != 0
    {
        return Err(format!("expected {what} divisible by {size}, found {dim}").into());
    }
    mapped(dim, what, |n| Some(n / size))
}

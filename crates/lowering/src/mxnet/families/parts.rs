//! Taking tensors apart and putting them together.

use lodstone_model::DType;
use lodstone_schema::numbers::{Axis, length};
use lodstone_schema::places::at_mut;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, axis_of, dim_of, place_in, rank};
use crate::onnx::indexing::{BEYOND, Bounds, Pad, Padding, Sections, Span};
use crate::onnx::{Size, Value};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Concat", Rule::One(concat)),
    ("Crop", Rule::One(crop)),
    ("Pad", Rule::One(pad)),
    ("SliceChannel", Rule::Many(slice_channel)),
    ("_npi_flip", Rule::One(reverse)),
    ("_rnn_param_concat", Rule::One(concat)),
    ("_slice_assign", Rule::One(slice_assign)),
    ("_slice_assign_scalar", Rule::One(slice_assign_scalar)),
    ("_split_v2", Rule::Many(split)),
    ("broadcast_axis", Rule::One(broadcast_axis)),
    ("broadcast_like", Rule::One(broadcast_like)),
    ("broadcast_to", Rule::One(broadcast_to)),
    ("repeat", Rule::One(repeat)),
    ("reverse", Rule::One(reverse)),
    ("slice", Rule::One(slice)),
    ("slice_axis", Rule::One(slice_axis)),
    ("slice_like", Rule::One(slice_like)),
    ("stack", Rule::One(stack)),
    ("tile", Rule::One(tile)),
];

fn concat(node: &mut Node<'_>) -> Outcome {
    let all = node.all()?;
    let first = node.input(0)?;
    let dim = node.attributes.int("dim", 1)?;
    // `mx.np.concatenate` has `axis` instead.
    let axis = match node.attributes.find("axis")? {
        None => dim,
        Some("None") => {
            let flat: Outcome<Vec<Value>> = all.iter().map(|x| node.reshape_to(x, &[-1])).collect();
            return node.concat(&flat?.iter().collect::<Vec<_>>(), 0);
        }
        Some(_) => node.attributes.int("axis", 0)?,
    };
    let axis = axis_of(&first, axis)?;
    if let [only] = all.as_slice() {
        return Ok(only.clone());
    }
    node.concat(&all.iter().collect::<Vec<_>>(), axis)
}

pub(super) fn stack(node: &mut Node<'_>) -> Outcome {
    let all = node.all()?;
    let axis = node.attributes.int("axis", 0)?;
    let axis = place_in(rank(&node.input(0)?)?.saturating_add(1), axis)?;
    let all = all.iter().map(|x| node.unsqueeze(x, &[axis])).collect::<Outcome<Vec<_>>>()?;
    node.concat(&all.iter().collect::<Vec<_>>(), axis)
}

/// Divides into equal parts, whose dim of 1 may be removed.
fn slice_channel(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [x] = node.exactly()?;
    let count = node.attributes.int("num_outputs", None)?;
    let axis = axis_of(&x, node.attributes.int("axis", 1)?)?;
    let squeezes = node.attributes.flag("squeeze_axis", false)?;
    let parts = node.split(&x, axis, Sections::Equal(count))?;
    if squeezes { node.squeezed(&parts, axis) } else { Ok(parts) }
}

/// Divides at indices, of which the first is 0, or into equal sections.
pub(super) fn split(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [x] = node.exactly()?;
    let starts = node.attributes.ints("indices")?;
    let axis = axis_of(&x, node.attributes.int("axis", 1)?)?;
    let squeezes = node.attributes.flag("squeeze_axis", false)?;
    let sections = node.attributes.int("sections", 0)?;
    let parts = match (sections, starts.as_slice()) {
        (1.., _) => node.split(&x, axis, Sections::FirstLonger(sections))?,
        (_, [0, places @ ..]) => {
            let most = dim_of(&x, axis).unwrap_or(BEYOND);
            if !starts.is_sorted() || places.last().is_some_and(|last| *last > most) {
                return Err(wrong("indices", "ascending indices", &format!("{starts:?}")));
            }
            node.split_at(&x, axis, places)?
        }
        _ => return Err(wrong("indices", "indices from 0 on", &format!("{starts:?}"))),
    };
    if squeezes { node.squeezed(&parts, axis) } else { Ok(parts) }
}

/// Slices along the first axes, by begins, ends and steps of which any may be `None`.
fn sliced(node: &mut Node<'_>, x: &Value) -> Outcome {
    let required = |name: &str| format!("the attribute `{name}` is missing");
    let begins = node.attributes.tuple("begin")?.ok_or_else(|| required("begin"))?;
    let ends = node.attributes.tuple("end")?.ok_or_else(|| required("end"))?;
    let steps = node.attributes.tuple("step")?.unwrap_or_default();
    let count = begins.len();
    if ends.len() != count || (!steps.is_empty() && steps.len() != count) {
        return Err("`begin`, `end` and `step` must have one length".into());
    }
    if length(count) > rank(x)? || count == 0 {
        return Err(format!("expected 1 to {} ranges, found {count}", rank(x)?).into());
    }
    let steps = if steps.is_empty() { vec![None; count] } else { steps };
    // A step of `None` is 1, as in MXNet.
    let steps: Vec<i64> = steps.into_iter().map(|step| step.unwrap_or(1)).collect();
    let bound = |bound: Option<i64>| bound.map(Size::Known);
    let all = begins.into_iter().zip(ends).zip(steps).zip(0..);
    let spans = all.map(|(((begin, end), step), axis)| Span {
        axis,
        start: bound(begin),
        end: bound(end),
        step: Size::Known(step),
    });
    let spans = node.spans(&spans.collect::<Vec<_>>())?;
    node.sliced(x, &spans, Bounds::Clamped)
}

fn slice(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    sliced(node, &x)
}

/// Replaces the elements of a slice.
fn assigned(node: &mut Node<'_>, x: &Value, value: &Value) -> Outcome {
    let places = node.element_places(x)?;
    let places = sliced(node, &places)?;
    let value = node.expand_as(value, &places)?;
    node.written_at(x, &places, &value)
}

fn slice_assign(node: &mut Node<'_>) -> Outcome {
    let [x, value] = node.exactly()?;
    assigned(node, &x, &value)
}

fn slice_assign_scalar(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let number = node.attributes.float("scalar", 0.0)?;
    let value = node.number(x.dtype(), number)?;
    assigned(node, &x, &value)
}

fn slice_axis(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let axis = axis_of(&x, node.attributes.int("axis", None)?)?;
    let begin = node.attributes.int("begin", None)?;
    if node.attributes.find("end")?.is_none() {
        return Err("the attribute `end` is missing".into());
    }
    let (start, end) = (Some(Size::Known(begin)), node.attributes.int_or_none("end")?);
    let spans = node.spans(&[Span { start, end: end.map(Size::Known), ..Span::all(axis) }])?;
    node.sliced(&x, &spans, Bounds::Within)
}

/// Slices to the dims of another tensor.
fn slice_like(node: &mut Node<'_>) -> Outcome {
    let [x, like] = node.exactly()?;
    let axes = node.attributes.ints("axes")?;
    let axes: Vec<i64> = match axes.is_empty() {
        true => (0..rank(&x)?).collect(),
        false => axes.iter().map(|axis| axis_of(&x, *axis)).collect::<Outcome<_>>()?,
    };
    let mut result = x;
    for axis in axes {
        place_in(rank(&like)?, axis)?;
        let size = node.size_of(&like, axis)?;
        result = node.cut(&result, axis, &Size::Known(0), &size)?;
    }
    Ok(result)
}

/// Expands dims of 1.
fn broadcast_axis(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let (axes, sizes) = (node.attributes.ints("axis")?, node.attributes.ints("size")?);
    if axes.len() != sizes.len() || sizes.iter().any(|size| *size < 0) {
        return Err(format!("expected a size for each axis, found {axes:?} and {sizes:?}").into());
    }
    let mut dims = vec![1; x.rank()?.count()];
    for (axis, size) in axes.iter().zip(sizes) {
        let axis = x.rank()?.axis(*axis)?;
        check_one(&x, axis.number())?;
        *at_mut(&mut dims, axis.index())? = size;
    }
    let dims = node.longs(&dims);
    node.call("Expand", &[&x, &dims], [])
}

fn check_one(x: &Value, axis: i64) -> Outcome<()> {
    match dim_of(x, axis) {
        Some(1) | None => Ok(()),
        Some(dim) => Err(format!("expected dim {axis} to be 1, found {dim}").into()),
    }
}

fn broadcast_to(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let shape = node.attributes.required_ints("shape")?;
    if length(shape.len()) != rank(&x)? || shape.iter().any(|dim| *dim < 0) {
        return Err(wrong("shape", &format!("{} dims", x.rank()?), &format!("{shape:?}")));
    }
    for (axis, dim) in (0..).zip(&shape) {
        if dim_of(&x, axis).is_some_and(|known| *dim != 0 && known != 1 && known != *dim) {
            check_one(&x, axis)?;
        }
    }
    // 0 keeps a dim, as 1 does in ONNX.
    let shape: Vec<i64> = shape.iter().map(|dim| if *dim == 0 { 1 } else { *dim }).collect();
    let shape = node.longs(&shape);
    node.call("Expand", &[&x, &shape], [])
}

fn broadcast_like(node: &mut Node<'_>) -> Outcome {
    let [x, like] = node.exactly()?;
    let left = node.attributes.ints_or_none("lhs_axes")?;
    let right = node.attributes.ints_or_none("rhs_axes")?;
    let pairs: Vec<(Axis, Axis)> = match (left, right) {
        (None, None) => {
            if rank(&x)? != rank(&like)? {
                return Err(format!("expected rank {}, found {}", rank(&like)?, rank(&x)?).into());
            }
            x.rank()?.axes().map(|axis| (axis, axis)).collect()
        }
        (Some(left), Some(right)) if left.len() == right.len() => {
            let (of_x, of_like) = (x.rank()?, like.rank()?);
            let pair = |(left, right): (i64, i64)| Ok((of_x.axis(left)?, of_like.axis(right)?));
            left.into_iter().zip(right).map(pair).collect::<Outcome<_>>()?
        }
        _ => return Err("`lhs_axes` and `rhs_axes` must have one length".into()),
    };
    let mut parts = vec![node.longs(&[1]); x.rank()?.count()];
    for (axis, other) in pairs {
        *at_mut(&mut parts, axis.index())? = node.dim(&like, other.number())?;
    }
    let shape = node.concat(&parts.iter().collect::<Vec<_>>(), 0)?;
    node.call("Expand", &[&x, &shape], [])
}

fn tile(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let mut reps = node.attributes.required_ints("reps")?;
    if reps.iter().any(|count| *count < 0) {
        return Err(wrong("reps", "numbers that are not negative", &format!("{reps:?}")));
    }
    let rank = x.rank()?.count();
    let mut x = x;
    match reps.len().checked_sub(rank) {
        Some(0) | None => {
            let missing = rank.saturating_sub(reps.len());
            reps.splice(0..0, std::iter::repeat_n(1, missing));
        }
        Some(more) if more <= 64 => {
            let front: Vec<i64> = (0..).take(more).collect();
            x = node.unsqueeze(&x, &front)?;
        }
        Some(_) => return Err(wrong("reps", "fewer numbers", &reps.len().to_string())),
    }
    let reps = node.longs(&reps);
    node.call("Tile", &[&x, &reps], [])
}

/// Repeats each element along an axis; without one, of the flattened tensor.
fn repeat(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let count = node.attributes.int("repeats", None)?;
    if count < 0 {
        return Err(wrong("repeats", "a number that is not negative", &count.to_string()));
    }
    let axis = node.attributes.int_or_none("axis")?;
    let (x, axis) = match axis {
        Some(axis) => (x.clone(), axis),
        None => (node.recoded(&x, &[-1])?, 0),
    };
    let rank = x.rank()?;
    let axis = rank.axis(axis)?;
    let spread = node.unsqueeze(&x, &[axis.number() + 1])?;
    let mut reps = vec![1; rank.count() + 1];
    *at_mut(&mut reps, axis.index() + 1)? = count;
    let reps = node.longs(&reps);
    let tiled = node.call("Tile", &[&spread, &reps], [])?;
    if count == 0 {
        return node.slice(&x, axis.number(), 0, 0);
    }
    let codes: Vec<i64> = rank.axes().map(|at| if at == axis { -3 } else { 0 }).collect();
    node.recoded(&tiled, &codes)
}

fn reverse(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let axes = node.attributes.required_ints("axis")?;
    let axes = axes.iter().map(|axis| axis_of(&x, *axis)).collect::<Outcome<Vec<_>>>()?;
    node.reversed(&x, &axes)
}

/// Pads by pairs of numbers for each dim.
fn pad(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let padding = match node.attributes.word("mode", &["constant", "edge", "reflect"], "")? {
        "constant" => Padding::Constant,
        "edge" => Padding::Edge,
        "reflect" => Padding::Reflect,
        _ => return Err("the attribute `mode` is missing".into()),
    };
    let widths = node.attributes.required_ints("pad_width")?;
    let number = node.attributes.float("constant_value", 0.0)?;
    let wanted = x.rank()?.count().saturating_mul(2);
    if widths.len() != wanted || widths.iter().any(|width| !(0..=BEYOND).contains(width)) {
        return Err(wrong("pad_width", &format!("{wanted} numbers"), &format!("{widths:?}")));
    }
    let pairs = widths.as_chunks::<2>().0.iter().zip(0..);
    let pads: Vec<Pad> = pairs.map(|(pair, axis)| Pad::known(axis, *pair)).collect();
    if x.dtype() == DType::Bool {
        return node.padded(&x, &pads, padding, None);
    }
    let number = node.number(x.dtype(), number)?;
    node.padded(&x, &pads, padding, Some(&number))
}

/// Cuts an area out of images: of given dims, or those of a second input.
fn crop(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let offset = node.each("offset", 2, 0, 0)?;
    let size = node.each("h_w", 2, 0, 0)?;
    let is_centered = node.attributes.flag("center_crop", false)?;
    let count = node.attributes.int("num_args", None)?;
    if length(node.count()) != count || rank(&x)? != 4 {
        return Err(format!("expected {count} inputs of rank 4, found {}", node.count()).into());
    }
    node.at_most(2)?;
    let like = node.optional(1);
    let mut result = x;
    for (axis, (offset, size)) in [2, 3].into_iter().zip(offset.iter().zip(&size)) {
        let size = match &like {
            Some(like) => node.size_of(like, axis)?,
            None => Size::Known(*size),
        };
        let start = match is_centered {
            true => {
                let dim = node.size_of(&result, axis)?;
                let rest = node.difference_of(&dim, &size)?;
                node.quotient_of(&rest, 2)?
            }
            false => Size::Known(*offset),
        };
        result = node.cut(&result, axis, &start, &size)?;
    }
    Ok(result)
}

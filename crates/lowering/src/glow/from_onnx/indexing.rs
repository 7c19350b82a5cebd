//! Indexing operators.

use lodstone_model::DType;
use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::numbers::length;
use lodstone_schema::onnx::infer::Element;

use super::graph::{MemberValue, Value, count, plain};
use super::op::{Cx, Fault, Outcome, Rule, one};
use super::storage::is_dense;
use crate::glow::elements::floats_of;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("NonMaxSuppression", non_max_suppression),
    ("NonZero", non_zero),
    ("RoiAlign", roi_align),
    ("ScatterND", scatter_nd),
    ("TopK", top_k),
];

/// Returns the indices with non-negative values, the only ones that Glow supports. Constant indices are converted;
/// computed ones are assumed to be non-negative.
fn positions(cx: &mut Cx<'_>, index: usize, dim: i64) -> Result<Value, Fault> {
    let known = cx.ints(index).ok().filter(|known| known.iter().any(|position| *position < 0));
    let value = cx.input(index)?;
    let Some(known) = known else { return Ok(value) };
    let of = cx.type_of(value);
    let mut bytes = Vec::new();
    for position in known {
        let position = if position < 0 { position.saturating_add(dim) } else { position };
        match of.kind {
            ElemKind::Int64I => bytes.extend(position.to_le_bytes()),
            _ => {
                let position = i32::try_from(position).map_err(|_| "an index is too large")?;
                bytes.extend(position.to_le_bytes());
            }
        }
    }
    let name = format!("{}_positions", cx.base);
    Ok(cx.graph.constant_of(&name, of.kind, of.shape, bytes)?)
}

fn gather(cx: &mut Cx<'_>) -> Outcome {
    let data = cx.input(0)?;
    let shape = cx.shape(data);
    let axis = cx.axis("axis", 0, shape.len())?;
    let indices = positions(cx, 1, cx.dim(data, length(axis))?)?;
    let rest = shape.iter().skip(axis + 1);
    let result: Vec<i64> =
        shape.iter().take(axis).chain(cx.graph.shape(indices)).chain(rest).copied().collect();
    let of = cx.shaped(data, result);
    let members = vec![("BatchDims", MemberValue::Int(length(axis)))];
    one(cx.node("Gather", "", &[data, indices], members, of)?)
}

fn gather_elements(cx: &mut Cx<'_>) -> Outcome {
    let data = cx.input(0)?;
    let shape = cx.shape(data);
    let axis = cx.axis("axis", 0, shape.len())?;
    let indices = positions(cx, 1, cx.dim(data, length(axis))?)?;
    let of = cx.shaped(data, cx.shape(indices));
    let members = vec![("Dim", MemberValue::Int(length(axis)))];
    one(cx.node("GatherElements", "", &[data, indices], members, of)?)
}

fn gather_nd(cx: &mut Cx<'_>) -> Outcome {
    let (data, indices) = (cx.input(0)?, cx.input(1)?);
    let batch = cx.int("batch_dims", 0)?;
    let of = cx.shaped(data, cx.shape_out(0)?);
    one(cx.node(
        "GatherND",
        "",
        &[data, indices],
        vec![("BatchDims", MemberValue::Int(batch))],
        of,
    )?)
}

fn scatter_nd(cx: &mut Cx<'_>) -> Outcome {
    let (data, indices, updates) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let adds = match cx.text("reduction", "none")?.as_str() {
        "none" => false,
        "add" => true,
        other => {
            let expected = "expected `none` or `add` as `reduction`";
            return Err(format!("{expected}, found `{other}`").into());
        }
    };
    // In Glow, indices and updates are rows.
    let whole = cx.shape(indices);
    let (width, lead) = whole.split_last().ok_or("expected indices, found a scalar")?;
    let rows = count(lead)?;
    let indices = cx.reshape(indices, &[rows, *width], "positions")?;
    let tail = cx.shape(updates).into_iter().skip(lead.len());
    let rows: Vec<i64> = std::iter::once(rows).chain(tail).collect();
    let updates = cx.reshape(updates, &rows, "rows")?;
    let of = cx.shaped(data, cx.shape(data));
    let members = vec![("Cumulative", MemberValue::Int(adds.into()))];
    one(cx.node("ScatterData", "", &[data, indices, updates], members, of)?)
}

/// The maximum number of elements of a constant whose indices are stored.
const MAX_POSITIONS: usize = 1 << 16;

/// Folds the indices of the non-zero elements of a constant.
fn non_zero(cx: &mut Cx<'_>) -> Outcome {
    let shape = cx.info(0).and_then(super::known::dims_from).ok_or("expected a known shape")?;
    let known: Vec<bool> = match known_non_zero(cx) {
        Some(known) => known,
        None => {
            return Err("expected a constant: the number of non-zero elements must be known".into());
        }
    };
    if known.len() > MAX_POSITIONS || count(&shape)? != length(known.len()) {
        return Err("expected a smaller constant".into());
    }
    let found: Vec<i64> = (0..).zip(&known).filter(|(_, is)| **is).map(|(at, _)| at).collect();
    let mut bytes = Vec::new();
    let mut stride = length(known.len());
    for dim in &shape {
        // A dim of 0 leaves no positions.
        let dim = (*dim).max(1);
        stride = (stride / dim).max(1);
        bytes.extend(found.iter().flat_map(|position| (position / stride % dim).to_le_bytes()));
    }
    let name = cx.output_name(0);
    let shape = vec![length(shape.len()), length(found.len())];
    one(cx.graph.constant_of(&name, ElemKind::Int64I, shape, bytes)?)
}

fn known_non_zero(cx: &Cx<'_>) -> Option<Vec<bool>> {
    let is = |element: &Element| element.number().map(|number| number != 0.0);
    if let Some(contents) = cx.info(0)?.contents.as_ref()
        && let Some(known) = contents.iter().map(is).collect()
    {
        return Some(known);
    }
    let tensor = cx.tensor(0).filter(|tensor| is_dense(tensor))?;
    if tensor.dtype == DType::Float32 {
        return Some(floats_of(tensor)?.iter().map(|number| *number != 0.0).collect());
    }
    let width = usize::try_from(tensor.dtype.bits()? / 8).ok().filter(|width| *width > 0)?;
    let is_integer = !tensor.dtype.is_float();
    let fits = is_integer && tensor.data.len() <= 8 * MAX_POSITIONS as u64;
    let bytes = tensor.data.bytes().ok().filter(|_| fits)?;
    Some(bytes.chunks_exact(width).map(|chunk| chunk.iter().any(|byte| *byte != 0)).collect())
}

/// Glow's node returns the largest elements along the last axis; other axes are transposed, and for the smallest
/// elements the input is negated.
fn top_k(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let rank = cx.rank(value);
    let axis = cx.axis("axis", -1, rank)?;
    let k = match cx.ints(1)?.as_slice() {
        [k] => *k,
        other => return Err(format!("expected one value, found {}", other.len()).into()),
    };
    let largest = cx.flag("largest", true)?;
    if !largest && cx.type_of(value).kind != ElemKind::Float {
        return Err("Glow returns only the largest, found `largest` 0 of integers".into());
    }
    let last = rank - 1;
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(axis, last);
    let mut value = value;
    if axis != last {
        value = cx.transpose(value, &order, "*", "in")?;
    }
    if !largest {
        value = cx.each("Neg", value, "negative")?;
    }
    let mut shape = cx.shape(value);
    if let Some(dim) = shape.last_mut() {
        *dim = k;
    }
    let of = cx.shaped(value, shape.clone());
    let indices = plain(ElemKind::Int64I, shape);
    let results =
        cx.nodes("TopK", "", &[value], vec![("K", MemberValue::Int(k))], vec![of, indices])?;
    let [mut values, mut indices] = *results else { return Err("expected two results".into()) };
    if !largest {
        values = cx.each("Neg", values, "smallest")?;
    }
    if axis != last {
        values = cx.transpose(values, &order, "*", "values")?;
        indices = cx.transpose(indices, &order, "*", "indices")?;
    }
    Ok(vec![Some(values), Some(indices)])
}

/// Glow returns the maximum number of boxes; the last one is repeated for those that do not exist.
fn non_max_suppression(cx: &mut Cx<'_>) -> Outcome {
    let (boxes, scores) = (cx.input(0)?, cx.input(1)?);
    let most = match cx.has(2) {
        true => cx.integer(2)?,
        false => 0,
    };
    let shape = cx.shape(scores);
    let [batch, classes, _] = *shape else {
        return Err(format!("expected scores by batch and class, found {shape:?}").into());
    };
    let rows = batch.checked_mul(classes).and_then(|all| all.checked_mul(most));
    let rows = rows
        .filter(|rows| *rows > 0)
        .ok_or("expected a positive maximum number of boxes per class")?;
    cx.graph.notes.push(format!("`{}` always returns {rows} boxes, as in Glow", cx.base));
    let of = |shape| plain(ElemKind::Int64I, shape);
    let members = suppression(cx, most, false)?;
    let results = cx.nodes(
        "NonMaxSuppression",
        "",
        &[boxes, scores],
        members,
        vec![of(vec![rows, 3]), of(vec![most])],
    )?;
    one(results.first().copied().ok_or("expected two results")?)
}

/// Returns the members of the node that suppresses overlapping boxes.
pub(super) fn suppression(
    cx: &Cx<'_>,
    most: i64,
    is_version_4: bool,
) -> Result<Vec<(&'static str, MemberValue)>, Fault> {
    Ok(vec![
        ("CenterPointBox", MemberValue::Int(cx.int("center_point_box", 0)?)),
        ("MaxOutputBoxesPerClass", MemberValue::Int(most)),
        ("IouThreshold", MemberValue::Float(cx.number(3, 0.0)?)),
        ("ScoreThreshold", MemberValue::Float(cx.number(4, 0.0)?)),
        ("IsTFVersion4", MemberValue::Int(is_version_4.into())),
    ])
}

fn roi_align(cx: &mut Cx<'_>) -> Outcome {
    let (map, boxes, batches) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    // `max` is the maximum of weighted elements in ONNX, and that of weighted sums in Glow.
    let mode = cx.text("mode", "avg")?;
    if mode != "avg" {
        return Err(format!("expected `avg` as `mode`, found `{mode}`").into());
    }
    let aligned = match cx.text("coordinate_transformation_mode", "half_pixel")?.as_str() {
        "half_pixel" => 1,
        "output_half_pixel" => 0,
        other => return Err(format!("Glow has no coordinate mode `{other}`").into()),
    };
    let (height, width) = (cx.int("output_height", 1)?, cx.int("output_width", 1)?);
    let [_, channels, ..] = *cx.shape(map) else { return Err("expected rank 4".into()) };
    let count = cx.dim(boxes, 0)?;
    let members = vec![
        ("Mode", MemberValue::Int(0)),
        ("OutputHeight", MemberValue::Int(height)),
        ("OutputWidth", MemberValue::Int(width)),
        ("SamplingRatio", MemberValue::Int(cx.int("sampling_ratio", 0)?)),
        ("SpatialScale", MemberValue::Float(cx.float("spatial_scale", 1.0)?)),
        ("Aligned", MemberValue::Int(aligned)),
        ("Rotated", MemberValue::Int(0)),
    ];
    let map = cx.transpose(map, &[0, 2, 3, 1], "NHWC", "in")?;
    let of: Type = cx.shaped(map, vec![count, height, width, channels]);
    let result = cx.node("ROIAlign", "", &[map, boxes, batches], members, of)?;
    one(cx.transpose(result, &[0, 3, 1, 2], "NCHW", "out")?)
}

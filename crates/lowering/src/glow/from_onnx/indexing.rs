//! Elements by their positions.

use lodstone_model::DType;
use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::onnx::infer::Element;

use super::graph::{Said, Value, count, plain};
use super::op::{Cx, Fault, Outcome, Rule, long, one};
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

/// Positions from the front: Glow knows no others. What is constant is made so; what is computed has to
/// be so.
fn positions(cx: &mut Cx<'_>, index: usize, extent: i64) -> Result<Value, Fault> {
    let known = cx.ints(index).ok().filter(|known| known.iter().any(|position| *position < 0));
    let value = cx.input(index)?;
    let Some(known) = known else { return Ok(value) };
    let of = cx.type_of(value);
    let mut bytes = Vec::new();
    for position in known {
        let position = if position < 0 { position.saturating_add(extent) } else { position };
        match of.kind {
            ElemKind::Int64I => bytes.extend(position.to_le_bytes()),
            _ => {
                let position = i32::try_from(position).map_err(|_| "a position is too large")?;
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
    let indices = positions(cx, 1, cx.extent(data, long(axis))?)?;
    let rest = shape.iter().skip(axis + 1);
    let result: Vec<i64> =
        shape.iter().take(axis).chain(cx.graph.shape(indices)).chain(rest).copied().collect();
    let of = cx.shaped(data, result);
    let members = vec![("BatchDims", Said::Int(long(axis)))];
    one(cx.node("Gather", "", &[data, indices], members, of)?)
}

fn gather_elements(cx: &mut Cx<'_>) -> Outcome {
    let data = cx.input(0)?;
    let shape = cx.shape(data);
    let axis = cx.axis("axis", 0, shape.len())?;
    let indices = positions(cx, 1, cx.extent(data, long(axis))?)?;
    let of = cx.shaped(data, cx.shape(indices));
    let members = vec![("Dim", Said::Int(long(axis)))];
    one(cx.node("GatherElements", "", &[data, indices], members, of)?)
}

fn gather_nd(cx: &mut Cx<'_>) -> Outcome {
    let (data, indices) = (cx.input(0)?, cx.input(1)?);
    let batch = cx.int("batch_dims", 0)?;
    let of = cx.shaped(data, cx.shape_out(0)?);
    one(cx.node("GatherND", "", &[data, indices], vec![("BatchDims", Said::Int(batch))], of)?)
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
    // Positions and what is put there are rows in Glow.
    let whole = cx.shape(indices);
    let (width, lead) = whole.split_last().ok_or("expected positions, found one number")?;
    let rows = count(lead)?;
    let indices = cx.reshape(indices, &[rows, *width], "positions")?;
    let tail = cx.shape(updates).into_iter().skip(lead.len());
    let rows: Vec<i64> = std::iter::once(rows).chain(tail).collect();
    let updates = cx.reshape(updates, &rows, "rows")?;
    let of = cx.shaped(data, cx.shape(data));
    let members = vec![("Cumulative", Said::Int(adds.into()))];
    one(cx.node("ScatterData", "", &[data, indices, updates], members, of)?)
}

/// Most elements of a constant whose positions are written down.
const MOST_POSITIONS: usize = 1 << 16;

/// Where a constant is not zero is known, and a constant.
fn non_zero(cx: &mut Cx<'_>) -> Outcome {
    let shape = cx.info(0).and_then(super::known::extents).ok_or("expected a known shape")?;
    let known: Vec<bool> = match known_non_zero(cx) {
        Some(known) => known,
        None => return Err("expected a constant: how many there are has to be known".into()),
    };
    if known.len() > MOST_POSITIONS || count(&shape)? != long(known.len()) {
        return Err("expected a smaller constant".into());
    }
    let found: Vec<i64> = (0..).zip(&known).filter(|(_, is)| **is).map(|(at, _)| at).collect();
    let mut bytes = Vec::new();
    let mut stride = long(known.len());
    for extent in &shape {
        stride = stride.checked_div(*extent).unwrap_or(0);
        for position in &found {
            let along = position.checked_div(stride).unwrap_or(0).checked_rem(*extent).unwrap_or(0);
            bytes.extend(along.to_le_bytes());
        }
    }
    let name = cx.output_name(0);
    let shape = vec![long(shape.len()), long(found.len())];
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
    let fits = is_integer && tensor.data.len() <= 8 * MOST_POSITIONS as u64;
    let bytes = tensor.data.bytes().ok().filter(|_| fits)?;
    Some(bytes.chunks_exact(width).map(|chunk| chunk.iter().any(|byte| *byte != 0)).collect())
}

/// Glow's is of the last axis and gives the largest; of others it is transposed, and for the smallest the
/// negatives are asked for.
fn top_k(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let rank = cx.rank(value);
    let axis = cx.axis("axis", -1, rank)?;
    let k = match cx.ints(1)?.as_slice() {
        [k] => *k,
        other => return Err(format!("expected one number, found {}", other.len()).into()),
    };
    let largest = cx.flag("largest", true)?;
    if !largest && cx.type_of(value).kind != ElemKind::Float {
        return Err("Glow gives the largest only, found `largest` 0 of integers".into());
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
    if let Some(extent) = shape.last_mut() {
        *extent = k;
    }
    let of = cx.shaped(value, shape.clone());
    let indices = plain(ElemKind::Int64I, shape);
    let results = cx.nodes("TopK", "", &[value], vec![("K", Said::Int(k))], vec![of, indices])?;
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

/// Glow gives as many boxes as there may be, the last one again for those that there are not.
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
    let rows = rows.filter(|rows| *rows > 0).ok_or("expected a number of boxes for each class")?;
    cx.graph.notes.push(format!("`{}` always gives {rows} boxes, as Glow does", cx.base));
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

/// Members of the node that leaves out boxes that overlap.
pub(super) fn suppression(
    cx: &Cx<'_>,
    most: i64,
    is_version_4: bool,
) -> Result<Vec<(&'static str, Said)>, Fault> {
    Ok(vec![
        ("CenterPointBox", Said::Int(cx.int("center_point_box", 0)?)),
        ("MaxOutputBoxesPerClass", Said::Int(most)),
        ("IouThreshold", Said::Float(cx.number(3, 0.0)?)),
        ("ScoreThreshold", Said::Float(cx.number(4, 0.0)?)),
        ("IsTFVersion4", Said::Int(is_version_4.into())),
    ])
}

fn roi_align(cx: &mut Cx<'_>) -> Outcome {
    let (map, boxes, batches) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    // The greatest is that of weighted elements in ONNX, and that of weighted sums in Glow.
    let mode = cx.text("mode", "avg")?;
    if mode != "avg" {
        return Err(format!("expected `avg` as `mode`, found `{mode}`").into());
    }
    let aligned = match cx.text("coordinate_transformation_mode", "half_pixel")?.as_str() {
        "half_pixel" => 1,
        "output_half_pixel" => 0,
        other => return Err(format!("Glow has no coordinates `{other}`").into()),
    };
    let (height, width) = (cx.int("output_height", 1)?, cx.int("output_width", 1)?);
    let [_, channels, ..] = *cx.shape(map) else { return Err("expected 4 extents".into()) };
    let count = cx.extent(boxes, 0)?;
    let members = vec![
        ("Mode", Said::Int(0)),
        ("OutputHeight", Said::Int(height)),
        ("OutputWidth", Said::Int(width)),
        ("SamplingRatio", Said::Int(cx.int("sampling_ratio", 0)?)),
        ("SpatialScale", Said::Float(cx.float("spatial_scale", 1.0)?)),
        ("Aligned", Said::Int(aligned)),
        ("Rotated", Said::Int(0)),
    ];
    let map = cx.transpose(map, &[0, 2, 3, 1], "NHWC", "in")?;
    let of: Type = cx.shaped(map, vec![count, height, width, channels]);
    let result = cx.node("ROIAlign", "", &[map, boxes, batches], members, of)?;
    one(cx.transpose(result, &[0, 3, 1, 2], "NCHW", "out")?)
}

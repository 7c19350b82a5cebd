//! Embedding lookups and sparse operators, which Glow's loader has and ONNX does not.

use lodstone_model::{DType, Packing};
use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::numbers::length;

use super::graph::{MemberValue, Value, plain};
use super::loader::inputs;
use super::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BatchOneHot", one_hot),
    ("Embedding", embedding),
    ("EmbeddingBag", embedding_bag),
    ("FusedRowwiseQuantizedSparseLengthsSum", |cx| {
        fused_lengths(cx, "FusedRowwiseQuantizedSparseLengthsSum", 3)
    }),
    ("FusedRowwiseQuantizedSparseLengthsWeightedSum", |cx| {
        fused_lengths(cx, "FusedRowwiseQuantizedSparseLengthsWeightedSum", 4)
    }),
    ("GatherRanges", gather_ranges),
    ("LengthsRangeFill", lengths_range_fill),
    ("LengthsSum", lengths_sum),
    ("LengthsToRanges", lengths_to_ranges),
    ("RowwiseQuantizedSparseLengthsWeightedSum", rowwise_lengths),
    ("SparseLengthsSum", |cx| sparse_lengths(cx, "SparseLengthsSum", 3)),
    ("SparseLengthsWeightedSum", |cx| sparse_lengths(cx, "SparseLengthsWeightedSum", 4)),
    ("SparseToDense", sparse_to_dense),
    ("SparseToDenseMask", sparse_to_dense_mask),
];

/// The lengths of groups of rows: 1 each, or an attribute.
fn lengths_members(cx: &Cx<'_>) -> Result<Vec<(&'static str, MemberValue)>, Fault> {
    let mode = if cx.flag("length1", false)? { "AllOne" } else { "Variable" };
    Ok(vec![
        ("LengthsMode", MemberValue::Text(mode.to_owned())),
        ("AvgLength", MemberValue::Float(cx.float("average_lookup_length", f32::NAN)?)),
    ])
}

fn sparse_lengths(cx: &mut Cx<'_>, kind: &'static str, operands: usize) -> Outcome {
    let inputs = inputs(cx, operands)?;
    let (data, lengths) = (cx.input(0)?, cx.input(operands - 1)?);
    let mut shape = cx.shape(data);
    let rows = cx.shape(lengths).first().copied().ok_or("expected lengths")?;
    *shape.first_mut().ok_or("expected rows")? = rows;
    let members = lengths_members(cx)?;
    let of = cx.shaped(data, shape);
    one(cx.node(kind, "", &inputs, members, of)?)
}

/// Sums groups of quantized rows; each row has a scale and an offset in two other tensors.
fn rowwise_lengths(cx: &mut Cx<'_>) -> Outcome {
    let inputs = inputs(cx, 6)?;
    let (data, lengths) = (cx.input(0)?, cx.input(5)?);
    if cx.type_of(data).kind != ElemKind::UInt8Q {
        return Err("expected uint8 rows".into());
    }
    let mut shape = cx.shape(data);
    let groups = cx.dim(lengths, 0)?;
    *shape.first_mut().ok_or("expected rows")? = groups;
    let mut members = vec![("UseFP16Accumulation", MemberValue::Int(0))];
    members.extend(lengths_members(cx)?);
    let of = plain(ElemKind::Float, shape);
    one(cx.node("RowwiseQuantizedSparseLengthsWeightedSum", "", &inputs, members, of)?)
}

fn fused_lengths(cx: &mut Cx<'_>, kind: &'static str, operands: usize) -> Outcome {
    let inputs = inputs(cx, operands)?;
    let (data, lengths) = (cx.input(0)?, cx.input(operands - 1)?);
    let rows = cx.type_of(data);
    let Some(Packing::RowwiseFused { bits, scale }) = rows.kind.packing() else {
        return Err("expected rows that end with their scales, by their doc string".into());
    };
    // The bytes of scale and offset, and the type of the result.
    let (end, result) = match scale {
        DType::Float16 => (4, ElemKind::Float16),
        _ => (8, ElemKind::Float),
    };
    let [_, columns] = *rows.shape else { return Err("expected a matrix of rows".into()) };
    let columns = columns
        .checked_sub(end)
        .and_then(|columns| columns.checked_mul(if bits == 4 { 2 } else { 1 }));
    let columns = columns.filter(|columns| *columns >= 0).ok_or("the rows are too short")?;
    let groups = cx.dim(lengths, 0)?;
    let mut members = vec![("UseFP16Accumulation", MemberValue::Int(0))];
    members.extend(lengths_members(cx)?);
    let of = plain(result, vec![groups, columns]);
    one(cx.node(kind, "", &inputs, members, of)?)
}

/// Sums groups of rows by their offsets.
fn embedding_bag(cx: &mut Cx<'_>) -> Outcome {
    let inputs = inputs(cx, 4)?;
    let (data, offsets) = (cx.input(0)?, cx.input(3)?);
    let has_end = cx.flag("has_end_offset", false)?;
    let groups = cx.dim(offsets, 0)?;
    let mut shape = cx.shape(data);
    *shape.first_mut().ok_or("expected rows")? = groups - i64::from(has_end);
    let mut members = vec![("HasEndOffset", MemberValue::Int(has_end.into()))];
    members.extend(lengths_members(cx)?);
    let of = cx.shaped(data, shape);
    one(cx.node("EmbeddingBag", "", &inputs, members, of)?)
}

fn embedding(cx: &mut Cx<'_>) -> Outcome {
    let (weights, indices) = (cx.input(0)?, cx.input(1)?);
    let width = cx.dim(weights, 1)?;
    let mut shape = cx.shape(indices);
    shape.push(width);
    let of = cx.shaped(weights, shape);
    let members = vec![
        ("PadIdx", MemberValue::Int(cx.int("padIdx", -1)?)),
        ("Scale", MemberValue::Int(cx.flag("scale", false)?.into())),
        ("Sparse", MemberValue::Int(cx.flag("sparse", false)?.into())),
    ];
    one(cx.node("Embedding", "", &[weights, indices], members, of)?)
}

fn gather_ranges(cx: &mut Cx<'_>) -> Outcome {
    let inputs = inputs(cx, 2)?;
    let (data, ranges) = (cx.input(0)?, cx.input(1)?);
    let most = cx.int("maxOutputSize", 0)?;
    let rows = cx.shape(ranges).first().copied().ok_or("expected ranges")?;
    let results = vec![cx.shaped(data, vec![most]), cx.shaped(ranges, vec![rows])];
    let results = cx.nodes("GatherRanges", "", &inputs, Vec::new(), results)?;
    Ok(results.into_iter().map(Some).collect())
}

fn lengths_range_fill(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let of = cx.shaped(value, vec![cx.int("size", 0)?]);
    one(cx.node("LengthsRangeFill", "", &[value], Vec::new(), of)?)
}

fn lengths_sum(cx: &mut Cx<'_>) -> Outcome {
    let (data, lengths) = (cx.input(0)?, cx.input(1)?);
    let mut shape = cx.shape(data);
    let rows = cx.shape(lengths).first().copied().ok_or("expected lengths")?;
    *shape.first_mut().ok_or("expected rows")? = rows;
    let of = cx.shaped(data, shape);
    one(cx.node("LengthsSum", "", &[data, lengths], Vec::new(), of)?)
}

fn lengths_to_ranges(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let rows = cx.shape(value).first().copied().ok_or("expected lengths")?;
    let of = cx.shaped(value, vec![rows, 2]);
    one(cx.node("LengthsToRanges", "", &[value], Vec::new(), of)?)
}

fn sparse_to_dense_mask(cx: &mut Cx<'_>) -> Outcome {
    let mut inputs = inputs(cx, 3)?;
    let (values, default) = (cx.input(1)?, cx.input(2)?);
    let mask = cx.longs("mask")?.ok_or("expected `mask`")?;
    let mut shape = Vec::new();
    let lengths = match cx.optional(3)? {
        Some(lengths) => {
            shape.extend(cx.shape(lengths).first());
            lengths
        }
        None => {
            let rows = cx.shape(values).first().copied().ok_or("expected rows")?;
            let rows = i32::try_from(rows).map_err(|_| "there are too many rows")?;
            let bytes = rows.to_le_bytes().to_vec();
            cx.graph.constant_of("lengths", ElemKind::Int32I, Vec::new(), bytes)?
        }
    };
    inputs.push(lengths);
    shape.push(length(mask.len()));
    shape.extend(cx.shape(default));
    let of = cx.shaped(values, shape);
    one(cx.node("SparseToDenseMask", "", &inputs, vec![("Mask", MemberValue::Ints(mask))], of)?)
}

/// Adds slices to a tensor of zeros at the positions in their indices; the third input has the number of positions.
fn sparse_to_dense(cx: &mut Cx<'_>) -> Outcome {
    let (indices, values, like) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let [many] = *cx.shape(indices) else { return Err("expected indices of rank 1".into()) };
    let mut shape = cx.shape(values);
    *shape.first_mut().ok_or("expected slices")? = cx.dim(like, 0)?;
    let of = Type { quantization: None, ..cx.shaped(values, shape) };
    let data: Value = cx.splat(0.0, of.clone(), "data")?;
    let places = cx.reshape_always(indices, &[many, 1], "indices2D")?;
    let members = vec![("Cumulative", MemberValue::Int(1))];
    one(cx.node("ScatterData", "scatterData", &[data, places, values], members, of)?)
}

fn one_hot(cx: &mut Cx<'_>) -> Outcome {
    let inputs = inputs(cx, 3)?;
    let (data, values) = (cx.input(0)?, cx.input(2)?);
    let rows = cx.shape(data).first().copied().ok_or("expected a matrix")?;
    let columns = cx.shape(values).first().copied().ok_or("expected values")?;
    let of = cx.shaped(data, vec![rows, columns]);
    one(cx.node("BatchOneHot", "", &inputs, Vec::new(), of)?)
}

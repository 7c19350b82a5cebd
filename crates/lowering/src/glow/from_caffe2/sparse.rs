//! Sums of selected rows of tables: the sparse lengths operators, also of tables whose rows are quantized.

use lodstone_schema::glow::{ElemKind, Type};

use super::rules::{expect_rank, of_kind};
use crate::glow::from_onnx::graph::{MemberValue, Source, Value};
use crate::glow::from_onnx::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BatchBoxCox", box_cox),
    ("Embedding", embedding),
    ("EmbeddingBag", bag),
    ("LengthsRangeFill", range_fill),
    ("LengthsSum", lengths_sum),
    ("LengthsToRanges", to_ranges),
    ("SparseLengthsSum", |cx| plain(cx, false)),
    ("SparseLengthsSum8BitsRowwise", |cx| rowwise(cx, false)),
    ("SparseLengthsSumFused4BitRowwise", |cx| fused(cx, false, ElemKind::UInt4FusedFP16Q)),
    ("SparseLengthsSumFused8BitRowwise", |cx| fused(cx, false, ElemKind::UInt8FusedQ)),
    ("SparseLengthsWeightedSum", |cx| plain(cx, true)),
    ("SparseLengthsWeightedSum8BitsRowwise", |cx| rowwise(cx, true)),
    ("SparseLengthsWeightedSumFused4BitRowwise", |cx| fused(cx, true, ElemKind::UInt4FusedFP16Q)),
    ("SparseLengthsWeightedSumFused8BitRowwise", |cx| fused(cx, true, ElemKind::UInt8FusedQ)),
];

/// A table, the selected rows, and how many of them each sum has.
struct Lookup {
    data: Value,
    weights: Option<Value>,
    indices: Value,
    lengths: Value,
    /// The number of sums.
    count: i64,
}

fn lookup(cx: &mut Cx<'_>, is_weighted: bool) -> Result<Lookup, Fault> {
    let shift = usize::from(is_weighted);
    let data = cx.input(0)?;
    let weights = if is_weighted { Some(cx.input(1)?) } else { None };
    let (indices, lengths) = (cx.input(1 + shift)?, cx.input(2 + shift)?);
    expect_rank(cx, indices, 1, "indices")?;
    expect_rank(cx, lengths, 1, "lengths")?;
    for (value, what) in [(indices, "indices"), (lengths, "lengths")] {
        let kind = cx.type_of(value).kind;
        if !matches!(kind, ElemKind::Int32I | ElemKind::Int64I) {
            return Err(format!("expected integers as {what}, found {}", kind.name()).into());
        }
    }
    if let Some(weights) = weights
        && cx.shape(weights) != cx.shape(indices)
    {
        let found = cx.shape(weights);
        return Err(format!("expected a weight for each index, found {found:?}").into());
    }
    if cx.rank(data) == 0 {
        return Err("expected a table, found a scalar".into());
    }
    let count = cx.dim(lengths, 0)?;
    Ok(Lookup { data, weights, indices, lengths, count })
}

/// The members that describe the lengths.
fn lengths_members(cx: &Cx<'_>) -> Result<Vec<(&'static str, MemberValue)>, Fault> {
    let mode = if cx.flag("length1", false)? { "AllOne" } else { "Variable" };
    Ok(vec![
        ("LengthsMode", MemberValue::Text(mode.to_owned())),
        ("AvgLength", MemberValue::Float(cx.float("average_lookup_length", f32::NAN)?)),
    ])
}

fn quantized_members(cx: &Cx<'_>) -> Result<Vec<(&'static str, MemberValue)>, Fault> {
    let mut members = vec![("UseFP16Accumulation", MemberValue::Int(0))];
    members.extend(lengths_members(cx)?);
    Ok(members)
}

fn plain(cx: &mut Cx<'_>, is_weighted: bool) -> Outcome {
    let of = lookup(cx, is_weighted)?;
    let mut shape = cx.shape(of.data);
    shape.iter_mut().take(1).for_each(|dim| *dim = of.count);
    let result = cx.shaped(of.data, shape);
    let members = lengths_members(cx)?;
    one(match of.weights {
        None => {
            let inputs = [of.data, of.indices, of.lengths];
            cx.node("SparseLengthsSum", "", &inputs, members, result)?
        }
        Some(weights) => {
            let inputs = [of.data, weights, of.indices, of.lengths];
            cx.node("SparseLengthsWeightedSum", "", &inputs, members, result)?
        }
    })
}

fn fused(cx: &mut Cx<'_>, is_weighted: bool, kind: ElemKind) -> Outcome {
    let of = lookup(cx, is_weighted)?;
    let shape = cx.shape(of.data);
    let &[rows, width] = &*shape else {
        return Err(format!("expected a table of rows, found {shape:?}").into());
    };
    let found = cx.type_of(of.data).kind;
    if found != ElemKind::UInt8Q && found != kind {
        return Err(format!("expected a table of uint8, found {}", found.name()).into());
    }
    if !matches!(cx.graph.source(of.data), Source::Constant(_) | Source::Placeholder(_)) {
        return Err("expected a stored table, found a computed one".into());
    }
    let quantization = Some((0.0, 0));
    cx.graph.retype(of.data, Type { quantization, ..of_kind(kind, vec![rows, width]) });
    let (columns, result_kind) = match kind {
        ElemKind::UInt4FusedFP16Q => {
            (width.checked_sub(4).and_then(|it| it.checked_mul(2)), ElemKind::Float16)
        }
        _ => (width.checked_sub(8), ElemKind::Float),
    };
    let columns = columns.filter(|columns| *columns > 0);
    let columns = columns.ok_or_else(|| format!("rows of {width} bytes have no scales"))?;
    let result = of_kind(result_kind, vec![of.count, columns]);
    let members = quantized_members(cx)?;
    let mut value = match of.weights {
        None => {
            let inputs = [of.data, of.indices, of.lengths];
            cx.node("FusedRowwiseQuantizedSparseLengthsSum", "", &inputs, members, result)?
        }
        Some(weights) => {
            let inputs = [of.data, weights, of.indices, of.lengths];
            let kind = "FusedRowwiseQuantizedSparseLengthsWeightedSum";
            cx.node(kind, "", &inputs, members, result)?
        }
    };
    if result_kind != ElemKind::Float {
        value = cx.convert(value, ElemKind::Float, "")?;
    }
    one(value)
}

fn rowwise(cx: &mut Cx<'_>, is_weighted: bool) -> Outcome {
    let of = lookup(cx, is_weighted)?;
    let scales = cx.input(3 + usize::from(is_weighted))?;
    let mut shape = cx.shape(of.data);
    let rows = cx.dim(of.data, 0)?;
    if cx.shape(scales) != [rows, 2] {
        let found = cx.shape(scales);
        return Err(format!(
            "expected a scale and a bias for each of {rows} rows, found {found:?}"
        )
        .into());
    }
    let found = cx.type_of(of.data).kind;
    if found != ElemKind::UInt8Q {
        return Err(format!("expected a table of uint8, found {}", found.name()).into());
    }
    let mut column = |at: i64, name: &str| {
        let part = cx.slice(scales, vec![0, at], vec![rows, 1], name)?;
        cx.reshape_always(part, &[rows], &format!("{name}_1D"))
    };
    let (scale, bias) = (column(0, "scale")?, column(1, "bias")?);
    let weights = match of.weights {
        Some(weights) => weights,
        None => {
            let ones = of_kind(ElemKind::Float, cx.shape(of.indices));
            cx.splat(1.0, ones, "ones")?
        }
    };
    shape.iter_mut().take(1).for_each(|dim| *dim = of.count);
    let inputs = [of.data, scale, bias, weights, of.indices, of.lengths];
    let members = quantized_members(cx)?;
    let result = of_kind(ElemKind::Float, shape);
    one(cx.node("RowwiseQuantizedSparseLengthsWeightedSum", "", &inputs, members, result)?)
}

fn embedding(cx: &mut Cx<'_>) -> Outcome {
    let (weights, indices) = (cx.input(0)?, cx.input(1)?);
    expect_rank(cx, weights, 2, "weights")?;
    for name in ["scale", "sparse"] {
        if cx.flag(name, false)? {
            return Err(format!("Glow has no `{name}` for `Embedding`").into());
        }
    }
    let mut shape = cx.shape(indices);
    shape.push(cx.dim(weights, 1)?);
    let of = cx.shaped(weights, shape);
    let members = vec![
        ("PadIdx", MemberValue::Int(cx.int("padIdx", -1)?)),
        ("Scale", MemberValue::Int(0)),
        ("Sparse", MemberValue::Int(0)),
    ];
    one(cx.node("Embedding", "", &[weights, indices], members, of)?)
}

fn bag(cx: &mut Cx<'_>) -> Outcome {
    let inputs = [cx.input(0)?, cx.input(1)?, cx.input(2)?, cx.input(3)?];
    let [data, weights, indices, offsets] = inputs;
    for (value, what) in [(weights, "weights"), (indices, "indices"), (offsets, "offsets")] {
        expect_rank(cx, value, 1, what)?;
    }
    if cx.rank(data) == 0 {
        return Err("expected a table, found a scalar".into());
    }
    let mut shape = cx.shape(data);
    let count = cx.dim(offsets, 0)?;
    shape.iter_mut().take(1).for_each(|dim| *dim = count);
    let of = cx.shaped(data, shape);
    let mut members = vec![("HasEndOffset", MemberValue::Int(0))];
    members.extend(lengths_members(cx)?);
    one(cx.node("EmbeddingBag", "", &inputs, members, of)?)
}

fn to_ranges(cx: &mut Cx<'_>) -> Outcome {
    let lengths = cx.input(0)?;
    expect_rank(cx, lengths, 1, "lengths")?;
    let of = cx.shaped(lengths, vec![cx.dim(lengths, 0)?, 2]);
    one(cx.node("LengthsToRanges", "", &[lengths], Vec::new(), of)?)
}

fn range_fill(cx: &mut Cx<'_>) -> Outcome {
    let lengths = cx.input(0)?;
    expect_rank(cx, lengths, 1, "lengths")?;
    let size = cx.int("maxOutputSize", -1)?;
    if !(0..=i64::from(u32::MAX)).contains(&size) {
        return Err("expected `maxOutputSize`: shapes of Glow are fixed".into());
    }
    let of = cx.shaped(lengths, vec![size]);
    one(cx.node("LengthsRangeFill", "", &[lengths], Vec::new(), of)?)
}

fn lengths_sum(cx: &mut Cx<'_>) -> Outcome {
    let (data, lengths) = (cx.input(0)?, cx.input(1)?);
    expect_rank(cx, lengths, 1, "lengths")?;
    if cx.rank(data) == 0 {
        return Err("expected rows, found a scalar".into());
    }
    let mut shape = cx.shape(data);
    let count = cx.dim(lengths, 0)?;
    shape.iter_mut().take(1).for_each(|dim| *dim = count);
    let of = cx.shaped(data, shape);
    one(cx.node("LengthsSum", "", &[data, lengths], Vec::new(), of)?)
}

fn box_cox(cx: &mut Cx<'_>) -> Outcome {
    let inputs = [cx.input(0)?, cx.input(1)?, cx.input(2)?];
    let [data, ..] = inputs;
    expect_rank(cx, data, 2, "data")?;
    let columns = cx.dim(data, 1)?;
    for operand in inputs.into_iter().skip(1) {
        if cx.shape(operand) != [columns] {
            return Err(
                format!("expected {columns} elements, found {:?}", cx.shape(operand)).into()
            );
        }
    }
    let of = cx.type_of(data);
    one(cx.node("BatchBoxCox", "", &inputs, vec![("Epsilon", MemberValue::Float(1e-6))], of)?)
}

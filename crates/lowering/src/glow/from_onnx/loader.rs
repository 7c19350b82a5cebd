//! Operators that Glow's loader takes as ONNX's own, and ONNX does not have.

use lodstone_schema::glow::{ElemKind, Type};

use super::graph::{Said, Value, count, kind_of, plain};
use super::indexing::suppression;
use super::op::{Cx, Fault, Outcome, Rule, from_front, long, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("AdaptiveAvgPool", adaptive_pool),
    ("Alias", alias),
    ("BatchBoxCox", box_cox),
    ("BatchGather", batch_gather),
    ("BatchMatMul", batch_matmul),
    ("BatchOneHot", one_hot),
    ("BatchedAdd", |cx| like_first(cx, "BatchedAdd", 2)),
    ("CmpLTE", less_or_equal),
    ("ConvertTo", convert_to),
    ("Dequantize", dequantize),
    ("DotProduct", dot_product),
    ("Embedding", embedding),
    ("ExpandDims", expand_dims),
    ("FCTransposed", fully_connected),
    ("Flip", flip),
    ("FullyConnected", fully_connected),
    ("GatherRanges", gather_ranges),
    ("InsertTensor", insert_tensor),
    ("LengthsRangeFill", lengths_range_fill),
    ("LengthsSum", lengths_sum),
    ("LengthsToRanges", lengths_to_ranges),
    ("NonMaxSuppressionV4", non_max_suppression),
    ("Quantize", quantize),
    ("Regression", |cx| like_first(cx, "Regression", 2)),
    ("ReplaceNaN", replace_nan),
    ("RescaleQuantized", rescale),
    ("ScatterAssign", scatter),
    ("ScatterData", scatter),
    ("Select", select),
    ("SparseLengthsSum", |cx| sparse_lengths(cx, "SparseLengthsSum", 3)),
    ("SparseLengthsWeightedSum", |cx| sparse_lengths(cx, "SparseLengthsWeightedSum", 4)),
    ("SparseToDenseMask", sparse_to_dense_mask),
    ("Splat", splat),
    ("Sqr", square),
];

fn inputs(cx: &mut Cx<'_>, count: usize) -> Result<Vec<Value>, Fault> {
    (0..count).map(|index| cx.input(index)).collect()
}

fn alias(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    one(value)
}

/// A node whose result has the type of its first input.
fn like_first(cx: &mut Cx<'_>, kind: &'static str, count: usize) -> Outcome {
    let inputs = inputs(cx, count)?;
    let value = cx.input(0)?;
    let of = cx.type_of(value);
    one(cx.node(kind, "", &inputs, Vec::new(), of)?)
}

fn less_or_equal(cx: &mut Cx<'_>) -> Outcome {
    let inputs = inputs(cx, 2)?;
    let shapes: Vec<_> = inputs.iter().map(|value| cx.graph.shape(*value)).collect();
    let shape = super::elementwise::together(&shapes)?;
    let inputs: Result<Vec<_>, _> =
        inputs.into_iter().map(|value| cx.broadcast(value, &shape, "broadcast")).collect();
    one(cx.node("CmpLTE", "", &inputs?, Vec::new(), plain(ElemKind::Bool, shape))?)
}

/// The rest of a tensor's extents as one, from its first on.
fn fully_connected(cx: &mut Cx<'_>) -> Outcome {
    let [value, weights, bias] = [cx.input(0)?, cx.input(1)?, cx.input(2)?];
    let shape = cx.shape(value);
    let axis = match cx.op.attribute("axis") {
        Some(_) => from_front(cx.int("axis", 1)?, shape.len())?,
        None => 1,
    };
    let (rows, columns) = shape.split_at_checked(axis).ok_or("expected at least one extent")?;
    let value = cx.reshape(value, &[count(rows)?, count(columns)?], "fc_in")?;
    let [inner, width] = *cx.shape(weights) else {
        return Err("expected a matrix of weights".into());
    };
    let [rows, columns] = *cx.shape(value) else { return Err("expected a matrix".into()) };
    if inner != columns {
        return Err(format!("{columns} columns do not fit weights of {inner} rows").into());
    }
    let of = cx.shaped(value, vec![rows, width]);
    one(cx.node("FullyConnected", "", &[value, weights, bias], Vec::new(), of)?)
}

fn convert_to(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.op.attribute("shape").and_then(|shape| shape.tensors().first());
    let dtype = shape.map(|tensor| tensor.dtype).ok_or("expected a tensor as `shape`")?;
    let kind = kind_of(dtype).ok_or_else(|| format!("Glow has no elements of the type {dtype}"))?;
    one(cx.convert(value, kind, "")?)
}

fn splat(cx: &mut Cx<'_>) -> Outcome {
    let shape = cx.longs("shape")?.ok_or("expected `shape`")?;
    let number = cx.float("value", 0.0)?;
    one(cx.splat(number, plain(ElemKind::Float, shape), "")?)
}

fn square(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let two = super::elementwise::filled(cx, 2.0, value, "two")?;
    one(cx.pair("Pow", value, two, "")?)
}

fn flip(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let axis = cx.axis("axis", 0, cx.rank(value))?;
    let of = cx.type_of(value);
    one(cx.node("Flip", "flip", &[value], vec![("Axis", Said::Int(long(axis)))], of)?)
}

fn expand_dims(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let axes = match cx.longs("axes")? {
        Some(axes) => axes,
        None => cx.longs("dims")?.ok_or("expected `axes` or `dims`")?,
    };
    let rank = cx.rank(value) + axes.len();
    let axes: Result<Vec<_>, _> = axes.iter().map(|axis| from_front(*axis, rank)).collect();
    let axes = axes?;
    let mut rest = cx.shape(value).into_iter();
    let next = |axis| if axes.contains(&axis) { Some(1) } else { rest.next() };
    let shape: Option<Vec<i64>> = (0..rank).map(next).collect();
    let shape = shape.ok_or("expected axes that differ")?;
    one(cx.reshape_always(value, &shape, "expanddims")?)
}

fn replace_nan(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let number = cx.float("value", 0.0)?;
    let of = cx.type_of(value);
    one(cx.node("ReplaceNaN", "", &[value], vec![("Value", Said::Float(number))], of)?)
}

fn adaptive_pool(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let size = cx.longs("output_size")?.unwrap_or_default();
    let ([n, _, _, c], [h, w]) = (&*cx.shape(value), &*size) else {
        return Err("expected images with channels last, and two sizes".into());
    };
    let of = cx.shaped(value, vec![*n, *h, *w, *c]);
    one(cx.node("AdaptiveAvgPool", "", &[value], Vec::new(), of)?)
}

fn batch_matmul(cx: &mut Cx<'_>) -> Outcome {
    let (mut left, mut right) = (cx.input(0)?, cx.input(1)?);
    if cx.flag("trans_a", false)? {
        left = cx.transpose(left, &[0, 2, 1], "*", "left")?;
    }
    if cx.flag("trans_b", false)? {
        right = cx.transpose(right, &[0, 2, 1], "*", "right")?;
    }
    one(super::linear::product(cx, left, right)?)
}

fn box_cox(cx: &mut Cx<'_>) -> Outcome {
    let inputs = inputs(cx, 3)?;
    let value = cx.input(0)?;
    let epsilon = cx.float("epsilon", f32::MIN_POSITIVE)?;
    let of = cx.type_of(value);
    one(cx.node("BatchBoxCox", "", &inputs, vec![("Epsilon", Said::Float(epsilon))], of)?)
}

fn batch_gather(cx: &mut Cx<'_>) -> Outcome {
    let (data, indices) = (cx.input(0)?, cx.input(1)?);
    let (shape, positions) = (cx.shape(data), cx.shape(indices));
    let axis = cx.axis("axis", 1, shape.len())?;
    let rest = shape.iter().skip(axis + 1);
    let result = shape.iter().take(axis).chain(&positions).chain(rest).copied().collect();
    let of = cx.shaped(data, result);
    let members = vec![("BatchDims", Said::Int(long(axis)))];
    one(cx.node("Gather", "", &[data, indices], members, of)?)
}

fn one_hot(cx: &mut Cx<'_>) -> Outcome {
    let inputs = inputs(cx, 3)?;
    let (data, values) = (cx.input(0)?, cx.input(2)?);
    let rows = cx.shape(data).first().copied().ok_or("expected a matrix")?;
    let columns = cx.shape(values).first().copied().ok_or("expected values")?;
    let of = cx.shaped(data, vec![rows, columns]);
    one(cx.node("BatchOneHot", "", &inputs, Vec::new(), of)?)
}

/// Rows multiplied and added up.
fn dot_product(cx: &mut Cx<'_>) -> Outcome {
    let (left, right) = (cx.input(0)?, cx.input(1)?);
    let product = cx.pair("Mul", left, right, "mul")?;
    let shape = cx.shape(product);
    if shape.len() < 2 {
        return one(product);
    }
    let rows = shape.first().copied().unwrap_or(0);
    let rest = count(shape.get(1..).unwrap_or_default())?;
    let flat = cx.reshape(product, &[rows, rest], "rows")?;
    let of = cx.shaped(flat, vec![rows]);
    one(cx.node("BatchedReduceAdd", "", &[flat], vec![("Axis", Said::Int(1))], of)?)
}

fn embedding(cx: &mut Cx<'_>) -> Outcome {
    let (weights, indices) = (cx.input(0)?, cx.input(1)?);
    let width = super::indexing::extent(&cx.shape(weights), 1)?;
    let mut shape = cx.shape(indices);
    shape.push(width);
    let of = cx.shaped(weights, shape);
    let members = vec![
        ("PadIdx", Said::Int(cx.int("padIdx", -1)?)),
        ("Scale", Said::Int(cx.flag("scale", false)?.into())),
        ("Sparse", Said::Int(cx.flag("sparse", false)?.into())),
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

fn insert_tensor(cx: &mut Cx<'_>) -> Outcome {
    let inputs = inputs(cx, 2)?;
    let big = cx.input(0)?;
    let start = cx.longs("start")?.ok_or("expected `start`")?;
    let members = vec![
        ("Start", Said::Ints(start)),
        ("Count", Said::Int(cx.int("count", 1)?)),
        ("Axis", Said::Int(cx.int("axis", 0)?)),
    ];
    let of = cx.type_of(big);
    one(cx.node("InsertTensor", "", &inputs, members, of)?)
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

fn sparse_lengths(cx: &mut Cx<'_>, kind: &'static str, operands: usize) -> Outcome {
    let inputs = inputs(cx, operands)?;
    let (data, lengths) = (cx.input(0)?, cx.input(operands - 1)?);
    let mut shape = cx.shape(data);
    let rows = cx.shape(lengths).first().copied().ok_or("expected lengths")?;
    *shape.first_mut().ok_or("expected rows")? = rows;
    let all_one = cx.flag("length1", false)?;
    let mode = if all_one { "AllOne" } else { "Variable" };
    let members = vec![
        ("LengthsMode", Said::Text(mode.to_owned())),
        ("AvgLength", Said::Float(cx.float("average_lookup_length", f32::NAN)?)),
    ];
    let of = cx.shaped(data, shape);
    one(cx.node(kind, "", &inputs, members, of)?)
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
    shape.push(long(mask.len()));
    shape.extend(cx.shape(default));
    let of = cx.shaped(values, shape);
    one(cx.node("SparseToDenseMask", "", &inputs, vec![("Mask", Said::Ints(mask))], of)?)
}

fn scatter(cx: &mut Cx<'_>) -> Outcome {
    let inputs = inputs(cx, 3)?;
    let data = cx.input(0)?;
    let adds = cx.flag("cumulative", false)?;
    let of = cx.type_of(data);
    let members = vec![("Cumulative", Said::Int(adds.into()))];
    one(cx.node("ScatterData", "", &inputs, members, of)?)
}

fn select(cx: &mut Cx<'_>) -> Outcome {
    let inputs = inputs(cx, 3)?;
    let left = cx.input(1)?;
    let of = cx.type_of(left);
    one(cx.node("Select", "", &inputs, Vec::new(), of)?)
}

fn non_max_suppression(cx: &mut Cx<'_>) -> Outcome {
    let inputs = inputs(cx, 2)?;
    let most = match cx.ints(2)?.as_slice() {
        [most] => *most,
        other => return Err(format!("expected one number, found {}", other.len()).into()),
    };
    let members = suppression(cx, most, true)?;
    let of = || plain(ElemKind::Int64I, vec![most]);
    let results = cx.nodes("NonMaxSuppression", "", &inputs, members, vec![of(), of()])?;
    Ok(results.into_iter().map(Some).collect())
}

/// A scale and an offset that are attributes.
fn said_quantization(cx: &Cx<'_>) -> Result<(f32, i32), Fault> {
    let offset = i32::try_from(cx.int("offset", 0)?).map_err(|_| "expected 32 bits as `offset`")?;
    Ok((cx.float("scale", 1.0)?, offset))
}

fn quantize(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let name = cx.text("elem_kind", "Int8QTy")?;
    let kind = match name.as_str() {
        "Int8QTy" | "i8" => ElemKind::Int8Q,
        "UInt8QTy" | "ui8" => ElemKind::UInt8Q,
        "Int16QTy" | "i16" => ElemKind::Int16Q,
        "Int32QTy" | "i32" => ElemKind::Int32Q,
        other => return Err(format!("expected a quantized type, found `{other}`").into()),
    };
    let quantization = Some(said_quantization(cx)?);
    let of = Type { quantization, ..plain(kind, cx.shape(value)) };
    one(cx.node("Quantize", "", &[value], Vec::new(), of)?)
}

fn dequantize(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let of = plain(ElemKind::Float, cx.shape(value));
    one(cx.node("Dequantize", "", &[value], Vec::new(), of)?)
}

fn rescale(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let quantization = Some(said_quantization(cx)?);
    let of = Type { quantization, ..cx.type_of(value) };
    one(cx.node("RescaleQuantized", "", &[value], Vec::new(), of)?)
}

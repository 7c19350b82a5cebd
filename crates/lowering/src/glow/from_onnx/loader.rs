//! Operators that Glow's loader accepts in ONNX's own domain, although ONNX does not have them.

use lodstone_schema::glow::ElemKind;
use lodstone_schema::numbers::length;

use super::graph::{MemberValue, Value, count, kind_of, plain};
use super::indexing::suppression;
use super::op::{Cx, Fault, Outcome, Rule, from_front, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("AdaptiveAvgPool", adaptive_pool),
    ("Alias", alias),
    ("BatchBoxCox", box_cox),
    ("BatchGather", batch_gather),
    ("BatchMatMul", batch_matmul),
    ("BatchedAdd", |cx| like_first(cx, "BatchedAdd", 2)),
    ("CmpLTE", less_or_equal),
    ("ConvertTo", convert_to),
    ("DotProduct", dot_product),
    ("ExpandDims", expand_dims),
    ("FCTransposed", fully_connected),
    ("Flip", flip),
    ("FullyConnected", fully_connected),
    ("InsertTensor", insert_tensor),
    ("NonMaxSuppressionV4", non_max_suppression),
    ("Regression", |cx| like_first(cx, "Regression", 2)),
    ("ReplaceNaN", replace_nan),
    ("ScatterAssign", scatter),
    ("ScatterData", scatter),
    ("Select", select),
    ("Splat", splat),
    ("Sqr", square),
];

pub(super) fn inputs(cx: &mut Cx<'_>, count: usize) -> Result<Vec<Value>, Fault> {
    (0..count).map(|index| cx.input(index)).collect()
}

fn alias(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    one(value)
}

/// Adds a node whose result has the type of its first input.
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

/// Flattens the dims after the axis.
fn fully_connected(cx: &mut Cx<'_>) -> Outcome {
    let [value, weights, bias] = [cx.input(0)?, cx.input(1)?, cx.input(2)?];
    let shape = cx.shape(value);
    let axis = match cx.op.attribute("axis") {
        Some(_) => from_front(cx.int("axis", 1)?, shape.len())?,
        None => 1,
    };
    let (rows, columns) = shape.split_at_checked(axis).ok_or("expected at least one dim")?;
    let value = cx.reshape(value, &[count(rows)?, count(columns)?], "fc_in")?;
    let [inner, width] = *cx.shape(weights) else {
        return Err("expected a matrix of weights".into());
    };
    let [rows, columns] = *cx.shape(value) else { return Err("expected a matrix".into()) };
    if inner != columns {
        return Err(format!("{columns} columns do not match weights of {inner} rows").into());
    }
    let of = cx.shaped(value, vec![rows, width]);
    one(cx.node("FullyConnected", "", &[value, weights, bias], Vec::new(), of)?)
}

fn convert_to(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.op.attribute("shape").and_then(|shape| shape.tensors().next());
    let dtype = shape.map(|tensor| tensor.dtype).ok_or("expected a tensor as `shape`")?;
    let kind = kind_of(dtype).ok_or_else(|| format!("Glow has no element type {dtype}"))?;
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
    one(cx.node("Flip", "flip", &[value], vec![("Axis", MemberValue::Int(length(axis)))], of)?)
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
    let shape = shape.ok_or("expected distinct axes")?;
    one(cx.reshape_always(value, &shape, "expanddims")?)
}

fn replace_nan(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let number = cx.float("value", 0.0)?;
    let of = cx.type_of(value);
    one(cx.node("ReplaceNaN", "", &[value], vec![("Value", MemberValue::Float(number))], of)?)
}

fn adaptive_pool(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let size = cx.longs("output_size")?.ok_or("expected an attribute `output_size`")?;
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
    one(cx.node("BatchBoxCox", "", &inputs, vec![("Epsilon", MemberValue::Float(epsilon))], of)?)
}

fn batch_gather(cx: &mut Cx<'_>) -> Outcome {
    let (data, indices) = (cx.input(0)?, cx.input(1)?);
    let (shape, positions) = (cx.shape(data), cx.shape(indices));
    let axis = cx.axis("axis", 1, shape.len())?;
    let rest = shape.iter().skip(axis + 1);
    let result = shape.iter().take(axis).chain(&positions).chain(rest).copied().collect();
    let of = cx.shaped(data, result);
    let members = vec![("BatchDims", MemberValue::Int(length(axis)))];
    one(cx.node("Gather", "", &[data, indices], members, of)?)
}

/// Multiplies rows and sums the products.
fn dot_product(cx: &mut Cx<'_>) -> Outcome {
    let (left, right) = (cx.input(0)?, cx.input(1)?);
    let product = cx.pair("Mul", left, right, "mul")?;
    let shape = cx.shape(product);
    let [rows, rest @ ..] = &*shape else { return one(product) };
    if rest.is_empty() {
        return one(product);
    }
    let (rows, rest) = (*rows, count(rest)?);
    let flat = cx.reshape(product, &[rows, rest], "rows")?;
    let of = cx.shaped(flat, vec![rows]);
    one(cx.node("BatchedReduceAdd", "", &[flat], vec![("Axis", MemberValue::Int(1))], of)?)
}

fn insert_tensor(cx: &mut Cx<'_>) -> Outcome {
    let inputs = inputs(cx, 2)?;
    let big = cx.input(0)?;
    let start = cx.longs("start")?.ok_or("expected `start`")?;
    let members = vec![
        ("Start", MemberValue::Ints(start)),
        ("Count", MemberValue::Int(cx.int("count", 1)?)),
        ("Axis", MemberValue::Int(cx.int("axis", 0)?)),
    ];
    let of = cx.type_of(big);
    one(cx.node("InsertTensor", "", &inputs, members, of)?)
}

fn scatter(cx: &mut Cx<'_>) -> Outcome {
    let inputs = inputs(cx, 3)?;
    let data = cx.input(0)?;
    let adds = cx.flag("cumulative", false)?;
    let of = cx.type_of(data);
    let members = vec![("Cumulative", MemberValue::Int(adds.into()))];
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
        other => return Err(format!("expected one value, found {}", other.len()).into()),
    };
    let members = suppression(cx, most, true)?;
    let of = || plain(ElemKind::Int64I, vec![most]);
    let results = cx.nodes("NonMaxSuppression", "", &inputs, members, vec![of(), of()])?;
    Ok(results.into_iter().map(Some).collect())
}

//! Normalization.

use lodstone_schema::glow::ElemKind;
use lodstone_schema::numbers::{Rank, length};
use lodstone_schema::places::at;
use lodstone_schema::places::at_mut;

use super::elementwise::filled;
use super::graph::{MemberValue, Value, count, plain};
use super::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BatchNormalization", batch),
    ("InstanceNormalization", instance),
    ("LRN", local_response),
    ("LayerNormalization", layer),
    ("LpNormalization", norm),
    ("RMSNormalization", root_mean_square),
    ("LogSoftmax", |cx| softmax(cx, "LogSoftMax")),
    ("Softmax", |cx| softmax(cx, "SoftMax")),
];

fn batch(cx: &mut Cx<'_>) -> Outcome {
    if cx.flag("training_mode", false)? {
        return Err("Glow normalizes with learned statistics, found `training_mode`".into());
    }
    let mut inputs = Vec::new();
    for index in 0..5 {
        inputs.push(cx.input(index)?);
    }
    let value = cx.input(0)?;
    let members = vec![
        ("ChannelIdx", MemberValue::Int(1)),
        ("Epsilon", MemberValue::Float(cx.float("epsilon", 1e-5)?)),
        ("Momentum", MemberValue::Float(cx.float("momentum", 0.9)?)),
    ];
    let of = cx.shaped(value, cx.shape(value));
    one(cx.node("BatchNormalization", "", &inputs, members, of)?)
}

fn instance(cx: &mut Cx<'_>) -> Outcome {
    let inputs = [cx.input(0)?, cx.input(1)?, cx.input(2)?];
    let value = cx.input(0)?;
    let epsilon = cx.float("epsilon", 1e-5)?;
    let members =
        vec![("ChannelIdx", MemberValue::Int(1)), ("Epsilon", MemberValue::Float(epsilon))];
    let of = cx.shaped(value, cx.shape(value));
    one(cx.node("InstanceNormalization", "", &inputs, members, of)?)
}

fn local_response(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let size = cx.int("size", 0)?;
    if size < 1 || size % 2 == 0 {
        return Err(format!("expected an odd `size`, found {size}").into());
    }
    let value = cx.transpose(value, &[0, 2, 3, 1], "NHWC", "in")?;
    let members = vec![
        ("HalfWindowSize", MemberValue::Int((size - 1) / 2)),
        ("Alpha", MemberValue::Float(cx.float("alpha", 1e-4)?)),
        ("Beta", MemberValue::Float(cx.float("beta", 0.75)?)),
        ("K", MemberValue::Float(cx.float("bias", 1.0)?)),
    ];
    let of = cx.shaped(value, cx.shape(value));
    let result = cx.node("LocalResponseNormalization", "", &[value], members, of)?;
    one(cx.transpose(result, &[0, 3, 1, 2], "NCHW", "out")?)
}

fn layer(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    let axis = cx.axis("axis", -1, shape.len())?;
    let tail = shape.iter().skip(axis).copied().collect::<Vec<_>>();
    let scale = cx.input(1)?;
    let scale = cx.broadcast(scale, &tail, "scale")?;
    let bias = match cx.optional(2)? {
        Some(bias) => cx.broadcast(bias, &tail, "bias")?,
        None => filled(cx, 0.0, scale, "bias")?,
    };
    let of = cx.shaped(value, shape);
    let members = vec![("Epsilon", MemberValue::Float(cx.float("epsilon", 1e-5)?))];
    one(cx.node("LayerNormalization", "", &[value, scale, bias], members, of)?)
}

/// Glow's node works on rows; the axis is moved to the end, and all others become rows.
fn softmax(cx: &mut Cx<'_>, kind: &'static str) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    let rank = Rank::of(&shape);
    let (axis, last) = (rank.axis(cx.int("axis", -1)?)?.index(), rank.last()?.index());
    let mut order: Vec<usize> = (0..rank.count()).collect();
    order.swap(axis, last);
    let value = match axis == last {
        true => value,
        false => cx.transpose(value, &order, "*", "in")?,
    };
    let moved = cx.shape(value);
    let (width, rows) = moved.split_last().ok_or("expected at least one axis")?;
    let (width, rows) = (*width, count(rows)?);
    let flat = cx.reshape(value, &[rows, width], "rows")?;
    let selected = selected(cx, at(&shape, 0)?)?;
    let of = cx.shaped(flat, vec![rows, width]);
    let result = cx.node(kind, "", &[flat, selected], Vec::new(), of)?;
    let result = cx.reshape(result, &moved, "shape")?;
    match axis == last {
        true => one(result),
        false => one(cx.transpose(result, &order, "*", "out")?),
    }
}

/// The maximum number of rows whose classes, all of them 0, are stored.
const MAX_SELECTED: i64 = 1 << 16;

/// Returns the classes of a batch, which only training uses.
fn selected(cx: &mut Cx<'_>, batch: i64) -> Result<Value, Fault> {
    let shape = vec![batch, 1];
    match usize::try_from(batch) {
        Ok(rows) if batch <= MAX_SELECTED => {
            Ok(cx.graph.constant_of("selected", ElemKind::Int64I, shape, vec![0; rows * 8])?)
        }
        _ => cx.splat(0.0, plain(ElemKind::Int64I, shape), "selected"),
    }
}

/// Returns the mean of squares along the last axes, broadcast to the input.
fn mean_square(cx: &mut Cx<'_>, value: Value, axis: usize) -> Result<Value, Fault> {
    let shape = cx.shape(value);
    let square = cx.pair("Mul", value, value, "square")?;
    let lead: Vec<i64> = shape.iter().take(axis).copied().collect();
    let axes = (axis..shape.len()).map(length).collect();
    let of = cx.shaped(square, lead.clone());
    let mean = cx.node(
        "BatchedReduceMean",
        "mean",
        &[square],
        vec![("Axes", MemberValue::Ints(axes))],
        of,
    )?;
    let ones = std::iter::repeat_n(1, shape.len() - axis);
    let column: Vec<i64> = lead.into_iter().chain(ones).collect();
    cx.reshape(mean, &column, "keepdims")
}

/// `x / sqrt(mean(x * x) + epsilon) * scale`
fn root_mean_square(cx: &mut Cx<'_>) -> Outcome {
    let (value, scale) = (cx.input(0)?, cx.input(1)?);
    let shape = cx.shape(value);
    let axis = cx.axis("axis", -1, shape.len())?;
    let epsilon = cx.float("epsilon", 1e-5)?;
    let mean = mean_square(cx, value, axis)?;
    let epsilon = filled(cx, epsilon, mean, "epsilon")?;
    let root = cx.pair("Add", mean, epsilon, "more")?;
    let root = cx.each("Sqrt", root, "root")?;
    let root = cx.broadcast(root, &shape, "broadcast")?;
    let normal = cx.pair("Div", value, root, "normal")?;
    let scale = cx.broadcast(scale, &shape, "scale")?;
    one(cx.pair("Mul", normal, scale, "")?)
}

/// Divides by the norm along an axis.
fn norm(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    let axis = cx.axis("axis", -1, shape.len())?;
    let p = cx.int("p", 2)?;
    let parts = match p {
        1 => cx.each("Abs", value, "abs")?,
        2 => cx.pair("Mul", value, value, "square")?,
        _ => return Err(format!("expected 1 or 2 as `p`, found {p}").into()),
    };
    let mut rest = shape.clone();
    rest.remove(axis);
    let of = cx.shaped(parts, rest);
    let sum = cx.node(
        "BatchedReduceAdd",
        "sum",
        &[parts],
        vec![("Axis", MemberValue::Int(length(axis)))],
        of,
    )?;
    let mut kept = shape.clone();
    *at_mut(&mut kept, axis)? = 1;
    let sum = cx.reshape(sum, &kept, "keepdims")?;
    let length = if p == 2 { cx.each("Sqrt", sum, "root")? } else { sum };
    // Vectors of norm 0 stay 0.
    let zeros = filled(cx, 0.0, length, "zero")?;
    let ones = filled(cx, 1.0, length, "one")?;
    let of = plain(ElemKind::Bool, kept.clone());
    let is_nothing = cx.node("CmpEQ", "is_nothing", &[length, zeros], Vec::new(), of)?;
    let of = cx.shaped(length, kept);
    let length = cx.node("Select", "length", &[is_nothing, ones, length], Vec::new(), of)?;
    let length = cx.broadcast(length, &shape, "broadcast")?;
    one(cx.pair("Div", value, length, "")?)
}

//! Normalizations and `Softmax`.

use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::numbers::length;
use lodstone_schema::places::at;

use super::linear::tiled;
use super::rules::{channels_first, channels_last, expect_rank, flattened, is_nhwc, of_kind};
use crate::glow::from_onnx::graph::{MemberValue, Value};
use crate::glow::from_onnx::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("AffineChannel", affine),
    ("ChannelShuffle", shuffle),
    ("InstanceNorm", instance),
    ("LRN", lrn),
    ("LayerNorm", layer),
    ("LpNorm", lp),
    ("RMSNorm", rms),
    ("Softmax", softmax),
    ("SpatialBN", batch),
    ("Tile", tile),
];

fn softmax(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    if shape.len() < 2 {
        return Err(format!("expected at least 2 dims, found {shape:?}").into());
    }
    let first = at(&shape, 0)?;
    let selected = cx.splat(0.0, of_kind(ElemKind::Int64I, vec![first, 1]), "selected")?;
    let axis = cx.axis("axis", 1, shape.len())?;
    let flat = flattened(&shape, axis)?;
    let rows = cx.reshape_always(value, &flat, "reshapeInput")?;
    let of = cx.type_of(rows);
    // Glow ignores the labels, of which there must be one for each row.
    let selected = match flat {
        [rows, _] if rows != first => {
            cx.splat(0.0, of_kind(ElemKind::Int64I, vec![rows, 1]), "rows")?
        }
        _ => selected,
    };
    let result = cx.node("SoftMax", "", &[rows, selected], Vec::new(), of)?;
    one(cx.reshape_always(result, &shape, "reshapeOutput")?)
}

fn lrn(cx: &mut Cx<'_>) -> Outcome {
    let is_nhwc = is_nhwc(cx)?;
    let value = cx.input(0)?;
    let size = cx.int("size", 0)?;
    if !(1..=i64::from(u32::MAX)).contains(&size) || size % 2 == 0 {
        return Err(format!("expected an odd `size`, found {size}").into());
    }
    let members = vec![
        ("HalfWindowSize", MemberValue::Int(size / 2)),
        ("Alpha", MemberValue::Float(cx.float("alpha", 0.0)?)),
        ("Beta", MemberValue::Float(cx.float("beta", 0.0)?)),
        ("K", MemberValue::Float(cx.float("bias", 1.0)?)),
    ];
    let value = if is_nhwc { value } else { channels_last(cx, value)? };
    expect_rank(cx, value, 4, "images")?;
    let of = cx.type_of(value);
    let result = cx.node("LocalResponseNormalization", "", &[value], members, of)?;
    one(if is_nhwc { result } else { channels_first(cx, result)? })
}

fn batch(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let rank = cx.rank(value);
    let channel = if is_nhwc(cx)? { rank.saturating_sub(1) } else { 1 };
    let channels = cx.dim(value, length(channel))?;
    if cx.op.attribute("is_test").is_some() && !cx.flag("is_test", false)? {
        return Err("expected a net for inference, found `is_test` 0".into());
    }
    let mut operands = vec![value];
    // Glow's node takes scale, bias, mean and variance.
    for index in 1..5 {
        let operand = cx.input(index)?;
        if cx.shape(operand) != [channels] {
            let found = cx.shape(operand);
            return Err(
                format!("expected {channels} elements as input {index}, found {found:?}").into()
            );
        }
        operands.push(operand);
    }
    let members = vec![
        ("ChannelIdx", MemberValue::Int(length(channel))),
        ("Epsilon", MemberValue::Float(cx.float("epsilon", 1e-5)?)),
        ("Momentum", MemberValue::Float(0.9)),
    ];
    let of = cx.type_of(value);
    one(cx.node("BatchNormalization", "", &operands, members, of)?)
}

/// Returns the axis of the channels, and their number, after a check of the operands with an element for each.
fn by_channel(cx: &mut Cx<'_>, value: Value, operands: &[Value]) -> Result<(usize, i64), Fault> {
    let channel = if is_nhwc(cx)? { cx.rank(value).saturating_sub(1) } else { 1 };
    let channels = cx.dim(value, length(channel))?;
    match operands.iter().map(|operand| cx.shape(*operand)).find(|shape| *shape != [channels]) {
        Some(found) => Err(format!("expected {channels} elements, found {found:?}").into()),
        None => Ok((channel, channels)),
    }
}

/// Scales and moves each channel: a normalization with the mean 0 and the variance 1.
fn affine(cx: &mut Cx<'_>) -> Outcome {
    let (value, scale, bias) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let (channel, channels) = by_channel(cx, value, &[scale, bias])?;
    let each = of_kind(ElemKind::Float, vec![channels]);
    let mean = cx.splat(0.0, each.clone(), "mean")?;
    let variance = cx.splat(1.0, each, "variance")?;
    let members = vec![
        ("ChannelIdx", MemberValue::Int(length(channel))),
        ("Epsilon", MemberValue::Float(0.0)),
        ("Momentum", MemberValue::Float(0.9)),
    ];
    let of = cx.type_of(value);
    let operands = [value, scale, bias, mean, variance];
    one(cx.node("BatchNormalization", "", &operands, members, of)?)
}

fn instance(cx: &mut Cx<'_>) -> Outcome {
    let (value, scale, bias) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let (channel, _) = by_channel(cx, value, &[scale, bias])?;
    let members = vec![
        ("ChannelIdx", MemberValue::Int(length(channel))),
        ("Epsilon", MemberValue::Float(cx.float("epsilon", 1e-5)?)),
    ];
    let of = cx.type_of(value);
    one(cx.node("InstanceNormalization", "", &[value, scale, bias], members, of)?)
}

fn layer(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    let axis = cx.axis("axis", 1, shape.len())?;
    let features: Vec<i64> = shape.iter().skip(axis).copied().collect();
    let of: Type = cx.shaped(value, features.clone());
    let (weight, bias) = match cx.count() {
        1 => (cx.splat(1.0, of.clone(), "weight_ones")?, cx.splat(0.0, of, "bias_zeros")?),
        3 => (cx.input(1)?, cx.input(2)?),
        other => return Err(format!("expected 1 or 3 inputs, found {other}").into()),
    };
    for operand in [weight, bias] {
        if cx.shape(operand) != features {
            let found = cx.shape(operand);
            return Err(format!("expected weights of {features:?}, found {found:?}").into());
        }
    }
    let members = vec![("Epsilon", MemberValue::Float(cx.float("epsilon", 0.001)?))];
    let of = cx.type_of(value);
    one(cx.node("LayerNormalization", "", &[value, weight, bias], members, of)?)
}

fn rms(cx: &mut Cx<'_>) -> Outcome {
    let (value, gamma, beta) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    expect_rank(cx, value, 2, "a matrix")?;
    let shape = cx.shape(value);
    let &[rows, columns] = &*shape else { return Err("expected a matrix".into()) };
    for operand in [gamma, beta] {
        if cx.shape(operand) != [columns] {
            return Err(
                format!("expected {columns} elements, found {:?}", cx.shape(operand)).into()
            );
        }
    }
    let epsilon = cx.float("eps", 0.0)?;
    let of = cx.type_of(value);
    let square = cx.node("Mul", "square", &[value, value], Vec::new(), of.clone())?;
    let of_rows = Type { shape: vec![rows], ..of.clone() };
    let axes = vec![("Axes", MemberValue::Ints(vec![1]))];
    let mean = cx.node("BatchedReduceMean", "mean", &[square], axes, of_rows.clone())?;
    let epsilon =
        cx.graph.constant_of("eps", ElemKind::Float, vec![1], epsilon.to_le_bytes().to_vec())?;
    let epsilon = cx.broadcast_at(epsilon, &[rows], 0, "bcastEps")?;
    let sum = cx.node("Add", "addEps", &[mean, epsilon], Vec::new(), of_rows.clone())?;
    let root = pow(cx, sum, 0.5, "sqrt")?;
    let unit =
        cx.graph.constant_of("one", ElemKind::Float, vec![1], 1_f32.to_le_bytes().to_vec())?;
    let unit = cx.broadcast_at(unit, &[rows], 0, "bcastOne")?;
    let factor = cx.node("Div", "rrms", &[unit, root], Vec::new(), of_rows)?;
    let column = cx.reshape_always(factor, &[rows, 1], "expandD")?;
    let factors = cx.broadcast_at(column, &shape, 0, "bcastReshape")?;
    let product = cx.node("Mul", "mul", &[value, factors], Vec::new(), of.clone())?;
    let gamma = cx.broadcast_at(gamma, &shape, 1, "bcastGamma")?;
    let product = cx.node("Mul", "mulGamma", &[product, gamma], Vec::new(), of.clone())?;
    let beta = cx.broadcast_at(beta, &shape, 1, "bcastBeta")?;
    let result = cx.node("Add", "Y", &[product, beta], Vec::new(), of)?;
    Ok(vec![Some(result), Some(factor)])
}

fn pow(cx: &mut Cx<'_>, value: Value, exponent: f32, suffix: &str) -> Result<Value, Fault> {
    let of = cx.type_of(value);
    let exponent = cx.splat(exponent, of.clone(), "exp")?;
    cx.node("Pow", suffix, &[value, exponent], Vec::new(), of)
}

fn lp(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    if cx.flag("average", false)? {
        return Err("Glow has no `average` for `LpNorm`".into());
    }
    let of = cx.type_of(value);
    let powers = match cx.int("p", 2)? {
        1 => cx.node("Abs", "", &[value], Vec::new(), of.clone())?,
        2 => pow(cx, value, 2.0, "")?,
        other => return Err(format!("expected 1 or 2 as `p`, found {other}").into()),
    };
    let [count, _] = flattened(&of.shape, of.shape.len())?;
    let flat = cx.reshape_always(powers, &[count], "reshape1D")?;
    let of = Type { shape: vec![1], ..of };
    one(cx.node("BatchedReduceAdd", "sum", &[flat], vec![("Axis", MemberValue::Int(0))], of)?)
}

fn shuffle(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let default = if is_nhwc(cx)? { length(cx.rank(value)) - 1 } else { 1 };
    let (group, kernel) = (cx.int("group", 1)?, cx.int("kernel", default)?);
    let channels = cx.dim(value, kernel)?;
    if group < 1 || channels % group != 0 {
        return Err(format!("{channels} channels do not divide into {group} groups").into());
    }
    let members = vec![("Group", MemberValue::Int(group)), ("Kernel", MemberValue::Int(kernel))];
    let of = cx.type_of(value);
    one(cx.node("ChannelShuffle", "", &[value], members, of)?)
}

fn tile(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let axis = cx.axis("axis", 0, cx.rank(value))?;
    let count = cx.int("tiles", 1)?;
    if !(1..=i64::from(u32::MAX)).contains(&count) {
        return Err(format!("expected `tiles` of at least 1, found {count}").into());
    }
    one(tiled(cx, value, axis, count)?)
}

//! Normalizations, `Softmax`, and other operators on channels.

use lodstone_schema::numbers::{exact, length};

use super::node::{Node, Outcome, Rule, expect_dim, expect_rank, rank, required_dim};
use crate::onnx::normalization::{LocalResponse, Squares};
use crate::onnx::{Value, float, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("AffineChannel", Rule::One(affine)),
    ("ChannelShuffle", Rule::One(shuffle)),
    ("Glu", Rule::One(gated)),
    ("GroupNorm", Rule::One(group)),
    ("InstanceNorm", Rule::One(instance)),
    ("LRN", Rule::One(local)),
    ("LayerNorm", Rule::Many(layer)),
    ("LpNorm", Rule::One(norm)),
    ("Normalize", Rule::One(|node| normalized(node, "ReduceL2", 1e-12))),
    ("NormalizeL1", Rule::One(|node| normalized(node, "ReduceL1", f32::MIN_POSITIVE))),
    ("RMSNorm", Rule::Many(root_mean_square)),
    ("Softmax", Rule::One(softmax)),
    ("SpatialBN", Rule::One(batch)),
    ("Tile", Rule::One(tile)),
];

/// The dims from `axis` on are one.
fn softmax(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let rank = x.rank()?;
    if rank.count() < 2 {
        return Err(format!("expected at least 2 dims, found {rank}").into());
    }
    let axis = node.axis("axis", 1, rank)?;
    if axis + 1 == rank.number() {
        return node.call("Softmax", &[&x], [int("axis", axis)]);
    }
    let rows = node.call("Flatten", &[&x], [int("axis", axis)])?;
    let y = node.call("Softmax", &[&rows], [int("axis", 1)])?;
    node.reshape_as(&y, &x)
}

/// `alpha` is that of the mean of squares.
fn local(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    expect_rank(&x, 4, "images")?;
    let size = node.int_in("size", 1..=i64::from(u32::MAX), 0)?;
    if size % 2 == 0 {
        return Err(format!("expected an odd `size`, found {size}").into());
    }
    let how = LocalResponse {
        size,
        squares: Squares::Mean,
        alpha: node.float("alpha", 0.0)?,
        beta: node.float("beta", 0.0)?,
        bias: node.float("bias", 1.0)?,
    };
    node.on_images(&x, |node, x| node.local_response(x, how))
}

/// Checks that operands have an element for each channel.
fn check_channels(node: &Node<'_>, x: &Value, first: usize, operands: &[Value]) -> Outcome<()> {
    let axis = node.layout()?.channels(x)?;
    let Some(channels) = x.size(axis)? else { return Ok(()) };
    for (index, operand) in (first..).zip(operands) {
        expect_rank(operand, 1, &format!("input {index}"))?;
        expect_dim(operand, 0, channels, &format!("input {index}"))?;
    }
    Ok(())
}

fn batch(node: &mut Node<'_>) -> Outcome {
    let [x, scale, bias, mean, variance] = node.first()?;
    if node.has("is_test") && !node.flag("is_test", false)? {
        return Err("expected a net for inference, found `is_test` 0".into());
    }
    let operands = [scale, bias, mean, variance];
    check_channels(node, &x, 1, &operands)?;
    let epsilon = node.float("epsilon", 1e-5)?;
    node.on_images(&x, |node, x| node.batch_normalized(x, operands.each_ref(), epsilon))
}

fn instance(node: &mut Node<'_>) -> Outcome {
    let [x, scale, bias] = node.first()?;
    check_channels(node, &x, 1, &[scale.clone(), bias.clone()])?;
    let epsilon = node.float("epsilon", 1e-5)?;
    node.on_images(&x, |node, x| {
        node.call("InstanceNormalization", &[x, &scale, &bias], [float("epsilon", epsilon)])
    })
}

/// Normalizes groups of channels of each image.
fn group(node: &mut Node<'_>) -> Outcome {
    let [x, scale, bias] = node.exactly()?;
    check_channels(node, &x, 1, &[scale.clone(), bias.clone()])?;
    let (groups, epsilon) = (node.int_in("group", 1..=1 << 24, 32)?, node.float("epsilon", 1e-5)?);
    node.on_images(&x, |node, x| {
        let rank = rank(x)?;
        let grouped = node.grouped(x, groups)?;
        let parts = node.normalized(&grouped, &[2], epsilon.into())?;
        let y = node.reshape_as(&parts.value, x)?;
        node.affine(&y, [Some(&scale), Some(&bias)], |graph, it| graph.along(it, 1, rank))
    })
}

/// Divides by a norm along an axis, which is at least a number.
fn normalized(node: &mut Node<'_>, kind: &str, least: f32) -> Outcome {
    let x = node.input(0)?;
    let axis = node.axis("axis", -1, x.rank()?)?;
    let norm = node.reduce(kind, &x, &[axis], true)?;
    let least = node.number(x.dtype(), least.into())?;
    let norm = node.call("Max", &[&norm, &least], [])?;
    node.div(&x, &norm)
}

/// Multiplies one half of an axis by the sigmoid of the other.
fn gated(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let axis = node.axis("dim", -1, x.rank()?)?;
    let attributes = [int("axis", axis), int("num_outputs", 2)];
    let [value, gate] = node.emit_all("Split", &[Some(&x)], attributes)?;
    if x.size(axis)?.is_some_and(|dim| dim % 2 != 0) {
        return Err("expected an axis that divides into halves".into());
    }
    let gate = node.call("Sigmoid", &[&gate], [])?;
    node.mul(&value, &gate)
}

fn affine(node: &mut Node<'_>) -> Outcome {
    let [x, scale, bias] = node.exactly()?;
    check_channels(node, &x, 1, &[scale.clone(), bias.clone()])?;
    let (axis, rank) = (node.layout()?.channels(&x)?, rank(&x)?);
    node.affine(&x, [Some(&scale), Some(&bias)], |graph, vector| graph.along(vector, axis, rank))
}

/// Normalizes the dims from `axis` on. The other results are the mean and the deviation, of which epsilon is a part.
fn layer(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.input(0)?;
    let rank = x.rank()?;
    let axis = node.axis("axis", 1, rank)?;
    let epsilon = node.float("epsilon", 1e-5)?;
    let axes: Vec<i64> = (axis..rank.number()).collect();
    let parts = node.normalized(&x, &axes, epsilon.into())?;
    let (weight, bias) = match node.count() {
        1 => (None, None),
        3 => (Some(node.input(1)?), Some(node.input(2)?)),
        other => return Err(format!("expected 1 or 3 inputs, found {other}").into()),
    };
    for operand in weight.iter().chain(&bias) {
        for (place, axis) in (0..).zip(&axes) {
            if let Some(dim) = x.size(*axis)? {
                expect_dim(operand, place, dim, "weights")?;
            }
        }
    }
    let y = node.affine(&parts.value, [weight.as_ref(), bias.as_ref()], |_, it| Ok(it.clone()))?;
    // One dim is left of those that are normalized.
    let behind = node.graph.longs(axes.get(1..).unwrap_or_default());
    let mut shortened = |value: Value| match axes.len() {
        1 => Ok(value),
        _ => node.call("Squeeze", &[&value, &behind], []),
    };
    Ok(vec![y, shortened(parts.mean)?, shortened(parts.deviation)?])
}

/// Divides rows by the root of the mean of their squares; the second result is the inverse of that root.
fn root_mean_square(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [whole, gamma, beta] = node.exactly()?;
    let x = match rank(&whole)? {
        2 => whole.clone(),
        _ => node.call("Flatten", &[&whole], [int("axis", 1)])?,
    };
    let mut list = |value: &Value| match rank(value)? {
        1 => Ok(value.clone()),
        _ => node.reshape(value, &[-1]),
    };
    let (gamma, beta) = (list(&gamma)?, list(&beta)?);
    if let Some(columns) = x.size(1)? {
        expect_dim(&gamma, 0, columns, "the scale")?;
        expect_dim(&beta, 0, columns, "the bias")?;
    }
    let squares = node.mul(&x, &x)?;
    let mean = node.reduce("ReduceMean", &squares, &[1], true)?;
    let epsilon = node.float("eps", 0.0)?;
    let root = node.root(&mean, epsilon.into())?;
    let factor = node.call("Reciprocal", &[&root], [])?;
    let scaled = node.mul(&x, &factor)?;
    let y = node.affine(&scaled, [Some(&gamma), Some(&beta)], |_, it| Ok(it.clone()))?;
    let y = if rank(&whole)? == 2 { y } else { node.reshape_as(&y, &whole)? };
    let axes = node.longs(&[1]);
    Ok(vec![y, node.call("Squeeze", &[&factor, &axes], [])?])
}

/// The sum of magnitudes, or of squares, of all elements.
fn norm(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let powers = match node.int("p", 2)? {
        1 => node.call("Abs", &[&x], [])?,
        2 => node.mul(&x, &x)?,
        other => return Err(format!("expected 1 or 2 as `p`, found {other}").into()),
    };
    let kind = if node.flag("average", false)? { "ReduceMean" } else { "ReduceSum" };
    let flat = node.reshape(&powers, &[-1])?;
    node.reduce(kind, &flat, &[0], true)
}

fn shuffle(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let rank = x.rank()?;
    let axis = match node.has("kernel") {
        true => node.axis("kernel", 1, rank)?,
        false => node.layout()?.channels(&x)?,
    };
    let (group, channels) = (node.int("group", 1)?, required_dim(&x, axis)?);
    if group < 1 || channels % group != 0 {
        return Err(format!("{channels} channels do not divide into {group} groups").into());
    }
    let mut sizes = Vec::new();
    for place in rank.numbers() {
        match place == axis {
            true => sizes.extend([group, channels / group].map(crate::onnx::Size::Known)),
            false => sizes.push(node.size_of(&x, place)?),
        }
    }
    let groups = node.reshape_to(&x, &sizes)?;
    let mut order: Vec<i64> = (0..length(sizes.len())).collect();
    let at: usize = exact(axis)?;
    order.swap(at, at + 1);
    let turned = node.transpose(&groups, &order)?;
    node.reshape_as(&turned, &x)
}

fn tile(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let rank = x.rank()?;
    let axis = node.axis("axis", 0, rank)?;
    let count = node.int_in("tiles", 1..=i64::from(u32::MAX), 1)?;
    let repeats = rank.numbers().map(|place| if place == axis { count } else { 1 });
    let repeats = node.graph.longs(&repeats.collect::<Vec<_>>());
    node.call("Tile", &[&x, &repeats], [])
}

//! Normalization.

use lodstone_model::DType;
use lodstone_schema::Finding;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, axis_of, rank, required_dim};
use crate::onnx::normalization::{LocalResponse, Squares};
use crate::onnx::{Value, float};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BatchNorm", Rule::One(batch_norm)),
    ("BatchNorm_v1", Rule::One(batch_norm)),
    ("GroupNorm", Rule::One(group_norm)),
    ("InstanceNorm", Rule::One(instance_norm)),
    ("L2Normalization", Rule::One(l2_normalization)),
    ("LRN", Rule::One(lrn)),
    ("LayerNorm", Rule::One(layer_norm)),
    ("_contrib_BatchNormWithReLU", Rule::One(batch_norm_relu)),
    ("_contrib_SyncBatchNorm", Rule::One(batch_norm)),
];

impl Node<'_> {
    /// Returns a small positive number that is added to a variance.
    pub(super) fn epsilon(&self, default: f64) -> Outcome<f64> {
        let epsilon = self.attributes.float("eps", default)?;
        match epsilon.is_finite() && epsilon >= 0.0 {
            true => Ok(epsilon),
            false => Err(wrong("eps", "a number that is not negative", &epsilon.to_string())),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the attribute has single precision")]
pub(super) fn single(number: f64) -> f32 {
    number as f32
}

/// Normalizes by the stored statistics. With `fix_gamma`, which is the default, the scale is 1 whatever the file holds.
pub(super) fn batch_norm(node: &mut Node<'_>) -> Outcome {
    let [x, gamma, beta, mean, variance] = node.exactly()?;
    node.attributes.flag("use_global_stats", false)?;
    node.attributes.flag("output_mean_var", false)?;
    node.attributes.ignore(&["min_calib_range", "max_calib_range"]);
    let epsilon = node.epsilon(1e-3)?;
    let rank = x.rank()?;
    let axis = rank.axis(node.attributes.int("axis", 1)?)?;
    let gamma = match node.attributes.flag("fix_gamma", true)? {
        true => node.constant_like(&gamma, gamma.dtype(), 1.0)?,
        false => gamma,
    };
    let mut order: Vec<i64> = rank.numbers().collect();
    let moved = if axis.index() == 1 {
        x
    } else {
        if rank < 2 {
            return Err(format!("expected data of at least rank 2, found {rank}").into());
        }
        order.swap(1, axis.index());
        node.transpose(&x, &order)?
    };
    let given = [&gamma, &beta, &mean, &variance];
    let y = node.batch_normalized(&moved, given, single(epsilon))?;
    if axis.index() == 1 { Ok(y) } else { node.transpose(&y, &order) }
}

fn batch_norm_relu(node: &mut Node<'_>) -> Outcome {
    let y = batch_norm(node)?;
    node.call("Relu", &[&y], [])
}

fn instance_norm(node: &mut Node<'_>) -> Outcome {
    let [x, gamma, beta] = node.exactly()?;
    let epsilon = float("epsilon", single(node.epsilon(1e-3)?));
    node.call("InstanceNormalization", &[&x, &gamma, &beta], [epsilon])
}

fn layer_norm(node: &mut Node<'_>) -> Outcome {
    let [x, gamma, beta] = node.exactly()?;
    node.attributes.flag("output_mean_var", false)?;
    let epsilon = node.epsilon(1e-5)?;
    let axis = axis_of(&x, node.attributes.int("axis", -1)?)?;
    let rank = rank(&x)?;
    if axis + 1 == rank {
        let operands = (&gamma, Some(&beta));
        let all = node.layer_normalized(&x, operands, -1, single(epsilon), 1)?;
        return all.into_iter().next().ok_or_else(|| Finding::internal("a result was lost"));
    }
    let y = node.normalized(&x, &[axis], epsilon)?.value;
    scaled(node, &y, &gamma, &beta, axis)
}

/// Multiplies by and adds an element for each index along an axis.
fn scaled(node: &mut Node<'_>, x: &Value, gamma: &Value, beta: &Value, axis: i64) -> Outcome {
    let rank = rank(x)?;
    let (gamma, beta) = (node.along(gamma, axis, rank)?, node.along(beta, axis, rank)?);
    node.affine(x, [Some(&gamma), Some(&beta)], |_, it| Ok(it.clone()))
}

/// Normalizes groups of channels. Scales are those of groups in 1.9.1, and those of channels later.
fn group_norm(node: &mut Node<'_>) -> Outcome {
    let [x, gamma, beta] = node.exactly()?;
    node.attributes.flag("output_mean_var", false)?;
    let epsilon = node.epsilon(1e-5)?;
    let groups = node.attributes.int("num_groups", 1)?;
    if groups < 1 {
        return Err(wrong("num_groups", "a positive number", &groups.to_string()));
    }
    let grouped = node.grouped(&x, groups)?;
    let is_by_group = required_dim(&gamma, 0)? == groups;
    let (scale, offset) = match is_by_group {
        true => (gamma.clone(), beta.clone()),
        false => (node.filled(x.dtype(), 1.0, &[groups])?, node.filled(x.dtype(), 0.0, &[groups])?),
    };
    let epsilon = float("epsilon", single(epsilon));
    let y = node.call("InstanceNormalization", &[&grouped, &scale, &offset], [epsilon])?;
    let y = node.reshape_as(&y, &x)?;
    if is_by_group { Ok(y) } else { scaled(node, &y, &gamma, &beta, 1) }
}

/// Divides by the root of the sum of squares.
fn l2_normalization(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let epsilon = node.epsilon(1e-10)?;
    let rank = rank(&x)?;
    let mode = node.attributes.word("mode", &["instance", "channel", "spatial"], "instance")?;
    let axes: Vec<i64> = match mode {
        "instance" => (1..rank).collect(),
        "channel" => vec![1],
        _ => (2..rank).collect(),
    };
    if axes.iter().any(|axis| *axis >= rank) || axes.is_empty() {
        return Err(format!("`{mode}` needs data of a higher rank than {rank}").into());
    }
    let squares = node.reduce("ReduceSumSquare", &x, &axes, true)?;
    let norm = node.root(&squares, epsilon)?;
    node.div(&x, &norm)
}

fn lrn(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let attributes = &node.attributes;
    let size = attributes.int("nsize", None)?;
    if size < 1 || size % 2 == 0 {
        return Err(wrong("nsize", "an odd number", &size.to_string()));
    }
    let how = LocalResponse {
        size,
        squares: Squares::Mean,
        alpha: single(attributes.float("alpha", 1e-4)?),
        beta: single(attributes.float("beta", 0.75)?),
        bias: single(attributes.float("knorm", 2.0)?),
    };
    let narrow = x.dtype();
    let wide = node.cast(&x, if narrow == DType::Float64 { DType::Float32 } else { narrow })?;
    let y = node.local_response(&wide, how)?;
    node.cast(&y, narrow)
}

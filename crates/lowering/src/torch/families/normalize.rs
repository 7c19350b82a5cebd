//! Normalization.

use lodstone_model::DType;
use lodstone_schema::numbers::{Axis, length};

use crate::onnx::{Value, float};
use crate::torch::arguments::{Number, Size, wrong};
use crate::torch::node::{Node, Outcome, Rule, dim_of, dims_along, rank, required_dim};
use crate::torch::promote::float_type;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::_batch_norm_no_update", Rule::Many(batch_norm)),
    ("aten::_native_batch_norm_legit", Rule::Many(batch_norm)),
    ("aten::_native_batch_norm_legit_functional", Rule::Many(batch_norm)),
    ("aten::_native_batch_norm_legit_no_training", Rule::Many(batch_norm)),
    ("aten::_weight_norm", Rule::One(weight_norm)),
    ("aten::batch_norm", Rule::Many(batch_norm)),
    ("aten::group_norm", Rule::One(group_norm)),
    ("aten::instance_norm", Rule::One(instance_norm)),
    ("aten::layer_norm", Rule::Many(layer_norm)),
    ("aten::native_batch_norm", Rule::Many(batch_norm)),
    ("aten::native_group_norm", Rule::Many(native_group_norm)),
    ("aten::native_layer_norm", Rule::Many(layer_norm)),
    ("aten::rms_norm", Rule::One(rms_norm)),
];

#[expect(clippy::cast_possible_truncation, reason = "attributes of ONNX are single floats")]
fn epsilon(eps: f64) -> f32 {
    eps as f32
}

/// Returns a vector of the channels' size, filled with a number, if it is absent.
fn or_filled(node: &mut Node<'_>, given: Option<Value>, x: &Value, number: f64) -> Outcome {
    match given {
        Some(given) => Ok(given),
        None => {
            let channels = required_dim(x, 1)?;
            node.filled(x.dtype(), number, &[channels])
        }
    }
}

/// Normalizes over batches: by the stored statistics, or by those of the batch.
fn batch_norm(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("input")?;
    let (weight, bias) = (node.optional("weight")?, node.optional("bias")?);
    let mean = node.optional("running_mean")?;
    let variance = node.optional("running_var")?;
    let eps = node.arguments.float("eps")?;
    node.arguments.ignore(&["momentum"]);
    let trains = node.arguments.has("training") && node.arguments.flag("training")?;
    let (scale, offset) = (or_filled(node, weight, &x, 1.0)?, or_filled(node, bias, &x, 0.0)?);
    if let (false, Some(mean), Some(variance)) = (trains, &mean, &variance) {
        let y = node.batch_normalized(&x, [&scale, &offset, mean, variance], epsilon(eps))?;
        let empty = node.filled(x.dtype(), 0.0, &[0])?;
        return Ok(vec![y, empty.clone(), empty]);
    }
    if trains && mean.is_some() && node.name() != "_native_batch_norm_legit" {
        return Err("it updates statistics in training, which is not supported".into());
    }
    let axes: Vec<i64> = (0..rank(&x)?).filter(|axis| *axis != 1).collect();
    let normal = node.normalized(&x, &axes, eps)?;
    let y = channelwise(node, &normal.value, Some(scale), Some(offset))?;
    let inverse = node.call("Reciprocal", &[&normal.deviation], [])?;
    let (mean, inverse) = (node.reshape(&normal.mean, &[-1])?, node.reshape(&inverse, &[-1])?);
    Ok(vec![y, mean, inverse])
}

/// Multiplies and adds vectors of the channels' size.
fn channelwise(
    node: &mut Node<'_>,
    x: &Value,
    weight: Option<Value>,
    bias: Option<Value>,
) -> Outcome {
    let dims = dims_along(x.rank()?, 1);
    let given = [weight.as_ref(), bias.as_ref()];
    node.affine(x, given, |graph, vector| graph.reshape(vector, &dims))
}

/// Returns the first of the normalized axes, which are the last ones.
fn first_axis(node: &Node<'_>, x: &Value) -> Outcome<(i64, Vec<i64>)> {
    let shape = node.arguments.ints("normalized_shape")?;
    let rank = rank(x)?;
    let first = rank - length(shape.len());
    let fits = |(axis, size): (i64, &i64)| dim_of(x, axis).is_none_or(|dim| dim == *size);
    if shape.is_empty() || first < 0 || !(first..).zip(&shape).all(fits) {
        return Err(wrong("normalized_shape", "the last dims of the input", &format!("{shape:?}")));
    }
    Ok((first, shape))
}

fn layer_norm(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("input")?;
    let (axis, shape) = first_axis(node, &x)?;
    let (weight, bias) = (node.optional("weight")?, node.optional("bias")?);
    let eps = node.arguments.float("eps")?;
    let weight = match weight {
        Some(weight) => weight,
        None => node.filled(x.dtype(), 1.0, &shape)?,
    };
    let results = if node.name() == "layer_norm" { 1 } else { 3 };
    node.layer_normalized(&x, (&weight, bias.as_ref()), axis, epsilon(eps), results)
}

fn rms_norm(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("input")?;
    let (axis, _) = first_axis(node, &x)?;
    let weight = node.optional("weight")?;
    let smallest = match x.dtype() {
        DType::Float16 => 9.765_625e-4,
        DType::BFloat16 => 7.8125e-3,
        DType::Float64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    };
    let eps = node.arguments.optional_float("eps")?.unwrap_or(smallest);
    let axes: Vec<i64> = (axis..rank(&x)?).collect();
    let squares = node.mul(&x, &x)?;
    let mean = node.reduce("ReduceMean", &squares, &axes, true)?;
    let root = node.root(&mean, eps)?;
    let y = node.div(&x, &root)?;
    match weight {
        Some(weight) => node.mul(&y, &weight),
        None => Ok(y),
    }
}

/// Normalizes groups of channels; returns the result, and the mean and inverse deviation of each group.
fn grouped(node: &mut Node<'_>, x: &Value, groups: i64, eps: f64) -> Outcome<[Value; 3]> {
    let channels = required_dim(x, 1)?;
    if groups < 1 || channels % groups != 0 {
        return Err(wrong("num_groups", &format!("a divisor of {channels}"), &groups.to_string()));
    }
    let batch = node.size_of(x, 0)?;
    let elements = node.elements_of_group(x, groups)?;
    let split = [batch, Size::Known(groups), Size::Known(elements)];
    let parts = node.reshape_to(x, &split)?;
    let normal = node.normalized(&parts, &[2], eps)?;
    let y = node.reshape_as(&normal.value, x)?;
    let inverse = node.call("Reciprocal", &[&normal.deviation], [])?;
    let axes = node.longs(&[2]);
    let mean = node.call("Squeeze", &[&normal.mean, &axes], [])?;
    let inverse = node.call("Squeeze", &[&inverse, &axes], [])?;
    Ok([y, mean, inverse])
}

fn group_norm(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("input")?;
    let (weight, bias) = (node.optional("weight")?, node.optional("bias")?);
    let groups = node.arguments.int("num_groups")?;
    let eps = node.arguments.float("eps")?;
    let [y, ..] = grouped(node, &x, groups, eps)?;
    channelwise(node, &y, weight, bias)
}

fn native_group_norm(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("input")?;
    let (weight, bias) = (node.optional("weight")?, node.optional("bias")?);
    let groups = node.arguments.int("group")?;
    let eps = node.arguments.float("eps")?;
    node.arguments.ignore(&["N", "C", "HxW"]);
    let [y, mean, inverse] = grouped(node, &x, groups, eps)?;
    Ok(vec![channelwise(node, &y, weight, bias)?, mean, inverse])
}

fn instance_norm(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("input")?;
    let (weight, bias) = (node.optional("weight")?, node.optional("bias")?);
    let mean = node.optional("running_mean")?;
    let variance = node.optional("running_var")?;
    let eps = node.arguments.float("eps")?;
    node.arguments.ignore(&["momentum"]);
    let own = matches!(node.arguments.number("use_input_stats")?, Some(Number::Bool(true)) | None);
    let (scale, offset) = (or_filled(node, weight, &x, 1.0)?, or_filled(node, bias, &x, 0.0)?);
    let eps = epsilon(eps);
    match (own, mean, variance) {
        (false, Some(mean), Some(variance)) => {
            node.batch_normalized(&x, [&scale, &offset, &mean, &variance], eps)
        }
        (false, ..) => Err("the statistics are missing".into()),
        (true, None, None) => {
            let inputs = [&x, &scale, &offset];
            node.call("InstanceNormalization", &inputs, [float("epsilon", eps)])
        }
        (true, ..) => Err("it updates statistics, which is not supported".into()),
    }
}

/// `v * g / norm(v)`, with the norm over all dims but one; over all, if that is -1.
fn weight_norm(node: &mut Node<'_>) -> Outcome {
    let (v, g) = (node.tensor("v")?, node.tensor("g")?);
    float_type(v.dtype())?;
    let rank = v.rank()?;
    let kept = match node.arguments.int("dim")? {
        -1 => None,
        dim => Some(rank.axis(dim)?),
    };
    let axes: Vec<i64> = rank.axes().filter(|axis| Some(*axis) != kept).map(Axis::number).collect();
    let norm = match axes.is_empty() {
        true => node.call("Abs", &[&v], [])?,
        false => node.reduce("ReduceL2", &v, &axes, true)?,
    };
    let ratio = node.div(&g, &norm)?;
    node.mul(&v, &ratio)
}

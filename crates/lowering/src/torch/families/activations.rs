//! Activations, and what does nothing in inference.

use lodstone_model::DType;

use super::unary::largest;
use crate::onnx::{Value, float, int, text};
use crate::torch::arguments::{Number, wrong};
use crate::torch::node::{Node, Outcome, Rule, axis_of, dims_along, rank};
use crate::torch::promote::{Category, category};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::_log_softmax", Rule::One(|node| softmax(node, "LogSoftmax"))),
    ("aten::_safe_softmax", Rule::One(safe_softmax)),
    ("aten::_softmax", Rule::One(|node| softmax(node, "Softmax"))),
    ("aten::alpha_dropout", Rule::One(dropout)),
    ("aten::celu", Rule::One(celu)),
    ("aten::dropout", Rule::One(dropout)),
    ("aten::elu", Rule::One(elu)),
    ("aten::feature_alpha_dropout", Rule::One(dropout)),
    ("aten::feature_dropout", Rule::One(dropout)),
    ("aten::gelu", Rule::One(gelu)),
    ("aten::glu", Rule::One(glu)),
    ("aten::hardshrink", Rule::One(hardshrink)),
    ("aten::hardsigmoid", Rule::One(hardsigmoid)),
    ("aten::hardswish", Rule::One(hardswish)),
    ("aten::hardtanh", Rule::One(hardtanh)),
    ("aten::leaky_relu", Rule::One(leaky_relu)),
    ("aten::log_sigmoid", Rule::One(log_sigmoid)),
    ("aten::log_sigmoid_forward", Rule::Many(|node| Ok(vec![log_sigmoid(node)?]))),
    ("aten::log_softmax", Rule::One(|node| softmax(node, "LogSoftmax"))),
    ("aten::mish", Rule::One(mish)),
    ("aten::native_dropout", Rule::Many(native_dropout)),
    ("aten::prelu", Rule::One(prelu)),
    ("aten::_prelu_kernel", Rule::One(prelu_kernel)),
    ("aten::relu", Rule::One(relu)),
    ("aten::relu6", Rule::One(relu6)),
    ("aten::rrelu", Rule::One(rrelu)),
    ("aten::rrelu_with_noise", Rule::One(rrelu)),
    ("aten::rrelu_with_noise_functional", Rule::Many(rrelu_with_noise)),
    ("aten::selu", Rule::One(selu)),
    ("aten::silu", Rule::One(silu)),
    ("aten::softmax", Rule::One(|node| softmax(node, "Softmax"))),
    ("aten::softplus", Rule::One(softplus)),
    ("aten::softshrink", Rule::One(softshrink)),
    ("aten::special_log_softmax", Rule::One(|node| softmax(node, "LogSoftmax"))),
    ("aten::special_softmax", Rule::One(|node| softmax(node, "Softmax"))),
    ("aten::threshold", Rule::One(threshold)),
];

fn relu(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    match category(x.dtype())? {
        Category::Float => node.call("Relu", &[&x], []),
        Category::Bool => Ok(x),
        Category::Int => {
            let zero = node.number(x.dtype(), 0.0)?;
            node.call("Max", &[&x, &zero], [])
        }
    }
}

fn relu6(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    node.clamp(&x, 0.0, 6.0)
}

fn hardtanh(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let (least, most) = (node.arguments.float("min_val")?, node.arguments.float("max_val")?);
    node.clamp(&x, least, most)
}

fn gelu(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let approximate = node.arguments.text("approximate")?.unwrap_or_else(|| "none".to_owned());
    if !matches!(approximate.as_str(), "none" | "tanh") {
        return Err(wrong("approximate", "`none` or `tanh`", &approximate));
    }
    node.call("Gelu", &[&x], [text("approximate", &approximate)])
}

fn silu(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let gate = node.call("Sigmoid", &[&x], [])?;
    node.mul(&x, &gate)
}

fn mish(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    node.call("Mish", &[&x], [])
}

#[expect(clippy::cast_possible_truncation, reason = "attributes of ONNX are single floats")]
fn single(value: f64) -> f32 {
    value as f32
}

fn hardsigmoid(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    node.call("HardSigmoid", &[&x], [float("alpha", 1.0 / 6.0), float("beta", 0.5)])
}

fn hardswish(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    node.call("HardSwish", &[&x], [])
}

fn leaky_relu(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let slope = node.arguments.float("negative_slope")?;
    node.call("LeakyRelu", &[&x], [float("alpha", single(slope))])
}

/// In inference, the slope is the mean of the bounds.
fn rrelu(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    if node.arguments.flag("training")? {
        return Err("it draws random numbers in training".into());
    }
    node.arguments.ignore(&["noise"]);
    let (lower, upper) = (node.arguments.float("lower")?, node.arguments.float("upper")?);
    node.call("LeakyRelu", &[&x], [float("alpha", single(f64::midpoint(lower, upper)))])
}

/// The noise is written in training only.
fn rrelu_with_noise(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let noise = node.tensor("noise")?;
    Ok(vec![rrelu(node)?, noise])
}

/// Slopes for each channel.
fn prelu(node: &mut Node<'_>) -> Outcome {
    let (x, weight) = (node.tensor("self")?, node.tensor("weight")?);
    let weight = node.reshape(&weight, &dims_along(x.rank()?, 1))?;
    node.call("PRelu", &[&x, &weight], [])
}

fn prelu_kernel(node: &mut Node<'_>) -> Outcome {
    let (x, weight) = (node.tensor("self")?, node.tensor("weight")?);
    node.call("PRelu", &[&x, &weight], [])
}

fn elu(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let number = |node: &Node<'_>, name: &str| node.arguments.float(name);
    let (alpha, scale) = (number(node, "alpha")?, number(node, "scale")?);
    let input_scale = number(node, "input_scale")?;
    if input_scale == 1.0 {
        let y = node.call("Elu", &[&x], [float("alpha", single(alpha))])?;
        return if scale == 1.0 { Ok(y) } else { node.times(&y, scale) };
    }
    let scaled = node.times(&x, input_scale)?;
    let exp = node.call("Exp", &[&scaled], [])?;
    let below = node.plus(&exp, -1.0)?;
    let below = node.times(&below, alpha * scale)?;
    let above = node.times(&x, scale)?;
    let zero = node.number(x.dtype(), 0.0)?;
    let is_above = node.call("Greater", &[&x, &zero], [])?;
    node.choose(&is_above, &above, &below)
}

fn selu(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    node.call("Selu", &[&x], [])
}

fn celu(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let alpha = node.arguments.float("alpha")?;
    node.call("Celu", &[&x], [float("alpha", single(alpha))])
}

/// `log(1 + exp(beta * x)) / beta`, and x above the threshold.
fn softplus(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let (beta, threshold) = (node.arguments.float("beta")?, node.arguments.float("threshold")?);
    let scaled = if beta == 1.0 { x.clone() } else { node.times(&x, beta)? };
    let soft = node.call("Softplus", &[&scaled], [])?;
    let soft = if beta == 1.0 { soft } else { node.times(&soft, 1.0 / beta)? };
    let limit = node.number(x.dtype(), threshold)?;
    let above = node.call("Greater", &[&scaled, &limit], [])?;
    node.choose(&above, &x, &soft)
}

/// `min(0, x) - log(1 + exp(-|x|))`.
fn log_sigmoid(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let minus = node.call("Neg", &[&x], [])?;
    let soft = node.call("Softplus", &[&minus], [])?;
    node.call("Neg", &[&soft], [])
}

/// The first half multiplied by the sigmoid of the second.
fn glu(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let [left, right] =
        node.emit_all("Split", &[Some(&x)], [int("axis", axis), int("num_outputs", 2)])?;
    let gate = node.call("Sigmoid", &[&right], [])?;
    node.mul(&left, &gate)
}

/// A scalar counts as a vector of one element.
pub(super) fn softmax_of(node: &mut Node<'_>, kind: &str, x: &Value, dim: i64) -> Outcome {
    if rank(x)? == 0 {
        let vector = node.reshape(x, &[1])?;
        let y = node.call(kind, &[&vector], [int("axis", 0)])?;
        return node.reshape(&y, &[]);
    }
    let axis = axis_of(x, dim)?;
    node.call(kind, &[x], [int("axis", axis)])
}

fn softmax(node: &mut Node<'_>, kind: &str) -> Outcome {
    let x = node.tensor("self")?;
    let dim = node.arguments.int("dim")?;
    let to = match node.arguments.has("half_to_float") && node.arguments.flag("half_to_float")? {
        true => Some(DType::Float32),
        false if node.name().starts_with('_') => None,
        false => node.arguments.dtype("dtype")?,
    };
    let to = match to {
        Some(to) => to,
        None if category(x.dtype())? == Category::Float => x.dtype(),
        None => DType::Float32,
    };
    let x = node.cast(&x, to)?;
    softmax_of(node, kind, &x, dim)
}

/// A softmax in which slices of negative infinity alone become 0.
fn safe_softmax(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let dim = node.arguments.int("dim")?;
    node.arguments.ignore(&["dtype"]);
    let y = softmax_of(node, "Softmax", &x, dim)?;
    let is_nan = node.call("IsNaN", &[&y], [])?;
    let zero = node.number(y.dtype(), 0.0)?;
    node.choose(&is_nan, &zero, &y)
}

fn hardshrink(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let limit = node.arguments.float("lambd")?;
    node.call("Shrink", &[&x], [float("lambd", single(limit)), float("bias", 0.0)])
}

fn softshrink(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let limit = single(node.arguments.float("lambd")?);
    node.call("Shrink", &[&x], [float("lambd", limit), float("bias", limit)])
}

fn threshold(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let limit =
        node.scalar("threshold", x.dtype())?.ok_or("the argument `threshold` is missing")?;
    let value = node.scalar("value", x.dtype())?.ok_or("the argument `value` is missing")?;
    let above = node.call("Greater", &[&x, &limit], [])?;
    node.choose(&above, &x, &value)
}

fn dropout(node: &mut Node<'_>) -> Outcome {
    let name = if node.arguments.has("input") { "input" } else { "self" };
    let x = node.tensor(name)?;
    let probability = node.arguments.float("p")?;
    match node.arguments.flag("train")? && probability != 0.0 {
        true => Err("it draws random numbers in training".into()),
        false => Ok(x),
    }
}

fn native_dropout(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("input")?;
    let probability = node.arguments.float("p")?;
    let trains = matches!(node.arguments.number("train")?, Some(Number::Bool(true)) | None);
    if trains && probability != 0.0 {
        return Err("it draws random numbers in training".into());
    }
    let mask = node.constant_like(&x, DType::Bool, 1.0)?;
    Ok(vec![x, mask])
}

/// A number that stands for negative infinity in masks of a type.
pub(super) fn lowest(dtype: DType) -> f64 {
    if dtype == DType::Float16 { -largest(dtype) } else { f64::NEG_INFINITY }
}

//! Activations and softmax.

use lodstone_model::DType;

use super::normalize::single;
use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, axis_of, rank};
use crate::onnx::{Value, float, int, text};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Activation", Rule::One(activation)),
    ("LeakyReLU", Rule::Many(leaky_relu)),
    ("hard_sigmoid", Rule::One(hard_sigmoid)),
    ("log_sigmoid", Rule::One(log_sigmoid)),
    ("log_softmax", Rule::One(|node| softmax(node, Form::Logarithm))),
    ("mish", Rule::One(|node| node.unary("Mish"))),
    ("softmax", Rule::One(|node| softmax(node, Form::Plain))),
    ("softmin", Rule::One(|node| softmax(node, Form::Negated))),
];

/// The forms of softmax.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Plain,
    Negated,
    Logarithm,
}

/// Lower than any number of a network.
const MASKED: f64 = f64::NEG_INFINITY;

impl Node<'_> {
    /// Applies an ONNX operator to the only input.
    pub(super) fn unary(&mut self, kind: &str) -> Outcome {
        let [x] = self.exactly()?;
        self.call(kind, &[&x], [])
    }

    /// Applies an ONNX operator of floats to the only input. Integers are converted, and so is their result.
    pub(super) fn unary_float(&mut self, kind: &str) -> Outcome {
        let [x] = self.exactly()?;
        self.as_floats(&x, |node, x| node.call(kind, &[x], []))
    }

    /// Applies a function of floats. Integers are converted, and so is their result.
    pub(super) fn as_floats(
        &mut self,
        x: &Value,
        function: impl FnOnce(&mut Self, &Value) -> Outcome,
    ) -> Outcome {
        if x.dtype().is_float() {
            return function(self, x);
        }
        let floats = self.cast(x, DType::Float32)?;
        let y = function(self, &floats)?;
        self.cast(&y, x.dtype())
    }
}

/// Applies an activation by its name in MXNet.
pub(super) fn activate(node: &mut Node<'_>, x: &Value, kind: &str) -> Outcome {
    match kind {
        "relu" => node.call("Relu", &[x], []),
        "sigmoid" => node.call("Sigmoid", &[x], []),
        "tanh" => node.call("Tanh", &[x], []),
        "softrelu" => node.call("Softplus", &[x], []),
        "softsign" => node.call("Softsign", &[x], []),
        "log_sigmoid" => log_sigmoid_of(node, x),
        "mish" => node.call("Mish", &[x], []),
        _ => Err(wrong("act_type", "an activation", kind)),
    }
}

fn activation(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let kind = node.attributes.find("act_type")?.ok_or("the attribute `act_type` is missing")?;
    activate(node, &x, kind)
}

fn log_sigmoid(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    log_sigmoid_of(node, &x)
}

fn log_sigmoid_of(node: &mut Node<'_>, x: &Value) -> Outcome {
    let negative = node.call("Neg", &[x], [])?;
    let y = node.call("Softplus", &[&negative], [])?;
    node.call("Neg", &[&y], [])
}

fn hard_sigmoid(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let alpha = single(node.attributes.float("alpha", 0.2)?);
    let beta = single(node.attributes.float("beta", 0.5)?);
    node.call("HardSigmoid", &[&x], [float("alpha", alpha), float("beta", beta)])
}

/// The slope is fixed, learned (`prelu`), or in inference the mean of the random ones (`rrelu`).
fn leaky_relu(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.input(0)?;
    let kinds = ["leaky", "prelu", "elu", "selu", "gelu", "rrelu"];
    let kind = node.attributes.word("act_type", &kinds, "leaky")?;
    let slope = node.attributes.float("slope", 0.25)?;
    let lower = node.attributes.float("lower_bound", 0.125)?;
    let upper = node.attributes.float("upper_bound", 0.334)?;
    if kind != "prelu" {
        node.at_most(1)?;
    }
    let y = match kind {
        "leaky" => node.call("LeakyRelu", &[&x], [float("alpha", single(slope))]),
        "rrelu" => {
            let slope = (single(lower) + single(upper)) / 2.0;
            node.call("LeakyRelu", &[&x], [float("alpha", slope)])
        }
        "elu" => node.call("Elu", &[&x], [float("alpha", single(slope))]),
        "selu" => node.call("Selu", &[&x], []),
        "gelu" => node.call("Gelu", &[&x], [text("approximate", "none")]),
        _ => {
            let gamma = node.input(1)?;
            node.at_most(2)?;
            let rank = rank(&x)?;
            let slope =
                if gamma.rank()? == 1 { node.along(&gamma, 1.min(rank - 1), rank)? } else { gamma };
            node.call("PRelu", &[&x, &slope], [])
        }
    }?;
    // In inference, no slope is random.
    let mask = node.constant_like(&x, x.dtype(), 0.0)?;
    Ok(vec![y, mask])
}

/// A softmax along an axis, optionally over the first elements only, in which case the others are 0.
fn softmax(node: &mut Node<'_>, form: Form) -> Outcome {
    let x = node.input(0)?;
    let attributes = &node.attributes;
    let axis = axis_of(&x, attributes.int("axis", -1)?)?;
    let temperature = attributes.float_or_none("temperature")?;
    let dtype = attributes.dtype("dtype")?;
    let uses_length = attributes.flag("use_length", false)?;
    node.at_most(if uses_length { 2 } else { 1 })?;
    let mut x = if form == Form::Negated { node.call("Neg", &[&x], [])? } else { x };
    if let Some(dtype) = dtype {
        x = node.cast(&x, dtype)?;
    }
    if let Some(temperature) = temperature {
        if temperature == 0.0 {
            return Err(wrong("temperature", "a number other than 0", "0"));
        }
        let temperature = node.number(x.dtype(), temperature)?;
        x = node.div(&x, &temperature)?;
    }
    let kind = if form == Form::Logarithm { "LogSoftmax" } else { "Softmax" };
    if !uses_length {
        return node.call(kind, &[&x], [int("axis", axis)]);
    }
    let lengths = node.input(1)?;
    let is_within = within(node, &x, &lengths, axis)?;
    let lowest = node.number(x.dtype(), MASKED)?;
    let masked = node.choose(&is_within, &x, &lowest)?;
    let y = node.call(kind, &[&masked], [int("axis", axis)])?;
    let zero = node.number(x.dtype(), 0.0)?;
    node.choose(&is_within, &y, &zero)
}

/// Returns which elements along an axis are among the first ones; `lengths` has the other dims.
fn within(node: &mut Node<'_>, x: &Value, lengths: &Value, axis: i64) -> Outcome {
    let count = node.extent(x, axis)?;
    let places = node.counting(&count, DType::Int64)?;
    let places = node.along(&places, axis, rank(x)?)?;
    let lengths = node.cast(lengths, DType::Int64)?;
    let lengths = node.unsqueeze(&lengths, &[axis])?;
    node.call("Less", &[&places, &lengths], [])
}

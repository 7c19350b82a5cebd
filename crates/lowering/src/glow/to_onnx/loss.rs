//! Losses.

use lodstone_model::DType;

use super::node::{Node, Outcome, Rule};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BinaryCrossEntropyWithLogits", |n| binary(n, Some(2), Some(3))),
    ("CrossEntropyLoss", cross_entropy),
    ("PosWeightBinaryCrossEntropyWithLogits", |n| binary(n, None, Some(2))),
    ("Regression", regression),
    ("SigmoidCrossEntropyWithLogits", sigmoid_cross_entropy),
    ("SimpleBinaryCrossEntropyWithLogits", |n| binary(n, None, None)),
    ("WeightBinaryCrossEntropyWithLogits", |n| binary(n, Some(2), None)),
];

/// The sum of `-log` of the probability of each label.
fn cross_entropy(n: &mut Node<'_>) -> Outcome {
    let [rows, _] = n.ranked::<2>(0)?;
    let (probabilities, labels) = (n.real(0)?, n.raw(1)?);
    let labels = n.cast(&labels, DType::Int64)?;
    let labels = n.reshape(&labels, &[rows, 1])?;
    let found = n.call("GatherElements", &[&probabilities, &labels], [int("axis", 1)])?;
    let found = n.call("Log", &[&found], [])?;
    let sum = n.reduce("ReduceSum", &found, &[0, 1], false)?;
    let loss = n.call("Neg", &[&sum], [])?;
    let dims = n.out(0)?.shape;
    let loss = n.reshape(&loss, &dims)?;
    n.put(0, &loss)
}

/// Passes the input through; the expected values are only used by the gradient.
fn regression(n: &mut Node<'_>) -> Outcome {
    let value = n.raw(0)?;
    n.put_raw(0, &value)
}

/// `log(1 + exp(-|x|))`, without overflow.
fn soft_part(n: &mut Node<'_>, value: &Value) -> Outcome<Value> {
    let size = n.call("Abs", &[value], [])?;
    let size = n.call("Neg", &[&size], [])?;
    n.call("Softplus", &[&size], [])
}

/// The mean over the last dim of `max(x, 0) - x t + log(1 + exp(-|x|))`.
fn sigmoid_cross_entropy(n: &mut Node<'_>) -> Outcome {
    let (value, target) = (n.real(0)?, n.real(1)?);
    let soft = soft_part(n, &value)?;
    let above = n.call("Relu", &[&value], [])?;
    let hit = n.mul(&value, &target)?;
    let loss = n.sub(&above, &hit)?;
    let loss = n.add(&loss, &soft)?;
    let loss = n.reduce("ReduceMean", &loss, &[-1], false)?;
    n.put(0, &loss)
}

/// `w ((1 - t) x + (1 + (p - 1) t) (log(1 + exp(-|x|)) + max(-x, 0)))`: for each element, or its mean, or
/// its sum.
fn binary(n: &mut Node<'_>, weight: Option<usize>, positive: Option<usize>) -> Outcome {
    let (value, target) = (n.real(0)?, n.real(1)?);
    let one = n.number(value.dtype(), 1.0)?;
    let soft = soft_part(n, &value)?;
    let below = n.call("Neg", &[&value], [])?;
    let below = n.call("Relu", &[&below], [])?;
    let mut missed = n.add(&soft, &below)?;
    if let Some(positive) = positive {
        let positive = n.real(positive)?;
        let more = n.sub(&positive, &one)?;
        let more = n.mul(&more, &target)?;
        let more = n.add(&more, &one)?;
        missed = n.mul(&missed, &more)?;
    }
    let other = n.sub(&one, &target)?;
    let other = n.mul(&other, &value)?;
    let mut loss = n.add(&other, &missed)?;
    if let Some(weight) = weight {
        let weight = n.real(weight)?;
        loss = n.mul(&loss, &weight)?;
    }
    let axes: Vec<i64> = loss.rank()?.numbers().collect();
    let loss = match n.int("Reduction")? {
        0 => loss,
        1 => n.reduce("ReduceMean", &loss, &axes, false)?,
        2 => n.reduce("ReduceSum", &loss, &axes, false)?,
        other => return Err(format!("expected 0 to 2 as `Reduction`, found {other}").into()),
    };
    let dims = n.out(0)?.shape;
    let loss = n.reshape(&loss, &dims)?;
    n.put(0, &loss)
}

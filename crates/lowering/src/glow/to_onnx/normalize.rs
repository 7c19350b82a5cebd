//! Normalization and softmax.

use lodstone_schema::numbers::length;

use super::node::{Node, Outcome, Rule, no_equivalent};
use crate::onnx::{Value, float, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BatchBoxCox", box_cox),
    ("BatchNormalization", |n| by_channel(n, "BatchNormalization", 5)),
    ("InstanceNormalization", |n| by_channel(n, "InstanceNormalization", 3)),
    ("LayerNormalization", layer),
    ("LocalResponseNormalization", local_response),
    ("LogSoftMax", |n| probabilities(n, "LogSoftmax")),
    ("MeanVarNormalization", running),
    ("SoftMax", |n| probabilities(n, "Softmax")),
];

/// Returns the permutation that moves the channel after the batch, and its inverse.
fn around(n: &Node<'_>) -> Outcome<(Vec<i64>, Vec<i64>)> {
    let (axis, rank) = (n.axis("ChannelIdx", 0)?, n.dims(0)?.len());
    if axis == 0 {
        return no_equivalent("its channel is the first dim");
    }
    let others = (1..).take(rank.saturating_sub(1)).filter(|other| *other != axis);
    let order: Vec<i64> = [0, axis].into_iter().chain(others).collect();
    let back = (0..).take(rank);
    let back = back.filter_map(|axis| order.iter().position(|from| *from == axis));
    let back = back.map(length).collect();
    Ok((order, back))
}

fn by_channel(n: &mut Node<'_>, kind: &str, inputs: usize) -> Outcome {
    let dtype = n.computed(0)?;
    let (order, back) = around(n)?;
    let epsilon = n.float("Epsilon")?;
    let mut values = Vec::new();
    for index in 0..inputs {
        values.push(n.real_as(index, dtype)?);
    }
    if let Some(first) = values.first_mut() {
        *first = n.transpose(first, &order)?;
    }
    let values: Vec<&Value> = values.iter().collect();
    let value = n.call(kind, &values, [float("epsilon", epsilon)])?;
    let value = n.transpose(&value, &back)?;
    n.put(0, &value)
}

/// Normalizes over the last dims, those that the scale has.
fn layer(n: &mut Node<'_>) -> Outcome {
    let dtype = n.computed(0)?;
    let epsilon = n.float("Epsilon")?;
    let axis = -length(n.dims(1)?.len());
    let (value, scale) = (n.real_as(0, dtype)?, n.real_as(1, dtype)?);
    let bias = n.real_as(2, dtype)?;
    let attributes = [int("axis", axis), float("epsilon", epsilon)];
    let value = n.call("LayerNormalization", &[&value, &scale, &bias], attributes)?;
    n.put(0, &value)
}

fn local_response(n: &mut Node<'_>) -> Outcome {
    let value = n.real(0)?;
    n.ranked::<4>(0)?;
    let half = n.int("HalfWindowSize")?;
    let size = half.checked_mul(2).and_then(|size| size.checked_add(1));
    let size = size.ok_or("the window is too large")?;
    let attributes = [
        int("size", size),
        float("alpha", n.float("Alpha")?),
        float("beta", n.float("Beta")?),
        float("bias", n.float("K")?),
    ];
    let value = n.channels_to_front(&value)?;
    let value = n.call("LRN", &[&value], attributes)?;
    let value = n.channels_to_back(&value)?;
    n.put(0, &value)
}

/// Over the rows of a matrix. The selected classes are only used by the gradient.
fn probabilities(n: &mut Node<'_>, kind: &str) -> Outcome {
    if n.dims(0)?.len() != 2 {
        return no_equivalent("it is only defined for the rows of a matrix");
    }
    let value = n.real(0)?;
    let value = n.call(kind, &[&value], [int("axis", 1)])?;
    n.put(0, &value)
}

/// The mean and the variance of each channel, mixed into the previous ones.
fn running(n: &mut Node<'_>) -> Outcome {
    let value = n.real(0)?;
    let (axis, momentum) = (n.axis("ChannelIdx", 0)?, f64::from(n.float("Momentum")?));
    let rank = n.dims(0)?.len();
    let others: Vec<i64> = (0..).take(rank).filter(|other| *other != axis).collect();
    let mean = n.reduce("ReduceMean", &value, &others, true)?;
    let from_mean = n.sub(&value, &mean)?;
    let squares = n.mul(&from_mean, &from_mean)?;
    let variance = n.reduce("ReduceMean", &squares, &others, false)?;
    let mean = n.reduce("ReduceMean", &value, &others, false)?;
    for (result, now) in [(0, mean), (1, variance)] {
        let before = n.real(result + 1)?;
        let now = n.times(&now, momentum)?;
        let before = n.times(&before, 1.0 - momentum)?;
        let mixed = n.add(&now, &before)?;
        n.put(result, &mixed)?;
    }
    Ok(())
}

/// `log(max(x + b, 1e-6))` where `a` is zero, else `(max(x + b, 1e-6) ^ a - 1) / (a + epsilon)`.
fn box_cox(n: &mut Node<'_>) -> Outcome {
    let dtype = n.computed(0)?;
    let epsilon = f64::from(n.float("Epsilon")?);
    let (value, power) = (n.real_as(0, dtype)?, n.real_as(1, dtype)?);
    let shift = n.real_as(2, dtype)?;
    let least = n.number(dtype, 1e-6)?;
    let zero = n.number(dtype, 0.0)?;
    let value = n.add(&value, &shift)?;
    let value = n.call("Max", &[&value, &least], [])?;
    let logarithm = n.call("Log", &[&value], [])?;
    let powered = n.call("Pow", &[&value, &power], [])?;
    let powered = n.plus(&powered, -1.0)?;
    let divisor = n.plus(&power, epsilon)?;
    let powered = n.div(&powered, &divisor)?;
    let is_zero = n.call("Equal", &[&power, &zero], [])?;
    let value = n.choose(&is_zero, &logarithm, &powered)?;
    n.put(0, &value)
}

//! Gradient nodes, as far as ONNX's operators can express them.
//!
//! A gradient node has the inputs of its forward node, then the forward results, each with its gradient, and a result
//! for each forward input; unused results are omitted.

use lodstone_model::DType;

use super::node::{Node, Outcome, Rule, no_equivalent};
use crate::onnx::{Size, Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("AddGrad", |n| pair(n, |_, grad| Ok([grad.clone(), grad.clone()]))),
    ("BatchNormalizationGrad", batch_normalization),
    ("CrossEntropyLossGrad", cross_entropy),
    ("DivGrad", |n| pair(n, quotient)),
    ("FullyConnectedGrad", fully_connected),
    ("LocalResponseNormalizationGrad", local_response),
    ("LogSoftMaxGrad", |n| probabilities(n, true)),
    ("MulGrad", |n| pair(n, product)),
    ("RegressionGrad", regression),
    ("ReluGrad", relu),
    ("SGD", step),
    ("SigmoidGrad", sigmoid),
    ("SoftMaxGrad", |n| probabilities(n, false)),
    ("SparseLengthsSumGrad", |n| lengths_sum(n, None, 1, 2)),
    ("SparseLengthsWeightedSumGrad", |n| lengths_sum(n, Some(1), 2, 3)),
    ("SubGrad", |n| pair(n, |n, grad| Ok([grad.clone(), n.graph.times(grad, -1.0)?]))),
    ("TanhGrad", tanh),
    ("ThresholdGrad", threshold),
];

/// Returns the gradients of two inputs, given that of the result.
type Pair = fn(&mut Node<'_>, &Value) -> Outcome<[Value; 2]>;

fn pair(n: &mut Node<'_>, gradients: Pair) -> Outcome {
    let grad = n.real(3)?;
    let [left, right] = gradients(n, &grad)?;
    n.put(0, &left)?;
    n.put(1, &right)
}

fn product(n: &mut Node<'_>, grad: &Value) -> Outcome<[Value; 2]> {
    let (left, right) = (n.real(0)?, n.real(1)?);
    Ok([n.mul(&right, grad)?, n.mul(&left, grad)?])
}

fn quotient(n: &mut Node<'_>, grad: &Value) -> Outcome<[Value; 2]> {
    let (left, right) = (n.real(0)?, n.real(1)?);
    let of_left = n.div(grad, &right)?;
    let scaled = n.mul(grad, &left)?;
    let scaled = n.call("Neg", &[&scaled], [])?;
    let square = n.mul(&right, &right)?;
    Ok([of_left, n.div(&scaled, &square)?])
}

/// Writes a gradient of zero.
fn nothing(n: &mut Node<'_>, result: usize) -> Outcome {
    if !n.is_read(result) {
        return Ok(());
    }
    let ty = n.out(result)?;
    let dtype = if ty.kind.is_quantized() { DType::Float32 } else { ty.kind.dtype() };
    let zeros = n.filled(dtype, 0.0, &ty.shape)?;
    n.put(result, &zeros)
}

fn relu(n: &mut Node<'_>) -> Outcome {
    let (output, grad) = (n.real(1)?, n.real(2)?);
    passed(n, &output, 0.0, &grad)
}

fn threshold(n: &mut Node<'_>) -> Outcome {
    let limit = f64::from(n.float("Threshold")?);
    let (grad, input) = (n.real(0)?, n.real(1)?);
    passed(n, &input, limit, &grad)
}

/// Passes the gradient where a value is above a limit.
fn passed(n: &mut Node<'_>, value: &Value, limit: f64, grad: &Value) -> Outcome {
    let limit = n.number(value.dtype(), limit)?;
    let zero = n.number(grad.dtype(), 0.0)?;
    let below = n.call("LessOrEqual", &[value, &limit], [])?;
    let grad = n.choose(&below, &zero, grad)?;
    n.put(0, &grad)
}

fn tanh(n: &mut Node<'_>) -> Outcome {
    let (output, grad) = (n.real(1)?, n.real(2)?);
    let square = n.mul(&output, &output)?;
    let one = n.number(output.dtype(), 1.0)?;
    let slope = n.sub(&one, &square)?;
    let grad = n.mul(&slope, &grad)?;
    n.put(0, &grad)
}

fn sigmoid(n: &mut Node<'_>) -> Outcome {
    let (output, grad) = (n.real(1)?, n.real(2)?);
    let one = n.number(output.dtype(), 1.0)?;
    let other = n.sub(&one, &output)?;
    let slope = n.mul(&other, &output)?;
    let grad = n.mul(&slope, &grad)?;
    n.put(0, &grad)
}

/// The probabilities minus 1 at the selected class: the gradient of the loss is assumed.
fn probabilities(n: &mut Node<'_>, logarithms: bool) -> Outcome {
    let [rows, columns] = n.ranked::<2>(0)?;
    let (selected, mut output) = (n.raw(1)?, n.real(2)?);
    if logarithms {
        output = n.call("Exp", &[&output], [])?;
    }
    let selected = n.cast(&selected, DType::Int64)?;
    let selected = n.reshape(&selected, &[rows, 1])?;
    let column = n.range(columns)?;
    let column = n.reshape(&column, &[1, columns])?;
    let right = n.call("Equal", &[&selected, &column], [])?;
    let right = n.cast(&right, output.dtype())?;
    let grad = n.sub(&output, &right)?;
    n.put(0, &grad)?;
    nothing(n, 1)
}

/// `-1 / p` at the labels, whatever the gradient of the loss.
fn cross_entropy(n: &mut Node<'_>) -> Outcome {
    let [rows, columns] = n.ranked::<2>(0)?;
    let (output, labels) = (n.real(0)?, n.raw(1)?);
    let labels = n.cast(&labels, DType::Int64)?;
    let labels = n.reshape(&labels, &[rows, 1])?;
    let column = n.range(columns)?;
    let column = n.reshape(&column, &[1, columns])?;
    let right = n.call("Equal", &[&labels, &column], [])?;
    let (zero, minus) = (n.number(output.dtype(), 0.0)?, n.number(output.dtype(), -1.0)?);
    let slope = n.div(&minus, &output)?;
    let grad = n.choose(&right, &slope, &zero)?;
    n.put(0, &grad)?;
    nothing(n, 1)
}

fn regression(n: &mut Node<'_>) -> Outcome {
    let (input, expected) = (n.real(0)?, n.real(1)?);
    let grad = n.sub(&input, &expected)?;
    n.put(0, &grad)?;
    nothing(n, 1)
}

fn fully_connected(n: &mut Node<'_>) -> Outcome {
    let (input, weights, grad) = (n.real(0)?, n.real(1)?, n.real(4)?);
    let of_input = n.call("Gemm", &[&grad, &weights], [int("transB", 1)])?;
    n.put(0, &of_input)?;
    let of_weights = n.call("Gemm", &[&input, &grad], [int("transA", 1)])?;
    n.put(1, &of_weights)?;
    let of_bias = n.reduce("ReduceSum", &grad, &[0], false)?;
    n.put(2, &of_bias)
}

/// With element `h`, mean `m` and variance `v` of its channel of `N` elements:
/// `g / (N sqrt(v + e)) (N dy - sum(dy) - (h - m) / (v + e) sum(dy (h - m)))`.
fn batch_normalization(n: &mut Node<'_>) -> Outcome {
    let (axis, epsilon) = (n.axis("ChannelIdx", 0)?, f64::from(n.float("Epsilon")?));
    let dims = n.dims(0)?;
    let others: Vec<i64> = (0..).take(dims.len()).filter(|other| *other != axis).collect();
    let aligned: Vec<i64> =
        (0..).zip(dims).map(|(at, dim)| if at == axis { *dim } else { 1 }).collect();
    let (input, grad) = (n.real(0)?, n.real(6)?);
    let mut of_channel = |index: usize| -> Outcome<Value> {
        let value = n.real(index)?;
        n.reshape(&value, &aligned)
    };
    let (scale, mean, variance) = (of_channel(1)?, of_channel(3)?, of_channel(4)?);
    let from_mean = n.sub(&input, &mean)?;
    let weighted = n.mul(&grad, &from_mean)?;
    let weighted = n.reduce("ReduceSum", &weighted, &others, true)?;
    let sum = n.reduce("ReduceSum", &grad, &others, true)?;
    let variance = n.plus(&variance, epsilon)?;
    let deviation = n.call("Sqrt", &[&variance], [])?;
    // Means instead of sums over N, so that the bracket is already divided by N.
    let mean_grad = n.reduce("ReduceMean", &grad, &others, true)?;
    let mean_weighted = n.mul(&grad, &from_mean)?;
    let mean_weighted = n.reduce("ReduceMean", &mean_weighted, &others, true)?;
    let spread = n.div(&mean_weighted, &variance)?;
    let spread = n.mul(&from_mean, &spread)?;
    let inside = n.sub(&grad, &mean_grad)?;
    let inside = n.sub(&inside, &spread)?;
    let coefficient = n.div(&scale, &deviation)?;
    let of_input = n.mul(&coefficient, &inside)?;
    n.put(0, &of_input)?;
    let of_scale = n.div(&weighted, &deviation)?;
    let dims = n.out(1)?.shape;
    let of_scale = n.reshape(&of_scale, &dims)?;
    n.put(1, &of_scale)?;
    let dims = n.out(2)?.shape;
    let of_bias = n.reshape(&sum, &dims)?;
    n.put(2, &of_bias)?;
    nothing(n, 3)?;
    nothing(n, 4)
}

/// `dy s^-b - 2 a b x sum(dy y / s)`, summed over a window of channels; `s` is the forward divisor.
fn local_response(n: &mut Node<'_>) -> Outcome {
    let half = n.int("HalfWindowSize")?;
    let size = half.checked_mul(2).and_then(|size| size.checked_add(1));
    let size = size.ok_or("the window is too large")?;
    let (beta, bias) = (f64::from(n.float("Beta")?), f64::from(n.float("K")?));
    let alpha = f64::from(n.float("Alpha")?);
    let [batch, height, width, channels] = n.ranked::<4>(0)?;
    let rows = batch.checked_mul(height).and_then(|rows| rows.checked_mul(width));
    let rows = rows.ok_or("the image is too large")?;
    let (input, output, grad) = (n.real(0)?, n.real(1)?, n.real(2)?);
    // The mean over the window, padded with zeros, is the sum divided by its size.
    let mean = |n: &mut Node<'_>, value: &Value| -> Outcome<Value> {
        let value = n.reshape(value, &[rows, 1, channels])?;
        let attributes = [
            crate::onnx::ints("kernel_shape", &[size]),
            crate::onnx::ints("pads", &[half, half]),
            int("count_include_pad", 1),
        ];
        let value = n.call("AveragePool", &[&value], attributes)?;
        n.reshape(&value, &[batch, height, width, channels])
    };
    let squares = n.mul(&input, &input)?;
    let scale = mean(n, &squares)?;
    let scale = n.times(&scale, alpha)?;
    let scale = n.plus(&scale, bias)?;
    let around = n.mul(&grad, &output)?;
    let around = n.div(&around, &scale)?;
    let around = mean(n, &around)?;
    let around = n.mul(&around, &input)?;
    let around = n.times(&around, 2.0 * alpha * beta)?;
    let power = n.number(scale.dtype(), -beta)?;
    let factor = n.call("Pow", &[&scale, &power], [])?;
    let direct = n.mul(&grad, &factor)?;
    let value = n.sub(&direct, &around)?;
    n.put(0, &value)
}

/// The gradient of a row is that of its group times the row's weight; the gradient of the weight is the dot product of
/// the group's gradient and the row.
fn lengths_sum(
    n: &mut Node<'_>,
    weights: Option<usize>,
    indices: usize,
    lengths: usize,
) -> Outcome {
    let [many] = n.ranked::<1>(indices)?;
    let (data, grad) = (n.real(0)?, n.real(lengths + 2)?);
    let (numbers, given) = (n.raw(indices)?, n.raw(lengths)?);
    let segments = n.segments_of(&given, &Size::Known(many))?;
    let numbers = segments.numbers(n, &numbers)?;
    let of_rows = segments.spread(n, &grad)?;
    let inside = segments.is_inside(n)?;
    let inside = n.along_rows(&inside, &of_rows)?;
    let zero = n.number(of_rows.dtype(), 0.0)?;
    let of_rows = n.choose(&inside, &of_rows, &zero)?;
    let mut added = of_rows.clone();
    if let Some(weights) = weights {
        let weights = n.real(weights)?;
        let weights = n.along_rows(&weights, &of_rows)?;
        added = n.mul(&of_rows, &weights)?;
    }
    let dims = added.dims()?;
    let places = n.along_rows(&numbers, &of_rows)?;
    let places = n.expand(&places, &dims)?;
    let shape = data.dims()?;
    let zeros = n.filled(data.dtype(), 0.0, &shape)?;
    let of_data = n.put_elements(&zeros, &places, &added, 0, "add")?;
    n.put(0, &of_data)?;
    if let Some(weights) = weights {
        let rows = n.gather(&data, &numbers, 0)?;
        let products = n.mul(&of_rows, &rows)?;
        let axes: Vec<i64> = (1..).take(dims.len().saturating_sub(1)).collect();
        let of_weights = match axes.is_empty() {
            true => products,
            false => n.reduce("ReduceSum", &products, &axes, false)?,
        };
        n.put(weights, &of_weights)?;
    }
    nothing(n, indices)?;
    nothing(n, lengths)
}

/// One step of gradient descent, without momentum.
fn step(n: &mut Node<'_>) -> Outcome {
    if n.float("Momentum")? > 0.0 {
        return no_equivalent("a momentum that is kept between runs is not supported");
    }
    let (first, second) = (f64::from(n.float("L1Decay")?), f64::from(n.float("L2Decay")?));
    let (rate, batch) = (f64::from(n.float("LearningRate")?), n.int("BatchSize")?);
    let (mut grad, weight) = (n.real(0)?, n.real(1)?);
    if first != 0.0 {
        let zero = n.number(weight.dtype(), 0.0)?;
        let (up, down) = (n.number(weight.dtype(), first)?, n.number(weight.dtype(), -first)?);
        let is_up = n.call("LessOrEqual", &[&zero, &weight], [])?;
        let decay = n.choose(&is_up, &up, &down)?;
        grad = n.add(&grad, &decay)?;
    }
    if second != 0.0 {
        let decay = n.times(&weight, second)?;
        grad = n.add(&grad, &decay)?;
    }
    if batch > 1 {
        let batch = n.long(batch);
        let batch = n.cast(&batch, grad.dtype())?;
        grad = n.div(&grad, &batch)?;
    }
    let step = n.times(&grad, -rate)?;
    let weight = n.add(&weight, &step)?;
    n.put(0, &weight)
}

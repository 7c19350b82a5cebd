//! Matrix products.

use lodstone_model::DType;
use lodstone_schema::glow::Type;
use lodstone_schema::numbers::length;

use super::node::{Node, Outcome, Rule};
use crate::glow::elements::{floats_of, ints_of};
use crate::onnx::quantization::{Bounds, Rounding, Scale};
use crate::onnx::recurrence::Cell;
use crate::onnx::{Value, float, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BatchMatMul", product),
    ("BatchedPairwiseDotProduct", pairwise),
    ("DynamicQuantizedFullyConnected", dynamic),
    ("DynamicRowwiseQuantizedFullyConnected", dynamic_rowwise),
    ("FullyConnected", fully_connected),
    ("Gemm", gemm),
    ("LSTMUnit", lstm_unit),
    ("MatMul", product),
    ("RowwiseQuantizedFullyConnected", rowwise),
];

fn product(n: &mut Node<'_>) -> Outcome {
    let dtype = n.computed(0)?;
    let (left, right) = (n.real_as(0, dtype)?, n.real_as(1, dtype)?);
    let value = n.call("MatMul", &[&left, &right], [])?;
    n.put(0, &value)
}

fn gemm(n: &mut Node<'_>) -> Outcome {
    let dtype = n.computed(0)?;
    let attributes = [
        float("alpha", n.float("Alpha")?),
        float("beta", n.float("Beta")?),
        int("transA", n.int("TransposeA")?),
        int("transB", n.int("TransposeB")?),
    ];
    let mut values = vec![n.real_as(0, dtype)?, n.real_as(1, dtype)?];
    if n.inputs.len() > 2 {
        let added = n.added(2, Some([0, 1]))?;
        values.push(n.cast(&added, dtype)?);
    }
    let value = n.call("Gemm", &values.iter().collect::<Vec<_>>(), attributes)?;
    n.put(0, &value)
}

/// `[rows, in]` times `[in, out]` plus `[out]`.
fn fully_connected(n: &mut Node<'_>) -> Outcome {
    // Operands of different precisions are computed in the higher one.
    let dtype = n.computed(0)?;
    let given = [n.real(0)?, n.real(1)?, n.added(2, Some([0, 1]))?];
    let dtype =
        if given.iter().all(|value| value.dtype() == dtype) { dtype } else { DType::Float32 };
    let [input, weights, bias] = given;
    let (input, weights) = (n.cast(&input, dtype)?, n.cast(&weights, dtype)?);
    let bias = n.cast(&bias, dtype)?;
    let value = n.call("Gemm", &[&input, &weights, &bias], [])?;
    n.put(0, &value)
}

/// Dequantizes by row, with `DequantizeLinear` if zero points can hold the known offsets.
pub(super) fn dequantized_by_row(
    n: &mut Node<'_>,
    value: &Value,
    scales: &Value,
    offsets: &Value,
) -> Outcome<Value> {
    let known = n.constant(offsets).and_then(ints_of);
    n.dequantized_rows_by(value, scales, (offsets, known))
}

/// Dequantizes a 32-bit bias with a scale for each element, with `DequantizeLinear` if that scale is the product of the
/// other scales, as runtimes assume.
pub(super) fn dequantized_bias(
    n: &mut Node<'_>,
    [bias, scales, offsets]: [&Value; 3],
    input: &Type,
    of_filter: &Value,
) -> Outcome<Value> {
    let known = |value: &Value| n.constant(value).and_then(floats_of);
    let products = known(of_filter)
        .zip(input.quantization)
        .map(|(scales, (scale, _))| scales.iter().map(|each| each * scale).collect::<Vec<_>>());
    let is_product = products.is_some() && products == known(scales);
    let is_zero = |all: Vec<i32>| all.iter().all(|offset| *offset == 0);
    let fits = is_product && n.constant(offsets).and_then(ints_of).is_some_and(is_zero);
    match fits && bias.dtype() == DType::Int32 {
        true => Ok(n.call("DequantizeLinear", &[bias, scales], [int("axis", 0)])?),
        false => n.dequantized_rows(bias, scales, offsets),
    }
}

/// `[rows, in]` times the rows of `[out, in]`, each of which has a scale and an offset.
fn rowwise(n: &mut Node<'_>) -> Outcome {
    let input = n.real(0)?;
    let (weights, scales, offsets) = (n.raw(1)?, n.raw(2)?, n.raw(3)?);
    let weights = dequantized_by_row(n, &weights, &scales, &offsets)?;
    let bias = n.added(4, None)?;
    let value = n.call("Gemm", &[&input, &weights, &bias], [int("transB", 1)])?;
    n.put(0, &value)
}

/// Applies the effect of quantizing the input at run time: one scale for the tensor or for each row, from its extrema.
fn dynamically(n: &mut Node<'_>, input: &Value) -> Outcome<Value> {
    let (symmetric, by_row) = (n.flag("IsSymmetric")?, n.flag("IsPerBatchElement")?);
    let axes: &[i64] = if by_row { &[1] } else { &[0, 1] };
    let [mut least, mut most] = n.range_with_zero(input, axes, true)?;
    if symmetric {
        let other = n.call("Neg", &[&least], [])?;
        most = n.call("Max", &[&most, &other], [])?;
        least = n.call("Neg", &[&most], [])?;
    }
    let range = n.sub(&most, &least)?;
    // If quantization is symmetric, -128 is not used.
    let steps = n.number(DType::Float32, if symmetric { 254.0 } else { 255.0 })?;
    let scale = n.div(&range, &steps)?;
    let scale = n.unless_zero(&scale, 0.1)?;
    let offset = if symmetric {
        n.number(DType::Float32, 0.0)?
    } else {
        let start = n.div(&least, &scale)?;
        let start = n.call("Round", &[&start], [])?;
        let first = n.number(DType::Float32, -128.0)?;
        n.sub(&first, &start)?
    };
    let (by, rounding) = (Scale::DivideBy(&scale), Rounding::EvenAfterZero);
    let steps = n.steps_of(input, by, Some(&offset), rounding)?;
    let steps = n.bounded(&steps, Bounds::of(DType::Int8)?, DType::Float32)?;
    n.numbers_of(&steps, Some(&offset), Scale::MultiplyBy(&scale))
}

fn dynamic(n: &mut Node<'_>) -> Outcome {
    let input = n.real_as(0, DType::Float32)?;
    let input = dynamically(n, &input)?;
    let (weights, bias) = (n.real_as(1, DType::Float32)?, n.real_as(2, DType::Float32)?);
    let value = n.call("Gemm", &[&input, &weights, &bias], [])?;
    n.put(0, &value)
}

fn dynamic_rowwise(n: &mut Node<'_>) -> Outcome {
    let input = n.real_as(0, DType::Float32)?;
    let input = dynamically(n, &input)?;
    let (weights, scales, offsets) = (n.raw(1)?, n.raw(3)?, n.raw(4)?);
    let weights = dequantized_by_row(n, &weights, &scales, &offsets)?;
    let bias = n.real_as(2, DType::Float32)?;
    let value = n.call("Gemm", &[&input, &weights, &bias], [int("transB", 1)])?;
    n.put(0, &value)
}

/// The dot product of each vector with each one before it.
fn pairwise(n: &mut Node<'_>) -> Outcome {
    let count = n.inputs.len();
    let dtype = n.computed(0)?;
    let mut stacked = Vec::new();
    for index in 0..count {
        let vector = n.real_as(index, dtype)?;
        stacked.push(n.unsqueeze(&vector, &[1])?);
    }
    let [batch, _] = n.ranked::<2>(0)?;
    let vectors = n.concat(&stacked.iter().collect::<Vec<_>>(), 1)?;
    let other = n.transpose(&vectors, &[0, 2, 1])?;
    let products = n.call("MatMul", &[&vectors, &other], [])?;
    let many = length(count);
    let pairs = many.checked_mul(many).ok_or("there are too many vectors")?;
    let products = n.reshape(&products, &[batch, pairs])?;
    // The elements below the diagonal, row by row.
    let ones = n.filled(DType::Int64, 1.0, &[many, many])?;
    let diagonal = n.long(-1);
    let below = n.call("Trilu", &[&ones, &diagonal], [int("upper", 0)])?;
    let below = n.cast(&below, DType::Bool)?;
    let below = n.reshape(&below, &[pairs])?;
    let value = n.call("Compress", &[&products, &below], [int("axis", 1)])?;
    n.put(0, &value)
}

/// Applies the gates `[batch, 4 * hidden]` of a cell.
fn lstm_unit(n: &mut Node<'_>) -> Outcome {
    let (gates, cell) = (n.real(0)?, n.real(1)?);
    let gates = n.split_gates(&Cell::LSTM, &gates)?;
    let [hidden, cell] = n.lstm_step(gates, &cell)?;
    n.put(0, &cell)?;
    n.put(1, &hidden)
}

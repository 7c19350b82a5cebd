//! Products of matrices.

use lodstone_model::DType;

use super::node::{Blob, Node, Outcome, Rule, expect_dim, rank};
use crate::onnx::quantization::{Bounds, Rounding, Scale};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BatchMatMul", Rule::One(|node| product(node, false))),
    ("FC", Rule::One(|node| connected(node, false))),
    ("FCTransposed", Rule::One(|node| connected(node, true))),
    ("FbFCPacked", Rule::One(packed)),
    ("FbGemmPack", Rule::One(pack)),
    ("Int8FC", Rule::Quantized(quantized)),
    ("MatMul", Rule::One(|node| product(node, true))),
];

/// Returns dims as a matrix: those before an axis, and those from it on.
fn flattened(node: &mut Node<'_>, x: &Value, axis: i64) -> Outcome {
    match rank(x)? == 2 && axis == 1 {
        true => Ok(x.clone()),
        false => node.call("Flatten", &[x], [int("axis", axis)]),
    }
}

/// Multiplies the dims of `x` from `axis` on by a weight, and adds a bias: the dims before it, and one of the outputs.
fn dense(node: &mut Node<'_>, x: &Value, weight: &Value, bias: &Value, turned: bool) -> Outcome {
    let axis = node.axis_or_end("axis", 1, x.rank()?)?;
    let weight_axis = node.axis_or_end("axis_w", 1, weight.rank()?)?;
    let weight = flattened(node, weight, weight_axis)?;
    let (inner, depth) = if turned { (0, 1) } else { (1, 0) };
    let matrix = flattened(node, x, axis)?;
    if let (Some(found), Some(expected)) = (matrix.size(1)?, weight.size(inner)?)
        && found != expected
    {
        return Err(format!("a weight of {expected} inputs does not match {found} inputs").into());
    }
    if let Some(depth) = weight.size(depth)? {
        expect_dim(bias, 0, depth, "a bias")?;
    }
    let y = node.call("Gemm", &[&matrix, &weight, bias], [int("transB", i64::from(!turned))])?;
    if axis == 1 {
        return Ok(y);
    }
    let mut sizes = (0..axis).map(|axis| node.size_of(x, axis)).collect::<Outcome<Vec<_>>>()?;
    sizes.push(node.size_of(&y, 1)?);
    node.reshape_to(&y, &sizes)
}

fn connected(node: &mut Node<'_>, turned: bool) -> Outcome {
    let [x, weight, bias] = node.exactly()?;
    for value in [&x, &weight, &bias] {
        if value.dtype() != DType::Float32 {
            return Err(format!("expected floats, found {}", value.dtype()).into());
        }
    }
    dense(node, &x, &weight, &bias, turned)
}

/// Rounds a weight to half precision, as FBGEMM does when it packs one.
fn pack(node: &mut Node<'_>) -> Outcome {
    let weight = node.input(0)?;
    node.cast(&weight, DType::Float16)
}

/// Computes in half precision.
fn packed(node: &mut Node<'_>) -> Outcome {
    let [x, weight, bias] = node.exactly()?;
    if weight.dtype() != DType::Float16 {
        return Err(format!("expected a weight of float16, found {}", weight.dtype()).into());
    }
    let (x, bias) = (node.cast(&x, DType::Float16)?, node.cast(&bias, DType::Float16)?);
    let y = dense(node, &x, &weight, &bias, false)?;
    node.cast(&y, DType::Float32)
}

/// Multiplies the numbers of integers. With `dequantize_output`, the operand is a matrix of floats, which is quantized as it
/// is read.
fn quantized(node: &mut Node<'_>) -> Outcome<Blob> {
    if node.count() != 3 {
        return Err(format!("expected 3 inputs, found {}", node.count()).into());
    }
    let is_dynamic = node.int("dequantize_output", 0)? == 1;
    let weight = node.real(1)?;
    let bias = node.raw(2)?;
    if is_dynamic {
        let (given, bias) = (node.input(0)?, node.real(2)?);
        let x = node.cast(&given, DType::Float32)?;
        let weight = node.cast(&weight, DType::Float32)?;
        let bias = node.cast(&bias, DType::Float32)?;
        let x = symmetric_rows(node, &x)?;
        let y = dense(node, &x, &weight, &bias, false)?;
        return Ok(node.cast(&y, given.dtype())?.into());
    }
    let (outer, inner) = (node.grid_of(0)?, node.grid_of(1)?);
    let x = node.real(0)?;
    let bias = node.bias(bias, outer.scale * inner.scale)?;
    let y = dense(node, &x, &weight, &bias, false)?;
    node.on_grid(&y)
}

/// Rounds each row of a matrix to 8-bit integers whose range is that of its largest magnitude, and returns their numbers.
fn symmetric_rows(node: &mut Node<'_>, x: &Value) -> Outcome {
    let largest = node.magnitude(x, &[1], true)?;
    let scale = node.times(&largest, 1.0 / 127.0)?;
    let scale = node.unless_zero(&scale, 0.1)?;
    let steps = node.steps_of(x, Scale::DivideBy(&scale), None, Rounding::Even)?;
    let steps = node.bounded(&steps, Bounds::of(DType::Int8)?, DType::Float32)?;
    node.numbers_of(&steps, None, Scale::MultiplyBy(&scale))
}

/// Multiplies matrices, or stacks of matrices, and transposes those that the arguments name.
fn product(node: &mut Node<'_>, is_single: bool) -> Outcome {
    let mut operands: [Value; 2] = node.exactly()?;
    for (value, name) in operands.iter_mut().zip(["trans_a", "trans_b"]) {
        let rank = rank(value)?;
        if rank < 2 || is_single && rank != 2 {
            return Err(format!("expected matrices, found rank {rank}").into());
        }
        if node.int(name, 0)? == 1 {
            *value = node.turned(value)?;
        }
    }
    let [left, right] = &operands;
    node.call("MatMul", &[left, right], [])
}

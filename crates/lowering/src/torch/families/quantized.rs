//! Quantization.
//!
//! A quantized tensor is its integers; the operators of `quantized_decomposed` and `fake_quantize` convert between these
//! and floats. Operators on `QTensor` values of TorchScript are lowered with the parameters of their tensors, which
//! programs of `torch.export` do not have.

use lodstone_model::DType;

use crate::onnx::Value;
use crate::torch::arguments::wrong;
use crate::torch::node::{Node, Outcome, Rule, axis_of, dims_along, rank, rank_of};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::fake_quantize_per_channel_affine", Rule::One(fake_per_channel)),
    ("aten::fake_quantize_per_channel_affine_cachemask", Rule::Many(with_mask)),
    ("aten::fake_quantize_per_tensor_affine", Rule::One(fake_per_tensor)),
    ("aten::fake_quantize_per_tensor_affine_cachemask", Rule::Many(with_mask)),
    ("quantized_decomposed::choose_qparams", Rule::Many(choose_parameters)),
    ("quantized_decomposed::dequantize_per_channel", Rule::One(dequantize)),
    ("quantized_decomposed::dequantize_per_tensor", Rule::One(dequantize)),
    ("quantized_decomposed::quantize_per_channel", Rule::One(quantize)),
    ("quantized_decomposed::quantize_per_tensor", Rule::One(quantize)),
];

/// Scale and zero point: numbers, tensors without dims, or vectors along an axis.
struct Scale {
    scale: Value,
    zero_point: Value,
}

fn scale_of(node: &mut Node<'_>, x: &Value, names: [&str; 2]) -> Outcome<Scale> {
    let [scale, zero_point] = names;
    let scale = node.tensor(scale)?;
    let mut scale = node.cast(&scale, DType::Float32)?;
    let mut zero_point = match node.arguments.has(zero_point) {
        true => {
            let value = node.tensor(zero_point)?;
            node.cast(&value, DType::Float32)?
        }
        false => node.number(DType::Float32, 0.0)?,
    };
    if node.arguments.has("axis") {
        let axis = axis_of(x, node.arguments.int("axis")?)?;
        let dims = dims_along(rank_of(x)?, axis);
        scale = node.reshape(&scale, &dims)?;
        zero_point = node.reshape(&zero_point, &dims)?;
    } else if rank(&scale)? == 1 {
        scale = node.reshape(&scale, &[])?;
        zero_point = node.reshape(&zero_point, &[])?;
    }
    Ok(Scale { scale, zero_point })
}

fn bounds(node: &Node<'_>) -> Outcome<(f64, f64)> {
    let (least, most) = (node.arguments.float("quant_min")?, node.arguments.float("quant_max")?);
    match least <= most {
        true => Ok((least, most)),
        false => Err(wrong("quant_min", &format!("at most {most}"), &least.to_string())),
    }
}

/// Returns the integers as floats: `clamp(round(x / scale) + zero_point)`, with the inverse of the scale as PyTorch has
/// it.
fn integers(node: &mut Node<'_>, x: &Value, scale: &Scale, bounds: (f64, f64)) -> Outcome {
    let shifted = unbounded(node, x, scale)?;
    node.clamp(&shifted, bounds.0, bounds.1)
}

fn unbounded(node: &mut Node<'_>, x: &Value, scale: &Scale) -> Outcome {
    let inverse = node.call("Reciprocal", &[&scale.scale], [])?;
    let scaled = node.mul(x, &inverse)?;
    let rounded = node.call("Round", &[&scaled], [])?;
    node.add(&rounded, &scale.zero_point)
}

fn reals(node: &mut Node<'_>, integers: &Value, scale: &Scale) -> Outcome {
    let shifted = node.sub(integers, &scale.zero_point)?;
    node.mul(&shifted, &scale.scale)
}

fn names(node: &Node<'_>) -> [&'static str; 2] {
    if node.arguments.has("scales") { ["scales", "zero_points"] } else { ["scale", "zero_point"] }
}

/// Whether the scale is a known number and the range is that of the type: `QuantizeLinear` then does the same.
fn is_plain(node: &Node<'_>, dtype: DType, bounds: (f64, f64)) -> bool {
    let whole = match dtype {
        DType::Int8 => (-128.0, 127.0),
        DType::Uint8 => (0.0, 255.0),
        _ => return false,
    };
    bounds == whole && !node.arguments.has("axis") && node.arguments.number("scale").is_ok()
}

fn quantize(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("input")?;
    let dtype = node.arguments.dtype("dtype")?.ok_or("the argument `dtype` is missing")?;
    let bounds = bounds(node)?;
    let names = names(node);
    let scale = scale_of(node, &x, names)?;
    let x = node.cast(&x, DType::Float32)?;
    if is_plain(node, dtype, bounds) {
        let zero_point = node.cast(&scale.zero_point, dtype)?;
        return node.call("QuantizeLinear", &[&x, &scale.scale, &zero_point], []);
    }
    let integers = integers(node, &x, &scale, bounds)?;
    node.cast(&integers, dtype)
}

fn dequantize(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("input")?;
    let names = names(node);
    let scale = scale_of(node, &x, names)?;
    let to = match node.arguments.has("out_dtype") {
        true => node.arguments.dtype("out_dtype")?.unwrap_or(DType::Float32),
        false => DType::Float32,
    };
    node.arguments.ignore(&["quant_min", "quant_max", "dtype"]);
    if matches!(x.dtype(), DType::Int8 | DType::Uint8) && rank(&scale.scale)? == 0 {
        let zero_point = node.cast(&scale.zero_point, x.dtype())?;
        let y = node.call("DequantizeLinear", &[&x, &scale.scale, &zero_point], [])?;
        return node.cast(&y, to);
    }
    let integers = node.cast(&x, DType::Float32)?;
    let y = reals(node, &integers, &scale)?;
    node.cast(&y, to)
}

/// Returns a scale and zero point that map the range of a tensor to integers.
fn choose_parameters(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("input")?;
    let (least, most) = bounds(node)?;
    let eps = node.arguments.float("eps")?;
    node.arguments.ignore(&["dtype"]);
    let axes: Vec<i64> = (0..rank(&x)?).collect();
    let zero = node.number(DType::Float32, 0.0)?;
    let low = node.reduce("ReduceMin", &x, &axes, false)?;
    let low = node.call("Min", &[&low, &zero], [])?;
    let high = node.reduce("ReduceMax", &x, &axes, false)?;
    let high = node.call("Max", &[&high, &zero], [])?;
    let range = node.sub(&high, &low)?;
    let steps = node.number(DType::Float32, most - least)?;
    let scale = node.div(&range, &steps)?;
    let eps = node.number(DType::Float32, eps)?;
    let scale = node.call("Max", &[&scale, &eps], [])?;
    let shift = node.div(&low, &scale)?;
    let shift = node.call("Round", &[&shift], [])?;
    let least_value = node.number(DType::Float32, least)?;
    let zero_point = node.sub(&least_value, &shift)?;
    let zero_point = node.clamp(&zero_point, least, most)?;
    let scale = node.reshape(&scale, &[1])?;
    let zero_point = node.reshape(&zero_point, &[1])?;
    Ok(vec![node.cast(&scale, DType::Float64)?, node.cast(&zero_point, DType::Int64)?])
}

fn fake(node: &mut Node<'_>, x: &Value) -> Outcome {
    let bounds = bounds(node)?;
    let scale = scale_of(node, x, ["scale", "zero_point"])?;
    let numbers = node.cast(x, DType::Float32)?;
    let integers = integers(node, &numbers, &scale, bounds)?;
    let y = reals(node, &integers, &scale)?;
    node.cast(&y, x.dtype())
}

/// Quantizes and dequantizes; the second result is true where the integer was not clamped.
fn with_mask(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let y = fake(node, &x)?;
    let (least, most) = bounds(node)?;
    let scale = scale_of(node, &x, ["scale", "zero_point"])?;
    let numbers = node.cast(&x, DType::Float32)?;
    let integers = unbounded(node, &numbers, &scale)?;
    let least = node.number(DType::Float32, least)?;
    let most = node.number(DType::Float32, most)?;
    let above = node.call("GreaterOrEqual", &[&integers, &least], [])?;
    let below = node.call("LessOrEqual", &[&integers, &most], [])?;
    Ok(vec![y, node.call("And", &[&above, &below], [])?])
}

fn fake_per_tensor(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    fake(node, &x)
}

fn fake_per_channel(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    fake(node, &x)
}

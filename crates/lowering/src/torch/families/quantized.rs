//! Quantization.
//!
//! A quantized tensor is its integers; the operators of `quantized_decomposed` and `fake_quantize` convert between these
//! and floats. Operators on `QTensor` values of TorchScript are lowered with the parameters of their tensors, which
//! programs of `torch.export` do not have.

use lodstone_model::DType;

use crate::onnx::Value;
use crate::onnx::quantization::{Bounds, Rounding, Scale};
use crate::torch::node::{Node, Outcome, Rule, axis_of, dims_along, rank};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::fake_quantize_per_channel_affine", Rule::One(without_mask)),
    ("aten::fake_quantize_per_channel_affine_cachemask", Rule::Many(with_mask)),
    ("aten::fake_quantize_per_tensor_affine", Rule::One(without_mask)),
    ("aten::fake_quantize_per_tensor_affine_cachemask", Rule::Many(with_mask)),
    ("quantized_decomposed::choose_qparams", Rule::Many(choose_parameters)),
    ("quantized_decomposed::dequantize_per_channel", Rule::One(dequantize)),
    ("quantized_decomposed::dequantize_per_tensor", Rule::One(dequantize)),
    ("quantized_decomposed::quantize_per_channel", Rule::One(quantize)),
    ("quantized_decomposed::quantize_per_tensor", Rule::One(quantize)),
];

/// Scale and zero point: numbers, tensors without dims, or vectors along an axis.
struct Steps {
    scale: Value,
    zero_point: Value,
    rounding: Rounding,
}

impl Steps {
    fn of(node: &mut Node<'_>, x: &Value, [scale, zero_point]: [&str; 2]) -> Outcome<Self> {
        let scale = node.tensor(scale)?;
        let mut scale = node.cast(&scale, DType::Float32)?;
        let mut rounding = Rounding::Even;
        let mut zero_point = match node.arguments.has(zero_point) {
            true => {
                let value = node.tensor(zero_point)?;
                if value.dtype().is_float() {
                    rounding = Rounding::EvenAfterZero;
                }
                node.cast(&value, DType::Float32)?
            }
            false => node.number(DType::Float32, 0.0)?,
        };
        if node.arguments.has("axis") {
            let axis = axis_of(x, node.arguments.int("axis")?)?;
            let dims = dims_along(x.rank()?, axis);
            scale = node.reshape(&scale, &dims)?;
            zero_point = node.reshape(&zero_point, &dims)?;
        } else if rank(&scale)? == 1 {
            scale = node.reshape(&scale, &[])?;
            zero_point = node.reshape(&zero_point, &[])?;
        }
        Ok(Self { scale, zero_point, rounding })
    }

    /// Returns the steps of numbers. PyTorch multiplies by the inverse of the scale, in single precision.
    fn steps(&self, node: &mut Node<'_>, x: &Value) -> Outcome {
        let inverse = node.call("Reciprocal", &[&self.scale], [])?;
        self.steps_by(node, x, &inverse)
    }

    fn steps_by(&self, node: &mut Node<'_>, x: &Value, inverse: &Value) -> Outcome {
        node.steps_of(x, Scale::MultiplyBy(inverse), Some(&self.zero_point), self.rounding)
    }

    fn numbers(&self, node: &mut Node<'_>, steps: &Value) -> Outcome {
        node.numbers_of(steps, Some(&self.zero_point), Scale::MultiplyBy(&self.scale))
    }
}

fn bounds(node: &Node<'_>) -> Outcome<Bounds> {
    Bounds::new(node.arguments.float("quant_min")?, node.arguments.float("quant_max")?)
}

fn names(node: &Node<'_>) -> [&'static str; 2] {
    if node.arguments.has("scales") { ["scales", "zero_points"] } else { ["scale", "zero_point"] }
}

/// Whether the scale is a known number and the range is that of the type: `QuantizeLinear` then does the same.
fn is_plain(node: &Node<'_>, dtype: DType, bounds: Bounds) -> bool {
    matches!(dtype, DType::Int8 | DType::Uint8)
        && Bounds::of(dtype).is_ok_and(|all| all == bounds)
        && !node.arguments.has("axis")
        && node.arguments.number("scale").is_ok()
}

fn quantize(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("input")?;
    let dtype = node.arguments.dtype("dtype")?.ok_or("the argument `dtype` is missing")?;
    let bounds = bounds(node)?.within(dtype)?;
    let names = names(node);
    let by = Steps::of(node, &x, names)?;
    let x = node.cast(&x, DType::Float32)?;
    if is_plain(node, dtype, bounds) {
        let zero_point = node.cast(&by.zero_point, dtype)?;
        return node.call("QuantizeLinear", &[&x, &by.scale, &zero_point], []);
    }
    let steps = match node.arguments.number("scale") {
        // The inverse of a number has double precision before it is rounded.
        Ok(Some(scale)) => {
            let inverse = node.number(DType::Float32, 1.0 / scale.float())?;
            by.steps_by(node, &x, &inverse)?
        }
        _ => by.steps(node, &x)?,
    };
    node.bounded(&steps, bounds, dtype)
}

fn dequantize(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("input")?;
    let names = names(node);
    let by = Steps::of(node, &x, names)?;
    let to = match node.arguments.has("out_dtype") {
        true => node.arguments.dtype("out_dtype")?.unwrap_or(DType::Float32),
        false => DType::Float32,
    };
    node.arguments.ignore(&["quant_min", "quant_max", "dtype"]);
    if matches!(x.dtype(), DType::Int8 | DType::Uint8) && rank(&by.scale)? == 0 {
        let zero_point = node.cast(&by.zero_point, x.dtype())?;
        let y = node.call("DequantizeLinear", &[&x, &by.scale, &zero_point], [])?;
        return node.cast(&y, to);
    }
    let steps = node.cast(&x, DType::Float32)?;
    let y = by.numbers(node, &steps)?;
    node.cast(&y, to)
}

/// Returns a scale and zero point that map the range of a tensor to integers.
fn choose_parameters(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("input")?;
    let Bounds { least, greatest } = bounds(node)?;
    let eps = node.arguments.float("eps")?;
    node.arguments.ignore(&["dtype"]);
    let axes: Vec<i64> = (0..rank(&x)?).collect();
    let x = node.cast(&x, DType::Float32)?;
    let [low, high] = node.range_with_zero(&x, &axes, false)?;
    let range = node.sub(&high, &low)?;
    let steps = node.number(DType::Float32, greatest - least)?;
    let scale = node.div(&range, &steps)?;
    let eps = node.number(DType::Float32, eps)?;
    let scale = node.call("Max", &[&scale, &eps], [])?;
    let shift = node.steps_of(&low, Scale::DivideBy(&scale), None, Rounding::Even)?;
    let least_value = node.number(DType::Float32, least)?;
    let zero_point = node.sub(&least_value, &shift)?;
    let zero_point = node.clamp(&zero_point, least, greatest)?;
    let scale = node.reshape(&scale, &[1])?;
    let zero_point = node.reshape(&zero_point, &[1])?;
    Ok(vec![node.cast(&scale, DType::Float64)?, node.cast(&zero_point, DType::Int64)?])
}

/// Quantizes and dequantizes; the second result is the steps before they are clipped.
fn fake(node: &mut Node<'_>, bounds: Bounds) -> Outcome<[Value; 2]> {
    let x = node.tensor("self")?;
    let by = Steps::of(node, &x, ["scale", "zero_point"])?;
    let numbers = node.cast(&x, DType::Float32)?;
    let steps = by.steps(node, &numbers)?;
    let clipped = node.bounded(&steps, bounds, DType::Float32)?;
    let y = by.numbers(node, &clipped)?;
    Ok([node.cast(&y, x.dtype())?, steps])
}

/// Quantizes and dequantizes; the second result is true where the integer was not clamped.
fn with_mask(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let bounds = bounds(node)?;
    let [y, steps] = fake(node, bounds)?;
    let least = node.number(DType::Float32, bounds.least)?;
    let greatest = node.number(DType::Float32, bounds.greatest)?;
    let above = node.call("GreaterOrEqual", &[&steps, &least], [])?;
    let below = node.call("LessOrEqual", &[&steps, &greatest], [])?;
    Ok(vec![y, node.call("And", &[&above, &below], [])?])
}

fn without_mask(node: &mut Node<'_>) -> Outcome {
    let bounds = bounds(node)?;
    let [y, _] = fake(node, bounds)?;
    Ok(y)
}

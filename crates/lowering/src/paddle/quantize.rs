//! Quantization by the maximum absolute value, the *scale*: it becomes the greatest integer of so many bits.
//!
//! PaddlePaddle keeps quantized numbers as floats. `round_type` 0 rounds halves to even and keeps the lowest integer,
//! 1 rounds them away from 0 and clips to the scale, symmetrically. An exported program has ONNX's quantization, which
//! is that of `round_type` 0: halves, which results of floats rarely are, become even.
//!
//! An exported program passes integers of 8 bits from one operator to the next without the floats of PaddlePaddle.

use lodstone_model::{DType, Kind, Recipe, Tensor};
use lodstone_store::Blob;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::quantization::{Bounds, LEAST_MAGNITUDE, Rounding, Scale};
use crate::onnx::{Value, int, recipes};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("dequantize_linear", dequantize_linear),
    ("fake_channel_wise_dequantize_max_abs", dequantize_channels),
    ("fake_channel_wise_quantize_abs_max", |op| own_scales(op, false)),
    ("fake_channel_wise_quantize_dequantize_abs_max", |op| own_scales(op, true)),
    ("fake_dequantize_max_abs", dequantize),
    ("fake_quantize_abs_max", |op| own_scale(op, false)),
    ("fake_quantize_dequantize_abs_max", |op| own_scale(op, true)),
    ("fake_quantize_dequantize_moving_average_abs_max", |op| moving_scale(op, true)),
    ("fake_quantize_moving_average_abs_max", |op| moving_scale(op, false)),
    ("fake_quantize_range_abs_max", largest_scale),
    ("moving_average_abs_max_scale", observe),
    ("quantize_linear", quantize_linear),
];

/// How a tensor is quantized.
struct Quantization {
    /// The scales, in single or double precision: of shape [1], or of one dim if there is an axis.
    scale: Value,
    /// The axis along which scales differ.
    axis: Option<i64>,
    bounds: Bounds,
    /// Whether halves are rounded away from 0.
    is_away: bool,
    /// Whether no number is below the negative scale.
    is_within: bool,
}

impl Quantization {
    /// Returns the quantization by the bits and the rounding of the attributes.
    fn of(op: &Operator<'_>, scale: Value, axis: Option<i64>) -> Outcome<Self> {
        let away = match op.attribute("round_type") {
            Some(_) => op.int("round_type")?,
            None => 1,
        };
        if !(0..=1).contains(&away) {
            return Err(format!("expected 0 or 1 as `round_type`, found {away}").into());
        }
        let bounds = Bounds::of_bits(op.int("bit_length")?)?;
        Ok(Self { scale, axis, bounds, is_away: away == 1, is_within: false })
    }

    /// Returns the scale, broadcast along the axis of a value.
    fn spread(&self, op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
        spread(op, &self.scale, self.axis, x)
    }

    /// Whether ONNX's operators represent it.
    fn is_standard(&self, op: &Operator<'_>) -> bool {
        op.is_exported() && Bounds::of(DType::Int8).is_ok_and(|bytes| bytes == self.bounds)
    }

    /// Applies ONNX's `QuantizeLinear` or `DequantizeLinear`.
    fn standard(&self, op: &mut Operator<'_>, kind: &str, x: &Value) -> Outcome<Value> {
        let step = op.step_of(&self.scale, self.bounds.greatest, self.axis.is_some())?;
        op.linear(kind, x, &step, self.axis)
    }

    /// Returns ONNX's quantized tensor. Its least integer has no opposite, which `round_type` 1 excludes.
    fn integers(&self, op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
        if !self.is_away || self.is_within || op.is_positive(x) {
            return self.standard(op, "QuantizeLinear", x);
        }
        let scale = self.spread(op, x)?;
        let below = op.call("Neg", &[&scale], [])?;
        let x = op.call("Max", &[x, &below], [])?;
        self.standard(op, "QuantizeLinear", &x)
    }

    /// Clips to the scale.
    fn clipped(&self, op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
        let scale = self.spread(op, x)?;
        let below = op.call("Neg", &[&scale], [])?;
        let high = op.call("Min", &[x, &scale], [])?;
        op.call("Max", &[&high, &below], [])
    }

    /// Returns the integers, as floats.
    fn quantized(&self, op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
        if self.is_standard(op) {
            let y = self.integers(op, x)?;
            return op.widen(&y, x.dtype());
        }
        let scale = self.spread(op, x)?;
        let one = op.number(x.dtype(), 1.0)?;
        let least = op.number(x.dtype(), LEAST_MAGNITUDE)?;
        let is_small = op.call("LessOrEqual", &[&scale, &least], [])?;
        let moved = op.plus(&scale, 1e-6)?;
        let divisor = op.choose(&is_small, &moved, &scale)?;
        let inverse = op.div(&one, &divisor)?;
        let factor = op.times(&inverse, self.bounds.greatest)?;
        let factor = Scale::MultiplyBy(&factor);
        if self.is_away {
            let x = self.clipped(op, x)?;
            return op.steps_of(&x, factor, None, Rounding::Away);
        }
        let steps = op.steps_of(x, factor, None, Rounding::Even)?;
        op.bounded(&steps, self.bounds, x.dtype())
    }

    /// Returns the numbers that integers, stored in any type, stand for.
    fn restored(&self, op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
        let x = op.cast(x, self.scale.dtype())?;
        let scale = self.spread(op, &x)?;
        op.fractions(&x, &[&scale], self.bounds.greatest)
    }

    /// Returns the numbers nearest to those of a tensor that can be quantized exactly.
    fn both(&self, op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
        if self.is_standard(op) {
            let y = self.integers(op, x)?;
            return self.standard(op, "DequantizeLinear", &y);
        }
        let y = self.quantized(op, x)?;
        self.restored(op, &y)
    }
}

/// Returns the 8-bit integers in the variable of an input slot, if it is known to hold such, in any type.
fn integers(op: &mut Operator<'_>, slot: &str, x: &Value) -> Outcome<Option<Value>> {
    if x.dtype() == DType::Int8 {
        return Ok(Some(x.clone()));
    }
    let narrow = op.narrow(x).filter(|narrow| narrow.dtype() == DType::Int8);
    match op.parameter(slot) {
        Some(parameter) if narrow.is_none() && holds_integers(parameter) => {
            op.cast(x, DType::Int8).map(Some)
        }
        _ => Ok(narrow),
    }
}

/// Whether all elements of a tensor are 8-bit integers.
pub(super) fn holds_integers(tensor: &Tensor) -> bool {
    let is_one = |number: f64| number.fract() == 0.0 && (-128.0..=127.0).contains(&number);
    let Ok(bytes) = tensor.data.bytes() else { return false };
    match (&tensor.kind, tensor.dtype) {
        (Kind::Dense, DType::Float32) => {
            bytes.as_chunks().0.iter().all(|it| is_one(f32::from_le_bytes(*it).into()))
        }
        (Kind::Dense, DType::Float64) => {
            bytes.as_chunks().0.iter().all(|it| is_one(f64::from_le_bytes(*it)))
        }
        _ => false,
    }
}

/// Broadcasts scales along an axis of a value.
fn spread(op: &mut Operator<'_>, scale: &Value, axis: Option<i64>, x: &Value) -> Outcome<Value> {
    let Some(axis) = axis else { return op.reshape(scale, &[]) };
    let axis = op.place(axis, x)?;
    let (scale, rank) = (op.reshape(scale, &[-1])?, x.rank()?.number());
    op.along(&scale, axis, rank)
}

/// Returns the maximum absolute value of all elements, of shape [1].
fn magnitude(op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
    let list = op.reshape(x, &[-1])?;
    op.magnitude(&list, &[0], true)
}

/// Returns the maximum absolute values of the elements of a parameter: one for each index of an axis, or for all
/// elements.
fn magnitudes(tensor: &Tensor, axis: Option<usize>) -> Option<Tensor> {
    let size = |dims: &[u64]| {
        let size = dims.iter().try_fold(1_u64, |size, dim| size.checked_mul(*dim))?;
        usize::try_from(size).ok().filter(|size| *size > 0)
    };
    let (count, inner) = match axis {
        Some(axis) => (size(&[*tensor.shape.get(axis)?])?, size(tensor.shape.get(axis + 1..)?)?),
        None => (1, size(&tensor.shape)?),
    };
    if !matches!(tensor.kind, Kind::Dense) || tensor.dtype != DType::Float32 {
        return None;
    }
    let mut found = vec![0.0_f32; count];
    let bytes = tensor.data.bytes().ok()?;
    for (number, element) in bytes.as_chunks().0.iter().enumerate() {
        let element = f32::from_le_bytes(*element).abs();
        let greatest = found.get_mut(number / inner % count)?;
        *greatest = if element.is_nan() { return None } else { greatest.max(element) };
    }
    let bytes: Vec<u8> = found.into_iter().flat_map(f32::to_le_bytes).collect();
    let greatest =
        Tensor::dense(DType::Float32, vec![u64::try_from(count).ok()?], Blob::memory(bytes));
    Some(Tensor { recipe: recipe_of_magnitudes(tensor, axis), ..greatest })
}

/// Returns how the maximum absolute values follow from the elements of a parameter.
fn recipe_of_magnitudes(tensor: &Tensor, axis: Option<usize>) -> Recipe {
    let absolute = recipes::step("Abs", &[tensor], Vec::new());
    let list = |values: &[i64]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::dense(DType::Int64, vec![values.len() as u64], Blob::memory(bytes))
    };
    let others = (0_i64..).zip(&tensor.shape).map(|(other, _)| other);
    let own = axis.and_then(|axis| i64::try_from(axis).ok());
    let others: Vec<i64> = others.filter(|other| Some(*other) != own).collect();
    match own {
        Some(_) if others.is_empty() => absolute.recipe,
        Some(_) => {
            recipes::step("ReduceMax", &[&absolute, &list(&others)], vec![int("keepdims", 0)])
                .recipe
        }
        None => {
            let flat = recipes::step("Reshape", &[&absolute, &list(&[-1])], Vec::new());
            recipes::step("ReduceMax", &[&flat, &list(&[0])], vec![int("keepdims", 1)]).recipe
        }
    }
}

fn put_quantized(op: &mut Operator<'_>, by: &Quantization, x: &Value, back: bool) -> Outcome {
    let y = if back { by.both(op, x)? } else { by.quantized(op, x)? };
    op.put("Out", &y)
}

fn own_scale(op: &mut Operator<'_>, back: bool) -> Outcome {
    let x = op.input("X")?;
    let scale = match op.parameter("X").and_then(|tensor| magnitudes(tensor, None)) {
        Some(scale) => op.tensor(scale, "scale"),
        None => magnitude(op, &x)?,
    };
    op.put("OutScale", &scale)?;
    let by = Quantization { is_within: true, ..Quantization::of(op, scale, None)? };
    put_quantized(op, &by, &x, back)
}

fn own_scales(op: &mut Operator<'_>, back: bool) -> Outcome {
    let x = op.input("X")?;
    let axis = match op.attribute("quant_axis") {
        Some(_) => op.int("quant_axis")?,
        None => 0,
    };
    let axis = op.place(axis, &x)?;
    let axes: Vec<i64> = x.rank()?.numbers().filter(|other| *other != axis).collect();
    let known = op.parameter("X").and_then(|x| magnitudes(x, usize::try_from(axis).ok()));
    let scale = match known {
        Some(scale) => op.tensor(scale, "scale"),
        None => op.magnitude(&x, &axes, false)?,
    };
    op.put("OutScale", &scale)?;
    let by = Quantization { is_within: true, ..Quantization::of(op, scale, Some(axis))? };
    put_quantized(op, &by, &x, back)
}

/// Returns the scale that is the moving average of the greatest magnitudes, and sets its state. A test keeps it.
fn average(op: &mut Operator<'_>, x: &Value, scale: Option<Value>) -> Outcome<Option<Value>> {
    if op.flag("is_test")? {
        return Ok(scale);
    }
    let rate = op.float("moving_rate")?;
    let (accumulated, state) = (op.input("InAccum")?, op.input("InState")?);
    let kept = op.times(&state, rate.into())?;
    let state = op.plus(&kept, 1.0)?;
    let kept = op.times(&accumulated, rate.into())?;
    let greatest = magnitude(op, x)?;
    let accumulated = op.add(&kept, &greatest)?;
    let scale = op.div(&accumulated, &state)?;
    op.put("OutState", &state)?;
    op.put("OutAccum", &accumulated)?;
    op.put("OutScale", &scale)?;
    Ok(Some(scale))
}

fn moving_scale(op: &mut Operator<'_>, back: bool) -> Outcome {
    let (x, given) = (op.input("X")?, op.input("InScale")?);
    let scale = average(op, &x, Some(given.clone()))?.unwrap_or(given);
    let by = Quantization::of(op, scale, None)?;
    put_quantized(op, &by, &x, back)
}

/// Only observes the scale.
fn observe(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    average(op, &x, None)?;
    op.put("Out", &x)
}

/// In training, the scale is the greatest of the last ones, which are kept in a window.
fn largest_scale(op: &mut Operator<'_>) -> Outcome {
    if !op.flag("is_test")? {
        return Err("the scales of a window are only supported with `is_test`".into());
    }
    let (x, scale) = (op.input("X")?, op.input("InScale")?);
    let by = Quantization::of(op, scale, None)?;
    put_quantized(op, &by, &x, false)
}

/// `max_range` is the greatest integer.
fn dequantize(op: &mut Operator<'_>) -> Outcome {
    let (x, scale, greatest) = (op.input("X")?, op.input("Scale")?, op.float("max_range")?);
    let scale = op.reshape(&scale, &[])?;
    let x = op.cast(&x, scale.dtype())?;
    let y = op.fractions(&x, &[&scale], greatest.into())?;
    op.put("Out", &y)
}

/// With one list of scales, they are those of the weights; with two, the input is a result: it has the scales of the
/// weights along the dim after the row dims, and the second list is the scale of all activations.
fn dequantize_channels(op: &mut Operator<'_>) -> Outcome {
    let (x, scales, bits) = (op.input("X")?, op.inputs("Scales")?, op.ints("quant_bits")?);
    let axis = |op: &Operator<'_>, name: &str, default: i64| match op.attribute(name) {
        Some(_) => op.int(name),
        None => Ok(default),
    };
    let (weights, axis, all) = match scales.as_slice() {
        [weights] => (weights, axis(op, "quant_axis", 0)?, None),
        [weights, all] => (weights, axis(op, "x_num_col_dims", 1)?, Some(all)),
        other => return Err(format!("expected one or two `Scales`, found {}", other.len()).into()),
    };
    if bits.len() < scales.len() {
        return Err(format!("expected `quant_bits` for each scale, found {bits:?}").into());
    }
    let mut range = 1.0;
    for bits in bits.iter().take(scales.len()) {
        range *= Bounds::of_bits(*bits)?.greatest;
    }
    let x = op.cast(&x, weights.dtype())?;
    let mut magnitudes = vec![spread(op, weights, Some(axis), &x)?];
    if let Some(all) = all {
        magnitudes.push(op.reshape(all, &[])?);
    }
    let y = op.fractions(&x, &magnitudes.iter().collect::<Vec<_>>(), range)?;
    op.put("Out", &y)
}

/// Returns the axis of `quantize_linear`: there is none if it is negative.
fn quantized_axis(op: &Operator<'_>) -> Outcome<Option<i64>> {
    let axis = op.int("quant_axis")?;
    Ok((axis >= 0).then_some(axis))
}

fn quantize_linear(op: &mut Operator<'_>) -> Outcome {
    let (x, given, axis) = (op.input("X")?, op.input("Scale")?, quantized_axis(op)?);
    let scale = match (op.flag("is_test")?, axis) {
        (true, _) => given,
        (false, None) => average(op, &x, Some(given.clone()))?.unwrap_or(given),
        (false, Some(_)) => {
            return Err("scales along an axis are only supported with `is_test`".into());
        }
    };
    if op.flag("only_observer")? {
        return op.put("Y", &x);
    }
    let y = Quantization::of(op, scale, axis)?.quantized(op, &x)?;
    op.put("Y", &y)
}

fn dequantize_linear(op: &mut Operator<'_>) -> Outcome {
    let (x, scale, axis) = (op.input("X")?, op.input("Scale")?, quantized_axis(op)?);
    if op.flag("only_observer")? {
        return op.put("Y", &x);
    }
    let by = Quantization::of(op, scale, axis)?;
    let integers = if by.is_standard(op) { integers(op, "X", &x)? } else { None };
    let y = match integers {
        Some(integers) => by.standard(op, "DequantizeLinear", &integers)?,
        None => by.restored(op, &x)?,
    };
    op.put("Y", &y)
}

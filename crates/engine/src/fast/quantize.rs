//! Quantization of tensors with one scale and one zero point, in one pass.

use lodstone_model::DType;

use super::call::{FastCall, FastKernel, one};
use super::quantized::{
    ByteElements, Inputs, code, limits, needs_general_kernel, shift, sign, wide_code,
};
use super::rows::combined;
use crate::dims::common;
use crate::error::Outcome;
use crate::gemm::part_of;
use crate::layout::{is_channels_last, numbers, ordered, tensor};
use crate::simd::wide;
use crate::tensor::{Dense, Elements, Order, wrapped};
use crate::threads::each_chunk;
use crate::value::Value;

pub(crate) const DEQUANTIZE: FastKernel = FastKernel::new(accepts, dequantize);
pub(crate) const PRODUCT: FastKernel = FastKernel::new(accepts, product);
pub(crate) const QUANTIZE: FastKernel = FastKernel::new(accepts, quantize);
pub(crate) const QUANTIZE_BY_RANGE: FastKernel =
    FastKernel::new(accepts, quantize_by_range).with_outputs(3);
pub(crate) const SUM: FastKernel = FastKernel::new(accepts, sum);

/// The number of elements that one processor handles at a time.
const CHUNK: usize = 1 << 14;

/// Returns the order in which the elements of a tensor are stored, or are to be copied in.
fn order_of(tensor: &Dense) -> Order {
    if is_channels_last(tensor) { Order::ChannelsLast } else { Order::RowMajor }
}

/// Returns whether the first input is a tensor with elements.
fn accepts(inputs: &[Option<&Value>]) -> bool {
    matches!(inputs.first(), Some(Some(Value::Dense(x))) if x.count() > 0)
}

/// Returns the one number of a scalar or of a list; `None` if there are others.
fn single(scale: &Dense) -> Outcome<Option<f32>> {
    match (scale.dims(), &*ordered(scale, Order::RowMajor)?) {
        ([] | [_], [one]) => Ok(Some(*one)),
        _ => Ok(None),
    }
}

/// Returns the codes of numbers, divided by a scale.
fn codes(x: &Dense, scale: f32, zero: f32, (limits, dtype): ([f32; 2], DType)) -> Outcome<Dense> {
    let order = order_of(x);
    let values = ordered(x, order)?;
    let mut out = vec![0_u8; values.len()];
    each_chunk(&mut out, CHUNK, |(): &mut (), number, out| {
        let values = part_of(&values, number * CHUNK, out.len());
        wide!(move {
            out.iter_mut()
                .zip(values)
                .for_each(|(out, value)| *out = code(value / scale, zero, limits));
        });
        Ok(())
    })?;
    wrapped(out.into(), x.dims(), order, dtype)
}

/// Quantizes a tensor, or returns `None` if the kernel must run instead.
fn quantize(call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
    let inputs = Inputs(call.inputs);
    let (Some(x), Some(scale)) = (inputs.dense(0), inputs.dense(1)) else { return Ok(None) };
    let are_single = [x, scale].iter().all(|it| it.dtype() == DType::Float32);
    let dtype = inputs.dense(2).map_or(DType::Uint8, Dense::dtype);
    let Some(limits) = limits(dtype).filter(|_| are_single) else { return Ok(None) };
    let (Some(scale), Some(zero)) = (single(scale)?, inputs.zero(2, dtype)?) else {
        return Ok(None);
    };
    if needs_general_kernel(call.op)? {
        return Ok(None);
    }
    #[expect(clippy::cast_precision_loss, reason = "8 bits")]
    codes(x, scale, zero as f32, (limits, dtype)).map(one)
}

/// Returns the real numbers of quantized ones, or `None` if the kernel must run instead.
fn dequantize(call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
    let inputs = Inputs(call.inputs);
    let (Some(x), Some(scale)) = (inputs.dense(0), inputs.dense(1)) else { return Ok(None) };
    if scale.dtype() != DType::Float32 || needs_general_kernel(call.op)? {
        return Ok(None);
    }
    let order = order_of(x);
    let Some(values) = ByteElements::of(x, order)? else { return Ok(None) };
    let (Some(scale), Some(zero)) = (single(scale)?, inputs.zero(2, x.dtype())?) else {
        return Ok(None);
    };
    let is_signed = x.dtype() == DType::Int8;
    let mut out = call.buffers.take(values.len())?;
    each_chunk(&mut out, CHUNK, |(): &mut (), number, out| {
        let values = part_of(&values, number * CHUNK, out.len());
        #[expect(clippy::cast_precision_loss, reason = "9 bits")]
        let real = move |code: i32| (code - zero) as f32 * scale;
        let pairs = out.iter_mut().zip(values);
        wide!(move match is_signed {
            true => pairs.for_each(|(out, byte)| *out = real(byte.cast_signed().into())),
            false => pairs.for_each(|(out, byte)| *out = real((*byte).into())),
        });
        Ok(())
    })?;
    tensor(out, x.dims(), order).map(one)
}

/// Quantizes a tensor by its range, or returns `None` if the kernel must run instead.
fn quantize_by_range(call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
    let Some(x) = Inputs(call.inputs).dense(0) else { return Ok(None) };
    if x.dtype() != DType::Float32 {
        return Ok(None);
    }
    let values = ordered(x, order_of(x))?;
    let mut range = [0.0; 2];
    wide!({
        range =
            [combined(&values, 0.0, |it| it, f32::min), combined(&values, 0.0, |it| it, f32::max)];
    });
    let [least, greatest] = range.map(f64::from);
    let scale = (greatest - least) / 255.0;
    let scale = if scale == 0.0 { 1.0 } else { scale };
    let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even();
    #[expect(clippy::cast_possible_truncation, reason = "results are in single precision")]
    let (scale, zero) = (scale as f32, zero as f32);
    let (limits, dtype) = ([0.0, 255.0], DType::Uint8);
    let center = vec![code(0.0, zero, limits)];
    Ok(Some(vec![
        codes(x, scale, zero, (limits, dtype))?,
        numbers(vec![scale], Vec::new(), Order::RowMajor)?,
        wrapped(center.into(), Vec::new(), Order::RowMajor, dtype)?,
    ]))
}

/// Adds two quantized tensors, or returns `None` if the kernel must run instead.
fn sum(call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
    paired(call, |a, b| a + b)
}

/// Multiplies two quantized tensors, or returns `None` if the kernel must run instead.
fn product(call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
    paired(call, |a, b| a * b)
}

/// What codes stand for, in double precision.
#[derive(Clone, Copy)]
struct Real {
    sign: u8,
    zero: i32,
    scale: f64,
}

impl Real {
    /// Returns it for a type, with the scale and the zero point that are inputs from `number` on; `None` if there is not one of
    /// each.
    fn of(inputs: &Inputs<'_>, dtype: DType, number: usize) -> Outcome<Option<Self>> {
        let (scale, zero) = (inputs.list(number)?, inputs.zero(number + 1, dtype)?);
        let (Some([scale]), Some(zero)) = (scale.as_deref(), zero) else { return Ok(None) };
        Ok(Some(Self { sign: sign(dtype), zero: zero + shift(dtype), scale: *scale }))
    }

    #[inline(always)]
    fn number(self, code: u8) -> f64 {
        f64::from(i32::from(code ^ self.sign) - self.zero) * self.scale
    }
}

/// Returns the bytes of a tensor that is broadcast to some dims, or `None` if it is of another type.
fn spread(tensor: &Dense, dims: &[usize], order: Order) -> Outcome<Option<ByteElements>> {
    if tensor.dims() == dims {
        return ByteElements::of(tensor, order);
    }
    if let ([given, channels, ones @ ..], [examples, same, spatial @ ..], Order::ChannelsLast) =
        (tensor.dims(), dims, order)
        && channels == same
        && (*given == 1 || given == examples)
        && ones.len() == spatial.len()
        && ones.iter().all(|dim| *dim == 1)
    {
        // The channels of each pixel follow one another.
        let Some(codes) = ByteElements::of(tensor, order)? else { return Ok(None) };
        let pixels = spatial.iter().product();
        let each: Vec<_> =
            codes.chunks_exact(*channels).map(|codes| codes.repeat(pixels)).collect();
        let all = each.concat().repeat(if given == examples { 1 } else { *examples });
        return Ok(Some(ByteElements::Unsigned(Elements::Copy(all))));
    }
    // A view, whose bytes are copied.
    ByteElements::of(&tensor.expanded(dims)?, order)
}

/// Returns the quantized results of a function of the real numbers of two tensors.
fn paired(
    call: &FastCall<'_>,
    of: impl Fn(f64, f64) -> f64 + Copy + Sync,
) -> Outcome<Option<Vec<Dense>>> {
    let inputs = Inputs(call.inputs);
    let (Some(left), Some(right)) = (inputs.dense(0), inputs.dense(3)) else { return Ok(None) };
    let Ok(dims) = common(left.dims(), right.dims()) else { return Ok(None) };
    let order = if is_channels_last(right) { Order::ChannelsLast } else { order_of(left) };
    let (Some(a), Some(b)) =
        (Real::of(&inputs, left.dtype(), 1)?, Real::of(&inputs, right.dtype(), 4)?)
    else {
        return Ok(None);
    };
    let (Some(left_codes), Some(right_codes)) =
        (spread(left, &dims, order)?, spread(right, &dims, order)?)
    else {
        return Ok(None);
    };
    let dtype = left.dtype();
    let Some(limits) = limits(dtype) else { return Ok(None) };
    let (limits, zero) = (limits.map(f64::from), inputs.zero(7, dtype)?);
    let (Some(scale), Some(zero)) = (inputs.list(6)?, zero.map(f64::from)) else {
        return Ok(None);
    };
    let [scale] = *scale.as_slice() else { return Ok(None) };
    let mut out = vec![0_u8; left_codes.len()];
    each_chunk(&mut out, CHUNK, |(): &mut (), number, out| {
        let (begin, count) = (number * CHUNK, out.len());
        let pairs = part_of(&left_codes, begin, count).iter();
        let pairs = pairs.zip(part_of(&right_codes, begin, count));
        // What is captured by reference might overlap with the result, and would be loaded for each element.
        wide!(move {
            for (out, (left, right)) in out.iter_mut().zip(pairs) {
                *out = wide_code(of(a.number(*left), b.number(*right)) / scale, zero, limits);
            }
        });
        Ok(())
    })?;
    wrapped(out.into(), dims, order, dtype).map(one)
}

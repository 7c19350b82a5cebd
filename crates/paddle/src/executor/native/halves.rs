//! Casts to half precision.
//!
//! PaddlePaddle truncates on CPUs; ONNX rounds to the nearest value.

use lodstone_engine::{Dense, Threads};
use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::paddle::codes;
use lodstone_store::Blob;

use super::{Outcome, Run, input, output};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;

pub(super) const OPERATORS: &[(&str, Run)] = &[("cast", cast)];

/// Converts the bits of a `float32` to those of a half.
type Cut = fn(u32) -> u16;

/// Returns the half precision that the attribute requests, and its conversion.
fn half(op: &Op) -> Option<(DType, Cut)> {
    let Some(AttributeValue::Int(code)) = op.attribute("out_dtype") else { return None };
    match codes::dtype(*code) {
        DType::Float16 => Some((DType::Float16, float16)),
        DType::BFloat16 => Some((DType::BFloat16, bfloat16)),
        _ => None,
    }
}

fn cast(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let not_half = || Finding::internal("`cast` is native only for casts to half precision");
    let (dtype, cut) = half(op).ok_or_else(not_half)?;
    let tensor = frame.tensor(input(step, "X")?)?;
    let elements = tensor.shape.iter().product::<u64>();
    // The intermediate type is float32.
    frame.reserve(elements.saturating_mul(6))?;
    let bytes: Vec<u8> =
        singles(tensor, &frame.threads)?.flat_map(|bits| cut(bits).to_le_bytes()).collect();
    let mut made = Tensor::dense(dtype, tensor.shape.clone(), Blob::memory(bytes));
    made.lod = tensor.lod.clone();
    Ok(frame.make(output(step, "Out")?, made)?)
}

/// Returns the elements as bits of `float32`.
fn singles(tensor: &Tensor, threads: &Threads) -> Outcome<std::vec::IntoIter<u32>> {
    let bits: Vec<u32> = if tensor.dtype == DType::Float16 {
        let bytes = tensor.data.bytes()?;
        bytes.as_chunks().0.iter().map(|half| widened(u16::from_le_bytes(*half))).collect()
    } else {
        let bytes = Dense::of(tensor)?.cast(DType::Float32, threads)?.bytes()?;
        bytes.as_chunks().0.iter().map(|single| u32::from_le_bytes(*single)).collect()
    };
    Ok(bits.into_iter())
}

/// Widens a half to `float32`; NaN keeps its payload.
fn widened(half: u16) -> u32 {
    let bits = u32::from(half);
    match bits & 0x7FFF {
        none if none > 0x7C00 => (bits & 0x8000) << 16 | 0x7F80_0000 | (bits & 0x03FF) << 13,
        _ => half::f16::from_bits(half).to_f32().to_bits(),
    }
}

/// Keeps the upper half.
fn bfloat16(bits: u32) -> u16 {
    (bits >> 16) as u16
}

/// Values that are too large become infinite, those that are too small 0; NaN keeps the upper bits of its payload.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the remaining bits fit in 16 bits"
)]
fn float16(bits: u32) -> u16 {
    /// The bits of the largest value, of the smallest normal value, and of infinity.
    const LARGEST: u32 = 0x477F_E000;
    const SMALLEST: u32 = 0x3880_0000;
    const INFINITE: u32 = 0x7F80_0000;
    let (sign, size) = ((bits >> 16) as u16 & 0x8000, bits & 0x7FFF_FFFF);
    let half = match size {
        // A NaN must not lose all bits of its payload, or it would become infinite.
        _ if size > INFINITE => ((size >> 13) as u16 & 0x03FF).max(1) | 0x7C00,
        _ if size > LARGEST => 0x7C00,
        _ if size < SMALLEST => {
            let steps = f32::from_bits(size) * 16_777_216.0;
            steps as u16
        }
        _ => ((size - (112 << 23)) >> 13) as u16,
    };
    sign | half
}

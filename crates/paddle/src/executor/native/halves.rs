//! Numbers of half precision that others become.
//!
//! PaddlePaddle cuts off the bits that do not fit, on processors; ONNX rounds to the nearest number.

use lodstone_engine::{Dense, Threads};
use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::paddle::codes;
use lodstone_store::Blob;

use super::{Outcome, Run, input, output};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;

pub(super) const OPERATORS: &[(&str, Run)] = &[("cast", cast)];

/// What makes a number of half precision of the bits of single precision.
type Cut = fn(u32) -> u16;

/// The half precision that the attribute asks for, and what makes it of the bits of single precision.
fn half(op: &Op) -> Option<(DType, Cut)> {
    let Some(AttributeValue::Int(code)) = op.attribute("out_dtype") else { return None };
    match codes::dtype(*code) {
        DType::Float16 => Some((DType::Float16, float16)),
        DType::BFloat16 => Some((DType::BFloat16, bfloat16)),
        _ => None,
    }
}

fn cast(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let not_half = || Finding::internal("`cast` is native only if it makes half precision");
    let (dtype, cut) = half(op).ok_or_else(not_half)?;
    let tensor = frame.tensor(input(step, "X")?)?;
    let elements = tensor.shape.iter().product::<u64>();
    // On their way they are of single precision.
    frame.reserve(elements.saturating_mul(6))?;
    let bytes: Vec<u8> =
        singles(tensor, &frame.threads)?.flat_map(|bits| cut(bits).to_le_bytes()).collect();
    let mut made = Tensor::dense(dtype, tensor.shape.clone(), Blob::memory(bytes));
    made.lod = tensor.lod.clone();
    Ok(frame.make(output(step, "Out")?, made)?)
}

/// The bits of elements as numbers of single precision.
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

/// Single precision of half: what is no number keeps its fraction as it is.
fn widened(half: u16) -> u32 {
    let bits = u32::from(half);
    match bits & 0x7FFF {
        none if none > 0x7C00 => (bits & 0x8000) << 16 | 0x7F80_0000 | (bits & 0x03FF) << 13,
        _ => half::f16::from_bits(half).to_f32().to_bits(),
    }
}

/// The upper half.
fn bfloat16(bits: u32) -> u16 {
    (bits >> 16) as u16
}

/// What is too large is infinite, what is too small 0; what is no number keeps the upper bits of its fraction.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "all that is kept fits 16 bits"
)]
fn float16(bits: u32) -> u16 {
    /// Bits of the largest number, of the smallest that has all its bits, and of infinity.
    const LARGEST: u32 = 0x477F_E000;
    const SMALLEST: u32 = 0x3880_0000;
    const INFINITE: u32 = 0x7F80_0000;
    let (sign, size) = ((bits >> 16) as u16 & 0x8000, bits & 0x7FFF_FFFF);
    let half = match size {
        // A number without fraction left would be infinite.
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

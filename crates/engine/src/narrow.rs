//! Element types that kernels have no arithmetic for: integers of fewer than 8 bits, and floats of at most 8 bits.
//!
//! Kernels widen their elements to 8-bit integers and single precision, which hold all values, and narrow the results.
//!
//! Source of truth: ONNX's `Cast`.

use lodstone_model::DType;
use lodstone_model::narrow::{NarrowFloat, decoded, packed, unpacked};
use lodstone_schema::Finding;

use crate::error::Outcome;
use crate::tensor::dense::Dense;
use crate::tensor::element::{bits, is_number, unsupported};

/// How casts to 8-bit floats treat values that the type does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounding {
    /// Whether values beyond the largest one become the largest one, rather than infinity or NaN.
    pub(crate) saturate: bool,
    /// The rounding of `float8_e8m0fnu`, which has only powers of 2.
    pub(crate) power: Power,
}

/// The rounding to a power of 2.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Power {
    Up,
    Down,
    Nearest,
}

impl Default for Rounding {
    fn default() -> Self {
        Self { saturate: true, power: Power::Up }
    }
}

/// Returns whether elements of a type are widened for kernels.
pub(crate) fn is_narrow(dtype: DType) -> bool {
    let is_integer = matches!(dtype, DType::Int2 | DType::Int4 | DType::Uint2 | DType::Uint4);
    is_integer || decoded(dtype, 0).is_some()
}

/// Returns a tensor whose elements kernels compute with.
///
/// # Errors
/// If they do not.
pub(crate) fn supported(dense: &Dense) -> Outcome<&Dense> {
    let dtype = dense.dtype();
    match dtype == DType::Bool || is_number(dtype) {
        true => Ok(dense),
        false => Err(unsupported(dtype)),
    }
}

/// Returns a tensor for kernels; elements of narrow types are widened.
pub(crate) fn widened(dense: &Dense) -> Outcome<Dense> {
    let (dtype, dims) = (dense.dtype(), dense.dims().to_vec());
    if !is_narrow(dtype) {
        return supported(dense).cloned();
    }
    let codes = unpacked(&dense.bytes()?, dense.bits(), dense.count());
    let signed = |bits: u32| -> Vec<i8> {
        codes.iter().map(|code| (code << (8 - bits)).cast_signed() >> (8 - bits)).collect()
    };
    match dtype {
        DType::Int2 => Dense::from_vec(signed(2), dims),
        DType::Int4 => Dense::from_vec(signed(4), dims),
        DType::Uint2 | DType::Uint4 => Dense::from_vec(codes, dims),
        _ => {
            let table: Option<Vec<f32>> = (0..=u8::MAX).map(|code| decoded(dtype, code)).collect();
            let table = table.ok_or_else(|| Finding::internal("a type has no values"))?;
            let value = |code: &u8| table.get(usize::from(*code)).copied();
            let values: Option<Vec<f32>> = codes.iter().map(value).collect();
            let values = values.ok_or_else(|| Finding::internal("a code has no value"))?;
            Dense::from_vec(values, dims)
        }
    }
}

/// Converts elements to any type; those that a narrow integer does not hold wrap around.
pub(crate) fn narrowed(item: &Dense, to: DType, rounding: Rounding) -> Outcome<Dense> {
    if !is_narrow(to) {
        return item.cast_to(to);
    }
    let dims = item.shape();
    let codes: Vec<u8> = match NarrowFloat::of(to) {
        Some(form) => {
            let codes = 0..=form.largest();
            let magnitudes: Vec<f64> = codes.map(|code| form.magnitude(code).into()).collect();
            let code = |value: f64| form.encode(value, &magnitudes, rounding.saturate);
            item.to_doubles()?.into_iter().map(code).collect()
        }
        None if to == DType::Float8E8M0Fnu => {
            item.to_singles()?.into_iter().map(|value| exponent(value, rounding)).collect()
        }
        // The lowest bits.
        None => {
            let numbers = item.cast_to(DType::Int64)?.to_longs()?;
            numbers.into_iter().map(|number| number.to_le_bytes()[0]).collect()
        }
    };
    Dense::new(to, dims, packed(&codes, bits(to)?).into())
}

/// Returns the exponent of a power of 2 that a number is rounded to, `float8_e8m0fnu`; signs are dropped.
fn exponent(value: f32, rounding: Rounding) -> u8 {
    let bits = value.to_bits();
    let (found, fraction) = ((bits >> 23).to_le_bytes()[0], bits & 0x7F_FFFF);
    let half = 1 << 22;
    let rounds_up = match rounding.power {
        Power::Up => fraction > 0,
        Power::Down => false,
        Power::Nearest => fraction > half || (fraction == half && found > 0),
    };
    let is_last = found == 0xFE && rounding.saturate;
    found + u8::from(found < 0xFF && rounds_up && !is_last)
}

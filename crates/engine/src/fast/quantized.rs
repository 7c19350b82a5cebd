//! Tensors of 8-bit integers, their scales and their zero points.

use std::ops::Deref;

use lodstone_model::{DType, Op};
use pulp::bytemuck::cast_slice;

use crate::call::Call;
use crate::error::Outcome;
use crate::tensor::{Dense, Elements, Order, elements};
use crate::value::Value;

/// Returns the bit of each byte that turns signed bytes into unsigned ones, for a type of 8 bits.
pub(super) fn sign(dtype: DType) -> u8 {
    if dtype == DType::Int8 { 0x80 } else { 0 }
}

/// Returns the number by which that makes them greater.
pub(super) fn shift(dtype: DType) -> i32 {
    sign(dtype).into()
}

/// Returns the least and the greatest code of a type of 8 bits; `None` for other types.
pub(super) fn limits(dtype: DType) -> Option<[f32; 2]> {
    match dtype {
        DType::Int8 => Some([-128.0, 127.0]),
        DType::Uint8 => Some([0.0, 255.0]),
        _ => None,
    }
}

/// Returns whether `QuantizeLinear` or `DequantizeLinear` has attributes that only its general kernel handles.
pub(crate) fn needs_general_kernel(op: &Op) -> Outcome<bool> {
    let call = Call::new(op, &[])?;
    Ok(["output_dtype", "precision", "block_size"].iter().any(|name| call.int(name, 0) != 0))
}

/// The bytes of a tensor of 8-bit integers in one order.
pub(super) enum ByteElements {
    Signed(Elements<i8>),
    Unsigned(Elements<u8>),
}

impl ByteElements {
    /// Returns the bytes of a tensor, or `None` if it is of another type.
    pub(super) fn of(tensor: &Dense, order: Order) -> Outcome<Option<Self>> {
        Ok(match tensor.dtype() {
            DType::Int8 => Some(Self::Signed(elements(tensor, order)?)),
            DType::Uint8 => Some(Self::Unsigned(elements(tensor, order)?)),
            _ => None,
        })
    }
}

impl Deref for ByteElements {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Signed(values) => cast_slice(values),
            Self::Unsigned(values) => values,
        }
    }
}

/// The inputs of an operator.
pub(super) struct Inputs<'a>(pub(super) &'a [Option<&'a Value>]);

impl<'a> Inputs<'a> {
    pub(super) fn dense(&self, number: usize) -> Option<&'a Dense> {
        match self.0.get(number) {
            Some(Some(Value::Dense(dense))) => Some(dense),
            _ => None,
        }
    }

    /// Returns the numbers of a scalar or of a list; none if the input is omitted, `None` if it has other dims or is empty.
    pub(super) fn list(&self, number: usize) -> Outcome<Option<Vec<f64>>> {
        match self.dense(number) {
            None => Ok(Some(Vec::new())),
            Some(list) => numbers(list),
        }
    }

    /// Returns the zero point of a tensor of a type, 0 if it is omitted; `None` if it is not one number of that type.
    pub(super) fn zero(&self, number: usize, dtype: DType) -> Outcome<Option<i32>> {
        let zeros = zeros_of(self.dense(number), dtype, 1)?;
        Ok(zeros.and_then(|zeros| zeros.first().copied()))
    }
}

/// Returns the numbers of a scalar or of a list; `None` if the tensor has other dims, or is empty.
fn numbers(tensor: &Dense) -> Outcome<Option<Vec<f64>>> {
    match tensor.dims().len() < 2 && tensor.count() > 0 {
        true => tensor.to_f64().map(Some),
        false => Ok(None),
    }
}

/// Returns the zero points of all columns of a tensor of 8-bit integers, 0 if they are omitted; `None` if they are neither one nor
/// as many numbers of that type.
#[expect(clippy::cast_possible_truncation, reason = "8 bits")]
pub(super) fn zeros_of(
    zeros: Option<&Dense>,
    dtype: DType,
    columns: usize,
) -> Outcome<Option<Vec<i32>>> {
    let Some(zeros) = zeros else { return Ok(Some(vec![0; columns])) };
    let Some(points) = numbers(zeros)?.filter(|_| zeros.dtype() == dtype) else { return Ok(None) };
    let fits = points.len() == 1 || points.len() == columns;
    let all = points.iter().cycle().take(columns).map(|zero| *zero as i32).collect();
    Ok(fits.then_some(all))
}

// Adding these leaves whole numbers in the last bits. The compiler turns this into vectors, unlike `as` and `clamp`.
const SHIFT: f32 = 12_582_912.0;
const WIDE_SHIFT: f64 = 6_755_399_441_055_744.0;

/// Returns the code of a number, for a type with these limits; signed codes keep their bits. NaN has code 0.
#[inline(always)]
pub(super) fn code(number: f32, zero: f32, [least, most]: [f32; 2]) -> u8 {
    let whole = number.round_ties_even() + zero;
    let whole = if whole.is_nan() { 0.0 } else { whole };
    let whole = if whole > most { most } else { whole };
    let whole = if whole < least { least } else { whole };
    (whole + SHIFT).to_bits().to_le_bytes()[0]
}

/// Does what [`code`] does, in double precision.
#[inline(always)]
pub(super) fn wide_code(number: f64, zero: f64, [least, most]: [f64; 2]) -> u8 {
    let whole = number.round_ties_even() + zero;
    let whole = if whole.is_nan() { 0.0 } else { whole };
    let whole = if whole > most { most } else { whole };
    let whole = if whole < least { least } else { whole };
    (whole + WIDE_SHIFT).to_bits().to_le_bytes()[0]
}

/// Returns a whole number of fewer than 32 bits.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the last bits are the number")]
pub(super) fn exact(number: f32) -> i32 {
    ((f64::from(number) + WIDE_SHIFT).to_bits() as u32).cast_signed()
}

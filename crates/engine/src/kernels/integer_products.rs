//! Convolutions and matrix products of quantized tensors. Products and sums of 8-bit integers are exact in double
//! precision.

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::convolution::convolved;
use super::quantize::saturated;
use crate::call::{Call, Outputs, one};
use crate::error::Outcome;
use crate::fast::{IntegerKind, Packing};
use crate::operator::Operator;
use crate::tensor::{Dense, product};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("ConvInteger", conv)
        .packed(Packing::Integers(IntegerKind::ConvInteger))
        .working(6, 12)
        .threaded(),
    Operator::dense("QLinearConv", quantized_conv)
        .packed(Packing::Integers(IntegerKind::QLinearConv))
        .working(0, 40)
        .threaded(),
    Operator::dense("QLinearMatMul", quantized_product)
        .packed(Packing::Integers(IntegerKind::QLinearMatMul))
        .working(16, 20),
];

/// Returns an input in double precision, less its zero point: one for all, or one for each index of the given axis.
fn centred(call: &Call<'_>, number: usize, zero: usize, axis: Option<usize>) -> Outcome<Dense> {
    let x = call.input(number)?.cast_to(DType::Float64)?;
    match call.optional(zero) {
        Some(_) => x.minus(&along(call, zero, axis, x.shape().len())?.fitted(&x.shape())?),
        None => Ok(x),
    }
}

/// Returns a list in double precision, as a tensor whose only long dim is the given axis; without one, of one element.
fn along(call: &Call<'_>, number: usize, axis: Option<usize>, rank: usize) -> Outcome<Dense> {
    let list = call.input(number)?.cast_to(DType::Float64)?;
    let &[length] = list.shape().as_slice() else { return Ok(list) };
    if length != 1 && axis.is_none_or(|axis| axis >= rank) {
        return Err(Finding::from("expected one value").about_input(number));
    }
    let dim = |at: usize| if Some(at) == axis { length } else { 1 };
    list.reshaped((0..rank).map(dim).collect::<Vec<_>>())
}

fn conv(call: &Call<'_>) -> Outputs {
    let (x, filter) = (centred(call, 0, 2, None)?, centred(call, 1, 3, Some(0))?);
    one(convolved(call, &x, &filter, None)?.cast_to(DType::Int32)?)
}

/// Scales a result, and adds the zero point of the output.
fn requantized(call: &Call<'_>, y: &Dense, scales: [Dense; 3], axis: Option<usize>) -> Outputs {
    let [a, b, own] = scales;
    let shape = y.shape();
    let y = y.times(&a.times(&b)?.over(&own)?.fitted(&shape)?)?.rounded()?;
    let zero = call.input(7)?;
    let y = y.plus(&along(call, 7, axis, shape.len())?.fitted(&shape)?)?;
    one(saturated(&y, zero.dtype())?)
}

pub(super) fn quantized_conv(call: &Call<'_>) -> Outputs {
    let (x, filter) = (centred(call, 0, 2, None)?, centred(call, 3, 5, Some(0))?);
    let bias = match call.optional(8) {
        Some(bias) => Some(bias.cast_to(DType::Float64)?),
        None => None,
    };
    let y = convolved(call, &x, &filter, bias.as_ref())?;
    let rank = y.shape().len();
    let scale = |number: usize, axis: Option<usize>| along(call, number, axis, rank);
    requantized(call, &y, [scale(1, None)?, scale(4, Some(1))?, scale(6, None)?], None)
}

/// Scales and zero points are by row on the left and of the result, and by column on the right.
fn quantized_product(call: &Call<'_>) -> Outputs {
    let rank = |number: usize| Ok::<_, Finding>(call.input(number)?.shape().len());
    let (left, right) = (rank(0)?, rank(3)?);
    let row = |rank: usize| rank.checked_sub(2);
    let a = centred(call, 0, 2, row(left))?;
    let b = centred(call, 3, 5, right.checked_sub(1))?;
    let y = product(&a, &b)?;
    let whole = y.shape().len();
    let scales = [
        along(call, 1, row(whole), whole)?,
        along(call, 4, whole.checked_sub(1), whole)?,
        along(call, 6, row(whole), whole)?,
    ];
    requantized(call, &y, scales, row(whole))
}

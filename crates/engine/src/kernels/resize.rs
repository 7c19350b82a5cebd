//! Resizing by interpolation, one axis after the other.

use lodstone_model::DType;

use crate::call::{Call, Outputs, one};
use crate::dims::{at_mut, bounded};
use crate::error::Outcome;
use crate::fast;
use crate::geometry::resize::{Coordinates, Mode, Modes, Taps, sides};
use crate::operator::Operator;
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] =
    &[Operator::dense("Resize", resize).fast(fast::images::RESIZE).working(0, 2).channels_last()];

/// The maximum size of an element, an index or a weight in bytes.
const WIDE: u64 = 8;

fn resize(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let shape = x.shape();
    let sides = sides(call, &shape)?;
    let mut dims = shape.clone();
    for side in &sides {
        *at_mut(&mut dims, side.axis)? = side.to;
    }
    let kind = x.dtype();
    if bounded(&dims)? == 0 {
        return one(Dense::filled(0.0, kind, &dims)?);
    }
    if shape.contains(&0) {
        return Err(format!("{shape:?} has no elements to interpolate").into());
    }
    let modes = Modes::of(call)?;
    let is_nearest = modes.mode == Mode::Nearest;
    let mut y = match is_nearest || kind.is_float() {
        true if is_nearest => x.clone(),
        true => x.widened()?,
        false => x.cast_to(DType::Float32)?,
    };
    // The last axis first: less work where tensors grow.
    for side in sides.iter().rev().filter(|side| !modes.is_identity(side)) {
        let mut made = y.shape();
        *at_mut(&mut made, side.axis)? = side.to;
        // The result of the axis, the part of one tap, and the sum; the elements and weights of all taps.
        let taps = if is_nearest { 1 } else { modes.steps(side) };
        let _workspace = (
            call.workspace(&made, 3 * WIDE)?,
            call.workspace(&[side.to], WIDE)?,
            call.workspace(&[side.to, taps], 2 * WIDE)?,
        );
        let places: Vec<f64> = (0..side.to).map(|to| modes.place(side, to)).collect();
        y = match is_nearest {
            true => y.selected(side.axis, &modes.nearest(side, &places))?,
            false => blended(&y, side.axis, &modes.taps(side, &places))?,
        };
    }
    let y = y.cast_to(kind)?;
    if modes.coordinates != Coordinates::TfCropAndResize {
        return one(y);
    }
    let mut y = y;
    for side in &sides {
        let last = side.from as f64 - 1.0;
        let outside = (0..side.to).map(|to| !(0.0..=last).contains(&modes.place(side, to)));
        let mut line = vec![1; dims.len()];
        *at_mut(&mut line, side.axis)? = side.to;
        let mask = Dense::truths(&outside.collect::<Vec<bool>>(), &line)?;
        let value = call.float("extrapolation_value", 0.0).into();
        y = y.masked(&mask, &Dense::filled(value, kind, &[])?)?;
    }
    one(y)
}

/// Returns the weighted sum of elements of an axis.
fn blended(x: &Dense, axis: usize, taps: &Taps) -> Outcome<Dense> {
    let (kind, mut line) = (x.dtype(), vec![1; x.shape().len()]);
    let mut sum: Option<Dense> = None;
    for (numbers, shares) in taps {
        *at_mut(&mut line, axis)? = shares.len();
        let shares = Dense::numbers(shares.clone(), kind, &line)?;
        let part = x.selected(axis, numbers)?.times(&shares)?;
        sum = Some(match sum {
            Some(sum) => sum.plus(&part)?,
            None => part,
        });
    }
    sum.ok_or_else(|| "no elements to interpolate".into())
}

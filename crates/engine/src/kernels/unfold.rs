//! Inverses of windows: images from columns, and from the maxima of pooling.

use crate::call::{Call, Outputs, one};
use crate::dims::{at_mut, bounded, count, dims_from, long};
use crate::error::Outcome;
use crate::geometry::{Windows, spatial};
use crate::operator::Operator;
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("Col2Im", from_columns).working(12, 6),
    Operator::dense("MaxUnpool", unpool).working(6, 8),
];

/// Adds the elements of all windows at their places: [batch, channels * block, windows] to [batch, channels, image..].
fn from_columns(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let (image, block) = (dims_from(&call.list(1)?)?, dims_from(&call.list(2)?)?);
    let windows = Windows::of(call, &block, &image)?;
    let steps = windows.steps(&image)?;
    let (taps, columns) = (bounded(&block)?, bounded(&steps)?);
    let &[batch, rows, found] = x.shape().as_slice() else {
        return Err(format!("expected columns, found {:?}", x.shape()).into());
    };
    if found != columns || taps == 0 || !rows.is_multiple_of(taps) {
        return Err(format!("{:?} are not the columns of {image:?}", x.shape()).into());
    }
    let whole = [&[batch, rows / taps], &image[..]].concat();
    let mut made = vec![0.0; bounded(&whole)?];
    if made.is_empty() || columns == 0 {
        return one(Dense::numbers(made, x.dtype(), &whole)?);
    }
    let places = windows.places(&image, &steps);
    let (values, size) = (x.to_doubles()?, bounded(&image)?);
    for (plane, columns) in made.chunks_exact_mut(size).zip(values.chunks_exact(taps * columns)) {
        for (value, place) in columns.iter().zip(&places) {
            if let Some(slot) = place.and_then(|place| plane.get_mut(place)) {
                *slot += value;
            }
        }
    }
    one(Dense::numbers(made, x.dtype(), &whole)?)
}

/// Puts each maximum back at its index; other elements are 0.
fn unpool(call: &Call<'_>) -> Outputs {
    let (x, indices) = (call.input(0)?, call.list(1)?);
    let shape = x.shape();
    let size = call.ints("kernel_shape").ok_or("`kernel_shape` is missing")?;
    let size: Vec<usize> = size.iter().map(|one| count(*one)).collect::<Outcome<_>>()?;
    let windows = Windows::of(call, &size, spatial(&shape)?)?;
    let mut dims = shape.clone();
    let sides = windows.size.iter().zip(&windows.strides).zip(&windows.pads);
    for (at, ((size, stride), pad)) in (2..).zip(sides) {
        let dim = at_mut(&mut dims, at)?;
        let whole = dim.saturating_sub(1).saturating_mul(*stride).saturating_add(*size);
        let cut = whole.checked_sub(pad.0 + pad.1).filter(|_| *dim > 0);
        *dim = cut.ok_or_else(|| format!("nothing is left of dim {dim}"))?;
    }
    let mut values = vec![0.0; bounded(&dims)?];
    let maxima = x.to_doubles()?;
    if maxima.len() != indices.len() {
        return Err(format!("{} indices do not fit {shape:?}", indices.len()).into());
    }
    for (value, index) in maxima.into_iter().zip(indices) {
        let slot = usize::try_from(index).ok().and_then(|at| values.get_mut(at));
        *slot.ok_or_else(|| format!("index {index} is out of range for {dims:?}"))? = value;
    }
    let y = Dense::numbers(values, x.dtype(), &dims)?;
    let Some(asked) = call.longs(2)? else { return one(y) };
    let asked = dims_from(&asked)?;
    if asked.len() != dims.len() || asked.iter().zip(&dims).any(|(asked, dim)| asked < dim) {
        return Err(format!("{dims:?} exceeds the output dims {asked:?}").into());
    }
    let pads: Vec<(i64, i64)> =
        asked.iter().zip(&dims).map(|(asked, dim)| (0, long(asked - dim))).collect();
    one(y.padded(&pads, &Dense::filled(0.0, x.dtype(), &[1])?)?)
}

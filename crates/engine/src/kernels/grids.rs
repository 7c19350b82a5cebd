//! Sampling by grids: affine grids, and convolutions whose windows are deformed.

use lodstone_schema::Finding;
use lodstone_schema::places::at;

use crate::call::{Call, Outputs, one};
use crate::dims::{bounded, count, dims_from, elements};
use crate::error::Outcome;
use crate::geometry::{Windows, spatial};
use crate::operator::Operator;
use crate::tensor::{Dense, product};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("AffineGrid", affine_grid).working(0, 16),
    Operator::dense("DeformConv", deformed_conv).working(0, 6),
];

/// Returns the coordinates of each position of an image, from -1 to 1, after an affine map.
fn affine_grid(call: &Call<'_>) -> Outputs {
    let theta = call.input(0)?;
    let sizes = dims_from(&call.list(1)?)?;
    let (Some(dims @ ([_, _] | [_, _, _])), Some(&batch)) = (sizes.get(2..), sizes.first()) else {
        return Err(format!("expected a size of 4 or 5 dims, found {sizes:?}").into());
    };
    let rank = dims.len();
    if theta.shape() != [batch, rank, rank + 1] {
        return Err(format!("map {:?} does not fit {sizes:?}", theta.shape()).into());
    }
    let whole = [&[batch], dims, &[rank]].concat();
    let places = bounded(dims)?;
    if bounded(&whole)? == 0 {
        return one(Dense::filled(0.0, theta.dtype(), &whole)?);
    }
    let is_aligned = call.int("align_corners", 0) != 0;
    let coordinate = |place: usize, dim: usize| match is_aligned {
        true => 2.0 * place as f64 / (dim.max(2) - 1) as f64 - 1.0,
        false => (2 * place + 1) as f64 / dim as f64 - 1.0,
    };
    bounded(&[places, rank + 1])?;
    // [places, rank + 1]: the last dim first, and 1.
    let mut base = Vec::with_capacity(places * (rank + 1));
    for mut place in 0..places {
        for dim in dims.iter().rev() {
            base.push(coordinate(place % dim, *dim));
            place /= dim;
        }
        base.push(1.0);
    }
    let wide = theta.widened()?;
    let base = Dense::numbers(base, wide.dtype(), &[places, rank + 1])?;
    let made = product(&base, &wide.permuted(&[0, 2, 1])?)?;
    one(made.reshaped(whole)?.cast_to(theta.dtype())?)
}

/// A convolution with an offset for each element of each window.
struct Deformed {
    windows: Windows,
    /// Height and width of the image, of the kernel, and of the result.
    image: [usize; 2],
    kernel: [usize; 2],
    to: [usize; 2],
}

fn deformed_conv(call: &Call<'_>) -> Outputs {
    let (x, filter, offsets) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (shape, sizes) = (x.shape(), filter.shape());
    let (&[batch, channels, high, wide], &[results, each, down, across]) =
        (shape.as_slice(), sizes.as_slice())
    else {
        return Err(format!("expected images, found {shape:?}").into());
    };
    let windows = Windows::of(call, spatial(&sizes)?, spatial(&shape)?)?;
    let groups = count(call.int("group", 1))?;
    let parts = count(call.int("offset_group", 1))?;
    windows.check(&shape, &sizes, groups)?;
    let to = windows.steps(&[high, wide])?;
    let &[rows, columns] = to.as_slice() else { return Err("expected images".into()) };
    let taps = down * across;
    let fits = parts > 0
        && channels.is_multiple_of(parts)
        && offsets.shape() == [batch, parts.saturating_mul(2 * taps), rows, columns]
        && call
            .optional(4)
            .is_none_or(|mask| mask.shape() == [batch, parts.saturating_mul(taps), rows, columns]);
    if !fits {
        let found = offsets.shape();
        return Err(format!("offsets {found:?} in {parts} groups do not fit {shape:?}").into());
    }
    let places = rows * columns;
    let dims = [batch, channels, taps, places];
    let whole = bounded(&dims)?;
    let _pieces = call.workspace(&dims, 16)?;
    let plan =
        Deformed { windows, image: [high, wide], kernel: [down, across], to: [rows, columns] };
    let (values, offsets) = (x.to_doubles()?, offsets.to_doubles()?);
    let mask = call.optional(4).map(Dense::to_doubles).transpose()?;
    let mut pieces = Vec::with_capacity(whole);
    let planes = channels / parts;
    for (number, images) in values.chunks_exact(planes * high * wide).enumerate() {
        // One group of offsets of one example.
        let own = |list: &[f64], size: usize| {
            let own = list.get(number * size..(number + 1) * size).map(<[f64]>::to_vec);
            own.ok_or_else(|| Finding::internal("a group has no offsets"))
        };
        let moves = own(&offsets, 2 * taps * places)?;
        let shares = match &mask {
            Some(mask) => own(mask, taps * places)?,
            None => vec![1.0; taps * places],
        };
        let samples = plan.samples(&moves)?;
        for image in images.chunks_exact(high * wide) {
            for (share, sample) in shares.iter().zip(&samples) {
                let value = |(place, share): &(usize, f64)| Ok(at(image, *place)? * share);
                pieces.push(share * sample.iter().map(value).sum::<Outcome<f64>>()?);
            }
        }
    }
    let wide = x.widened()?.dtype();
    let pieces = Dense::numbers(pieces, wide, &[batch, groups, each * taps, places])?;
    let weights = filter.cast_to(wide)?.reshaped(vec![1, groups, results / groups, each * taps])?;
    let mut y = product(&weights, &pieces)?.reshaped(vec![batch, results, rows, columns])?;
    if let Some(bias) = call.optional(3) {
        y = y.plus(&bias.cast_to(wide)?.fitted(&[results])?.reshaped(vec![1, results, 1, 1])?)?;
    }
    one(y.cast_to(x.dtype())?)
}

impl Deformed {
    /// Returns the pixels around each element of each window, and their weights: [kernel, places].
    fn samples(&self, moves: &[f64]) -> Outcome<Vec<Vec<(usize, f64)>>> {
        let Self { windows, image, kernel: [down, across], to: [rows, columns] } = self;
        let (&[stride, step], &[dilation, apart], &[(top, _), (left, _)]) =
            (windows.strides.as_slice(), windows.dilations.as_slice(), windows.pads.as_slice())
        else {
            return Err(Finding::internal("expected two spatial dims"));
        };
        let places = rows * columns;
        let mut samples = Vec::with_capacity(down * across * places);
        for tap in 0..down * across {
            let (row, column) = (tap / across * dilation, tap % across * apart);
            for place in 0..places {
                let offset = |axis: usize| at(moves, (2 * tap + axis) * places + place);
                let y = (place / columns * stride + row) as f64 - top as f64 + offset(0)?;
                let x = (place % columns * step + column) as f64 - left as f64 + offset(1)?;
                samples.push(around(*image, y, x));
            }
        }
        Ok(samples)
    }
}

/// Returns the pixels around a coordinate and their weights; there are none outside of the image.
fn around([high, wide]: [usize; 2], y: f64, x: f64) -> Vec<(usize, f64)> {
    let side = |place: f64, dim: usize| {
        let base = place.floor();
        [(base, 1.0 - (place - base)), (base + 1.0, place - base)].into_iter().filter_map(
            move |(at, share)| {
                let is_inside = at >= 0.0 && at < dim as f64 && share > 0.0;
                is_inside.then(|| (elements(at), share))
            },
        )
    };
    let rows: Vec<_> = side(y, high).collect();
    let pixel = |(row, down): &(usize, f64)| {
        let (row, down) = (*row, *down);
        side(x, wide)
            .map(move |(column, aside)| (row * wide + column, down * aside))
            .collect::<Vec<_>>()
    };
    rows.iter().flat_map(pixel).collect()
}

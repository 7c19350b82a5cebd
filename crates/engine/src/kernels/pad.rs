//! Padding.

use lodstone_schema::Finding;

use crate::call::{Call, Outputs, one};
use crate::dims::{at_mut, axis, bounded, count, dim_at, long};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("CenterCropPad", center).working(4, 0),
    Operator::dense("Pad", pad).working(0, 4),
];

impl Dense {
    /// Pads both ends of dims with a constant; negative amounts crop.
    pub(super) fn padded(&self, pads: &[(i64, i64)], with: &Self) -> Outcome<Self> {
        let mut y = self.clone();
        for (at, (begin, end)) in pads.iter().enumerate() {
            let dim = dim_at(&y.shape(), at)?;
            let cut = |pad: &i64| count(pad.saturating_neg().max(0));
            let (first, last) = (cut(begin)?, dim.saturating_sub(cut(end)?));
            if first > last {
                return Err(format!("cropping {begin} and {end} exceeds dim {dim}").into());
            }
            if (first, last) != (0, dim) {
                y = y.cut(at, first, last)?;
            }
            let around = |pad: &i64| {
                let mut shape = y.shape();
                let extra = count((*pad).max(0))?;
                *at_mut(&mut shape, at)? = extra;
                bounded(&shape)?;
                match extra {
                    0 => Ok::<_, Finding>(None),
                    _ => with.reshaped([])?.expanded(&shape).map(Some),
                }
            };
            let (before, behind) = (around(begin)?, around(end)?);
            if before.is_none() && behind.is_none() {
                continue;
            }
            let middle = (last > first).then(|| y.clone());
            let parts: Vec<_> = [before, middle, behind].into_iter().flatten().collect();
            let mut whole = y.shape();
            *at_mut(&mut whole, at)? = parts
                .iter()
                .try_fold(0, |sum, part| Ok::<_, Finding>(sum + dim_at(&part.shape(), at)?))?;
            y = match bounded(&whole)? {
                0 => Self::filled(0.0, y.dtype(), &whole)?,
                _ => Self::joined(&parts, at)?,
            };
        }
        Ok(y)
    }
}

fn pad(call: &Call<'_>) -> Outputs {
    let mut x = call.input(0)?.clone();
    let rank = x.shape().len();
    let numbers = call.list(1)?;
    let axes: Vec<usize> = match call.longs(3)? {
        Some(axes) => axes.iter().map(|at| axis(*at, rank)).collect::<Outcome<_>>()?,
        None => (0..rank).collect(),
    };
    if numbers.len() != 2 * axes.len() {
        return Err(format!("expected {} pads, found {}", 2 * axes.len(), numbers.len()).into());
    }
    let (begins, ends) = numbers.split_at(axes.len());
    let mut pads = vec![(0, 0); rank];
    for (at, pair) in axes.iter().zip(begins.iter().copied().zip(ends.iter().copied())) {
        *at_mut(&mut pads, *at)? = pair;
    }
    let inside: fn(i64, i64) -> i64 = match call.text("mode").as_deref() {
        None | Some("constant") => {
            let with = match call.optional(2) {
                Some(with) => with.clone(),
                None => Dense::filled(0.0, x.dtype(), &[1])?,
            };
            if with.shape().iter().product::<usize>() != 1 {
                return Err("expected one number to pad with".into());
            }
            return one(x.padded(&pads, &with)?);
        }
        Some("edge") => |place, dim| place.clamp(0, dim - 1),
        Some("reflect") => |place, dim| {
            let period = (2 * (dim - 1)).max(1);
            let place = place.rem_euclid(period);
            if place < dim { place } else { period - place }
        },
        Some("wrap") => i64::rem_euclid,
        Some(other) => return Err(format!("mode `{other}` is not supported").into()),
    };
    for (at, (begin, end)) in pads.into_iter().enumerate() {
        if (begin, end) == (0, 0) {
            continue;
        }
        // Crop before the rest is repeated.
        let shape = x.shape();
        let dim = long(dim_at(&shape, at)?);
        let (first, last) = ((-begin).max(0), dim - (-end).max(0));
        let kept = last - first;
        let (before, behind) = (begin.max(0), end.max(0));
        if kept < 0 || (kept == 0 && before.max(behind) > 0) {
            return Err(format!("padding of dim {dim} has no source elements").into());
        }
        let length = kept.saturating_add(before).saturating_add(behind);
        let mut whole = shape.clone();
        *at_mut(&mut whole, at)? = crate::dims::count(length)?;
        bounded(&whole)?;
        let places: Vec<i64> =
            (-before..kept + behind).map(|place| first + inside(place, kept)).collect();
        x = x.selected(at, &places)?;
    }
    one(x)
}

/// Crops or pads both ends with 0.
fn center(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?.clone();
    let shape = x.shape();
    let sizes = call.list(1)?;
    let axes: Vec<usize> = match call.ints("axes") {
        Some(axes) => axes.iter().map(|at| axis(*at, shape.len())).collect::<Outcome<_>>()?,
        None => (0..shape.len()).collect(),
    };
    if axes.len() != sizes.len() {
        return Err(format!("expected {} dims, found {}", axes.len(), sizes.len()).into());
    }
    let mut pads = vec![(0, 0); shape.len()];
    for (at, size) in axes.iter().zip(&sizes) {
        let missing = long(crate::dims::count(*size)?) - long(dim_at(&shape, *at)?);
        // The smaller half comes first.
        let begin = missing / 2;
        *at_mut(&mut pads, *at)? = (begin, missing - begin);
    }
    let zero = Dense::filled(0.0, x.dtype(), &[1])?;
    one(x.padded(&pads, &zero)?)
}

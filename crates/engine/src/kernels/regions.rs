//! Pooling of regions by their maximum.

use crate::call::{Call, Outputs, one};
use crate::dims::{bounded, count, whole};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[Operator::dense("MaxRoiPool", max_pool)];

/// The maximum number of elements that all regions read.
const MAX_READS: usize = 1 << 31;

/// Returns the maximum of each cell of each region, and 0 for cells without pixels: [regions, channels, height, width].
/// A region is the number of an image, and the left, top, right and bottom pixel, which are inside.
fn max_pool(call: &Call<'_>) -> Outputs {
    let (x, regions) = (call.input(0)?, call.input(1)?);
    let (shape, found) = (x.shape(), regions.shape());
    let (&[examples, channels, high, wide], &[many, 5]) = (shape.as_slice(), found.as_slice())
    else {
        return Err(format!("regions {found:?} do not fit {shape:?}").into());
    };
    let pooled = call.ints("pooled_shape").unwrap_or_default();
    let &[down, across] =
        pooled.iter().map(|dim| count(*dim)).collect::<Outcome<Vec<_>>>()?.as_slice()
    else {
        return Err("expected two pooled dims".into());
    };
    let dims = [many, channels, down, across];
    if bounded(&dims)? == 0 || shape.contains(&0) {
        return one(Dense::filled(0.0, x.dtype(), &dims)?);
    }
    // Each cell reads at most its share of the image, and one more row and column.
    let reads = (high + down)
        .checked_mul(wide + across)
        .and_then(|reads| reads.checked_mul(many * channels));
    if reads.is_none_or(|reads| reads > MAX_READS) {
        return Err(format!("{many} regions of {shape:?} are too large").into());
    }
    let (values, scale) = (x.to_doubles()?, f64::from(call.float("spatial_scale", 1.0)));
    let mut made = Vec::with_capacity(bounded(&dims)?);
    for region in regions.to_doubles()?.as_chunks::<5>().0 {
        let [image, edges @ ..] = *region;
        let [left, top, right, bottom] = edges.map(|edge| (edge * scale).round());
        let image = count(whole(image))?;
        if image >= examples || region.iter().any(|edge| !edge.is_finite()) {
            return Err(format!("region {region:?} is invalid").into());
        }
        let rows = cells(top, bottom, down, high);
        let columns = cells(left, right, across, wide);
        let planes = values.chunks_exact(high * wide).skip(image * channels).take(channels);
        for plane in planes {
            for row in &rows {
                for column in &columns {
                    // The maximum of an empty cell is 0.
                    made.push(greatest(plane, wide, row, column).unwrap_or(0.0));
                }
            }
        }
    }
    one(Dense::numbers(made, x.dtype(), &dims)?)
}

/// Returns the pixels of each cell along one dim.
fn cells(first: f64, last: f64, cells: usize, dim: usize) -> Vec<std::ops::Range<usize>> {
    let size = (last - first + 1.0).max(1.0) / cells as f64;
    let inside = |place: f64| crate::dims::elements((place + first).clamp(0.0, dim as f64));
    let cell = |number: usize| {
        let number = number as f64;
        inside((number * size).floor())..inside(((number + 1.0) * size).ceil())
    };
    (0..cells).map(cell).collect()
}

fn greatest(
    plane: &[f64],
    wide: usize,
    rows: &std::ops::Range<usize>,
    columns: &std::ops::Range<usize>,
) -> Option<f64> {
    let lines = plane.chunks_exact(wide).take(rows.end).skip(rows.start);
    let pixels = lines.flat_map(|line| line.get(columns.clone()).unwrap_or_default());
    pixels.copied().reduce(f64::max)
}

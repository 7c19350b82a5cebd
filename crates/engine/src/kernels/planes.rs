//! Maximum pooling of images.

use std::iter::StepBy;
use std::ops::Range;

use burn_backend::{Element, TensorData};
use rayon::prelude::*;

use super::windows::Windows;
use crate::item::{Item, Outcome};
use crate::threads::sharing;

/// The number of elements below which a thread handles further images.
const MIN_SHARE: usize = 1 << 14;

/// An image, and the windows over it.
pub(super) struct Planes<'w> {
    pub(super) windows: &'w Windows,
    /// Height and width.
    pub(super) dims: [usize; 2],
    /// The numbers of windows down and across.
    pub(super) steps: [usize; 2],
    /// How elements are counted for indices, if those are wanted.
    pub(super) places: Option<Order>,
}

/// The order of the elements of an image.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    RowMajor,
    ColumnMajor,
}

/// The windows across that have an element of a row at the same place of theirs.
struct Lane {
    windows: Range<usize>,
    /// The column of the element in the first of them.
    column: usize,
}

/// Where the windows of an image are.
struct Geometry {
    /// The rows of the windows at each step down.
    rows: Vec<StepBy<Range<usize>>>,
    lanes: Vec<Lane>,
    stride: usize,
}

impl Planes<'_> {
    /// Returns the maximum of each window, and its index in the whole tensor, if wanted: the first if several elements are
    /// equal. If a window has NaNs, only the elements after the last NaN count; if there are none, the result is that NaN.
    /// An empty window has the lowest value, and the index -1. `None` for types that are not floats.
    pub(super) fn greatest(&self, x: &Item) -> Outcome<Option<(Item, Option<Item>)>> {
        let data = x.clone().into_data()?;
        if let Ok(values) = data.as_slice::<f32>() {
            let found = self.all(values, &data, [f32::NAN, f32::NEG_INFINITY])?;
            return Ok(Some(found));
        }
        if let Ok(values) = data.as_slice::<f64>() {
            let found = self.all(values, &data, [f64::NAN, f64::NEG_INFINITY])?;
            return Ok(Some(found));
        }
        Ok(None)
    }

    fn all<T: Element + PartialOrd>(
        &self,
        values: &[T],
        data: &TensorData,
        [nan, lowest]: [T; 2],
    ) -> Outcome<(Item, Option<Item>)> {
        let ([height, width], [down, across]) = (self.dims, self.steps);
        let (size, each) = ((height * width).max(1), (down * across).max(1));
        let rows = self.windows.elements(0, height, down)?;
        let (lanes, stride) = self.windows.lanes(1, width, across)?;
        let geometry = Geometry { rows, lanes, stride };
        // Any element replaces NaN.
        let mut first = vec![lowest; across];
        for lane in &geometry.lanes {
            first.get_mut(lane.windows.clone()).unwrap_or_default().fill(nan);
        }
        let count = values.len() / size * each;
        let mut found = vec![lowest; count];
        let mut places = self.places.map(|_| vec![-1; count]);
        let mut left = places.as_mut().map(|places| places.chunks_mut(each));
        let images = values.chunks_exact(size).zip(found.chunks_mut(each)).enumerate();
        let images: Vec<_> = images
            .map(|(plane, (image, best))| {
                let places = left.as_mut().and_then(Iterator::next);
                (plane * size, image, best, places.unwrap_or_default())
            })
            .collect();
        let work = |(base, image, best, places): (usize, &[T], &mut [T], &mut [i64])| {
            self.image(&geometry, &first, (base, image), best, places);
        };
        match sharing() {
            1 => images.into_iter().for_each(work),
            _ => images.into_par_iter().with_min_len(MIN_SHARE.div_ceil(size)).for_each(work),
        }
        let mut shape = data.shape().to_vec();
        shape.truncate(2);
        shape.extend([down, across]);
        let places = places.map(|places| Item::from_data(TensorData::new(places, shape.clone())));
        Ok((Item::from_data(TensorData::new(found, shape)), places))
    }

    /// Fills the maxima of the windows of an image, and their indices unless that is empty. `first` is what a row of maxima
    /// begins with, `base` the index of the first element.
    fn image<T: Element + PartialOrd>(
        &self,
        geometry: &Geometry,
        first: &[T],
        (base, image): (usize, &[T]),
        best: &mut [T],
        places: &mut [i64],
    ) {
        let ([height, width], columns) = (self.dims, self.places == Some(Order::ColumnMajor));
        let mut places = places.chunks_mut(first.len().max(1));
        for (rows, best) in geometry.rows.iter().zip(best.chunks_mut(first.len().max(1))) {
            let places = places.next().unwrap_or_default();
            if rows.len() > 0 {
                best.copy_from_slice(first);
            }
            for row in rows.clone() {
                let line = image.get(row * width..(row + 1) * width).unwrap_or_default();
                for Lane { windows, column } in &geometry.lanes {
                    let line = line.get(*column..).unwrap_or_default();
                    let best = best.get_mut(windows.clone()).unwrap_or_default();
                    let places = places.get_mut(windows.clone()).unwrap_or_default();
                    let (place, step) = match columns {
                        true => (column * height + row, geometry.stride * height),
                        false => (row * width + column, geometry.stride),
                    };
                    take(line, geometry.stride, best, places, [base + place, step]);
                }
            }
        }
    }
}

impl Windows {
    /// Returns the windows over the elements of an axis by their places in the window, and the distance of the windows.
    fn lanes(&self, axis: usize, dim: usize, steps: usize) -> Outcome<(Vec<Lane>, usize)> {
        let at = |list: &[usize]| super::dim_at(list, axis);
        let (size, stride, apart) = (at(&self.size)?, at(&self.strides)?, at(&self.dilations)?);
        let befores: Vec<usize> = self.pads.iter().map(|(before, _)| *before).collect();
        let before = at(&befores)?;
        let lane = |number: usize| {
            let shift = number * apart;
            let begin = before.saturating_sub(shift).div_ceil(stride);
            let end = (dim + before).saturating_sub(shift).div_ceil(stride).min(steps);
            let column = (begin * stride + shift).saturating_sub(before);
            (begin < end).then_some(Lane { windows: begin..end, column })
        };
        Ok(((0..size).filter_map(lane).collect(), stride))
    }
}

/// Compares every `stride`th element of a line with a maximum each. Those that are not at most the maximum replace it, and
/// its index, unless there are none.
fn take<T: Element + PartialOrd>(
    line: &[T],
    stride: usize,
    best: &mut [T],
    places: &mut [i64],
    [place, step]: [usize; 2],
) {
    // Fixed distances, which the compiler can turn into vectors.
    match stride {
        1 => replace(line.iter(), best, places, [place, step]),
        2 => {
            let (pairs, _) = line.as_chunks::<2>();
            let whole = pairs.len().min(best.len());
            let (now, last) = best.split_at_mut(whole);
            let (places_now, places_last) = places.split_at_mut(whole.min(places.len()));
            replace(pairs.iter().map(|[first, _]| first), now, places_now, [place, step]);
            let rest = line.get(2 * whole..).unwrap_or_default();
            replace(rest.iter().take(1), last, places_last, [place + whole * step, step]);
        }
        _ => replace(line.iter().step_by(stride), best, places, [place, step]),
    }
}

fn replace<'a, T: Element + PartialOrd>(
    values: impl Iterator<Item = &'a T>,
    best: &mut [T],
    places: &mut [i64],
    [place, step]: [usize; 2],
) {
    // A NaN fails both comparisons: it is taken, and replaced by the next element.
    if places.is_empty() {
        for (best, value) in best.iter_mut().zip(values) {
            *best = if *best >= *value { *best } else { *value };
        }
        return;
    }
    // An index of an element fits.
    let (mut place, step) = (place.cast_signed() as i64, step.cast_signed() as i64);
    for ((best, known), value) in best.iter_mut().zip(places).zip(values) {
        let stays = *best >= *value;
        *best = if stays { *best } else { *value };
        *known = if stays { *known } else { place };
        place += step;
    }
}

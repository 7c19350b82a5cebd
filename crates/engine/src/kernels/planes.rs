//! Maximum pooling of images.

use std::iter::StepBy;
use std::ops::Range;

use burn_backend::{Element, TensorData};

use super::windows::Windows;
use crate::item::{Item, Outcome};

/// An image, and the windows over it.
pub(super) struct Planes<'w> {
    pub(super) windows: &'w Windows,
    /// Height and width.
    pub(super) dims: [usize; 2],
    /// The numbers of windows down and across.
    pub(super) steps: [usize; 2],
    /// Whether indices are counted in column-major order within each image.
    pub(super) columns: bool,
}

impl Planes<'_> {
    /// Returns the maximum of each window, and its index in the whole tensor: the first if several elements are equal.
    /// If a window has NaNs, only the elements after the last NaN count; if there are none, the result is that NaN. An
    /// empty window has the lowest value, and the index -1. `None` for types that are not floats.
    pub(super) fn greatest(&self, x: &Item) -> Outcome<Option<[Item; 2]>> {
        let data = x.clone().into_data()?;
        if let Ok(values) = data.as_slice::<f32>() {
            return Ok(Some(self.all(values, &data, f32::NEG_INFINITY)?));
        }
        if let Ok(values) = data.as_slice::<f64>() {
            return Ok(Some(self.all(values, &data, f64::NEG_INFINITY)?));
        }
        Ok(None)
    }

    fn all<T: Element + PartialOrd>(
        &self,
        values: &[T],
        data: &TensorData,
        lowest: T,
    ) -> Outcome<[Item; 2]> {
        let ([height, width], [down, across]) = (self.dims, self.steps);
        let size = height * width;
        let (mut found, mut places) = (Vec::new(), Vec::new());
        let rows = self.windows.elements(0, height, down)?;
        let columns = self.windows.elements(1, width, across)?;
        for (plane, image) in values.chunks_exact(size.max(1)).enumerate() {
            for row in &rows {
                for column in &columns {
                    let best = greatest(image, width, row, column);
                    found.push(best.map_or(lowest, |(value, _)| value));
                    let place = best.map(|(_, place)| plane * size + self.number(place));
                    places.push(place.and_then(|place| i64::try_from(place).ok()).unwrap_or(-1));
                }
            }
        }
        let mut shape = data.shape().to_vec();
        shape.truncate(2);
        shape.extend([down, across]);
        Ok([
            Item::from_data(TensorData::new(found, shape.clone())),
            Item::from_data(TensorData::new(places, shape)),
        ])
    }

    /// Converts a row-major index to the index of the element.
    fn number(&self, place: usize) -> usize {
        let [height, width] = self.dims;
        if self.columns { place % width * height + place / width } else { place }
    }
}

/// Returns the maximum of some rows and columns of an image, and its index; `None` if there are no elements.
fn greatest<T: Element + PartialOrd>(
    image: &[T],
    width: usize,
    rows: &StepBy<Range<usize>>,
    columns: &StepBy<Range<usize>>,
) -> Option<(T, usize)> {
    let (row, column) = (rows.clone().next()?, columns.clone().next()?);
    let mut place = row * width + column;
    let mut best = *image.get(place)?;
    for row in rows.clone() {
        let line = image.get(row * width..(row + 1) * width)?;
        for column in columns.clone() {
            let value = *line.get(column)?;
            // A NaN fails both comparisons: it is taken, and replaced by the next element.
            if !best.ge(&value) {
                (best, place) = (value, row * width + column);
            }
        }
    }
    Some((best, place))
}

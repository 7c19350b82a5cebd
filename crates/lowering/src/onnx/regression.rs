//! Boxes that a network moves: regions of images, and deltas of their centers and sizes, for each class.
//!
//! | framework | what it means there | by |
//! |---|---|---|
//! | Caffe2, `BBoxTransform` | regions are those of the scaled image, whose size and scale are a row of `im_info`; results too with `apply_scale` | `bbox_transform_op.cc`; recorded `bbox_transform` |
//! | Caffe2, images of regions | the indices are only counted: as many regions as have the first index are those of the first image, whatever their order | `bbox_transform_op.cc`; recorded `bbox_transform_unordered` |
//! | Glow, `BBoxTransform` | the same | `InterpreterNodes.cpp` |

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::boxes::{Edge, MAX_GROWTH, Measure, each};
use super::required::required_dim;
use super::{Graph, Size, Value};

type Made<T = Value> = Result<T, Finding>;

/// How boxes are moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Regression {
    /// What the deltas are divided by: across, down, of the width and the height.
    pub(crate) weights: [f32; 4],
    /// Whether results are those of the scaled image.
    pub(crate) is_scaled: bool,
    pub(crate) edge: Edge,
}

/// Regions, and the images that they are in.
pub(crate) struct OfImages {
    /// The number of regions of each image.
    pub(crate) counts: Value,
    /// Without the index of the image.
    pub(crate) regions: Value,
    /// `[regions, classes, numbers]`
    pub(crate) deltas: Value,
    /// Of the image of each region: `[regions, 1]`.
    pub(crate) height: Value,
    pub(crate) width: Value,
    pub(crate) scale: Value,
    /// The number of regions, or -1 if it is unknown.
    pub(crate) rows: i64,
    /// The number of deltas of a region.
    pub(crate) columns: i64,
}

impl Graph {
    /// Moves regions `[regions, 4]`, or `[regions, 5]` with the index of the image first, by deltas `[regions, 4 * classes]`,
    /// in images of height, width and scale: `[images, 3]`. Returns the boxes, and the number of them for each image.
    pub(crate) fn regressed(
        &mut self,
        [regions, deltas, images]: [&Value; 3],
        how: Regression,
    ) -> Made<[Value; 2]> {
        let OfImages { counts, regions, deltas, height, width, scale, rows, columns } =
            self.of_images([regions, deltas, images], 4)?;
        let regions = self.div(&regions, &scale)?;
        let regions = self.corners(&regions)?;
        let regions = self.spread(&regions, &[1])?;
        let weights = self.singles(&how.weights);
        let deltas = self.div(&deltas, &weights)?;
        let deltas = self.corners(&deltas)?;
        let anchors = self.centered(&regions, Measure::half(how.edge))?;
        let moved = self.decoded(&deltas, &anchors, Some(MAX_GROWTH))?;
        let corners = self.cornered(&moved, Measure::half(how.edge))?;
        let (right, bottom) = (
            self.last_pixel(&width, &scale, how.edge)?,
            self.last_pixel(&height, &scale, how.edge)?,
        );
        let mut lasts = [&right, &bottom].into_iter().cycle();
        let corners = each(&corners, |corner| {
            let last = lasts.next().ok_or("an edge was lost")?;
            let corner = self.clipped(corner, last)?;
            if how.is_scaled { self.mul(&corner, &scale) } else { Ok(corner) }
        })?;
        let boxes = self.stacked(&corners.each_ref())?;
        let boxes = self.reshape(&boxes, &[rows, columns])?;
        Ok([boxes, counts])
    }
    /// Returns the last pixel of each image before it was scaled; images have whole pixels.
    pub(crate) fn last_pixel(&mut self, size: &Value, scale: &Value, edge: Edge) -> Made {
        let size = self.div(size, scale)?;
        let size = self.plus(&size, 0.5)?;
        let size = self.call("Floor", &[&size], [])?;
        self.plus(&size, -edge.excess())
    }

    /// Assigns regions `[regions, numbers]`, or with the index of the image first, to images. There are `numbers` deltas of
    /// each class, too.
    pub(crate) fn of_images(
        &mut self,
        [regions, deltas, images]: [&Value; 3],
        numbers: i64,
    ) -> Made<OfImages> {
        let (count, batch) = (self.size_of(regions, 0)?, self.size_of(images, 0)?);
        let columns = required_dim(deltas, 1)?;
        let number_of = |graph: &mut Self, number: &Value| {
            let zeros = graph.filled_to(DType::Float32, 0.0, &[batch])?;
            let ones = graph.filled_to(DType::Float32, 1.0, std::slice::from_ref(&count))?;
            graph.put_elements(&zeros, number, &ones, 0, "add")
        };
        // The index of the image of each box, and the number of boxes of each image.
        let (number, counts, regions) = match required_dim(regions, 1)? {
            found if found == numbers => {
                let number = self.filled_to(DType::Int64, 0.0, std::slice::from_ref(&count))?;
                let counts = number_of(self, &number)?;
                (number, counts, regions.clone())
            }
            found if found == numbers + 1 => {
                let number = self.slice(regions, 1, 0, 1)?;
                let number = self.reshape(&number, &[-1])?;
                let number = self.cast(&number, DType::Int64)?;
                let regions = self.slice(regions, 1, 1, numbers + 1)?;
                let counts = number_of(self, &number)?;
                (self.segments_of(&counts, &count)?.number, counts, regions)
            }
            other => {
                let least = numbers + 1;
                return Err(format!(
                    "expected regions of {numbers} or {least} numbers, found {other}"
                )
                .into());
            }
        };
        if columns % numbers != 0 {
            return Err(format!("expected {numbers} deltas for each class, found {columns}").into());
        }
        let of_box = self.gather(images, &number, 0)?;
        let mut column = |at: i64| self.slice(&of_box, 1, at, at + 1);
        let (height, width, scale) = (column(0)?, column(1)?, column(2)?);
        let rows = match count {
            Size::Known(count) => count,
            Size::Value(_) => -1,
        };
        let deltas = self.reshape(deltas, &[rows, columns / numbers, numbers])?;
        Ok(OfImages { counts, regions, deltas, height, width, scale, rows, columns })
    }
}

//! Regions of images: what is pooled of them.
//!
//! | framework and release | what it means there | by |
//! |---|---|---|
//! | PaddlePaddle, `roi_align` | `aligned` moves regions by half a pixel; without it, they have at least a pixel; 0 or fewer samples: as many as a cell has pixels. Empty regions without samples are NaN; here, they are 0 | run, 2.6.2 |
//! | MXNet 1.9.1, `ROIAlign` | the same; regions of image -1 are 0 | run, 1.9.1 |
//! | MXNet 1.9.1, `ROIPooling` | ends are rounded, halves away from 0; regions of image -1 are 0 | run, 1.9.1 |
//! | torchvision, `roi_align`, `roi_pool` | as PaddlePaddle | run, 0.29 |
//! | Caffe2, `RoIAlign` | as PaddlePaddle; the image may be the first number of a region | `roi_align_op.cc`; recorded `roi_align` |
//! | Glow, `ROIAlign` | as PaddlePaddle; the image may be the first number of a region | `InterpreterNodes.cpp` |

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::{Graph, Value, float, int, ints, text};

type Made<T = Value> = Result<T, Finding>;

/// How regions are averaged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Align {
    /// Whether pixels are areas, so that their centers are at half numbers.
    pub(crate) is_aligned: bool,
    /// The rows and columns of cells.
    pub(crate) cells: [i64; 2],
    /// The samples of a cell in each direction; with 0 or less, as many as it has pixels.
    pub(crate) samples: i64,
    pub(crate) scale: f32,
}

impl Graph {
    /// Splits rows of (image, left, top, right, bottom) into images and boxes.
    pub(crate) fn images_and_boxes(&mut self, rows: &Value) -> Made<[Value; 2]> {
        let images = self.slice(rows, 1, 0, 1)?;
        let images = self.reshape(&images, &[-1])?;
        Ok([self.cast(&images, DType::Int64)?, self.slice(rows, 1, 1, 5)?])
    }

    /// Averages samples of each cell of boxes `[regions, 4]`.
    pub(crate) fn align(&mut self, x: &Value, boxes: &Value, images: &Value, how: Align) -> Made {
        let mode = if how.is_aligned { "half_pixel" } else { "output_half_pixel" };
        let attributes = [
            text("mode", "avg"),
            text("coordinate_transformation_mode", mode),
            int("output_height", how.cells[0]),
            int("output_width", how.cells[1]),
            int("sampling_ratio", how.samples.max(0)),
            float("spatial_scale", how.scale),
        ];
        self.call("RoiAlign", &[x, boxes, images], attributes)
    }

    /// Returns the maximum of each cell of rows of (image, left, top, right, bottom).
    pub(crate) fn pool_regions(
        &mut self,
        x: &Value,
        rows: &Value,
        cells: [i64; 2],
        scale: f32,
    ) -> Made {
        self.call(
            "MaxRoiPool",
            &[x, rows],
            [ints("pooled_shape", &cells), float("spatial_scale", scale)],
        )
    }
}

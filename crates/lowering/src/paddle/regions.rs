//! Regions of images: pooling, and the images that they belong to.

use lodstone_model::DType;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::Value;
use crate::onnx::regions::Align;
use crate::onnx::required::required_dim;

pub(super) const RULES: &[(&str, Rule)] = &[("roi_align", roi_align), ("roi_pool", roi_pool)];

impl Operator<'_> {
    /// Returns the image of each row, given the offset of the first row of each image, and of the end.
    pub(super) fn images_by_offsets(&mut self, rows: &Value, offsets: &Value) -> Outcome<Value> {
        let ends = self.slice(offsets, 0, 1, i64::MAX)?;
        self.images_by_ends(rows, &ends)
    }

    /// Returns the image of each row, given the number of rows of each image.
    pub(super) fn images_by_counts(&mut self, rows: &Value, counts: &Value) -> Outcome<Value> {
        let counts = self.reshape(counts, &[-1])?;
        let counts = self.cast(&counts, DType::Int64)?;
        let along = self.long(0);
        let ends = self.call("CumSum", &[&counts, &along], [])?;
        self.images_by_ends(rows, &ends)
    }

    /// The image of a row is the number of images that end before it.
    fn images_by_ends(&mut self, rows: &Value, ends: &Value) -> Outcome<Value> {
        let count = self.extent(rows, 0)?;
        let numbers = self.counting(&count, DType::Int64)?;
        let column = self.unsqueeze(&numbers, &[1])?;
        let is_after = self.call("GreaterOrEqual", &[&column, ends], [])?;
        let is_after = self.cast(&is_after, DType::Int64)?;
        self.reduce("ReduceSum", &is_after, &[1], false)
    }

    /// Returns the image of each region, by `RoisNum`, or by LoD; all regions are those of a single image.
    pub(super) fn images(&mut self, rois: &Value, slot: &str, counts: &str) -> Outcome<Value> {
        if let Some(counts) = self.optional(counts)? {
            return self.images_by_counts(rois, &counts);
        }
        if let Some(offsets) = self.offsets(slot) {
            return self.images_by_offsets(rois, &offsets);
        }
        match self.optional("X")?.map(|x| required_dim(&x, 0)) {
            Some(Ok(1)) => {
                let count = self.dim(rois, 0)?;
                self.filled_by(DType::Int64, 0.0, &count)
            }
            _ => {
                Err(format!("the images of the regions must be known by `{counts}` or LoD").into())
            }
        }
    }
}

/// Averages samples of each cell of regions.
fn roi_align(op: &mut Operator<'_>) -> Outcome {
    let (x, rois) = (op.input("X")?, op.input("ROIs")?);
    let images = op.images(&rois, "ROIs", "RoisNum")?;
    let how = Align {
        is_aligned: op.flag("aligned")?,
        cells: [op.int("pooled_height")?, op.int("pooled_width")?],
        samples: op.int("sampling_ratio")?,
        scale: op.float("spatial_scale")?,
    };
    let y = op.align(&x, &rois, &images, how)?;
    op.put("Out", &y)
}

/// The maximum of each cell of regions. `Argmax`, which serves the gradient, is not computed.
fn roi_pool(op: &mut Operator<'_>) -> Outcome {
    let (x, rois) = (op.input("X")?, op.input("ROIs")?);
    let images = op.images(&rois, "ROIs", "RoisNum")?;
    let images = op.cast(&images, rois.dtype())?;
    let images = op.unsqueeze(&images, &[1])?;
    let rois = op.concat(&[&images, &rois], 1)?;
    let cells = [op.int("pooled_height")?, op.int("pooled_width")?];
    let scale = op.float("spatial_scale")?;
    let y = op.pool_regions(&x, &rois, cells, scale)?;
    op.put("Out", &y)
}

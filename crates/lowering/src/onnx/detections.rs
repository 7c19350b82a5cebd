//! Boxes that are found in images: how many each image has, and the best of each.
//!
//! | framework and release | what it means there | by |
//! |---|---|---|
//! | PaddlePaddle, `keep_top_k` | a negative one is no limit; the order of equal scores is that of a stable sort | `multiclass_nms3_kernel.cc` |
//! | Caffe2, `detections_per_im` | 0 or less is no limit; the order of equal scores is not specified, here it is by class | `box_with_nms_limit_op.cc` |

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::{Graph, Value, int};

type Made<T = Value> = Result<T, Finding>;

impl Graph {
    /// Counts the rows of each image; `marks` are the rows that count.
    pub(crate) fn image_counts(
        &mut self,
        images: &Value,
        count: &Value,
        marks: Option<&Value>,
    ) -> Made {
        let numbers = self.counting(count, DType::Int64)?;
        let column = self.unsqueeze(images, &[1])?;
        let mut own = self.call("Equal", &[&column, &numbers], [])?;
        if let Some(marks) = marks {
            let marks = self.unsqueeze(marks, &[1])?;
            own = self.call("And", &[&own, &marks], [])?;
        }
        let own = self.cast(&own, DType::Int64)?;
        self.reduce("ReduceSum", &own, &[0], false)
    }

    /// Returns which of the boxes are the best of their image, in their order. `images` has the image of each box, as a
    /// column, and the number of images; without it, there is only one.
    pub(crate) fn best_of_images(
        &mut self,
        scores: &Value,
        images: Option<(&Value, &Value)>,
        most: i64,
    ) -> Made {
        let best = match images {
            None => {
                let [_, best] = self.highest(scores, Some(most), true)?;
                best
            }
            Some((image, count)) => {
                let [_, order] = self.highest(scores, None, true)?;
                let image = self.gather(image, &order, 0)?;
                // The rank of each box among those of its image, from 1.
                let (numbers, zero) = (self.counting(count, DType::Int64)?, self.long(0));
                let own = self.call("Equal", &[&image, &numbers], [])?;
                let own = self.cast(&own, DType::Int32)?;
                let ranks = self.call("CumSum", &[&own, &zero], [])?;
                let ranks = self.mul(&ranks, &own)?;
                let ranks = self.reduce("ReduceSum", &ranks, &[1], false)?;
                #[expect(clippy::cast_precision_loss, reason = "it is a number of boxes")]
                let most = self.number(DType::Int32, most as f64)?;
                let is_kept = self.call("LessOrEqual", &[&ranks, &most], [])?;
                self.call("Compress", &[&order, &is_kept], [int("axis", 0)])?
            }
        };
        let [sorted, _] = self.highest(&best, None, false)?;
        Ok(sorted)
    }
}

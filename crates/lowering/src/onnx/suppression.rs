//! Suppression of boxes that overlap better ones, by `NonMaxSuppression`.
//!
//! ONNX suppresses boxes whose overlap is more than a single-precision threshold, from 0 to 1, and takes corners in any
//! order. In the other frameworks, a box reversed along an axis is suppressed by none and suppresses none: it is empty
//! here.
//!
//! | framework and release | what it means there | by |
//! |---|---|---|
//! | PaddlePaddle, `multiclass_nms`, `nms` | [`Threshold::Above`]; a negative one leaves the best box of each class, and above 1 all remain | run with -1 and 2, 2.6.2 |
//! | PaddlePaddle, `generate_proposals` | the same; with a threshold of 0 or less, nothing is suppressed, `post_nms_topN` does not count, and the order is that of a partial sort; here, it is by score | run with 0 and -1, 2.6.2 |
//! | PaddlePaddle, `nms_eta` | below 1, thresholds above 0.5 fall with each box: ONNX has no equivalent | `nms_util.h`, `NMSFast` |
//! | PaddlePaddle, empty boxes | of two normalized boxes without area that touch, one is suppressed (0 / 0), and a box reversed along both axes suppresses those around it; here, they remain | run, 2.6.2 |
//! | PaddlePaddle, `normalized` false | pixel boxes less than a pixel apart do not overlap; here, they do | `nms_util.h`, `JaccardOverlap` |
//! | MXNet 1.9.1, `box_nms` | [`Threshold::Above`]; boxes of class `background_id` are dropped, by default those of -1; classes are rounded towards 0; a `topk` of 0 returns the input | run, 1.9.1 |
//! | MXNet 1.9.1, `MultiBoxDetection` | [`Threshold::AtLeast`] | run with 1, 1.9.1 |
//! | MXNet 1.9.1, `Proposal` | [`Threshold::Above`]; the last pixel is inside | `proposal.cc`, `NonMaximumSuppression` |
//! | torchvision, `nms` | [`Threshold::Above`], compared in double precision: boxes that overlap by 0.3 are suppressed at 0.3, which is less in double precision | run, 0.29 |
//! | Caffe2, `GenerateProposals`, `BoxWithNMSLimit` | [`Threshold::Above`]; the last pixel is inside by `legacy_plus_one`; without it, the best box without area suppresses all others without area (0 / 0), by [`without_empty`](Graph::without_empty); the order of equal scores is not specified, here it is that of the boxes | `generate_proposals_op_util_nms.h`; recorded `box_limit_empty` |
//! | Glow, `NonMaxSuppression` | as ONNX | `InterpreterNodes.cpp` |

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::boxes::{Corners, Edge};
use super::{Graph, Size, Value, int};

type Made<T = Value> = Result<T, Finding>;

/// Lower than any score.
pub(crate) const BOTTOM: f64 = -3e38;

/// A number of boxes that is no limit.
const UNLIMITED: i64 = i32::MAX as i64;

/// The overlap with a better box of which a box is suppressed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Threshold {
    Above(f64),
    AtLeast(f32),
}

/// How boxes are suppressed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suppression {
    pub(crate) threshold: Threshold,
    pub(crate) edge: Edge,
    /// The maximum number of boxes of each class.
    pub(crate) most: i64,
    /// Only boxes with a higher score take part.
    pub(crate) above: Option<f64>,
}

impl Suppression {
    /// Suppresses all boxes that overlap better ones by more than a threshold.
    pub(crate) const fn above(threshold: f64) -> Self {
        let threshold = Threshold::Above(threshold);
        Self { threshold, edge: Edge::Exclusive, most: UNLIMITED, above: None }
    }

    /// Fails if the threshold falls with each box that remains: it does above 0.5, with a factor below 1.
    pub(crate) fn check_factor(self, name: &str, factor: f32) -> Made<()> {
        match self.threshold {
            Threshold::Above(threshold) if factor < 1.0 && threshold > 0.5 => Err(format!(
                "ONNX has no suppression with an adaptive threshold (`{name}` below 1)"
            )
            .into()),
            Threshold::Above(_) | Threshold::AtLeast(_) => Ok(()),
        }
    }

    /// Returns the threshold and the maximum number of boxes that ONNX has.
    fn limits(self) -> Made<(f32, i64)> {
        let threshold = match self.threshold {
            Threshold::Above(threshold) => rounded_down(threshold),
            Threshold::AtLeast(threshold) => threshold.next_down(),
        };
        match threshold {
            0.0..=1.0 => Ok((threshold, self.most)),
            // Any box is suppressed by the best one.
            _ if threshold < 0.0 => Ok((0.0, self.most.min(1))),
            _ if threshold > 1.0 => Ok((1.0, self.most)),
            _ => Err("expected an overlap as threshold, found NaN".into()),
        }
    }
}

/// Returns the highest number of single precision that is not above one of double precision.
#[expect(clippy::cast_possible_truncation, reason = "it is rounded down below")]
fn rounded_down(number: f64) -> f32 {
    let single = number as f32;
    if f64::from(single) > number { single.next_down() } else { single }
}

impl Graph {
    /// Returns rows of (example, class, box) of the boxes that remain, by class and falling score. `corners` are `[batch,
    /// boxes]`, `scores` `[batch, classes, boxes]`.
    pub(crate) fn suppressed(
        &mut self,
        corners: &Corners,
        scores: &Value,
        how: Suppression,
    ) -> Made {
        let [left, top, right, bottom] = corners;
        let mut end = |low: &Value, high: &Value| {
            let high = match how.edge {
                Edge::Exclusive => high.clone(),
                Edge::Inclusive => self.plus(high, 1.0)?,
            };
            // A reversed box is empty.
            self.call("Max", &[low, &high], [])
        };
        let (right, bottom) = (end(left, right)?, end(top, bottom)?);
        let boxes = self.stacked(&[top, left, &bottom, &right])?;
        self.suppressed_as_onnx(&boxes, scores, how, None)
    }

    /// The same for boxes `[batch, boxes, 4]` that ONNX measures: corners in any order, or centers and sizes. Whether
    /// they are is only declared if given.
    pub(crate) fn suppressed_as_onnx(
        &mut self,
        boxes: &Value,
        scores: &Value,
        how: Suppression,
        is_centered: Option<bool>,
    ) -> Made {
        let (threshold, most) = how.limits()?;
        let (boxes, scores) =
            (self.cast(boxes, DType::Float32)?, self.cast(scores, DType::Float32)?);
        let most = self.long(most);
        let threshold = self.number(DType::Float32, threshold.into())?;
        let mut inputs = vec![Some(&boxes), Some(&scores), Some(&most), Some(&threshold)];
        let above = match how.above {
            Some(above) => Some(self.number(DType::Float32, above)?),
            None => None,
        };
        inputs.extend(above.as_ref().map(Some));
        let attributes = is_centered.map(|is| int("center_point_box", i64::from(is)));
        let [kept] = self.emit_all("NonMaxSuppression", &inputs, attributes)?;
        Ok(kept)
    }

    /// Returns scores `[batch, classes, boxes]` in which those of boxes without area are infinitely low, except for the best
    /// one of each class. `corners` are `[batch, boxes]`.
    pub(crate) fn without_empty(&mut self, corners: &Corners, scores: &Value) -> Made {
        let [width, height] = self.sides(corners, Edge::Exclusive)?;
        let area = self.mul(&width, &height)?;
        let (zero, lowest) =
            (self.number(area.dtype(), 0.0)?, self.number(scores.dtype(), f64::NEG_INFINITY)?);
        let is_empty = self.call("Equal", &[&area, &zero], [])?;
        // [batch, 1, boxes]
        let is_empty = self.unsqueeze(&is_empty, &[1])?;
        let ranked = self.choose(&is_empty, scores, &lowest)?;
        // There may be no boxes, of which none is the best.
        let mut sizes = self.sizes_of(&ranked)?;
        if let Some(boxes) = sizes.last_mut() {
            *boxes = Size::Known(1);
        }
        let none = self.filled_to(ranked.dtype(), f64::NEG_INFINITY, &sizes)?;
        let ranked = self.concat(&[&ranked, &none], -1)?;
        let best = self.call("ArgMax", &[&ranked], [int("axis", -1), int("keepdims", 1)])?;
        let count = self.extent(scores, 2)?;
        let places = self.counting(&count, DType::Int64)?;
        let is_other = self.call("Equal", &[&places, &best], [])?;
        let is_other = self.call("Not", &[&is_other], [])?;
        let is_dropped = self.call("And", &[&is_empty, &is_other], [])?;
        self.choose(&is_dropped, &lowest, scores)
    }

    /// Returns a number for each box: 1 if it is among the rows of (example, class, box), and 0 if not. `like` is `[batch,
    /// boxes]`.
    pub(crate) fn marked(&mut self, kept: &Value, like: &Value) -> Made {
        let columns = self.longs(&[0, 2]);
        let places = self.gather(kept, &columns, 1)?;
        let none = self.constant_like(like, DType::Float32, 0.0)?;
        let count = self.dim(kept, 0)?;
        let one = self.number(DType::Float32, 1.0)?;
        let ones = self.call("Expand", &[&one, &count], [])?;
        self.put_slices(&none, &places, &ones, "none")
    }

    /// Returns numbers that descend to 1 along the last dim of `like`: scores of boxes in order.
    pub(crate) fn ranks(&mut self, like: &Value) -> Made {
        let last = like.rank()?.last()?.number();
        let count = self.extent(like, last)?;
        let numbers = self.counting(&count, DType::Float32)?;
        let count = self.cast(&count, DType::Float32)?;
        self.sub(&count, &numbers)
    }
}

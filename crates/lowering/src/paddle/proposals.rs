//! Proposed regions: generated from the scores of anchors, and distributed to and collected from the levels of a pyramid.

use lodstone_model::DType;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::Value;
use crate::onnx::boxes::{Centered, Edge, Measure};
use crate::onnx::pyramid::{Levels, Logarithm};
use crate::onnx::suppression::{BOTTOM, Suppression, Threshold};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("collect_fpn_proposals", collect),
    ("distribute_fpn_proposals", distribute),
    ("generate_proposals", |op| generate(op, "ImInfo")),
    ("generate_proposals_v2", |op| generate(op, "ImShape")),
];

impl Operator<'_> {
    /// Returns the images of rows by the number of rows of each image, or by LoD, and the number of images. Without
    /// either, there is a single image.
    pub(super) fn images_of(
        &mut self,
        rows: &Value,
        slot: &str,
        counts: Option<&Value>,
    ) -> Outcome<[Value; 2]> {
        if let Some(counts) = counts {
            let counts = self.reshape(counts, &[-1])?;
            let images = self.images_by_counts(rows, &counts)?;
            return Ok([images, self.extent(&counts, 0)?]);
        }
        self.images_of_level(rows, slot, 0)
    }

    /// Returns the images of the rows of a variable of a slot by LoD, and the number of images.
    fn images_of_level(&mut self, rows: &Value, slot: &str, number: usize) -> Outcome<[Value; 2]> {
        if let Some(offsets) = self.offsets_at(slot, number) {
            let images = self.images_by_offsets(rows, &offsets)?;
            let (count, one) = (self.extent(&offsets, 0)?, self.long(1));
            return Ok([images, self.sub(&count, &one)?]);
        }
        let count = self.dim(rows, 0)?;
        Ok([self.filled_by(DType::Int64, 0.0, &count)?, self.long(1)])
    }

    /// Returns the offsets of sequences, given their lengths.
    pub(super) fn offsets_of(&mut self, counts: &Value) -> Outcome<Value> {
        let (along, zero) = (self.long(0), self.longs(&[0]));
        let ends = self.call("CumSum", &[counts, &along], [])?;
        self.concat(&[&zero, &ends], 0)
    }
}

/// Assigns regions to levels by the logarithm of their size.
fn distribute(op: &mut Operator<'_>) -> Outcome {
    let (rois, counts) = (op.input("FpnRois")?, op.optional("RoisNum")?);
    let levels = Levels {
        least: op.int("min_level")?,
        most: op.int("max_level")?,
        reference: op.int("refer_level")?,
        scale: op.int("refer_scale")?,
        logarithm: Logarithm::Binary,
    };
    let edge = Edge::inclusive_if(op.flag_or_true("pixel_offset")?);
    let dtype = rois.dtype();
    let [images, count] = op.images_of(&rois, "FpnRois", counts.as_ref())?;
    let [left, top, right, bottom] = op.corners(&rois)?;
    let zero = op.number(dtype, 0.0)?;
    let mut side = |low: &Value, high: &Value| {
        let side = op.sub(high, low)?;
        let is_none = op.call("Less", &[&side, &zero], [])?;
        let side = op.plus(&side, edge.excess())?;
        op.choose(&is_none, &zero, &side)
    };
    let (width, height) = (side(&left, &right)?, side(&top, &bottom)?);
    let area = op.mul(&width, &height)?;
    let size = op.call("Sqrt", &[&area], [])?;
    let (mut parts, mut places, mut numbers, mut offsets) = (vec![], vec![], vec![], vec![]);
    for own in op.regions_of_levels(&size, levels)? {
        let place = op.places(&own)?;
        parts.push(op.gather(&rois, &place, 0)?);
        places.push(place);
        let counts = op.image_counts(&images, &count, Some(&own))?;
        offsets.push(op.offsets_of(&counts)?);
        numbers.push(op.cast(&counts, DType::Int32)?);
    }
    op.put_all("MultiFpnRois", &parts)?;
    op.put_offsets("MultiFpnRois", &offsets);
    op.put_all("MultiLevelRoIsNum", &numbers)?;
    let restored = op.restored(&places)?;
    let restored = op.unsqueeze(&restored, &[1])?;
    op.put("RestoreIndex", &restored)
}

/// The regions of all levels with the highest scores, grouped by image.
fn collect(op: &mut Operator<'_>) -> Outcome {
    let (rois, scores) = (op.inputs("MultiLevelRois")?, op.inputs("MultiLevelScores")?);
    let (counts, most) = (op.inputs("MultiLevelRoIsNum")?, op.int("post_nms_topN")?);
    if rois.is_empty() || rois.len() != scores.len() || most < 0 {
        return Err(
            format!("expected scores of {} levels, found {}", rois.len(), scores.len()).into()
        );
    }
    let (mut images, mut lists, mut count) = (Vec::new(), Vec::new(), None);
    for (level, (rois, scores)) in rois.iter().zip(&scores).enumerate() {
        let [own, number] = match counts.get(level) {
            Some(counts) => op.images_of(rois, "", Some(counts))?,
            None => op.images_of_level(rois, "MultiLevelRois", level)?,
        };
        images.push(own);
        count = Some(number);
        lists.push(op.reshape(scores, &[-1])?);
    }
    let count = count.ok_or("expected at least one level")?;
    let all = |op: &mut Operator<'_>, parts: &[Value]| match parts {
        [one] => Ok(one.clone()),
        parts => op.concat(&parts.iter().collect::<Vec<_>>(), 0),
    };
    let (rois, scores, images) = (all(op, &rois)?, all(op, &lists)?, all(op, &images)?);
    let [_, best] = op.highest(&scores, Some(most), true)?;
    let images = op.gather(&images, &best, 0)?;
    // By image, then by score.
    let number = op.extent(&best, 0)?;
    let ranks = op.counting(&number, DType::Int64)?;
    let keys = op.mul(&images, &number)?;
    let keys = op.add(&keys, &ranks)?;
    let [_, order] = op.highest(&keys, None, false)?;
    let best = op.gather(&best, &order, 0)?;
    let y = op.gather(&rois, &best, 0)?;
    op.put("FpnRois", &y)?;
    let counts = op.image_counts(&images, &count, None)?;
    let offsets = op.offsets_of(&counts)?;
    op.put_offsets("FpnRois", &[offsets]);
    let counts = op.cast(&counts, DType::Int32)?;
    op.put("RoisNum", &counts)
}

/// The best anchors of each image, moved and clipped, of which those are suppressed that overlap better ones. An image
/// without any has no region here.
fn generate(op: &mut Operator<'_>, shape: &str) -> Outcome {
    let (scores, deltas, shape) = (op.input("Scores")?, op.input("BboxDeltas")?, op.input(shape)?);
    let (anchors, variances) = (op.input("Anchors")?, op.input("Variances")?);
    let (before, after) = (op.int("pre_nms_topN")?, op.int("post_nms_topN")?);
    let (threshold, least) = (op.float("nms_thresh")?, op.float("min_size")?);
    let is_old = op.kind() == "generate_proposals";
    let edge = Edge::inclusive_if(is_old || op.flag_or_true("pixel_offset")?);
    let mut how = Suppression { edge, above: Some(BOTTOM), ..Suppression::above(threshold.into()) };
    how.check_factor("eta", op.float("eta")?)?;
    if threshold <= 0.0 {
        // All regions are kept.
        how.threshold = Threshold::Above(1.0);
    } else if after > 0 {
        how.most = after;
    }
    let dtype = scores.dtype();
    // [batch, height * width * anchors] and [.., 4]
    let scores = op.transpose(&scores, &[0, 2, 3, 1])?;
    let flat = op.longs(&[0, -1]);
    let scores = op.call("Reshape", &[&scores, &flat], [])?;
    let sets = op.longs(&[0, -1, 4]);
    // The channels of an anchor are its four deltas.
    let deltas = op.transpose(&deltas, &[0, 2, 3, 1])?;
    let deltas = op.call("Reshape", &[&deltas, &sets], [])?;
    let (anchors, variances) = (op.reshape(&anchors, &[-1, 4])?, op.reshape(&variances, &[-1, 4])?);
    let best = op.candidates(&scores, &deltas, &anchors, (before > 0).then_some(before))?;
    let variances = op.gather(&variances, &best.places, 0)?;
    let deltas = op.mul(&best.deltas, &variances)?;
    let mut info = |place: i64| op.slice(&shape, 1, place, place + 1);
    let (high, wide) = (info(0)?, info(1)?);
    // The older operator measures boxes in the original image.
    let scale = if is_old { Some(info(2)?) } else { None };
    let (last_row, last_column) =
        (op.plus(&high, -edge.excess())?, op.plus(&wide, -edge.excess())?);
    let corners = op.moved_anchors(&deltas, &best.anchors, edge, [&last_column, &last_row])?;
    let Centered { center, .. } = op.centered(&corners, Measure::half(edge))?;
    let least = op.number(dtype, f64::from(least.max(1.0)))?;
    let mut marks = Vec::new();
    for side in op.sides(&corners, Edge::Exclusive)? {
        let side = scale.as_ref().map_or(Ok(side.clone()), |scale| op.div(&side, scale))?;
        let side = op.plus(&side, edge.excess())?;
        marks.push(op.call("GreaterOrEqual", &[&side, &least], [])?);
    }
    if edge == Edge::Inclusive {
        for (center, size) in center.iter().zip([&wide, &high]) {
            marks.push(op.call("LessOrEqual", &[center, size], [])?);
        }
    }
    let ranked = op.eligible(&best.scores, &marks)?;
    let found = op.proposed(&corners, &ranked, how)?;
    let probabilities = op.unsqueeze(&found.scores, &[1])?;
    op.put("RpnRois", &found.boxes)?;
    op.put("RpnRoiProbs", &probabilities)?;
    let image = op.reshape(&found.images, &[-1])?;
    let count = op.extent(&scores, 0)?;
    let counts = op.image_counts(&image, &count, None)?;
    let offsets = op.offsets_of(&counts)?;
    if is_old {
        op.put_offsets("RpnRois", std::slice::from_ref(&offsets));
        op.put_offsets("RpnRoiProbs", &[offsets]);
    }
    let counts = op.cast(&counts, DType::Int32)?;
    op.put("RpnRoisNum", &counts)?;
    op.put("RpnRoisLod", &counts)
}

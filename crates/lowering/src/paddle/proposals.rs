//! Proposed regions: generated from the scores of anchors, and distributed to and collected from the levels of a pyramid.

use lodstone_model::DType;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::Value;
use crate::onnx::boxes::{Centered, Edge, MAX_GROWTH, Measure};
use crate::onnx::suppression::{BOTTOM, Suppression, Threshold};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("collect_fpn_proposals", collect),
    ("distribute_fpn_proposals", distribute),
    ("generate_proposals", |op| generate(op, "ImInfo")),
    ("generate_proposals_v2", |op| generate(op, "ImShape")),
];

/// The maximum number of levels: each becomes operators.
const MAX_LEVELS: i64 = 64;

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

    /// Counts the rows of each image; `marks` are the rows that count.
    pub(super) fn image_counts(
        &mut self,
        images: &Value,
        count: &Value,
        marks: Option<&Value>,
    ) -> Outcome<Value> {
        let (zero, one) = (self.long(0), self.long(1));
        let numbers = self.call("Range", &[&zero, count, &one], [])?;
        let column = self.unsqueeze(images, &[1])?;
        let mut own = self.call("Equal", &[&column, &numbers], [])?;
        if let Some(marks) = marks {
            let marks = self.unsqueeze(marks, &[1])?;
            own = self.call("And", &[&own, &marks], [])?;
        }
        let own = self.cast(&own, DType::Int64)?;
        self.reduce("ReduceSum", &own, &[0], false)
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
    let (least, most) = (op.int("min_level")?, op.int("max_level")?);
    let (level, scale) = (op.int("refer_level")?, op.int("refer_scale")?);
    if !(0..MAX_LEVELS).contains(&most.saturating_sub(least)) || !(-64..=64).contains(&level) {
        return Err(format!("expected levels, found {least} to {most} and {level}").into());
    }
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
    #[expect(clippy::cast_precision_loss, reason = "as PaddlePaddle computes it")]
    let scale = op.number(dtype, scale as f64)?;
    let size = op.div(&size, &scale)?;
    // A region belongs to a level if it is at least as large as that level's least.
    let mut reaches = Vec::new();
    for at in least + 1..=most {
        let bound = op.number(dtype, least_size(dtype, at, level))?;
        reaches.push(op.call("GreaterOrEqual", &[&size, &bound], [])?);
    }
    let (mut parts, mut places, mut numbers, mut offsets) = (vec![], vec![], vec![], vec![]);
    for at in 0..=reaches.len() {
        let below = reaches.get(at);
        let above = at.checked_sub(1).and_then(|at| reaches.get(at));
        let not_below = below.map(|below| op.call("Not", &[below], [])).transpose()?;
        let own = match (above, not_below) {
            (Some(above), Some(not_below)) => op.call("And", &[above, &not_below], [])?,
            (Some(above), None) => above.clone(),
            (None, Some(not_below)) => not_below,
            (None, None) => {
                let count = op.dim(&rois, 0)?;
                op.filled_by(DType::Bool, 1.0, &count)?
            }
        };
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
    // The place of each region among those of all levels.
    let order = op.concat(&places.iter().collect::<Vec<_>>(), 0)?;
    let [_, restored] = op.highest(&order, None, false)?;
    let restored = op.cast(&restored, DType::Int32)?;
    let restored = op.unsqueeze(&restored, &[1])?;
    op.put("RestoreIndex", &restored)
}

/// Returns the least size of a level, relative to that of the level of reference: for smaller ones, PaddlePaddle's
/// `floor(log2(size + 1e-6) + reference)`, in the element type of the regions, is less than the level.
fn least_size(dtype: DType, level: i64, reference: i64) -> f64 {
    let is_double = dtype == DType::Float64;
    // Positive numbers are ordered by their bits.
    #[expect(clippy::cast_possible_truncation, reason = "the kernels compute with floats")]
    let number = |bits: u64| match is_double {
        true => f64::from_bits(bits),
        false => f32::from_bits(bits as u32).into(),
    };
    #[expect(clippy::cast_possible_truncation, reason = "the kernels compute with floats")]
    #[expect(clippy::cast_precision_loss, reason = "levels are small")]
    let reaches = |size: f64| match is_double {
        true => (size + 1e-6).log2() + reference as f64 >= level as f64,
        false => {
            let logarithm = f64::from(size as f32 + 1e-6_f32).log2() as f32;
            logarithm + reference as f32 >= level as f32
        }
    };
    // The least size is in (below, above].
    let most = if is_double { f64::MAX.to_bits() } else { f32::MAX.to_bits().into() };
    let (mut below, mut above) = (0_u64, most);
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if reaches(number(middle)) {
            above = middle;
        } else {
            below = middle;
        }
    }
    number(above)
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
    let (zero, one) = (op.long(0), op.long(1));
    let ranks = op.call("Range", &[&zero, &number, &one], [])?;
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
    let [scores, best] = op.highest(&scores, (before > 0).then_some(before), true)?;
    let deltas = op.rows(&deltas, &best)?;
    let (anchors, variances) = (op.gather(&anchors, &best, 0)?, op.gather(&variances, &best, 0)?);
    let deltas = op.mul(&deltas, &variances)?;
    let (deltas, anchors) = (op.corners(&deltas)?, op.corners(&anchors)?);
    let anchors = op.centered(&anchors, Measure::half(edge))?;
    let moved = op.decoded(&deltas, &anchors, Some(MAX_GROWTH))?;
    let [left, top, right, bottom] = op.cornered(&moved, Measure::half(edge))?;
    let mut info = |place: i64| op.slice(&shape, 1, place, place + 1);
    let (high, wide) = (info(0)?, info(1)?);
    // The older operator measures boxes in the original image.
    let scale = if is_old { Some(info(2)?) } else { None };
    let (last_row, last_column) =
        (op.plus(&high, -edge.excess())?, op.plus(&wide, -edge.excess())?);
    let corners = [
        op.clipped(&left, &last_column)?,
        op.clipped(&top, &last_row)?,
        op.clipped(&right, &last_column)?,
        op.clipped(&bottom, &last_row)?,
    ];
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
    let mut is_kept = marks.pop().ok_or("there are no marks")?;
    for mark in &marks {
        is_kept = op.call("And", &[&is_kept, mark], [])?;
    }
    let bottom = op.number(dtype, f64::NEG_INFINITY)?;
    let ranked = op.choose(&is_kept, &scores, &bottom)?;
    let boxes = op.stacked(&corners.each_ref())?;
    // [batch, regions, 4] and [batch, 1, regions]
    let ranked = op.unsqueeze(&ranked, &[1])?;
    let chosen = op.suppressed(&corners, &ranked, how)?;
    let (image, place) = (op.slice(&chosen, 1, 0, 1)?, op.slice(&chosen, 1, 2, 3)?);
    let places = op.concat(&[&image, &place], 1)?;
    let rois = op.call("GatherND", &[&boxes, &places], [])?;
    let probabilities = op.call("GatherND", &[&scores, &places], [])?;
    let probabilities = op.unsqueeze(&probabilities, &[1])?;
    op.put("RpnRois", &rois)?;
    op.put("RpnRoiProbs", &probabilities)?;
    let image = op.reshape(&image, &[-1])?;
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

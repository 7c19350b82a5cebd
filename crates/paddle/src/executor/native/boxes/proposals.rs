//! `generate_proposals`: the best anchors of each image, moved and clipped.

use lodstone_model::{AttributeValue, Lod, Op};
use lodstone_schema::Finding;
use lodstone_schema::paddle::attribute;

use super::super::{Outcome, input};
use super::{
    Corners, Suppression, at, corners, dims, lod, part, put_counts, put_rows, real, sort_by_score,
    whole,
};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;
use crate::executor::native::sequences::singles;

/// The maximum of the logarithm of a growth: 1000 / 16.
const MAX_GROWTH: f32 = 4.135_166_6;

/// What is the same for all images.
struct Options<'a> {
    op: &'a Op,
    /// Whether boxes are measured in the original image: the operator of the first version.
    is_scaled: bool,
    more: f32,
}

impl Options<'_> {
    /// Returns an anchor, moved by its deltas and clipped to the image.
    fn moved(
        &self,
        anchor: Corners,
        deltas: Corners,
        factors: Corners,
        image: &[f32],
    ) -> Option<Corners> {
        let [high, wide, ..] = image else { return None };
        let side = |low: f32, high: f32, way: f32, growth: f32, limit: f32| {
            let size = high - low + self.more;
            let center = low + 0.5 * size;
            let center = way * size + center;
            let size = growth.min(MAX_GROWTH).exp() * size;
            let clip = |place: f32| place.min(limit - self.more).max(0.0);
            (clip(center - size / 2.0), clip(center + size / 2.0 - self.more))
        };
        let code = |at: usize| Some(deltas.get(at)? * factors.get(at)?);
        let (left, right) = side(anchor[0], anchor[2], code(0)?, code(2)?, *wide);
        let (top, bottom) = side(anchor[1], anchor[3], code(1)?, code(3)?, *high);
        Some([left, top, right, bottom])
    }

    /// Whether a box is large enough, and its center in the image.
    fn is_kept(&self, [left, top, right, bottom]: Corners, image: &[f32]) -> Option<bool> {
        let [high, wide, scale @ ..] = image else { return None };
        let least = real(self.op, "min_size", 0.0).max(1.0);
        let scale = if self.is_scaled { *scale.first()? } else { 1.0 };
        let (width, height) =
            ((right - left) / scale + self.more, (bottom - top) / scale + self.more);
        let is_large = width >= least && height >= least;
        if self.more == 0.0 {
            return Some(is_large);
        }
        let center = |low: f32, high: f32| low + (high - low + self.more) / 2.0;
        Some(is_large && center(left, right) <= *wide && center(top, bottom) <= *high)
    }

    /// Returns the boxes of one image and their scores.
    fn found(
        &self,
        anchors: &[[Corners; 2]],
        deltas: &[Corners],
        scores: &[f32],
        image: &[f32],
    ) -> Result<Vec<(Corners, f32)>, Finding> {
        let mut order: Vec<usize> = (0..scores.len()).collect();
        sort_by_score(&mut order, scores);
        if let Ok(first @ 1..) = usize::try_from(whole(self.op, "pre_nms_topN", 0)) {
            order.truncate(first);
        }
        let mut all = Vec::new();
        for place in &order {
            let ([anchor, factors], deltas) = (at(anchors, *place)?, at(deltas, *place)?);
            let moved = self.moved(anchor, deltas, factors, image);
            let moved = moved.ok_or("expected height and width of the image")?;
            let is_kept = self.is_kept(moved, image);
            if is_kept.ok_or("expected height, width and scale of the image")? {
                all.push((moved, at(scores, *place)?));
            }
        }
        if all.is_empty() {
            return Ok(vec![([0.0; 4], 0.0)]);
        }
        let threshold = real(self.op, "nms_thresh", 0.0);
        if threshold <= 0.0 {
            return Ok(all);
        }
        let suppression =
            Suppression { threshold, eta: real(self.op, "eta", 1.0), more: self.more };
        let order: Vec<usize> = (0..all.len()).collect();
        let mut kept = suppression.kept(|place| Ok(at(&all, place)?.0), &order)?;
        if let Ok(most @ 1..) = usize::try_from(whole(self.op, "post_nms_topN", 0)) {
            kept.truncate(most);
        }
        kept.iter().map(|place| at(&all, *place)).collect()
    }
}

pub(super) fn generate(frame: &mut Frame<'_>, step: &Step, op: &Op, shape: &str) -> Outcome {
    let is_scaled = op.kind == "generate_proposals";
    let more = match attribute(op, "pixel_offset") {
        Some(AttributeValue::Bool(false)) if !is_scaled => 0.0,
        _ => 1.0,
    };
    let options = Options { op, is_scaled, more };
    let of_scores = frame.tensor(input(step, "Scores")?)?;
    let [batch, count, height, width] = dims(of_scores)?;
    let scores = singles(of_scores)?;
    let deltas = singles(frame.tensor(input(step, "BboxDeltas")?)?)?;
    let anchors = corners(frame.tensor(input(step, "Anchors")?)?)?;
    let factors = corners(frame.tensor(input(step, "Variances")?)?)?;
    let of_images = frame.tensor(input(step, shape)?)?;
    let [images, facts] = dims(of_images)?;
    let sizes = singles(of_images)?;
    let cells = height * width;
    let each = count * cells;
    if deltas.len() != scores.len() * 4
        || anchors.len() != each
        || factors.len() != each
        || images != batch
    {
        return Err(
            format!("expected deltas, anchors and images of {:?} scores", of_scores.shape).into()
        );
    }
    frame.reserve((scores.len() as u64).saturating_mul(64))?;
    let anchors: Vec<[Corners; 2]> =
        anchors.iter().zip(&factors).map(|(anchor, factors)| [*anchor, *factors]).collect();
    let (mut rows, mut best, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for image in 0..batch {
        // Channels become the last dim: [height, width, anchors].
        let place = |cell: usize, channel: usize, channels: usize| {
            (image * channels + channel) * cells + cell
        };
        let (mut own_scores, mut own_deltas) = (Vec::new(), Vec::new());
        for (cell, anchor) in
            (0..cells).flat_map(|cell| (0..count).map(move |anchor| (cell, anchor)))
        {
            own_scores.push(at(&scores, place(cell, anchor, count))?);
            let delta = |part: usize| at(&deltas, place(cell, anchor * 4 + part, count * 4));
            own_deltas.push([delta(0)?, delta(1)?, delta(2)?, delta(3)?]);
        }
        let size = part(&sizes, image * facts..(image + 1) * facts)?;
        let found = options.found(&anchors, &own_deltas, &own_scores, size)?;
        counts.push(found.len());
        for (corners, score) in found {
            rows.extend(corners);
            best.push(score);
        }
    }
    let count = best.len() as u64;
    let lod = if is_scaled { lod(&counts) } else { Lod::default() };
    put_rows(frame, step, "RpnRois", rows, vec![count, 4], lod.clone())?;
    put_rows(frame, step, "RpnRoiProbs", best, vec![count, 1], lod)?;
    put_counts(frame, step, "RpnRoisNum", &counts)
}

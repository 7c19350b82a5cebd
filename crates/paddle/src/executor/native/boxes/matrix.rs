//! `matrix_nms`: scores that overlap with better boxes lowers.

use lodstone_model::{AttributeValue, Lod, Op};
use lodstone_schema::Finding;
use lodstone_schema::numbers::exact;
use lodstone_schema::paddle::attribute;

use super::super::{Outcome, input};
use super::{
    Corners, above, at, corners, dims, excess, lod, overlap, part, put_counts, put_numbers,
    put_rows, real, sort_by_score, there, whole,
};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;
use crate::executor::native::sequences::singles;

/// A box of a class, by its index, with its lowered score.
#[derive(Clone, Copy)]
struct Found {
    class: usize,
    place: usize,
    score: f32,
}

/// Returns the boxes of a class whose lowered scores are high enough.
fn lowered(
    frame: &Frame<'_>,
    op: &Op,
    class: usize,
    boxes: &[Corners],
    scores: &[f32],
) -> Outcome<Vec<Found>> {
    let (least, last) = (real(op, "score_threshold", 0.0), real(op, "post_threshold", 0.0));
    let is_gaussian = matches!(attribute(op, "use_gaussian"), Some(AttributeValue::Bool(true)));
    let (sigma, more) = (real(op, "gaussian_sigma", 2.0), excess(op));
    let mut order = above(scores, least);
    sort_by_score(&mut order, scores);
    if let Ok(first) = usize::try_from(whole(op, "nms_top_k", -1)) {
        order.truncate(first);
    }
    let candidates = order.iter().map(|place| at(boxes, *place));
    let candidates = candidates.collect::<Result<Vec<_>, Finding>>()?;
    frame.reserve((order.len() as u64).saturating_mul(8))?;
    // The greatest overlap of each candidate with better ones.
    let mut greatest: Vec<f32> = Vec::with_capacity(order.len());
    let mut found = Vec::new();
    for (own, place) in candidates.iter().zip(&order) {
        let (mut most, mut decay) = (0.0_f32, 1.0_f32);
        for (other, other_most) in candidates.iter().zip(&greatest) {
            let shared = overlap(*own, *other, more);
            most = most.max(shared);
            let factor = match is_gaussian {
                true => ((other_most * other_most - shared * shared) * sigma).exp(),
                false => (1.0 - shared) / (1.0 - other_most),
            };
            decay = decay.min(factor);
        }
        greatest.push(most);
        let score = decay * at(scores, *place)?;
        if score > last {
            found.push(Found { class, place: *place, score });
        }
    }
    Ok(found)
}

/// Rows of class, score and box, best first, and the index of each box among those of all images.
pub(super) fn suppress(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let of_boxes = frame.tensor(input(step, "BBoxes")?)?;
    let of_scores = frame.tensor(input(step, "Scores")?)?;
    let (boxes, scores) = (corners(of_boxes)?, singles(of_scores)?);
    let [batch, classes, count] = dims(of_scores)?;
    if dims::<3>(of_boxes)? != [batch, count, 4] {
        return Err(format!("expected boxes for {:?} scores", of_scores.shape).into());
    }
    let background = usize::try_from(whole(op, "background_label", 0)).ok();
    let most = usize::try_from(whole(op, "keep_top_k", -1)).ok();
    let (mut rows, mut indices, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for image in 0..batch {
        let boxes = part(&boxes, image * count..(image + 1) * count)?;
        let mut all = Vec::new();
        for class in (0..classes).filter(|class| Some(*class) != background) {
            let start = (image * classes + class) * count;
            let scores = part(&scores, start..start + count)?;
            all.extend(lowered(frame, op, class, boxes, scores)?);
        }
        let mut order: Vec<usize> = (0..all.len()).collect();
        sort_by_score(&mut order, &all.iter().map(|found| found.score).collect::<Vec<_>>());
        if let Some(most) = most {
            order.truncate(most);
        }
        for place in &order {
            let Found { class, place, score } = at(&all, *place)?;
            #[expect(clippy::cast_precision_loss, reason = "as PaddlePaddle stores it")]
            rows.extend([class as f32, score]);
            rows.extend(at(boxes, place)?);
            indices.push(exact(image * count + place)?);
        }
        counts.push(order.len());
    }
    let count = indices.len() as u64;
    // Up to 1.8, the operator had LoD instead of the number of boxes of each image.
    let lod = if there(step, "RoisNum").is_some() { Lod::default() } else { lod(&counts) };
    put_rows(frame, step, "Out", rows, vec![count, 6], lod.clone())?;
    put_numbers(frame, step, "Index", &indices, vec![count, 1], lod)?;
    put_counts(frame, step, "RoisNum", &counts)
}

//! `multiclass_nms`: suppression of boxes in each class.

use lodstone_model::{Lod, Op};
use lodstone_schema::Finding;
use lodstone_schema::numbers::exact;
use lodstone_schema::onnx::infer::ValueInfo;

use super::super::{Outcome, input};
use super::{
    Corners, Suppression, above, at, corners, dims, excess, lod, part, put_counts, put_numbers,
    put_rows, real, sort_by_score, whole,
};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;
use crate::executor::native::sequences::singles;

/// A box of a class, by its index, with its score.
#[derive(Clone, Copy)]
struct Found {
    class: usize,
    place: usize,
    score: f32,
}

/// The boxes of one image.
struct Image<'a> {
    boxes: &'a [Corners],
    scores: &'a [f32],
    classes: usize,
    count: usize,
    /// Whether each box has coordinates and a score for each class, rather than each class a score for each box.
    is_by_box: bool,
}

impl Image<'_> {
    fn score(&self, class: usize, place: usize) -> Result<f32, Finding> {
        at(
            self.scores,
            match self.is_by_box {
                true => place * self.classes + class,
                false => class * self.count + place,
            },
        )
    }

    fn corners(&self, class: usize, place: usize) -> Result<Corners, Finding> {
        at(self.boxes, if self.is_by_box { place * self.classes + class } else { place })
    }

    /// Returns the boxes that are kept, by class.
    fn found(&self, op: &Op) -> Result<Vec<Found>, Finding> {
        let background = usize::try_from(whole(op, "background_label", 0)).ok();
        let (least, first) = (real(op, "score_threshold", 0.0), whole(op, "nms_top_k", -1));
        let suppression = Suppression {
            threshold: real(op, "nms_threshold", 0.3),
            eta: real(op, "nms_eta", 1.0),
            more: excess(op),
        };
        let mut found = Vec::new();
        for class in (0..self.classes).filter(|class| Some(*class) != background) {
            let scores = (0..self.count).map(|place| self.score(class, place));
            let scores = scores.collect::<Result<Vec<f32>, _>>()?;
            let mut order = above(&scores, least);
            sort_by_score(&mut order, &scores);
            if let Ok(first) = usize::try_from(first) {
                order.truncate(first);
            }
            let mut kept = suppression.kept(|place| self.corners(class, place), &order)?;
            if self.is_by_box {
                kept.sort_unstable();
            }
            for place in kept {
                found.push(Found { class, place, score: at(&scores, place)? });
            }
        }
        if let Ok(most) = usize::try_from(whole(op, "keep_top_k", -1))
            && found.len() > most
        {
            let mut order: Vec<usize> = (0..found.len()).collect();
            sort_by_score(&mut order, &found.iter().map(|found| found.score).collect::<Vec<_>>());
            order.truncate(most);
            let mut best: Vec<Found> =
                order.iter().filter_map(|at| found.get(*at).copied()).collect();
            match self.is_by_box {
                true => best.sort_by_key(|found| (found.class, found.place)),
                false => best.sort_by_key(|found| found.class),
            }
            found = best;
        }
        Ok(found)
    }
}

/// Returns the number of boxes of each image: of `RoisNum`, or by LoD.
fn counts(frame: &Frame<'_>, step: &Step, count: usize) -> Outcome<Vec<usize>> {
    let counts: Vec<usize> = match step.inputs("RoisNum").first().copied().flatten() {
        Some(slot) => {
            let numbers = ValueInfo::of(frame.tensor(slot)?).ints();
            let numbers = numbers.ok_or("expected few integers as `RoisNum`")?;
            numbers.into_iter().map(exact).collect::<Result<_, _>>()?
        }
        None => {
            let lod = &frame.tensor(input(step, "BBoxes")?)?.lod;
            let last = lod.0.last().ok_or("`BBoxes` has no LoD")?;
            let counts = last.iter().zip(last.iter().skip(1)).map(|(start, end)| {
                let count =
                    end.checked_sub(*start).ok_or("the LoD of `BBoxes` is not ascending")?;
                exact(count)
            });
            counts.collect::<Result<_, Finding>>()?
        }
    };
    let sum = counts.iter().try_fold(0_usize, |sum, count| sum.checked_add(*count));
    match sum.is_some_and(|sum| sum <= count) {
        true => Ok(counts),
        false => {
            Err(format!("expected at most {count} boxes in all images, found {counts:?}").into())
        }
    }
}

/// Rows of class, score and box, and the index of each box among those of all images.
pub(super) fn suppress(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let of_boxes = frame.tensor(input(step, "BBoxes")?)?;
    let of_scores = frame.tensor(input(step, "Scores")?)?;
    let (boxes, scores) = (corners(of_boxes)?, singles(of_scores)?);
    let mut images = Vec::new();
    let mut starts = Vec::new();
    if of_scores.shape.len() == 3 {
        let [batch, classes, count] = dims(of_scores)?;
        if dims::<3>(of_boxes)? != [batch, count, 4] {
            return Err(format!("expected boxes for {:?} scores", of_scores.shape).into());
        }
        for image in 0..batch {
            let boxes = part(&boxes, image * count..(image + 1) * count)?;
            let size = classes * count;
            let scores = part(&scores, image * size..(image + 1) * size)?;
            images.push(Image { boxes, scores, classes, count, is_by_box: false });
            starts.push(image * count);
        }
    } else {
        let [all, classes] = dims(of_scores)?;
        if dims::<3>(of_boxes)? != [all, classes, 4] {
            return Err(format!("expected boxes for {:?} scores", of_scores.shape).into());
        }
        let mut start = 0;
        for count in counts(frame, step, all)? {
            let range = start * classes..(start + count) * classes;
            let (boxes, scores) = (part(&boxes, range.clone())?, part(&scores, range)?);
            images.push(Image { boxes, scores, classes, count, is_by_box: true });
            starts.push(start * classes);
            start += count;
        }
    }
    let (mut rows, mut indices, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for (image, start) in images.iter().zip(&starts) {
        let found = image.found(op)?;
        for Found { class, place, score } in &found {
            #[expect(clippy::cast_precision_loss, reason = "as PaddlePaddle stores it")]
            rows.extend([*class as f32, *score]);
            rows.extend(image.corners(*class, *place)?);
            let own = if image.is_by_box { place * image.classes + class } else { *place };
            indices.push(exact(start + own)?);
        }
        counts.push(found.len());
    }
    let count = indices.len() as u64;
    // The newest operator has the number of boxes of each image instead.
    let lod = if op.kind == "multiclass_nms3" { Lod::default() } else { lod(&counts) };
    if count == 0 && op.kind == "multiclass_nms" {
        let one = Lod(vec![vec![0, 1]]);
        return put_rows(frame, step, "Out", vec![-1.0], vec![1, 1], one);
    }
    put_rows(frame, step, "Out", rows, vec![count, 6], lod.clone())?;
    put_numbers(frame, step, "Index", &indices, vec![count, 1], lod)?;
    put_counts(frame, step, "NmsRoisNum", &counts)
}

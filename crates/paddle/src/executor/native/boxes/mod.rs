//! Selection of boxes, which depends on their overlap.
//!
//! A box is left, top, right and bottom. If boxes are not normalized, their coordinates are pixels, and both corners
//! belong to the box. Source of truth: PaddlePaddle 2.6.2's kernels, and their results.

mod matching;
mod matrix;
mod multiclass;
mod proposals;

use std::ops::Range;

use lodstone_model::{AttributeValue, DType, Lod, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::numbers::exact;
use lodstone_schema::paddle::attribute;
use lodstone_schema::places::{at, at_mut};
use lodstone_store::Blob;

use super::sequences::{made, singles};
use super::{Outcome, Run};
use crate::executor::frame::Frame;
use crate::executor::layout::{Slot, Step};

pub(super) const OPERATORS: &[(&str, Run)] = &[
    ("bipartite_match", matching::bipartite),
    ("generate_proposals", |frame, step, op| proposals::generate(frame, step, op, "ImInfo")),
    ("generate_proposals_v2", |frame, step, op| proposals::generate(frame, step, op, "ImShape")),
    ("matrix_nms", matrix::suppress),
    ("multiclass_nms", multiclass::suppress),
    ("multiclass_nms2", multiclass::suppress),
    ("multiclass_nms3", multiclass::suppress),
];

/// The coordinates of a box.
type Corners = [f32; 4];

/// Returns the area of a box that is wider by `more`; 0 if its corners are swapped.
fn area([left, top, right, bottom]: Corners, more: f32) -> f32 {
    if right < left || bottom < top { 0.0 } else { (right - left + more) * (bottom - top + more) }
}

/// Returns the area that two boxes share, divided by that of both.
fn overlap(own: Corners, other: Corners, more: f32) -> f32 {
    if other[0] > own[2] || other[2] < own[0] || other[1] > own[3] || other[3] < own[1] {
        return 0.0;
    }
    let side = |axis: [f32; 4]| {
        let [low, high, other_low, other_high] = axis;
        high.min(other_high) - low.max(other_low) + more
    };
    let width = side([own[0], own[2], other[0], other[2]]);
    let height = side([own[1], own[3], other[1], other[3]]);
    let shared = width * height;
    shared / (area(own, more) + area(other, more) - shared)
}

/// The suppression of boxes that overlap better ones.
struct Suppression {
    threshold: f32,
    /// The factor of the threshold after each box, as long as it is above a half.
    eta: f32,
    more: f32,
}

impl Suppression {
    /// Returns which of the boxes are kept, best first. `order` has the candidates, best first.
    fn kept(
        &self,
        boxes: impl Fn(usize) -> Result<Corners, Finding>,
        order: &[usize],
    ) -> Result<Vec<usize>, Finding> {
        let mut threshold = self.threshold;
        let (mut kept, mut places) = (Vec::new(), Vec::new());
        for place in order {
            let own = boxes(*place)?;
            // An overlap that is NaN suppresses, too.
            if places.iter().all(|other| overlap(own, *other, self.more) <= threshold) {
                kept.push(*place);
                places.push(own);
                if self.eta < 1.0 && threshold > 0.5 {
                    threshold *= self.eta;
                }
            }
        }
        Ok(kept)
    }
}

/// Sorts places by score, best first; equal scores keep their order.
fn sort_by_score(places: &mut [usize], scores: &[f32]) {
    places.sort_by(|left, right| {
        let sides = scores.get(*right).partial_cmp(&scores.get(*left));
        sides.unwrap_or(std::cmp::Ordering::Equal)
    });
}

/// Returns the places of the scores above a threshold.
fn above(scores: &[f32], least: f32) -> Vec<usize> {
    let scores = scores.iter().enumerate().filter(|(_, score)| **score > least);
    scores.map(|(place, _)| place).collect()
}

/// Returns the boxes of a tensor of `float32`.
fn corners(tensor: &Tensor) -> Outcome<Vec<Corners>> {
    if tensor.shape.last() != Some(&4) {
        return Err(format!("expected boxes of 4 coordinates, found {:?}", tensor.shape).into());
    }
    Ok(singles(tensor)?.as_chunks::<4>().0.to_vec())
}

/// Returns the elements in a range, which a kernel checked to exist.
fn part<T>(values: &[T], range: Range<usize>) -> Result<&[T], Finding> {
    let lost = || Finding::internal(format!("elements {range:?} do not exist"));
    values.get(range.clone()).ok_or_else(lost)
}

/// Returns the dims of a tensor of a known rank.
fn dims<const N: usize>(tensor: &Tensor) -> Outcome<[usize; N]> {
    let dims =
        tensor.shape.iter().map(|dim| exact(*dim)).collect::<Result<Vec<usize>, Finding>>()?;
    let wrong = |dims: Vec<usize>| format!("expected rank {N}, found {dims:?}");
    Ok(dims.try_into().map_err(wrong)?)
}

fn real(op: &Op, name: &str, default: f32) -> f32 {
    match attribute(op, name) {
        Some(AttributeValue::Float(value)) => *value,
        _ => default,
    }
}

fn whole(op: &Op, name: &str, default: i32) -> i32 {
    match attribute(op, name) {
        Some(AttributeValue::Int(value)) => *value,
        _ => default,
    }
}

/// Returns how much wider than their coordinates boxes are, by an attribute that is true if they are normalized.
fn excess(op: &Op) -> f32 {
    match attribute(op, "normalized") {
        Some(AttributeValue::Bool(false)) => 1.0,
        _ => 0.0,
    }
}

/// Returns offsets as LoD.
fn lod(counts: &[usize]) -> Lod {
    let mut offsets = vec![0];
    let mut end = 0_u64;
    for count in counts {
        end = end.saturating_add(*count as u64);
        offsets.push(end);
    }
    Lod(vec![offsets])
}

/// Sets a variable to `int32` numbers, if it is there.
fn put_counts(frame: &mut Frame<'_>, step: &Step, slot: &str, counts: &[usize]) -> Outcome {
    let numbers =
        counts.iter().map(|count| exact(*count)).collect::<Result<Vec<i32>, Finding>>()?;
    put_numbers(frame, step, slot, &numbers, vec![counts.len() as u64], Lod::default())
}

fn put_numbers(
    frame: &mut Frame<'_>,
    step: &Step,
    slot: &str,
    numbers: &[i32],
    shape: Vec<u64>,
    lod: Lod,
) -> Outcome {
    let Some(out) = there(step, slot) else { return Ok(()) };
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut tensor = Tensor::dense(DType::Int32, shape, Blob::memory(bytes));
    tensor.lod = lod;
    Ok(frame.make(out, tensor)?)
}

/// Sets a variable to rows of floats, if it is there.
fn put_rows(
    frame: &mut Frame<'_>,
    step: &Step,
    slot: &str,
    rows: Vec<f32>,
    shape: Vec<u64>,
    lod: Lod,
) -> Outcome {
    let Some(out) = there(step, slot) else { return Ok(()) };
    Ok(frame.make(out, made(rows, shape, lod))?)
}

fn there(step: &Step, slot: &str) -> Option<Slot> {
    step.outputs(slot).first().copied().flatten()
}

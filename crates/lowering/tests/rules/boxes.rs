//! Boxes, their suppression and regions with random attributes, compared with the formulas of the frameworks' kernels.

mod caffe2;
mod detector;
mod glow;
mod grids;
mod mxnet;
mod paddle;
mod pyramid;
mod regions;
mod torch;

use libtest_mimic::Trial;
use lodstone_model::{DType, Tensor};
use lodstone_store::Blob;

use super::random::Random;
use super::recorded;
use super::single::{
    Draw, Single, channels_last, glow_trial, list, of_frameworks, text, trials_of,
};

pub(crate) fn trials() -> Vec<Trial> {
    let draws = [paddle::DRAWS, mxnet::DRAWS, torch::DRAWS, caffe2::DRAWS];
    let mut trials = of_frameworks(draws, trials_of("boxes"));
    trials.extend(glow::trials());
    trials
}

/// Left, top, right and bottom.
type Rect = [f64; 4];

fn int32(elements: &[usize], dims: &[usize]) -> Tensor {
    let bytes: Vec<u8> = elements.iter().flat_map(|it| (*it as i32).to_le_bytes()).collect();
    let dims = dims.iter().map(|dim| *dim as u64).collect();
    Tensor::dense(DType::Int32, dims, Blob::memory(bytes))
}

fn int64(elements: &[usize]) -> Tensor {
    let bytes: Vec<u8> = elements.iter().flat_map(|it| (*it as i64).to_le_bytes()).collect();
    Tensor::dense(DType::Int64, vec![elements.len() as u64], Blob::memory(bytes))
}

/// Returns boxes of whole numbers. Sides have at least a size, and a few boxes are reversed along an axis.
fn boxes(random: &mut Random, count: usize, least: i64, reverses: bool) -> Vec<Rect> {
    let mut rect = || {
        let (x, y) = (random.number(0, 7), random.number(0, 7));
        let (mut width, mut height) = (random.number(least, 7), random.number(least, 7));
        if reverses && random.size(0, 4) == 0 {
            if random.flag() { width = -2 } else { height = -3 }
        }
        [x, y, x + width, y + height].map(|it| it as f64)
    };
    (0..count).map(|_| rect()).collect()
}

/// Returns boxes with an overlap that a threshold can be compared with: two empty ones, whose overlap is NaN, are not
/// suppressed even if the threshold is negative.
fn boxes_over(random: &mut Random, count: usize, threshold: f64) -> Vec<Rect> {
    match threshold < 0.0 {
        true => boxes(random, count, 1, false),
        false => boxes(random, count, 0, true),
    }
}

fn flat(rects: &[Rect], dims: &[usize]) -> Tensor {
    list(rects.as_flattened(), dims)
}

/// Returns scores, some of which are equal if there may be ties.
fn scores(random: &mut Random, count: usize, ties: bool) -> Vec<f64> {
    let places: Vec<usize> = (0..count).collect();
    let mut score = |at: &usize| match ties {
        true => random.number(0, 7) as f64 / 8.0,
        // Different ones: the last digits are those of the place.
        false => random.number(0, 63) as f64 / 64.0 + *at as f64 / 4096.0,
    };
    places.iter().map(&mut score).collect()
}

/// Returns the places of scores, the best first; equal ones in their order.
fn order(scores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    order
}

/// Returns the places, in their order, that are kept: none that a better one suppresses.
fn kept(order: &[usize], suppresses: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    for at in order {
        if kept.iter().all(|better| !suppresses(*better, *at)) {
            kept.push(*at);
        }
    }
    kept
}

fn common(a: Rect, b: Rect) -> [f64; 2] {
    [a[2].min(b[2]) - a[0].max(b[0]), a[3].min(b[3]) - a[1].max(b[1])]
}

/// The overlap where sides are at least 0; NaN for two empty boxes.
fn overlap(a: Rect, b: Rect) -> f64 {
    let area = |it: Rect| (it[2] - it[0]).max(0.0) * (it[3] - it[1]).max(0.0);
    let [width, height] = common(a, b);
    let shared = width.max(0.0) * height.max(0.0);
    shared / (area(a) + area(b) - shared)
}

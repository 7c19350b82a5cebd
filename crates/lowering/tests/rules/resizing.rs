//! Resizing with random attributes, compared with the formulas of the frameworks' kernels.

mod caffe2;
mod glow;
mod mxnet;
mod paddle;
mod torch;

use libtest_mimic::Trial;
use lodstone_model::Tensor;

use super::random::Random;
use super::recorded;
use super::single::{
    Single, channels_last, floats, glow_trial, ints, list, of_frameworks, random_trial, text,
};

/// Returns an operator, and its expected result; `None` if the framework rejects it.
type Draw = fn(&mut Random) -> Option<(Single, Tensor)>;

pub(crate) fn trials() -> Vec<Trial> {
    let draws = [paddle::DRAWS, mxnet::DRAWS, torch::DRAWS, caffe2::DRAWS];
    let mut trials = of_frameworks(draws, |dialect, name, run, draw: Draw| {
        random_trial(&format!("{dialect}::resizing::{name}"), run, move |random| {
            draw(random).map(|(single, expected)| (single, vec![expected]))
        })
    });
    trials.extend(glow::trials());
    trials
}

/// The elements of a line that make up each element of the result, with their weights.
type Taps = Vec<Vec<(usize, f64)>>;

/// Applies taps along the axes from the third on.
fn applied(x: &Tensor, lines: &[Taps]) -> Tensor {
    let dims: Vec<usize> = x.shape.iter().map(|dim| *dim as usize).collect();
    let mut elements = recorded::elements(x);
    let mut sizes = dims;
    for (axis, taps) in (2..).zip(lines) {
        let (before, dim) = (sizes[..axis].iter().product::<usize>(), sizes[axis]);
        let after: usize = sizes[axis + 1..].iter().product();
        let mut next = Vec::new();
        for front in 0..before {
            for places in taps {
                for back in 0..after {
                    let at = |place: usize| elements[(front * dim + place) * after + back];
                    next.push(places.iter().map(|(place, weight)| weight * at(*place)).sum());
                }
            }
        }
        (elements, sizes[axis]) = (next, taps.len());
    }
    list(&elements, &sizes)
}

fn nearest(from: usize, to: usize, place: impl Fn(usize) -> usize) -> Taps {
    (0..to).map(|at| vec![(place(at).min(from - 1), 1.0)]).collect()
}

fn linear(from: usize, to: usize, place: impl Fn(usize) -> f64) -> Taps {
    let taps = |at: usize| {
        let place = place(at).max(0.0);
        let first = (place.floor() as usize).min(from - 1);
        let share = (place - first as f64).min(1.0);
        vec![(first, 1.0 - share), ((first + 1).min(from - 1), share)]
    };
    (0..to).map(taps).collect()
}

fn cubic(from: usize, to: usize, place: impl Fn(usize) -> f64) -> Taps {
    let near = |x: f64| ((-0.75 + 2.0) * x - (-0.75 + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((-0.75 * x + 5.0 * 0.75) * x - 8.0 * 0.75) * x + 4.0 * 0.75;
    let taps = |at: usize| {
        let place = place(at);
        let (first, t) = (place.floor(), place - place.floor());
        let weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
        let index = |step: usize| (first - 1.0 + step as f64).clamp(0.0, from as f64 - 1.0);
        (0..4).map(|step| (index(step) as usize, weights[step])).collect()
    };
    (0..to).map(taps).collect()
}

/// Returns dims of images, with few elements.
fn image(random: &mut Random, spatial: usize) -> Vec<usize> {
    let most = [0, 40, 16, 5][spatial];
    let mut dims = vec![random.size(1, 2), random.size(1, 2)];
    dims.extend(
        (0..spatial).map(|_| if random.size(0, 5) == 0 { 1 } else { random.size(1, most) }),
    );
    dims
}

//! Normalization with random attributes, compared with the formulas of the frameworks' kernels.

mod caffe2;
mod mxnet;
mod paddle;
mod torch;

use libtest_mimic::Trial;
use lodstone_model::Tensor;

use super::random::Random;
use super::recorded;
use super::single::{Draw, Single, channels_last, list, of_frameworks, text, trials_of};

pub(crate) fn trials() -> Vec<Trial> {
    let draws = [paddle::DRAWS, mxnet::DRAWS, torch::DRAWS, caffe2::DRAWS];
    of_frameworks(draws, trials_of("normalize"))
}

/// Elements with dims.
#[derive(Clone)]
struct Array {
    dims: Vec<usize>,
    elements: Vec<f64>,
}

impl Array {
    fn of(tensor: &Tensor) -> Self {
        let dims = tensor.shape.iter().map(|dim| *dim as usize).collect();
        Self { dims, elements: recorded::elements(tensor) }
    }

    fn tensor(&self) -> Tensor {
        list(&self.elements, &self.dims)
    }

    /// Returns the index along an axis of the element at a place.
    fn index(&self, place: usize, axis: usize) -> usize {
        place / self.dims[axis + 1..].iter().product::<usize>() % self.dims[axis]
    }

    fn map(&self, new: impl Fn(usize, f64) -> f64) -> Self {
        let elements = self.elements.iter().enumerate();
        Self { elements: elements.map(|(place, it)| new(place, *it)).collect(), ..self.clone() }
    }

    /// Multiplies by and adds an element for each index along an axis.
    fn affine(&self, scale: Option<&Tensor>, bias: Option<&Tensor>, axis: usize) -> Self {
        let [scale, bias] = [scale, bias].map(|it| it.map(recorded::elements));
        self.map(|place, it| {
            let index = self.index(place, axis);
            it * scale.as_ref().map_or(1.0, |it| it[index])
                + bias.as_ref().map_or(0.0, |it| it[index])
        })
    }
}

/// The mean and the biased variance of the elements of each group.
struct Moments {
    groups: Vec<usize>,
    means: Vec<f64>,
    variances: Vec<f64>,
}

impl Moments {
    fn of(x: &Array, count: usize, group: impl Fn(usize) -> usize) -> Self {
        let groups: Vec<usize> = (0..x.elements.len()).map(group).collect();
        let mean = |values: &[f64]| {
            let (mut sums, mut counts) = (vec![0.0; count], vec![0.0; count]);
            for (group, value) in groups.iter().zip(values) {
                sums[*group] += value;
                counts[*group] += 1.0;
            }
            sums.iter().zip(counts).map(|(sum, count)| sum / count).collect::<Vec<f64>>()
        };
        let means = mean(&x.elements);
        let squares = groups.iter().zip(&x.elements);
        let squares: Vec<f64> = squares.map(|(group, it)| (it - means[*group]).powi(2)).collect();
        let variances = mean(&squares);
        Self { groups, means, variances }
    }

    fn inverses(&self, epsilon: f64) -> Vec<f64> {
        self.variances.iter().map(|it| 1.0 / (it + epsilon).sqrt()).collect()
    }

    fn applied(&self, x: &Array, epsilon: f64) -> Array {
        let inverses = self.inverses(epsilon);
        x.map(|place, it| {
            let group = self.groups[place];
            (it - self.means[group]) * inverses[group]
        })
    }
}

fn dims(random: &mut Random, least: usize, most: usize) -> Vec<usize> {
    let rank = random.size(least, most);
    (0..rank).map(|_| random.size(1, 5)).collect()
}

/// Returns an epsilon that is a number of single precision.
fn epsilon(random: &mut Random) -> f32 {
    random.pick(&[1e-5, 1e-4, 1e-3, 0.1, 1.0])
}

/// Returns positive numbers.
fn positive(random: &mut Random, count: usize) -> Tensor {
    let elements: Vec<f64> = (0..count).map(|_| random.real(0.1, 2.0)).collect();
    list(&elements, &[count])
}

fn maybe(random: &mut Random, count: usize) -> Option<Tensor> {
    (random.size(0, 3) != 0).then(|| random.tensor(&[count]))
}

/// Normalizes groups of channels, and of instances; returns the result with the moments.
fn grouped(x: &Array, channel: usize, groups: usize, epsilon: f64) -> (Array, Moments) {
    let size = x.dims[channel] / groups;
    let moments = Moments::of(x, x.dims[0] * groups, |place| {
        x.index(place, 0) * groups + x.index(place, channel) / size
    });
    (moments.applied(x, epsilon), moments)
}

/// Returns the dims of images whose channels are divided into groups, and the number of groups.
fn groups(random: &mut Random, least: usize) -> (Vec<usize>, usize) {
    let mut dims = dims(random, least, 5);
    let groups = random.size(1, 4);
    dims[1] = groups * random.size(1, 3);
    (dims, groups)
}

/// Returns the sums of squares over axes, one for each element.
fn squares(x: &Array, axes: &[usize]) -> Vec<f64> {
    let is_same = |a: usize, b: usize| {
        (0..x.dims.len()).all(|axis| axes.contains(&axis) || x.index(a, axis) == x.index(b, axis))
    };
    let all = 0..x.elements.len();
    let sum = |place: usize| {
        let others = all.clone().filter(|other| is_same(*other, place));
        others.map(|other| x.elements[other].powi(2)).sum()
    };
    all.clone().map(sum).collect()
}

/// A local response normalization.
struct LocalResponse {
    x: Array,
    channel: usize,
    size: usize,
    alpha: f32,
    beta: f32,
    bias: f32,
}

impl LocalResponse {
    fn drawn(random: &mut Random, is_last: bool) -> Self {
        let mut dims: Vec<usize> = (0..4).map(|_| random.size(1, 4)).collect();
        let channel = if is_last { 3 } else { 1 };
        dims[channel] = random.size(1, 8);
        let x = Array::of(&random.tensor(&dims));
        let size = 2 * random.size(0, 3) + 1;
        let (alpha, beta) = (random.real(0.1, 2.0) as f32, random.real(0.1, 1.5) as f32);
        Self { x, channel, size, alpha, beta, bias: random.real(0.5, 2.0) as f32 }
    }

    /// Divides by a power of the sum of squares of near channels, times a factor.
    fn result(&self, factor: f64) -> Tensor {
        let Self { x, channel, .. } = self;
        let step: usize = x.dims[channel + 1..].iter().product();
        let y = x.map(|place, it| {
            let own = x.index(place, *channel);
            let near = (0..x.dims[*channel]).filter(|at| at.abs_diff(own) <= self.size / 2);
            let square = |at: usize| x.elements[place - own * step + at * step].powi(2);
            let sum: f64 = near.map(square).sum();
            it * (f64::from(self.bias) + factor * sum).powf(-f64::from(self.beta))
        });
        y.tensor()
    }

    /// Divides by a power of the mean of squares, over `size` even at the ends.
    fn of_mean(&self) -> Tensor {
        self.result(f64::from(self.alpha) / self.size as f64)
    }
}

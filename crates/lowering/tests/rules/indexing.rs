//! Indexing with random attributes, compared with each framework's rule: which elements of the input are those of the
//! result. The rules were compared with the frameworks themselves for these operators.

mod caffe2;
mod mxnet;
mod paddle;
mod torch;

use libtest_mimic::{Failed, Trial};
use lodstone_model::{DType, Tensor};
use lodstone_store::Blob;

use super::random::Random;
use super::recorded;
use super::single::{Draw, Run, Single, list, trials_of};

pub(crate) fn trials() -> Vec<Trial> {
    let all = [paddle::trials(), mxnet::trials(), torch::trials(), caffe2::trials()];
    all.into_iter().flatten().collect()
}

/// Fails if operators that the framework rejects are translated.
fn rejected(name: &str, run: Run, all: fn() -> Vec<Single>) -> Trial {
    Trial::test(format!("random {name}"), move || {
        let accepted = all().into_iter().filter(|single| run(single).is_ok());
        let accepted: Vec<String> = accepted.map(|single| single.describe()).collect();
        match accepted.is_empty() {
            true => Ok(()),
            false => Err(Failed::from(format!("translated: {accepted:?}"))),
        }
    })
}

impl Random {
    /// Returns a tensor of [`dims`](Self::dims).
    fn tensor_of(&mut self, rank: usize, least: usize) -> Tensor {
        let dims = self.dims(rank, least);
        self.tensor(&dims)
    }

    /// Returns dims, a few of which are 1, and for frameworks that accept it, 0.
    fn dims(&mut self, rank: usize, least: usize) -> Vec<usize> {
        (0..rank)
            .map(|_| match self.size(0, 7) {
                0 => least,
                1 => 1,
                _ => self.size(2, 5),
            })
            .collect()
    }

    /// Returns a bound around a dim.
    fn bound(&mut self, dim: usize) -> i64 {
        let dim = dim as i64;
        self.number(-dim - 3, dim + 3)
    }

    /// Returns a step other than 0.
    fn step(&mut self) -> i64 {
        let step = self.number(1, 7);
        if self.flag() { step } else { -step }
    }

    fn indices(&mut self, count: usize, least: i64, most: i64) -> Vec<i64> {
        (0..count).map(|_| self.number(least, most)).collect()
    }
}

fn dims(x: &Tensor) -> Vec<usize> {
    x.shape.iter().map(|dim| *dim as usize).collect()
}

fn longs(numbers: &[i64], dims: &[usize]) -> Tensor {
    let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
    let dims = dims.iter().map(|dim| *dim as u64).collect();
    Tensor::dense(DType::Int64, dims, Blob::memory(bytes))
}

fn elements(x: &Tensor) -> Vec<f64> {
    recorded::elements(x)
}

/// Returns the place of each element.
fn numbered(dims: &[usize]) -> Tensor {
    let count: usize = dims.iter().product();
    list(&(0..count).map(|place| place as f64).collect::<Vec<_>>(), dims)
}

/// Returns the elements at places of an axis.
fn taken(x: &Tensor, axis: usize, places: &[usize]) -> Tensor {
    let (mut dims, all) = (dims(x), elements(x));
    let (before, dim) = (dims[..axis].iter().product::<usize>(), dims[axis]);
    let after: usize = dims[axis + 1..].iter().product();
    let mut result = Vec::new();
    for front in 0..before {
        for place in places {
            let start = (front * dim + place) * after;
            result.extend_from_slice(&all[start..start + after]);
        }
    }
    dims[axis] = places.len();
    list(&result, &dims)
}

/// Pads an axis; constants are 0.5. `None` if the frameworks reject it.
fn padded(x: &Tensor, axis: usize, [begin, end]: [i64; 2], mode: &str) -> Option<Tensor> {
    let dim = dims(x)[axis] as i64;
    let most = begin.max(end);
    if mode == "reflect" && most >= dim && most > 0 || mode == "circular" && most > dim {
        return None;
    }
    // The last place is that of the constant.
    let place = |at: i64| match mode {
        _ if (0..dim).contains(&at) => at,
        "constant" => dim,
        "reflect" if at < 0 => -at,
        "reflect" => 2 * dim - 2 - at,
        "circular" => at.rem_euclid(dim),
        _ => at.clamp(0, dim - 1),
    };
    let places: Vec<usize> = (-begin..dim + end).map(|at| place(at) as usize).collect();
    let mut sizes = dims(x);
    sizes[axis] = 1;
    let constant = list(&vec![0.5; sizes.iter().product()], &sizes);
    Some(taken(&joined(x, &constant, axis), axis, &places))
}

/// Joins two tensors along an axis.
fn joined(left: &Tensor, right: &Tensor, axis: usize) -> Tensor {
    let mut dims = dims(left);
    let width = |x: &Tensor| x.shape[axis..].iter().product::<u64>() as usize;
    let (a, b) = (elements(left), elements(right));
    let rows = a.chunks(width(left).max(1)).zip(b.chunks(width(right).max(1)));
    let all: Vec<f64> = rows.flat_map(|(a, b)| [a, b].concat()).collect();
    dims[axis] += right.shape[axis] as usize;
    list(&all, &dims)
}

/// Returns a tensor with other dims.
fn reshaped(x: &Tensor, dims: &[usize]) -> Tensor {
    list(&elements(x), dims)
}

/// Writes elements to the places that a view has of them.
fn written(x: &Tensor, view: &Tensor, values: &[f64], combine: fn(f64, f64) -> f64) -> Tensor {
    let mut all = elements(x);
    for (place, value) in elements(view).into_iter().zip(values) {
        all[place as usize] = combine(all[place as usize], *value);
    }
    list(&all, &dims(x))
}

fn last(_: f64, new: f64) -> f64 {
    new
}

fn sum(old: f64, new: f64) -> f64 {
    old + new
}

/// Returns the places of a slice by Python's rule.
fn python(dim: usize, start: Option<i64>, end: Option<i64>, step: i64) -> Vec<usize> {
    let dim = dim as i64;
    let (least, most) = if step > 0 { (0, dim) } else { (-1, dim - 1) };
    let place = |at: i64| (if at < 0 { at + dim } else { at }).clamp(least, most);
    let (first, behind) = if step > 0 { (0, dim) } else { (dim - 1, -1) };
    between(start.map_or(first, place), end.map_or(behind, place), step)
}

/// Returns places from a start to an end by a step.
fn between(start: i64, end: i64, step: i64) -> Vec<usize> {
    let mut places = Vec::new();
    let mut at = start;
    while if step > 0 { at < end } else { at > end } {
        places.push(at as usize);
        at += step;
    }
    places
}

/// Returns the sections of an axis between bounds.
fn sections(x: &Tensor, axis: usize, sizes: &[usize]) -> Vec<Tensor> {
    let mut start = 0;
    let mut section = |size: &usize| {
        let places: Vec<usize> = (start..start + size).collect();
        start += size;
        taken(x, axis, &places)
    };
    sizes.iter().map(&mut section).collect()
}

/// Returns where the elements of a dim are after a shift.
fn rolled(dim: usize, shift: i64) -> Vec<usize> {
    (0..dim as i64).map(|at| (at - shift).rem_euclid(dim as i64) as usize).collect()
}

/// Returns the elements of a diagonal of two axes, as the last axis.
fn diagonal(x: &Tensor, [rows, columns]: [usize; 2], offset: i64) -> Tensor {
    let (dims, all) = (dims(x), elements(x));
    let (row, column) = ((-offset).max(0) as usize, offset.max(0) as usize);
    let length = dims[rows].saturating_sub(row).min(dims[columns].saturating_sub(column));
    let rest: Vec<usize> = (0..dims.len()).filter(|axis| ![rows, columns].contains(axis)).collect();
    let stride = |axis: usize| dims[axis + 1..].iter().product::<usize>();
    let mut places = vec![0];
    for axis in &rest {
        let spread = |place: &usize| {
            let place = *place;
            (0..dims[*axis]).map(move |at| (place, at)).collect::<Vec<_>>()
        };
        let all: Vec<_> = places.iter().flat_map(spread).collect();
        places = all.into_iter().map(|(place, at)| place + at * stride(*axis)).collect();
    }
    let mut found = Vec::new();
    for place in places {
        for step in 0..length {
            found
                .push(all[place + (row + step) * stride(rows) + (column + step) * stride(columns)]);
        }
    }
    let sizes: Vec<usize> = rest.iter().map(|axis| dims[*axis]).chain([length]).collect();
    list(&found, &sizes)
}

/// Returns the elements of runs along the only axis, the run of each element, and the lengths of the runs.
fn runs(x: &Tensor) -> (Tensor, Vec<i64>, Vec<i64>) {
    let (mut values, mut numbers, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for element in elements(x) {
        if values.last() == Some(&element) {
            *lengths.last_mut().unwrap() += 1;
        } else {
            values.push(element);
            lengths.push(1);
        }
        numbers.push(values.len() as i64 - 1);
    }
    (list(&values, &[values.len()]), numbers, lengths)
}

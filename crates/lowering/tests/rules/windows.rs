//! Convolutions, pools and patches with random attributes, against loops over the elements that each framework documents.
//!
//! Nothing here is shared with the rules: sizes, padding and divisors are written as PaddlePaddle 2.6 (`phi/kernels`,
//! `funcs/pooling.cc`), MXNet 1.9 (`nn/pool.h`, `nn/im2col.h`), Caffe2 (`conv_pool_op_base.h`) and PyTorch 2.15 (`native/Pool.h`, `AvgPoolKernel.cpp`) do.
//! The loops of pools were compared with these releases themselves, for several hundred random attributes each.

mod caffe2;
mod mxnet;
mod paddle;
mod torch;

use libtest_mimic::Trial;
use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, Dim, Model, Op, Operand, Parameter, Program,
    Tensor, TensorType, Topology, Var,
};
use lodstone_schema::numbers::length;
use lodstone_store::Blob;

use super::evaluate::lowered;
use super::random::{Random, differences, judge};

/// The number of cases of each operator.
const CASES: usize = 300;

/// The operators that have rules for images of all unknown dims.
const OF_ANY_DIMS: &[&str] =
    &["paddle::adaptive_maxima", "paddle::conv2d_transpose", "paddle::depthwise_conv2d_transpose"];

/// Returns a test of an operator for random attributes, and for images whose dims are unknown.
fn trial(
    name: &'static str,
    case: impl Fn(&mut Random, bool) -> Option<Case> + Send + 'static,
) -> Trial {
    Trial::test(format!("windows::{name}"), move || {
        let (mut tried, mut failures) = (0, Vec::new());
        for number in 0..4 * CASES as u64 {
            let mut random = Random(number * 7919 + name.len() as u64);
            let is_unknown = number % 4 == 0;
            // Attributes that the framework rejects are no case.
            let Some(case) = case(&mut random, is_unknown) else { continue };
            tried += 1;
            let found = (case.found)();
            let is_refused = |why: &String| {
                // Of unknown dims, none is known to be smaller than a window.
                let open = ["must be known", "expected known dims", "exceeds dim"];
                let may_need_dims = is_unknown && !OF_ANY_DIMS.contains(&name);
                let allowed: &[&str] = if may_need_dims { &open } else { &[] };
                case.refused.iter().chain(allowed).any(|known| why.contains(known))
            };
            let wrong = match found {
                Err(why) if is_refused(&why) => None,
                Err(why) => Some(why),
                Ok(found) => differences(&found, &case.wanted, 1e-4),
            };
            failures.extend(wrong.map(|wrong| format!("{}: {wrong}", case.name)));
        }
        judge(&failures, tried, CASES)
    })
}

pub(crate) fn trials() -> Vec<Trial> {
    let all = [paddle::trials(), mxnet::trials(), caffe2::trials(), torch::trials()];
    all.into_iter().flatten().collect()
}

/// An operator with random attributes.
struct Case {
    /// Its attributes and dims, for messages.
    name: String,
    found: Box<dyn FnOnce() -> Result<Vec<Tensor>, String>>,
    wanted: Vec<Tensor>,
    /// What the rule may say that it does not support.
    refused: &'static [&'static str],
}

impl Random {
    fn each(&mut self, count: usize, least: i64, most: i64) -> Vec<i64> {
        (0..count).map(|_| self.number(least, most)).collect()
    }

    /// Returns an array of small fractions.
    fn array(&mut self, dims: &[i64]) -> Array {
        let count = dims.iter().product::<i64>();
        let values = (0..count).map(|_| self.number(-64, 64) as f32 / 16.0).collect();
        Array { dims: dims.to_vec(), values }
    }

    /// Returns one or two images.
    fn images(&mut self, channels: i64, dims: &[i64]) -> Array {
        let batch = self.number(1, 2);
        self.array(&[&[batch, channels], dims].concat())
    }
}

/// A row-major array.
#[derive(Clone)]
struct Array {
    dims: Vec<i64>,
    values: Vec<f32>,
}

impl Array {
    fn zeros(dims: &[i64]) -> Self {
        Self { dims: dims.to_vec(), values: vec![0.0; dims.iter().product::<i64>() as usize] }
    }

    fn place(&self, index: &[i64]) -> usize {
        let place = index.iter().zip(&self.dims).fold(0, |place, (at, dim)| place * dim + at);
        place as usize
    }

    fn get(&self, index: &[i64]) -> f32 {
        self.values[self.place(index)]
    }

    fn add(&mut self, index: &[i64], value: f32) {
        let place = self.place(index);
        self.values[place] += value;
    }

    fn reshaped(&self, dims: &[i64]) -> Self {
        Self { dims: dims.to_vec(), values: self.values.clone() }
    }

    /// Moves the second dim to the end.
    fn channels_last(&self) -> Self {
        let rank = self.dims.len();
        let order: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
        let mut result =
            Self::zeros(&order.iter().map(|axis| self.dims[*axis]).collect::<Vec<_>>());
        for index in indices(&self.dims) {
            let turned: Vec<i64> = order.iter().map(|axis| index[*axis]).collect();
            result.add(&turned, self.get(&index));
        }
        result
    }

    fn tensor(&self) -> Tensor {
        let bytes: Vec<u8> = self.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let dims = self.dims.iter().map(|dim| *dim as u64).collect();
        Tensor::dense(DType::Float32, dims, Blob::memory(bytes))
    }

    /// Returns the tensor as integers of a type.
    fn integers(&self, dtype: DType) -> Tensor {
        let longs = self.values.iter().map(|value| *value as i64);
        let bytes: Vec<u8> = match dtype {
            DType::Int64 => longs.flat_map(i64::to_le_bytes).collect(),
            _ => longs.flat_map(|value| (value as i32).to_le_bytes()).collect(),
        };
        let dims = self.dims.iter().map(|dim| *dim as u64).collect();
        Tensor::dense(dtype, dims, Blob::memory(bytes))
    }
}

/// Returns all indices of an array, in order.
fn indices(dims: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for dim in dims {
        let longer = |index: &Vec<i64>| {
            let index = index.clone();
            (0..*dim).map(move |at| [&index[..], &[at]].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// The elements that a window along an axis covers, and its share of the divisor of a mean.
#[derive(Clone)]
struct Span {
    places: Vec<i64>,
    divisor: i64,
}

/// Pools `[batch, channels, ..]`: the mean, sum or maximum of each window, and the index of the maximum in its image (-1 if
/// there is none).
fn pooled(x: &Array, spans: &[Vec<Span>], kind: &str, nothing: f32) -> (Array, Array) {
    let counts: Vec<i64> = spans.iter().map(|spans| length(spans.len())).collect();
    let mut y = Array::zeros(&[&x.dims[..2], &counts].concat());
    let mut best = y.clone();
    for index in indices(&y.dims.clone()) {
        let own: Vec<&Span> =
            index[2..].iter().zip(spans).map(|(at, all)| &all[*at as usize]).collect();
        let sizes: Vec<i64> = own.iter().map(|span| length(span.places.len())).collect();
        let (mut sum, mut most, mut place) = (0.0, nothing, -1);
        for inner in indices(&sizes) {
            let at: Vec<i64> =
                inner.iter().zip(&own).map(|(at, span)| span.places[*at as usize]).collect();
            let value = x.get(&[&index[..2], &at].concat());
            sum += value;
            if value > most {
                most = value;
                place = at.iter().zip(&x.dims[2..]).fold(0, |place, (at, dim)| place * dim + at);
            }
        }
        let divisor = own.iter().map(|span| span.divisor).product::<i64>();
        y.add(
            &index,
            match kind {
                "max" => most,
                "sum" => sum,
                _ => sum / divisor as f32,
            },
        );
        best.add(&index, place as f32);
    }
    (y, best)
}

/// How the taps of windows lie along the axes.
struct Taps<'t> {
    kernel: &'t [i64],
    strides: &'t [i64],
    dilations: &'t [i64],
    begins: &'t [i64],
}

impl Taps<'_> {
    /// Returns the element that a tap of a window meets, which may lie in the padding.
    fn place(&self, window: &[i64], tap: &[i64]) -> Vec<i64> {
        let axes = 0..window.len();
        axes.map(|a| window[a] * self.strides[a] - self.begins[a] + tap[a] * self.dilations[a])
            .collect()
    }
}

fn is_inside(place: &[i64], dims: &[i64]) -> bool {
    place.iter().zip(dims).all(|(at, dim)| (0..*dim).contains(at))
}

/// Convolves `[batch, channels, ..]` with `[filters, channels / groups, ..]`.
fn convolved(x: &Array, w: &Array, taps: &Taps<'_>, counts: &[i64], groups: i64) -> Array {
    let mut y = Array::zeros(&[&[x.dims[0], w.dims[0]], counts].concat());
    let (own, filters) = (w.dims[1], w.dims[0] / groups);
    for index in indices(&y.dims.clone()) {
        for tap in indices(taps.kernel) {
            let place = taps.place(&index[2..], &tap);
            if !is_inside(&place, &x.dims[2..]) {
                continue;
            }
            for channel in 0..own {
                let group = index[1] / filters;
                let element = x.get(&[&[index[0], group * own + channel], &place[..]].concat());
                y.add(&index, element * w.get(&[&[index[1], channel], &tap[..]].concat()));
            }
        }
    }
    y
}

/// The transposed convolution of `[batch, channels, ..]` with `[channels, filters / groups, ..]`.
fn transposed(x: &Array, w: &Array, taps: &Taps<'_>, dims: &[i64], groups: i64) -> Array {
    let own = w.dims[1];
    let mut y = Array::zeros(&[&[x.dims[0], own * groups], dims].concat());
    for index in indices(&x.dims) {
        for tap in indices(taps.kernel) {
            let place = taps.place(&index[2..], &tap);
            if !is_inside(&place, dims) {
                continue;
            }
            for filter in 0..own {
                let group = index[1] / (x.dims[1] / groups);
                let weight = w.get(&[&[index[1], filter], &tap[..]].concat());
                y.add(
                    &[&[index[0], group * own + filter], &place[..]].concat(),
                    x.get(&index) * weight,
                );
            }
        }
    }
    y
}

/// Returns the patches of images: `[batch, channels * taps, windows]`.
fn columns(x: &Array, taps: &Taps<'_>, counts: &[i64]) -> Array {
    let mut y = Array::zeros(&[&x.dims[..2], taps.kernel, counts].concat());
    let spatial = counts.len();
    for index in indices(&y.dims.clone()) {
        let place = taps.place(&index[2 + spatial..], &index[2..2 + spatial]);
        if is_inside(&place, &x.dims[2..]) {
            y.add(&index, x.get(&[&index[..2], &place].concat()));
        }
    }
    let taps: i64 = taps.kernel.iter().product();
    y.reshaped(&[x.dims[0], x.dims[1] * taps, counts.iter().product()])
}

/// Adds up the patches `[batch, channels * taps, windows]` as images with these dims.
fn image(x: &Array, taps: &Taps<'_>, counts: &[i64], dims: &[i64]) -> Array {
    let spatial = counts.len();
    let channels = x.dims[1] / taps.kernel.iter().product::<i64>();
    let x = x.reshaped(&[&[x.dims[0], channels], taps.kernel, counts].concat());
    let mut y = Array::zeros(&[&[x.dims[0], channels], dims].concat());
    for index in indices(&x.dims) {
        let place = taps.place(&index[2 + spatial..], &index[2..2 + spatial]);
        if is_inside(&place, dims) {
            y.add(&[&index[..2], &place].concat(), x.get(&index));
        }
    }
    y
}

fn attribute(name: &str, value: impl Into<AttributeValue>) -> Attribute {
    Attribute { name: name.to_owned(), value: value.into() }
}

fn operand(slot: &str, name: &str) -> Operand {
    Operand { slot: slot.to_owned(), args: vec![name.to_owned()] }
}

/// Evaluates a program of one operator. The first array is the input, whose dims are perhaps unknown; others are parameters.
fn evaluated(
    dialect: Dialect,
    mut op: Op,
    arrays: &[(&str, &Array)],
    is_unknown: bool,
    outputs: usize,
) -> Result<Vec<Tensor>, String> {
    let names: Vec<String> = (0..outputs).map(|number| format!("y{number}")).collect();
    let results = |(slot, name): (usize, &String)| Operand {
        slot: slot.to_string(),
        args: vec![name.clone()],
    };
    op.outputs = match dialect {
        Dialect::Mxnet | Dialect::Caffe2 => {
            vec![Operand { slot: String::new(), args: names.clone() }]
        }
        _ => names.iter().enumerate().map(results).collect(),
    };
    op.name = "op".to_owned();
    let given: Vec<(String, Tensor)> =
        arrays.iter().map(|(name, array)| ((*name).to_owned(), array.tensor())).collect();
    let var = |(number, (name, tensor)): (usize, &(String, Tensor))| {
        let dim =
            |dim: &u64| if is_unknown && number == 0 { Dim::Unknown } else { Dim::Known(*dim) };
        let mut dims: Vec<Dim> = tensor.shape.iter().map(dim).collect();
        // The channels are known.
        if let (Some(dim), Some(size)) = (dims.get_mut(1), tensor.shape.get(1)) {
            *dim = Dim::Known(*size);
        }
        let value = TensorType::new(tensor.dtype, Some(dims)).into();
        Var { name: name.clone(), value, persistable: number > 0, ..Var::default() }
    };
    let block = Block {
        parent: -1,
        vars: given.iter().enumerate().map(var).collect(),
        inputs: vec![given[0].0.clone()],
        outputs: names,
        ops: vec![op],
        ..Block::default()
    };
    let mut model = Model::default();
    let parameter = |(name, tensor): &(String, Tensor)| Parameter {
        name: name.clone(),
        tensor: tensor.clone(),
    };
    model.parameters = given[1..].iter().map(parameter).collect();
    model.set_main(Program::from(Topology { blocks: vec![block], ..Topology::new(dialect) }));
    let found = lowered(model, &given[..1])?;
    Ok(found.into_iter().map(|(_, tensor)| tensor).collect())
}

//! Normalization with random attributes, compared with the formulas of the frameworks' kernels.

use libtest_mimic::Trial;
use lodstone_model::{AttributeValue, Tensor};

use super::random::Random;
use super::recorded;
use super::single::{PADDLE, Single, list, text, trials_of};

pub(crate) fn trials() -> Vec<Trial> {
    let trial = trials_of("normalize");
    vec![
        trial("paddle", "batch_norm", PADDLE, paddle_batch_norm),
        trial("paddle", "layer_norm", PADDLE, paddle_layer_norm),
        trial("paddle", "groups", PADDLE, paddle_groups),
        trial("paddle", "norm", PADDLE, paddle_norm),
        trial("paddle", "lrn", PADDLE, |random| local_response(random, true)),
        trial("mxnet", "BatchNorm", Single::mxnet, mxnet_batch_norm),
        trial("mxnet", "LayerNorm", Single::mxnet, mxnet_layer_norm),
        trial("mxnet", "groups", Single::mxnet, mxnet_groups),
        trial("mxnet", "L2Normalization", Single::mxnet, mxnet_l2),
        trial("mxnet", "LRN", Single::mxnet, |random| local_response(random, false)),
        trial("torch", "batch_norm", Single::torch, torch_batch_norm),
        trial("torch", "layer_norm", Single::torch, torch_layer_norm),
        trial("torch", "groups", Single::torch, torch_groups),
        trial("torch", "weight_norm", Single::torch, torch_weight_norm),
    ]
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

/// `phi/kernels/cpu/batch_norm_kernel.cc` of 2.6.2.
fn paddle_batch_norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 2, 5);
    let is_last = random.flag();
    let channel = if is_last { dims.len() - 1 } else { 1 };
    let count = dims[channel];
    let x = random.tensor(&dims);
    let (scale, bias) = (random.tensor(&[count]), random.tensor(&[count]));
    let (mean, variance) = (random.tensor(&[count]), positive(random, count));
    let (epsilon, momentum) = (epsilon(random).min(1e-3), random.real(0.0, 1.0) as f32);
    let (is_test, is_global) = (random.flag(), random.flag());
    let is_trainable = random.size(0, 3) == 0;
    let attributes = vec![
        ("epsilon", AttributeValue::Float(epsilon)),
        ("momentum", AttributeValue::Float(momentum)),
        ("data_layout", text(if is_last { "NHWC" } else { "NCHW" })),
        ("is_test", AttributeValue::Bool(is_test)),
        ("use_global_stats", AttributeValue::Bool(is_global)),
        ("trainable_statistics", AttributeValue::Bool(is_trainable)),
    ];
    let array = Array::of(&x);
    let mut moments = Moments::of(&array, count, |place| array.index(place, channel));
    let (means, variances) = (recorded::elements(&mean), recorded::elements(&variance));
    let is_fixed = is_global || is_test && !is_trainable;
    let batch = (moments.means.clone(), moments.inverses(epsilon.into()));
    let momentum = f64::from(momentum);
    let moved = |old: &[f64], new: &[f64]| {
        let pairs = old.iter().zip(new);
        pairs.map(|(old, new)| old * momentum + new * (1.0 - momentum)).collect::<Vec<f64>>()
    };
    let (new_means, new_variances) = match is_fixed {
        true => (means.clone(), variances.clone()),
        false => (moved(&means, &moments.means), moved(&variances, &moments.variances)),
    };
    if is_fixed {
        (moments.means, moments.variances) = (means, variances);
    }
    let y = moments.applied(&array, epsilon.into()).affine(Some(&scale), Some(&bias), channel);
    let mut expected = vec![y.tensor(), list(&new_means, &[count]), list(&new_variances, &[count])];
    let mut outputs = vec!["Y", "MeanOut", "VarianceOut"];
    if !is_fixed {
        expected.extend([list(&batch.0, &[count]), list(&batch.1, &[count])]);
        outputs.extend(["SavedMean", "SavedVariance"]);
    }
    let inputs =
        vec![("X", x), ("Scale", scale), ("Bias", bias), ("Mean", mean), ("Variance", variance)];
    let is_dynamic = random.size(0, 3) == 0;
    Some((
        Single { kind: "batch_norm".to_owned(), inputs, attributes, outputs, is_dynamic },
        expected,
    ))
}

/// `phi/kernels/cpu/layer_norm_kernel.cc`.
fn paddle_layer_norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 2, 5);
    let begin = random.size(1, dims.len() - 1);
    let (rows, count) = (dims[..begin].iter().product(), dims[begin..].iter().product());
    let x = random.tensor(&dims);
    let (scale, bias, epsilon) = (maybe(random, count), maybe(random, count), epsilon(random));
    let array = Array { dims: vec![rows, count], ..Array::of(&x) };
    let moments = Moments::of(&array, rows, |place| array.index(place, 0));
    let y = moments.applied(&array, epsilon.into()).affine(scale.as_ref(), bias.as_ref(), 1);
    let y = Array { dims: dims.clone(), ..y };
    let expected = vec![
        y.tensor(),
        list(&moments.means, &dims[..begin]),
        list(&moments.variances, &dims[..begin]),
    ];
    let attributes = vec![
        ("epsilon", AttributeValue::Float(epsilon)),
        ("begin_norm_axis", AttributeValue::Int(begin as i32)),
    ];
    let mut inputs = vec![("X", x)];
    inputs.extend(scale.map(|it| ("Scale", it)).into_iter().chain(bias.map(|it| ("Bias", it))));
    let outputs = vec!["Y", "Mean", "Variance"];
    let kind = "layer_norm".to_owned();
    Some((Single::new(kind, inputs, attributes, outputs), expected))
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

/// `group_norm_kernel.cc` and `instance_norm_kernel.cc`.
fn paddle_groups(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let is_instance = random.flag();
    let (mut dims, mut groups) = groups(random, 3);
    let is_last = !is_instance && random.flag();
    let channel = if is_last { dims.len() - 1 } else { 1 };
    let count = dims[1];
    dims.swap(1, channel);
    if is_instance {
        groups = count;
    }
    let x = random.tensor(&dims);
    let (scale, bias) = match is_instance && random.flag() {
        true => (Some(random.tensor(&[count])), Some(random.tensor(&[count]))),
        false if is_instance => (None, None),
        false => (maybe(random, count), maybe(random, count)),
    };
    let epsilon = epsilon(random);
    let (y, moments) = grouped(&Array::of(&x), channel, groups, epsilon.into());
    let y = y.affine(scale.as_ref(), bias.as_ref(), channel).tensor();
    let mut inputs = vec![("X", x)];
    inputs.extend(scale.map(|it| ("Scale", it)).into_iter().chain(bias.map(|it| ("Bias", it))));
    let mut attributes = vec![("epsilon", AttributeValue::Float(epsilon))];
    let (outputs, expected) = match is_instance {
        true => {
            let list = |values: &[f64]| list(values, &[dims[0] * count]);
            let inverses = moments.inverses(epsilon.into());
            (
                vec!["Y", "SavedMean", "SavedVariance"],
                vec![y, list(&moments.means), list(&inverses)],
            )
        }
        false => {
            attributes.push(("groups", AttributeValue::Int(groups as i32)));
            attributes.push(("data_layout", text(if is_last { "NHWC" } else { "NCHW" })));
            let list = |values: &[f64]| list(values, &[dims[0], groups]);
            let moments = [list(&moments.means), list(&moments.variances)];
            (vec!["Y", "Mean", "Variance"], [vec![y], moments.to_vec()].concat())
        }
    };
    let kind = if is_instance { "instance_norm" } else { "group_norm" }.to_owned();
    let is_dynamic = !is_last && random.size(0, 3) == 0;
    Some((Single { kind, inputs, attributes, outputs, is_dynamic }, expected))
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

/// `norm_kernel.cc`.
fn paddle_norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 1, 4);
    let axis = random.size(0, dims.len() - 1);
    let x = random.tensor(&dims);
    let epsilon = epsilon(random);
    let array = Array::of(&x);
    let norms: Vec<f64> =
        squares(&array, &[axis]).iter().map(|it| (it + f64::from(epsilon)).sqrt()).collect();
    let y = array.map(|place, it| it / norms[place]);
    let first = (0..norms.len()).filter(|place| array.index(*place, axis) == 0);
    let kept: Vec<f64> = first.map(|place| norms[place]).collect();
    let mut reduced = dims.clone();
    reduced[axis] = 1;
    let given = if random.flag() { axis as i32 } else { axis as i32 - dims.len() as i32 };
    let attributes =
        vec![("epsilon", AttributeValue::Float(epsilon)), ("axis", AttributeValue::Int(given))];
    let (inputs, outputs) = (vec![("X", x)], vec!["Out", "Norm"]);
    let (kind, is_dynamic) = ("norm".to_owned(), random.size(0, 3) == 0);
    let expected = vec![y.tensor(), list(&kept, &reduced)];
    Some((Single { kind, inputs, attributes, outputs, is_dynamic }, expected))
}

/// `lrn_kernel.cc`, where `alpha` is of each square, and `src/operator/nn/lrn.cc` of MXNet, where it is of their mean.
fn local_response(random: &mut Random, is_paddle: bool) -> Option<(Single, Vec<Tensor>)> {
    let mut dims: Vec<usize> = (0..4).map(|_| random.size(1, 4)).collect();
    let is_last = is_paddle && random.flag();
    let channel = if is_last { 3 } else { 1 };
    dims[channel] = random.size(1, 8);
    let x = random.tensor(&dims);
    let size = 2 * random.size(0, 3) + 1;
    let (alpha, beta) = (random.real(0.1, 2.0) as f32, random.real(0.1, 1.5) as f32);
    let bias = random.real(0.5, 2.0) as f32;
    let array = Array::of(&x);
    let share = f64::from(alpha) / if is_paddle { 1.0 } else { size as f64 };
    let step: usize = dims[channel + 1..].iter().product();
    let y = array.map(|place, it| {
        let own = array.index(place, channel);
        let near = (0..dims[channel]).filter(|other| other.abs_diff(own) <= size / 2);
        let sum: f64 =
            near.map(|other| array.elements[place - own * step + other * step].powi(2)).sum();
        it * (f64::from(bias) + share * sum).powf(-f64::from(beta))
    });
    let (kind, inputs, attributes, outputs) = match is_paddle {
        true => (
            "lrn",
            vec![("X", x)],
            vec![
                ("n", AttributeValue::Int(size as i32)),
                ("k", AttributeValue::Float(bias)),
                ("alpha", AttributeValue::Float(alpha)),
                ("beta", AttributeValue::Float(beta)),
                ("data_format", text(if is_last { "NHWC" } else { "NCHW" })),
            ],
            vec!["Out"],
        ),
        false => (
            "LRN",
            vec![("", x)],
            vec![
                ("nsize", text(size)),
                ("knorm", text(bias)),
                ("alpha", text(alpha)),
                ("beta", text(beta)),
            ],
            vec!["output"],
        ),
    };
    let (kind, is_dynamic) = (kind.to_owned(), !is_last && random.size(0, 3) == 0);
    Some((Single { kind, inputs, attributes, outputs, is_dynamic }, vec![y.tensor()]))
}

/// `src/operator/nn/batch_norm.cc` of MXNet 1.9.1.
fn mxnet_batch_norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 2, 5);
    let axis = random.size(0, dims.len() - 1);
    let count = dims[axis];
    let x = random.tensor(&dims);
    let (scale, bias) = (random.tensor(&[count]), random.tensor(&[count]));
    let (mean, variance) = (random.tensor(&[count]), positive(random, count));
    let (epsilon, is_fixed) = (epsilon(random), random.flag());
    let array = Array::of(&x);
    let groups = (0..array.elements.len()).map(|place| array.index(place, axis)).collect();
    let moments = Moments {
        groups,
        means: recorded::elements(&mean),
        variances: recorded::elements(&variance),
    };
    let y = moments.applied(&array, epsilon.into());
    let y = y.affine((!is_fixed).then_some(&scale), Some(&bias), axis).tensor();
    let given = if random.flag() { axis as i64 } else { axis as i64 - dims.len() as i64 };
    let mut attributes = vec![("eps", text(epsilon)), ("axis", text(given))];
    if !is_fixed || random.flag() {
        attributes.push(("fix_gamma", text(if is_fixed { "True" } else { "False" })));
    }
    let inputs = vec![("", x), ("", scale), ("", bias), ("", mean), ("", variance)];
    let (kind, outputs) = ("BatchNorm".to_owned(), vec!["output"]);
    let is_dynamic = random.size(0, 3) == 0;
    Some((Single { kind, inputs, attributes, outputs, is_dynamic }, vec![y]))
}

/// `src/operator/nn/layer_norm.cc`.
fn mxnet_layer_norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 2, 5);
    let axis = random.size(0, dims.len() - 1);
    let x = random.tensor(&dims);
    let (scale, bias) = (random.tensor(&[dims[axis]]), random.tensor(&[dims[axis]]));
    let epsilon = epsilon(random);
    let array = Array::of(&x);
    let rows = array.elements.len() / dims[axis];
    let after: usize = dims[axis + 1..].iter().product();
    let row = |place: usize| place / (after * dims[axis]) * after + place % after;
    let y = Moments::of(&array, rows, row).applied(&array, epsilon.into());
    let y = y.affine(Some(&scale), Some(&bias), axis).tensor();
    let given = if random.flag() { axis as i64 } else { axis as i64 - dims.len() as i64 };
    let attributes = vec![("eps", text(epsilon)), ("axis", text(given))];
    let inputs = vec![("", x), ("", scale), ("", bias)];
    let (kind, outputs) = ("LayerNorm".to_owned(), vec!["output"]);
    let is_dynamic = random.size(0, 3) == 0;
    Some((Single { kind, inputs, attributes, outputs, is_dynamic }, vec![y]))
}

/// `src/operator/nn/group_norm-inl.h`, whose scales are those of groups in 1.9.1, and `instance_norm-inl.h`.
fn mxnet_groups(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let is_instance = random.flag();
    let (dims, mut groups) = groups(random, 3);
    if is_instance {
        groups = dims[1];
    }
    let x = random.tensor(&dims);
    let (scale, bias) = (random.tensor(&[groups]), random.tensor(&[groups]));
    let epsilon = epsilon(random);
    let (y, _) = grouped(&Array::of(&x), 1, groups, epsilon.into());
    let parts = Array { dims: vec![dims[0], groups, y.elements.len() / dims[0] / groups], ..y };
    let y = Array { dims, ..parts.affine(Some(&scale), Some(&bias), 1) }.tensor();
    let mut attributes = vec![("eps", text(epsilon))];
    if !is_instance {
        attributes.push(("num_groups", text(groups)));
    }
    let inputs = vec![("", x), ("", scale), ("", bias)];
    let kind = if is_instance { "InstanceNorm" } else { "GroupNorm" }.to_owned();
    let (outputs, is_dynamic) = (vec!["output"], random.size(0, 3) == 0);
    Some((Single { kind, inputs, attributes, outputs, is_dynamic }, vec![y]))
}

/// `src/operator/l2_normalization-inl.h`.
fn mxnet_l2(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 3, 4);
    let x = random.tensor(&dims);
    let mode = random.pick(&["instance", "channel", "spatial"]);
    let axes: Vec<usize> = match mode {
        "instance" => (1..dims.len()).collect(),
        "channel" => vec![1],
        _ => (2..dims.len()).collect(),
    };
    let epsilon = epsilon(random);
    let array = Array::of(&x);
    let sums = squares(&array, &axes);
    let y = array.map(|place, it| it / (sums[place] + f64::from(epsilon)).sqrt()).tensor();
    let attributes = vec![("eps", text(epsilon)), ("mode", text(mode))];
    let (kind, inputs) = ("L2Normalization".to_owned(), vec![("", x)]);
    let (outputs, is_dynamic) = (vec!["output"], random.size(0, 3) == 0);
    Some((Single { kind, inputs, attributes, outputs, is_dynamic }, vec![y]))
}

/// `aten/src/ATen/native/Normalization.cpp` of PyTorch 2.15.
fn torch_batch_norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 2, 5);
    let count = dims[1];
    let x = random.tensor(&dims);
    let (scale, bias) = (maybe(random, count), maybe(random, count));
    let (epsilon, trains) = (f64::from(epsilon(random)), random.flag());
    let array = Array::of(&x);
    let mut moments = Moments::of(&array, count, |place| array.index(place, 1));
    let mut inputs = vec![("input", x)];
    if !trains {
        let (mean, variance) = (random.tensor(&[count]), positive(random, count));
        moments.means = recorded::elements(&mean);
        moments.variances = recorded::elements(&variance);
        inputs.extend([("running_mean", mean), ("running_var", variance)]);
    }
    let y = moments.applied(&array, epsilon).affine(scale.as_ref(), bias.as_ref(), 1).tensor();
    inputs.extend(scale.map(|it| ("weight", it)).into_iter().chain(bias.map(|it| ("bias", it))));
    let attributes = vec![
        ("training", AttributeValue::Bool(trains)),
        ("momentum", AttributeValue::Double(0.1)),
        ("eps", AttributeValue::Double(epsilon)),
    ];
    let is_native = random.flag();
    let mut expected = vec![y];
    if is_native && trains {
        let inverses = moments.inverses(epsilon);
        expected.extend([list(&moments.means, &[count]), list(&inverses, &[count])]);
    } else if is_native {
        expected.extend([list(&[], &[0]), list(&[], &[0])]);
    }
    let name = if is_native { "native_batch_norm" } else { "batch_norm" };
    let outputs = ["0", "1", "2"][..expected.len()].to_vec();
    let (kind, is_dynamic) = (format!("aten::{name}"), random.size(0, 3) == 0);
    Some((Single { kind, inputs, attributes, outputs, is_dynamic }, expected))
}

/// `layer_norm.cpp`: also of `rms_norm`.
fn torch_layer_norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 2, 4);
    let begin = random.size(0, dims.len() - 1);
    let (rows, count) = (dims[..begin].iter().product(), dims[begin..].iter().product());
    let x = random.tensor(&dims);
    let name = random.pick(&["layer_norm", "native_layer_norm", "rms_norm"]);
    let is_rms = name == "rms_norm";
    let (scale, bias) = (maybe(random, count), maybe(random, count).filter(|_| !is_rms));
    let given = f64::from(epsilon(random));
    let has_epsilon = !is_rms || random.flag();
    let epsilon = if has_epsilon { given } else { f64::from(f32::EPSILON) };
    let array = Array { dims: vec![rows, count], ..Array::of(&x) };
    let mut moments = Moments::of(&array, rows, |place| array.index(place, 0));
    if is_rms {
        let squares = array.map(|_, it| it * it);
        moments.variances = Moments::of(&squares, rows, |place| array.index(place, 0)).means;
        moments.means = vec![0.0; rows];
        if moments.variances.contains(&0.0) {
            return None;
        }
    }
    let y = moments.applied(&array, epsilon).affine(scale.as_ref(), bias.as_ref(), 1);
    let mut expected = vec![Array { dims: dims.clone(), ..y }.tensor()];
    if name == "native_layer_norm" {
        let ones = vec![1; dims.len() - begin];
        let kept = [&dims[..begin], &ones].concat();
        expected.extend([list(&moments.means, &kept), list(&moments.inverses(epsilon), &kept)]);
    }
    let shape = dims[begin..].iter().map(|dim| *dim as i64).collect();
    let mut attributes = vec![("normalized_shape", AttributeValue::Longs(shape))];
    if has_epsilon {
        attributes.push(("eps", AttributeValue::Double(epsilon)));
    }
    let shaped =
        |tensor: Tensor| Array { dims: dims[begin..].to_vec(), ..Array::of(&tensor) }.tensor();
    let mut inputs = vec![("input", x)];
    inputs.extend(scale.map(|it| ("weight", shaped(it))));
    inputs.extend(bias.map(|it| ("bias", shaped(it))));
    let outputs = ["0", "1", "2"][..expected.len()].to_vec();
    let (kind, is_dynamic) = (format!("aten::{name}"), random.size(0, 3) == 0);
    Some((Single { kind, inputs, attributes, outputs, is_dynamic }, expected))
}

/// `group_norm.cpp` and `instance_norm`.
fn torch_groups(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let name = random.pick(&["group_norm", "native_group_norm", "instance_norm"]);
    let (dims, mut groups) = groups(random, 3);
    if name == "instance_norm" {
        groups = dims[1];
    }
    let x = random.tensor(&dims);
    let (scale, bias) = (maybe(random, dims[1]), maybe(random, dims[1]));
    let epsilon = f64::from(epsilon(random));
    let (y, moments) = grouped(&Array::of(&x), 1, groups, epsilon);
    let mut expected = vec![y.affine(scale.as_ref(), bias.as_ref(), 1).tensor()];
    let mut attributes = vec![("eps", AttributeValue::Double(epsilon))];
    let long = |number: usize| AttributeValue::Long(number as i64);
    match name {
        "group_norm" => attributes.push(("num_groups", long(groups))),
        "instance_norm" => attributes.extend([
            ("use_input_stats", AttributeValue::Bool(true)),
            ("momentum", AttributeValue::Double(0.1)),
        ]),
        _ => {
            let pixels = dims[2..].iter().product();
            let sizes = [("N", dims[0]), ("C", dims[1]), ("HxW", pixels), ("group", groups)];
            attributes.extend(sizes.map(|(name, number)| (name, long(number))));
            let list = |values: &[f64]| list(values, &[dims[0], groups]);
            expected.extend([list(&moments.means), list(&moments.inverses(epsilon))]);
        }
    }
    let mut inputs = vec![("input", x)];
    inputs.extend(scale.map(|it| ("weight", it)).into_iter().chain(bias.map(|it| ("bias", it))));
    let outputs = ["0", "1", "2"][..expected.len()].to_vec();
    let (kind, is_dynamic) = (format!("aten::{name}"), random.size(0, 3) == 0);
    Some((Single { kind, inputs, attributes, outputs, is_dynamic }, expected))
}

/// `WeightNorm.cpp`: the norm is over all dims but one; over all, if that is -1.
fn torch_weight_norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 1, 4);
    let v = random.tensor(&dims);
    let kept = if random.size(0, 3) == 0 { None } else { Some(random.size(0, dims.len() - 1)) };
    let axes: Vec<usize> = (0..dims.len()).filter(|axis| Some(*axis) != kept).collect();
    let sums = squares(&Array::of(&v), &axes);
    if sums.contains(&0.0) {
        return None;
    }
    let shape: Vec<usize> =
        (0..dims.len()).map(|axis| if Some(axis) == kept { dims[axis] } else { 1 }).collect();
    let g = if kept.is_some() { random.tensor(&shape) } else { random.tensor(&[]) };
    let array = Array::of(&v);
    let scales = recorded::elements(&g);
    let y = array.map(|place, it| {
        let scale = kept.map_or(scales[0], |kept| scales[array.index(place, kept)]);
        it * scale / sums[place].sqrt()
    });
    let negative = random.flag();
    let dim = match kept {
        None => -1,
        Some(kept) if negative && kept + 1 < dims.len() => kept as i64 - dims.len() as i64,
        Some(kept) => kept as i64,
    };
    let (inputs, attributes) = (vec![("v", v), ("g", g)], vec![("dim", AttributeValue::Long(dim))]);
    let (kind, outputs) = ("aten::_weight_norm".to_owned(), vec!["0"]);
    Some((Single::new(kind, inputs, attributes, outputs), vec![y.tensor()]))
}

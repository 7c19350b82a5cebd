//! PaddlePaddle 2.6.2: `phi/kernels/cpu`.

use lodstone_model::{AttributeValue, Tensor};

use super::{
    Array, Draw, LocalResponse, Moments, Random, Single, dims, epsilon, grouped, groups, list,
    maybe, positive, recorded, squares, text,
};

pub(super) const DRAWS: &[(&str, Draw)] = &[
    ("batch_norm", batch_norm),
    ("layer_norm", layer_norm),
    ("groups", in_groups),
    ("norm", norm),
    ("lrn", local_response),
];

/// `batch_norm_kernel.cc`.
fn batch_norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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

/// `layer_norm_kernel.cc`.
fn layer_norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
    let single = Single::new("layer_norm", inputs, attributes, outputs);
    Some((Single { is_dynamic: random.flag(), ..single }, expected))
}

/// `group_norm_kernel.cc` and `instance_norm_kernel.cc`.
fn in_groups(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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

/// `norm_kernel.cc`.
fn norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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

/// `lrn_kernel.cc`: `alpha` is of each square.
fn local_response(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let is_last = random.flag();
    let how = LocalResponse::drawn(random, is_last);
    let attributes = vec![
        ("n", AttributeValue::Int(how.size as i32)),
        ("k", AttributeValue::Float(how.bias)),
        ("alpha", AttributeValue::Float(how.alpha)),
        ("beta", AttributeValue::Float(how.beta)),
        ("data_format", text(if is_last { "NHWC" } else { "NCHW" })),
    ];
    let expected = how.result(how.alpha.into());
    let single = Single::new("lrn", vec![("X", how.x.tensor())], attributes, vec!["Out"]);
    let is_dynamic = !is_last && random.size(0, 3) == 0;
    Some((Single { is_dynamic, ..single }, vec![expected]))
}

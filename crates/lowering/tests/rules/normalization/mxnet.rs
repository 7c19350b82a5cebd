//! MXNet 1.9.1.

use lodstone_model::Tensor;

use super::{
    Array, Draw, LocalResponse, Moments, Random, Single, dims, epsilon, grouped, groups, positive,
    recorded, squares, text,
};

pub(super) const DRAWS: &[(&str, Draw)] = &[
    ("BatchNorm", batch_norm),
    ("LayerNorm", layer_norm),
    ("groups", in_groups),
    ("L2Normalization", l2),
    ("LRN", local_response),
];

/// `src/operator/nn/batch_norm.cc`.
fn batch_norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
fn layer_norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
fn in_groups(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
fn l2(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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

/// `src/operator/nn/lrn.cc`: `alpha` is of the mean of squares.
fn local_response(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let how = LocalResponse::drawn(random, false);
    let attributes = vec![
        ("nsize", text(how.size)),
        ("knorm", text(how.bias)),
        ("alpha", text(how.alpha)),
        ("beta", text(how.beta)),
    ];
    let expected = how.of_mean();
    let single = Single::new("LRN", vec![("", how.x.tensor())], attributes, vec!["output"]);
    Some((Single { is_dynamic: random.size(0, 3) == 0, ..single }, vec![expected]))
}

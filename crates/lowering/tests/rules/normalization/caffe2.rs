//! Caffe2 of PyTorch 1.9.1: `caffe2/operators`.

use lodstone_model::{AttributeValue, Tensor};

use super::{
    Array, Draw, LocalResponse, Moments, Random, Single, channels_last, dims, epsilon, grouped,
    groups, list, positive, recorded, squares, text,
};

pub(super) const DRAWS: &[(&str, Draw)] = &[
    ("SpatialBN", batch),
    ("groups", in_groups),
    ("LayerNorm", layer),
    ("LRN", local_response),
    ("Normalize", norm),
    ("AffineChannel", channels),
    ("RMSNorm", root_mean_square),
];

/// Returns an operator on images, of which the layout may be that with the channels last.
fn on_images(
    random: &mut Random,
    kind: &str,
    mut tensors: Vec<Tensor>,
    mut attributes: Vec<(&'static str, AttributeValue)>,
    expected: Tensor,
) -> Option<(Single, Vec<Tensor>)> {
    let is_last = random.flag();
    if is_last || random.flag() {
        attributes.push(("order", text(if is_last { "NHWC" } else { "NCHW" })));
    }
    let expected = if is_last { channels_last(&expected) } else { expected };
    if is_last {
        tensors[0] = channels_last(&tensors[0]);
    }
    let inputs = tensors.into_iter().map(|tensor| ("", tensor)).collect();
    let single = Single::new(kind, inputs, attributes, vec![""]);
    // Beside an empty batch, other dims must be known.
    let is_dynamic = !is_last && expected.shape[0] > 0 && random.size(0, 3) == 0;
    Some((Single { is_dynamic, ..single }, vec![expected]))
}

/// Returns epsilon, which is perhaps left to its default.
fn given(
    random: &mut Random,
    default: f32,
    attributes: &mut Vec<(&'static str, AttributeValue)>,
) -> f64 {
    if random.size(0, 3) == 0 {
        return default.into();
    }
    let epsilon = epsilon(random);
    attributes.push(("epsilon", AttributeValue::Float(epsilon)));
    epsilon.into()
}

/// Returns dims of images; the kernels of a few other operators divide by the size of an empty batch.
fn image(random: &mut Random, least: usize, most: usize) -> Vec<usize> {
    let mut dims = dims(random, least, most);
    dims[0] = random.size(0, 3);
    dims
}

/// `spatial_batch_norm_op.h`.
fn batch(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = image(random, 3, 5);
    let count = dims[1];
    let x = random.tensor(&dims);
    let (scale, bias) = (random.tensor(&[count]), random.tensor(&[count]));
    let (mean, variance) = (random.tensor(&[count]), positive(random, count));
    let array = Array::of(&x);
    let moments = Moments {
        groups: (0..array.elements.len()).map(|place| array.index(place, 1)).collect(),
        means: recorded::elements(&mean),
        variances: recorded::elements(&variance),
    };
    let mut attributes = vec![("is_test", AttributeValue::Long(1))];
    let epsilon = given(random, 1e-5, &mut attributes);
    let y = moments.applied(&array, epsilon).affine(Some(&scale), Some(&bias), 1).tensor();
    on_images(random, "SpatialBN", vec![x, scale, bias, mean, variance], attributes, y)
}

/// `instance_norm_op.h` and `group_norm_op.h`.
fn in_groups(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let is_instance = random.flag();
    let (mut dims, mut groups) = groups(random, 3);
    dims[0] = random.size(if is_instance { 1 } else { 0 }, 3);
    let mut attributes = Vec::new();
    if is_instance {
        groups = dims[1];
    } else if random.size(0, 7) == 0 {
        // The number by default.
        (groups, dims[1]) = (32, 64);
    } else {
        attributes.push(("group", AttributeValue::Long(groups as i64)));
    }
    let x = random.tensor(&dims);
    let (scale, bias) = (random.tensor(&[dims[1]]), random.tensor(&[dims[1]]));
    let epsilon = given(random, 1e-5, &mut attributes);
    let (y, _) = grouped(&Array::of(&x), 1, groups, epsilon);
    let y = y.affine(Some(&scale), Some(&bias), 1).tensor();
    let kind = if is_instance { "InstanceNorm" } else { "GroupNorm" };
    on_images(random, kind, vec![x, scale, bias], attributes, y)
}

/// `layer_norm_op.h`: the other results are the mean and the deviation, of which epsilon is a part.
fn layer(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = image(random, 2, 4);
    let begin = random.size(1, dims.len() - 1);
    let (rows, count) = (dims[..begin].iter().product(), dims[begin..].iter().product());
    let x = random.tensor(&dims);
    let mut attributes = Vec::new();
    let epsilon = given(random, 1e-5, &mut attributes);
    if begin != 1 || random.flag() {
        let axis = if random.flag() { begin as i64 } else { begin as i64 - dims.len() as i64 };
        attributes.push(("axis", AttributeValue::Long(axis)));
    }
    let parts = random.flag().then(|| [random.tensor(&[count]), random.tensor(&[count])]);
    let array = Array { dims: vec![rows, count], ..Array::of(&x) };
    let moments = Moments::of(&array, rows, |place| array.index(place, 0));
    let [scale, bias] =
        parts.as_ref().map_or([None, None], |[scale, bias]| [Some(scale), Some(bias)]);
    let y = moments.applied(&array, epsilon).affine(scale, bias, 1);
    let deviations: Vec<f64> = moments.variances.iter().map(|it| (it + epsilon).sqrt()).collect();
    let kept = [&dims[..begin], &[1]].concat();
    let expected = vec![
        Array { dims: dims.clone(), ..y }.tensor(),
        list(&moments.means, &kept),
        list(&deviations, &kept),
    ];
    let mut inputs = vec![("", x)];
    if let Some(parts) = parts {
        let shaped = |it: &Tensor| list(&recorded::elements(it), &dims[begin..]);
        inputs.extend(parts.iter().map(|it| ("", shaped(it))));
        attributes.push(("elementwise_affine", AttributeValue::Long(1)));
    }
    let single = Single::new("LayerNorm", inputs, attributes, vec![""; 3]);
    Some((Single { is_dynamic: random.size(0, 3) == 0, ..single }, expected))
}

/// `local_response_normalization_op.cc`: `alpha` is of the mean of squares.
fn local_response(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let how = LocalResponse::drawn(random, false);
    let mut attributes = vec![
        ("size", AttributeValue::Long(how.size as i64)),
        ("alpha", AttributeValue::Float(how.alpha)),
        ("beta", AttributeValue::Float(how.beta)),
    ];
    if how.bias != 1.0 {
        attributes.push(("bias", AttributeValue::Float(how.bias)));
    }
    on_images(random, "LRN", vec![how.x.tensor()], attributes, how.of_mean())
}

/// `normalize_op.h` and `normalize_l1_op.h`: the norm is at least 1e-12, the sum of magnitudes is not.
fn norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 1, 4);
    let axis = random.size(0, dims.len() - 1);
    let small = if random.size(0, 3) == 0 { 1e-15 } else { 1.0 };
    let array = Array::of(&random.tensor(&dims));
    let x = array.map(|_, it| f64::from((it * small) as f32)).tensor();
    let (array, is_sum) = (Array::of(&x), random.flag());
    let powers = if is_sum { array.map(|_, it| it.abs().sqrt()) } else { array.clone() };
    let sums = squares(&powers, &[axis]);
    // The kernel does not write results that are divided by a sum of 0.
    if is_sum && sums.contains(&0.0) {
        return None;
    }
    let norm = |place: usize| if is_sum { sums[place] } else { sums[place].sqrt().max(1e-12) };
    let y = array.map(|place, it| it / norm(place)).tensor();
    let mut attributes = Vec::new();
    if axis + 1 != dims.len() || random.flag() {
        let axis = if random.flag() { axis as i64 } else { axis as i64 - dims.len() as i64 };
        attributes.push(("axis", AttributeValue::Long(axis)));
    }
    let kind = if is_sum { "NormalizeL1" } else { "Normalize" };
    let single = Single::new(kind, vec![("", x)], attributes, vec![""]);
    Some((Single { is_dynamic: random.size(0, 3) == 0, ..single }, vec![y]))
}

/// `affine_channel_op.cc`.
fn channels(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 3, 5);
    let x = random.tensor(&dims);
    let (scale, bias) = (random.tensor(&[dims[1]]), random.tensor(&[dims[1]]));
    let y = Array::of(&x).affine(Some(&scale), Some(&bias), 1).tensor();
    on_images(random, "AffineChannel", vec![x, scale, bias], Vec::new(), y)
}

/// `rms_norm_op.h`: the second result is the inverse root of each row.
fn root_mean_square(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = [random.size(0, 4), random.size(1, 5)];
    let x = random.tensor(&dims);
    let (scale, bias) = (random.tensor(&dims[1..]), random.tensor(&dims[1..]));
    let epsilon = epsilon(random);
    let array = Array::of(&x);
    let inverse = |sum: &f64| 1.0 / (sum / dims[1] as f64 + f64::from(epsilon)).sqrt();
    let inverses: Vec<f64> = squares(&array, &[1]).iter().map(inverse).collect();
    let y = array.map(|place, it| it * inverses[place]).affine(Some(&scale), Some(&bias), 1);
    let rows: Vec<f64> = inverses.iter().step_by(dims[1]).copied().collect();
    let expected = vec![y.tensor(), list(&rows, &dims[..1])];
    let inputs = vec![("", x), ("", scale), ("", bias)];
    let attributes = vec![("eps", AttributeValue::Float(epsilon))];
    Some((Single::new("RMSNorm", inputs, attributes, vec!["", ""]), expected))
}

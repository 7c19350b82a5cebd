//! PyTorch 2.15: `aten/src/ATen/native`.

use lodstone_model::{AttributeValue, Tensor};

use super::{
    Array, Draw, Moments, Random, Single, dims, epsilon, grouped, groups, list, maybe, positive,
    recorded, squares,
};

pub(super) const DRAWS: &[(&str, Draw)] = &[
    ("batch_norm", batch_norm),
    ("layer_norm", layer_norm),
    ("groups", in_groups),
    ("weight_norm", weight_norm),
];

/// `Normalization.cpp`.
fn batch_norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let mut dims = dims(random, 2, 5);
    let (count, trains) = (dims[1], random.flag());
    if !trains {
        dims[0] = random.size(0, 3);
    }
    let x = random.tensor(&dims);
    let (scale, bias) = (maybe(random, count), maybe(random, count));
    let epsilon = f64::from(epsilon(random));
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
fn layer_norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let mut dims = dims(random, 2, 4);
    let begin = random.size(0, dims.len() - 1);
    if begin > 0 {
        dims[0] = random.size(0, 3);
    }
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
fn in_groups(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let name = random.pick(&["group_norm", "native_group_norm", "instance_norm"]);
    let (mut dims, mut groups) = groups(random, 3);
    match name {
        "instance_norm" => groups = dims[1],
        _ => dims[0] = random.size(0, 3),
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
    let (kind, is_dynamic) = (format!("aten::{name}"), dims[0] > 0 && random.size(0, 3) == 0);
    Some((Single { kind, inputs, attributes, outputs, is_dynamic }, expected))
}

/// `WeightNorm.cpp`: the norm is over all dims but one; over all, if that is -1.
fn weight_norm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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

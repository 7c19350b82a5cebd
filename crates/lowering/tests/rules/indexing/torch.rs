//! PyTorch 2.15: `aten/src/ATen/native/TensorShape.cpp`, `TensorAdvancedIndexing.cpp`, `TensorTransformations.cpp`.

use libtest_mimic::{Failed, Trial};
use lodstone_model::{
    Attribute, AttributeValue, Block, Dialect, Dim, Model, Op, Operand, Program, Tensor,
    TensorType, Topology, Var,
};

use super::{
    Draw, Random, Single, diagonal, dims, elements, last, list, longs, numbered, padded, python,
    rejected, reshaped, rolled, runs, sections, sum, taken, trials_of, written,
};
use crate::evaluate::{difference, lowered};
use crate::single::text;

pub(super) fn trials() -> Vec<Trial> {
    let trial = |name: &str, draw: Draw| trials_of("indexing")("torch", name, Single::torch, draw);
    vec![
        trial("slice", slice),
        trial("slice_scatter", slice_scatter),
        trial("narrow", narrow),
        trial("split", split),
        trial("roll", roll),
        trial("pad", pad),
        trial("diagonal", diagonals),
        trial("one_hot", one_hot),
        trial("index", index),
        trial("index_put", index_put),
        trial("along_axis", along_axis),
        trial("take", take),
        trial("unique_consecutive", unique_consecutive),
        rejected("torch::indexing::rejected", Single::torch, invalid),
        Trial::test("random torch::indexing::as_strided", as_strided),
    ]
}

fn int(number: i64) -> AttributeValue {
    AttributeValue::Long(number)
}

/// Returns an operator of a tensor, whose dims from the third on may be unknown.
fn of_tensor(
    random: &mut Random,
    kind: &str,
    x: &Tensor,
    attributes: Vec<(&'static str, AttributeValue)>,
) -> Single {
    let mut one = Single::new(kind, vec![("self", x.clone())], attributes, vec![""]);
    one.is_dynamic = random.flag();
    one
}

/// Returns the bounds and the step of a slice along an axis, and the places in it.
fn spans(random: &mut Random, dim: usize) -> (Vec<(&'static str, AttributeValue)>, Vec<usize>) {
    let mut bound = || (random.size(0, 3) > 0).then(|| random.bound(dim));
    let (start, end) = (bound(), bound());
    let step = random.number(1, 7);
    let value = |bound: Option<i64>| bound.map_or(AttributeValue::None, int);
    let attributes = vec![("start", value(start)), ("end", value(end)), ("step", int(step))];
    (attributes, python(dim, start, end, step))
}

fn slice(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 0);
    let axis = random.size(0, 2);
    let (mut attributes, places) = spans(random, dims(&x)[axis]);
    attributes.push(("dim", int(axis as i64 - 3)));
    let one = of_tensor(random, "aten::slice.Tensor", &x, attributes);
    Some((one, vec![taken(&x, axis, &places)]))
}

fn slice_scatter(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 0);
    let axis = random.size(0, 2);
    let (mut attributes, places) = spans(random, dims(&x)[axis]);
    attributes.push(("dim", int(axis as i64)));
    let view = taken(&numbered(&dims(&x)), axis, &places);
    let source = random.tensor(&dims(&view));
    let y = written(&x, &view, &elements(&source), last);
    let mut one = of_tensor(random, "aten::slice_scatter", &x, attributes);
    one.inputs.push(("src", source));
    Some((one, vec![y]))
}

/// A start below 0 counts from the end.
fn narrow(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 1);
    let axis = random.size(0, 2);
    let dim = dims(&x)[axis] as i64;
    let start = random.number(-dim, dim);
    let first = if start < 0 { start + dim } else { start };
    let length = random.number(0, dim - first);
    let places: Vec<usize> = (first as usize..(first + length) as usize).collect();
    let attributes =
        vec![("dim", int(axis as i64)), ("start", int(start)), ("length", int(length))];
    let one = of_tensor(random, "aten::narrow", &x, attributes);
    Some((one, vec![taken(&x, axis, &places)]))
}

fn split(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 0);
    let axis = random.size(0, 2);
    let (dim, count) = (dims(&x)[axis], random.size(1, 4));
    let kind = random.pick(&["split.Tensor", "chunk", "tensor_split.sections", "unbind.int"]);
    let kind = if random.size(0, 4) == 0 { "tensor_split.indices" } else { kind };
    let each = |size: usize| {
        let whole = (0..dim / size).map(|_| size);
        let rest = (dim % size > 0).then_some(dim % size);
        whole.chain(rest).collect::<Vec<usize>>()
    };
    let (name, value, parts): (_, _, Vec<Tensor>) = match kind {
        "split.Tensor" => {
            let sizes = if dim == 0 { vec![0] } else { each(count) };
            ("split_size", int(count as i64), sections(&x, axis, &sizes))
        }
        "chunk" => {
            let sizes = if dim == 0 { vec![0; count] } else { each(dim.div_ceil(count)) };
            ("chunks", int(count as i64), sections(&x, axis, &sizes))
        }
        "tensor_split.sections" => {
            let size = |part| dim / count + usize::from(part < dim % count);
            let sizes: Vec<usize> = (0..count).map(size).collect();
            ("sections", int(count as i64), sections(&x, axis, &sizes))
        }
        "tensor_split.indices" => {
            let places: Vec<i64> = (1..count).map(|_| random.bound(dim)).collect();
            let starts = [None].into_iter().chain(places.iter().copied().map(Some));
            let ends = places.iter().copied().map(Some).chain([None]);
            let part = |(start, end)| taken(&x, axis, &python(dim, start, end, 1));
            let parts = starts.zip(ends).map(part).collect();
            ("indices", AttributeValue::Longs(places), parts)
        }
        _ => {
            if dim == 0 {
                return None;
            }
            let mut rest = dims(&x);
            rest.remove(axis);
            let parts = sections(&x, axis, &vec![1; dim]);
            let parts = parts.iter().map(|part| reshaped(part, &rest)).collect();
            ("dim", int(axis as i64), parts)
        }
    };
    let mut attributes = vec![(name, value)];
    if name != "dim" {
        attributes.push(("dim", int(axis as i64)));
    }
    let mut one = of_tensor(random, &format!("aten::{kind}"), &x, attributes);
    one.outputs = vec![""; parts.len()];
    // Of an unknown dim, the number of chunks is that of the argument.
    let is_open = kind == "unbind.int" || kind == "chunk" && parts.len() != count;
    one.is_dynamic &= !is_open;
    Some((one, parts))
}

fn roll(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 0);
    let axis = random.size(0, 3);
    let shift = random.number(-12, 12);
    let (count, sizes) = (elements(&x).len(), dims(&x));
    let (axes, y) = match axis {
        3 if count == 0 => return None,
        3 => {
            let flat = taken(&reshaped(&x, &[count]), 0, &rolled(count, shift));
            (Vec::new(), reshaped(&flat, &sizes))
        }
        _ if sizes[axis] == 0 => (vec![axis as i64], x.clone()),
        _ => (vec![axis as i64], taken(&x, axis, &rolled(sizes[axis], shift))),
    };
    let attributes =
        vec![("shifts", AttributeValue::Longs(vec![shift])), ("dims", AttributeValue::Longs(axes))];
    Some((of_tensor(random, "aten::roll", &x, attributes), vec![y]))
}

/// Pads the last axes, the last one first.
fn pad(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 1);
    let mode = random.pick(&["constant", "reflect", "replicate", "circular"]);
    let count = if mode == "constant" { random.size(1, 3) } else { random.size(1, 2) };
    let (mut pads, mut y) = (Vec::new(), x.clone());
    for axis in (0..3).rev().take(count) {
        let pair = [random.number(-2, 4), random.number(-2, 4)];
        let dim = dims(&x)[axis];
        // Negative ones are only drawn where elements remain.
        let pair = if mode == "constant" { pair } else { pair.map(|it| it.max(0)) };
        let rest = dim as i64 + pair[0].min(0) + pair[1].min(0);
        if rest < 1 || pair[0] + pair[1] + (dim as i64) < 1 {
            return None;
        }
        y = padded(&y, axis, pair, mode)?;
        pads.extend(pair);
    }
    let attributes = vec![
        ("pad", AttributeValue::Longs(pads)),
        ("mode", text(mode)),
        (
            "value",
            if mode == "constant" { AttributeValue::Double(0.5) } else { AttributeValue::None },
        ),
    ];
    let one = of_tensor(random, "aten::pad", &x, attributes);
    Some((one, vec![y]))
}

/// Diagonals, and matrices with a diagonal.
fn diagonals(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let sizes = random.dims(3, 0);
    let (rows, offset) = (random.size(0, 2), random.number(-7, 7));
    let columns = (rows + random.size(1, 2)) % 3;
    let attributes = vec![
        ("dim1", int(rows as i64)),
        ("dim2", int(columns as i64 - 3)),
        ("offset", int(offset)),
    ];
    if random.flag() {
        let x = random.tensor(&sizes);
        let y = diagonal(&x, [rows, columns], offset);
        return Some((of_tensor(random, "aten::diagonal", &x, attributes), vec![y]));
    }
    // [n, length], whose matrices are at the place of the other axis.
    let x = random.tensor(&sizes[..2]);
    let side = sizes[1] + offset.unsigned_abs() as usize;
    let mut whole = vec![side; 3];
    whole[3 - rows - columns] = sizes[0];
    let zeros = list(&vec![0.0; whole.iter().product()], &whole);
    let view = diagonal(&numbered(&whole), [rows, columns], offset);
    let y = written(&zeros, &view, &elements(&x), last);
    Some((of_tensor(random, "aten::diag_embed", &x, attributes), vec![y]))
}

fn one_hot(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (count, depth) = (random.size(0, 5), random.size(1, 4));
    let indices = random.indices(count, 0, depth as i64 - 1);
    let mut y = Vec::new();
    for index in &indices {
        y.extend((0..depth).map(|class| i64::from(class as i64 == *index)));
    }
    let attributes = vec![("num_classes", int(depth as i64))];
    let one = Single::new(
        "aten::one_hot",
        vec![("self", longs(&indices, &[count]))],
        attributes,
        vec![""],
    );
    Some((one, vec![longs(&y, &[count, depth])]))
}

/// Returns a matrix or more, indices of its first two axes that broadcast, and the view of the elements at them.
fn indexed(random: &mut Random) -> (Tensor, [Tensor; 2], Tensor) {
    let sizes = random.dims(3, 1);
    let count = random.size(0, 4);
    let [rows, columns] = [sizes[0], sizes[1]].map(|dim| dim as i64);
    let down = random.indices(count, -rows, rows - 1);
    let many = if random.flag() { 1 } else { count };
    let along = random.indices(many, -columns, columns - 1);
    let mut places = Vec::new();
    for at in 0..count {
        let (row, column) = (down[at].rem_euclid(rows), along[at % many].rem_euclid(columns));
        let start = (row * columns + column) as usize * sizes[2];
        places.extend((start..start + sizes[2]).map(|place| place as f64));
    }
    let view = list(&places, &[count, sizes[2]]);
    (random.tensor(&sizes), [longs(&down, &[count]), longs(&along, &[many])], view)
}

fn index(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (x, indices, view) = indexed(random);
    let all = elements(&x);
    let y: Vec<f64> = elements(&view).iter().map(|place| all[*place as usize]).collect();
    let mut one = of_tensor(random, "aten::index.Tensor", &x, vec![]);
    one.inputs.extend(indices.map(|it| ("indices", it)));
    Some((one, vec![list(&y, &dims(&view))]))
}

fn index_put(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (x, indices, view) = indexed(random);
    let adds = random.flag();
    let values = random.tensor(&dims(&view));
    let y = written(&x, &view, &elements(&values), if adds { sum } else { last });
    let attributes = vec![("accumulate", AttributeValue::Bool(adds))];
    let mut one = of_tensor(random, "aten::index_put", &x, attributes);
    one.inputs.extend(indices.map(|it| ("indices", it)));
    one.inputs.push(("values", values));
    Some((one, vec![y]))
}

/// Slices by index along an axis.
fn along_axis(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 1);
    let (axis, count) = (random.size(0, 2), random.size(0, 4));
    let dim = dims(&x)[axis] as i64;
    let kind = random.pick(&["index_select", "index_add", "index_copy", "index_fill.int_Scalar"]);
    let least = if kind.starts_with("index_fill") { -dim } else { 0 };
    let indices = random.indices(count, least, dim - 1);
    let places: Vec<usize> = indices.iter().map(|it| it.rem_euclid(dim) as usize).collect();
    let view = taken(&numbered(&dims(&x)), axis, &places);
    let source = random.tensor(&dims(&view));
    let values = elements(&source);
    let mut attributes = vec![("dim", int(axis as i64))];
    let y = match kind {
        "index_select" => taken(&x, axis, &places),
        "index_add" => written(&x, &view, &values, sum),
        "index_copy" => written(&x, &view, &values, last),
        _ => {
            attributes.push(("value", AttributeValue::Double(0.5)));
            written(&x, &view, &vec![0.5; values.len()], last)
        }
    };
    let mut one = of_tensor(random, &format!("aten::{kind}"), &x, attributes);
    one.inputs.push(("index", longs(&indices, &[count])));
    if matches!(kind, "index_add" | "index_copy") {
        one.inputs.push(("source", source));
    }
    Some((one, vec![y]))
}

/// Elements of the flattened tensor; indices below 0 count from the end.
fn take(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 1);
    let (all, count) = (elements(&x), random.size(0, 4));
    let many = all.len() as i64;
    let indices = random.indices(count, -many, many - 1);
    let places: Vec<f64> = indices.iter().map(|it| it.rem_euclid(many) as f64).collect();
    let index = ("index", longs(&indices, &[count]));
    if random.flag() {
        let y: Vec<f64> = places.iter().map(|place| all[*place as usize]).collect();
        let mut one = of_tensor(random, "aten::take", &x, vec![]);
        one.inputs.push(index);
        return Some((one, vec![list(&y, &[count])]));
    }
    let (adds, source) = (random.flag(), random.tensor(&[count]));
    let view = list(&places, &[count]);
    let y = written(&x, &view, &elements(&source), if adds { sum } else { last });
    let attributes = vec![("accumulate", AttributeValue::Bool(adds))];
    let mut one = of_tensor(random, "aten::put", &x, attributes);
    one.inputs.extend([index, ("source", source)]);
    Some((one, vec![y]))
}

fn unique_consecutive(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let count = random.size(0, 8);
    let numbers: Vec<f64> = (0..count).map(|_| random.number(0, 2) as f64).collect();
    let x = list(&numbers, &[count]);
    let (values, numbers, lengths) = runs(&x);
    let yes = || AttributeValue::Bool(true);
    let attributes = vec![("return_inverse", yes()), ("return_counts", yes())];
    let mut one = of_tensor(random, "aten::unique_consecutive", &x, attributes);
    one.outputs = vec![""; 3];
    let expected = vec![values, longs(&numbers, &[count]), longs(&lengths, &[lengths.len()])];
    Some((one, expected))
}

/// The strides of a view are those of the memory of its base.
fn as_strided() -> Result<(), Failed> {
    let op = |kind: &str, input: &str, output: &str, attributes: Vec<(&str, AttributeValue)>| Op {
        name: output.to_owned(),
        kind: kind.to_owned(),
        inputs: vec![Operand { slot: "self".to_owned(), args: vec![input.to_owned()] }],
        outputs: vec![Operand { slot: String::new(), args: vec![output.to_owned()] }],
        attributes: attributes
            .into_iter()
            .map(|(name, value)| Attribute { name: name.to_owned(), value })
            .collect(),
        ..Op::default()
    };
    let x = numbered(&[4, 5]);
    let list = |numbers: &[i64]| AttributeValue::Longs(numbers.to_vec());
    let part = vec![("dim", int(1)), ("start", int(2)), ("end", int(4)), ("step", int(1))];
    let strided =
        vec![("size", list(&[2, 3])), ("stride", list(&[7, 2])), ("storage_offset", int(1))];
    let dims = x.shape.iter().map(|dim| Dim::Known(*dim)).collect();
    let value = TensorType::new(x.dtype, Some(dims)).into();
    let block = Block {
        parent: -1,
        inputs: vec!["x".to_owned()],
        outputs: vec!["y".to_owned()],
        vars: vec![Var { name: "x".to_owned(), value, ..Var::default() }],
        ops: vec![
            op("aten::slice.Tensor", "x", "part", part),
            op("aten::as_strided", "part", "y", strided),
        ],
        ..Block::default()
    };
    let mut model = Model::default();
    let topology = Topology { blocks: vec![block], ..Topology::new(Dialect::Torch) };
    model.set_main(Program::from(topology));
    let found = lowered(model, &[("x".to_owned(), x)])?;
    let expected = super::list(&[1.0, 3.0, 5.0, 8.0, 10.0, 12.0], &[2, 3]);
    match difference(&found[0].1, &expected, 0.0) {
        None => Ok(()),
        Some(what) => Err(what.into()),
    }
}

/// What PyTorch rejects for a dim of 5.
fn invalid() -> Vec<Single> {
    let of = |kind: &str, attributes: Vec<(&'static str, AttributeValue)>, count: usize| {
        Single::new(kind, vec![("self", numbered(&[5]))], attributes, vec![""; count])
    };
    let narrow = |start: i64, length: i64| {
        let attributes = vec![("dim", int(0)), ("start", int(start)), ("length", int(length))];
        of("aten::narrow", attributes, 1)
    };
    vec![
        narrow(3, 4),
        narrow(-6, 1),
        narrow(6, 0),
        of("aten::split.Tensor", vec![("split_size", int(0)), ("dim", int(0))], 1),
        of("aten::chunk", vec![("chunks", int(0)), ("dim", int(0))], 1),
        of("aten::tensor_split.sections", vec![("sections", int(0)), ("dim", int(0))], 1),
        of("aten::select.int", vec![("dim", int(0)), ("index", int(5))], 1),
    ]
}

//! PaddlePaddle 2.6.2: `phi/kernels/funcs/slice_utils.h`, `strided_slice.h`, `phi/kernels/cpu`.

use libtest_mimic::Trial;
use lodstone_model::{AttributeValue, Tensor};

use super::{
    Draw, Random, Single, between, diagonal, dims, elements, last, list, longs, numbered, padded,
    python, rejected, rolled, runs, sections, sum, taken, trials_of, written,
};
use crate::single::{PADDLE, ints, text};

pub(super) fn trials() -> Vec<Trial> {
    let trial = |name: &str, draw: Draw| trials_of("indexing")("paddle", name, PADDLE, draw);
    vec![
        trial("slice", slice),
        trial("strided_slice", strided_slice),
        trial("set_value", set_value),
        trial("split", split),
        trial("roll", roll),
        trial("pad", pad),
        trial("diagonal", diagonals),
        trial("one_hot", one_hot),
        trial("scatter", scatter),
        trial("index_put", index_put),
        trial("along_axis", along_axis),
        trial("unique_consecutive", unique_consecutive),
        rejected("paddle::indexing::rejected", PADDLE, invalid),
    ]
}

fn int(number: i64) -> AttributeValue {
    AttributeValue::Int(number as i32)
}

fn listed(numbers: &[i64]) -> AttributeValue {
    AttributeValue::Ints(numbers.iter().map(|it| *it as i32).collect())
}

fn slice(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 0);
    let axes: Vec<i64> = (0..3).filter(|_| random.flag()).collect();
    let (mut starts, mut ends, mut y) = (Vec::new(), Vec::new(), x.clone());
    for axis in &axes {
        let dim = dims(&x)[*axis as usize];
        let (start, end) = (random.bound(dim), random.bound(dim));
        let place = |at: i64| (if at < 0 { at + dim as i64 } else { at }).clamp(0, dim as i64);
        if place(start) > place(end) {
            return None;
        }
        y = taken(&y, *axis as usize, &python(dim, Some(start), Some(end), 1));
        starts.push(start);
        ends.push(end);
    }
    if axes.is_empty() {
        return None;
    }
    let attributes = vec![
        ("axes", listed(&axes)),
        ("starts", listed(&starts)),
        ("ends", listed(&ends)),
        ("decrease_axis", listed(&[])),
    ];
    let mut one = Single::new("slice", vec![("Input", x)], attributes, vec!["Out"]);
    one.is_dynamic = random.flag();
    Some((one, vec![y]))
}

/// Backwards, an end of -1 is before the first element, and one below the dim is the first element.
fn strided_slice(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 1);
    let axes = [random.size(0, 1) as i64, 2];
    let (mut bounds, mut y) = ([const { Vec::new() }; 3], x.clone());
    for axis in axes {
        let dim = dims(&x)[axis as usize] as i64;
        let (start, end, step) =
            (random.bound(dim as usize), random.bound(dim as usize), random.step());
        let place = |at: i64| if at < 0 { at + dim } else { at };
        let (first, behind) = (place(start), place(end));
        let (first, behind) = match step {
            1.. => (first.clamp(0, dim), behind.clamp(0, dim)),
            _ if end == -1 => (first.clamp(0, dim - 1), -1),
            _ => (first.clamp(0, dim - 1), behind.max(0)),
        };
        // It rejects bounds in the other order, and reads beyond the dim if it begins there.
        if (step > 0 && (first > behind || place(start) >= dim)) || (step < 0 && first < behind) {
            return None;
        }
        y = taken(&y, axis as usize, &between(first, behind, step));
        [start, end, step].into_iter().zip(&mut bounds).for_each(|(it, list)| list.push(it));
    }
    let [starts, ends, steps] = bounds;
    let attributes = vec![
        ("axes", listed(&axes)),
        ("starts", listed(&starts)),
        ("ends", listed(&ends)),
        ("strides", listed(&steps)),
        ("decrease_axis", listed(&[])),
    ];
    let mut one = Single::new("strided_slice", vec![("Input", x)], attributes, vec!["Out"]);
    one.is_dynamic = random.flag();
    Some((one, vec![y]))
}

/// Backwards, an end of -1 or below the dim is before the first element.
fn set_value(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 1);
    let axes: Vec<i64> = (random.number(1, 2)..3).collect();
    let (mut bounds, mut view) = ([const { Vec::new() }; 3], numbered(&dims(&x)));
    for axis in &axes {
        let dim = dims(&x)[*axis as usize];
        let (start, end, step) = (random.bound(dim), random.bound(dim), random.step());
        let place = |at: i64| if at < 0 { at + dim as i64 } else { at };
        let (first, behind) = match step {
            1.. => (place(start).clamp(0, dim as i64), place(end).clamp(0, dim as i64)),
            // -1 is before the first element.
            _ if end == -1 => (place(start).clamp(0, dim as i64 - 1), -1),
            _ => (place(start).clamp(0, dim as i64 - 1), place(end).max(-1)),
        };
        // It rejects bounds in the other order.
        if (step > 0 && first >= behind) || (step < 0 && first <= behind) {
            return None;
        }
        let places = between(first, behind, step);
        view = taken(&view, *axis as usize, &places);
        [start, end, step].into_iter().zip(&mut bounds).for_each(|(it, list)| list.push(it));
    }
    // The values are broadcast.
    let sizes = dims(&view);
    let is_row = random.flag();
    let values = random.tensor(if is_row { &sizes[2..] } else { &sizes });
    let all = elements(&values);
    let spread: Vec<f64> = (0..elements(&view).len()).map(|at| all[at % all.len()]).collect();
    let y = written(&x, &view, &spread, last);
    let [starts, ends, steps] = bounds.map(AttributeValue::Longs);
    let attributes = vec![
        ("axes", AttributeValue::Longs(axes)),
        ("starts", starts),
        ("ends", ends),
        ("steps", steps),
        ("decrease_axes", AttributeValue::Longs(Vec::new())),
        ("none_axes", AttributeValue::Longs(Vec::new())),
    ];
    let inputs = vec![("Input", x), ("ValueTensor", values)];
    let mut one = Single::new("set_value", inputs, attributes, vec!["Out"]);
    one.is_dynamic = random.flag();
    Some((one, vec![y]))
}

/// Equal sections, or given ones of which one may have the rest.
fn split(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 1);
    let (axis, count) = (random.size(0, 2), random.size(1, 3));
    let dim = dims(&x)[axis];
    let mut attributes = vec![("axis", int(axis as i64))];
    let sizes: Vec<usize> = if random.flag() {
        if !dim.is_multiple_of(count) {
            return None;
        }
        attributes.extend([("num", int(count as i64)), ("sections", listed(&[]))]);
        vec![dim / count; count]
    } else {
        let sizes = random.sizes_of(dim, count);
        let mut given: Vec<i64> = sizes.iter().map(|size| *size as i64).collect();
        let open = random.size(0, count - 1);
        if sizes[open] > 0 && random.flag() {
            given[open] = -1;
        }
        attributes.extend([("num", int(0)), ("sections", listed(&given))]);
        sizes
    };
    let expected = sections(&x, axis, &sizes);
    let mut one = Single::new("split", vec![("X", x)], attributes, vec!["Out"; count]);
    one.is_dynamic = random.flag();
    Some((one, expected))
}

fn roll(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 0);
    let axes: Vec<i64> = (0..3).filter(|_| random.flag()).collect();
    let shifts = random.indices(axes.len().max(1), -12, 12);
    let mut y = x.clone();
    for (axis, shift) in axes.iter().zip(&shifts) {
        let axis = *axis as usize;
        if dims(&x)[axis] > 0 {
            y = taken(&y, axis, &rolled(dims(&x)[axis], *shift));
        }
    }
    if axes.is_empty() {
        let count = elements(&x).len();
        if count == 0 {
            return None;
        }
        let flat = taken(&super::reshaped(&x, &[count]), 0, &rolled(count, shifts[0]));
        y = super::reshaped(&flat, &dims(&x));
    }
    let mut attributes = vec![("axis", AttributeValue::Longs(axes))];
    let mut inputs = vec![("X", x)];
    match random.flag() {
        true => inputs.push(("ShiftsTensor", longs(&shifts, &[shifts.len()]))),
        false => attributes.push(("shifts", AttributeValue::Longs(shifts))),
    }
    let mut one = Single::new("roll", inputs, attributes, vec!["Out"]);
    one.is_dynamic = random.flag();
    Some((one, vec![y]))
}

/// `pad3d` pads the innermost axis first, and `pad` the outermost one.
fn pad(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let is_inner = random.flag();
    let x = random.tensor_of(if is_inner { 5 } else { 3 }, 1);
    let (mut paddings, mut y) = (Vec::new(), x.clone());
    if !is_inner {
        for axis in 0..3 {
            let pair = [random.number(0, 3), random.number(0, 3)];
            y = padded(&y, axis, pair, "constant")?;
            paddings.extend(pair);
        }
        let value = ("pad_value", AttributeValue::Float(0.5));
        let attributes = vec![("paddings", listed(&paddings)), value];
        return Some((Single::new("pad", vec![("X", x)], attributes, vec!["Out"]), vec![y]));
    }
    let mode = random.pick(&["constant", "reflect", "replicate", "circular"]);
    for axis in [4, 3, 2] {
        let pair = [random.number(0, 3), random.number(0, 3)];
        y = padded(&y, axis, pair, mode)?;
        paddings.extend(pair);
    }
    let mut attributes = vec![
        ("mode", text(mode)),
        ("value", AttributeValue::Float(0.5)),
        ("data_format", text("NCDHW")),
    ];
    let mut inputs = vec![("X", x)];
    match random.flag() {
        true => inputs
            .push(("Paddings", ints(&paddings.iter().map(|it| *it as i32).collect::<Vec<_>>()))),
        false => attributes.push(("paddings", listed(&paddings))),
    }
    let mut one = Single::new("pad3d", inputs, attributes, vec!["Out"]);
    one.is_dynamic = random.flag();
    Some((one, vec![y]))
}

fn diagonals(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 1);
    let (rows, offset) = (random.size(0, 2), random.number(-7, 7));
    let columns = (rows + random.size(1, 2)) % 3;
    let y = diagonal(&x, [rows, columns], offset);
    let attributes = vec![
        ("axis1", int(rows as i64)),
        ("axis2", int(columns as i64 - 3)),
        ("offset", int(offset)),
    ];
    let mut one = Single::new("diagonal", vec![("Input", x)], attributes, vec!["Out"]);
    one.is_dynamic = random.flag();
    Some((one, vec![y]))
}

fn one_hot(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (count, depth) = (random.size(0, 5), random.size(1, 4));
    let indices = random.indices(count, 0, depth as i64 - 1);
    let mut y = Vec::new();
    for index in &indices {
        y.extend((0..depth).map(|class| if class as i64 == *index { 1.0 } else { 0.0 }));
    }
    let mut inputs = vec![("X", longs(&indices, &[count]))];
    let mut attributes = vec![("dtype", int(5))];
    match random.flag() {
        true => inputs.push(("depth_tensor", ints(&[depth as i32]))),
        false => attributes.push(("depth", int(depth as i64))),
    }
    let one = Single::new("one_hot_v2", inputs, attributes, vec!["Out"]);
    Some((one, vec![list(&y, &[count, depth])]))
}

/// Rows are overwritten, or replaced by the sum of the updates, or the updates are added along an axis.
fn scatter(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let sizes = random.dims(3, 1);
    let x = random.tensor(&sizes);
    let kind = random.pick(&["overwrite", "sum", "index_add"]);
    let axis = if kind == "index_add" { random.size(0, 2) } else { 0 };
    let count = random.size(1, 4);
    let indices = random.indices(count, 0, sizes[axis] as i64 - 1);
    let places: Vec<usize> = indices.iter().map(|it| *it as usize).collect();
    let view = taken(&numbered(&sizes), axis, &places);
    let updates = random.tensor(&dims(&view));
    let values = elements(&updates);
    let y = match kind {
        "overwrite" => written(&x, &view, &values, last),
        "sum" => written(&written(&x, &view, &vec![0.0; values.len()], last), &view, &values, sum),
        _ => written(&x, &view, &values, sum),
    };
    let index = longs(&indices, &[count]);
    let one = match kind {
        "index_add" => {
            let inputs = vec![("X", x), ("Index", index), ("AddValue", updates)];
            Single::new("index_add", inputs, vec![("axis", int(axis as i64))], vec!["Out"])
        }
        _ => {
            let overwrites = AttributeValue::Bool(kind == "overwrite");
            let inputs = vec![("X", x), ("Ids", index), ("Updates", updates)];
            Single::new("scatter", inputs, vec![("overwrite", overwrites)], vec!["Out"])
        }
    };
    Some((one, vec![y]))
}

/// Indices of the first axes broadcast; those below 0 count from the end.
fn index_put(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let sizes = random.dims(3, 1);
    let x = random.tensor(&sizes);
    let (count, adds) = (random.size(1, 4), random.flag());
    let [rows, columns] = [sizes[0], sizes[1]].map(|dim| dim as i64);
    let down = random.indices(count, -rows, rows - 1);
    let is_single = random.flag();
    let along = random.indices(if is_single { 1 } else { count }, -columns, columns - 1);
    let mut places = Vec::new();
    for at in 0..count {
        let (row, column) =
            (down[at].rem_euclid(rows), along[at % along.len()].rem_euclid(columns));
        let start = (row * columns + column) as usize * sizes[2];
        places.extend((start..start + sizes[2]).map(|place| place as f64));
    }
    let is_row = random.flag();
    let values = random.tensor(if is_row { &sizes[2..] } else { &[1] });
    let all = elements(&values);
    let spread: Vec<f64> = (0..places.len()).map(|at| all[at % all.len()]).collect();
    let view = list(&places, &[count, sizes[2]]);
    let y = written(&x, &view, &spread, if adds { sum } else { last });
    let inputs = vec![
        ("x", x),
        ("indices", longs(&down, &[count])),
        ("indices", longs(&along, &[along.len()])),
        ("value", values),
    ];
    let attributes = vec![("accumulate", AttributeValue::Bool(adds))];
    let mut one = Single::new("index_put", inputs, attributes, vec!["out"]);
    one.is_dynamic = random.flag();
    Some((one, vec![y]))
}

/// Elements of a matrix by an index for each, along the last axis: the kernel reads beyond the tensor for an axis of -1.
fn along_axis(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let sizes = random.dims(2, 1);
    let (x, count) = (random.tensor(&sizes), random.size(1, 4));
    let indices = random.indices(sizes[0] * count, 0, sizes[1] as i64 - 1);
    let place = |(at, index): (usize, &i64)| (at / count * sizes[1]) as f64 + *index as f64;
    let places: Vec<f64> = indices.iter().enumerate().map(place).collect();
    let index = longs(&indices, &[sizes[0], count]);
    let axis = ("Axis", int(1));
    let kind = random.pick(&["take", "assign", "add"]);
    if kind == "take" {
        let all = elements(&x);
        let y: Vec<f64> = places.iter().map(|place| all[*place as usize]).collect();
        let inputs = vec![("Input", x), ("Index", index)];
        let one = Single::new("take_along_axis", inputs, vec![axis], vec!["Result"]);
        return Some((one, vec![list(&y, &[sizes[0], count])]));
    }
    let values = random.tensor(&[sizes[0], count]);
    let view = list(&places, &[sizes[0], count]);
    let includes_self = kind == "assign" || random.flag();
    let start = match includes_self {
        true => x.clone(),
        false => written(&x, &view, &vec![0.0; places.len()], last),
    };
    let y = written(&start, &view, &elements(&values), if kind == "add" { sum } else { last });
    let attributes =
        vec![axis, ("Reduce", text(kind)), ("Include_self", AttributeValue::Bool(includes_self))];
    let inputs = vec![("Input", x), ("Index", index), ("Value", values)];
    Some((Single::new("put_along_axis", inputs, attributes, vec!["Result"]), vec![y]))
}

fn unique_consecutive(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let count = random.size(1, 8);
    let numbers: Vec<f64> = (0..count).map(|_| random.number(0, 2) as f64).collect();
    let x = list(&numbers, &[count]);
    let (values, numbers, lengths) = runs(&x);
    let attributes = vec![
        ("axis", listed(&[])),
        ("dtype", int(3)),
        ("return_inverse", AttributeValue::Bool(true)),
        ("return_counts", AttributeValue::Bool(true)),
    ];
    let outputs = vec!["Out", "Index", "Counts"];
    let one = Single::new("unique_consecutive", vec![("X", x)], attributes, outputs);
    let expected = vec![values, longs(&numbers, &[count]), longs(&lengths, &[lengths.len()])];
    Some((one, expected))
}

/// What PaddlePaddle rejects for a dim of 5.
fn invalid() -> Vec<Single> {
    let x = || vec![("X", numbered(&[5]))];
    let split = |num: i64, sections: &[i64]| {
        let attributes = vec![("axis", int(0)), ("num", int(num)), ("sections", listed(sections))];
        Single::new("split", x(), attributes, vec!["Out"; 2])
    };
    let crop = vec![("shape", listed(&[4])), ("offsets", listed(&[2]))];
    vec![
        split(2, &[]),
        split(0, &[2, 2]),
        split(0, &[6, -1]),
        Single::new("crop_tensor", x(), crop, vec!["Out"]),
    ]
}

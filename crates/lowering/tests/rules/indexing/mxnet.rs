//! MXNet 1.9.1: `matrix_op-inl.h`, `indexing_op.h`, `slice_channel-inl.h`.

use libtest_mimic::Trial;
use lodstone_model::Tensor;

use super::{
    Draw, Random, Single, dims, elements, last, list, longs, numbered, padded, python, rejected,
    sections, taken, trials_of, written,
};
use crate::single::text;

pub(super) fn trials() -> Vec<Trial> {
    let trial = |name: &str, draw: Draw| trials_of("indexing")("mxnet", name, Single::mxnet, draw);
    vec![
        trial("slice", slice),
        trial("slice_assign", slice_assign),
        trial("slice_axis", slice_axis),
        trial("split", split),
        trial("take", take),
        trial("pick", pick),
        trial("one_hot", one_hot),
        trial("gather_nd", gather_nd),
        trial("Pad", pad),
        rejected("mxnet::indexing::rejected", Single::mxnet, invalid),
    ]
}

fn tuple(numbers: &[Option<i64>]) -> String {
    let numbers = numbers.iter().map(|it| it.map_or("None".to_owned(), |it| it.to_string()));
    format!("({},)", numbers.collect::<Vec<_>>().join(", "))
}

/// Returns bounds and steps along the first axes, and the view of the elements between them.
fn view(random: &mut Random, x: &Tensor) -> ([String; 3], Tensor) {
    let count = random.size(1, dims(x).len());
    let (mut begins, mut ends, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    let mut view = numbered(&dims(x));
    for (axis, dim) in dims(x).into_iter().enumerate().take(count) {
        let mut bound = |dim| (random.size(0, 3) > 0).then(|| random.bound(dim));
        let (begin, end) = (bound(dim), bound(dim));
        let step = (random.size(0, 3) > 0).then(|| random.step());
        view = taken(&view, axis, &python(dim, begin, end, step.unwrap_or(1)));
        begins.push(begin);
        ends.push(end);
        steps.push(step);
    }
    ([tuple(&begins), tuple(&ends), tuple(&steps)], view)
}

fn slice(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 1);
    let ([begin, end, step], view) = view(random, &x);
    let all = elements(&x);
    let y: Vec<f64> = elements(&view).iter().map(|place| all[*place as usize]).collect();
    let y = list(&y, &dims(&view));
    let attributes = vec![("begin", text(begin)), ("end", text(end)), ("step", text(step))];
    let mut one = Single::new("slice", vec![("x", x)], attributes, vec!["y"]);
    one.is_dynamic = random.flag();
    Some((one, vec![y]))
}

fn slice_assign(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 1);
    let ([begin, end, step], view) = view(random, &x);
    let mut attributes = vec![("begin", text(begin)), ("end", text(end)), ("step", text(step))];
    let is_dynamic = random.flag();
    let (mut one, values) = match random.flag() {
        true => {
            attributes.push(("scalar", text(0.5)));
            let count = elements(&view).len();
            let one =
                Single::new("_slice_assign_scalar", vec![("x", x.clone())], attributes, vec!["y"]);
            (one, vec![0.5; count])
        }
        false => {
            let value = random.tensor(&dims(&view));
            let values = elements(&value);
            let inputs = vec![("x", x.clone()), ("value", value)];
            (Single::new("_slice_assign", inputs, attributes, vec!["y"]), values)
        }
    };
    one.is_dynamic = is_dynamic;
    Some((one, vec![written(&x, &view, &values, last)]))
}

fn slice_axis(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 1);
    let axis = random.size(0, 2);
    let dim = dims(&x)[axis] as i64;
    let begin = random.number(-dim, dim - 1);
    let end = (random.size(0, 3) > 0).then(|| random.number(-dim, dim));
    let place = |at: i64| if at < 0 { at + dim } else { at };
    let (first, behind) = (place(begin), end.map_or(dim, place));
    if first >= behind {
        return None;
    }
    let y = taken(&x, axis, &(first as usize..behind as usize).collect::<Vec<_>>());
    let end = end.map_or("None".to_owned(), |end| end.to_string());
    let attributes = vec![("axis", text(axis)), ("begin", text(begin)), ("end", text(end))];
    let mut one = Single::new("slice_axis", vec![("x", x)], attributes, vec!["y"]);
    one.is_dynamic = random.flag();
    Some((one, vec![y]))
}

/// Sections of which the first are longer, at indices, or equal ones.
fn split(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 1);
    let axis = random.size(0, 2);
    let (dim, count) = (dims(&x)[axis], random.size(1, 3));
    let mut attributes = vec![("axis", text(axis)), ("squeeze_axis", text("False"))];
    let (kind, sizes): (_, Vec<usize>) = match random.size(0, 2) {
        0 => {
            if !dim.is_multiple_of(count) {
                return None;
            }
            attributes.push(("num_outputs", text(count)));
            ("SliceChannel", vec![dim / count; count])
        }
        1 => {
            if dim < count {
                return None;
            }
            attributes.extend([("indices", text("()")), ("sections", text(count))]);
            let size = |part| dim / count + usize::from(part < dim % count);
            ("_split_v2", (0..count).map(size).collect())
        }
        _ => {
            let mut places: Vec<usize> = (1..count).map(|_| random.size(0, dim)).collect();
            places.sort_unstable();
            places.insert(0, 0);
            let listed: Vec<Option<i64>> = places.iter().map(|it| Some(*it as i64)).collect();
            attributes.extend([("indices", text(tuple(&listed))), ("sections", text(0))]);
            let ends = places.iter().skip(1).copied().chain([dim]);
            ("_split_v2", places.iter().zip(ends).map(|(start, end)| end - start).collect())
        }
    };
    let expected = sections(&x, axis, &sizes);
    let mut one = Single::new(kind, vec![("x", x)], attributes, vec!["y"; count]);
    one.is_dynamic = random.flag();
    Some((one, expected))
}

/// Returns indices around a dim as floats, and their places.
fn around(random: &mut Random, count: usize, dim: i64, mode: &str) -> (Vec<f64>, Vec<usize>) {
    let mut index = || match mode {
        "raise" => random.number(0, dim - 1) as f64,
        _ => random.number(-dim - 4, dim + 4) as f64 + random.pick(&[0.0, 0.25, 0.5, 0.75]),
    };
    let indices: Vec<f64> = (0..count).map(|_| index()).collect();
    let place = |index: &f64| match mode {
        "wrap" => (index.trunc() as i64).rem_euclid(dim) as usize,
        _ => (index.trunc() as i64).clamp(0, dim - 1) as usize,
    };
    let places = indices.iter().map(place).collect();
    (indices, places)
}

fn take(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 1);
    let (axis, mode) = (random.size(0, 2), random.pick(&["clip", "wrap", "raise"]));
    let (dim, count) = (dims(&x)[axis] as i64, random.size(1, 4));
    let (indices, places) = around(random, count, dim, mode);
    let y = taken(&x, axis, &places);
    let attributes = vec![("axis", text(axis)), ("mode", text(mode))];
    let inputs = vec![("x", x), ("indices", list(&indices, &[count]))];
    let mut one = Single::new("take", inputs, attributes, vec!["y"]);
    one.is_dynamic = random.flag();
    Some((one, vec![y]))
}

fn pick(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let sizes = random.dims(2, 1);
    let x = random.tensor(&sizes);
    let mode = random.pick(&["clip", "wrap"]);
    let (indices, places) = around(random, sizes[0], sizes[1] as i64, mode);
    let all = elements(&x);
    let y: Vec<f64> = places.iter().enumerate().map(|(row, at)| all[row * sizes[1] + at]).collect();
    let attributes = vec![("axis", text(1)), ("mode", text(mode)), ("keepdims", text("False"))];
    let inputs = vec![("x", x), ("indices", list(&indices, &[sizes[0]]))];
    Some((Single::new("pick", inputs, attributes, vec!["y"]), vec![list(&y, &[sizes[0]])]))
}

/// Indices outside of the depth have no element that is on.
fn one_hot(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (count, depth) = (random.size(1, 5), random.size(1, 4));
    let (indices, _) = around(random, count, depth as i64, "clip");
    let (on, off) = random.pick(&[(1.0, 0.0), (5.0, 0.0), (1.0, -0.5)]);
    let mut y = Vec::new();
    for index in &indices {
        let is_on = |class: usize| index.trunc() == class as f64;
        y.extend((0..depth).map(|class| if is_on(class) { on } else { off }));
    }
    let attributes = vec![("depth", text(depth)), ("on_value", text(on)), ("off_value", text(off))];
    let inputs = vec![("indices", list(&indices, &[count]))];
    Some((Single::new("one_hot", inputs, attributes, vec!["y"]), vec![list(&y, &[count, depth])]))
}

fn gather_nd(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let sizes = random.dims(2, 1);
    let (x, count) = (random.tensor(&sizes), random.size(1, 4));
    let [rows, columns] = [sizes[0], sizes[1]].map(|dim| dim as i64);
    let (down, along) =
        (random.indices(count, -rows, rows - 1), random.indices(count, -columns, columns - 1));
    let all = elements(&x);
    let place = |(row, column): (&i64, &i64)| {
        all[(row.rem_euclid(rows) * columns + column.rem_euclid(columns)) as usize]
    };
    let y: Vec<f64> = down.iter().zip(&along).map(place).collect();
    let indices = longs(&[down, along].concat(), &[2, count]);
    let one = Single::new("gather_nd", vec![("x", x), ("indices", indices)], vec![], vec!["y"]);
    Some((one, vec![list(&y, &[count])]))
}

/// Pads all axes of images but the first two.
fn pad(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(4, 1);
    let mode = random.pick(&["constant", "edge", "reflect"]);
    let (mut widths, mut y) = (vec![Some(0); 4], x.clone());
    for axis in 2..4 {
        let pair = [random.number(0, 3), random.number(0, 3)];
        y = padded(&y, axis, pair, mode)?;
        widths.extend(pair.map(Some));
    }
    let attributes = vec![
        ("mode", text(mode)),
        ("pad_width", text(tuple(&widths))),
        ("constant_value", text(0.5)),
    ];
    let mut one = Single::new("Pad", vec![("x", x)], attributes, vec!["y"]);
    one.is_dynamic = random.flag();
    Some((one, vec![y]))
}

/// What MXNet rejects for a dim of 5.
fn invalid() -> Vec<Single> {
    let x = || vec![("x", numbered(&[5]))];
    let axis = |begin: &str, end: &str| {
        let attributes = vec![("axis", text(0)), ("begin", text(begin)), ("end", text(end))];
        Single::new("slice_axis", x(), attributes, vec!["y"])
    };
    let split = |indices: &str, count: usize| {
        let attributes =
            vec![("axis", text(0)), ("indices", text(indices)), ("squeeze_axis", text("False"))];
        Single::new("_split_v2", x(), attributes, vec!["y"; count])
    };
    let channel = vec![("axis", text(0)), ("num_outputs", text(2))];
    vec![
        axis("0", "9"),
        axis("-9", "3"),
        axis("2", "2"),
        axis("3", "1"),
        axis("0", "-6"),
        split("(0, 3, 2)", 3),
        split("(0, 3, 1, 4)", 4),
        split("(0, 6)", 2),
        split("(1, 3)", 2),
        Single::new("SliceChannel", x(), channel, vec!["y"; 2]),
    ]
}

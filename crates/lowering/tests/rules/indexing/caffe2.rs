//! Caffe2 of PyTorch 1.9.1: `slice_op.h`, `concat_split_op.h`, `gather_op.h`, `utility_ops.h`.

use libtest_mimic::Trial;
use lodstone_model::{AttributeValue, Tensor};

use super::{
    Draw, Random, Single, dims, elements, last, longs, numbered, sections, taken, trials_of,
    written,
};

pub(super) fn trials() -> Vec<Trial> {
    let trial =
        |name: &str, draw: Draw| trials_of("indexing")("caffe2", name, Single::caffe2, draw);
    vec![
        trial("Slice", slice),
        trial("Split", split),
        trial("Gather", gather),
        trial("ScatterAssign", assign),
    ]
}

/// A bound below 0 counts from behind the last element. Caffe2 slices a single axis.
fn slice(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 0);
    let (sliced, is_computed) = (random.size(0, 2), random.size(0, 3) == 0);
    let (mut starts, mut ends, mut y) = (Vec::new(), Vec::new(), x.clone());
    for (axis, dim) in dims(&x).into_iter().enumerate() {
        let dim = dim as i64;
        let (start, end) = match axis == sliced {
            true => (random.bound(dim as usize), random.bound(dim as usize)),
            false => (0, -1),
        };
        let place = |at: i64| (if at < 0 { at + dim + 1 } else { at }).min(dim);
        let (first, behind) = (place(start), place(end));
        if first < 0 || behind < first {
            return None;
        }
        starts.push(start);
        ends.push(end);
        y = taken(&y, axis, &(first as usize..behind as usize).collect::<Vec<_>>());
    }
    let mut one = match is_computed {
        true => Single::new(
            "Slice",
            vec![("x", x), ("starts", longs(&starts, &[3])), ("ends", longs(&ends, &[3]))],
            vec![],
            vec!["y"],
        ),
        false => {
            let attributes = vec![
                ("starts", AttributeValue::Longs(starts)),
                ("ends", AttributeValue::Longs(ends)),
            ];
            Single::new("Slice", vec![("x", x)], attributes, vec!["y"])
        }
    };
    one.is_dynamic = random.flag();
    Some((one, vec![y]))
}

fn split(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(3, 0);
    let axis = random.size(0, 2);
    let dim = dims(&x)[axis];
    let count = random.size(1, 3);
    let mut attributes = vec![("axis", AttributeValue::Long(axis as i64))];
    let sizes: Vec<usize> = if random.flag() {
        if !dim.is_multiple_of(count) {
            return None;
        }
        vec![dim / count; count]
    } else {
        let sizes = random.sizes_of(dim, count);
        let listed = sizes.iter().map(|size| *size as i64).collect();
        attributes.push(("split", AttributeValue::Longs(listed)));
        sizes
    };
    let expected = sections(&x, axis, &sizes);
    Some((Single::new("Split", vec![("x", x)], attributes, vec!["y"; count]), expected))
}

/// Indices below 0 count from the end, unless the axis is another one than the first.
fn gather(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(2, 1);
    let axis = random.size(0, 1);
    let (dim, count) = (dims(&x)[axis] as i64, random.size(0, 4));
    let indices = random.indices(count, if axis == 0 { -dim } else { 0 }, dim - 1);
    let places: Vec<usize> = indices.iter().map(|it| it.rem_euclid(dim) as usize).collect();
    let y = taken(&x, axis, &places);
    let kind = if axis == 0 { "Gather" } else { "BatchGather" };
    let inputs = vec![("x", x), ("indices", longs(&indices, &[count]))];
    Some((Single::new(kind, inputs, vec![], vec!["y"]), vec![y]))
}

/// The last of the slices with an index counts.
fn assign(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let x = random.tensor_of(2, 1);
    let (dim, count) = (dims(&x)[0] as i64, random.size(0, 4));
    let indices = random.indices(count, 0, dim - 1);
    let places: Vec<usize> = indices.iter().map(|it| *it as usize).collect();
    let slices = random.tensor(&[count, dims(&x)[1]]);
    let view = taken(&numbered(&dims(&x)), 0, &places);
    let y = written(&x, &view, &elements(&slices), last);
    let inputs = vec![("x", x), ("indices", longs(&indices, &[count])), ("slices", slices)];
    Some((Single::new("ScatterAssign", inputs, vec![], vec!["y"]), vec![y]))
}

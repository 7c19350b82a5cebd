//! Glow (commit 05dd99b9): `InterpreterNodes.cpp`.

use libtest_mimic::Trial;
use lodstone_model::{AttributeValue, Tensor};

use super::{Random, Single, applied, glow_trial, nearest};

pub(super) fn trials() -> Vec<Trial> {
    vec![glow_trial("resizing::ResizeNearest", by_scale)]
}

/// `fwdResizeNearestInstImpl`: each axis has a scale, and a place is divided by it, in single precision.
fn by_scale(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let rank = random.size(3, 5);
    let dims: Vec<usize> = (0..rank).map(|_| random.size(1, 5)).collect();
    let scales: Vec<f32> =
        (0..rank).map(|axis| if axis == 0 { 1.0 } else { random.real(0.4, 3.2) as f32 }).collect();
    let sizes: Vec<usize> =
        dims.iter().zip(&scales).map(|(dim, scale)| (*dim as f32 * scale) as usize).collect();
    if sizes.contains(&0) {
        return None;
    }
    let x = random.tensor(&dims);
    let line =
        |axis: usize| nearest(dims[axis], sizes[axis], |at| (at as f32 / scales[axis]) as usize);
    // The taps are those of the axes from the third on.
    let mut whole = x.clone();
    whole.shape.insert(0, 1);
    whole.shape.insert(1, 1);
    let mut expected = applied(&whole, &(0..rank).map(line).collect::<Vec<_>>());
    expected.shape.drain(..2);
    let attributes = vec![("Scale", AttributeValue::Floats(scales))];
    Some((Single::new("ResizeNearest", vec![("", x)], attributes, vec![""]), vec![expected]))
}

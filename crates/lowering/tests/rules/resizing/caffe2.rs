//! Caffe2 of PyTorch 1.9.1: `resize_op.cc`, `upsample_op.cc` and `upsample_nearest_op.h`.

use lodstone_model::{AttributeValue, Tensor};

use super::{Draw, Random, Single, Taps, applied, channels_last, image, linear, nearest, text};

pub(super) const DRAWS: &[(&str, Draw)] =
    &[("ResizeNearest", by_scale), ("UpsampleBilinear", corners), ("UpsampleNearest", repeated)];

/// Returns an image, whose batch is perhaps empty, and scales of its last two dims with the sizes that follow.
fn scaled(random: &mut Random) -> Option<(Tensor, [f32; 2], [usize; 2])> {
    let mut dims = image(random, 2);
    dims[0] = random.size(0, 2);
    let scales = [random.real(0.2, 3.2) as f32, random.real(0.2, 3.2) as f32];
    let sizes = [0, 1].map(|axis| (dims[axis + 2] as f32 * scales[axis]) as usize);
    (!sizes.contains(&0)).then(|| (random.tensor(&dims), scales, sizes))
}

fn by_scales(x: Tensor, kind: &str, [height, width]: [f32; 2]) -> Single {
    let attributes = vec![
        ("height_scale", AttributeValue::Float(height)),
        ("width_scale", AttributeValue::Float(width)),
    ];
    Single::new(kind, vec![("", x)], attributes, vec![""])
}

/// A place is divided by the scale, in single precision.
fn by_scale(random: &mut Random) -> Option<(Single, Tensor)> {
    let (x, scales, sizes) = scaled(random)?;
    let line = |axis: usize| {
        nearest(x.shape[axis + 2] as usize, sizes[axis], |at| (at as f32 / scales[axis]) as usize)
    };
    let expected = applied(&x, &[line(0), line(1)]);
    let is_last = random.flag();
    let (x, expected) = match is_last {
        true => (channels_last(&x), channels_last(&expected)),
        false => (x, expected),
    };
    let mut single = by_scales(x, "ResizeNearest", scales);
    single.attributes.push(("order", text(if is_last { "NHWC" } else { "NCHW" })));
    // With the channels last, they are unknown, too.
    Some((Single { is_dynamic: random.size(0, 3) == 0, ..single }, expected))
}

fn corners(random: &mut Random) -> Option<(Single, Tensor)> {
    let (x, scales, sizes) = scaled(random)?;
    let line = |axis: usize| -> Taps {
        let (from, to) = (x.shape[axis + 2] as usize, sizes[axis]);
        let ratio = if to > 1 { (from as f32 - 1.0) / (to as f32 - 1.0) } else { 0.0 };
        linear(from, to, |at| f64::from(ratio) * at as f64)
    };
    let expected = applied(&x, &[line(0), line(1)]);
    let single = by_scales(x, "UpsampleBilinear", scales);
    Some((Single { is_dynamic: random.size(0, 3) == 0, ..single }, expected))
}

fn repeated(random: &mut Random) -> Option<(Single, Tensor)> {
    let mut dims = image(random, 2);
    dims[0] = random.size(0, 2);
    let (x, scale) = (random.tensor(&dims), random.size(1, 4));
    let line = |axis: usize| nearest(dims[axis], dims[axis] * scale, |at| at / scale);
    let expected = applied(&x, &[line(2), line(3)]);
    let attributes = vec![("scale", AttributeValue::Long(scale as i64))];
    let single = Single::new("UpsampleNearest", vec![("", x)], attributes, vec![""]);
    Some((Single { is_dynamic: random.size(0, 3) == 0, ..single }, expected))
}

//! Caffe2 of PyTorch 1.9.1.

use lodstone_model::{AttributeValue, Tensor};

use super::{Draw, Random, Rect, Single, boxes, detector, flat, int32, list, recorded, regions};

pub(super) const DRAWS: &[(&str, Draw)] = &[
    ("RoIAlign", |random| regions::drawn(random, "caffe2")),
    ("RoIAlignRotated", regions::rotated),
    ("BBoxTransform", |random| transform(random, false)),
    ("BatchPermutation", permutation),
    ("GenerateProposals", detector::proposals),
    ("BoxWithNMSLimit", detector::limited),
    ("DistributeFpnProposals", detector::distributed),
];

/// `bbox_transform_op.cc` and `generate_proposals_op_util_boxes.h`: regions of scaled images, which deltas move. Glow's
/// `fwdBBoxTransformInstFloatImpl` computes the same.
pub(super) fn transform(random: &mut Random, is_glow: bool) -> Option<(Single, Vec<Tensor>)> {
    // Glow has no tensors without elements.
    let (count, classes) = (random.size(usize::from(is_glow), 5), random.size(1, 3));
    let has_image = random.flag();
    let images = if has_image { random.size(1, 3) } else { 1 };
    // Indices are only counted: regions are in the order of their images.
    let given: Vec<usize> = (0..count).map(|_| random.size(0, images - 1)).collect();
    let mut of = given.clone();
    of.sort_unstable();
    let rois = boxes(random, count, 0, false);
    let deltas: Vec<f64> = (0..count * classes * 4).map(|_| random.real(-2.0, 6.0)).collect();
    let infos: Vec<[f64; 3]> = (0..images)
        .map(|_| [random.number(4, 40), random.number(4, 40), random.number(1, 4)])
        .map(|it| it.map(|it| it as f64))
        .map(|[height, width, scale]| [height, width, scale / 2.0])
        .collect();
    let weights = random.pick(&[[1.0; 4], [10.0, 10.0, 5.0, 5.0], [1.0, 2.0, 4.0, 0.5]]);
    let (is_scaled, has_pixel) = (random.flag(), random.flag());
    let more = if has_pixel { 1.0 } else { 0.0 };
    let mut results: Vec<Rect> = Vec::new();
    for (at, delta) in deltas.as_chunks::<4>().0.iter().enumerate() {
        let (roi, image) = (rois[at / classes], of[at / classes]);
        let [height, width, scale] = infos[image];
        let side = |axis: usize, size: f64| {
            let [begin, end] = [roi[axis] / scale, roi[axis + 2] / scale];
            let wide = end - begin + more;
            let center = begin + wide / 2.0 + delta[axis] / weights[axis] * wide;
            let growth = (delta[axis + 2] / weights[axis + 2]).min((1000.0_f64 / 16.0).ln());
            let half = growth.exp() * wide / 2.0;
            let last = (size / scale + 0.5).floor() - more;
            let back = if is_scaled { scale } else { 1.0 };
            [center - half, center + half - more].map(|end| end.clamp(0.0, last) * back)
        };
        let [[left, right], [top, bottom]] = [side(0, width), side(1, height)];
        results.push([left, top, right, bottom]);
    }
    let rows: Vec<f64> = match has_image {
        true => given
            .iter()
            .zip(&rois)
            .flat_map(|(of, it)| [vec![*of as f64], it.to_vec()].concat())
            .collect(),
        false => rois.as_flattened().to_vec(),
    };
    let counts: Vec<f64> =
        (0..images).map(|image| of.iter().filter(|of| **of == image).count() as f64).collect();
    let inputs = vec![
        ("", list(&rows, &[count, if has_image { 5 } else { 4 }])),
        ("", list(&deltas, &[count, classes * 4])),
        ("", list(infos.as_flattened(), &[images, 3])),
    ];
    let names = match is_glow {
        true => ["Weights", "ApplyScale", "LegacyPlusOne"],
        false => ["weights", "apply_scale", "legacy_plus_one"],
    };
    let mut attributes = vec![
        (names[0], AttributeValue::Floats(weights.map(|it| it as f32).to_vec())),
        (names[1], AttributeValue::Long(is_scaled.into())),
        (names[2], AttributeValue::Long(has_pixel.into())),
    ];
    attributes.extend(is_glow.then_some(("Rotated", AttributeValue::Long(0))));
    let expected = vec![flat(&results, &[count, classes * 4]), list(&counts, &[images])];
    Some((Single::new("BBoxTransform", inputs, attributes, vec!["", ""]), expected))
}

/// `batch_permutation_op.cc`.
fn permutation(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = [random.size(0, 4), random.size(1, 2), random.size(1, 2), random.size(1, 3)];
    let x = random.tensor(&dims);
    let mut places: Vec<usize> = (0..dims[0]).collect();
    for at in (1..dims[0]).rev() {
        places.swap(at, random.size(0, at));
    }
    let (elements, row) = (recorded::elements(&x), dims[1..].iter().product::<usize>());
    let y: Vec<f64> = places.iter().flat_map(|at| elements[at * row..][..row].to_vec()).collect();
    let inputs = vec![("", x), ("", int32(&places, &[dims[0]]))];
    let single = Single::new("BatchPermutation", inputs, Vec::new(), vec![""]);
    Some((Single { is_dynamic: random.flag(), ..single }, vec![list(&y, &dims)]))
}

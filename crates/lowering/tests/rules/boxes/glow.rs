//! Glow (commit 05dd99b9): `InterpreterNodes.cpp`.

use libtest_mimic::Trial;
use lodstone_model::{AttributeValue, Tensor};

use super::{
    Random, Rect, Single, boxes, caffe2, flat, glow_trial, int32, int64, kept, list, order,
    overlap, regions, scores,
};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        glow_trial("boxes::ROIAlign", |random| regions::drawn(random, "glow")),
        glow_trial("boxes::BBoxTransform", |random| caffe2::transform(random, true)),
        glow_trial("boxes::NonMaxSuppression", suppression),
    ]
}

fn long(value: usize) -> AttributeValue {
    AttributeValue::Long(value as i64)
}

/// `fwdNonMaxSuppressionInstImpl`: free slots have the selected box of the lowest score, or the first box of an image.
fn suppression(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let is_flat = random.flag();
    let (images, classes) = if is_flat { (1, 1) } else { (random.size(1, 3), random.size(1, 2)) };
    let (count, most) = (random.size(1, 6), random.size(1, 4));
    let all: Vec<Rect> = boxes(random, images * count, 1, false);
    let ranked = scores(random, images * classes * count, false);
    let threshold = f64::from(random.pick(&[0.15_f32, 0.31, 0.47, 0.77, 1.0]));
    let least = random.pick(&[0.0, 0.3, 0.6, 2.0]);
    let is_centered = random.flag();
    // There is room for all selected boxes, and perhaps for more.
    let room = most * classes + random.size(0, 2);
    let (mut rows, mut counts) = (Vec::new(), Vec::new());
    for image in 0..images {
        let score = |class: usize, at: usize| ranked[(image * classes + class) * count + at];
        let mut found = Vec::new();
        for class in 0..classes {
            let own: Vec<f64> = (0..count).map(|at| score(class, at)).collect();
            let mut order = order(&own);
            order.retain(|at| own[*at] > least);
            let rect = |at: usize| all[image * count + at];
            let mut best = kept(&order, |a, b| overlap(rect(a), rect(b)) > threshold);
            best.truncate(most);
            found.extend(best.iter().map(|at| [image, class, *at]));
        }
        let mut filler = [image, 0, 0];
        for row in &found {
            if score(row[1], row[2]) < score(filler[1], filler[2]) {
                filler = *row;
            }
        }
        counts.extend(vec![found.len(); most]);
        found.resize(room, filler);
        rows.extend(found);
    }
    let given: Vec<Rect> = all
        .iter()
        .map(|[left, top, right, bottom]| match is_centered {
            true => [(left + right) / 2.0, (top + bottom) / 2.0, right - left, bottom - top],
            // Opposite corners, in any order.
            false if random.flag() => [*right, *top, *left, *bottom],
            false => [*left, *top, *right, *bottom],
        })
        .collect();
    let dims = |dims: &[usize]| if is_flat { vec![count] } else { dims.to_vec() };
    let box_dims = if is_flat { vec![count, 4] } else { vec![images, count, 4] };
    let inputs =
        vec![("", flat(&given, &box_dims)), ("", list(&ranked, &dims(&[images, classes, count])))];
    let attributes = vec![
        ("CenterPointBox", long(is_centered.into())),
        ("MaxOutputBoxesPerClass", long(most)),
        ("IouThreshold", AttributeValue::Float(threshold as f32)),
        ("ScoreThreshold", AttributeValue::Float(least as f32)),
        ("IsTFVersion4", long(is_flat.into())),
    ];
    let is_wide = random.flag();
    let integers = |values: &[usize], dims: &[usize]| {
        let mut tensor = if is_wide { int64(values) } else { int32(values, dims) };
        tensor.shape = dims.iter().map(|dim| *dim as u64).collect();
        tensor
    };
    let indices = match is_flat {
        true => integers(&rows.iter().map(|row| row[2]).collect::<Vec<_>>(), &[room]),
        false => integers(rows.as_flattened(), &[images * room, 3]),
    };
    let counts = integers(&counts, &[images * most]);
    let single = Single::new("NonMaxSuppression", inputs, attributes, vec!["", ""]);
    Some((single, vec![indices, counts]))
}

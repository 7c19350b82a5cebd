//! Boxes, their suppression and regions with random attributes, compared with the formulas of the frameworks' kernels.

use libtest_mimic::Trial;
use lodstone_model::{AttributeValue, DType, Tensor};
use lodstone_store::Blob;

use super::random::Random;
use super::recorded;
use super::single::{PADDLE, Run, Single, floats, random_trial, text};

/// Returns an operator, and its expected results; `None` if the framework rejects it.
type Draw = fn(&mut Random) -> Option<(Single, Vec<Tensor>)>;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |dialect: &str, name: &str, run: Run, draw: Draw| {
        random_trial(&format!("{dialect}::boxes::{name}"), run, draw)
    };
    vec![
        trial("paddle", "iou_similarity", PADDLE, paddle_iou),
        trial("paddle", "box_coder", PADDLE, paddle_coder),
        trial("paddle", "multiclass_nms", PADDLE, paddle_multiclass),
        trial("paddle", "matrix_nms", PADDLE, paddle_matrix),
        trial("paddle", "nms", PADDLE, paddle_nms),
        trial("paddle", "generate_proposals", PADDLE, paddle_proposals),
        trial("paddle", "regions", PADDLE, |random| regions(random, "paddle")),
        trial("mxnet", "box_iou", Single::mxnet, mxnet_iou),
        trial("mxnet", "box_decode", Single::mxnet, mxnet_decode),
        trial("mxnet", "box_encode", Single::mxnet, mxnet_encode),
        trial("mxnet", "box_nms", Single::mxnet, mxnet_nms),
        trial("mxnet", "MultiBoxDetection", Single::mxnet, mxnet_detection),
        trial("mxnet", "MultiBoxPrior", Single::mxnet, mxnet_prior),
        trial("mxnet", "Proposal", Single::mxnet, mxnet_proposal),
        trial("mxnet", "regions", Single::mxnet, |random| regions(random, "mxnet")),
        trial("torch", "nms", Single::torch, torch_nms),
        trial("torch", "regions", Single::torch, |random| regions(random, "torch")),
    ]
}

/// Left, top, right and bottom.
type Rect = [f64; 4];

fn list(elements: &[f64], dims: &[usize]) -> Tensor {
    floats(&elements.iter().map(|it| *it as f32).collect::<Vec<_>>(), dims)
}

fn int32(elements: &[usize], dims: &[usize]) -> Tensor {
    let bytes: Vec<u8> = elements.iter().flat_map(|it| (*it as i32).to_le_bytes()).collect();
    let dims = dims.iter().map(|dim| *dim as u64).collect();
    Tensor::dense(DType::Int32, dims, Blob::memory(bytes))
}

fn int64(elements: &[usize]) -> Tensor {
    let bytes: Vec<u8> = elements.iter().flat_map(|it| (*it as i64).to_le_bytes()).collect();
    Tensor::dense(DType::Int64, vec![elements.len() as u64], Blob::memory(bytes))
}

/// Returns boxes of whole numbers. Sides have at least a size, and a few boxes are reversed along an axis.
fn boxes(random: &mut Random, count: usize, least: i64, reverses: bool) -> Vec<Rect> {
    let mut rect = || {
        let (x, y) = (random.number(0, 7), random.number(0, 7));
        let (mut width, mut height) = (random.number(least, 7), random.number(least, 7));
        if reverses && random.size(0, 4) == 0 {
            if random.flag() { width = -2 } else { height = -3 }
        }
        [x, y, x + width, y + height].map(|it| it as f64)
    };
    (0..count).map(|_| rect()).collect()
}

/// Returns boxes with an overlap that a threshold can be compared with: two empty ones, whose overlap is NaN, are not
/// suppressed even if the threshold is negative.
fn boxes_over(random: &mut Random, count: usize, threshold: f64) -> Vec<Rect> {
    match threshold < 0.0 {
        true => boxes(random, count, 1, false),
        false => boxes(random, count, 0, true),
    }
}

fn flat(rects: &[Rect], dims: &[usize]) -> Tensor {
    list(rects.as_flattened(), dims)
}

/// Returns scores, some of which are equal if there may be ties.
fn scores(random: &mut Random, count: usize, ties: bool) -> Vec<f64> {
    let places: Vec<usize> = (0..count).collect();
    let mut score = |at: &usize| match ties {
        true => random.number(0, 7) as f64 / 8.0,
        // Different ones: the last digits are those of the place.
        false => random.number(0, 63) as f64 / 64.0 + *at as f64 / 4096.0,
    };
    places.iter().map(&mut score).collect()
}

/// Returns the places of scores, the best first; equal ones in their order.
fn order(scores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    order
}

/// Returns the places, in their order, that are kept: none that a better one suppresses.
fn kept(order: &[usize], suppresses: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    for at in order {
        if kept.iter().all(|better| !suppresses(*better, *at)) {
            kept.push(*at);
        }
    }
    kept
}

fn common(a: Rect, b: Rect) -> [f64; 2] {
    [a[2].min(b[2]) - a[0].max(b[0]), a[3].min(b[3]) - a[1].max(b[1])]
}

/// The overlap where sides are at least 0; NaN for two empty boxes.
fn overlap(a: Rect, b: Rect) -> f64 {
    let area = |it: Rect| (it[2] - it[0]).max(0.0) * (it[3] - it[1]).max(0.0);
    let [width, height] = common(a, b);
    let shared = width.max(0.0) * height.max(0.0);
    shared / (area(a) + area(b) - shared)
}

/// `JaccardOverlap` of `phi/kernels/funcs/detection/nms_util.h` of PaddlePaddle 2.6.2.
fn jaccard(a: Rect, b: Rect, more: f64) -> f64 {
    if b[0] > a[2] || b[2] < a[0] || b[1] > a[3] || b[3] < a[1] {
        return 0.0;
    }
    let area = |it: Rect| match it[2] < it[0] || it[3] < it[1] {
        true => 0.0,
        false => (it[2] - it[0] + more) * (it[3] - it[1] + more),
    };
    let [width, height] = common(a, b).map(|side| side + more);
    let shared = width * height;
    shared / (area(a) + area(b) - shared)
}

fn single(
    kind: &str,
    inputs: Vec<(&'static str, Tensor)>,
    attributes: Vec<(&'static str, AttributeValue)>,
    outputs: Vec<&'static str>,
) -> Single {
    Single { kind: kind.to_owned(), inputs, attributes, outputs, is_dynamic: false }
}

/// `iou_similarity_op.h` of 2.6.2.
fn paddle_iou(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (many, few) = (random.size(0, 4), random.size(1, 4));
    let (x, y) = (boxes(random, many, 0, true), boxes(random, few, 0, true));
    let is_normalized = random.flag();
    let more = if is_normalized { 0.0 } else { 1.0 };
    let area = |it: Rect| (it[2] - it[0] + more) * (it[3] - it[1] + more);
    let pair = |a: Rect, b: Rect| {
        let [width, height] = common(a, b).map(|side| (side + more).max(0.0));
        let shared = width * height;
        shared / (f64::from((area(a) + area(b) - shared) as f32) + 1e-10)
    };
    let all: Vec<f64> = x.iter().flat_map(|a| y.iter().map(move |b| pair(*a, *b))).collect();
    if all.iter().any(|it| it.abs() > 1e6) {
        return None;
    }
    let inputs = vec![("X", flat(&x, &[many, 4])), ("Y", flat(&y, &[few, 4]))];
    let attributes = vec![("box_normalized", AttributeValue::Bool(is_normalized))];
    Some((
        single("iou_similarity", inputs, attributes, vec!["Out"]),
        vec![list(&all, &[many, few])],
    ))
}

/// `box_coder_kernel.cc` of 2.6.2.
fn paddle_coder(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (rows, columns) = (random.size(1, 3), random.size(1, 3));
    let (decodes, is_normalized) = (random.flag(), random.flag());
    let more = if is_normalized { 0.0 } else { 1.0 };
    let axis = if decodes { random.size(0, 1) } else { 0 };
    let count = if axis == 0 { columns } else { rows };
    let priors = boxes(random, count, 1, false);
    let size = |it: Rect| [it[2] - it[0] + more, it[3] - it[1] + more];
    let mut attributes = vec![
        ("box_normalized", AttributeValue::Bool(is_normalized)),
        ("axis", AttributeValue::Int(axis as i32)),
        ("code_type", text(if decodes { "decode_center_size" } else { "encode_center_size" })),
    ];
    let mut inputs = vec![("PriorBox", flat(&priors, &[count, 4]))];
    let mut factors = vec![[1.0; 4]; count];
    let mut variance = Vec::new();
    match random.size(0, 2) {
        0 => {
            let each: Vec<f64> = (0..count * 4).map(|_| random.pick(&[0.1, 0.25, 1.0])).collect();
            factors = each.as_chunks().0.to_vec();
            inputs.push(("PriorBoxVar", flat(&factors, &[count, 4])));
        }
        1 => {
            factors = vec![[0.1, 0.1, 0.2, 0.2]; count];
            variance = vec![0.1, 0.1, 0.2, 0.2];
        }
        _ => {}
    }
    attributes.push(("variance", AttributeValue::Floats(variance)));
    let mut results: Vec<Rect> = Vec::new();
    if decodes {
        let deltas: Vec<f64> = (0..rows * columns * 4).map(|_| random.real(-1.0, 1.0)).collect();
        for (at, delta) in deltas.as_chunks::<4>().0.iter().enumerate() {
            let prior = if axis == 0 { at % columns } else { at / columns };
            let (own, factor) = (priors[prior], factors[prior]);
            let side = |axis: usize| {
                let wide = size(own)[axis];
                let center = own[axis] + wide / 2.0 + factor[axis] * delta[axis] * wide;
                let wide = (factor[axis + 2] * delta[axis + 2]).exp() * wide;
                [center - wide / 2.0, center + wide / 2.0 - more]
            };
            let [[left, right], [top, bottom]] = [side(0), side(1)];
            results.push([left, top, right, bottom]);
        }
        inputs.push(("TargetBox", list(&deltas, &[rows, columns, 4])));
    } else {
        let targets = boxes(random, rows, 1, true);
        for target in &targets {
            for (own, factor) in priors.iter().zip(&factors) {
                let code = |axis: usize| {
                    let wide = size(*own)[axis];
                    let center = (target[axis] + target[axis + 2]) / 2.0;
                    let way = (center - own[axis] - wide / 2.0) / wide / factor[axis];
                    [way, (size(*target)[axis] / wide).abs().ln() / factor[axis + 2]]
                };
                let [[x, width], [y, height]] = [code(0), code(1)];
                results.push([x, y, width, height]);
            }
        }
        inputs.push(("TargetBox", flat(&targets, &[rows, 4])));
    }
    let single = single("box_coder", inputs, attributes, vec!["OutputBox"]);
    Some((single, vec![flat(&results, &[rows, columns, 4])]))
}

/// Thresholds that no overlap of boxes of small whole numbers has, and those at the ends.
const THRESHOLDS: [f64; 8] = [-1.0, 0.0, 0.15, 0.31, 0.47, 0.77, 1.0, 2.0];

/// `multiclass_nms3_kernel.cc` of 2.6.2.
fn paddle_multiclass(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (images, classes, count) = (random.size(1, 2), random.size(1, 3), random.size(1, 6));
    let is_normalized = random.flag();
    let more = if is_normalized { 0.0 } else { 1.0 };
    let all = boxes(random, images * count, if is_normalized { 1 } else { 0 }, true);
    let ranked = scores(random, images * classes * count, true);
    let threshold = random.pick(&THRESHOLDS) as f32;
    let least = random.pick(&[-1.0, 0.0, 0.25, 0.8, 1.0]);
    let (first, most) = (random.number(-1, 5), random.number(-1, 5));
    let background = random.number(-1, classes as i64 - 1);
    let eta = if threshold > 0.5 { 1.0 } else { random.pick(&[1.0, 0.5]) };
    let (mut rows, mut places, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for image in 0..images {
        let own = &all[image * count..][..count];
        let mut found = Vec::new();
        for class in (0..classes).filter(|class| *class as i64 != background) {
            let own_scores = &ranked[(image * classes + class) * count..][..count];
            let mut order = order(own_scores);
            order.retain(|at| own_scores[*at] > least);
            if first >= 0 {
                order.truncate(first as usize);
            }
            let is_over = |a: usize, b: usize| jaccard(own[b], own[a], more) > f64::from(threshold);
            found.extend(kept(&order, is_over).iter().map(|at| (class, *at, own_scores[*at])));
        }
        if most >= 0 && found.len() > most as usize {
            let all: Vec<f64> = found.iter().map(|it| it.2).collect();
            let mut best = order(&all)[..most as usize].to_vec();
            best.sort_unstable();
            found = best.iter().map(|at| found[*at]).collect();
        }
        counts.push(found.len());
        for (class, at, score) in found {
            rows.extend([class as f64, score]);
            rows.extend(own[at]);
            places.push(image * count + at);
        }
    }
    let inputs = vec![
        ("BBoxes", flat(&all, &[images, count, 4])),
        ("Scores", list(&ranked, &[images, classes, count])),
    ];
    let attributes = vec![
        ("score_threshold", AttributeValue::Float(least as f32)),
        ("nms_threshold", AttributeValue::Float(threshold)),
        ("nms_eta", AttributeValue::Float(eta)),
        ("nms_top_k", AttributeValue::Int(first as i32)),
        ("keep_top_k", AttributeValue::Int(most as i32)),
        ("background_label", AttributeValue::Int(background as i32)),
        ("normalized", AttributeValue::Bool(is_normalized)),
    ];
    let outputs = vec!["Out", "Index", "NmsRoisNum"];
    let found = places.len();
    let expected =
        vec![list(&rows, &[found, 6]), int32(&places, &[found, 1]), int32(&counts, &[images])];
    let is_dynamic = random.size(0, 3) == 0;
    let single = single("multiclass_nms3", inputs, attributes, outputs);
    Some((Single { is_dynamic, ..single }, expected))
}

/// `matrix_nms_kernel.cc` of 2.6.2.
fn paddle_matrix(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (images, classes, count) = (random.size(1, 2), random.size(1, 3), random.size(1, 6));
    let is_normalized = random.flag();
    let more = if is_normalized { 0.0 } else { 1.0 };
    let all = boxes(random, images * count, 0, true);
    let ranked = scores(random, images * classes * count, false);
    let (least, last) = (random.pick(&[-1.0, 0.0, 0.25]), random.pick(&[0.0, 0.001, 0.2]));
    let (first, most) = (random.pick(&[-1, 1, 2, 5]), random.number(-1, 5));
    let background = random.number(-1, classes as i64 - 1);
    let is_gaussian = random.flag();
    let sigma = random.pick(&[0.5, 2.0]);
    let (mut rows, mut places, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for image in 0..images {
        let own = &all[image * count..][..count];
        let mut found = Vec::new();
        for class in (0..classes).filter(|class| *class as i64 != background) {
            let own_scores = &ranked[(image * classes + class) * count..][..count];
            let mut order = order(own_scores);
            order.retain(|at| own_scores[*at] > least);
            if first >= 0 {
                order.truncate(first as usize);
            }
            let with = |a: usize, b: usize| {
                let overlap = jaccard(own[order[a]], own[order[b]], more);
                if overlap.is_nan() { 0.0 } else { overlap }
            };
            let greatest = |at: usize| (0..at).map(|other| with(at, other)).fold(0.0, f64::max);
            for (at, place) in order.iter().enumerate() {
                let decay = |other: usize| match is_gaussian {
                    true => ((greatest(other).powi(2) - with(at, other).powi(2)) * sigma).exp(),
                    false => (1.0 - with(at, other)) / (1.0 - greatest(other)),
                };
                let decay = (0..at).map(decay).fold(1.0, f64::min);
                let score = own_scores[*place] * decay;
                if decay.is_nan() || (score - last).abs() < 1e-6 && score != 0.0 {
                    return None;
                }
                if score > last {
                    found.push((class, *place, score));
                }
            }
        }
        let all_scores: Vec<f64> = found.iter().map(|it| it.2).collect();
        let mut best = order(&all_scores);
        if best.windows(2).any(|it| (all_scores[it[0]] - all_scores[it[1]]).abs() < 1e-6) {
            return None;
        }
        if most >= 0 {
            best.truncate(most as usize);
        }
        counts.push(best.len());
        for at in best {
            let (class, place, score) = found[at];
            rows.extend([class as f64, score]);
            rows.extend(own[place]);
            places.push(image * count + place);
        }
    }
    let inputs = vec![
        ("BBoxes", flat(&all, &[images, count, 4])),
        ("Scores", list(&ranked, &[images, classes, count])),
    ];
    let attributes = vec![
        ("score_threshold", AttributeValue::Float(least as f32)),
        ("post_threshold", AttributeValue::Float(last as f32)),
        ("use_gaussian", AttributeValue::Bool(is_gaussian)),
        ("gaussian_sigma", AttributeValue::Float(sigma as f32)),
        ("nms_top_k", AttributeValue::Int(first)),
        ("keep_top_k", AttributeValue::Int(most as i32)),
        ("background_label", AttributeValue::Int(background as i32)),
        ("normalized", AttributeValue::Bool(is_normalized)),
    ];
    let found = places.len();
    let expected =
        vec![list(&rows, &[found, 6]), int32(&places, &[found, 1]), int32(&counts, &[images])];
    let single = single("matrix_nms", inputs, attributes, vec!["Out", "Index", "RoisNum"]);
    Some((Single { is_dynamic: random.size(0, 3) == 0, ..single }, expected))
}

/// `nms_kernel.cc` of 2.6.2.
fn paddle_nms(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let count = random.size(1, 7);
    let threshold = random.pick(&THRESHOLDS) as f32;
    let all = boxes_over(random, count, threshold.into());
    let places: Vec<usize> = (0..count).collect();
    let is_over = |a: usize, b: usize| match threshold < 0.0 {
        true => true,
        false => overlap(all[a], all[b]) > f64::from(threshold),
    };
    let expected = int64(&kept(&places, is_over));
    let inputs = vec![("Boxes", flat(&all, &[count, 4]))];
    let attributes = vec![("iou_threshold", AttributeValue::Float(threshold))];
    Some((single("nms", inputs, attributes, vec!["KeepBoxesIdxs"]), vec![expected]))
}

/// `generate_proposals_kernel.cc` of 2.6.2.
fn paddle_proposals(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (images, kinds) = (random.size(1, 2), random.size(1, 2));
    let (height, width) = (random.size(1, 3), random.size(1, 3));
    let count = height * width * kinds;
    let ranked = scores(random, images * count, false);
    let deltas: Vec<f64> = (0..images * count * 4).map(|_| random.real(-0.5, 0.5)).collect();
    let anchors = boxes(random, count, 1, false);
    let variances: Vec<f64> = (0..count * 4).map(|_| random.pick(&[1.0, 0.5, 8.0])).collect();
    let sizes: Vec<f64> = (0..images * 2).map(|_| random.number(1, 14) as f64).collect();
    let has_offset = random.flag();
    let more = if has_offset { 1.0 } else { 0.0 };
    let threshold = random.pick(&THRESHOLDS) as f32;
    // The order of the best anchors is not specified, unless they are suppressed.
    let before = if threshold > 0.0 { random.number(0, 8) } else { 0 };
    let after = random.number(-1, 5);
    let least = random.pick(&[0.0, 1.0, 2.5]);
    let eta = if threshold > 0.5 { 1.0 } else { 0.5 };
    let (mut rows, mut found, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for image in 0..images {
        // The place of an anchor at a cell in maps of channels.
        let at = |anchor: usize, channel: usize, channels: usize| {
            let (cell, kind) = (anchor / kinds, anchor % kinds);
            ((image * kinds + kind) * channels + channel) * height * width + cell
        };
        let own: Vec<f64> = (0..count).map(|anchor| ranked[at(anchor, 0, 1)]).collect();
        let mut order = order(&own);
        if before > 0 {
            order.truncate(before as usize);
        }
        let [high, wide] = [sizes[image * 2], sizes[image * 2 + 1]];
        let moved = |anchor: usize| {
            let side = |axis: usize, image: f64| {
                let delta = |channel: usize| {
                    deltas[at(anchor, channel, 4)] * variances[anchor * 4 + channel]
                };
                let (begin, end) = (anchors[anchor][axis], anchors[anchor][axis + 2]);
                let size = end - begin + more;
                let center = begin + size / 2.0 + delta(axis) * size;
                let size = delta(axis + 2).min((1000.0_f64 / 16.0).ln()).exp() * size;
                let ends = [center - size / 2.0, center + size / 2.0 - more];
                ends.map(|end| end.min(image - more).max(0.0))
            };
            let [[left, right], [top, bottom]] = [side(0, wide), side(1, high)];
            [left, top, right, bottom]
        };
        let is_large = |it: Rect| {
            let size = [it[2] - it[0] + more, it[3] - it[1] + more];
            let is_inside =
                it[0] + size[0] / 2.0 <= wide && it[1] + size[1] / 2.0 <= high || !has_offset;
            size.iter().all(|size| *size >= f64::max(least, 1.0)) && is_inside
        };
        order.retain(|anchor| is_large(moved(*anchor)));
        let is_above = |overlap: f64| overlap > f64::from(threshold);
        let is_over = |a: usize, b: usize| is_above(jaccard(moved(b), moved(a), more));
        // Only in ONNX, boxes less than a pixel apart overlap.
        let wide = |at: usize| {
            let [left, top, right, bottom] = moved(at);
            [left, top, right + more, bottom + more]
        };
        let differs = |a: usize, b: usize| is_above(overlap(wide(a), wide(b))) != is_over(a, b);
        if order.iter().any(|a| order.iter().any(|b| differs(*a, *b))) {
            return None;
        }
        if threshold > 0.0 {
            order = kept(&order, is_over);
            if after > 0 {
                order.truncate(after as usize);
            }
        }
        counts.push(order.len());
        rows.extend(order.iter().map(|anchor| moved(*anchor)));
        found.extend(order.iter().map(|anchor| own[*anchor]));
    }
    // An image without a region has one of zeros, which no export has.
    if counts.contains(&0) {
        return None;
    }
    let total = found.len();
    let inputs = vec![
        ("Scores", list(&ranked, &[images, kinds, height, width])),
        ("BboxDeltas", list(&deltas, &[images, kinds * 4, height, width])),
        ("ImShape", list(&sizes, &[images, 2])),
        ("Anchors", flat(&anchors, &[height, width, kinds, 4])),
        ("Variances", list(&variances, &[height, width, kinds, 4])),
    ];
    let attributes = vec![
        ("pre_nms_topN", AttributeValue::Int(before as i32)),
        ("post_nms_topN", AttributeValue::Int(after as i32)),
        ("nms_thresh", AttributeValue::Float(threshold)),
        ("min_size", AttributeValue::Float(least as f32)),
        ("eta", AttributeValue::Float(eta)),
        ("pixel_offset", AttributeValue::Bool(has_offset)),
    ];
    let expected =
        vec![flat(&rows, &[total, 4]), list(&found, &[total, 1]), int32(&counts, &[images])];
    let outputs = vec!["RpnRois", "RpnRoiProbs", "RpnRoisNum"];
    Some((single("generate_proposals_v2", inputs, attributes, outputs), expected))
}

fn format(random: &mut Random) -> &'static str {
    random.pick(&["corner", "center"])
}

/// Returns boxes of a format as corners.
fn to_corners(boxes: &[Rect], format: &str) -> Vec<Rect> {
    let one = |it: &Rect| match format {
        "corner" => *it,
        _ => {
            let [x, y, width, height] = *it;
            [x - width / 2.0, y - height / 2.0, x + width / 2.0, y + height / 2.0]
        }
    };
    boxes.iter().map(one).collect()
}

/// `bounding_box-inl.h`, `compute_overlap` of MXNet 1.9.1.
fn mxnet_iou(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (many, few) = (random.size(1, 4), random.size(1, 4));
    let (x, y) = (boxes(random, many, 0, true), boxes(random, few, 0, true));
    let format = format(random);
    let pair = |a: &Rect, b: &Rect| {
        let share = overlap(*a, *b);
        if share.is_nan() { 0.0 } else { share }
    };
    let (a, b) = (to_corners(&x, format), to_corners(&y, format));
    let all: Vec<f64> = a.iter().flat_map(|a| b.iter().map(|b| pair(a, b))).collect();
    let (mut left, mut right) = (vec![many], vec![few]);
    if random.flag() {
        left.insert(0, 1);
    }
    if random.size(0, 3) == 0 && few == 1 {
        right.push(1);
    }
    let dims = [left.clone(), right.clone()].concat();
    left.push(4);
    right.push(4);
    let inputs = vec![("lhs", flat(&x, &left)), ("rhs", flat(&y, &right))];
    let single = single("_contrib_box_iou", inputs, vec![("format", text(format))], vec!["output"]);
    Some((single, vec![list(&all, &dims)]))
}

/// `bounding_box-inl.h`, `box_decode` of MXNet 1.9.1.
fn mxnet_decode(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (images, count) = (random.size(1, 3), random.size(1, 4));
    let anchors = boxes(random, count, 1, true);
    let format = format(random);
    let clip = random.pick(&[-1.0, 0.0, 0.25, 2.0]);
    let deviations = [0, 1, 2, 3].map(|_| random.pick(&[0.1, 0.5, 1.0, 2.0]));
    let deltas: Vec<f64> = (0..images * count * 4).map(|_| random.real(-1.0, 1.0)).collect();
    let mut results = Vec::new();
    for (at, delta) in deltas.as_chunks::<4>().0.iter().enumerate() {
        let own = anchors[at % count];
        let (center, size) = match format {
            "corner" => (
                [(own[0] + own[2]) / 2.0, (own[1] + own[3]) / 2.0],
                [own[2] - own[0], own[3] - own[1]],
            ),
            _ => ([own[0], own[1]], [own[2], own[3]]),
        };
        let side = |axis: usize| {
            let middle = delta[axis] * deviations[axis] * size[axis] + center[axis];
            let growth = delta[axis + 2] * deviations[axis + 2];
            let growth = if clip > 0.0 { growth.min(clip) } else { growth };
            let half = growth.exp() * size[axis] / 2.0;
            [middle - half, middle + half]
        };
        let [[left, right], [top, bottom]] = [side(0), side(1)];
        results.push([left, top, right, bottom]);
    }
    let inputs = vec![
        ("data", list(&deltas, &[images, count, 4])),
        ("anchors", flat(&anchors, &[1, count, 4])),
    ];
    let mut attributes = vec![("format", text(format)), ("clip", text(clip))];
    let names = ["std0", "std1", "std2", "std3"];
    attributes.extend(names.into_iter().zip(deviations).map(|(name, it)| (name, text(it))));
    let single = single("_contrib_box_decode", inputs, attributes, vec!["output"]);
    Some((single, vec![flat(&results, &[images, count, 4])]))
}

/// `bounding_box-inl.h`, `box_encode` of MXNet 1.9.1.
fn mxnet_encode(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (images, count, objects) = (random.size(1, 2), random.size(1, 4), random.size(1, 3));
    let anchors = boxes(random, images * count, 1, false);
    let references = boxes(random, images * objects, 1, false);
    let samples: Vec<f64> = (0..images * count).map(|_| random.pick(&[-1.0, 0.0, 1.0])).collect();
    let matches: Vec<usize> = (0..images * count).map(|_| random.size(0, objects - 1)).collect();
    let (means, stds) = ([0.0, 0.1, -0.2, 0.0], [0.1, 0.1, 0.2, 1.0]);
    let (mut targets, mut masks) = (Vec::new(), Vec::new());
    for (at, own) in anchors.iter().enumerate() {
        let to = references[at / count * objects + matches[at]];
        let is_positive = samples[at] > 0.5;
        let code = |axis: usize| {
            let size = own[axis + 2] - own[axis];
            let way = (to[axis] + to[axis + 2] - own[axis] - own[axis + 2]) / 2.0 / size;
            [way, ((to[axis + 2] - to[axis]) / size).ln()]
        };
        let [[x, width], [y, height]] = [code(0), code(1)];
        for (place, it) in [x, y, width, height].into_iter().enumerate() {
            targets.push(if is_positive { (it - means[place]) / stds[place] } else { 0.0 });
            masks.push(if is_positive { 1.0 } else { 0.0 });
        }
    }
    let matches: Vec<f64> = matches.iter().map(|it| *it as f64).collect();
    let inputs = vec![
        ("samples", list(&samples, &[images, count])),
        ("matches", list(&matches, &[images, count])),
        ("anchors", flat(&anchors, &[images, count, 4])),
        ("refs", flat(&references, &[images, objects, 4])),
        ("means", list(&means, &[4])),
        ("stds", list(&stds, &[4])),
    ];
    let dims = [images, count, 4];
    let single = single("_contrib_box_encode", inputs, Vec::new(), vec!["targets", "masks"]);
    Some((single, vec![list(&targets, &dims), list(&masks, &dims)]))
}

/// `bounding_box-inl.h`, `BoxNMSForward` of MXNet 1.9.1.
fn mxnet_nms(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (images, count) = (random.size(1, 2), random.size(1, 6));
    let (id, score, start) = random.pick(&[(0, 1, 2), (5, 4, 0), (0, 5, 1), (-1, 0, 2)]);
    let all = boxes(random, images * count, 0, true);
    let ids: Vec<f64> =
        all.iter().map(|_| random.pick(&[-1.5, -1.0, 0.0, 0.5, 1.0, 2.0])).collect();
    let ranked = scores(random, images * count, true);
    let (from, to) = (format(random), format(random));
    let threshold = random.pick(&[0.0, 0.15, 0.31, 0.47, 0.5, 1.0]);
    let (least, most) = (random.pick(&[-1.0, 0.0, 0.25, 1.0]), random.number(-2, 7));
    let (background, forces) = (random.number(-2, 2), random.flag());
    let row = |at: usize, own: Rect| {
        let mut row = [0.5; 6];
        row[start..start + 4].copy_from_slice(&own);
        row[score as usize] = ranked[at];
        if id >= 0 {
            row[id as usize] = ids[at];
        }
        row
    };
    let given: Vec<[f64; 6]> = all.iter().enumerate().map(|(at, own)| row(at, *own)).collect();
    let corners = to_corners(&all, from);
    let mut results = Vec::new();
    for image in 0..images {
        let own = image * count..(image + 1) * count;
        if most == 0 {
            results.extend_from_slice(&given[own]);
            continue;
        }
        let mut order = order(&ranked[own.clone()]);
        order.iter_mut().for_each(|at| *at += own.start);
        let is_valid = |at: usize| ranked[at] > least && (id < 0 || ids[at] != background as f64);
        order.retain(|at| is_valid(*at));
        order.truncate(if most < 0 { count } else { most as usize });
        let is_over = |a: usize, b: usize| {
            (forces || id < 0 || ids[a].trunc() == ids[b].trunc())
                && overlap(corners[a], corners[b]) > threshold
        };
        let kept = kept(&order, is_over);
        let written = |at: usize| match (from, to) {
            ("corner", "center") => {
                let [left, top, right, bottom] = corners[at];
                [(left + right) / 2.0, (top + bottom) / 2.0, right - left, bottom - top]
            }
            (_, "corner") => corners[at],
            _ => all[at],
        };
        results.extend(kept.iter().map(|at| row(*at, written(*at))));
        results.resize((image + 1) * count, [-1.0; 6]);
    }
    let dims = if images == 1 && random.flag() { vec![count, 6] } else { vec![images, count, 6] };
    let attributes = vec![
        ("overlap_thresh", text(threshold)),
        ("valid_thresh", text(least)),
        ("topk", text(most)),
        ("coord_start", text(start)),
        ("score_index", text(score)),
        ("id_index", text(id)),
        ("background_id", text(background)),
        ("force_suppress", text(if forces { "True" } else { "False" })),
        ("in_format", text(from)),
        ("out_format", text(to)),
    ];
    let inputs = vec![("data", list(given.as_flattened(), &dims))];
    let single = single("_contrib_box_nms", inputs, attributes, vec!["output"]);
    Some((single, vec![list(results.as_flattened(), &dims)]))
}

/// `multibox_detection.cc` of MXNet 1.9.1.
fn mxnet_detection(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (images, classes, count) = (random.size(1, 2), random.size(1, 3), random.size(1, 6));
    let anchors: Vec<Rect> =
        boxes(random, count, 1, false).iter().map(|it| it.map(|at| at / 16.0)).collect();
    let ranked = scores(random, images * classes * count, true);
    let most = if random.flag() { 1.0 } else { 0.0 };
    let deltas: Vec<f64> = (0..images * count * 4).map(|_| random.real(-most, most)).collect();
    let variances = [0.1, 0.1, 0.2, 0.2].map(|it| it * random.pick(&[1.0, 2.0]));
    let (clips, forces) = (random.flag(), random.flag());
    let least = random.pick(&[0.01, 0.25, 0.5, 1.0]);
    let threshold = random.pick(&[-1.0, 0.0, 0.2, 0.5, 1.0, 2.0]);
    let most = random.number(-1, 7);
    let mut results: Vec<[f64; 6]> = Vec::new();
    for image in 0..images {
        let mut rows = Vec::new();
        for at in 0..count {
            let score = |class: usize| ranked[(image * classes + class) * count + at];
            let (mut class, mut best) = (0, -1.0);
            for other in 1..classes {
                if score(other) > best {
                    (class, best) = (other, score(other));
                }
            }
            if class == 0 || best < least {
                continue;
            }
            let delta = &deltas[(image * count + at) * 4..][..4];
            let side = |axis: usize| {
                let own = anchors[at];
                let size = own[axis + 2] - own[axis];
                let center = (own[axis] + own[axis + 2]) / 2.0;
                let center = delta[axis] * variances[axis] * size + center;
                let half = (delta[axis + 2] * variances[axis + 2]).exp() * size / 2.0;
                [center - half, center + half]
                    .map(|end| if clips { end.clamp(0.0, 1.0) } else { end })
            };
            let [[left, right], [top, bottom]] = [side(0), side(1)];
            rows.push([class as f64 - 1.0, best, left, top, right, bottom]);
        }
        if threshold > 0.0 && threshold <= 1.0 {
            let sorted = order(&rows.iter().map(|row| row[1]).collect::<Vec<_>>());
            let part = if most > 0 { sorted.len().min(most as usize) } else { sorted.len() };
            let corners = |at: usize| [rows[at][2], rows[at][3], rows[at][4], rows[at][5]];
            let is_over = |a: usize, b: usize| {
                (forces || rows[a][0] == rows[b][0]) && overlap(corners(a), corners(b)) >= threshold
            };
            let kept = kept(&sorted[..part], is_over);
            let row = |place: usize| {
                let mut row = rows[if place < part { sorted[place] } else { place }];
                if place >= part || !kept.contains(&sorted[place]) {
                    row[0] = -1.0;
                }
                row
            };
            rows = (0..rows.len()).map(row).collect();
        }
        results.extend(rows);
        results.resize((image + 1) * count, [-1.0; 6]);
    }
    let inputs = vec![
        ("cls_prob", list(&ranked, &[images, classes, count])),
        ("loc_pred", list(&deltas, &[images, count * 4])),
        ("anchor", flat(&anchors, &[1, count, 4])),
    ];
    let attributes = vec![
        ("variances", text(format!("{variances:?}").replace('[', "(").replace(']', ")"))),
        ("clip", text(if clips { "True" } else { "False" })),
        ("force_suppress", text(if forces { "True" } else { "False" })),
        ("threshold", text(least)),
        ("nms_threshold", text(threshold)),
        ("nms_topk", text(most)),
    ];
    let single = single("_contrib_MultiBoxDetection", inputs, attributes, vec!["output"]);
    Some((single, vec![list(results.as_flattened(), &[images, count, 6])]))
}

/// `multibox_prior.cc` of MXNet 1.9.1.
fn mxnet_prior(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (height, width) = (random.size(1, 4), random.size(1, 4));
    let some = |random: &mut Random, of: &[f64]| {
        let count = random.size(1, 3);
        (0..count).map(|_| random.pick(of)).collect::<Vec<f64>>()
    };
    let (sizes, ratios) = (some(random, &[0.2, 0.5, 1.0]), some(random, &[1.0, 2.0, 0.5]));
    let clips = random.flag();
    let steps = random.pick(&[[-1.0, -1.0], [0.2, 0.3], [0.5, 0.25]]);
    let offsets = [random.pick(&[0.5, 0.0]), random.pick(&[0.5, 0.25])];
    let step = |given: f64, dim: usize| if given > 0.0 { given } else { 1.0 / dim as f64 };
    let (down, right) = (step(steps[0], height), step(steps[1], width));
    let mut kinds: Vec<(f64, f64)> = sizes.iter().map(|size| (*size, ratios[0])).collect();
    kinds.extend(ratios[1..].iter().map(|ratio| (sizes[0], *ratio)));
    let mut all = Vec::new();
    for (row, column) in (0..height).flat_map(|row| (0..width).map(move |column| (row, column))) {
        let (y, x) = ((row as f64 + offsets[0]) * down, (column as f64 + offsets[1]) * right);
        for (size, ratio) in &kinds {
            let (w, h) = (
                size * height as f64 / width as f64 * ratio.sqrt() / 2.0,
                size / ratio.sqrt() / 2.0,
            );
            let ends = [x - w, y - h, x + w, y + h];
            all.push(ends.map(|end| if clips { end.clamp(0.0, 1.0) } else { end }));
        }
    }
    let dims = [random.size(1, 2), random.size(1, 2), height, width];
    let tuple = |list: &[f64]| text(format!("{list:?}").replace('[', "(").replace(']', ")"));
    let attributes = vec![
        ("sizes", tuple(&sizes)),
        ("ratios", tuple(&ratios)),
        ("steps", tuple(&steps)),
        ("offsets", tuple(&offsets)),
        ("clip", text(if clips { "True" } else { "False" })),
    ];
    let inputs = vec![("data", random.tensor(&dims))];
    let single = single("_contrib_MultiBoxPrior", inputs, attributes, vec!["output"]);
    let expected = flat(&all, &[1, all.len(), 4]);
    Some((Single { is_dynamic: random.flag(), ..single }, vec![expected]))
}

/// `multi_proposal.cc` of MXNet 1.9.1.
fn mxnet_proposal(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (images, height, width) = (random.size(1, 2), random.size(1, 3), random.size(1, 3));
    let (stride, scale, ratio) = (4.0_f64, random.pick(&[1.0, 2.0]), random.pick(&[0.5, 1.0, 2.0]));
    let count = height * width;
    let ranked = scores(random, images * count, false);
    let mut both = vec![0.0; images * 2 * count];
    for image in 0..images {
        both[(image * 2 + 1) * count..][..count].copy_from_slice(&ranked[image * count..][..count]);
    }
    let deltas: Vec<f64> = (0..images * count * 4).map(|_| random.real(-0.5, 0.5)).collect();
    let mut info = Vec::new();
    for _ in 0..images {
        let mut size = |cells: usize| random.number(4, 4 * cells as i64) as f64;
        info.extend([size(height), size(width)]);
        info.push(random.pick(&[1.0, 2.0]));
    }
    let (before, after) = (random.number(1, 9), random.size(1, 5));
    let (threshold, least) = (random.pick(&[0.0, 0.31, 0.7, 1.0]), random.pick(&[0.0, 1.0, 3.0]));
    let is_direct = random.flag();
    let wide = ((stride * stride / ratio).floor().sqrt() + 0.5).floor();
    let (w, h) = (wide * scale, (wide * ratio + 0.5).floor() * scale);
    let center = (stride - 1.0) / 2.0;
    let (w, h) = ((w - 1.0) / 2.0, (h - 1.0) / 2.0);
    let (mut rows, mut found) = (Vec::new(), Vec::new());
    for image in 0..images {
        let [high, wide, scale] = [0, 1, 2].map(|at| info[image * 3 + at]);
        let mut all = Vec::new();
        for cell in 0..count {
            let (x, y) = ((cell % width) as f64 * stride, (cell / width) as f64 * stride);
            let anchor = [center - w + x, center - h + y, center + w + x, center + h + y];
            let delta = [0, 1, 2, 3].map(|at| deltas[(image * 4 + at) * count + cell]);
            let side = |axis: usize, image: f64| {
                let (low, high) = (anchor[axis], anchor[axis + 2]);
                let ends = if is_direct {
                    [low + delta[axis], high + delta[axis + 2]]
                } else {
                    let size = high - low + 1.0;
                    let center = low + (size - 1.0) / 2.0 + delta[axis] * size;
                    let half = (delta[axis + 2].exp() * size - 1.0) / 2.0;
                    [center - half, center + half]
                };
                ends.map(|end| end.min(image - 1.0).max(0.0))
            };
            let ([left, right], [top, bottom]) = (side(0, wide), side(1, high));
            let mut score = ranked[image * count + cell];
            if cell / width >= (high / stride) as usize || cell % width >= (wide / stride) as usize
            {
                score = -1.0;
            }
            let mut own = [left, top, right, bottom];
            let least = least * scale;
            if right - left + 1.0 < least || bottom - top + 1.0 < least {
                let half = least / 2.0;
                own = [left - half, top - half, right + half, bottom + half];
                score = -1.0;
            }
            all.push((own, score));
        }
        let mut order = order(&all.iter().map(|it| it.1).collect::<Vec<_>>());
        order.truncate(before as usize);
        let pixels = |at: usize| {
            let [left, top, right, bottom] = all[at].0;
            [left, top, right + 1.0, bottom + 1.0]
        };
        let mut kept = kept(&order, |a, b| overlap(pixels(a), pixels(b)) > threshold);
        kept.truncate(after);
        for at in 0..after {
            let (own, score) = all[kept[at % kept.len()]];
            rows.push(image as f64);
            rows.extend(own);
            found.push(score);
        }
    }
    let inputs = vec![
        ("cls_prob", list(&both, &[images, 2, height, width])),
        ("bbox_pred", list(&deltas, &[images, 4, height, width])),
        ("im_info", list(&info, &[images, 3])),
    ];
    let attributes = vec![
        ("rpn_pre_nms_top_n", text(before.max(after as i64))),
        ("rpn_post_nms_top_n", text(after)),
        ("threshold", text(threshold)),
        ("rpn_min_size", text(least)),
        ("scales", text(format!("({scale},)"))),
        ("ratios", text(format!("({ratio},)"))),
        ("feature_stride", text(stride as i64)),
        ("output_score", text("True")),
        ("iou_loss", text(if is_direct { "True" } else { "False" })),
    ];
    if before < after as i64 {
        return None;
    }
    let expected = vec![list(&rows, &[images * after, 5]), list(&found, &[images * after, 1])];
    let single = single("_contrib_MultiProposal", inputs, attributes, vec!["output", "score"]);
    Some((Single { is_dynamic: random.size(0, 3) == 0, ..single }, expected))
}

/// `nms_kernel.cpp` of torchvision 0.29: the overlap in single precision is compared with a threshold in double precision.
fn torch_nms(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let count = random.size(0, 7);
    let threshold = random.pick(&[-1.0, 0.0, 0.1, 0.2, 0.3, 0.47, 0.6, 1.0, 2.0]);
    let all = boxes_over(random, count, threshold);
    let ranked = scores(random, count, true);
    let is_over = |a: usize, b: usize| match threshold < 0.0 {
        true => true,
        false => f64::from(overlap(all[a], all[b]) as f32) > threshold,
    };
    let expected = int64(&kept(&order(&ranked), is_over));
    let inputs = vec![("dets", flat(&all, &[count, 4])), ("scores", list(&ranked, &[count]))];
    let attributes = vec![("iou_threshold", AttributeValue::Double(threshold))];
    Some((single("torchvision::nms", inputs, attributes, vec!["output"]), vec![expected]))
}

/// Returns a pixel of a plane, interpolated between those around a place.
fn pixel(plane: &[f64], [rows, columns]: [usize; 2], y: f64, x: f64) -> f64 {
    if y < -1.0 || y > rows as f64 || x < -1.0 || x > columns as f64 {
        return 0.0;
    }
    let along = |at: f64, dim: usize| {
        let at = at.max(0.0).min(dim as f64 - 1.0);
        let low = at.floor() as usize;
        (low, (low + 1).min(dim - 1), at - low as f64)
    };
    let ((top, bottom, down), (left, right, aside)) = (along(y, rows), along(x, columns));
    let row = |row: usize| {
        plane[row * columns + left] * (1.0 - aside) + plane[row * columns + right] * aside
    };
    row(top) * (1.0 - down) + row(bottom) * down
}

/// `roi_align_kernel.cc`, `roi_pool_kernel.cc` and the same of the other frameworks.
fn regions(random: &mut Random, dialect: &str) -> Option<(Single, Vec<Tensor>)> {
    let dims = [random.size(1, 2), random.size(1, 2), random.size(1, 5), random.size(1, 5)];
    let count = random.size(if dialect == "torch" { 0 } else { 1 }, 3);
    let averages = random.flag();
    let (cells, scale) = ([random.size(1, 3), random.size(1, 3)], random.pick(&[0.5, 1.0, 0.25]));
    let (samples, is_aligned) = (random.number(-1, 3), random.flag());
    let x = random.tensor(&dims);
    let values = recorded::elements(&x);
    let has_none = dialect == "mxnet" && random.flag();
    let mut own: Vec<(i64, Rect)> = Vec::new();
    for _ in 0..count {
        let image = random.number(if has_none { -1 } else { 0 }, dims[0] as i64 - 1);
        let ends = [0, 1].map(|_| {
            let begin = random.number(-4, 20);
            [begin, begin + random.number(if averages { 0 } else { -3 }, 16)]
        });
        let [[left, right], [top, bottom]] = ends;
        own.push((image, [left, top, right, bottom].map(|it| it as f64 / 2.0)));
    }
    own.sort_by_key(|it| it.0);
    // PaddlePaddle returns NaN for empty regions without samples, MXNet rejects empty regions, and PyTorch returns 0.
    let is_empty = |it: &(i64, Rect)| it.1[0] == it.1[2] || it.1[1] == it.1[3];
    let accepts = dialect == "torch" || dialect == "paddle" && samples > 0;
    if !accepts && averages && is_aligned && own.iter().any(is_empty) {
        return None;
    }
    let mut results = Vec::new();
    for (image, region) in &own {
        for channel in 0..dims[1] {
            let place = (*image).max(0) as usize * dims[1] + channel;
            let plane = &values[place * dims[2] * dims[3]..][..dims[2] * dims[3]];
            for cell in 0..cells[0] * cells[1] {
                let (row, column) = (cell / cells[1], cell % cells[1]);
                let cell = [row, column];
                results.push(match averages {
                    _ if *image < 0 => 0.0,
                    true => {
                        let shift = if is_aligned { 0.5 } else { 0.0 };
                        let steps = |axis: usize| {
                            let begin = region[1 - axis] * scale - shift;
                            let size = region[3 - axis] * scale - shift - begin;
                            let size = if is_aligned { size } else { size.max(1.0) };
                            let size = size / cells[axis] as f64;
                            let many = if samples > 0 { samples as f64 } else { size.ceil() };
                            let first = begin + cell[axis] as f64 * size;
                            (0..many as usize)
                                .map(move |at| first + (at as f64 + 0.5) * size / many)
                                .collect::<Vec<f64>>()
                        };
                        let (ys, xs) = (steps(0), steps(1));
                        let all = ys.iter().flat_map(|y| xs.iter().map(move |x| (*y, *x)));
                        let sum: f64 =
                            all.map(|(y, x)| pixel(plane, [dims[2], dims[3]], y, x)).sum();
                        sum / (ys.len() * xs.len()).max(1) as f64
                    }
                    false => {
                        let range = |axis: usize| {
                            let begin = (region[1 - axis] * scale).round();
                            let end = (region[3 - axis] * scale).round();
                            let size = (end - begin + 1.0).max(1.0) / cells[axis] as f64;
                            let clip = |at: f64| (at + begin).clamp(0.0, dims[axis + 2] as f64);
                            let at = cell[axis] as f64;
                            clip((at * size).floor()) as usize
                                ..clip(((at + 1.0) * size).ceil()) as usize
                        };
                        let columns = range(1);
                        let all = range(0).flat_map(|row| {
                            columns.clone().map(move |column| row * dims[3] + column)
                        });
                        let best = all.map(|at| plane[at]).fold(f64::NEG_INFINITY, f64::max);
                        if best.is_finite() { best } else { 0.0 }
                    }
                });
            }
        }
    }
    let rows: Vec<f64> =
        own.iter().flat_map(|(image, it)| std::iter::once(*image as f64).chain(*it)).collect();
    let boxes: Vec<Rect> = own.iter().map(|it| it.1).collect();
    let rows = ("rois", list(&rows, &[count, 5]));
    let [high, wide] = cells.map(|it| it as i32);
    let expected = list(&results, &[count, dims[1], cells[0], cells[1]]);
    let single = match dialect {
        "paddle" => {
            let number = |image: usize| own.iter().filter(|it| it.0 == image as i64).count();
            let counts: Vec<usize> = (0..dims[0]).map(number).collect();
            let mut attributes = vec![
                ("pooled_height", AttributeValue::Int(high)),
                ("pooled_width", AttributeValue::Int(wide)),
                ("spatial_scale", AttributeValue::Float(scale as f32)),
            ];
            if averages {
                attributes.push(("sampling_ratio", AttributeValue::Int(samples as i32)));
                attributes.push(("aligned", AttributeValue::Bool(is_aligned)));
            }
            let inputs = vec![
                ("X", x),
                ("ROIs", flat(&boxes, &[count, 4])),
                ("RoisNum", int32(&counts, &[dims[0]])),
            ];
            single(if averages { "roi_align" } else { "roi_pool" }, inputs, attributes, vec!["Out"])
        }
        "mxnet" => {
            let mut attributes = vec![
                ("pooled_size", text(format!("({high}, {wide})"))),
                ("spatial_scale", text(scale)),
            ];
            if averages {
                attributes.push(("sample_ratio", text(samples)));
                attributes.push(("aligned", text(if is_aligned { "True" } else { "False" })));
            }
            let kind = if averages { "_contrib_ROIAlign" } else { "ROIPooling" };
            single(kind, vec![("data", x), rows], attributes, vec!["output"])
        }
        _ => {
            let mut attributes = vec![
                ("pooled_height", AttributeValue::Long(high.into())),
                ("pooled_width", AttributeValue::Long(wide.into())),
                ("spatial_scale", AttributeValue::Double(scale)),
            ];
            if averages {
                attributes.push(("sampling_ratio", AttributeValue::Long(samples)));
                attributes.push(("aligned", AttributeValue::Bool(is_aligned)));
            }
            let kind = if averages { "torchvision::roi_align" } else { "torchvision::roi_pool" };
            single(kind, vec![("input", x), rows], attributes, vec!["output"])
        }
    };
    Some((Single { is_dynamic: random.size(0, 3) == 0, ..single }, vec![expected]))
}

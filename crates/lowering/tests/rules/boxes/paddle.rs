//! PaddlePaddle 2.6.2.

use lodstone_model::{AttributeValue, Tensor};

use super::{
    Draw, Random, Rect, Single, boxes, boxes_over, common, flat, grids, int32, int64, kept, list,
    order, overlap, pyramid, regions, scores, text,
};

pub(super) const DRAWS: &[(&str, Draw)] = &[
    ("iou_similarity", iou),
    ("box_coder", coder),
    ("multiclass_nms", multiclass),
    ("matrix_nms", matrix),
    ("nms", nms),
    ("generate_proposals", proposals),
    ("regions", |random| regions::drawn(random, "paddle")),
    ("prior_box", grids::prior),
    ("density_prior_box", grids::density),
    ("anchor_generator", grids::anchors),
    ("yolo_box", grids::yolo),
    ("box_clip", pyramid::clip),
    ("distribute_fpn_proposals", pyramid::distribute),
    ("collect_fpn_proposals", pyramid::collect),
];

/// Thresholds that no overlap of boxes of small whole numbers has, and those at the ends.
const THRESHOLDS: [f64; 8] = [-1.0, 0.0, 0.15, 0.31, 0.47, 0.77, 1.0, 2.0];

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

/// `iou_similarity_op.h` of 2.6.2.
fn iou(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
        Single::new("iou_similarity", inputs, attributes, vec!["Out"]),
        vec![list(&all, &[many, few])],
    ))
}

/// `box_coder_kernel.cc` of 2.6.2.
fn coder(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
    let single = Single::new("box_coder", inputs, attributes, vec!["OutputBox"]);
    Some((single, vec![flat(&results, &[rows, columns, 4])]))
}

/// The boxes that are found in images: their class, score and corners, their places, and how many each image has.
#[derive(Default)]
struct Detections {
    rows: Vec<f64>,
    places: Vec<usize>,
    counts: Vec<usize>,
}

impl Detections {
    /// Adds the class, the place and the score of boxes of an image, whose first box is at `first`.
    fn add(&mut self, first: usize, boxes: &[Rect], found: &[(usize, usize, f64)]) {
        self.counts.push(found.len());
        for (class, place, score) in found {
            self.rows.extend([*class as f64, *score]);
            self.rows.extend(boxes[*place]);
            self.places.push(first + place);
        }
    }

    fn tensors(&self) -> Vec<Tensor> {
        let found = self.places.len();
        vec![
            list(&self.rows, &[found, 6]),
            int32(&self.places, &[found, 1]),
            int32(&self.counts, &[self.counts.len()]),
        ]
    }
}

/// Returns the boxes whose scores are above the least one, best first; at most `most`, unless that is negative.
fn best(scores: &[f64], least: f64, most: i64) -> Vec<usize> {
    let mut order = order(scores);
    order.retain(|at| scores[*at] > least);
    if most >= 0 {
        order.truncate(most as usize);
    }
    order
}

/// `multiclass_nms3_kernel.cc` of 2.6.2.
fn multiclass(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
    let mut detections = Detections::default();
    for image in 0..images {
        let own = &all[image * count..][..count];
        let mut found = Vec::new();
        for class in (0..classes).filter(|class| *class as i64 != background) {
            let own_scores = &ranked[(image * classes + class) * count..][..count];
            let order = best(own_scores, least, first);
            let is_over = |a: usize, b: usize| jaccard(own[b], own[a], more) > f64::from(threshold);
            found.extend(kept(&order, is_over).iter().map(|at| (class, *at, own_scores[*at])));
        }
        if most >= 0 && found.len() > most as usize {
            let all: Vec<f64> = found.iter().map(|it| it.2).collect();
            let mut best = order(&all)[..most as usize].to_vec();
            best.sort_unstable();
            found = best.iter().map(|at| found[*at]).collect();
        }
        detections.add(image * count, own, &found);
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
    let is_dynamic = random.size(0, 3) == 0;
    let single = Single::new("multiclass_nms3", inputs, attributes, outputs);
    Some((Single { is_dynamic, ..single }, detections.tensors()))
}

/// `matrix_nms_kernel.cc` of 2.6.2.
fn matrix(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
    let mut detections = Detections::default();
    for image in 0..images {
        let own = &all[image * count..][..count];
        let mut found = Vec::new();
        for class in (0..classes).filter(|class| *class as i64 != background) {
            let own_scores = &ranked[(image * classes + class) * count..][..count];
            let order = best(own_scores, least, first.into());
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
        let found: Vec<_> = best.iter().map(|at| found[*at]).collect();
        detections.add(image * count, own, &found);
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
    let single = Single::new("matrix_nms", inputs, attributes, vec!["Out", "Index", "RoisNum"]);
    Some((Single { is_dynamic: random.size(0, 3) == 0, ..single }, detections.tensors()))
}

/// `nms_kernel.cc` of 2.6.2.
fn nms(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
    Some((Single::new("nms", inputs, attributes, vec!["KeepBoxesIdxs"]), vec![expected]))
}

/// `generate_proposals_kernel.cc` of 2.6.2.
fn proposals(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
    Some((Single::new("generate_proposals_v2", inputs, attributes, outputs), expected))
}

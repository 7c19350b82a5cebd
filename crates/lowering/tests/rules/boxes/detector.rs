//! Caffe2 of PyTorch 1.9.1: regions that a detector proposes, and boxes of classes that it finds.

use lodstone_model::{AttributeValue, Tensor};

use super::{Random, Rect, Single, boxes, flat, int32, kept, list, order, scores, text};

/// Thresholds that no overlap of boxes of small whole numbers has, and those at the ends.
const THRESHOLDS: [f64; 7] = [-1.0, 0.0, 0.15, 0.31, 0.47, 0.77, 1.0];

/// Whether the overlap is not at most a threshold: that of two boxes without area is NaN
/// (`generate_proposals_op_util_nms.h`, `nms_cpu_upright`).
fn is_over(a: Rect, b: Rect, more: f64, threshold: f64) -> bool {
    let area = |it: Rect| (it[2] - it[0] + more) * (it[3] - it[1] + more);
    let side = |axis: usize| (a[axis + 2].min(b[axis + 2]) - a[axis].max(b[axis]) + more).max(0.0);
    let shared = side(0) * side(1);
    let overlap = shared / (area(a) + area(b) - shared);
    overlap.is_nan() || overlap > threshold
}

fn flag(is: bool) -> AttributeValue {
    AttributeValue::Long(is.into())
}

/// `generate_proposals_op.cc`.
pub(super) fn proposals(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (images, kinds) = (random.size(1, 3), random.size(1, 3));
    let (height, width) = (random.size(1, 3), random.size(1, 3));
    let cells = height * width;
    let count = kinds * cells;
    let ranked: Vec<f64> =
        scores(random, images * count, false).iter().map(|it| it - 0.5).collect();
    let deltas: Vec<f64> = (0..images * count * 4).map(|_| random.real(-1.0, 1.0)).collect();
    let anchors = boxes(random, kinds, 1, false).iter().map(|it| it.map(|at| at - 4.0)).collect();
    let anchors: Vec<Rect> = anchors;
    let infos: Vec<[f64; 3]> = (0..images)
        .map(|_| [random.real(1.0, 14.0), random.real(1.0, 14.0), random.pick(&[1.0, 2.0, 0.5])])
        .map(|it| it.map(|at| f64::from(at as f32)))
        .collect();
    let scale = random.pick(&[1.0, 0.5, 0.25]);
    let has_pixel = random.flag();
    let more = if has_pixel { 1.0 } else { 0.0 };
    let threshold = f64::from(random.pick(&THRESHOLDS) as f32);
    let (before, after) = (random.number(-1, 8), random.number(-1, 5));
    let least = random.pick(&[0.0, 1.0, 2.5]);
    let (mut rows, mut found) = (Vec::new(), Vec::new());
    for (image, [high, wide, size]) in infos.iter().enumerate() {
        let own = &ranked[image * count..][..count];
        let mut order = order(own);
        if before > 0 {
            order.truncate(before as usize);
        }
        let moved = |at: usize| {
            let (kind, cell) = (at / cells, at % cells);
            let delta =
                |number: usize| deltas[((image * kinds + kind) * 4 + number) * cells + cell];
            let side = |axis: usize, last: f64| {
                let place = if axis == 0 { cell % width } else { cell / width };
                let [begin, end] =
                    [axis, axis + 2].map(|it| anchors[kind][it] + place as f64 / scale);
                let side = end - begin + more;
                let center = begin + side / 2.0 + delta(axis) * side;
                let half = delta(axis + 2).exp() * side / 2.0;
                [center - half, center + half - more]
                    .map(|end| end.min(last.floor() - more).max(0.0))
            };
            let [[left, right], [top, bottom]] = [side(0, *wide), side(1, *high)];
            [left, top, right, bottom]
        };
        let moved: Vec<Rect> = (0..count).map(moved).collect();
        let sides = |at: usize| [0, 1].map(|axis| moved[at][axis + 2] - moved[at][axis] + more);
        // Rounded, a side may have the least size.
        let is_close = |side: f64| side != least * size && (side - least * size).abs() < 1e-5;
        if order.iter().any(|at| sides(*at).into_iter().any(is_close)) {
            return None;
        }
        order.retain(|at| {
            let is_inside = |axis: usize, image: f64| {
                let side = sides(*at)[axis];
                side >= least * size && moved[*at][axis] + side / 2.0 < image
            };
            is_inside(0, *wide) && is_inside(1, *high)
        });
        let mut best = kept(&order, |a, b| is_over(moved[a], moved[b], more, threshold));
        if after > 0 {
            best.truncate(after as usize);
        }
        for at in best {
            rows.push(image as f64);
            rows.extend(moved[at]);
            found.push(own[at]);
        }
    }
    let inputs = vec![
        ("", list(&ranked, &[images, kinds, height, width])),
        ("", list(&deltas, &[images, kinds * 4, height, width])),
        ("", list(infos.as_flattened(), &[images, 3])),
        ("", flat(&anchors, &[kinds, 4])),
    ];
    let attributes = vec![
        ("spatial_scale", AttributeValue::Float(scale as f32)),
        ("pre_nms_topN", AttributeValue::Long(before)),
        ("post_nms_topN", AttributeValue::Long(after)),
        ("nms_thresh", AttributeValue::Float(threshold as f32)),
        ("min_size", AttributeValue::Float(least as f32)),
        ("legacy_plus_one", flag(has_pixel)),
    ];
    let expected = vec![list(&rows, &[found.len(), 5]), list(&found, &[found.len()])];
    let kind = random.pick(&["GenerateProposals", "GenerateProposalsCPP"]);
    let single = Single::new(kind, inputs, attributes, vec!["", ""]);
    Some((Single { is_dynamic: random.size(0, 3) == 0, ..single }, expected))
}

/// `soft_nms_cpu_upright` of `generate_proposals_op_util_nms.h`: the best box of those that are left lowers the scores of the
/// others. Returns boxes and scores by falling score.
fn softened(
    rects: &[Rect],
    scores: &[f64],
    mut left: Vec<usize>,
    (more, threshold, sigma, least): (f64, f64, Option<f64>, f64),
) -> Vec<(usize, f64)> {
    let area = |it: Rect| (it[2] - it[0] + more) * (it[3] - it[1] + more);
    let (mut scores, mut found) = (scores.to_vec(), Vec::new());
    while let Some(best) = left.iter().copied().max_by(|a, b| scores[*a].total_cmp(&scores[*b])) {
        found.push((best, scores[best]));
        left.retain(|at| *at != best);
        for at in &left {
            let (a, b) = (rects[best], rects[*at]);
            let side =
                |axis: usize| (a[axis + 2].min(b[axis + 2]) - a[axis].max(b[axis]) + more).max(0.0);
            let shared = side(0) * side(1);
            let overlap = shared / (area(a) + area(b) - shared);
            scores[*at] *= match sigma {
                Some(sigma) => (-overlap * overlap / sigma).exp(),
                None if overlap > threshold => 1.0 - overlap,
                None => 1.0,
            };
        }
        // The overlap of two empty boxes is NaN.
        left.retain(|at| scores[*at] >= least);
    }
    found
}

/// `box_with_nms_limit_op.cc`.
pub(super) fn limited(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (count, classes) = (random.size(0, 7), random.size(2, 4));
    let has_splits = random.flag();
    let images = if has_splits { random.size(1, 3) } else { 1 };
    let splits = random.sizes_of(count, images);
    let (is_shared, has_background) = (random.flag(), random.flag());
    let (names_background, has_pixel) = (random.flag(), random.flag());
    let more = if has_pixel { 1.0 } else { 0.0 };
    let sets = match (is_shared, has_background) {
        (true, _) => 1,
        (false, true) => classes,
        (false, false) => classes - 1,
    };
    let all = boxes(random, count * sets, 0, false);
    let ranked = scores(random, count * classes, false);
    let threshold = f64::from(random.pick(&THRESHOLDS) as f32);
    let (least, most) = (random.pick(&[-1.0, 0.05, 0.5, 2.0]), random.number(-1, 5));
    let is_gaussian = random.flag();
    let sigma = is_gaussian.then(|| random.pick(&[0.3, 0.5, 2.0]));
    let soft = (random.size(0, 2) == 0).then(|| (sigma, random.pick(&[0.001, 0.11, 0.37])));
    let (mut found_scores, mut found_boxes, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    let (mut counts, mut places, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    let mut first = 0;
    for rows in &splits {
        let score = |row: usize, class: usize| {
            ranked[(first + row) * classes + class - usize::from(!has_background)]
        };
        let rect = |row: usize, class: usize| {
            let class = if is_shared { 0 } else { class - usize::from(!has_background) };
            all[(first + row) * sets + class]
        };
        let mut found = Vec::new();
        for class in 1..classes {
            let own: Vec<f64> = (0..*rows).map(|row| score(row, class)).collect();
            let mut order = order(&own);
            order.retain(|row| own[*row] > least);
            if let Some((sigma, least)) = soft {
                let rects: Vec<Rect> = (0..*rows).map(|row| rect(row, class)).collect();
                let how = (more, threshold, sigma, least);
                let left = softened(&rects, &own, order, how);
                found.extend(left.iter().map(|(row, score)| (class, *row, *score)));
                continue;
            }
            let is_over =
                |a: usize, b: usize| is_over(rect(a, class), rect(b, class), more, threshold);
            found.extend(kept(&order, is_over).iter().map(|row| (class, *row, own[*row])));
        }
        if most > 0 && found.len() > most as usize {
            let all: Vec<f64> = found.iter().map(|it| it.2).collect();
            let mut best = order(&all)[..most as usize].to_vec();
            best.sort_unstable();
            found = best.iter().map(|at| found[*at]).collect();
        }
        counts.push(found.len() as f64);
        sizes.extend((0..classes).map(|class| found.iter().filter(|it| it.0 == class).count()));
        for (class, row, score) in found {
            found_scores.push(score);
            found_boxes.push(rect(row, class));
            labels.push(class as f64 - if names_background { 0.0 } else { 1.0 });
            places.push(row);
        }
        first += rows;
    }
    let dims = |columns: usize, ends: bool| match ends {
        true => vec![count, columns, 1, 1],
        false => vec![count, columns],
    };
    let ends = random.size(0, 3) == 0;
    let mut inputs =
        vec![("", list(&ranked, &dims(classes, ends))), ("", flat(&all, &dims(sets * 4, ends)))];
    if has_splits {
        inputs.push((
            "",
            match random.flag() {
                true => int32(&splits, &[images]),
                false => list(&splits.iter().map(|it| *it as f64).collect::<Vec<_>>(), &[images]),
            },
        ));
    }
    let mut attributes = vec![
        ("score_thresh", AttributeValue::Float(least as f32)),
        ("nms", AttributeValue::Float(threshold as f32)),
        ("detections_per_im", AttributeValue::Long(most)),
        ("cls_agnostic_bbox_reg", flag(is_shared)),
        ("input_boxes_include_bg_cls", flag(has_background)),
        ("output_classes_include_bg_cls", flag(names_background)),
        ("legacy_plus_one", flag(has_pixel)),
    ];
    if let Some((sigma, least)) = soft {
        attributes.push(("soft_nms_enabled", flag(true)));
        attributes.push(("soft_nms_min_score_thres", AttributeValue::Float(least as f32)));
        let method = if sigma.is_some() { "gaussian" } else { "linear" };
        attributes.push(("soft_nms_method", text(method)));
        attributes
            .extend(sigma.map(|sigma| ("soft_nms_sigma", AttributeValue::Float(sigma as f32))));
    }
    let total = labels.len();
    let mut expected = vec![
        list(&found_scores, &[total]),
        flat(&found_boxes, &[total, 4]),
        list(&labels, &[total]),
        list(&counts, &[images]),
        int32(&places, &[total]),
        int32(&sizes, &[images, classes]),
    ];
    expected.truncate(random.pick(&[3, 4, 6]));
    let outputs = vec![""; expected.len()];
    Some((Single::new("BoxWithNMSLimit", inputs, attributes, outputs), expected))
}

/// `collect_and_distribute_fpn_rpn_proposals_op.cc`: in single precision.
pub(super) fn distributed(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let collects = random.flag();
    let levels = if collects { random.size(1, 3) } else { 1 };
    let counts: Vec<usize> = (0..levels).map(|_| random.size(0, 5)).collect();
    let total = counts.iter().sum();
    let (least, canonical) = (random.number(1, 3), random.number(1, 5));
    let most = least + random.number(0, 3);
    let (scale, has_pixel) = (random.pick(&[8, 56, 224]), random.flag());
    let more = if has_pixel { 1.0 } else { 0.0 };
    let has_image = collects || random.flag();
    let times: Vec<f64> = (0..total).map(|_| 2.0_f64.powi(random.number(0, 6) as i32)).collect();
    let rois: Vec<[f64; 5]> = boxes(random, total, 0, false)
        .iter()
        .zip(&times)
        .map(|([left, top, right, bottom], times)| {
            let image = if has_image { random.number(0, 3) as f64 } else { 0.0 };
            [image, *left, *top, left + (right - left) * times, top + (bottom - top) * times]
        })
        .collect();
    // Equal scores are in their order.
    let ranked = scores(random, total, true);
    let limit = random.number(-1, 8);
    let mut best: Vec<usize> = (0..total).collect();
    if collects {
        best = order(&ranked);
        best.truncate(if limit > 0 { limit as usize } else { total });
    }
    let level = |it: &[f64; 5]| {
        let area = (it[3] - it[1] + more) * (it[4] - it[2] + more);
        let size = (area as f32).sqrt() / scale as f32 + 1e-6;
        let level = (size.ln() / std::f32::consts::LN_2 + canonical as f32).floor();
        // The level of an area of 0 is far below.
        (level as i64).clamp(least, most)
    };
    let mut expected = Vec::new();
    let tensor = |own: &[usize]| {
        let rows: Vec<f64> = own.iter().flat_map(|at| rois[*at]).collect();
        list(&rows, &[own.len(), 5])
    };
    if collects {
        expected.push(tensor(&best));
    }
    let mut places = Vec::new();
    for wanted in least..=most {
        let own: Vec<usize> =
            best.iter().copied().filter(|at| level(&rois[*at]) == wanted).collect();
        expected.push(tensor(&own));
        places.extend(own);
    }
    let restored: Vec<usize> =
        best.iter().map(|at| places.iter().position(|place| place == at).unwrap()).collect();
    expected.push(int32(&restored, &[restored.len()]));
    let mut attributes = vec![
        ("roi_min_level", AttributeValue::Long(least)),
        ("roi_max_level", AttributeValue::Long(most)),
        ("roi_canonical_level", AttributeValue::Long(canonical)),
        ("roi_canonical_scale", AttributeValue::Long(scale)),
        ("legacy_plus_one", flag(has_pixel)),
    ];
    let outputs = vec![""; expected.len()];
    if !collects {
        let rows: Vec<f64> =
            rois.iter().flat_map(|row| row[usize::from(!has_image)..].to_vec()).collect();
        let inputs = vec![("", list(&rows, &[total, if has_image { 5 } else { 4 }]))];
        return Some((
            Single::new("DistributeFpnProposals", inputs, attributes, outputs),
            expected,
        ));
    }
    attributes.extend([
        ("rpn_min_level", AttributeValue::Long(2)),
        ("rpn_max_level", AttributeValue::Long(1 + levels as i64)),
        ("rpn_post_nms_topN", AttributeValue::Long(limit)),
    ]);
    let (mut parts, mut lists, mut first) = (Vec::new(), Vec::new(), 0);
    for count in counts {
        let (own, ranked) = (&rois[first..first + count], &ranked[first..first + count]);
        parts.push(("", list(own.as_flattened(), &[count, 5])));
        lists.push(("", list(ranked, &[count])));
        first += count;
    }
    parts.extend(lists);
    let (kind, count) = match random.flag() {
        true => ("CollectAndDistributeFpnRpnProposals", expected.len()),
        false => ("CollectRpnProposals", 1),
    };
    expected.truncate(count);
    if count == 1 {
        attributes.retain(|(name, _)| name.starts_with("rpn"));
    }
    let outputs = outputs[..count].to_vec();
    Some((Single::new(kind, parts, attributes, outputs), expected))
}

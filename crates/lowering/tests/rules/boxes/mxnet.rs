//! MXNet 1.9.1.

use lodstone_model::Tensor;

use super::{
    Draw, Random, Rect, Single, boxes, flat, kept, list, order, overlap, regions, scores, text,
};

pub(super) const DRAWS: &[(&str, Draw)] = &[
    ("box_iou", iou),
    ("box_decode", decode),
    ("box_encode", encode),
    ("box_nms", nms),
    ("MultiBoxDetection", detection),
    ("MultiBoxPrior", prior),
    ("Proposal", proposal),
    ("regions", |random| regions::drawn(random, "mxnet")),
];

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
fn iou(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
    let single =
        Single::new("_contrib_box_iou", inputs, vec![("format", text(format))], vec!["output"]);
    Some((single, vec![list(&all, &dims)]))
}

/// `bounding_box-inl.h`, `box_decode` of MXNet 1.9.1.
fn decode(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
    let single = Single::new("_contrib_box_decode", inputs, attributes, vec!["output"]);
    Some((single, vec![flat(&results, &[images, count, 4])]))
}

/// `bounding_box-inl.h`, `box_encode` of MXNet 1.9.1.
fn encode(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
    let single = Single::new("_contrib_box_encode", inputs, Vec::new(), vec!["targets", "masks"]);
    Some((single, vec![list(&targets, &dims), list(&masks, &dims)]))
}

/// `bounding_box-inl.h`, `BoxNMSForward` of MXNet 1.9.1.
fn nms(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
    let single = Single::new("_contrib_box_nms", inputs, attributes, vec!["output"]);
    Some((single, vec![list(results.as_flattened(), &dims)]))
}

/// `multibox_detection.cc` of MXNet 1.9.1.
fn detection(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
    let single = Single::new("_contrib_MultiBoxDetection", inputs, attributes, vec!["output"]);
    Some((single, vec![list(results.as_flattened(), &[images, count, 6])]))
}

/// `multibox_prior.cc` of MXNet 1.9.1.
fn prior(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
    let single = Single::new("_contrib_MultiBoxPrior", inputs, attributes, vec!["output"]);
    let expected = flat(&all, &[1, all.len(), 4]);
    Some((Single { is_dynamic: random.flag(), ..single }, vec![expected]))
}

/// `multi_proposal.cc` of MXNet 1.9.1.
fn proposal(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
    let single = Single::new("_contrib_MultiProposal", inputs, attributes, vec!["output", "score"]);
    Some((Single { is_dynamic: random.size(0, 3) == 0, ..single }, expected))
}

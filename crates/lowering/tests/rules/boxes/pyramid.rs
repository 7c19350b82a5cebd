//! PaddlePaddle 2.6.2: regions of several images, and of the levels of a pyramid.

use lodstone_model::{AttributeValue, Lod, Tensor};

use super::{Random, Rect, Single, boxes, flat, int32, list, order, scores};

/// Returns where the rows of each image end, given how many each has.
fn offsets(counts: &[usize]) -> Lod {
    let ends = counts.iter().scan(0, |end, count| {
        *end += *count as u64;
        Some(*end)
    });
    Lod(vec![std::iter::once(0).chain(ends).collect()])
}

/// Returns the image of each row.
fn images_of(counts: &[usize]) -> Vec<usize> {
    let image = |(image, count): (usize, &usize)| vec![image; *count];
    counts.iter().enumerate().flat_map(image).collect()
}

/// `box_clip_op.h`: the sizes of images are those before they were scaled, in whole pixels.
pub(super) fn clip(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let images = random.size(1, 3);
    let counts: Vec<usize> = (0..images).map(|_| random.size(1, 3)).collect();
    let (total, each) = (counts.iter().sum(), random.size(1, 2));
    let given: Vec<Rect> =
        (0..total * each).map(|_| [0; 4].map(|_: i32| random.real(-5.0, 20.0))).collect();
    let infos: Vec<[f64; 3]> = (0..images)
        .map(|_| [random.real(1.0, 30.0), random.real(1.0, 30.0), random.pick(&[1.0, 2.0, 0.5])])
        .collect();
    let image = images_of(&counts);
    let clipped = |(at, it): (usize, &Rect)| {
        let [height, width, scale] = infos[image[at / each]].map(|it| f64::from(it as f32));
        let [high, wide] = [height, width].map(|size| (size / scale).round() - 1.0);
        let [left, top, right, bottom] = *it;
        let inside = |end: f64, last: f64| end.min(last).max(0.0);
        [inside(left, wide), inside(top, high), inside(right, wide), inside(bottom, high)]
    };
    let results: Vec<Rect> = given.iter().enumerate().map(clipped).collect();
    let dims = if random.flag() && each == 1 { vec![total, 4] } else { vec![total, each, 4] };
    let mut x = flat(&given, &dims);
    x.lod = offsets(&counts);
    let inputs = vec![("Input", x), ("ImInfo", list(infos.as_flattened(), &[images, 3]))];
    let single = Single::new("box_clip", inputs, Vec::new(), vec!["Output"]);
    Some((single, vec![flat(&results, &dims)]))
}

/// `distribute_fpn_proposals_kernel.cc`: in single precision.
pub(super) fn distribute(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let images = random.size(1, 3);
    let counts: Vec<usize> = (0..images).map(|_| random.size(1, 4)).collect();
    let total = counts.iter().sum();
    let least = random.number(1, 3);
    let (most, refer) = (least + random.number(0, 3), random.number(1, 5));
    let (scale, has_offset) = (random.pick(&[8, 56, 224]), random.flag());
    let more = if has_offset { 1.0 } else { 0.0 };
    let power = |random: &mut Random| 2.0_f64.powi(random.number(0, 5) as i32);
    let rois: Vec<Rect> = boxes(random, total, 0, true)
        .iter()
        .map(|[left, top, right, bottom]| {
            let times = power(random);
            [*left, *top, left + (right - left) * times, top + (bottom - top) * times]
        })
        .collect();
    let level = |it: &Rect| {
        let sides = [it[2] - it[0], it[3] - it[1]];
        let is_none = sides.iter().any(|side| *side < 0.0);
        let area = if is_none { 0.0 } else { (sides[0] + more) * (sides[1] + more) };
        let size = (area as f32).sqrt() / scale as f32 + 1e-6;
        // The level of an area of 0 is far below.
        let level = (f64::from(size).log2() as f32 + refer as f32).floor() as i64;
        level.clamp(least, most)
    };
    let (image, levels): (_, Vec<i64>) = (images_of(&counts), rois.iter().map(level).collect());
    let (mut parts, mut numbers, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for level in least..=most {
        let own: Vec<usize> = (0..total).filter(|at| levels[*at] == level).collect();
        let of = |image_of: usize| own.iter().filter(|at| image[**at] == image_of).count();
        numbers.push(int32(&(0..images).map(of).collect::<Vec<_>>(), &[images]));
        let rects: Vec<Rect> = own.iter().map(|at| rois[*at]).collect();
        parts.push(flat(&rects, &[own.len(), 4]));
        places.extend(own);
    }
    let restored: Vec<usize> =
        (0..total).map(|at| places.iter().position(|place| *place == at).unwrap()).collect();
    let count = parts.len();
    let attributes = vec![
        ("min_level", AttributeValue::Int(least as i32)),
        ("max_level", AttributeValue::Int(most as i32)),
        ("refer_level", AttributeValue::Int(refer as i32)),
        ("refer_scale", AttributeValue::Int(scale)),
        ("pixel_offset", AttributeValue::Bool(has_offset)),
    ];
    let inputs =
        vec![("FpnRois", flat(&rois, &[total, 4])), ("RoisNum", int32(&counts, &[images]))];
    let outputs =
        [vec!["MultiFpnRois"; count], vec!["MultiLevelRoIsNum"; count], vec!["RestoreIndex"]];
    let expected = [parts, numbers, vec![int32(&restored, &[total, 1])]].concat();
    let kind = "distribute_fpn_proposals";
    Some((Single::new(kind, inputs, attributes, outputs.concat()), expected))
}

/// `collect_fpn_proposals_op.h`: the best regions of all levels, by image and then by score. An image without any has none
/// here; the kernel does not write that number.
pub(super) fn collect(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (images, levels) = (random.size(1, 3), random.size(1, 3));
    let (mut inputs, mut rows) = ([Vec::new(), Vec::new(), Vec::new()], Vec::new());
    // The order of equal scores is not specified.
    let mut unused = scores(random, images * levels * 3, false);
    for _ in 0..levels {
        let counts: Vec<usize> = (0..images).map(|_| random.size(0, 3)).collect();
        let total = counts.iter().sum();
        let (rois, ranked) =
            (boxes(random, total, 0, false), unused.split_off(unused.len() - total));
        let own = images_of(&counts).into_iter().zip(rois.clone()).zip(ranked.clone());
        rows.extend(own);
        inputs[0].push(("MultiLevelRois", flat(&rois, &[total, 4])));
        inputs[1].push(("MultiLevelScores", list(&ranked, &[total, 1])));
        inputs[2].push(("MultiLevelRoIsNum", int32(&counts, &[images])));
    }
    let most = random.size(0, 8);
    let mut best = order(&rows.iter().map(|it| it.1).collect::<Vec<f64>>());
    best.truncate(most);
    best.sort_by_key(|at| rows[*at].0.0);
    let rects: Vec<Rect> = best.iter().map(|at| rows[*at].0.1).collect();
    let of = |image: usize| best.iter().filter(|at| rows[**at].0.0 == image).count();
    let counts: Vec<usize> = (0..images).map(of).collect();
    let attributes = vec![("post_nms_topN", AttributeValue::Int(most as i32))];
    let expected = vec![flat(&rects, &[best.len(), 4]), int32(&counts, &[images])];
    let outputs = vec!["FpnRois", "RoisNum"];
    Some((Single::new("collect_fpn_proposals", inputs.concat(), attributes, outputs), expected))
}

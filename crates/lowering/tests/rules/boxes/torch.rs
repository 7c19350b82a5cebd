//! torchvision 0.29.

use lodstone_model::{AttributeValue, Tensor};

use super::{
    Draw, Random, Single, boxes_over, flat, int64, kept, list, order, overlap, regions, scores,
};

pub(super) const DRAWS: &[(&str, Draw)] =
    &[("nms", nms), ("regions", |random| regions::drawn(random, "torch"))];

/// `nms_kernel.cpp` of torchvision 0.29: the overlap in single precision is compared with a threshold in double precision.
fn nms(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
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
    Some((Single::new("torchvision::nms", inputs, attributes, vec!["output"]), vec![expected]))
}

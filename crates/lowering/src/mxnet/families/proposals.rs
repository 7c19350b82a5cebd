//! Proposals of a region proposal network: the best boxes of anchors, without those that overlap better ones.

use lodstone_schema::numbers::length;

use super::normalize::single;
use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, product, rank, required_dim};
use crate::onnx::Value;

use super::spatial::image_size;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("_contrib_MultiProposal", Rule::Many(proposals)),
    ("_contrib_Proposal", Rule::Many(proposals)),
];

/// The maximum number of images of a batch: each becomes operators.
const MAX_IMAGES: i64 = 256;

/// The attributes of a network.
struct Proposals {
    before: i64,
    after: i64,
    overlap: f32,
    least: f64,
    stride: i64,
    anchors: Vec<[f32; 4]>,
    has_scores: bool,
    is_direct: bool,
}

impl Proposals {
    fn of(node: &Node<'_>) -> Outcome<Self> {
        let attributes = &node.attributes;
        let scales = attributes.floats("scales", &[4.0, 8.0, 16.0, 32.0])?;
        let ratios = attributes.floats("ratios", &[0.5, 1.0, 2.0])?;
        let stride = attributes.int("feature_stride", 16)?;
        let after = attributes.int("rpn_post_nms_top_n", 300)?;
        let overlap = attributes.float("threshold", 0.7)?;
        if !(1..=1 << 16).contains(&stride) || !(1..=1 << 20).contains(&after) {
            let found = format!("{stride} and {after}");
            return Err(wrong(
                "feature_stride` and `rpn_post_nms_top_n",
                "positive numbers",
                &found,
            ));
        }
        if !(0.0..=1.0).contains(&overlap) || ratios.iter().any(|ratio| *ratio <= 0.0) {
            return Err(wrong(
                "threshold",
                "a number between 0 and 1, and positive ratios",
                &overlap.to_string(),
            ));
        }
        Ok(Self {
            before: attributes.int("rpn_pre_nms_top_n", 6000)?,
            after,
            overlap: single(overlap),
            least: attributes.float("rpn_min_size", 16.0)?,
            stride,
            anchors: anchors(stride, &scales, &ratios),
            has_scores: attributes.flag("output_score", false)?,
            is_direct: attributes.flag("iou_loss", false)?,
        })
    }
}

/// Returns the anchors of the first cell, by ratio and scale.
fn anchors(stride: i64, scales: &[f64], ratios: &[f64]) -> Vec<[f32; 4]> {
    #[expect(clippy::cast_precision_loss, reason = "strides are small")]
    let size = stride as f32;
    let center = 0.5 * (size - 1.0);
    let of = |ratio: f32, scale: f32| {
        let area = (size * size / ratio).floor();
        let width = (area.sqrt() + 0.5).floor();
        let (wide, high) = (width * scale, (width * ratio + 0.5).floor() * scale);
        let (x, y) = (0.5 * (wide - 1.0), 0.5 * (high - 1.0));
        [center - x, center - y, center + x, center + y]
    };
    let each = |ratio: &f64| {
        scales.iter().map(|scale| of(single(*ratio), single(*scale))).collect::<Vec<_>>()
    };
    ratios.iter().flat_map(each).collect()
}

fn proposals(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [scores, offsets, info] = node.exactly()?;
    let how = Proposals::of(node)?;
    let (height, width) = image_size(&scores)?;
    let count = length(how.anchors.len());
    let images = required_dim(&scores, 0)?;
    if !(1..=MAX_IMAGES).contains(&images) || rank(&info)? != 2 {
        return Err(format!("{images} images are not supported").into());
    }
    if required_dim(&scores, 1)? != count.saturating_mul(2)
        || product(&[height, width, count])? > 1 << 24
    {
        return Err(format!("expected scores of {count} anchors and the background").into());
    }
    let scores = node.slice(&scores, 1, count, 2 * count)?;
    // [batch, height, width, anchors]
    let scores = node.transpose(&scores, &[0, 2, 3, 1])?;
    let boxes = boxes(node, &how, &offsets, (height, width))?;
    let (mut rows, mut found) = (Vec::new(), Vec::new());
    for image in 0..images {
        let pick = |node: &mut Node<'_>, x: &Value| node.slice(x, 0, image, image + 1);
        let (scores, boxes, info) = (pick(node, &scores)?, pick(node, &boxes)?, pick(node, &info)?);
        let [boxes, scores] = limited(node, &how, &boxes, &scores, &info)?;
        let [boxes, scores] = best(node, &how, &boxes, &scores)?;
        #[expect(clippy::cast_precision_loss, reason = "batches are small")]
        let number = node.filled(boxes.dtype(), image as f64, &[how.after, 1])?;
        rows.push(node.concat(&[&number, &boxes], 1)?);
        found.push(scores);
    }
    let mut results = vec![node.concat(&rows.iter().collect::<Vec<_>>(), 0)?];
    if how.has_scores {
        let all = node.concat(&found.iter().collect::<Vec<_>>(), 0)?;
        results.push(all);
    }
    Ok(results)
}

/// Boxes of all anchors: `[batch, height, width, anchors, 4]`.
fn boxes(
    node: &mut Node<'_>,
    how: &Proposals,
    offsets: &Value,
    (height, width): (i64, i64),
) -> Outcome {
    let count = length(how.anchors.len());
    let mut all = Vec::new();
    for row in 0..height {
        for column in 0..width {
            #[expect(clippy::cast_precision_loss, reason = "images are small")]
            let (x, y) = ((column * how.stride) as f32, (row * how.stride) as f32);
            all.extend(
                how.anchors.iter().flat_map(|it| [it[0] + x, it[1] + y, it[2] + x, it[3] + y]),
            );
        }
    }
    let dims = [height, width, count, 4].map(i64::unsigned_abs);
    let anchors = node.floats(&all, &dims);
    let anchors = node.corners(&anchors)?;
    let offsets = node.recoded(offsets, &[0, -4, count, 4, 0, 0])?;
    let offsets = node.transpose(&offsets, &[0, 3, 4, 1, 2])?;
    let offsets = node.corners(&offsets)?;
    if how.is_direct {
        let mut moved = Vec::new();
        for (anchor, offset) in anchors.iter().zip(&offsets) {
            moved.push(node.add(anchor, offset)?);
        }
        return node.stacked(&moved.iter().collect::<Vec<_>>());
    }
    let [left, top, right, bottom] = anchors;
    let [dx, dy, dw, dh] = offsets;
    let mut ends = Vec::new();
    for (low, high, move_by, grow_by) in [(left, right, dx, dw), (top, bottom, dy, dh)] {
        let size = node.sub(&high, &low)?;
        let half = node.times(&size, 0.5)?;
        let size = node.plus(&size, 1.0)?;
        let center = node.add(&low, &half)?;
        let shift = node.mul(&move_by, &size)?;
        let center = node.add(&shift, &center)?;
        let growth = node.call("Exp", &[&grow_by], [])?;
        let grown = node.mul(&growth, &size)?;
        let grown = node.plus(&grown, -1.0)?;
        let half = node.times(&grown, 0.5)?;
        ends.push((node.sub(&center, &half)?, node.add(&center, &half)?));
    }
    let [(left, right), (top, bottom)] = ends.as_slice() else {
        return Err("a coordinate was lost".into());
    };
    node.stacked(&[left, top, right, bottom])
}

/// Clips boxes to their image. Those that are too small grow; their score becomes -1, as that of cells outside.
fn limited(
    node: &mut Node<'_>,
    how: &Proposals,
    boxes: &Value,
    scores: &Value,
    info: &Value,
) -> Outcome<[Value; 2]> {
    let part = |node: &mut Node<'_>, at: i64| {
        let one = node.slice(info, 1, at, at + 1)?;
        node.reshape(&one, &[])
    };
    let (height, width, scale) = (part(node, 0)?, part(node, 1)?, part(node, 2)?);
    let [left, top, right, bottom] = node.corners(boxes)?;
    let zero = node.number(boxes.dtype(), 0.0)?;
    let clipped = |node: &mut Node<'_>, x: &Value, size: &Value| {
        let end = node.plus(size, -1.0)?;
        let x = node.call("Min", &[x, &end], [])?;
        node.call("Max", &[&x, &zero], [])
    };
    let (left, right) = (clipped(node, &left, &width)?, clipped(node, &right, &width)?);
    let (top, bottom) = (clipped(node, &top, &height)?, clipped(node, &bottom, &height)?);
    let least = node.times(&scale, how.least)?;
    let is_small = |node: &mut Node<'_>, low: &Value, high: &Value| {
        let side = node.sub(high, low)?;
        let side = node.plus(&side, 1.0)?;
        node.call("Less", &[&side, &least], [])
    };
    let (narrow, flat) = (is_small(node, &left, &right)?, is_small(node, &top, &bottom)?);
    let is_small = node.call("Or", &[&narrow, &flat], [])?;
    let half = node.times(&least, 0.5)?;
    let more = node.choose(&is_small, &half, &zero)?;
    let (left, top) = (node.sub(&left, &more)?, node.sub(&top, &more)?);
    let (right, bottom) = (node.add(&right, &more)?, node.add(&bottom, &more)?);
    let boxes = node.stacked(&[&left, &top, &right, &bottom])?;
    let none = node.number(scores.dtype(), -1.0)?;
    let scores = node.choose(&is_small, &none, scores)?;
    let outside = outside(node, how, &scores, &height, &width)?;
    let scores = node.choose(&outside, &none, &scores)?;
    Ok([node.reshape_to(&boxes, &[1, -1, 4])?, node.reshape_to(&scores, &[1, -1])?])
}

/// Returns which cells are outside of the image.
fn outside(
    node: &mut Node<'_>,
    how: &Proposals,
    like: &Value,
    height: &Value,
    width: &Value,
) -> Outcome {
    let mut marks = Vec::new();
    for (axis, size) in [(1, height), (2, width)] {
        #[expect(clippy::cast_precision_loss, reason = "strides are small")]
        let cells = node.times(size, 1.0 / how.stride as f64)?;
        let cells = node.call("Floor", &[&cells], [])?;
        let count = node.extent(like, axis)?;
        let numbers = node.counting(&count, size.dtype())?;
        let numbers = node.along(&numbers, axis, 4)?;
        marks.push(node.call("GreaterOrEqual", &[&numbers, &cells], [])?);
    }
    let [rows, columns] = marks.as_slice() else { return Err("a coordinate was lost".into()) };
    node.call("Or", &[rows, columns], [])
}

/// Returns the best boxes that overlap no better one, `[after, 4]`, and their scores; they repeat if there are fewer.
fn best(
    node: &mut Node<'_>,
    how: &Proposals,
    boxes: &Value,
    scores: &Value,
) -> Outcome<[Value; 2]> {
    let before = if how.before > 0 { how.before } else { i64::from(i32::MAX) };
    let [found, order] = node.highest(scores, Some(before), true)?;
    let boxes = node.rows(boxes, &order)?;
    let [left, top, right, bottom] = node.corners(&boxes)?;
    // Boxes include their last pixels.
    let corners = [left, top, node.plus(&right, 1.0)?, node.plus(&bottom, 1.0)?];
    let ranks = node.ranks(&found)?;
    let ranks = node.unsqueeze(&ranks, &[0, 1])?;
    let kept = node.survivors(&corners, &ranks, how.overlap, Some(how.after))?;
    let last = node.long(2);
    let places = node.gather(&kept, &last, 1)?;
    let count = node.extent(&places, 0)?;
    let numbers = node.range(how.after)?;
    let numbers = node.call("Mod", &[&numbers, &count], [])?;
    let places = node.gather(&places, &numbers, 0)?;
    let boxes = node.reshape_to(&boxes, &[-1, 4])?;
    let found = node.reshape_to(&found, &[-1, 1])?;
    let (boxes, found) = (node.gather(&boxes, &places, 0)?, node.gather(&found, &places, 0)?);
    Ok([boxes, found])
}

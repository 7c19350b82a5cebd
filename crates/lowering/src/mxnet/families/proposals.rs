//! Proposals of a region proposal network: the best boxes of anchors, without those that overlap better ones.

use lodstone_model::DType;
use lodstone_schema::numbers::length;

use super::boxes::over;
use super::normalize::single;
use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, dim_of, product, rank, required_dim};
use crate::onnx::Value;
use crate::onnx::boxes::{Corners, Edge, Grid, Measure, each, tiled};
use crate::onnx::suppression::Suppression;

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
    overlap: f64,
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
            overlap,
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
    let count = length(how.anchors.len());
    let images = required_dim(&scores, 0)?;
    if !(1..=MAX_IMAGES).contains(&images) || rank(&scores)? != 4 || rank(&info)? != 2 {
        return Err(format!("{images} images are not supported").into());
    }
    if required_dim(&scores, 1)? != count.saturating_mul(2) {
        return Err(format!("expected scores of {count} anchors and the background").into());
    }
    let anchors = anchors_of(node, &how, &scores)?;
    let scores = node.slice(&scores, 1, count, 2 * count)?;
    // [batch, height, width, anchors]
    let scores = node.transpose(&scores, &[0, 2, 3, 1])?;
    let boxes = boxes(node, &how, &anchors, &offsets)?;
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

/// Returns the anchors of all cells, which broadcast to `[height, width, anchors]`.
fn anchors_of(node: &mut Node<'_>, how: &Proposals, scores: &Value) -> Outcome<Corners> {
    let count = length(how.anchors.len());
    if let (Some(height), Some(width)) = (dim_of(scores, 2), dim_of(scores, 3)) {
        if product(&[height, width, count])? > 1 << 24 {
            return Err(format!("{height} times {width} times {count} anchors are too many").into());
        }
        #[expect(clippy::cast_precision_loss, reason = "images are small")]
        let places =
            |count: i64| (0..count).map(|at| (at * how.stride) as f32).collect::<Vec<f32>>();
        let all = tiled(&places(width), &places(height), &how.anchors);
        let anchors = node.floats(&all, &[height, width, count, 4].map(i64::unsigned_abs));
        return node.corners(&anchors);
    }
    let places = |node: &mut Node<'_>, axis: i64| {
        let count = node.extent(scores, axis)?;
        let numbers = node.counting(&count, DType::Float32)?;
        #[expect(clippy::cast_precision_loss, reason = "strides are small")]
        node.times(&numbers, how.stride as f64)
    };
    let list = |node: &mut Node<'_>, of: fn(&[f32; 4]) -> f32| {
        node.singles(&how.anchors.iter().map(of).collect::<Vec<f32>>())
    };
    let centers = [places(node, 3)?, places(node, 2)?];
    let offsets = [
        Some(list(node, |it| (it[0] + it[2]) / 2.0)),
        Some(list(node, |it| (it[1] + it[3]) / 2.0)),
    ];
    let halves = [list(node, |it| (it[2] - it[0]) / 2.0), list(node, |it| (it[3] - it[1]) / 2.0)];
    node.grid(&Grid { centers, offsets, halves }, None)
}

/// Boxes of all anchors: `[batch, height, width, anchors, 4]`.
fn boxes(node: &mut Node<'_>, how: &Proposals, anchors: &Corners, offsets: &Value) -> Outcome {
    let offsets = node.recoded(offsets, &[0, -4, length(how.anchors.len()), 4, 0, 0])?;
    let offsets = node.transpose(&offsets, &[0, 3, 4, 1, 2])?;
    let offsets = node.corners(&offsets)?;
    let corners = if how.is_direct {
        let mut offsets = offsets.iter();
        each(anchors, |anchor| node.add(anchor, offsets.next().ok_or("an offset is missing")?))?
    } else {
        let measure = Measure::middle(Edge::Inclusive);
        let anchors = node.centered(anchors, measure)?;
        let moved = node.decoded(&offsets, &anchors, None)?;
        node.cornered(&moved, measure)?
    };
    node.stacked(&corners.each_ref())
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
    let (last_row, last_column) = (node.plus(&height, -1.0)?, node.plus(&width, -1.0)?);
    let corners = [
        node.clipped(&left, &last_column)?,
        node.clipped(&top, &last_row)?,
        node.clipped(&right, &last_column)?,
        node.clipped(&bottom, &last_row)?,
    ];
    let zero = node.number(boxes.dtype(), 0.0)?;
    let least = node.times(&scale, how.least)?;
    let sides = node.sides(&corners, Edge::Inclusive)?;
    let [narrow, flat] = each(&sides, |side| node.call("Less", &[side, &least], []))?;
    let is_small = node.call("Or", &[&narrow, &flat], [])?;
    let half = node.times(&least, 0.5)?;
    let more = node.choose(&is_small, &half, &zero)?;
    let [left, top, right, bottom] = corners;
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
    let corners = node.corners(&boxes)?;
    let ranks = node.ranks(&found)?;
    let ranks = node.unsqueeze(&ranks, &[0, 1])?;
    let suppression = Suppression { edge: Edge::Inclusive, most: how.after, ..over(how.overlap) };
    let kept = node.suppressed(&corners, &ranks, suppression)?;
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

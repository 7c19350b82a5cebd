//! Detections of SSD: boxes of the best class of each anchor, without those that overlap better ones.

use lodstone_model::DType;

use super::boxes::over;
use super::normalize::single;
use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, rank, required_dim};
use crate::onnx::boxes::{Corners, Measure, each};
use crate::onnx::suppression::{BOTTOM, Suppression, Threshold};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[("_contrib_MultiBoxDetection", Rule::One(detection))];

/// Returns corners `[batch, anchors]` from offsets to anchors.
fn decoded(node: &mut Node<'_>, offsets: &Value, anchors: &Value) -> Outcome<Corners> {
    let variances = node.attributes.floats("variances", &[0.1, 0.1, 0.2, 0.2])?;
    let clips = node.attributes.flag("clip", true)?;
    let [vx, vy, vw, vh] = variances.as_slice() else {
        return Err(wrong("variances", "four numbers", &format!("{variances:?}")));
    };
    let offsets = node.reshape_to(offsets, &[0, -1, 4])?;
    let anchors = node.corners(anchors)?;
    let anchors = node.centered(&anchors, Measure::EXCLUSIVE)?;
    let deltas = node.corners(&offsets)?;
    let mut variances = [vx, vy, vw, vh].into_iter();
    let deltas = each(&deltas, |delta| {
        let variance = variances.next().ok_or("a variance is missing")?;
        node.times(delta, *variance)
    })?;
    let boxes = node.decoded(&deltas, &anchors, None)?;
    let corners = node.cornered(&boxes, Measure::EXCLUSIVE)?;
    if clips { each(&corners, |corner| node.clamp(corner, 0.0, 1.0)) } else { Ok(corners) }
}

/// Rows of (class, score, corners), by score. The class of suppressed boxes is -1, and so are rows without a box.
fn detection(node: &mut Node<'_>) -> Outcome {
    let [scores, offsets, anchors] = node.exactly()?;
    let attributes = &node.attributes;
    if attributes.int("background_id", 0)? != 0 {
        return Err("`background_id` must be 0".into());
    }
    let least = attributes.float("threshold", 0.01)?;
    let overlap = single(attributes.float("nms_threshold", 0.5)?);
    let forces = attributes.flag("force_suppress", false)?;
    let most = attributes.int("nms_topk", -1)?;
    if rank(&scores)? != 3 || rank(&anchors)? != 3 {
        return Err("expected scores and anchors of rank 3".into());
    }
    let classes = required_dim(&scores, 1)?;
    let corners = decoded(node, &offsets, &anchors)?;
    if classes == 1 {
        // All anchors belong to the background.
        let none = node.constant_like(&corners[0], corners[0].dtype(), -1.0)?;
        return node.stacked(&[&none; 6]);
    }
    let scores = node.slice(&scores, 1, 1, classes)?;
    let best = node.reduce("ReduceMax", &scores, &[1], false)?;
    let class = node.call("ArgMax", &[&scores], [int("axis", 1), int("keepdims", 0)])?;
    let class = node.cast(&class, best.dtype())?;
    let limit = node.number(best.dtype(), least)?;
    let is_valid = node.call("GreaterOrEqual", &[&best, &limit], [])?;
    let [left, top, right, bottom] = &corners;
    let rows = node.stacked(&[&class, &best, left, top, right, bottom])?;
    let none = node.number(best.dtype(), -1.0)?;
    let plain = in_order(node, &rows, &is_valid)?;
    if overlap <= 0.0 || overlap > 1.0 {
        return Ok(plain);
    }
    let lowest = node.number(best.dtype(), f64::NEG_INFINITY)?;
    let keys = node.choose(&is_valid, &best, &lowest)?;
    let [found, order] = node.highest(&keys, None, true)?;
    let rows = node.rows(&rows, &order)?;
    let bottom = node.number(best.dtype(), BOTTOM)?;
    let is_valid = node.call("Greater", &[&found, &bottom], [])?;
    let takes_part = among_first(node, &is_valid, most)?;
    let kept = suppressed(node, &rows, &takes_part, classes - 1, overlap, forces)?;
    let class = node.slice(&rows, 2, 0, 1)?;
    let class = node.choose(&kept, &class, &none)?;
    let rest = node.slice(&rows, 2, 1, 6)?;
    let rows = node.concat(&[&class, &rest], 2)?;
    let takes_part = node.unsqueeze(&takes_part, &[2])?;
    // Rows that do not take part are those before they were sorted, without a class.
    let rest = node.slice(&plain, 2, 1, 6)?;
    let first = node.slice(&plain, 2, 0, 1)?;
    let first = node.constant_like(&first, plain.dtype(), -1.0)?;
    let plain = node.concat(&[&first, &rest], 2)?;
    node.choose(&takes_part, &rows, &plain)
}

/// Returns which valid boxes in order are among the first `most`, if that is positive.
fn among_first(node: &mut Node<'_>, is_valid: &Value, most: i64) -> Outcome {
    if most < 1 {
        return Ok(is_valid.clone());
    }
    let count = node.extent(is_valid, 1)?;
    let numbers = node.counting(&count, DType::Int64)?;
    let most = node.long(most);
    let is_first = node.call("Less", &[&numbers, &most], [])?;
    node.call("And", &[is_valid, &is_first], [])
}

/// Returns the valid rows in their order, followed by rows of -1.
fn in_order(node: &mut Node<'_>, rows: &Value, is_valid: &Value) -> Outcome {
    let ranks = node.ranks(is_valid)?;
    let zero = node.number(DType::Float32, 0.0)?;
    let keys = node.choose(is_valid, &ranks, &zero)?;
    let [keys, order] = node.highest(&keys, None, true)?;
    let rows = node.rows(rows, &order)?;
    let is_there = node.call("Greater", &[&keys, &zero], [])?;
    let is_there = node.unsqueeze(&is_there, &[2])?;
    let none = node.number(rows.dtype(), -1.0)?;
    node.choose(&is_there, &rows, &none)
}

/// Returns which sorted rows remain: `[batch, boxes, 1]`.
fn suppressed(
    node: &mut Node<'_>,
    rows: &Value,
    takes_part: &Value,
    classes: i64,
    overlap: f32,
    forces: bool,
) -> Outcome {
    let boxes = node.slice(rows, 2, 2, 6)?;
    let corners = node.corners(&boxes)?;
    let ranks = node.ranks(takes_part)?;
    let none = node.number(DType::Float32, -1.0)?;
    let ranks = node.choose(takes_part, &ranks, &none)?;
    let mut by_class = node.unsqueeze(&ranks, &[1])?;
    if !forces {
        let place = node.long(0);
        let own = node.gather(rows, &place, 2)?;
        let own = node.cast(&own, DType::Int64)?;
        let own = node.unsqueeze(&own, &[1])?;
        let numbers = node.range(classes)?;
        let numbers = node.unsqueeze(&numbers, &[1])?;
        let is_own = node.call("Equal", &[&own, &numbers], [])?;
        by_class = node.choose(&is_own, &by_class, &none)?;
    }
    let threshold = Threshold::AtLeast(overlap);
    let kept = node.suppressed(&corners, &by_class, Suppression { threshold, ..over(1.0) })?;
    let marks = node.marked(&kept, &ranks)?;
    let marks = node.cast(&marks, DType::Bool)?;
    node.unsqueeze(&marks, &[2])
}

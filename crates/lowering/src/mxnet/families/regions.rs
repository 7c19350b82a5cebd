//! Pooling of regions: rows of (image, left, top, right, bottom).

use lodstone_model::DType;

use super::normalize::single;
use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule};
use crate::onnx::{Value, float, int, ints, text};

pub(super) const RULES: &[(&str, Rule)] =
    &[("ROIPooling", Rule::One(roi_pooling)), ("_contrib_ROIAlign", Rule::One(roi_align))];

fn pooled(node: &Node<'_>) -> Outcome<[i64; 2]> {
    let size = node.attributes.required_ints("pooled_size")?;
    match size.as_slice() {
        [height @ 1..=4096, width @ 1..=4096] => Ok([*height, *width]),
        _ => Err(wrong("pooled_size", "two small numbers", &format!("{size:?}"))),
    }
}

fn roi_pooling(node: &mut Node<'_>) -> Outcome {
    let [x, rois] = node.exactly()?;
    let size = pooled(node)?;
    let scale = single(node.attributes.float("spatial_scale", None)?);
    node.call(
        "MaxRoiPool",
        &[&x, &rois],
        [ints("pooled_shape", &size), float("spatial_scale", scale)],
    )
}

/// The mean of samples in each cell. Regions of no image are 0.
fn roi_align(node: &mut Node<'_>) -> Outcome {
    let [x, rois] = node.exactly()?;
    let [height, width] = pooled(node)?;
    let scale = single(node.attributes.float("spatial_scale", None)?);
    let samples = node.attributes.int("sample_ratio", -1)?;
    let is_aligned = node.attributes.flag("aligned", false)?;
    if node.attributes.flag("position_sensitive", false)? {
        return Err(wrong("position_sensitive", "`False`", "True"));
    }
    let image = node.slice(&rois, 1, 0, 1)?;
    let image = node.reshape_to(&image, &[-1])?;
    let boxes = node.slice(&rois, 1, 1, 5)?;
    let zero = node.number(rois.dtype(), 0.0)?;
    let is_none = node.call("Less", &[&image, &zero], [])?;
    let image = node.cast(&image, DType::Int64)?;
    let first = node.long(0);
    let image = node.call("Max", &[&image, &first], [])?;
    let mode = if is_aligned { "half_pixel" } else { "output_half_pixel" };
    let attributes = [
        text("mode", "avg"),
        text("coordinate_transformation_mode", mode),
        int("output_height", height),
        int("output_width", width),
        int("sampling_ratio", samples.max(0)),
        float("spatial_scale", scale),
    ];
    let y = node.call("RoiAlign", &[&x, &boxes, &image], attributes)?;
    let is_none: Value = node.unsqueeze(&is_none, &[1, 2, 3])?;
    let zero = node.number(y.dtype(), 0.0)?;
    node.choose(&is_none, &zero, &y)
}

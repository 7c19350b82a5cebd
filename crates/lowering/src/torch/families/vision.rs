//! Operators of torchvision.

use lodstone_model::DType;

use crate::onnx::{Value, float, int, text};
use crate::torch::node::{Node, Outcome, Rule};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("torchvision::nms", Rule::One(nms)),
    ("torchvision::roi_align", Rule::One(roi_align)),
    ("torchvision::roi_pool", Rule::Many(roi_pool)),
    ("torchvision::deform_conv2d", Rule::One(deform_conv)),
];

#[expect(clippy::cast_possible_truncation, reason = "attributes of ONNX are single floats")]
fn single(value: f64) -> f32 {
    value as f32
}

/// The indices of boxes `[n, 4]` that are kept, by falling scores.
fn nms(node: &mut Node<'_>) -> Outcome {
    let (boxes, scores) = (node.tensor("dets")?, node.tensor("scores")?);
    let limit = node.arguments.float("iou_threshold")?;
    let boxes = node.unsqueeze(&boxes, &[0])?;
    let scores = node.unsqueeze(&scores, &[0, 1])?;
    let most = node.longs(&[i64::from(i32::MAX)]);
    let limit = node.singles(&[single(limit)]);
    let kept = node.call("NonMaxSuppression", &[&boxes, &scores, &most, &limit], [])?;
    let place = node.long(2);
    node.gather(&kept, &place, 1)
}

/// Splits rows `[k, 5]` into the index of the image and the box.
fn regions(node: &mut Node<'_>, rois: &Value) -> Outcome<(Value, Value)> {
    let first = node.slice(rois, 1, 0, 1)?;
    let first = node.reshape(&first, &[-1])?;
    let index = node.cast(&first, DType::Int64)?;
    Ok((index, node.slice(rois, 1, 1, 5)?))
}

fn roi_align(node: &mut Node<'_>) -> Outcome {
    let (x, rois) = (node.tensor("input")?, node.tensor("rois")?);
    let (index, boxes) = regions(node, &rois)?;
    let aligned = node.arguments.flag("aligned")?;
    let attributes = [
        text(
            "coordinate_transformation_mode",
            if aligned { "half_pixel" } else { "output_half_pixel" },
        ),
        text("mode", "avg"),
        int("output_height", node.arguments.int("pooled_height")?),
        int("output_width", node.arguments.int("pooled_width")?),
        int("sampling_ratio", node.arguments.int("sampling_ratio")?.max(0)),
        float("spatial_scale", single(node.arguments.float("spatial_scale")?)),
    ];
    node.call("RoiAlign", &[&x, &boxes, &index], attributes)
}

fn roi_pool(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let (x, rois) = (node.tensor("input")?, node.tensor("rois")?);
    let shape = [node.arguments.int("pooled_height")?, node.arguments.int("pooled_width")?];
    let attributes = [
        crate::onnx::ints("pooled_shape", &shape),
        float("spatial_scale", single(node.arguments.float("spatial_scale")?)),
    ];
    Ok(vec![node.call("MaxRoiPool", &[&x, &rois], attributes)?])
}

fn deform_conv(node: &mut Node<'_>) -> Outcome {
    let (x, weight, offset) =
        (node.tensor("input")?, node.tensor("weight")?, node.tensor("offset")?);
    let (mask, bias) = (node.tensor("mask")?, node.tensor("bias")?);
    let pair = |node: &Node<'_>, name: &str| {
        Ok::<[i64; 2], lodstone_schema::Finding>([
            node.arguments.int(&format!("{name}_h"))?,
            node.arguments.int(&format!("{name}_w"))?,
        ])
    };
    let (stride, pad, dilation) =
        (pair(node, "stride")?, pair(node, "pad")?, pair(node, "dilation")?);
    let uses_mask = node.arguments.flag("use_mask")?;
    let attributes = [
        crate::onnx::ints("strides", &stride),
        crate::onnx::ints("pads", &[pad, pad].concat()),
        crate::onnx::ints("dilations", &dilation),
        int("group", node.arguments.int("groups")?),
        int("offset_group", node.arguments.int("offset_groups")?),
    ];
    let mask = Some(&mask).filter(|_| uses_mask);
    let operands = [Some(&x), Some(&weight), Some(&offset), Some(&bias), mask];
    let operands = if uses_mask { &operands[..] } else { &operands[..4] };
    let [y] = node.emit_all("DeformConv", operands, attributes)?;
    Ok(y)
}

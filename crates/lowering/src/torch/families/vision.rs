//! Operators of torchvision.

use lodstone_model::DType;

use crate::onnx::regions::Align;
use crate::onnx::suppression::Suppression;
use crate::onnx::{Value, int};
use crate::torch::node::{Node, Outcome, Rule};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("torchvision::nms", Rule::One(nms)),
    ("torchvision::roi_align", Rule::One(roi_align)),
    ("torchvision::roi_pool", Rule::Many(roi_pool)),
    ("torchvision::deform_conv2d", Rule::One(deform_conv)),
];

/// The indices of boxes `[n, 4]` that are kept, by falling scores.
fn nms(node: &mut Node<'_>) -> Outcome {
    let (boxes, scores) = (node.tensor("dets")?, node.tensor("scores")?);
    if boxes.dtype() == DType::Float64 {
        return Err("ONNX suppresses boxes in single precision".into());
    }
    let how = Suppression::above(node.arguments.float("iou_threshold")?);
    let boxes = node.unsqueeze(&boxes, &[0])?;
    let corners = node.corners(&boxes)?;
    let scores = node.unsqueeze(&scores, &[0, 1])?;
    let kept = node.suppressed(&corners, &scores, how)?;
    let place = node.long(2);
    node.gather(&kept, &place, 1)
}

fn cells(node: &Node<'_>) -> Outcome<[i64; 2]> {
    Ok([node.arguments.int("pooled_height")?, node.arguments.int("pooled_width")?])
}

#[expect(clippy::cast_possible_truncation, reason = "attributes of ONNX are single floats")]
fn scale(node: &Node<'_>) -> Outcome<f32> {
    Ok(node.arguments.float("spatial_scale")? as f32)
}

fn roi_align(node: &mut Node<'_>) -> Outcome {
    let (x, rois) = (node.tensor("input")?, node.tensor("rois")?);
    let [images, boxes] = node.images_and_boxes(&rois)?;
    let how = Align {
        is_aligned: node.arguments.flag("aligned")?,
        cells: cells(node)?,
        samples: node.arguments.int("sampling_ratio")?,
        scale: scale(node)?,
    };
    node.align(&x, &boxes, &images, how)
}

fn roi_pool(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let (x, rois) = (node.tensor("input")?, node.tensor("rois")?);
    let (cells, scale) = (cells(node)?, scale(node)?);
    Ok(vec![node.pool_regions(&x, &rois, cells, scale)?])
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

//! Resizing of images, and boxes in them.

use lodstone_model::DType;

use super::node::{Node, Outcome, Rule, no_equivalent};
use crate::onnx::boxes::Edge;
use crate::onnx::regions::Align;
use crate::onnx::regression::Regression;
use crate::onnx::required::required_dim;
use crate::onnx::suppression::Suppression;
use crate::onnx::{Value, int, text};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BBoxTransform", transform_boxes),
    ("NonMaxSuppression", suppress),
    ("ROIAlign", align),
    ("ResizeBilinear", |n| resize(n, "linear")),
    ("ResizeNearest", |n| resize(n, "nearest")),
];

/// Coordinates are multiplied and rounded down.
fn resize(n: &mut Node<'_>, mode: &str) -> Outcome {
    let scales = n.floats("Scale")?;
    let result = n.out(0)?;
    let is_linear = mode == "linear";
    if is_linear && result.kind.is_quantized() {
        return no_equivalent(
            "Glow interpolates the integers of a quantized image without their scale",
        );
    }
    let value = if is_linear { n.real(0)? } else { n.raw_like(0, &result)? };
    let is_narrow = !is_linear && result.kind.is_quantized();
    // Not all runtimes resize narrow integers.
    let value = if is_narrow { n.cast(&value, DType::Int32)? } else { value };
    let scales = n.singles(scales);
    let attributes = [
        text("mode", mode),
        text("coordinate_transformation_mode", "asymmetric"),
        text("nearest_mode", "floor"),
    ];
    let [value] = n.emit_all("Resize", &[Some(&value), None, Some(&scales)], attributes)?;
    let value = n.cast(&value, result.kind.dtype())?;
    n.put_raw(0, &value)
}

fn align(n: &mut Node<'_>) -> Outcome {
    if n.flag("Rotated")? {
        return no_equivalent("its boxes are rotated");
    }
    if n.int("Mode")? != 0 {
        return no_equivalent("`max` of ONNX's `RoiAlign` is the maximum of weighted corners");
    }
    let how = Align {
        is_aligned: n.flag("Aligned")?,
        cells: [n.int("OutputHeight")?, n.int("OutputWidth")?],
        samples: n.int("SamplingRatio")?,
        scale: n.float("SpatialScale")?,
    };
    let [_, width] = n.ranked::<2>(1)?;
    let (image, boxes, batches) = (n.real(0)?, n.real(1)?, n.raw(2)?);
    // The batch index may be the first value of a box.
    let [batches, boxes] = match width {
        5 => n.images_and_boxes(&boxes)?,
        _ => [n.cast(&batches, DType::Int64)?, boxes],
    };
    let image = n.channels_to_front(&image)?;
    let value = n.align(&image, &boxes, &batches, how)?;
    let value = n.channels_to_back(&value)?;
    n.put(0, &value)
}

/// The maximum number of images whose boxes are selected: each takes its own operator.
const MAX_IMAGES: i64 = 16;

/// Selects up to a maximum number of boxes of each image. Free slots are filled with the selected box of the lowest
/// score, or with the first box if its score is lower.
fn suppress(n: &mut Node<'_>) -> Outcome {
    let is_flat = n.flag("IsTFVersion4")?;
    let (boxes, scores) = (n.real(0)?, n.real(1)?);
    let (boxes, scores) = match is_flat {
        true => (n.unsqueeze(&boxes, &[0])?, n.unsqueeze(&scores, &[0, 1])?),
        false => (boxes, scores),
    };
    let images = required_dim(&scores, 0)?;
    let room = *n.out(0)?.shape.first().unwrap_or(&0);
    if !(1..=MAX_IMAGES).contains(&images) {
        return no_equivalent(format!("expected 1 to {MAX_IMAGES} images, found {images}"));
    }
    let room = room / images;
    let (mut rows, mut counts) = (Vec::new(), Vec::new());
    for image in 0..images {
        let boxes = n.slice(&boxes, 0, image, image + 1)?;
        let scores = n.slice(&scores, 0, image, image + 1)?;
        let (found, count) = selected(n, &boxes, &scores, image, room)?;
        rows.push(found);
        counts.push(count);
    }
    let found = n.concat(&rows.iter().collect::<Vec<_>>(), 0)?;
    let found = if is_flat { n.slice(&found, 1, 2, 3)? } else { found };
    let dims = n.out(0)?.shape;
    let found = n.reshape(&found, &dims)?;
    n.put(0, &found)?;
    let [many] = n.out_ranked::<1>(1)?;
    let each = n.longs(&[many / images]);
    let mut spread = Vec::new();
    for count in &counts {
        spread.push(n.call("Expand", &[count, &each], [])?);
    }
    let counts = n.concat(&spread.iter().collect::<Vec<_>>(), 0)?;
    let counts = n.reshape(&counts, &[many])?;
    n.put(1, &counts)
}

/// Returns the boxes of one image, `[room, 3]`, and their number, `[1]`.
fn selected(
    n: &mut Node<'_>,
    boxes: &Value,
    scores: &Value,
    image: i64,
    room: i64,
) -> Outcome<(Value, Value)> {
    let how = Suppression {
        most: n.int("MaxOutputBoxesPerClass")?,
        above: Some(n.float("ScoreThreshold")?.into()),
        ..Suppression::above(n.float("IouThreshold")?.into())
    };
    let is_centered = n.flag("CenterPointBox")?;
    let found = n.suppressed_as_onnx(boxes, scores, how, Some(is_centered))?;
    let shape = n.call("Shape", &[&found], [int("end", 1)])?;
    // If no box is selected, the first box of the first class is used.
    let first = n.filled(DType::Int64, 0.0, &[1, 3])?;
    let candidates = n.concat(&[&first, &found], 0)?;
    let of_candidates = n.call("GatherND", &[scores, &candidates], [])?;
    let lowest = n.call("ArgMin", &[&of_candidates], [int("axis", 0), int("keepdims", 1)])?;
    let filler = n.gather(&candidates, &lowest, 0)?;
    let filler = n.reshape(&filler, &[1, 3])?;
    let filler = n.expand(&filler, &[room, 3])?;
    let all = n.concat(&[&found, &filler], 0)?;
    let all = n.slice(&all, 0, 0, room)?;
    let all = n.reshape(&all, &[room, 3])?;
    let number = n.longs(&[image, 0, 0]);
    let all = n.add(&all, &number)?;
    Ok((all, shape))
}

/// Moves and scales boxes by deltas, and clips them at the edges of their images.
fn transform_boxes(n: &mut Node<'_>) -> Outcome {
    if n.flag("Rotated")? {
        return no_equivalent("its boxes are rotated");
    }
    let weights = n.floats("Weights")?;
    let weights: [f32; 4] =
        weights.try_into().map_err(|_| format!("expected 4 `Weights`, found {}", weights.len()))?;
    let how = Regression {
        weights,
        is_scaled: n.flag("ApplyScale")?,
        edge: Edge::inclusive_if(n.flag("LegacyPlusOne")?),
    };
    let (rois, deltas, images) = (n.real(0)?, n.real(1)?, n.real(2)?);
    let [value, counts] = n.regressed([&rois, &deltas, &images], how)?;
    n.put(0, &value)?;
    let dtype = n.computed(1)?;
    let counts = n.cast(&counts, dtype)?;
    n.put(1, &counts)
}

//! Resizing of images, and boxes in them.

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::node::{Node, Outcome, Rule, no_equivalent};
use crate::onnx::{Value, float, int, text};

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
    let coordinates = if n.flag("Aligned")? { "half_pixel" } else { "output_half_pixel" };
    let attributes = [
        text("mode", "avg"),
        text("coordinate_transformation_mode", coordinates),
        int("output_height", n.int("OutputHeight")?),
        int("output_width", n.int("OutputWidth")?),
        int("sampling_ratio", n.int("SamplingRatio")?),
        float("spatial_scale", n.float("SpatialScale")?),
    ];
    let [count, width] = n.ranked::<2>(1)?;
    let (image, mut boxes, mut batches) = (n.real(0)?, n.real(1)?, n.raw(2)?);
    if width == 5 {
        // The batch index is the first value of a box.
        batches = n.slice(&boxes, 1, 0, 1)?;
        batches = n.reshape(&batches, &[count])?;
        boxes = n.slice(&boxes, 1, 1, 5)?;
    }
    let batches = n.cast(&batches, DType::Int64)?;
    let image = n.channels_to_front(&image)?;
    let value = n.call("RoiAlign", &[&image, &boxes, &batches], attributes)?;
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
    let images = n.known_dim(&scores, 0)?;
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
    let (most, centered) = (n.int("MaxOutputBoxesPerClass")?, n.int("CenterPointBox")?);
    let (overlap, least) = (n.float("IouThreshold")?, n.float("ScoreThreshold")?);
    let most = n.long(most);
    let overlap = n.singles(&[overlap]);
    let least = n.singles(&[least]);
    let inputs = [boxes, scores, &most, &overlap, &least];
    let attributes = [int("center_point_box", centered)];
    let found = n.call("NonMaxSuppression", &inputs, attributes)?;
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

/// The logarithm of the maximum scale of a box.
const LARGEST: f64 = 4.135_166_556_742_356;

/// Moves and scales boxes by deltas, and clips them at the edges of their images.
fn transform_boxes(n: &mut Node<'_>) -> Outcome {
    if n.flag("Rotated")? {
        return no_equivalent("its boxes are rotated");
    }
    let weights = n.floats("Weights")?;
    let [across, down, wide, high] = *weights else {
        return Err(format!("expected 4 `Weights`, found {}", weights.len()).into());
    };
    let scaled = n.flag("ApplyScale")?;
    let one = if n.flag("LegacyPlusOne")? { 1.0 } else { 0.0 };
    let (rois, deltas, images) = (n.real(0)?, n.real(1)?, n.real(2)?);
    let [count, width] = n.ranked::<2>(0)?;
    let [_, columns] = n.ranked::<2>(1)?;
    let [batch, _] = n.ranked::<2>(2)?;
    let classes = columns / 4;
    // The index of the image of each box, and the properties of that image.
    let number = if width == 4 {
        n.filled(DType::Int64, 0.0, &[count])?
    } else {
        let number = n.slice(&rois, 1, 0, 1)?;
        let number = n.reshape(&number, &[count])?;
        n.cast(&number, DType::Int64)?
    };
    let of_box = n.gather(&images, &number, 0)?;
    let mut column = |value: &Value, at: i64| n.slice(value, 1, at, at + 1);
    let (height, image_width) = (column(&of_box, 0)?, column(&of_box, 1)?);
    let scale = column(&of_box, 2)?;
    let corner = |n: &mut Node<'_>, at: i64| -> Outcome<Value> {
        let value = n.slice(&rois, 1, width - 4 + at, width - 3 + at)?;
        n.div(&value, &scale)
    };
    let (left, top, right, bottom) = (corner(n, 0)?, corner(n, 1)?, corner(n, 2)?, corner(n, 3)?);
    let deltas = n.reshape(&deltas, &[count, classes, 4])?;
    let delta = |n: &mut Node<'_>, at: i64, weight: f32| -> Outcome<Value> {
        let value = n.slice(&deltas, 2, at, at + 1)?;
        let value = n.reshape(&value, &[count, classes])?;
        let weight = n.number(value.dtype(), f64::from(weight))?;
        n.div(&value, &weight)
    };
    let (dx, dy) = (delta(n, 0, across)?, delta(n, 1, down)?);
    let (dw, dh) = (delta(n, 2, wide)?, delta(n, 3, high)?);
    let mut edges = Vec::new();
    let dims = [(left, right, dx, dw, image_width), (top, bottom, dy, dh, height)];
    for (first, last, shift, growth, edge) in dims {
        let size = n.sub(&last, &first)?;
        let size = n.plus(&size, one)?;
        let half = n.times(&size, 0.5)?;
        let center = n.add(&first, &half)?;
        let shift = n.mul(&shift, &size)?;
        let center = n.add(&center, &shift)?;
        let largest = n.number(growth.dtype(), LARGEST)?;
        let growth = n.call("Min", &[&growth, &largest], [])?;
        let growth = n.call("Exp", &[&growth], [])?;
        let size = n.mul(&growth, &size)?;
        let half = n.times(&size, 0.5)?;
        // Images have whole pixels.
        let edge = n.div(&edge, &scale)?;
        let edge = n.plus(&edge, 0.5)?;
        let edge = n.call("Floor", &[&edge], [])?;
        let edge = n.plus(&edge, -one)?;
        let start = n.sub(&center, &half)?;
        let end = n.add(&center, &half)?;
        let end = n.plus(&end, -one)?;
        for value in [start, end] {
            let zero = n.number(value.dtype(), 0.0)?;
            let value = n.call("Min", &[&value, &edge], [])?;
            let value = n.call("Max", &[&value, &zero], [])?;
            let value = if scaled { n.mul(&value, &scale)? } else { value };
            edges.push(n.unsqueeze(&value, &[2])?);
        }
    }
    let [x1, x2, y1, y2] = &edges[..] else {
        return Err(Finding::internal("a box does not have four edges"));
    };
    let value = n.concat(&[x1, y1, x2, y2], 2)?;
    let value = n.reshape(&value, &[count, columns])?;
    n.put(0, &value)?;
    let dtype = n.computed(1)?;
    let zeros = n.filled(DType::Float32, 0.0, &[batch])?;
    let ones = n.filled(DType::Float32, 1.0, &[count])?;
    let attributes = [int("axis", 0), text("reduction", "add")];
    let counts = n.call("ScatterElements", &[&zeros, &number, &ones], attributes)?;
    let counts = n.cast(&counts, dtype)?;
    n.put(1, &counts)
}

//! Regions of images, boxes, and images of other sizes.

use lodstone_model::{AttributeValue, DType};
use lodstone_schema::numbers::exact;

use super::node::{Node, Outcome, Rule, expect_dim, expect_rank, rank};
use crate::onnx::boxes::Edge;
use crate::onnx::layout::Layout;
use crate::onnx::regions::Align;
use crate::onnx::regression::Regression;
use crate::onnx::required::required_dim;
use crate::onnx::resizing::{Extent, Filter, Places, Resize, Rounding};
use crate::onnx::rotated::Angles;
use crate::onnx::{Precision, Size, Value};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BBoxTransform", Rule::Many(transform)),
    (
        "BatchPermutation",
        Rule::One(|node| {
            let [x, places] = node.exactly()?;
            node.gather(&x, &places, 0)
        }),
    ),
    ("ResizeNearest", Rule::One(nearest)),
    ("RoIAlign", Rule::One(align)),
    ("RoIAlignRotated", Rule::One(align_rotated)),
    ("RoIPool", Rule::One(pool)),
    ("UpsampleBilinear", Rule::One(bilinear)),
    ("UpsampleNearest", Rule::One(repeated)),
];

/// Moves boxes. The second output is the number of boxes of each image.
fn transform(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [regions, deltas, images] = node.exactly()?;
    let weights = match node.op.attribute("weights") {
        None => [1.0; 4],
        Some(AttributeValue::Floats(weights)) => weights
            .as_slice()
            .try_into()
            .map_err(|_| format!("expected 4 numbers as `weights`, found {weights:?}"))?,
        Some(_) => return Err("expected floats as `weights`".into()),
    };
    let how = Regression {
        weights,
        is_scaled: node.flag("apply_scale", true)?,
        edge: Edge::inclusive_if(node.flag("legacy_plus_one", true)?),
    };
    if !node.flag("rotated", false)? {
        return node.regressed([&regions, &deltas, &images], how).map(Vec::from);
    }
    let bounds = match node.flag("angle_bound_on", true)? {
        true => Some(angle_bounds(node)?),
        false => None,
    };
    let angles = Angles { bounds, upright: node.float("clip_angle_thresh", 1.0)?.into() };
    node.regressed_rotated([&regions, &deltas, &images], how, angles).map(Vec::from)
}

/// Returns the least and the greatest angle, whole periods of half a turn apart.
fn angle_bounds(node: &Node<'_>) -> Outcome<[f64; 2]> {
    let least: i32 = exact(node.int("angle_bound_lo", -90)?)?;
    let most: i32 = exact(node.int("angle_bound_hi", 90)?)?;
    let period = i64::from(most) - i64::from(least);
    match period > 0 && period % 180 == 0 {
        true => Ok([least.into(), most.into()]),
        false => {
            let what = "expected bounds of angles whose distance is a multiple of 180";
            Err(format!("{what}, found {least} and {most}").into())
        }
    }
}

/// Returns the rows and columns of the cells of a region.
fn cells(node: &Node<'_>) -> Outcome<[i64; 2]> {
    Ok([node.int_in("pooled_h", 1..=1 << 16, 1)?, node.int_in("pooled_w", 1..=1 << 16, 1)?])
}

fn alignment(node: &Node<'_>) -> Outcome<Align> {
    Ok(Align {
        is_aligned: node.flag("aligned", false)?,
        cells: cells(node)?,
        samples: node.int_in("sampling_ratio", i64::MIN..=1 << 16, -1)?,
        scale: node.float("spatial_scale", 1.0)?,
    })
}

/// Averages cells of rotated regions `[regions, 6]`, or of those of the first image.
fn align_rotated(node: &mut Node<'_>) -> Outcome {
    let [x, rows] = node.exactly()?;
    expect_rank(&x, 4, "images")?;
    let how = alignment(node)?;
    let has_image = match required_dim(&rows, 1)? {
        5 => false,
        6 => true,
        other => return Err(format!("expected regions of 5 or 6 numbers, found {other}").into()),
    };
    let [images, regions] = node.images_and_rotated(&rows, has_image)?;
    node.on_images(&x, |node, x| node.align_rotated(x, &regions, &images, how))
}

/// The maxima of cells of regions. Only training reads the second output, the places of the maxima.
fn pool(node: &mut Node<'_>) -> Outcome {
    let [x, rows] = node.exactly()?;
    // Caffe2 takes the channels of any order to be the first ones.
    if node.layout()? != Layout::First {
        return Err("`RoIPool` has only the order `NCHW`".into());
    }
    expect_rank(&x, 4, "images")?;
    expect_dim(&rows, 1, 5, "a region: the image and the corners")?;
    let (cells, scale) = (cells(node)?, node.float("spatial_scale", 1.0)?);
    node.pool_regions(&x, &rows, cells, scale)
}

/// Averages cells of regions `[regions, 5]`, or of boxes of the only image.
fn align(node: &mut Node<'_>) -> Outcome {
    let [x, rows] = node.exactly()?;
    let how = alignment(node)?;
    let [images, boxes] = match required_dim(&rows, 1)? {
        4 => {
            let count = node.size_of(&rows, 0)?;
            [node.filled_to(DType::Int64, 0.0, &[count])?, rows]
        }
        5 => node.images_and_boxes(&rows)?,
        other => return Err(format!("expected regions of 4 or 5 numbers, found {other}").into()),
    };
    node.on_images(&x, |node, x| node.align(x, &boxes, &images, how))
}

const NEAREST: Resize = Resize::new(Filter::Nearest(Rounding::Down), Places::Asymmetric);

/// Reads the scales of height and width: arguments, or the elements of an operand.
fn scales(node: &mut Node<'_>) -> Outcome<[f32; 2]> {
    let scales = match node.count() {
        1 => [node.float("height_scale", 1.0)?, node.float("width_scale", 1.0)?],
        _ => {
            let known = node.input(1)?.info().floats();
            let known = known.ok_or("expected known scales, found computed ones")?;
            #[expect(clippy::cast_possible_truncation, reason = "the operand has single precision")]
            let narrow: Vec<f32> = known.into_iter().map(|scale| scale as f32).collect();
            narrow.try_into().map_err(|found| format!("expected 2 scales, found {found:?}"))?
        }
    };
    match scales.iter().find(|scale| !scale.is_finite() || **scale <= 0.0) {
        Some(wrong) => Err(format!("expected positive scales, found {wrong}").into()),
        None => Ok(scales),
    }
}

/// Resizes by scales; a dim of the result is rounded down.
fn by_scales(node: &mut Node<'_>, x: &Value, [height, width]: [f32; 2]) -> Outcome {
    let scales = node.singles(&[1.0, 1.0, height, width]);
    let y = node.resize(x, NEAREST, &[], Extent::Scales(&scales))?;
    let is_empty = |value: &Value| value.known_dims().is_some_and(|dims| dims.contains(&0));
    match is_empty(&y) && !is_empty(x) {
        true => Err("expected dims of at least 1, found 0".into()),
        false => Ok(y),
    }
}

/// The nearest elements, at a place divided by the scale and rounded down, in single precision.
fn nearest(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    expect_rank(&x, 4, "images")?;
    let scales = scales(node)?;
    node.on_images(&x, |node, x| by_scales(node, x, scales))
}

/// Repeats each pixel.
fn repeated(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    expect_rank(&x, 4, "images")?;
    #[expect(clippy::cast_precision_loss, reason = "scales are small")]
    let scale = node.int_in("scale", 1..=1 << 16, 2)? as f32;
    by_scales(node, &x, [scale, scale])
}

/// Resizes linearly, with the corners of image and result at the same places.
fn bilinear(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let scales = scales(node)?;
    if rank(&x)? != 4 {
        return Err(format!("expected images of 4 dims, found {}", rank(&x)?).into());
    }
    let mut sizes: Vec<Size> = Vec::new();
    for (axis, scale) in (2..).zip(scales) {
        let dim = node.size_of(&x, axis)?;
        sizes.push(node.scaled(&dim, scale.into(), Precision::Single)?);
    }
    node.resize_to(&x, Resize::new(Filter::Linear, Places::AlignCorners), &sizes)
}

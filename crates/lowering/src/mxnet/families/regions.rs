//! Pooling of regions: rows of (image, left, top, right, bottom).

use lodstone_model::DType;

use super::functions::round;
use super::normalize::single;
use super::spatial::image_size;
use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, product, required_dim};
use crate::onnx::regions::Align;
use crate::onnx::{Value, text};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ROIPooling", Rule::One(roi_pooling)),
    ("_contrib_PSROIPooling", Rule::One(position_sensitive)),
    ("_contrib_ROIAlign", Rule::One(roi_align)),
];

fn pooled(node: &Node<'_>) -> Outcome<[i64; 2]> {
    let size = node.attributes.required_ints("pooled_size")?;
    match size.as_slice() {
        [height @ 1..=4096, width @ 1..=4096] => Ok([*height, *width]),
        _ => Err(wrong("pooled_size", "two small numbers", &format!("{size:?}"))),
    }
}

/// The maximum of each cell. Regions of no image are 0.
fn roi_pooling(node: &mut Node<'_>) -> Outcome {
    let [x, rois] = node.exactly()?;
    let cells = pooled(node)?;
    let scale = single(node.attributes.float("spatial_scale", None)?);
    let (image, is_none) = images(node, &rois)?;
    let boxes = node.slice(&rois, 1, 1, 5)?;
    let image = node.cast(&image, rois.dtype())?;
    let image = node.unsqueeze(&image, &[1])?;
    let rows = node.concat(&[&image, &boxes], 1)?;
    let y = node.pool_regions(&x, &rows, cells, scale)?;
    blank(node, &y, &is_none)
}

/// The mean of samples in each cell. Regions of no image are 0.
fn roi_align(node: &mut Node<'_>) -> Outcome {
    let [x, rois] = node.exactly()?;
    let how = Align {
        is_aligned: node.attributes.flag("aligned", false)?,
        cells: pooled(node)?,
        samples: node.attributes.int("sample_ratio", -1)?,
        scale: single(node.attributes.float("spatial_scale", None)?),
    };
    if node.attributes.flag("position_sensitive", false)? {
        return Err(wrong("position_sensitive", "`False`", "True"));
    }
    let (image, is_none) = images(node, &rois)?;
    let boxes = node.slice(&rois, 1, 1, 5)?;
    let y = node.align(&x, &boxes, &image, how)?;
    blank(node, &y, &is_none)
}

/// Returns the image of each region, the first one for regions of no image, and which these are.
fn images(node: &mut Node<'_>, rois: &Value) -> Outcome<(Value, Value)> {
    let image = node.slice(rois, 1, 0, 1)?;
    let image = node.reshape_to(&image, &[-1])?;
    let zero = node.number(rois.dtype(), 0.0)?;
    let is_none = node.call("Less", &[&image, &zero], [])?;
    let image = node.cast(&image, DType::Int64)?;
    let first = node.long(0);
    Ok((node.call("Max", &[&image, &first], [])?, is_none))
}

/// Sets what is pooled of regions of no image to 0.
fn blank(node: &mut Node<'_>, y: &Value, is_none: &Value) -> Outcome {
    let is_none = node.unsqueeze(is_none, &[1, 2, 3])?;
    let zero = node.number(y.dtype(), 0.0)?;
    node.choose(&is_none, &zero, y)
}

/// The mean of each cell of a region, in a channel of its own. Means of rectangles are differences of sums from the corner
/// of the image.
fn position_sensitive(node: &mut Node<'_>) -> Outcome {
    let [x, rois] = node.exactly()?;
    let scale = node.attributes.float("spatial_scale", None)?;
    let channels = node.attributes.int("output_dim", None)?;
    let cells = node.attributes.int("pooled_size", None)?;
    let groups = match node.attributes.int("group_size", 0)? {
        0 => cells,
        groups => groups,
    };
    let (height, width) = image_size(&x)?;
    if !(1..=64).contains(&cells) || !(1..=64).contains(&groups) || channels < 1 {
        return Err(format!("{cells} cells of {groups} groups are not supported").into());
    }
    if required_dim(&x, 1)? != product(&[channels, groups, groups])? {
        return Err(format!("expected {} channels", channels * groups * groups).into());
    }
    let mut sums = node.cast(&x, DType::Float64)?;
    let pads = node.longs(&[0, 0, 1, 1, 0, 0, 0, 0]);
    for axis in [2, 3] {
        let axis = node.long(axis);
        sums = node.call("CumSum", &[&sums, &axis], [])?;
    }
    sums = node.call("Pad", &[&sums, &pads], [text("mode", "constant")])?;
    let [top, bottom] = cell_ends(node, &rois, 2, (scale, cells, height))?;
    let [left, right] = cell_ends(node, &rois, 1, (scale, cells, width))?;
    // [regions, channels, rows, columns]
    let (top, bottom) = (node.unsqueeze(&top, &[1, 3])?, node.unsqueeze(&bottom, &[1, 3])?);
    let (left, right) = (node.unsqueeze(&left, &[1, 2])?, node.unsqueeze(&right, &[1, 2])?);
    let image = node.slice(&rois, 1, 0, 1)?;
    let image = node.cast(&image, DType::Int64)?;
    let image = node.unsqueeze(&image, &[2, 3])?;
    let group = |cell: i64| cell * groups / cells;
    let mut places = Vec::new();
    for channel in 0..channels {
        for row in 0..cells {
            places.extend(
                (0..cells).map(|column| (channel * groups + group(row)) * groups + group(column)),
            );
        }
    }
    let channel = node.longs(&places);
    let channel = node.reshape(&channel, &[1, channels, cells, cells])?;
    let mut corner = |down: &Value, across: &Value| {
        let all = [&image, &channel, down, across];
        let mut dims = node.call("Shape", &[&image], [])?;
        for part in all {
            let own = node.call("Shape", &[part], [])?;
            dims = node.call("Max", &[&dims, &own], [])?;
        }
        let parts = all.map(|part| node.call("Expand", &[part, &dims], []));
        let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
        let place = node.stacked(&parts.iter().collect::<Vec<_>>())?;
        node.call("GatherND", &[&sums, &place], [])
    };
    let (all, above) = (corner(&bottom, &right)?, corner(&top, &right)?);
    let (before, both) = (corner(&bottom, &left)?, corner(&top, &left)?);
    let sum = node.sub(&all, &above)?;
    let sum = node.sub(&sum, &before)?;
    let sum = node.add(&sum, &both)?;
    let (rows, columns) = (node.sub(&bottom, &top)?, node.sub(&right, &left)?);
    let zero = node.long(0);
    let (rows, columns) =
        (node.call("Max", &[&rows, &zero], [])?, node.call("Max", &[&columns, &zero], [])?);
    let area = node.mul(&rows, &columns)?;
    let is_empty = node.call("Equal", &[&area, &zero], [])?;
    let area = node.cast(&area, DType::Float64)?;
    let mean = node.div(&sum, &area)?;
    let nothing = node.number(DType::Float64, 0.0)?;
    let mean = node.choose(&is_empty, &nothing, &mean)?;
    node.cast(&mean, x.dtype())
}

/// Returns where the cells of each region begin and end along an axis: `[regions, cells]`, clipped to the image.
fn cell_ends(
    node: &mut Node<'_>,
    rois: &Value,
    first: i64,
    (scale, cells, dim): (f64, i64, i64),
) -> Outcome<[Value; 2]> {
    let start = node.slice(rois, 1, first, first + 1)?;
    let start = round(node, &start)?;
    let start = node.times(&start, scale)?;
    let end = node.slice(rois, 1, first + 2, first + 3)?;
    let end = node.plus(&end, 1.0)?;
    let end = round(node, &end)?;
    let end = node.times(&end, scale)?;
    let size = node.sub(&end, &start)?;
    let least = node.number(size.dtype(), 0.1)?;
    let size = node.call("Max", &[&size, &least], [])?;
    #[expect(clippy::cast_precision_loss, reason = "there are at most 64 cells")]
    let size = node.times(&size, 1.0 / cells as f64)?;
    let mut ends = Vec::new();
    for (next, kind) in [(0, "Floor"), (1, "Ceil")] {
        let places = node.longs(&(next..cells + next).collect::<Vec<_>>());
        let places = node.cast(&places, size.dtype())?;
        let place = node.mul(&size, &places)?;
        let place = node.add(&place, &start)?;
        let whole = node.call(kind, &[&place], [])?;
        #[expect(clippy::cast_precision_loss, reason = "images are small")]
        let whole = node.clamp(&whole, 0.0, dim as f64)?;
        ends.push(node.cast(&whole, DType::Int64)?);
    }
    let [begin, end] = <[Value; 2]>::try_from(ends)
        .map_err(|_| lodstone_schema::Finding::internal("an end was lost"))?;
    Ok([begin, end])
}

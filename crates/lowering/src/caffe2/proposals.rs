//! Proposed regions: generated from the scores of anchors, and collected from and distributed to the levels of a pyramid.

use lodstone_model::DType;

use super::node::{Node, Outcome, ROTATED, Rule, expect_dim, expect_rank};
use crate::onnx::boxes::{Corners, Edge, Measure};
use crate::onnx::pyramid::{Levels, Logarithm};
use crate::onnx::required::required_dim;
use crate::onnx::suppression::{BOTTOM, Suppression};
use crate::onnx::{Size, Value};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("CollectAndDistributeFpnRpnProposals", Rule::Many(collected_and_distributed)),
    ("CollectRpnProposals", Rule::One(collected)),
    ("DistributeFpnProposals", Rule::Many(distributed)),
    ("GenerateProposals", Rule::Many(proposals)),
    ("GenerateProposalsCPP", Rule::Many(proposals)),
];

/// Proposes regions: rows of image and box, and their scores.
fn proposals(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [scores, deltas, images, anchors] = node.exactly()?;
    expect_rank(&scores, 4, "scores")?;
    expect_rank(&deltas, 4, "deltas")?;
    if required_dim(&anchors, 1)? == 5 {
        return Err(ROTATED.into());
    }
    expect_dim(&anchors, 1, 4, "an anchor")?;
    let edge = Edge::inclusive_if(node.flag("legacy_plus_one", true)?);
    let (before, after) = (node.int("pre_nms_topN", 6000)?, node.int("post_nms_topN", 300)?);
    let least = node.float("min_size", 16.0)?;
    let mut how = Suppression {
        edge,
        above: Some(BOTTOM),
        ..Suppression::above(node.float("nms_thresh", 0.7)?.into())
    };
    if after > 0 {
        how.most = after;
    }
    let [columns, rows] = [cells(node, &scores, 3)?, cells(node, &scores, 2)?];
    let all = node.anchors_of_cells(&anchors, &columns, &rows)?;
    let kinds = node.size_of(&anchors, 0)?;
    let deltas = node.deltas_by_anchor(&deltas, &kinds)?;
    let flat = [node.size_of(&deltas, 0)?, node.size_of(&deltas, 1)?];
    let scores = node.reshape_to(&scores, &flat)?;
    let best = node.candidates(&scores, &deltas, &all, (before > 0).then_some(before))?;
    // [images, 1]
    let mut column = |at: i64| node.slice(&images, 1, at, at + 1);
    let (height, width, scale) = (column(0)?, column(1)?, column(2)?);
    let mut last = |size: &Value| {
        let size = node.call("Floor", &[size], [])?;
        node.plus(&size, -edge.excess())
    };
    let last = [last(&width)?, last(&height)?];
    let corners = node.moved_anchors(&best.deltas, &best.anchors, edge, last.each_ref())?;
    let marks = marks(node, &corners, edge, least, [&width, &height, &scale])?;
    let mut ranked = node.eligible(&best.scores, &marks)?;
    // With a minimum size, no box is empty.
    if edge == Edge::Exclusive && least <= 0.0 {
        ranked = node.without_empty(&corners, &ranked)?;
    }
    let found = node.proposed(&corners, &ranked, how)?;
    let image = node.cast(&found.images, DType::Float32)?;
    Ok(vec![node.concat(&[&image, &found.boxes], 1)?, found.scores])
}

/// Returns where the cells of an axis are in the image.
fn cells(node: &mut Node<'_>, scores: &Value, axis: i64) -> Outcome {
    let scale = node.float("spatial_scale", 1.0 / 16.0)?;
    if !scale.is_normal() || scale < 0.0 {
        return Err(format!("expected a positive `spatial_scale`, found {scale}").into());
    }
    #[expect(clippy::cast_possible_truncation, reason = "the stride has single precision")]
    let stride = (1.0 / f64::from(scale)) as f32;
    let count = node.extent(scores, axis)?;
    let numbers = node.counting(&count, DType::Float32)?;
    node.times(&numbers, stride.into())
}

/// Returns whether each box has the least size, and a center inside the image.
fn marks(
    node: &mut Node<'_>,
    corners: &Corners,
    edge: Edge,
    least: f32,
    [width, height, scale]: [&Value; 3],
) -> Outcome<Vec<Value>> {
    let least = node.times(scale, least.into())?;
    let boxes = node.centered(corners, Measure::half(edge))?;
    let mut marks = Vec::new();
    for ((size, center), image) in boxes.size.iter().zip(&boxes.center).zip([width, height]) {
        marks.push(node.call("GreaterOrEqual", &[size, &least], [])?);
        marks.push(node.call("Less", &[center, image], [])?);
    }
    Ok(marks)
}

/// Returns rows of image and box of all levels, by falling score; those of equal scores in their order.
fn collected(node: &mut Node<'_>) -> Outcome {
    let (least, most) = (node.int("rpn_min_level", 2)?, node.int("rpn_max_level", 6)?);
    let inputs = node.all()?;
    let levels = inputs.len() / 2;
    if most.checked_sub(least).and_then(|it| it.checked_add(1)) != i64::try_from(levels).ok()
        || inputs.len() % 2 != 0
    {
        let found = inputs.len();
        return Err(format!(
            "expected regions and scores of levels {least} to {most}, found {found} inputs"
        )
        .into());
    }
    let (rois, scores) = inputs.split_at(levels);
    let scores: Vec<Value> =
        scores.iter().map(|it| node.reshape(it, &[-1])).collect::<Outcome<_>>()?;
    for rois in rois {
        expect_rank(rois, 2, "regions")?;
        expect_dim(rois, 1, 5, "a region")?;
    }
    let rois = node.concat(&rois.iter().collect::<Vec<_>>(), 0)?;
    let scores = node.concat(&scores.iter().collect::<Vec<_>>(), 0)?;
    let most = node.int("rpn_post_nms_topN", 2000)?;
    let [_, best] = node.highest(&scores, (most > 0).then_some(most), true)?;
    node.gather(&rois, &best, 0)
}

/// Assigns rows of image and box to levels. Returns those of each level, and the place of each among all of them.
fn by_level(node: &mut Node<'_>, rois: &Value) -> Outcome<Vec<Value>> {
    let levels = Levels {
        least: node.int("roi_min_level", 2)?,
        most: node.int("roi_max_level", 5)?,
        reference: node.int("roi_canonical_level", 4)?,
        scale: node.int_in("roi_canonical_scale", 1..=1 << 24, 224)?,
        logarithm: Logarithm::Natural,
    };
    let edge = Edge::inclusive_if(node.flag("legacy_plus_one", true)?);
    let boxes = node.slice(rois, 1, 1, 5)?;
    let corners = node.corners(&boxes)?;
    let [width, height] = node.sides(&corners, edge)?;
    let area = node.mul(&width, &height)?;
    let size = node.call("Sqrt", &[&area], [])?;
    let (mut results, mut places) = (Vec::new(), Vec::new());
    for own in node.regions_of_levels(&size, levels)? {
        let place = node.places(&own)?;
        results.push(node.gather(rois, &place, 0)?);
        places.push(place);
    }
    results.push(node.restored(&places)?);
    Ok(results)
}

fn distributed(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [rois] = node.exactly()?;
    expect_rank(&rois, 2, "regions")?;
    let rois = match required_dim(&rois, 1)? {
        // Boxes of the first image.
        4 => {
            let count = node.size_of(&rois, 0)?;
            let image = node.filled_to(DType::Float32, 0.0, &[count, Size::Known(1)])?;
            node.concat(&[&image, &rois], 1)?
        }
        5 => rois,
        found => return Err(format!("expected regions of 4 or 5 numbers, found {found}").into()),
    };
    by_level(node, &rois)
}

fn collected_and_distributed(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let rois = collected(node)?;
    let mut results = vec![rois.clone()];
    results.extend(by_level(node, &rois)?);
    Ok(results)
}

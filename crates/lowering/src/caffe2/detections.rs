//! Boxes of classes that a detector finds.

use lodstone_model::DType;

use super::node::{Node, Outcome, ROTATED, Rule, expect_dim};
use crate::onnx::boxes::{Corners, Edge, each};
use crate::onnx::required::required_dim;
use crate::onnx::segments::Segments;
use crate::onnx::suppression::{BOTTOM, Suppression};
use crate::onnx::{Size, Value};

pub(super) const RULES: &[(&str, Rule)] = &[("BoxWithNMSLimit", Rule::Many(limited))];

/// How boxes are assigned to classes.
struct Layout {
    /// The number of classes without the background.
    classes: i64,
    /// The first class without the background: of scores, and of boxes.
    first: i64,
    /// Whether all classes have the same boxes.
    is_shared: bool,
}

/// The images of boxes.
struct Images {
    count: Size,
    /// The rows of each image; `None` for a single one.
    rows: Option<Segments>,
}

/// Boxes as [`suppressed`](crate::onnx::Graph::suppressed) takes them.
struct Ranked {
    /// `[batch, boxes]`; the batch is images, unless each class has boxes of its own: images times classes.
    corners: Corners,
    /// `[batch, classes, boxes]`, or `[batch, 1, boxes]`.
    scores: Value,
}

/// The boxes that remain: a row of each, by image, class and falling score.
struct Found {
    /// `[found]`
    scores: Value,
    /// `[found, 1]`
    image: Value,
    class: Value,
    place: Value,
}

/// Suppresses boxes in each class, and keeps the best of each image: scores, boxes and classes, the number of boxes of each
/// image, the places of the boxes in their images, and the number of boxes of each class.
fn limited(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    if node.flag("rotated", false)? {
        return Err(ROTATED.into());
    }
    if node.flag("soft_nms_enabled", false)? {
        return Err("ONNX has no suppression that lowers scores (`soft_nms_enabled`)".into());
    }
    let (scores, boxes) = (matrix(node, 0)?, matrix(node, 1)?);
    let columns = required_dim(&scores, 1)?;
    let layout = Layout {
        classes: columns - 1,
        first: node.flag("input_boxes_include_bg_cls", true)?.into(),
        is_shared: node.flag("cls_agnostic_bbox_reg", false)?,
    };
    if layout.classes < 1 {
        return Err(
            format!("expected scores of a class and the background, found {columns}").into()
        );
    }
    let sets = if layout.is_shared { 1 } else { layout.classes + layout.first };
    expect_dim(&boxes, 1, sets * 4, "boxes of each class: a row")?;
    let count = node.size_of(&boxes, 0)?;
    let rows = node.optional(2)?.map(|counts| node.segments_of(&counts, &count)).transpose()?;
    let images = Images {
        count: rows.as_ref().map_or(Size::Known(1), |rows| rows.groups.clone()),
        rows: rows.filter(|rows| rows.groups.known() != Some(1)),
    };
    let boxes = node.reshape_to(&boxes, &[count, Size::Known(sets), Size::Known(4)])?;
    let mut boxes = node.transpose(&boxes, &[1, 0, 2])?;
    if !layout.is_shared {
        boxes = node.slice(&boxes, 0, layout.first, layout.first + layout.classes)?;
    }
    let ranked = ranked(node, &scores, &boxes, &layout, &images)?;
    let found = found(node, &ranked, &layout, &images)?;
    results(node, &found, &boxes, &layout, &images)
}

/// Returns an input of rows, which may have two more dims of 1.
fn matrix(node: &mut Node<'_>, index: usize) -> Outcome {
    let x = node.input(index)?;
    match x.rank()?.count() {
        2 => Ok(x),
        4 => {
            let sizes = [node.size_of(&x, 0)?, node.size_of(&x, 1)?];
            node.reshape_to(&x, &sizes)
        }
        rank => Err(format!("expected rows, found rank {rank}").into()),
    }
}

/// Returns the boxes `[sets, boxes, 4]` of each batch; scores of the boxes of other images are infinitely low.
fn ranked(
    node: &mut Node<'_>,
    scores: &Value,
    boxes: &Value,
    layout: &Layout,
    images: &Images,
) -> Outcome<Ranked> {
    let scores = node.slice(scores, 1, layout.first, layout.first + layout.classes)?;
    let scores = node.transpose(&scores, &[1, 0])?;
    let corners = node.corners(boxes)?;
    let Some(rows) = &images.rows else {
        let axis = if layout.is_shared { 0 } else { 1 };
        return Ok(Ranked { corners, scores: node.unsqueeze(&scores, &[axis])? });
    };
    let count = node.scalar_of(&images.count)?;
    let numbers = node.counting(&count, DType::Int64)?;
    let numbers = node.unsqueeze(&numbers, &[1, 2])?;
    // [images, 1, boxes]
    let is_own = node.call("Equal", &[&numbers, &rows.number], [])?;
    let lowest = node.number(scores.dtype(), f64::NEG_INFINITY)?;
    // [images, classes, boxes]
    let scores = node.choose(&is_own, &scores, &lowest)?;
    let mut sizes = node.sizes_of(&scores)?;
    let (batch, total) = if layout.is_shared {
        sizes.remove(1);
        (images.count.clone(), sizes.clone())
    } else {
        let batch = node.product_of(&images.count, &Size::Known(layout.classes))?;
        (batch.clone(), vec![batch, rows.rows.clone()])
    };
    let corners = each(&corners, |corner| {
        let corner = node.expand_to(corner, &sizes)?;
        node.reshape_to(&corner, &total)
    })?;
    let scores = match layout.is_shared {
        true => scores,
        false => node.reshape_to(&scores, &[batch, Size::Known(1), rows.rows.clone()])?,
    };
    Ok(Ranked { corners, scores })
}

/// Suppresses boxes, and keeps the best of each image.
fn found(node: &mut Node<'_>, ranked: &Ranked, layout: &Layout, images: &Images) -> Outcome<Found> {
    let most = node.int("detections_per_im", 100)?;
    let edge = Edge::inclusive_if(node.flag("legacy_plus_one", true)?);
    let above = f64::from(node.float("score_thresh", 0.05)?).max(BOTTOM);
    let how = Suppression::above(node.float("nms", 0.3)?.into());
    let mut how = Suppression { edge, above: Some(above), ..how };
    if most > 0 {
        how.most = most;
    }
    let Ranked { corners, scores } = ranked;
    let scores = match edge {
        Edge::Exclusive => node.without_empty(corners, scores)?,
        Edge::Inclusive => scores.clone(),
    };
    let chosen = node.suppressed(corners, &scores, how)?;
    let scores = node.call("GatherND", &[&scores, &chosen], [])?;
    let mut column = |at: i64| node.slice(&chosen, 1, at, at + 1);
    let (first, second, place) = (column(0)?, column(1)?, column(2)?);
    let (image, class) = if layout.is_shared {
        (first, second)
    } else {
        let classes = node.long(layout.classes);
        (node.div(&first, &classes)?, node.call("Mod", &[&first, &classes], [])?)
    };
    if most <= 0 {
        return Ok(Found { scores, image, class, place });
    }
    let best = match &images.rows {
        Some(_) => {
            let count = node.scalar_of(&images.count)?;
            node.best_of_images(&scores, Some((&image, &count)), most)?
        }
        None => node.best_of_images(&scores, None, most)?,
    };
    let mut pick = |x: &Value| node.gather(x, &best, 0);
    Ok(Found {
        scores: pick(&scores)?,
        image: pick(&image)?,
        class: pick(&class)?,
        place: pick(&place)?,
    })
}

fn results(
    node: &mut Node<'_>,
    found: &Found,
    boxes: &Value,
    layout: &Layout,
    images: &Images,
) -> Outcome<Vec<Value>> {
    let own = if layout.is_shared {
        let zero = node.long(0);
        node.mul(&found.class, &zero)?
    } else {
        found.class.clone()
    };
    let places = node.concat(&[&own, &found.place], 1)?;
    let boxes = node.call("GatherND", &[boxes, &places], [])?;
    let mut column = |x: &Value| node.reshape(x, &[-1]);
    let (image, class, place) =
        (column(&found.image)?, column(&found.class)?, column(&found.place)?);
    let one = node.long(1);
    let class = node.add(&class, &one)?;
    let labels = node.cast(&class, DType::Float32)?;
    let labels = match node.flag("output_classes_include_bg_cls", true)? {
        true => labels,
        false => node.plus(&labels, -1.0)?,
    };
    let count = node.scalar_of(&images.count)?;
    let counts = node.image_counts(&image, &count, None)?;
    let counts = node.cast(&counts, DType::Float32)?;
    let mut results = vec![found.scores.clone(), boxes, labels, counts];
    if node.outputs() > results.len() {
        results.extend(kept(node, [&image, &class, &place], layout, images)?);
    }
    Ok(results)
}

/// Returns the places of boxes in their images, and how many boxes each class of each image has, with the background.
fn kept(
    node: &mut Node<'_>,
    [image, class, place]: [&Value; 3],
    layout: &Layout,
    images: &Images,
) -> Outcome<[Value; 2]> {
    let place = match &images.rows {
        Some(rows) => {
            let start = node.gather(&rows.starts, image, 0)?;
            node.sub(place, &start)?
        }
        None => place.clone(),
    };
    let columns = Size::Known(layout.classes + 1);
    let stride = node.scalar_of(&columns)?;
    let key = node.mul(image, &stride)?;
    let key = node.add(&key, class)?;
    let all = node.product_of(&images.count, &columns)?;
    let zeros = node.filled_to(DType::Int64, 0.0, &[all])?;
    let ones = node.constant_like(&key, DType::Int64, 1.0)?;
    let counts = node.put_elements(&zeros, &key, &ones, 0, "add")?;
    let counts = node.reshape_to(&counts, &[images.count.clone(), columns])?;
    Ok([node.cast(&place, DType::Int32)?, node.cast(&counts, DType::Int32)?])
}

//! Boxes of classes that a detector finds.

use lodstone_model::{DType, Op};
use lodstone_schema::Finding;
use lodstone_schema::onnx::quoted;

use super::node::{Blob, Node, Outcome, ROTATED, Rule, expect_dim};
use super::walk::Walk;
use crate::frame::control::Slices;
use crate::frame::{Scope, Step};
use crate::onnx::boxes::{Corners, Edge, each};
use crate::onnx::required::required_dim;
use crate::onnx::segments::Segments;
use crate::onnx::suppression::{BOTTOM, Suppression};
use crate::onnx::{Graph, Size, Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[("BoxWithNMSLimit", Rule::Control(limited))];

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
fn limited<'m>(
    walk: &mut Walk<'m>,
    op: &'m Op,
    inputs: &[Blob],
    _: &Scope<Blob>,
) -> Step<Vec<Value>> {
    let node = &mut walk.node(op, inputs.to_vec());
    let all = Detected::of(node)?;
    let soft = Soft::of(node)?;
    let chosen = match soft {
        Some(soft) => {
            let scores = softened(walk, op, &all.ranked, &soft)?;
            sorted(&mut walk.node(op, inputs.to_vec()), &scores)?
        }
        None => suppressed(node, &all.ranked)?,
    };
    let node = &mut walk.node(op, inputs.to_vec());
    let found = found(node, chosen, &all)?;
    Ok(results(node, &found, &all)?)
}

/// The boxes of all images.
struct Detected {
    layout: Layout,
    images: Images,
    /// `[sets, boxes, 4]`
    boxes: Value,
    ranked: Ranked,
}

/// Boxes that remain, by image, class and falling score.
struct Chosen {
    scores: Value,
    /// Rows of (example, class, box).
    rows: Value,
}

impl Detected {
    fn of(node: &mut Node<'_>) -> Outcome<Self> {
        if node.flag("rotated", false)? {
            return Err(ROTATED.into());
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
        Ok(Self { layout, images, boxes, ranked })
    }
}

/// How suppression lowers the scores of boxes rather than dropping them.
struct Soft {
    edge: Edge,
    /// The score that boxes must exceed at first.
    above: f64,
    /// The least score of boxes that remain.
    least: f64,
    decay: Decay,
}

/// By what the score of a box is multiplied, by its overlap with a better one.
enum Decay {
    /// By what is not shared, if more is shared than the threshold.
    Linear {
        threshold: f64,
    },
    Gaussian {
        sigma: f64,
    },
}

impl Soft {
    fn of(node: &Node<'_>) -> Outcome<Option<Self>> {
        if !node.flag("soft_nms_enabled", false)? {
            return Ok(None);
        }
        let decay = match node.text("soft_nms_method", "linear")?.as_str() {
            "linear" => Decay::Linear { threshold: node.float("nms", 0.3)?.into() },
            "gaussian" => Decay::Gaussian { sigma: node.float("soft_nms_sigma", 0.5)?.into() },
            other => {
                let what = format!("expected `linear` or `gaussian`, found {}", quoted(other));
                return Err(Finding::from(what).about_attribute("soft_nms_method"));
            }
        };
        Ok(Some(Self {
            edge: edge(node)?,
            above: above(node)?,
            least: node.float("soft_nms_min_score_thres", 0.001)?.into(),
            decay,
        }))
    }
}

/// Returns whether the pixel at the right bottom corner is inside of a box.
fn edge(node: &Node<'_>) -> Outcome<Edge> {
    Ok(Edge::inclusive_if(node.flag("legacy_plus_one", true)?))
}

/// Returns the score that boxes must exceed.
fn above(node: &Node<'_>) -> Outcome<f64> {
    Ok(f64::from(node.float("score_thresh", 0.05)?).max(BOTTOM))
}

/// Returns the lowered scores `[batch, classes, boxes]`; those of dropped boxes are infinitely low. Each step takes the best
/// box of a class, and lowers the scores of the others.
fn softened<'m>(walk: &mut Walk<'m>, op: &'m Op, ranked: &Ranked, how: &Soft) -> Step<Value> {
    let graph = &mut walk.graph;
    let scores = &ranked.scores;
    let (lowest, above) = (
        graph.number(scores.dtype(), f64::NEG_INFINITY)?,
        graph.number(scores.dtype(), how.above)?,
    );
    let is_pending = graph.call("Greater", &[scores, &above], [])?;
    let pending = graph.choose(&is_pending, scores, &lowest)?;
    let taken = graph.constant_like(scores, scores.dtype(), f64::NEG_INFINITY)?;
    // [batch, 1, boxes]
    let corners = graph.spread(&ranked.corners, &[1])?;
    let count = graph.extent(scores, 2)?;
    let numbers = graph.counting(&count, DType::Int64)?;
    let body = |walk: &mut Walk<'m>, own: &[Value], _: &[Value]| {
        let [pending, taken] = own else {
            return Err(Finding::internal("a state was lost").into());
        };
        let graph = &mut walk.graph;
        let keeps = || [int("axis", -1), int("keepdims", 1)];
        let best = graph.call("ArgMax", &[pending], keeps())?;
        let is_own = graph.call("Equal", &[&numbers, &best], [])?;
        let is_left = graph.call("Greater", &[pending, &lowest], [])?;
        let is_best = graph.call("And", &[&is_own, &is_left], [])?;
        let taken = graph.choose(&is_best, pending, taken)?;
        let zero = graph.number(pending.dtype(), 0.0)?;
        // [batch, classes, 1]
        let best = each(&corners, |corner| {
            let own = graph.choose(&is_best, corner, &zero)?;
            graph.reduce("ReduceSum", &own, &[2], true)
        })?;
        let weight = weight(graph, [&best, &corners], how)?;
        let lowered = graph.mul(pending, &weight)?;
        let least = graph.number(lowered.dtype(), how.least)?;
        let is_kept = graph.call("GreaterOrEqual", &[&lowered, &least], [])?;
        let is_other = graph.call("Not", &[&is_best], [])?;
        let is_kept = graph.call("And", &[&is_kept, &is_other], [])?;
        let is_kept = graph.call("And", &[&is_kept, &is_left], [])?;
        let pending = graph.choose(&is_kept, &lowered, &lowest)?;
        Ok((vec![pending, taken], Vec::new()))
    };
    let slices = Slices { data: std::slice::from_ref(&numbers), is_reverse: false };
    let mut looped = walk.scan(&op.name, &[pending, taken], slices, body)?;
    Ok(looped.states.pop().ok_or_else(|| Finding::internal("a state was lost"))?)
}

/// Returns what the scores of boxes are multiplied by.
fn weight(graph: &mut Graph, [best, all]: [&Corners; 2], how: &Soft) -> Outcome {
    let mut area = |corners: &Corners| {
        let [width, height] = graph.sides(corners, how.edge)?;
        graph.mul(&width, &height)
    };
    let (own, others) = (area(best)?, area(all)?);
    let shared = [
        graph.call("Max", &[&best[0], &all[0]], [])?,
        graph.call("Max", &[&best[1], &all[1]], [])?,
        graph.call("Min", &[&best[2], &all[2]], [])?,
        graph.call("Min", &[&best[3], &all[3]], [])?,
    ];
    let zero = graph.number(own.dtype(), 0.0)?;
    let sides = graph.sides(&shared, how.edge)?;
    let [width, height] = each(&sides, |side| graph.call("Max", &[side, &zero], []))?;
    let shared = graph.mul(&width, &height)?;
    let both = graph.add(&own, &others)?;
    let both = graph.sub(&both, &shared)?;
    let overlap = graph.div(&shared, &both)?;
    match how.decay {
        Decay::Linear { threshold } => {
            let (one, threshold) =
                (graph.number(overlap.dtype(), 1.0)?, graph.number(overlap.dtype(), threshold)?);
            let is_over = graph.call("Greater", &[&overlap, &threshold], [])?;
            let rest = graph.sub(&one, &overlap)?;
            graph.choose(&is_over, &rest, &one)
        }
        Decay::Gaussian { sigma } => {
            let square = graph.mul(&overlap, &overlap)?;
            let sigma = graph.number(square.dtype(), -sigma)?;
            let power = graph.div(&square, &sigma)?;
            graph.call("Exp", &[&power], [])
        }
    }
}

/// Returns the boxes whose scores are finite.
fn sorted(node: &mut Node<'_>, scores: &Value) -> Outcome<Chosen> {
    let [scores, places] = node.highest(scores, None, true)?;
    let lowest = node.number(scores.dtype(), f64::NEG_INFINITY)?;
    let is_left = node.call("Greater", &[&scores, &lowest], [])?;
    let rows = node.call("NonZero", &[&is_left], [])?;
    let rows = node.transpose(&rows, &[1, 0])?;
    let scores = node.call("GatherND", &[&scores, &rows], [])?;
    let places = node.call("GatherND", &[&places, &rows], [])?;
    let places = node.unsqueeze(&places, &[1])?;
    let front = node.slice(&rows, 1, 0, 2)?;
    Ok(Chosen { scores, rows: node.concat(&[&front, &places], 1)? })
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

/// Drops boxes that overlap better ones.
fn suppressed(node: &mut Node<'_>, ranked: &Ranked) -> Outcome<Chosen> {
    let (most, edge) = (most(node)?, edge(node)?);
    let how = Suppression::above(node.float("nms", 0.3)?.into());
    let mut how = Suppression { edge, above: Some(above(node)?), ..how };
    if most > 0 {
        how.most = most;
    }
    let Ranked { corners, scores } = ranked;
    let scores = match edge {
        Edge::Exclusive => node.without_empty(corners, scores)?,
        Edge::Inclusive => scores.clone(),
    };
    let rows = node.suppressed(corners, &scores, how)?;
    Ok(Chosen { scores: node.call("GatherND", &[&scores, &rows], [])?, rows })
}

/// Returns how many boxes of an image are kept; 0 or less is no limit.
fn most(node: &Node<'_>) -> Outcome<i64> {
    node.int("detections_per_im", 100)
}

/// Keeps the best boxes of each image.
fn found(node: &mut Node<'_>, chosen: Chosen, all: &Detected) -> Outcome<Found> {
    let Chosen { scores, rows } = chosen;
    let (most, Detected { layout, images, .. }) = (most(node)?, all);
    let mut column = |at: i64| node.slice(&rows, 1, at, at + 1);
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

fn results(node: &mut Node<'_>, found: &Found, all: &Detected) -> Outcome<Vec<Value>> {
    let Detected { layout, images, boxes, .. } = all;
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

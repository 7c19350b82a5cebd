//! Boxes: priors, decoding, overlap and suppression.
//!
//! Corners are (left, top, right, bottom); the other form is (center x, center y, width, height).

use lodstone_model::DType;
use lodstone_schema::numbers::{exact, length};

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, dim_of, place_in, product, rank, required_dim};
use crate::onnx::boxes::{Centered, Corners, Grid, Measure, Overlap, each, tiled};
use crate::onnx::suppression::{BOTTOM, Suppression};
use crate::onnx::{Size, Value, int};

use super::normalize::single;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("_contrib_MultiBoxPrior", Rule::One(prior)),
    ("_contrib_box_decode", Rule::One(decode)),
    ("_contrib_box_encode", Rule::Many(encode)),
    ("_contrib_box_iou", Rule::One(overlaps)),
    ("_contrib_box_nms", Rule::One(suppress)),
];

/// The maximum number of prior boxes.
const MAX_PRIORS: i64 = 1 << 22;

/// Boxes around the center of each pixel: of each size with the first ratio, then of the first size with the others.
fn prior(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let sizes = node.attributes.floats("sizes", &[1.0])?;
    let ratios = node.attributes.floats("ratios", &[1.0])?;
    let clips = node.attributes.flag("clip", false)?;
    let steps = node.attributes.floats("steps", &[-1.0, -1.0])?;
    let offsets = node.attributes.floats("offsets", &[0.5, 0.5])?;
    let (Some(size), Some(ratio)) = (sizes.first(), ratios.first()) else {
        return Err("expected at least one size and one ratio".into());
    };
    let ([down, right], [above, before]) = (steps.as_slice(), offsets.as_slice()) else {
        return Err("expected two steps and two offsets".into());
    };
    let kinds = sizes.iter().map(|size| (*size, *ratio));
    let kinds = kinds.chain(ratios.iter().skip(1).map(|ratio| (*size, *ratio)));
    let kinds: Vec<[f32; 2]> =
        kinds.map(|(size, ratio)| [single(size), single(ratio).sqrt()]).collect();
    if rank(&x)? != 4 {
        return Err(format!("expected images of rank 4, found rank {}", rank(&x)?).into());
    }
    let (Some(height), Some(width)) = (dim_of(&x, 2), dim_of(&x, 3)) else {
        let places = [(*before, *right), (*above, *down)];
        return priors_of_any(node, &x, &kinds, places, clips);
    };
    let boxes = product(&[height, width, length(kinds.len())])?;
    if boxes > MAX_PRIORS {
        return Err(
            format!("{height} times {width} times {} boxes are too many", kinds.len()).into()
        );
    }
    #[expect(clippy::cast_precision_loss, reason = "images are small")]
    let (rows, columns) = (height as f32, width as f32);
    let step = |given: f64, dim: f32| if given > 0.0 { single(given) } else { 1.0 / dim };
    let places = |count: i64, offset: f64, step: f32| {
        #[expect(clippy::cast_precision_loss, reason = "images are small")]
        (0..count).map(|at| (at as f32 + single(offset)) * step).collect::<Vec<f32>>()
    };
    let (columns_at, rows_at) =
        (places(width, *before, step(*right, columns)), places(height, *above, step(*down, rows)));
    let of_kind = |[size, root]: &[f32; 2]| {
        let (half, high) = (size * rows / columns * root / 2.0, size / root / 2.0);
        [-half, -high, half, high]
    };
    let kinds: Vec<[f32; 4]> = kinds.iter().map(of_kind).collect();
    let mut all = tiled(&columns_at, &rows_at, &kinds);
    if clips {
        all.iter_mut().for_each(|it| *it = it.clamp(0.0, 1.0));
    }
    Ok(node.floats(&all, &[1, exact(boxes)?, 4]))
}

/// The same for images whose dims are not known. `kinds` are sizes and roots of ratios, `places` the offset and the step
/// across and down.
fn priors_of_any(
    node: &mut Node<'_>,
    x: &Value,
    kinds: &[[f32; 2]],
    places: [(f64, f64); 2],
    clips: bool,
) -> Outcome {
    let (columns, rows) = (node.extent(x, 3)?, node.extent(x, 2)?);
    let [wide, high] = [node.cast(&columns, DType::Float32)?, node.cast(&rows, DType::Float32)?];
    let centers = |node: &mut Node<'_>, count: &Value, dim: &Value, (offset, step): (f64, f64)| {
        let one = node.number(DType::Float32, 1.0)?;
        let step =
            if step > 0.0 { node.number(DType::Float32, step)? } else { node.div(&one, dim)? };
        let numbers = node.counting(count, DType::Float32)?;
        let numbers = node.plus(&numbers, offset)?;
        node.mul(&numbers, &step)
    };
    let [across, down] = places;
    let centers = [centers(node, &columns, &wide, across)?, centers(node, &rows, &high, down)?];
    let list = |node: &mut Node<'_>, of: fn(&[f32; 2]) -> f32| {
        node.singles(&kinds.iter().map(of).collect::<Vec<f32>>())
    };
    let (sizes, roots) = (list(node, |kind| kind[0]), list(node, |kind| kind[1]));
    let half_width = node.mul(&sizes, &high)?;
    let half_width = node.div(&half_width, &wide)?;
    let half_width = node.mul(&half_width, &roots)?;
    let half_width = node.times(&half_width, 0.5)?;
    let half_height = list(node, |[size, root]| size / root / 2.0);
    let grid = Grid { centers, offsets: [None, None], halves: [half_width, half_height] };
    let corners = node.grid(&grid, None)?;
    let count = node.long(length(kinds.len()));
    let dims = node.list_of(&[Size::Value(rows), Size::Value(columns), Size::Value(count)])?;
    let boxes = node.boxes_of(&corners, &dims)?;
    let boxes = if clips { node.clamp(&boxes, 0.0, 1.0)? } else { boxes };
    node.reshape_to(&boxes, &[1, -1, 4])
}

impl Node<'_> {
    /// Returns the word of a format of boxes as whether they are corners.
    fn is_corner(&self, name: &str, default: &'static str) -> Outcome<bool> {
        Ok(self.attributes.word(name, &["corner", "center"], default)? == "corner")
    }

    /// Returns boxes of a format as corners.
    fn corners_of(&mut self, boxes: &Value, is_corner: bool) -> Outcome<Corners> {
        let parts = self.corners(boxes)?;
        if is_corner { Ok(parts) } else { self.cornered(&apart(parts), Measure::EXCLUSIVE) }
    }

    /// Returns boxes of a format as centers and sizes.
    fn centers_of(&mut self, boxes: &Value, is_corner: bool) -> Outcome<Centered> {
        let parts = self.corners(boxes)?;
        if is_corner { self.centered(&parts, Measure::EXCLUSIVE) } else { Ok(apart(parts)) }
    }
}

/// Returns boxes of centers and sizes.
fn apart([x, y, width, height]: [Value; 4]) -> Centered {
    Centered { center: [x, y], size: [width, height] }
}

/// Corners of boxes from offsets to anchors.
fn decode(node: &mut Node<'_>) -> Outcome {
    let [x, anchors] = node.exactly()?;
    let attributes = &node.attributes;
    let deviations = [
        attributes.float("std0", 1.0)?,
        attributes.float("std1", 1.0)?,
        attributes.float("std2", 1.0)?,
        attributes.float("std3", 1.0)?,
    ];
    let most = attributes.float("clip", -1.0)?;
    let is_corner = node.is_corner("format", "center")?;
    let anchors = node.centers_of(&anchors, is_corner)?;
    let deltas = node.corners(&x)?;
    let mut deviations = deviations.into_iter();
    let deltas = each(&deltas, |delta| {
        let deviation = deviations.next().ok_or("a deviation is missing")?;
        node.times(delta, deviation)
    })?;
    let boxes = node.decoded(&deltas, &anchors, (most > 0.0).then_some(most))?;
    let corners = node.cornered(&boxes, Measure::EXCLUSIVE)?;
    node.stacked(&corners.each_ref())
}

/// Returns what `decode` takes: the matched boxes relative to anchors, where samples are positive, and a mask of them.
fn encode(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [samples, matches, anchors, boxes, means, stds] = node.exactly()?;
    let ids = node.cast(&matches, DType::Int64)?;
    let ids = node.unsqueeze(&ids, &[-1])?;
    let matched = node.call("GatherND", &[&boxes, &ids], [int("batch_dims", 1)])?;
    let (own, other) = (node.centers_of(&anchors, true)?, node.centers_of(&matched, true)?);
    let all = node.encoded(&other, &own, false)?;
    let all = node.stacked(&all.each_ref())?;
    let all = node.sub(&all, &means)?;
    let all = node.div(&all, &stds)?;
    let half = node.number(samples.dtype(), 0.5)?;
    let is_positive = node.call("Greater", &[&samples, &half], [])?;
    let is_positive = node.unsqueeze(&is_positive, &[-1])?;
    let zero = node.number(all.dtype(), 0.0)?;
    let targets = node.choose(&is_positive, &all, &zero)?;
    let masks = node.constant_like(&targets, all.dtype(), 1.0)?;
    let masks = node.choose(&is_positive, &masks, &zero)?;
    Ok(vec![targets, masks])
}

/// The shared area of all pairs of boxes, divided by the area of both: `[dims of the first.., dims of the second..]`.
fn overlaps(node: &mut Node<'_>) -> Outcome {
    let [x, y] = node.exactly()?;
    let is_corner = node.is_corner("format", "corner")?;
    let (left, right) = (rank(&x)? - 1, rank(&y)? - 1);
    let (mut a, b) = (node.corners_of(&x, is_corner)?, node.corners_of(&y, is_corner)?);
    if right > 0 {
        a = node.spread(&a, &(left..left + right).collect::<Vec<i64>>())?;
    }
    node.overlap(&a, &b, Overlap::Clamped)
}

/// The attributes of [`suppress`].
struct Attributes {
    overlap: f64,
    valid: f64,
    most: i64,
    coordinates: i64,
    score: i64,
    id: Option<i64>,
    background: i64,
    forces: bool,
    is_corner: (bool, bool),
}

impl Attributes {
    fn of(node: &Node<'_>, columns: i64) -> Outcome<Self> {
        let attributes = &node.attributes;
        let overlap = attributes.float("overlap_thresh", 0.5)?;
        if !(0.0..=1.0).contains(&overlap) {
            return Err(wrong("overlap_thresh", "a number between 0 and 1", &overlap.to_string()));
        }
        let coordinates = place_in(columns, attributes.int("coord_start", 2)?)?;
        place_in(columns, coordinates + 3)?;
        let id = attributes.int("id_index", -1)?;
        Ok(Self {
            overlap,
            valid: attributes.float("valid_thresh", 0.0)?,
            most: attributes.int("topk", -1)?,
            coordinates,
            score: place_in(columns, attributes.int("score_index", 1)?)?,
            id: if id < 0 { None } else { Some(place_in(columns, id)?) },
            background: attributes.int("background_id", -1)?,
            forces: attributes.flag("force_suppress", false)?,
            is_corner: (
                node.is_corner("in_format", "corner")?,
                node.is_corner("out_format", "corner")?,
            ),
        })
    }

    /// Returns the scores, which are infinitely low for boxes that are not valid.
    fn scores(&self, node: &mut Node<'_>, x: &Value) -> Outcome {
        let scores = column(node, x, self.score)?;
        let least = node.number(x.dtype(), self.valid)?;
        let mut is_valid = node.call("Greater", &[&scores, &least], [])?;
        if let Some(id) = self.id {
            let ids = column(node, x, id)?;
            #[expect(clippy::cast_precision_loss, reason = "classes are small numbers")]
            let background = node.number(x.dtype(), self.background as f64)?;
            let is_other = node.call("Equal", &[&ids, &background], [])?;
            let is_other = node.call("Not", &[&is_other], [])?;
            is_valid = node.call("And", &[&is_valid, &is_other], [])?;
        }
        let lowest = node.number(x.dtype(), f64::NEG_INFINITY)?;
        node.choose(&is_valid, &scores, &lowest)
    }

    /// Returns the ranks of boxes by class: `[batch, classes, boxes]`.
    fn by_class(&self, node: &mut Node<'_>, rows: &Value, ranks: &Value) -> Outcome {
        let line = node.unsqueeze(ranks, &[1])?;
        let Some(id) = self.id.filter(|_| !self.forces) else { return Ok(line) };
        let ids = column(node, rows, id)?;
        let ids = node.cast(&ids, DType::Int64)?;
        let first = node.reduce("ReduceMin", &ids, &[0, 1], false)?;
        let last = node.reduce("ReduceMax", &ids, &[0, 1], false)?;
        let one = node.long(1);
        let end = node.add(&last, &one)?;
        let classes = node.call("Range", &[&first, &end, &one], [])?;
        let classes = node.unsqueeze(&classes, &[1])?;
        let ids = node.unsqueeze(&ids, &[1])?;
        let is_own = node.call("Equal", &[&ids, &classes], [])?;
        let none = node.number(DType::Float32, -1.0)?;
        node.choose(&is_own, &line, &none)
    }
}

/// Suppresses boxes of positive scores that overlap better ones by more than a threshold of single precision.
pub(super) fn over(threshold: f64) -> Suppression {
    Suppression { above: Some(0.0), ..Suppression::above(single(threshold).into()) }
}

fn column(node: &mut Node<'_>, x: &Value, at: i64) -> Outcome {
    let at = node.long(at);
    node.gather(x, &at, 2)
}

/// Suppresses boxes that overlap better ones. Those that remain come first, by score; other rows are -1.
fn suppress(node: &mut Node<'_>) -> Outcome {
    let [given] = node.exactly()?;
    let dims = rank(&given)?;
    if dims < 2 {
        return Err(format!("expected boxes of at least rank 2, found {dims}").into());
    }
    let (count, columns) = (node.size_of(&given, dims - 2)?, required_dim(&given, dims - 1)?);
    let how = Attributes::of(node, columns)?;
    if how.most == 0 {
        return node.call("Identity", &[&given], []);
    }
    let matrices = node.list_of(&[Size::Known(-1), count.clone(), Size::Known(columns)])?;
    let x = node.call("Reshape", &[&given, &matrices], [])?;
    let scores = how.scores(node, &x)?;
    let most = (how.most >= 0).then_some(how.most);
    let [best, order] = node.highest(&scores, most, true)?;
    let rows = node.rows(&x, &order)?;
    let bottom = node.number(x.dtype(), BOTTOM)?;
    let is_valid = node.call("Greater", &[&best, &bottom], [])?;
    let ranks = node.ranks(&best)?;
    let none = node.number(DType::Float32, -1.0)?;
    let ranks = node.choose(&is_valid, &ranks, &none)?;
    let own = node.slice(&rows, 2, how.coordinates, how.coordinates + 4)?;
    let corners = node.corners_of(&own, how.is_corner.0)?;
    let by_class = how.by_class(node, &rows, &ranks)?;
    let kept = node.suppressed(&corners, &by_class, over(how.overlap))?;
    let marks = node.marked(&kept, &best)?;
    let ranks = node.mul(&marks, &ranks)?;
    let [best, order] = node.highest(&ranks, None, true)?;
    let written = match how.is_corner {
        (true, false) => {
            let Centered { center: [x, y], size: [width, height] } =
                node.centered(&corners, Measure::EXCLUSIVE)?;
            node.stacked(&[&x, &y, &width, &height])?
        }
        (false, true) => node.stacked(&corners.each_ref())?,
        (true, true) | (false, false) => own,
    };
    let front = node.slice(&rows, 2, 0, how.coordinates)?;
    let back = node.slice(&rows, 2, how.coordinates + 4, columns)?;
    let rows = node.concat(&[&front, &written, &back], 2)?;
    let rows = node.rows(&rows, &order)?;
    let zero = node.number(DType::Float32, 0.0)?;
    let is_kept = node.call("Greater", &[&best, &zero], [])?;
    let is_kept = node.unsqueeze(&is_kept, &[2])?;
    let none = node.number(x.dtype(), -1.0)?;
    let rows = node.choose(&is_kept, &rows, &none)?;
    let kept = node.size_of(&rows, 1)?;
    let rest = node.difference_of(&count, &kept)?;
    let none_else = [const { Size::Known(0) }; 4];
    let pads = node.list_of(&[&none_else[..], &[rest, Size::Known(0)]].concat())?;
    let rows = node.call("Pad", &[&rows, &pads, &none], [])?;
    node.reshape_as(&rows, &given)
}

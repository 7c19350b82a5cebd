//! Boxes of detectors: anchors on a grid, their encoding, and their overlap.
//!
//! A box is the coordinates of its top left and bottom right corner. If boxes are not normalized, their coordinates are
//! pixels, and both corners belong to the box: it is wider by 1.

use lodstone_model::{DType, Tensor};
use lodstone_schema::numbers::{exact, length};
use lodstone_store::Blob;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::boxes::{Centered, Corners, Edge, Grid, MAX_BOXES, Measure, Overlap, each};
use crate::onnx::required::required_dim;
use crate::onnx::{Size, Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("anchor_generator", anchor_generator),
    ("box_clip", box_clip),
    ("box_coder", box_coder),
    ("density_prior_box", density_prior_box),
    ("iou_similarity", iou_similarity),
    ("polygon_box_transform", polygon_box_transform),
    ("prior_box", prior_box),
    ("yolo_box", yolo_box),
];

/// Where the center of each box is relative to that of the cell.
enum Offsets {
    Center,
    Known(Vec<[f64; 2]>),
    /// Lists of the distances across and down.
    Computed([Value; 2]),
}

/// The boxes of each cell of a grid.
struct Boxes {
    offsets: Offsets,
    /// Half of the width and of the height of each box.
    halves: Vec<[f64; 2]>,
}

impl Boxes {
    /// Returns the boxes of a grid with its centers: of the columns, and of the rows.
    fn grid(&self, op: &mut Operator<'_>, centers: [&Value; 2]) -> Outcome<Grid> {
        let dtype = centers[0].dtype();
        let mut list = |pairs: &[[f64; 2]]| {
            let [across, down]: [Vec<f64>; 2] = [
                pairs.iter().map(|pair| pair[0]).collect(),
                pairs.iter().map(|pair| pair[1]).collect(),
            ];
            Outcome::Ok([op.reals(dtype, &across)?, op.reals(dtype, &down)?])
        };
        let offsets = match &self.offsets {
            Offsets::Center => [None, None],
            Offsets::Known(all) if all.iter().all(|offset| *offset == [0.0; 2]) => [None, None],
            Offsets::Known(all) => list(all)?.map(Some),
            Offsets::Computed(both) => both.clone().map(Some),
        };
        Ok(Grid { centers: centers.map(Value::clone), offsets, halves: list(&self.halves)? })
    }
}

impl Operator<'_> {
    /// Adds a list of floats of a type.
    fn reals(&mut self, dtype: DType, values: &[f64]) -> Outcome<Value> {
        if dtype == DType::Float64 {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let list = Tensor::dense(dtype, vec![values.len() as u64], Blob::memory(bytes));
            return Ok(self.tensor(list, "numbers"));
        }
        #[expect(clippy::cast_possible_truncation, reason = "the kernels compute with floats")]
        let singles: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        let list = self.singles(&singles);
        self.cast(&list, dtype)
    }

    /// Returns whether the last pixel of boxes is inside, by an attribute that is true if it is not.
    pub(super) fn edge(&self, name: &str) -> Outcome<Edge> {
        Ok(Edge::inclusive_if(!self.flag_or_true(name)?))
    }

    /// Multiplies or divides encoded boxes by factors, if there are any.
    fn scaled_by(
        &mut self,
        deltas: [Value; 4],
        factors: Option<&[Value; 4]>,
        kind: &str,
    ) -> Outcome<[Value; 4]> {
        let Some(factors) = factors else { return Ok(deltas) };
        let mut factors = factors.iter();
        each(&deltas, |delta| {
            let factor = factors.next().ok_or("a factor is missing")?;
            self.call(kind, &[delta, factor], [])
        })
    }

    /// Returns the Boolean attribute `name`; true if it is absent and has no default.
    pub(super) fn flag_or_true(&self, name: &str) -> Outcome<bool> {
        Ok(self.attribute(name).is_none() || self.flag(name)?)
    }

    /// Sets the boxes of all cells of a grid and their variances, both `[height, width, boxes, 4]`. `rows` and `columns`
    /// are the centers of the cells.
    fn put_grid(
        &mut self,
        slots: [&str; 2],
        boxes: &Boxes,
        [columns, rows]: [&Value; 2],
        image: Option<[&Value; 2]>,
        variances: &[f32],
        finish: fn(&mut Self, Corners) -> Outcome<Corners>,
    ) -> Outcome<()> {
        let dtype = columns.dtype();
        if boxes.halves.len() > MAX_BOXES || variances.len() != 4 {
            let (count, found) = (boxes.halves.len(), variances.len());
            return Err(format!("expected boxes and 4 variances, found {count} and {found}").into());
        }
        let grid = boxes.grid(self, [columns, rows])?;
        let corners = self.grid(&grid, image)?;
        let (width, height) = (self.dim(columns, 0)?, self.dim(rows, 0)?);
        let count = self.longs(&[length(boxes.halves.len())]);
        let dims = self.concat(&[&height, &width, &count], 0)?;
        let corners = finish(self, corners)?;
        let boxes = self.boxes_of(&corners, &dims)?;
        self.put(slots[0], &boxes)?;
        let variances: Vec<f64> = variances.iter().copied().map(f64::from).collect();
        let variances = self.reals(dtype, &variances)?;
        let four = self.longs(&[4]);
        let dims = self.concat(&[&dims, &four], 0)?;
        let variances = self.call("Expand", &[&variances, &dims], [])?;
        self.put(slots[1], &variances)
    }
}

/// Returns `count` numbers from 0 on, plus an offset, times a step.
fn centers(op: &mut Operator<'_>, count: &Value, offset: f32, step: &Value) -> Outcome<Value> {
    let numbers = op.counting(count, step.dtype())?;
    let moved = op.plus(&numbers, offset.into())?;
    op.mul(&moved, step)
}

/// The cells of prior boxes: their centers, the size of the image, and the size of a cell.
struct Cells {
    columns: Value,
    rows: Value,
    width: Value,
    height: Value,
    steps: [Value; 2],
    /// The size of a cell, if it is known.
    known_steps: Option<[f32; 2]>,
}

impl Cells {
    /// Returns the grid of the dims of a feature map over an image.
    fn of(op: &mut Operator<'_>) -> Outcome<Self> {
        let (features, image) = (op.input("Input")?, op.input("Image")?);
        let dtype = features.dtype();
        let (across, down, offset) =
            (op.float("step_w")?, op.float("step_h")?, op.float("offset")?);
        let (width, height) = (op.extent_as(&image, 3, dtype)?, op.extent_as(&image, 2, dtype)?);
        let is_given = across != 0.0 && down != 0.0;
        #[expect(clippy::cast_precision_loss, reason = "as PaddlePaddle computes it")]
        let known = |axis: i64| {
            let image = required_dim(&image, axis).ok()?;
            let features = required_dim(&features, axis).ok().filter(|dim| *dim > 0)?;
            Some(image as f32 / features as f32)
        };
        let known_steps = match is_given {
            true => Some([across, down]),
            false => known(3).zip(known(2)).map(|(across, down)| [across, down]),
        };
        let [across, down] = match known_steps {
            Some([across, down]) => {
                [op.number(dtype, across.into())?, op.number(dtype, down.into())?]
            }
            None => {
                let (wide, high) =
                    (op.extent_as(&features, 3, dtype)?, op.extent_as(&features, 2, dtype)?);
                [op.div(&width, &wide)?, op.div(&height, &high)?]
            }
        };
        let (wide, high) = (op.extent(&features, 3)?, op.extent(&features, 2)?);
        let columns = centers(op, &wide, offset, &across)?;
        let rows = centers(op, &high, offset, &down)?;
        Ok(Self { columns, rows, width, height, steps: [across, down], known_steps })
    }

    fn put(
        &self,
        op: &mut Operator<'_>,
        boxes: &Boxes,
        finish: fn(&mut Operator<'_>, Corners) -> Outcome<Corners>,
    ) -> Outcome {
        let variances = op.floats("variances")?;
        let image = Some([&self.width, &self.height]);
        let centers = [&self.columns, &self.rows];
        op.put_grid(["Boxes", "Variances"], boxes, centers, image, &variances, finish)
    }
}

fn as_they_are(_: &mut Operator<'_>, corners: Corners) -> Outcome<Corners> {
    Ok(corners)
}

/// Clips coordinates to the range from 0 to 1.
fn within_image(op: &mut Operator<'_>, corners: Corners) -> Outcome<Corners> {
    each(&corners, |corner| op.clamp(corner, 0.0, 1.0))
}

/// Clips left and top to at least 0, right and bottom to at most 1.
fn partly_within_image(op: &mut Operator<'_>, corners: Corners) -> Outcome<Corners> {
    let one = op.number(corners[0].dtype(), 1.0)?;
    op.cropped(&corners, [&one, &one])
}

/// Boxes of several sizes and aspect ratios around each cell of a feature map.
fn prior_box(op: &mut Operator<'_>) -> Outcome {
    let (least, most) = (op.floats("min_sizes")?, op.floats("max_sizes")?);
    let (given, flip) = (op.floats("aspect_ratios")?, op.flag("flip")?);
    let mut ratios = vec![1.0_f32];
    for ratio in given {
        if ratios.iter().all(|known| (ratio - known).abs() >= 1e-6) {
            ratios.push(ratio);
            if flip {
                ratios.push(1.0 / ratio);
            }
        }
    }
    if !most.is_empty() && most.len() != least.len() {
        return Err(format!("expected as many `max_sizes` as `min_sizes`, found {most:?}").into());
    }
    let is_square_first = op.flag("min_max_aspect_ratios_order")?;
    let mut halves = Vec::new();
    for (place, size) in least.iter().enumerate() {
        let larger = most.get(place).map(|most| (size * most).sqrt() / 2.0);
        let by_ratio = |ratio: &f32| [size * ratio.sqrt() / 2.0, size / ratio.sqrt() / 2.0];
        if is_square_first {
            halves.push([size / 2.0, size / 2.0]);
            halves.extend(larger.map(|half| [half, half]));
            let others = ratios.iter().filter(|ratio| (**ratio - 1.0).abs() >= 1e-6);
            halves.extend(others.map(by_ratio));
        } else {
            halves.extend(ratios.iter().map(by_ratio));
            halves.extend(larger.map(|half| [half, half]));
        }
    }
    let halves: Vec<[f64; 2]> = halves.iter().map(|half| half.map(f64::from)).collect();
    let boxes = Boxes { offsets: Offsets::Center, halves };
    let finish = if op.flag("clip")? { within_image } else { as_they_are };
    Cells::of(op)?.put(op, &boxes, finish)
}

/// Returns where dense boxes are, across and down: their distance is a whole number, which follows from the size of a cell.
fn computed_offsets(
    op: &mut Operator<'_>,
    cells: &Cells,
    dense: &[i32],
    places: &[[i32; 2]],
) -> Outcome<[Value; 2]> {
    let [across, down] = &cells.steps;
    let dtype = across.dtype();
    let sum = op.add(across, down)?;
    let step = op.times(&sum, 0.5)?;
    let step = op.cast(&step, DType::Int64)?;
    let dense = op.longs(&dense.iter().copied().map(i64::from).collect::<Vec<_>>());
    let shift = op.div(&step, &dense)?;
    let (step, shift) = (op.cast(&step, dtype)?, op.cast(&shift, dtype)?);
    let half = op.times(&step, 0.5)?;
    let [columns, rows] = [0, 1].map(|axis| {
        let steps = places.iter().filter_map(|place| place.get(axis));
        steps.map(|at| f64::from(*at) + 0.5).collect::<Vec<f64>>()
    });
    let mut offsets = |steps: &[f64]| {
        let steps = op.reals(dtype, steps)?;
        let moved = op.mul(&steps, &shift)?;
        op.sub(&moved, &half)
    };
    Ok([offsets(&columns)?, offsets(&rows)?])
}

/// Boxes of several sizes, of which each is distributed densely in the cell.
fn density_prior_box(op: &mut Operator<'_>) -> Outcome {
    let (sizes, ratios) = (op.floats("fixed_sizes")?, op.floats("fixed_ratios")?);
    let densities = op.ints("densities")?;
    if densities.len() != sizes.len()
        || densities.iter().any(|density| !(1..=256).contains(density))
    {
        return Err(format!("expected a density of each size, found {densities:?}").into());
    }
    let cells = Cells::of(op)?;
    // The density of each box, its place in the cell and half of its size.
    let (mut dense, mut places, mut halves) = (Vec::new(), Vec::new(), Vec::new());
    for (size, density) in sizes.iter().zip(&densities) {
        for ratio in &ratios {
            let half = [size * ratio.sqrt() / 2.0, size / ratio.sqrt() / 2.0].map(f64::from);
            let density: i32 = exact(*density)?;
            for (row, column) in (0..density).flat_map(|row| (0..density).map(move |at| (row, at)))
            {
                dense.push(density);
                places.push([column, row]);
                halves.push(half);
            }
            if halves.len() > MAX_BOXES {
                return Err(format!("expected at most {MAX_BOXES} boxes of a cell").into());
            }
        }
    }
    let offsets = match cells.known_steps {
        Some([across, down]) => {
            #[expect(clippy::cast_possible_truncation, reason = "as PaddlePaddle computes it")]
            let step = ((across + down) * 0.5) as i32;
            let offset = |(density, place): (&i32, &[i32; 2])| {
                let shift = f64::from(step / density);
                place.map(|at| f64::from(at) * shift - f64::from(step) / 2.0 + shift / 2.0)
            };
            Offsets::Known(dense.iter().zip(&places).map(offset).collect())
        }
        None => Offsets::Computed(computed_offsets(op, &cells, &dense, &places)?),
    };
    let boxes = Boxes { offsets, halves };
    let finish = if op.flag("clip")? { within_image } else { partly_within_image };
    if !op.flag("flatten_to_2d")? {
        return cells.put(op, &boxes, finish);
    }
    // The outputs are flattened to rows of boxes.
    let variances = op.floats("variances")?;
    let made = {
        let image = Some([&cells.width, &cells.height]);
        let centers = [&cells.columns, &cells.rows];
        op.captured(|op| {
            op.put_grid(["Boxes", "Variances"], &boxes, centers, image, &variances, finish)
        })?
    };
    for (slot, value) in ["Boxes", "Variances"].into_iter().zip(&made) {
        let rows = op.reshape(value, &[-1, 4])?;
        op.put(slot, &rows)?;
    }
    Ok(())
}

/// Anchors of several areas and aspect ratios, in pixels.
fn anchor_generator(op: &mut Operator<'_>) -> Outcome {
    let (x, offset) = (op.input("Input")?, op.float("offset")?);
    let (sizes, ratios) = (op.floats("anchor_sizes")?, op.floats("aspect_ratios")?);
    let strides = op.floats("stride")?;
    let [across, down] = strides.as_slice() else {
        return Err(format!("expected two values as `stride`, found {strides:?}").into());
    };
    let mut halves = Vec::new();
    for ratio in &ratios {
        let width = (across * down / ratio).sqrt().round();
        let height = (width * ratio).round();
        for size in &sizes {
            let size = [size / across * width, size / down * height];
            halves.push(size.map(|size| f64::from(0.5 * (size - 1.0))));
        }
    }
    let boxes = Boxes { offsets: Offsets::Center, halves };
    let mut line = |axis: i64, stride: f32| {
        let count = op.extent(&x, axis)?;
        let numbers = op.counting(&count, x.dtype())?;
        let places = op.times(&numbers, stride.into())?;
        op.plus(&places, f64::from(offset * (stride - 1.0)))
    };
    let (columns, rows) = (line(3, *across)?, line(2, *down)?);
    let variances = op.floats("variances")?;
    let slots = ["Anchors", "Variances"];
    op.put_grid(slots, &boxes, [&columns, &rows], None, &variances, as_they_are)
}

/// Encodes boxes by their difference from prior boxes, or decodes them.
fn box_coder(op: &mut Operator<'_>) -> Outcome {
    let (prior, target) = (op.input("PriorBox")?, op.input("TargetBox")?);
    let edge = op.edge("box_normalized")?;
    let decodes = match op.text("code_type")?.as_str() {
        "encode_center_size" => false,
        "decode_center_size" => true,
        other => return Err(format!("unknown `code_type` `{other}`").into()),
    };
    // The dim of the target along which the prior boxes differ.
    let axis = match op.attribute("axis") {
        Some(_) if decodes => op.int("axis")?,
        _ => 0,
    };
    if !(0..=1).contains(&axis) {
        return Err(format!("expected 0 or 1 as `axis`, found {axis}").into());
    }
    let dtype = target.dtype();
    let factors = match (op.optional("PriorBoxVar")?, op.floats("variance")?.as_slice()) {
        (Some(variances), _) => {
            let factors = op.corners(&variances)?;
            match variances.rank()? == 2 {
                true => Some(op.spread(&factors, &[axis])?),
                false => Some(factors),
            }
        }
        (None, [a, b, c, d]) => {
            let [a, b, c, d] = [a, b, c, d].map(|factor| op.number(dtype, f64::from(*factor)));
            Some([a?, b?, c?, d?])
        }
        (None, []) => None,
        (None, other) => {
            return Err(format!("expected 4 values as `variance`, found {other:?}").into());
        }
    };
    let prior = op.corners(&prior)?;
    let Centered { center, size } = op.centered(&prior, Measure::half(edge))?;
    let prior = Centered { center: op.spread(&center, &[axis])?, size: op.spread(&size, &[axis])? };
    let target = op.corners(&target)?;
    let coded = match decodes {
        true => {
            let deltas = op.scaled_by(target, factors.as_ref(), "Mul")?;
            let boxes = op.decoded(&deltas, &prior, None)?;
            op.cornered(&boxes, Measure::half(edge))?
        }
        false => {
            let Centered { center, size } = op.centered(&target, Measure::middle(edge))?;
            let own = Centered { center: op.spread(&center, &[1])?, size: op.spread(&size, &[1])? };
            let deltas = op.encoded(&own, &prior, true)?;
            op.scaled_by(deltas, factors.as_ref(), "Div")?
        }
    };
    let coded = op.stacked(&coded.each_ref())?;
    op.put("OutputBox", &coded)?;
    // The sequences are those of the operand that has a row for each row of the result.
    let lod = op.lod(if axis == 1 { "PriorBox" } else { "TargetBox" });
    op.put_lod("OutputBox", &lod);
    Ok(())
}

/// Clips boxes to the image that they belong to, whose size and scale are in `ImInfo`.
fn box_clip(op: &mut Operator<'_>) -> Outcome {
    let (x, info) = (op.input("Input")?, op.input("ImInfo")?);
    let infos = match op.offsets("Input") {
        Some(offsets) => {
            let images = op.images_by_offsets(&x, &offsets)?;
            op.gather(&info, &images, 0)?
        }
        None if required_dim(&info, 0) == Ok(1) => info,
        None => return Err("the images of the boxes must be known by LoD".into()),
    };
    // [boxes or 1, 1]
    let scale = op.slice(&infos, 1, 2, 3)?;
    let mut limit = |place: i64| {
        let size = op.slice(&infos, 1, place, place + 1)?;
        let size = op.div(&size, &scale)?;
        let half = op.plus(&size, 0.5)?;
        let size = op.call("Floor", &[&half], [])?;
        op.plus(&size, -1.0)
    };
    let (high, wide) = (limit(0)?, limit(1)?);
    let limits = op.concat(&[&wide, &high, &wide, &high], 1)?;
    let behind: Vec<i64> = (1..).take(x.rank()?.count().saturating_sub(2)).collect();
    let limits = if behind.is_empty() { limits } else { op.unsqueeze(&limits, &behind)? };
    let y = op.clipped(&x, &limits)?;
    op.put("Output", &y)
}

/// The area that two boxes share, divided by that of both.
fn iou_similarity(op: &mut Operator<'_>) -> Outcome {
    let (x, y) = (op.input("X")?, op.input("Y")?);
    let edge = op.edge("box_normalized")?;
    let (column, line) = (op.corners(&x)?, op.corners(&y)?);
    let column = op.spread(&column, &[1])?;
    let out = op.overlap(&column, &line, Overlap::Signed(edge))?;
    op.put("Out", &out)
}

/// Converts offsets of polygon corners to coordinates: four times the place in the feature map, minus the offset.
fn polygon_box_transform(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("Input")?;
    let channels = x.size(1)?;
    if channels.is_some_and(|channels| channels < 2 || channels % 2 != 0) || x.rank()? != 4 {
        let found = op.size_of(&x, 1)?;
        return Err(format!("expected pairs of channels, found {found} channels").into());
    }
    let mut line = |axis: i64| {
        let count = op.extent(&x, axis)?;
        let numbers = op.counting(&count, x.dtype())?;
        op.times(&numbers, 4.0)
    };
    let (rows, columns) = (line(2)?, line(3)?);
    let rows = op.unsqueeze(&rows, &[1])?;
    // [batch, pairs, 2, height, width]
    let back = op.call("Shape", &[&x], [int("start", 2)])?;
    let front = match channels {
        Some(channels) => op.longs(&[-1, channels / 2, 2]),
        None => {
            let batch = op.size_of(&x, 0)?;
            op.list_of(&[batch, Size::Known(-1), Size::Known(2)])?
        }
    };
    let dims = op.concat(&[&front, &back], 0)?;
    let pairs = op.call("Reshape", &[&x, &dims], [])?;
    let (across, down) = (op.slice(&pairs, 2, 0, 1)?, op.slice(&pairs, 2, 1, 2)?);
    let (across, down) = (op.sub(&columns, &across)?, op.sub(&rows, &down)?);
    let both = op.concat(&[&across, &down], 2)?;
    let y = op.reshape_as(&both, &x)?;
    op.put("Output", &y)
}

/// Decodes the boxes and scores of a feature map; boxes below the threshold are 0.
fn yolo_box(op: &mut Operator<'_>) -> Outcome {
    let (x, image) = (op.input("X")?, op.input("ImgSize")?);
    let (anchors, classes) = (op.ints("anchors")?, op.int("class_num")?);
    let (threshold, factor) = (op.float("conf_thresh")?, op.int("downsample_ratio")?);
    let scale = match op.attribute("scale_x_y") {
        Some(_) => op.float("scale_x_y")?,
        None => 1.0,
    };
    let is_aware = op.flag("iou_aware")?;
    let (pairs, rest) = anchors.as_chunks::<2>();
    if pairs.is_empty()
        || pairs.len() > MAX_BOXES
        || !rest.is_empty()
        || !(1..=1 << 20).contains(&classes)
    {
        return Err(format!("expected anchors and classes, found {anchors:?} and {classes}").into());
    }
    let dtype = x.dtype();
    let count = length(pairs.len());
    let (overlaps, x_own) = match is_aware {
        true => (Some(op.slice(&x, 1, 0, count)?), op.slice(&x, 1, count, i64::MAX)?),
        false => (None, x.clone()),
    };
    // [batch, anchors, channels, cells]
    let dims = op.longs(&[0, count, classes + 5, -1]);
    let cells = op.call("Reshape", &[&x_own, &dims], [])?;
    let sigmoid = |op: &mut Operator<'_>, begin: i64, end: i64| {
        let part = op.slice(&cells, 2, begin, end)?;
        op.call("Sigmoid", &[&part], [])
    };
    let mut sure = sigmoid(op, 4, 5)?;
    if let Some(overlaps) = overlaps {
        let share = f64::from(op.float("iou_aware_factor")?);
        let dims = op.longs(&[0, count, 1, -1]);
        let overlaps = op.call("Reshape", &[&overlaps, &dims], [])?;
        let overlaps = op.call("Sigmoid", &[&overlaps], [])?;
        let (own, other) = (op.number(dtype, 1.0 - share)?, op.number(dtype, share)?);
        let (sure_power, power) =
            (op.call("Pow", &[&sure, &own], [])?, op.call("Pow", &[&overlaps, &other], [])?);
        sure = op.mul(&sure_power, &power)?;
    }
    let threshold = op.number(dtype, threshold.into())?;
    let is_above = op.call("GreaterOrEqual", &[&sure, &threshold], [])?;
    let size = op.cast(&image, dtype)?;
    let (high, wide) = (op.extent(&x, 2)?, op.extent(&x, 3)?);
    let (zero, one) = (op.long(0), op.long(1));
    let cell_count = op.mul(&high, &wide)?;
    let numbers = op.call("Range", &[&zero, &cell_count, &one], [])?;
    let rows = op.div(&numbers, &wide)?;
    let columns = op.call("Mod", &[&numbers, &wide], [])?;
    let (mut centers, mut sizes, mut lasts) = (Vec::new(), Vec::new(), Vec::new());
    let (wide, high): (Vec<f64>, Vec<f64>) =
        pairs.iter().map(|[wide, high]| (*wide as f64, *high as f64)).unzip();
    for (axis, numbers, count_of, own) in [(0, &columns, 3, wide), (1, &rows, 2, high)] {
        let axis: i64 = axis;
        // [batch, 1, 1, 1]
        let image = op.slice(&size, 1, 1 - axis, 2 - axis)?;
        let image = op.unsqueeze(&image, &[2, 3])?;
        let places = op.cast(numbers, dtype)?;
        let across = op.extent_as(&x, count_of, dtype)?;
        let mut inside = sigmoid(op, axis, axis + 1)?;
        if scale != 1.0 {
            inside = op.times(&inside, scale.into())?;
            inside = op.plus(&inside, f64::from(-0.5 * (scale - 1.0)))?;
        }
        let place = op.add(&places, &inside)?;
        let place = op.mul(&place, &image)?;
        centers.push(op.div(&place, &across)?);
        let pixels = op.times(&across, factor as f64)?;
        let own = op.reals(dtype, &own)?;
        let own = op.unsqueeze(&own, &[1, 2])?;
        let growth = op.slice(&cells, 2, axis + 2, axis + 3)?;
        let growth = op.call("Exp", &[&growth], [])?;
        let side = op.mul(&growth, &own)?;
        let side = op.mul(&side, &image)?;
        sizes.push(op.div(&side, &pixels)?);
        lasts.push(op.plus(&image, -1.0)?);
    }
    let ([x_center, y_center], [width, height], [last_column, last_row]) =
        (centers.as_slice(), sizes.as_slice(), lasts.as_slice())
    else {
        return Err("a box has two dims".into());
    };
    let boxes = Centered {
        center: [x_center.clone(), y_center.clone()],
        size: [width.clone(), height.clone()],
    };
    let mut corners = op.cornered(&boxes, Measure::EXCLUSIVE)?;
    if op.flag_or_true("clip_bbox")? {
        corners = op.cropped(&corners, [last_column, last_row])?;
    }
    let boxes = op.concat(&corners.each_ref(), 2)?;
    let scores = sigmoid(op, 5, 5 + classes)?;
    let scores = op.mul(&scores, &sure)?;
    let zero = op.number(dtype, 0.0)?;
    for (slot, value, width) in [("Boxes", &boxes, 4), ("Scores", &scores, classes)] {
        let value = op.choose(&is_above, value, &zero)?;
        let turned = op.transpose(&value, &[0, 1, 3, 2])?;
        let dims = op.longs(&[0, -1, width]);
        let rows = op.call("Reshape", &[&turned, &dims], [])?;
        op.put(slot, &rows)?;
    }
    Ok(())
}

//! Boxes of detectors: anchors on a grid, their encoding, and their overlap.
//!
//! A box is the coordinates of its top left and bottom right corner. If boxes are not normalized, their coordinates are
//! pixels, and both corners belong to the box: it is wider by 1.

use lodstone_model::{DType, Tensor};
use lodstone_schema::numbers::{exact, length};
use lodstone_store::Blob;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int};

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

/// The maximum number of boxes of a grid cell.
const MAX_BOXES: usize = 1 << 16;

/// The boxes of each cell of a grid.
struct Boxes {
    /// The position of the center relative to that of the cell, for each box.
    offsets: Vec<[f64; 2]>,
    /// Half of the width and of the height of each box.
    halves: Vec<[f64; 2]>,
}

/// Splits pairs into the numbers across and those down.
fn apart(pairs: &[[f64; 2]]) -> [Vec<f64>; 2] {
    [pairs.iter().map(|pair| pair[0]).collect(), pairs.iter().map(|pair| pair[1]).collect()]
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
        finish: fn(&mut Self, [Value; 4]) -> Outcome<[Value; 4]>,
    ) -> Outcome<()> {
        let dtype = columns.dtype();
        if boxes.halves.len() > MAX_BOXES || variances.len() != 4 {
            let (count, found) = (boxes.halves.len(), variances.len());
            return Err(format!("expected boxes and 4 variances, found {count} and {found}").into());
        }
        let mut corners = Vec::new();
        let [wide, high] = image.map_or([None; 2], |image| image.map(Some));
        // [1, width, 1] and [height, 1, 1]
        let axes = [(columns, [0, 2], wide), (rows, [1, 2], high)];
        let pairs = apart(&boxes.offsets).into_iter().zip(apart(&boxes.halves));
        for ((centers, others, size), (offsets, halves)) in axes.into_iter().zip(pairs) {
            let centers = self.unsqueeze(centers, &others)?;
            let centers = match offsets.iter().all(|offset| *offset == 0.0) {
                true => centers,
                false => {
                    let offsets = self.reals(dtype, &offsets)?;
                    self.add(&centers, &offsets)?
                }
            };
            let halves = self.reals(dtype, &halves)?;
            let ends = [self.sub(&centers, &halves)?, self.add(&centers, &halves)?];
            for end in ends {
                corners.push(size.map_or(Ok(end.clone()), |size| self.div(&end, size))?);
            }
        }
        let [left, right, top, bottom] = corners.as_slice() else {
            return Err("a box has four corners".into());
        };
        let (width, height) = (self.dim(columns, 0)?, self.dim(rows, 0)?);
        let count = self.longs(&[length(boxes.halves.len())]);
        let dims = self.concat(&[&height, &width, &count], 0)?;
        let all = finish(self, [left.clone(), top.clone(), right.clone(), bottom.clone()])?;
        let mut spread = |value: &Value| self.call("Expand", &[value, &dims], []);
        let all = [spread(&all[0])?, spread(&all[1])?, spread(&all[2])?, spread(&all[3])?];
        let boxes = self.stacked(&all.each_ref())?;
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

/// The grid of prior boxes: the centers of its cells, the size of the image, and the steps if they are known.
struct Grid {
    columns: Value,
    rows: Value,
    width: Value,
    height: Value,
    steps: Option<[f32; 2]>,
}

impl Grid {
    /// Returns the grid of the dims of a feature map over an image.
    fn of(op: &mut Operator<'_>) -> Outcome<Self> {
        let (features, image) = (op.input("Input")?, op.input("Image")?);
        let dtype = features.dtype();
        let (across, down, offset) =
            (op.float("step_w")?, op.float("step_h")?, op.float("offset")?);
        let (width, height) = (op.extent_as(&image, 3, dtype)?, op.extent_as(&image, 2, dtype)?);
        let is_given = across != 0.0 && down != 0.0;
        #[expect(clippy::cast_precision_loss, reason = "as PaddlePaddle computes it")]
        let known = |op: &Operator<'_>, axis: i64| {
            let image = op.known_dim(&image, axis).ok()?;
            let features = op.known_dim(&features, axis).ok().filter(|dim| *dim > 0)?;
            Some(image as f32 / features as f32)
        };
        let steps = match is_given {
            true => Some([across, down]),
            false => known(op, 3).zip(known(op, 2)).map(|(across, down)| [across, down]),
        };
        let [across, down] = match steps {
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
        Ok(Self { columns, rows, width, height, steps })
    }

    fn put(
        &self,
        op: &mut Operator<'_>,
        boxes: &Boxes,
        finish: fn(&mut Operator<'_>, [Value; 4]) -> Outcome<[Value; 4]>,
    ) -> Outcome {
        let variances = op.floats("variances")?;
        let image = Some([&self.width, &self.height]);
        let centers = [&self.columns, &self.rows];
        op.put_grid(["Boxes", "Variances"], boxes, centers, image, &variances, finish)
    }
}

fn as_they_are(_: &mut Operator<'_>, corners: [Value; 4]) -> Outcome<[Value; 4]> {
    Ok(corners)
}

/// Clips coordinates to the range from 0 to 1.
fn within_image(op: &mut Operator<'_>, corners: [Value; 4]) -> Outcome<[Value; 4]> {
    let dtype = corners[0].dtype();
    let (zero, one) = (op.number(dtype, 0.0)?, op.number(dtype, 1.0)?);
    let [left, top, right, bottom] =
        corners.map(|corner| op.call("Clip", &[&corner, &zero, &one], []));
    Ok([left?, top?, right?, bottom?])
}

/// Clips left and top to at least 0, right and bottom to at most 1.
fn partly_within_image(op: &mut Operator<'_>, corners: [Value; 4]) -> Outcome<[Value; 4]> {
    let dtype = corners[0].dtype();
    let (zero, one) = (op.number(dtype, 0.0)?, op.number(dtype, 1.0)?);
    let [left, top, right, bottom] = corners;
    Ok([
        op.call("Max", &[&left, &zero], [])?,
        op.call("Max", &[&top, &zero], [])?,
        op.call("Min", &[&right, &one], [])?,
        op.call("Min", &[&bottom, &one], [])?,
    ])
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
    let boxes = Boxes { offsets: vec![[0.0; 2]; halves.len()], halves };
    let finish = if op.flag("clip")? { within_image } else { as_they_are };
    Grid::of(op)?.put(op, &boxes, finish)
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
    let grid = Grid::of(op)?;
    let [across, down] = grid
        .steps
        .ok_or("the dims of image and features, or `step_w` and `step_h`, must be known")?;
    #[expect(clippy::cast_possible_truncation, reason = "as PaddlePaddle computes it")]
    let step = ((across + down) * 0.5) as i32;
    let mut boxes = Boxes { offsets: Vec::new(), halves: Vec::new() };
    for (size, density) in sizes.iter().zip(&densities) {
        let density: i32 = exact(*density)?;
        let shift = f64::from(step / density);
        let first = -f64::from(step) / 2.0 + shift / 2.0;
        for ratio in &ratios {
            let half = [size * ratio.sqrt() / 2.0, size / ratio.sqrt() / 2.0].map(f64::from);
            for (row, column) in (0..density).flat_map(|row| (0..density).map(move |at| (row, at)))
            {
                let place = |number: i32| first + f64::from(number) * shift;
                boxes.offsets.push([place(column), place(row)]);
                boxes.halves.push(half);
            }
            if boxes.halves.len() > MAX_BOXES {
                return Err(format!("expected at most {MAX_BOXES} boxes of a cell").into());
            }
        }
    }
    let finish = if op.flag("clip")? { within_image } else { partly_within_image };
    if !op.flag("flatten_to_2d")? {
        return grid.put(op, &boxes, finish);
    }
    // The outputs are flattened to rows of boxes.
    let variances = op.floats("variances")?;
    let made = {
        let image = Some([&grid.width, &grid.height]);
        let centers = [&grid.columns, &grid.rows];
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
    let boxes = Boxes { offsets: vec![[0.0; 2]; halves.len()], halves };
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

/// Boxes as center and size.
struct Centered {
    center: [Value; 2],
    size: [Value; 2],
}

impl Centered {
    /// Converts boxes, which are wider by `more`.
    fn of(op: &mut Operator<'_>, boxes: &Value, more: f64) -> Outcome<Self> {
        let [left, top, right, bottom] = op.corners(boxes)?;
        let mut side = |low: &Value, high: &Value| {
            let size = op.sub(high, low)?;
            if more == 0.0 { Ok(size) } else { op.plus(&size, more) }
        };
        let size = [side(&left, &right)?, side(&top, &bottom)?];
        let mut middle = |low: &Value, size: &Value| {
            let half = op.times(size, 0.5)?;
            op.add(low, &half)
        };
        let center = [middle(&left, &size[0])?, middle(&top, &size[1])?];
        Ok(Self { center, size })
    }

    /// Inserts a dim into all values.
    fn spread(self, op: &mut Operator<'_>, axis: i64) -> Outcome<Self> {
        let mut one = |value: &Value| op.unsqueeze(value, &[axis]);
        let [[x, y], [width, height]] = [&self.center, &self.size];
        Ok(Self { center: [one(x)?, one(y)?], size: [one(width)?, one(height)?] })
    }
}

/// Encodes boxes by their difference from prior boxes, or decodes them.
fn box_coder(op: &mut Operator<'_>) -> Outcome {
    let (prior, target) = (op.input("PriorBox")?, op.input("TargetBox")?);
    let more = if op.flag_or_true("box_normalized")? { 0.0 } else { 1.0 };
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
        (Some(variances), _) if variances.rank()? == 2 => {
            let factors = op.corners(&variances)?;
            let mut spread = |value: &Value| op.unsqueeze(value, &[axis]);
            Some([
                spread(&factors[0])?,
                spread(&factors[1])?,
                spread(&factors[2])?,
                spread(&factors[3])?,
            ])
        }
        (Some(variances), _) => Some(op.corners(&variances)?),
        (None, [a, b, c, d]) => {
            let [a, b, c, d] = [a, b, c, d].map(|factor| op.number(dtype, f64::from(*factor)));
            Some([a?, b?, c?, d?])
        }
        (None, []) => None,
        (None, other) => {
            return Err(format!("expected 4 values as `variance`, found {other:?}").into());
        }
    };
    let prior = Centered::of(op, &prior, more)?.spread(op, axis)?;
    let coded = match decodes {
        true => decoded(op, &prior, &target, factors, more)?,
        false => encoded(op, &prior, &target, factors, more)?,
    };
    op.put("OutputBox", &coded)?;
    // The sequences are those of the operand that has a row for each row of the result.
    let lod = op.lod(if axis == 1 { "PriorBox" } else { "TargetBox" });
    op.put_lod("OutputBox", &lod);
    Ok(())
}

fn encoded(
    op: &mut Operator<'_>,
    prior: &Centered,
    target: &Value,
    factors: Option<[Value; 4]>,
    more: f64,
) -> Outcome<Value> {
    let own = Centered::of(op, target, more)?;
    // PaddlePaddle takes the middle of the corners, whatever the width.
    let [left, top, right, bottom] = op.corners(target)?;
    let mut middle = |low: &Value, high: &Value| {
        let sum = op.add(low, high)?;
        let middle = op.times(&sum, 0.5)?;
        op.unsqueeze(&middle, &[1])
    };
    let centers = [middle(&left, &right)?, middle(&top, &bottom)?];
    let mut parts = Vec::new();
    for ((center, of_prior), size) in centers.iter().zip(&prior.center).zip(&prior.size) {
        let way = op.sub(center, of_prior)?;
        parts.push(op.div(&way, size)?);
    }
    for (size, of_prior) in own.size.iter().zip(&prior.size) {
        let size = op.unsqueeze(size, &[1])?;
        let ratio = op.div(&size, of_prior)?;
        let ratio = op.call("Abs", &[&ratio], [])?;
        parts.push(op.call("Log", &[&ratio], [])?);
    }
    if let Some(factors) = factors {
        for (part, factor) in parts.iter_mut().zip(&factors) {
            *part = op.div(part, factor)?;
        }
    }
    op.stacked(&parts.iter().collect::<Vec<_>>())
}

fn decoded(
    op: &mut Operator<'_>,
    prior: &Centered,
    target: &Value,
    factors: Option<[Value; 4]>,
    more: f64,
) -> Outcome<Value> {
    let mut codes = op.corners(target)?;
    if let Some(factors) = factors {
        for (code, factor) in codes.iter_mut().zip(&factors) {
            *code = op.mul(code, factor)?;
        }
    }
    let [x, y, width, height] = &codes;
    let (mut low, mut high) = (Vec::new(), Vec::new());
    let sides = [(x, width), (y, height)].into_iter().zip(prior.center.iter().zip(&prior.size));
    for ((way, growth), (center, size)) in sides {
        let moved = op.mul(way, size)?;
        let center = op.add(&moved, center)?;
        let growth = op.call("Exp", &[growth], [])?;
        let size = op.mul(&growth, size)?;
        let half = op.times(&size, 0.5)?;
        low.push(op.sub(&center, &half)?);
        let end = op.add(&center, &half)?;
        high.push(if more == 0.0 { end } else { op.plus(&end, -more)? });
    }
    op.stacked(&low.iter().chain(&high).collect::<Vec<_>>())
}

/// Clips boxes to the image that they belong to, whose size and scale are in `ImInfo`.
fn box_clip(op: &mut Operator<'_>) -> Outcome {
    let (x, info) = (op.input("Input")?, op.input("ImInfo")?);
    let infos = match op.offsets("Input") {
        Some(offsets) => {
            let images = op.images_by_offsets(&x, &offsets)?;
            op.gather(&info, &images, 0)?
        }
        None if op.known_dim(&info, 0) == Ok(1) => info,
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
    let y = op.call("Min", &[&x, &limits], [])?;
    let zero = op.number(x.dtype(), 0.0)?;
    let y = op.call("Max", &[&y, &zero], [])?;
    op.put("Output", &y)
}

/// Returns the area that boxes share, and the sum of their areas, given both as corners that broadcast. If `is_strict`,
/// pixel boxes less than a pixel apart share nothing.
pub(super) fn shared_area(
    op: &mut Operator<'_>,
    left: &[Value; 4],
    right: &[Value; 4],
    more: f64,
    is_strict: bool,
) -> Outcome<[Value; 2]> {
    let zero = op.number(left[0].dtype(), 0.0)?;
    let mut side = |low: &Value, high: &Value| {
        let size = op.sub(high, low)?;
        if more == 0.0 { Ok(size) } else { op.plus(&size, more) }
    };
    let sides = [
        side(&left[0], &left[2])?,
        side(&left[1], &left[3])?,
        side(&right[0], &right[2])?,
        side(&right[1], &right[3])?,
    ];
    let (own, other) = (op.mul(&sides[0], &sides[1])?, op.mul(&sides[2], &sides[3])?);
    let sum = op.add(&own, &other)?;
    let mut common = |axis: usize| {
        let of =
            |all: &[Value; 4], place: usize| all.get(place).cloned().ok_or("a corner is missing");
        let low = op.call("Max", &[&of(left, axis)?, &of(right, axis)?], [])?;
        let high = op.call("Min", &[&of(left, axis + 2)?, &of(right, axis + 2)?], [])?;
        let size = op.sub(&high, &low)?;
        if more == 0.0 {
            return op.call("Max", &[&size, &zero], []);
        }
        let wide = op.plus(&size, more)?;
        if is_strict {
            let is_apart = op.call("Less", &[&size, &zero], [])?;
            return op.choose(&is_apart, &zero, &wide);
        }
        op.call("Max", &[&wide, &zero], [])
    };
    let (width, height) = (common(0)?, common(1)?);
    Ok([op.mul(&width, &height)?, sum])
}

/// The area that two boxes share, divided by that of both.
fn iou_similarity(op: &mut Operator<'_>) -> Outcome {
    let (x, y) = (op.input("X")?, op.input("Y")?);
    let more = if op.flag_or_true("box_normalized")? { 0.0 } else { 1.0 };
    let column = op.corners(&x)?;
    let mut spread = |value: &Value| op.unsqueeze(value, &[1]);
    let column =
        [spread(&column[0])?, spread(&column[1])?, spread(&column[2])?, spread(&column[3])?];
    let line = op.corners(&y)?;
    let [shared, sum] = shared_area(op, &column, &line, more, false)?;
    let both = op.sub(&sum, &shared)?;
    let out = op.div(&shared, &both)?;
    op.put("Out", &out)
}

/// Converts offsets of polygon corners to coordinates: four times the place in the feature map, minus the offset.
fn polygon_box_transform(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("Input")?;
    let channels = op.known_dim(&x, 1)?;
    if channels < 2 || channels % 2 != 0 || x.rank()? != 4 {
        return Err(format!("expected pairs of channels, found {channels} channels").into());
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
    let front = op.longs(&[-1, channels / 2, 2]);
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
    let mut ends = Vec::new();
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
        let center = op.div(&place, &across)?;
        let pixels = op.times(&across, factor as f64)?;
        let own = op.reals(dtype, &own)?;
        let own = op.unsqueeze(&own, &[1, 2])?;
        let growth = op.slice(&cells, 2, axis + 2, axis + 3)?;
        let growth = op.call("Exp", &[&growth], [])?;
        let side = op.mul(&growth, &own)?;
        let side = op.mul(&side, &image)?;
        let side = op.div(&side, &pixels)?;
        let half = op.times(&side, 0.5)?;
        let (mut low, mut high) = (op.sub(&center, &half)?, op.add(&center, &half)?);
        if op.flag_or_true("clip_bbox")? {
            let zero = op.number(dtype, 0.0)?;
            low = op.call("Max", &[&low, &zero], [])?;
            let last = op.plus(&image, -1.0)?;
            high = op.call("Min", &[&high, &last], [])?;
        }
        ends.push([low, high]);
    }
    let [[left, right], [top, bottom]] = ends.as_slice() else {
        return Err("a box has two dims".into());
    };
    let boxes = op.concat(&[left, top, right, bottom], 2)?;
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

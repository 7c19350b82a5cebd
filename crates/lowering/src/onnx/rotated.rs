//! Boxes that are rotated: their center, width and height, and an angle in degrees, counter-clockwise.
//!
//! | framework | what it means there | by |
//! |---|---|---|
//! | Caffe2, `BBoxTransform` with `rotated` | the angle is moved by radians, and brought into bounds by one period; only boxes that are almost upright are clipped | `generate_proposals_op_util_boxes.h`; recorded `bbox_transform_rotated` |
//! | Caffe2, `RoIAlignRotated` | samples are those of an upright region, rotated around its center; without a number of samples, as many as a cell has pixels | `roi_align_rotated_op.cc`; recorded `roi_align_rotated` |
//!
//! ONNX has no suppression of rotated boxes: their overlap is that of polygons.

use std::f64::consts::PI;

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::boxes::{Centered, Corners, MAX_GROWTH, Measure, each};
use super::regions::Align;
use super::regression::{OfImages, Regression};
use super::{Graph, Size, Value};

type Made<T = Value> = Result<T, Finding>;

/// The period that angles are brought into, and which boxes are clipped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Angles {
    /// The least and the greatest angle, if there are bounds.
    pub(crate) bounds: Option<[f64; 2]>,
    /// The greatest angle of boxes that are clipped.
    pub(crate) upright: f64,
}

/// Where the samples of a cell are along an axis: `[regions, cells, samples]`.
struct Samples {
    /// Relative to the center of the region.
    places: Value,
    /// Which samples there are, if cells have different numbers of them.
    inside: Option<Value>,
    /// The number of samples of a cell: `[regions]`, or a scalar.
    count: Value,
}

/// The pixels around samples along an axis.
struct Pixels {
    low: Value,
    high: Value,
    /// The weight of the higher one.
    share: Value,
    inside: Value,
}

impl Graph {
    /// Moves rotated regions `[regions, 5]`, or `[regions, 6]` with the index of the image first, by deltas `[regions, 5 *
    /// classes]`, in images of height, width and scale: `[images, 3]`. Returns the boxes, and the number of them for each
    /// image.
    pub(crate) fn regressed_rotated(
        &mut self,
        [regions, deltas, images]: [&Value; 3],
        how: Regression,
        angles: Angles,
    ) -> Made<[Value; 2]> {
        let OfImages { counts, regions, deltas, height, width, scale, rows, columns } =
            self.of_images([regions, deltas, images], 5)?;
        let mut part = |x: &Value, at: i64| {
            let at = self.long(at);
            self.gather(x, &at, -1)
        };
        let delta = [part(&deltas, 0)?, part(&deltas, 1)?, part(&deltas, 2)?, part(&deltas, 3)?];
        let (turn, angle) = (part(&deltas, 4)?, part(&regions, 4)?);
        let own = [part(&regions, 0)?, part(&regions, 1)?, part(&regions, 2)?, part(&regions, 3)?];
        let own = self.spread(&own, &[1])?;
        let [x, y, wide, high] = each(&own, |side| self.div(side, &scale))?;
        let mut weights = how.weights.into_iter();
        let delta = each(&delta, |delta| {
            let weight = weights.next().ok_or_else(|| Finding::internal("a weight was lost"))?;
            let weight = self.number(delta.dtype(), weight.into())?;
            self.div(delta, &weight)
        })?;
        let anchors = Centered { center: [x, y], size: [wide, high] };
        let moved = self.decoded(&delta, &anchors, Some(MAX_GROWTH))?;
        let turn = self.times(&turn, 180.0 / PI)?;
        let angle = self.unsqueeze(&angle, &[1])?;
        let angle = self.add(&turn, &angle)?;
        let angle = self.bounded_angle(&angle, angles.bounds)?;
        // Images have whole pixels.
        let [last_column, last_row] = [
            self.last_pixel(&width, &scale, how.edge)?,
            self.last_pixel(&height, &scale, how.edge)?,
        ];
        let clipped = self.clipped_upright(&moved, [&last_column, &last_row], how)?;
        let size = self.call("Abs", &[&angle], [])?;
        let most = self.number(size.dtype(), angles.upright)?;
        let is_upright = self.call("LessOrEqual", &[&size, &most], [])?;
        let mut results = Vec::new();
        let pairs = [(&clipped.center, &moved.center), (&clipped.size, &moved.size)];
        for (clipped, moved) in pairs.into_iter().flat_map(|(a, b)| a.iter().zip(b)) {
            let side = self.choose(&is_upright, clipped, moved)?;
            results.push(if how.is_scaled { self.mul(&side, &scale)? } else { side });
        }
        results.push(angle);
        let boxes = self.stacked(&results.iter().collect::<Vec<_>>())?;
        let boxes = self.reshape(&boxes, &[rows, columns])?;
        Ok([boxes, counts])
    }

    /// Adds a period to angles below the bounds, or subtracts it from those above.
    fn bounded_angle(&mut self, angle: &Value, bounds: Option<[f64; 2]>) -> Made {
        let Some([least, most]) = bounds else { return Ok(angle.clone()) };
        let period = most - least;
        let (more, less) = (self.plus(angle, period)?, self.plus(angle, -period)?);
        let (least, most) = (self.number(angle.dtype(), least)?, self.number(angle.dtype(), most)?);
        let is_below = self.call("Less", &[angle, &least], [])?;
        let is_above = self.call("Greater", &[angle, &most], [])?;
        let rest = self.choose(&is_above, &less, angle)?;
        self.choose(&is_below, &more, &rest)
    }

    /// Clips boxes as if they were upright.
    fn clipped_upright(
        &mut self,
        boxes: &Centered,
        last: [&Value; 2],
        how: Regression,
    ) -> Made<Centered> {
        let measure = Measure::middle(how.edge);
        let corners: Corners = self.cornered(boxes, measure)?;
        let mut lasts = last.into_iter().cycle();
        let corners = each(&corners, |corner| {
            let last = lasts.next().ok_or_else(|| Finding::internal("an edge was lost"))?;
            self.clipped(corner, last)
        })?;
        self.centered(&corners, measure)
    }

    /// Averages samples of each cell of rotated regions `[regions, 5]` in images `[batch, channels, height, width]`.
    pub(crate) fn align_rotated(
        &mut self,
        x: &Value,
        regions: &Value,
        images: &Value,
        how: Align,
    ) -> Made {
        let mut column = |at: i64, factor: f64| {
            let at = self.long(at);
            let column = self.gather(regions, &at, 1)?;
            self.times(&column, factor)
        };
        let scale = f64::from(how.scale);
        let [center_x, center_y] = [column(0, scale)?, column(1, scale)?];
        let [mut width, mut height] = [column(2, scale)?, column(3, scale)?];
        let angle = column(4, PI / 180.0)?;
        let [center_x, center_y] = match how.is_aligned {
            true => [self.plus(&center_x, -0.5)?, self.plus(&center_y, -0.5)?],
            false => {
                // Regions have at least a pixel.
                let one = self.number(width.dtype(), 1.0)?;
                width = self.call("Max", &[&width, &one], [])?;
                height = self.call("Max", &[&height, &one], [])?;
                [center_x, center_y]
            }
        };
        let down = self.samples(&height, how.cells[0], how.samples)?;
        let across = self.samples(&width, how.cells[1], how.samples)?;
        // [regions, rows, samples, 1, 1], and [regions, 1, 1, columns, samples]
        let [far, aside] =
            [self.unsqueeze(&down.places, &[3, 4])?, self.unsqueeze(&across.places, &[1, 2])?];
        let (sine, cosine) = (self.call("Sin", &[&angle], [])?, self.call("Cos", &[&angle], [])?);
        let [sine, cosine, center_x, center_y] =
            self.spread(&[sine, cosine, center_x, center_y], &[1, 2, 3, 4])?;
        let (right, lower) = (self.mul(&aside, &cosine)?, self.mul(&far, &sine)?);
        let place_x = self.add(&right, &lower)?;
        let place_x = self.add(&place_x, &center_x)?;
        let (lower, right) = (self.mul(&far, &cosine)?, self.mul(&aside, &sine)?);
        let place_y = self.sub(&lower, &right)?;
        let place_y = self.add(&place_y, &center_y)?;
        let (rows, columns) = (self.pixels(x, 2, &place_y)?, self.pixels(x, 3, &place_x)?);
        let mut inside = self.call("And", &[&rows.inside, &columns.inside], [])?;
        for (marks, axes) in [(&down.inside, [3, 4]), (&across.inside, [1, 2])] {
            if let Some(marks) = marks {
                let marks = self.unsqueeze(marks, &axes)?;
                inside = self.call("And", &[&inside, &marks], [])?;
            }
        }
        let sums = self.interpolated(x, images, (&rows, &columns), &inside)?;
        let count = self.mul(&down.count, &across.count)?;
        let count = match count.rank()?.count() {
            0 => count,
            _ => self.unsqueeze(&count, &[1, 2, 3])?,
        };
        let means = self.div(&sums, &count)?;
        self.transpose(&means, &[0, 3, 1, 2])
    }

    /// Returns where samples are along a side of each region: `[regions]`.
    fn samples(&mut self, side: &Value, cells: i64, samples: i64) -> Made<Samples> {
        let (dtype, cell_count) = (side.dtype(), self.long(cells));
        #[expect(clippy::cast_precision_loss, reason = "there are few cells")]
        let by = self.number(dtype, cells as f64)?;
        let cell = self.div(side, &by)?;
        let [cell, start] = [cell, self.times(side, -0.5)?];
        let [cell_wide, start] = self.spread(&[cell.clone(), start], &[1, 2])?;
        // [cells, 1]
        let numbers = self.counting(&cell_count, dtype)?;
        let numbers = self.unsqueeze(&numbers, &[1])?;
        let (count, most, inside) = match samples {
            1.. => {
                #[expect(clippy::cast_precision_loss, reason = "there are few samples")]
                let count = self.number(dtype, samples as f64)?;
                (count, self.long(samples), None)
            }
            _ => {
                let count = self.call("Ceil", &[&cell], [])?;
                // There may be no regions.
                let none = self.filled(dtype, 0.0, &[1])?;
                let all = self.concat(&[&count, &none], 0)?;
                let most = self.reduce("ReduceMax", &all, &[0], false)?;
                let most = self.cast(&most, DType::Int64)?;
                let steps = self.counting(&most, dtype)?;
                let wide = self.unsqueeze(&count, &[1, 2])?;
                let inside = self.call("Less", &[&steps, &wide], [])?;
                (count, most, Some(inside))
            }
        };
        let steps = self.counting(&most, dtype)?;
        let steps = self.plus(&steps, 0.5)?;
        let shares = match count.rank()?.count() {
            0 => self.div(&steps, &count)?,
            _ => {
                let count = self.unsqueeze(&count, &[1, 2])?;
                self.div(&steps, &count)?
            }
        };
        // [regions, cells, samples]
        let along = self.add(&numbers, &shares)?;
        let places = self.mul(&along, &cell_wide)?;
        Ok(Samples { places: self.add(&places, &start)?, inside, count })
    }

    /// Returns the pixels around places along an axis of images.
    fn pixels(&mut self, x: &Value, axis: i64, places: &Value) -> Made<Pixels> {
        let dtype = places.dtype();
        let (size, least) = (self.extent_as(x, axis, dtype)?, self.number(dtype, -1.0)?);
        let is_behind = self.call("GreaterOrEqual", &[places, &least], [])?;
        let is_before = self.call("LessOrEqual", &[places, &size], [])?;
        let inside = self.call("And", &[&is_behind, &is_before], [])?;
        let last = self.plus(&size, -1.0)?;
        let places = self.clipped(places, &last)?;
        let low = self.call("Floor", &[&places], [])?;
        let share = self.sub(&places, &low)?;
        let high = self.plus(&low, 1.0)?;
        let high = self.call("Min", &[&high, &last], [])?;
        let (low, high) = (self.cast(&low, DType::Int64)?, self.cast(&high, DType::Int64)?);
        Ok(Pixels { low, high, share, inside })
    }

    /// Returns the sums of the samples of each cell: `[regions, rows, columns, channels]`.
    fn interpolated(
        &mut self,
        x: &Value,
        images: &Value,
        (rows, columns): (&Pixels, &Pixels),
        inside: &Value,
    ) -> Made {
        // [batch, height, width, channels]
        let x = self.transpose(x, &[0, 2, 3, 1])?;
        let image = self.unsqueeze(images, &[1, 2, 3, 4])?;
        let sizes = self.broadcast_sizes(&[inside.clone(), image.clone()])?;
        let one = self.number(rows.share.dtype(), 1.0)?;
        let zero = self.number(rows.share.dtype(), 0.0)?;
        let mut sum: Option<Value> = None;
        for (row, is_low_row) in [(&rows.low, true), (&rows.high, false)] {
            for (column, is_low_column) in [(&columns.low, true), (&columns.high, false)] {
                let mut weight = |share: &Value, is_low: bool| match is_low {
                    true => self.sub(&one, share),
                    false => Ok(share.clone()),
                };
                let down = weight(&rows.share, is_low_row)?;
                let across = weight(&columns.share, is_low_column)?;
                let weight = self.mul(&down, &across)?;
                let weight = self.choose(inside, &weight, &zero)?;
                let indices = each(&[image.clone(), row.clone(), column.clone()], |index| {
                    self.expand_to(index, &sizes)
                })?;
                let indices = self.stacked(&indices.each_ref())?;
                let pixels = self.call("GatherND", &[&x, &indices], [])?;
                let weight = self.unsqueeze(&weight, &[-1])?;
                let part = self.mul(&pixels, &weight)?;
                sum = Some(match sum {
                    Some(sum) => self.add(&sum, &part)?,
                    None => part,
                });
            }
        }
        let sum = sum.ok_or_else(|| Finding::internal("a pixel was lost"))?;
        self.reduce("ReduceSum", &sum, &[2, 4], false)
    }

    /// Splits rows of an image and a rotated region, or regions of the first image.
    pub(crate) fn images_and_rotated(&mut self, rows: &Value, has_image: bool) -> Made<[Value; 2]> {
        if has_image {
            let images = self.slice(rows, 1, 0, 1)?;
            let images = self.reshape(&images, &[-1])?;
            return Ok([self.cast(&images, DType::Int64)?, self.slice(rows, 1, 1, 6)?]);
        }
        let count: Size = self.size_of(rows, 0)?;
        Ok([self.filled_to(DType::Int64, 0.0, &[count])?, rows.clone()])
    }
}

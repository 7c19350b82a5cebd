//! Boxes: their corners and centers, their encoding relative to anchors, and their overlap.
//!
//! The corners of boxes are left, top, right and bottom. [`Edge`] and [`Center`] are what frameworks differ in; the growth
//! of a decoded box is the exponential of its delta, which some limit to 1000 / 16.
//!
//! | framework and release | what it means there | by |
//! |---|---|---|
//! | PaddlePaddle, `box_coder` | [`Center::Half`]; encoded targets have [`Center::Middle`]; the last pixel is inside unless `box_normalized` | `box_coder_kernel.cc` |
//! | PaddlePaddle, `generate_proposals` | [`Center::Half`]; growth is limited; the last pixel is inside, in v2 by `pixel_offset` | `detection/bbox_util.h`, `BoxCoder` |
//! | PaddlePaddle, `iou_similarity` | [`Overlap::Signed`]: two empty boxes overlap by 0, not NaN | `iou_similarity_op.h`, `IOUSimilarity` |
//! | PaddlePaddle, `matrix_nms` | [`Overlap::Strict`] | `nms_util.h`, `JaccardOverlap` |
//! | PaddlePaddle, `prior_box` | around `(at + offset) * step`, relative to the image | `prior_box_kernel.cc` |
//! | PaddlePaddle, `density_prior_box` | the same, after an offset in the cell; cut to the image even without `clip` | `density_prior_box_op.h` |
//! | PaddlePaddle, `anchor_generator` | around `at * stride + offset * (stride - 1)`, in pixels | `anchor_generator_op.h` |
//! | PaddlePaddle, `yolo_box` | cut to `image - 1` with `clip_bbox`; boxes below `conf_thresh` are 0 | `yolo_box_kernel.cc` |
//! | MXNet 1.9.1, `MultiBoxPrior` | around `(at + offset) * step`; a step of 0 or less is `1 / dim` | `multibox_prior.cc` |
//! | MXNet 1.9.1, `MultiBoxDetection`, `box_encode`, `box_decode` | [`Edge::Exclusive`]; growth is limited only by `clip` of `box_decode` above 0 | `multibox_detection.cc`, `bounding_box-inl.h` |
//! | MXNet 1.9.1, `box_iou` | [`Overlap::Clamped`] | `bounding_box-inl.h`, `compute_overlap` |
//! | MXNet 1.9.1, `Proposal` | [`Edge::Inclusive`] with [`Center::Middle`]; growth is not limited | `proposal-inl.h`, `BBoxTransformInv` |
//! | Caffe2, `GenerateProposals`, `BBoxTransform` | [`Center::Half`]; growth is limited; the last pixel is inside by `legacy_plus_one` | `generate_proposals_op_util_boxes.h` |
//! | Glow, `BBoxTransform` | as `generate_proposals`, in the scaled image; the last pixel is inside by `LegacyPlusOne` | `InterpreterNodes.cpp` |

use lodstone_schema::Finding;

use super::{Graph, Value, int};

type Made<T = Value> = Result<T, Finding>;

/// The maximum of the logarithm of a growth: that of 1000 / 16.
pub(crate) const MAX_GROWTH: f64 = 4.135_166_556_742_356;

/// The maximum number of boxes of a cell.
pub(crate) const MAX_BOXES: usize = 1 << 16;

/// The corners of boxes, with dims that broadcast: left, top, right, bottom.
pub(crate) type Corners = [Value; 4];

/// Whether the pixel at the right bottom corner is inside of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    Exclusive,
    /// The box is larger than the difference of its corners by 1.
    Inclusive,
}

/// The center of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Center {
    /// Half of the size from the left top corner, and the last pixel is left out of the right bottom one.
    Half,
    /// Between the corners.
    Middle,
}

/// How boxes are measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure {
    pub(crate) edge: Edge,
    pub(crate) center: Center,
}

/// Boxes as their centers and sizes, each across and down.
#[derive(Clone, Debug)]
pub(crate) struct Centered {
    pub(crate) center: [Value; 2],
    pub(crate) size: [Value; 2],
}

/// The overlap of boxes: the area that two share, divided by the area of both.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Overlap {
    /// Areas have the sign of their sides. 1e-10 is added to the area of both.
    Signed(Edge),
    /// Sides are at least 0, and boxes that share nothing overlap by 0.
    Clamped,
    /// The area of a reversed box is 0, and the shared area of such a box is negative unless both sides are reversed. Boxes
    /// apart share nothing, even if they are less than a pixel apart, and then overlap by 0.
    Strict(Edge),
}

/// Boxes around each cell of a grid.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    /// The centers of the columns and of the rows: `[width]` and `[height]`.
    pub(crate) centers: [Value; 2],
    /// The way from the center of a cell to that of each box: `[boxes]`.
    pub(crate) offsets: [Option<Value>; 2],
    /// Half of the size of each box: `[boxes]`.
    pub(crate) halves: [Value; 2],
}

impl Edge {
    pub(crate) const fn inclusive_if(is_inclusive: bool) -> Self {
        if is_inclusive { Self::Inclusive } else { Self::Exclusive }
    }

    /// Returns how much larger a box is than the difference of its corners.
    pub(crate) const fn excess(self) -> f64 {
        match self {
            Self::Exclusive => 0.0,
            Self::Inclusive => 1.0,
        }
    }
}

impl Measure {
    /// Boxes without their last pixel.
    pub(crate) const EXCLUSIVE: Self = Self { edge: Edge::Exclusive, center: Center::Middle };

    pub(crate) const fn half(edge: Edge) -> Self {
        Self { edge, center: Center::Half }
    }

    pub(crate) const fn middle(edge: Edge) -> Self {
        Self { edge, center: Center::Middle }
    }
}

/// Applies a function to each of some values.
pub(crate) fn each<const N: usize>(
    values: &[Value; N],
    apply: impl FnMut(&Value) -> Made,
) -> Made<[Value; N]> {
    let all = values.iter().map(apply).collect::<Made<Vec<_>>>()?;
    all.try_into().map_err(|_| Finding::internal("a coordinate was lost"))
}

/// Returns the corners of all boxes of each cell of a grid whose dims are known, by row and column. `kinds` are the corners
/// relative to the place of the cell.
pub(crate) fn tiled(columns: &[f32], rows: &[f32], kinds: &[[f32; 4]]) -> Vec<f32> {
    let cells = rows.iter().flat_map(|y| columns.iter().map(move |x| (x, y)));
    let boxes = cells.flat_map(|(x, y)| kinds.iter().map(move |kind| (x, y, kind)));
    boxes.flat_map(|(x, y, kind)| [x + kind[0], y + kind[1], x + kind[2], y + kind[3]]).collect()
}

impl Graph {
    /// Returns the coordinates of boxes: four tensors without the last dim.
    pub(crate) fn corners(&mut self, boxes: &Value) -> Made<Corners> {
        let last = boxes.rank()?.last().map_err(|_| "expected boxes, found a scalar")?.number();
        let mut corner = |place: i64| {
            let place = self.long(place);
            self.gather(boxes, &place, last)
        };
        Ok([corner(0)?, corner(1)?, corner(2)?, corner(3)?])
    }

    /// Inserts dims of 1 into all of some values.
    pub(crate) fn spread<const N: usize>(
        &mut self,
        values: &[Value; N],
        axes: &[i64],
    ) -> Made<[Value; N]> {
        each(values, |value| self.unsqueeze(value, axes))
    }

    /// Gathers rows `[batch, rows, columns]` of each example by places `[batch, ..]`.
    pub(crate) fn rows(&mut self, x: &Value, places: &Value) -> Made {
        let places = self.unsqueeze(places, &[places.rank()?.number()])?;
        self.call("GatherND", &[x, &places], [int("batch_dims", 1)])
    }

    /// Returns a side of boxes.
    pub(crate) fn side(&mut self, low: &Value, high: &Value, edge: Edge) -> Made {
        let side = self.sub(high, low)?;
        self.widened(side, edge.excess())
    }

    fn widened(&mut self, value: Value, excess: f64) -> Made {
        if excess == 0.0 { Ok(value) } else { self.plus(&value, excess) }
    }

    /// Returns the sides of boxes, across and down.
    pub(crate) fn sides(&mut self, corners: &Corners, edge: Edge) -> Made<[Value; 2]> {
        let [left, top, right, bottom] = corners;
        Ok([self.side(left, right, edge)?, self.side(top, bottom, edge)?])
    }

    /// Converts corners to centers and sizes.
    pub(crate) fn centered(&mut self, corners: &Corners, how: Measure) -> Made<Centered> {
        let size = self.sides(corners, how.edge)?;
        let [left, top, right, bottom] = corners;
        let mut center = |low: &Value, high: &Value, size: &Value| match how.center {
            Center::Half => {
                let half = self.times(size, 0.5)?;
                self.add(low, &half)
            }
            Center::Middle => {
                let sum = self.add(low, high)?;
                self.times(&sum, 0.5)
            }
        };
        let center = [center(left, right, &size[0])?, center(top, bottom, &size[1])?];
        Ok(Centered { center, size })
    }

    /// Converts centers and sizes to corners.
    pub(crate) fn cornered(&mut self, boxes: &Centered, how: Measure) -> Made<Corners> {
        let excess = how.edge.excess();
        let (inner, outer) = match how.center {
            Center::Half => (0.0, -excess),
            Center::Middle => (-excess, 0.0),
        };
        let mut ends = |center: &Value, size: &Value| {
            let size = self.widened(size.clone(), inner)?;
            let half = self.times(&size, 0.5)?;
            let (low, high) = (self.sub(center, &half)?, self.add(center, &half)?);
            Made::Ok((low, self.widened(high, outer)?))
        };
        let [x, y] = &boxes.center;
        let [width, height] = &boxes.size;
        let ((left, right), (top, bottom)) = (ends(x, width)?, ends(y, height)?);
        Ok([left, top, right, bottom])
    }

    /// Returns boxes relative to anchors: the distances in sizes of the anchors, and the logarithms of growths.
    /// `is_absolute` ignores the sign of growths.
    pub(crate) fn encoded(
        &mut self,
        boxes: &Centered,
        anchors: &Centered,
        is_absolute: bool,
    ) -> Made<[Value; 4]> {
        let mut distance = |to: &Value, from: &Value, size: &Value| {
            let way = self.sub(to, from)?;
            self.div(&way, size)
        };
        let ([to_x, to_y], [x, y]) = (&boxes.center, &anchors.center);
        let ([to_width, to_height], [width, height]) = (&boxes.size, &anchors.size);
        let (dx, dy) = (distance(to_x, x, width)?, distance(to_y, y, height)?);
        let mut growth = |to: &Value, from: &Value| {
            let ratio = self.div(to, from)?;
            let ratio = if is_absolute { self.call("Abs", &[&ratio], [])? } else { ratio };
            self.call("Log", &[&ratio], [])
        };
        Ok([dx, dy, growth(to_width, width)?, growth(to_height, height)?])
    }

    /// Moves and scales anchors, as [`encoded`](Self::encoded) has it. The logarithms of growths are at most `limit`.
    pub(crate) fn decoded(
        &mut self,
        deltas: &[Value; 4],
        anchors: &Centered,
        limit: Option<f64>,
    ) -> Made<Centered> {
        let [dx, dy, dw, dh] = deltas;
        let [width, height] = &anchors.size;
        let [x, y] = &anchors.center;
        let mut moved = |way: &Value, size: &Value, center: &Value| {
            let way = self.mul(way, size)?;
            self.add(&way, center)
        };
        let center = [moved(dx, width, x)?, moved(dy, height, y)?];
        let mut grown = |growth: &Value, size: &Value| {
            let growth = match limit {
                Some(limit) => {
                    let limit = self.number(growth.dtype(), limit)?;
                    self.call("Min", &[growth, &limit], [])?
                }
                None => growth.clone(),
            };
            let growth = self.call("Exp", &[&growth], [])?;
            self.mul(&growth, size)
        };
        Ok(Centered { center, size: [grown(dw, width)?, grown(dh, height)?] })
    }

    /// Clips coordinates to the range from 0 to `last`, which is at least 0.
    pub(crate) fn clipped(&mut self, x: &Value, last: &Value) -> Made {
        let x = self.call("Min", &[x, last], [])?;
        let zero = self.number(x.dtype(), 0.0)?;
        self.call("Max", &[&x, &zero], [])
    }

    /// Clips left and top to at least 0, and right and bottom to at most `last`, across and down.
    pub(crate) fn cropped(&mut self, corners: &Corners, last: [&Value; 2]) -> Made<Corners> {
        let [left, top, right, bottom] = corners;
        let zero = self.number(left.dtype(), 0.0)?;
        Ok([
            self.call("Max", &[left, &zero], [])?,
            self.call("Max", &[top, &zero], [])?,
            self.call("Min", &[right, last[0]], [])?,
            self.call("Min", &[bottom, last[1]], [])?,
        ])
    }

    /// Returns the overlap of boxes whose dims broadcast.
    pub(crate) fn overlap(&mut self, a: &Corners, b: &Corners, how: Overlap) -> Made {
        let edge = match how {
            Overlap::Signed(edge) | Overlap::Strict(edge) => edge,
            Overlap::Clamped => Edge::Exclusive,
        };
        let zero = self.number(a[0].dtype(), 0.0)?;
        let (own, other) = (self.area(a, how, edge)?, self.area(b, how, edge)?);
        let common = [
            self.call("Max", &[&a[0], &b[0]], [])?,
            self.call("Max", &[&a[1], &b[1]], [])?,
            self.call("Min", &[&a[2], &b[2]], [])?,
            self.call("Min", &[&a[3], &b[3]], [])?,
        ];
        let [width, height] = self.sides(&common, edge)?;
        let shared = match how {
            Overlap::Signed(_) | Overlap::Clamped => {
                let width = self.call("Max", &[&width, &zero], [])?;
                let height = self.call("Max", &[&height, &zero], [])?;
                self.mul(&width, &height)?
            }
            Overlap::Strict(_) => {
                let shared = self.mul(&width, &height)?;
                let is_apart = self.is_apart(a, b)?;
                self.choose(&is_apart, &zero, &shared)?
            }
        };
        let both = self.add(&own, &other)?;
        let both = self.sub(&both, &shared)?;
        if matches!(how, Overlap::Signed(_)) {
            let both = self.plus(&both, 1e-10)?;
            return self.div(&shared, &both);
        }
        let is_none = match how {
            Overlap::Clamped => self.call("LessOrEqual", &[&shared, &zero], [])?,
            Overlap::Signed(_) | Overlap::Strict(_) => self.call("Equal", &[&shared, &zero], [])?,
        };
        let overlap = self.div(&shared, &both)?;
        self.choose(&is_none, &zero, &overlap)
    }

    fn area(&mut self, corners: &Corners, how: Overlap, edge: Edge) -> Made {
        let [left, top, right, bottom] = corners;
        let zero = self.number(left.dtype(), 0.0)?;
        let sides = self.sides(corners, edge)?;
        let [width, height] = match how {
            Overlap::Clamped => each(&sides, |side| self.call("Max", &[side, &zero], []))?,
            Overlap::Signed(_) | Overlap::Strict(_) => sides,
        };
        let area = self.mul(&width, &height)?;
        if !matches!(how, Overlap::Strict(_)) {
            return Ok(area);
        }
        let across = self.call("Less", &[right, left], [])?;
        let down = self.call("Less", &[bottom, top], [])?;
        let is_reversed = self.call("Or", &[&across, &down], [])?;
        self.choose(&is_reversed, &zero, &area)
    }

    /// Returns whether a side of a box is behind the opposite side of the other one.
    fn is_apart(&mut self, a: &Corners, b: &Corners) -> Made {
        let pairs = [(&a[2], &b[0]), (&b[2], &a[0]), (&a[3], &b[1]), (&b[3], &a[1])];
        let [first, rest @ ..] = pairs;
        let mut is_apart = self.call("Less", &[first.0, first.1], [])?;
        for (end, begin) in rest {
            let is_behind = self.call("Less", &[end, begin], [])?;
            is_apart = self.call("Or", &[&is_apart, &is_behind], [])?;
        }
        Ok(is_apart)
    }

    /// Returns the corners of all boxes of each cell of a grid, which broadcast to `[height, width, boxes]`. With `image`,
    /// they are relative to its width and height.
    pub(crate) fn grid(&mut self, grid: &Grid, image: Option<[&Value; 2]>) -> Made<Corners> {
        let [columns, rows] = &grid.centers;
        let ([dx, dy], [half_width, half_height]) = (&grid.offsets, &grid.halves);
        let [width, height] = image.map_or([None; 2], |image| image.map(Some));
        // [1, width, 1] or [height, 1, 1]
        let mut ends = |centers: &Value, others: [i64; 2], offsets: &Option<Value>, half, size| {
            let mut centers = self.unsqueeze(centers, &others)?;
            if let Some(offsets) = offsets {
                centers = self.add(&centers, offsets)?;
            }
            let ends = [self.sub(&centers, half)?, self.add(&centers, half)?];
            match size {
                Some(size) => each(&ends, |end| self.div(end, size)),
                None => Ok(ends),
            }
        };
        let [left, right] = ends(columns, [0, 2], dx, half_width, width)?;
        let [top, bottom] = ends(rows, [1, 2], dy, half_height, height)?;
        Ok([left, top, right, bottom])
    }

    /// Returns boxes `[.., 4]` of corners that broadcast to `dims`.
    pub(crate) fn boxes_of(&mut self, corners: &Corners, dims: &Value) -> Made {
        let corners = each(corners, |corner| self.call("Expand", &[corner, dims], []))?;
        self.stacked(&corners.each_ref())
    }
}

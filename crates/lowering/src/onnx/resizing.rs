//! Resizing: which elements of an image make up those of the result.
//!
//! An element `at` of `to` results is made of the elements of `from` around a place in the image. `step` is `from / to`, or
//! one by a given scale.
//!
//! | framework and release | what it means there | by |
//! |---|---|---|
//! | PaddlePaddle, corners | `at * (from - 1) / (to - 1)`; the sizes count, whatever the scales | `bilinear_interp_v2-28` |
//! | PaddlePaddle, `align_mode` 0 | `(at + 0.5) * step - 0.5`; up to 3.2, a single result is the first element | `linear_interp_v2-7` |
//! | PaddlePaddle, `align_mode` 1 | `at * step` | `bilinear_interp_v2-10` |
//! | PaddlePaddle, cubic | as `align_mode` 0; a single result is half an element before the first one | `bicubic_interp_v2-7` |
//! | PaddlePaddle, nearest | `at * step`, rounded down, in single precision (the middle of 2 of 14 is at 7) | `nearest_interp_v2-1` |
//! | PaddlePaddle, nearest with corners | in single precision, too; 0.5 is added in double precision before it is rounded down | `nearest_interp_v2` |
//! | PaddlePaddle, sizes | the dim times the scale in single precision; `step` is `1 / scale` | `linear_interp_v2-9` |
//! | PaddlePaddle, 1.x | `step` is `from / to`, even if a scale is given | `bilinear_interp-8` |
//! | PaddlePaddle, same sizes | the image is copied, whatever the scales | `linear_interp_v2-9` |
//! | MXNet 1.9.1, `BilinearResize2D` | corners, or `(at + 0.5) * from / to - 0.5`; a single result is the first element | `bilinear_resize-inl.h` |
//! | MXNet 1.9.1, sizes | the dim times the scale in single precision (29 of 100 by 0.29); an odd dim by `odd_scale`: one less, and one more after it | `bilinear_resize-inl.h` |
//! | MXNet 1.9.1, `UpSampling` | each element is repeated | `upsampling-inl.h` |
//! | PyTorch, nearest | `at * step`, rounded down, in single precision | `resize_nearest1d` |
//! | PyTorch, nearest in two dims | the same, but copied if the size is the same, and repeated if it is twice the dim | `resize_kept_nearest` |
//! | PyTorch, exact | `(at + 0.5) * step`, rounded down, in single precision | `resize_nearest-exact_0.6_1.5` |
//! | PyTorch, linear and antialiased | `(at + 0.5) * step - 0.5`; a dim that keeps its size is copied | `resize_kept_bilinear` |
//! | PyTorch, cubic | as linear, but never copied | `resize_kept_bicubic` |
//! | PyTorch, antialiased with corners | `(at + 0.5) * (from - 1) / (to - 1) - 0.5` | `UpSampleKernel.cpp` |
//! | PyTorch, sizes | the dim times the scale in double precision (28 of 100 by 0.29); `step` is `1 / scale`, of each dim whose scale is given | `resize_bilinear_1.7` |

use lodstone_model::{Attribute, DType};
use lodstone_schema::numbers::{exact, length};
use lodstone_schema::{Code, Finding};

use super::{Graph, Size, Value, float, int, ints, text};

type Made<T = Value> = Result<T, Finding>;

/// How an element is made of those around a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    Nearest(Rounding),
    Linear,
    /// With the coefficient -0.75; antialiased, -0.5.
    Cubic,
}

/// How places of nearest elements are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Down,
    HalfUp,
}

/// The place of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Places {
    Asymmetric,
    AlignCorners,
    HalfPixel,
    /// A single result is at the first element.
    HalfPixelUnlessSingle,
}

/// A way to resize.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resize {
    pub(crate) filter: Filter,
    pub(crate) places: Places,
    /// Whether a smaller result is made of more elements. The weights of what is outside of the image are left out.
    pub(crate) antialias: bool,
}

/// The sizes of a result, or its dims as multiples of those of the image.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent<'v> {
    Sizes(&'v Value),
    Scales(&'v Value),
}

impl Places {
    pub(crate) fn attribute(self) -> Attribute {
        let name = match self {
            Self::Asymmetric => "asymmetric",
            Self::AlignCorners => "align_corners",
            Self::HalfPixel => "half_pixel",
            Self::HalfPixelUnlessSingle => "pytorch_half_pixel",
        };
        text("coordinate_transformation_mode", name)
    }
}

impl Rounding {
    pub(crate) fn attribute(self) -> Attribute {
        let name = match self {
            Self::Down => "floor",
            Self::HalfUp => "round_prefer_ceil",
        };
        text("nearest_mode", name)
    }
}

impl Resize {
    /// Creates a way to resize without antialiasing.
    pub(crate) const fn new(filter: Filter, places: Places) -> Self {
        Self { filter, places, antialias: false }
    }

    /// Returns the attributes that have an effect, for the given axes, or for all if there are none.
    fn attributes(self, axes: &[i64]) -> Vec<Attribute> {
        let mode = match self.filter {
            Filter::Nearest(_) => "nearest",
            Filter::Linear => "linear",
            Filter::Cubic => "cubic",
        };
        let mut attributes = vec![text("mode", mode)];
        attributes.extend((!axes.is_empty()).then(|| ints("axes", axes)));
        attributes.push(self.places.attribute());
        match self.filter {
            Filter::Nearest(rounding) => attributes.push(rounding.attribute()),
            Filter::Linear => {}
            Filter::Cubic => attributes.push(float("cubic_coeff_a", self.coefficient())),
        }
        if self.antialias {
            attributes.extend([int("antialias", 1), int("exclude_outside", 1)]);
        }
        attributes
    }

    /// Whether PyTorch copies a dim that keeps its size, whatever its scale; of nearest ones, see [`Picks`].
    pub(crate) fn copies(self) -> bool {
        self.filter == Filter::Linear || self.antialias
    }

    const fn coefficient(self) -> f32 {
        if self.antialias { -0.5 } else { -0.75 }
    }

    /// Returns the weight of an element at a distance from a place.
    fn weight(self, distance: f64) -> f64 {
        let (x, a) = (distance.abs(), f64::from(self.coefficient()));
        match self.filter {
            Filter::Cubic if x < 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            Filter::Cubic if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            Filter::Cubic => 0.0,
            Filter::Linear | Filter::Nearest(_) => (1.0 - x).max(0.0),
        }
    }

    /// Returns the share of each of `from` elements in each of `to` results, antialiased with `step`.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "dims are small"
    )]
    fn shares(self, from: i64, to: i64, step: f64) -> Vec<f32> {
        let wide = step.max(1.0);
        let line = |at: i64| {
            let center = (at as f64 + 0.5) * step - 0.5;
            let weights: Vec<f64> =
                (0..from).map(|place| self.weight((place as f64 - center) / wide)).collect();
            let sum: f64 = weights.iter().sum();
            weights.into_iter().map(move |weight| (weight / sum) as f32)
        };
        (0..to).flat_map(line).collect()
    }
}

/// The maximum number of elements of a constant.
const MAX_ELEMENTS: i64 = 1 << 22;

impl Graph {
    /// Resizes an image along axes; along all, if none are given.
    pub(crate) fn resize(&mut self, x: &Value, how: Resize, axes: &[i64], to: Extent<'_>) -> Made {
        let attributes = how.attributes(axes);
        let [y] = match to {
            Extent::Sizes(sizes) => {
                self.emit_all("Resize", &[Some(x), None, None, Some(sizes)], attributes)?
            }
            Extent::Scales(scales) => {
                self.emit_all("Resize", &[Some(x), None, Some(scales)], attributes)?
            }
        };
        Ok(y)
    }

    /// Resizes the axes from the third on to sizes; the first two are those of the image.
    pub(crate) fn resize_to(&mut self, x: &Value, how: Resize, sizes: &[Size]) -> Made {
        let begin = self.call("Shape", &[x], [int("end", 2)])?;
        let end = self.list_of(sizes)?;
        let sizes = self.concat(&[&begin, &end], 0)?;
        self.resize(x, how, &[], Extent::Sizes(&sizes))
    }

    /// Resizes the last two axes of images antialiased, with the corners of image and result at the same distance from
    /// their ends, as no mode of ONNX does. The dims must be known.
    pub(crate) fn smoothed(&mut self, x: &Value, how: Resize, sizes: [i64; 2]) -> Made {
        let mut matrices = Vec::new();
        for (axis, to) in [-2, -1].into_iter().zip(sizes) {
            let unknown = || Finding::new(Code::UnknownDims, format!("dim {axis} must be known"));
            let from = x.size(axis)?.ok_or_else(unknown)?;
            if from.checked_mul(to).is_none_or(|all| !(1..=MAX_ELEMENTS).contains(&all)) {
                return Err(format!("{from} elements cannot be resized to {to}").into());
            }
            #[expect(clippy::cast_precision_loss, reason = "dims are small")]
            let step = if to == 1 { 0.0 } else { (from - 1) as f64 / (to - 1) as f64 };
            let shares = self.matrix(&how.shares(from, to, step), [exact(to)?, exact(from)?]);
            matrices.push(self.cast(&shares, x.dtype())?);
        }
        let [rows, columns] =
            matrices.try_into().map_err(|_| Finding::internal("a matrix was lost"))?;
        let columns = self.turned(&columns)?;
        let y = self.call("MatMul", &[&rows, x], [])?;
        self.call("MatMul", &[&y, &columns], [])
    }
}

/// How a framework chooses the nearest element of an axis, in single precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Picks {
    /// At `(at + offset) * step`, rounded down.
    Down { offset: f32, repeats: Repeats },
    /// At `at * (from - 1) / (to - 1)`, where halves, which are added in double precision, are rounded up.
    Corners,
}

/// Whether elements are copied and repeated if the size is that of the axis or twice that, whatever the scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    Never,
    IfTwice,
}

/// The scale of an axis.
#[derive(Clone, Debug)]
pub(crate) enum Scale {
    Absent,
    Known(f64),
    /// A scalar of single precision.
    Value(Value),
}

impl Scale {
    fn known(&self) -> Option<f64> {
        match self {
            Self::Known(scale) => Some(*scale),
            Self::Absent | Self::Value(_) => None,
        }
    }
}

impl Picks {
    /// The maximum number of elements of a dim whose places are constants.
    const MAX: i64 = 1 << 16;

    /// Returns the places of `size` elements of `dim`, if they are few.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "as the kernels"
    )]
    fn places(self, dim: i64, size: i64, scale: Option<f64>) -> Option<Vec<i64>> {
        if dim < 1 || !(1..=Self::MAX).contains(&size) {
            return None;
        }
        let place = |at: i64| match self {
            Self::Down { offset, repeats } => {
                let is_repeated = repeats == Repeats::IfTwice;
                let step = match scale.filter(|scale| *scale > 0.0) {
                    _ if is_repeated && size == dim => 1.0,
                    _ if is_repeated && dim.checked_mul(2) == Some(size) => 0.5,
                    Some(scale) => (1.0 / scale) as f32,
                    None => dim as f32 / size as f32,
                };
                ((at as f32 + offset) * step).floor() as i64
            }
            Self::Corners => {
                let step = (dim - 1) as f32 / (size - 1).max(1) as f32;
                (f64::from(at as f32 * step) + 0.5).floor() as i64
            }
        };
        Some((0..size).map(|at| place(at).min(dim - 1)).collect())
    }

    /// Whether `Resize` rounds to the same places: it divides, where kernels multiply by the inverse.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "as runtimes")]
    pub(crate) fn is_resize(self, dim: i64, size: i64, scale: Option<f64>) -> bool {
        let place = |at: i64| match self {
            Self::Down { .. } => {
                let ratio = scale.map_or(size as f32 / dim as f32, |scale| scale as f32);
                (at as f32 / ratio).floor() as i64
            }
            Self::Corners => {
                let exact = at as f32 * (dim - 1) as f32 / (size - 1).max(1) as f32;
                (exact + 0.5).floor() as i64
            }
        };
        let places = self.places(dim, size, scale);
        let is_same = |(at, found): (i64, i64)| found == place(at).min(dim - 1);
        places.is_none_or(|places| (0..).zip(places).all(is_same))
    }

    /// Computes the places along an axis, of which not all is known.
    fn computed(self, graph: &mut Graph, dim: &Size, size: &Size, scale: &Scale) -> Made {
        let (dim, size) = (graph.scalar_of(dim)?, graph.scalar_of(size)?);
        let last = graph.plus(&dim, -1.0)?;
        let numbers = graph.counting(&size, DType::Float32)?;
        let places = match self {
            Self::Down { offset, repeats } => {
                let step = step(graph, &dim, &size, scale, repeats)?;
                let numbers = match offset {
                    0.0 => numbers,
                    offset => graph.plus(&numbers, offset.into())?,
                };
                graph.mul(&numbers, &step)?
            }
            Self::Corners => {
                let one = graph.long(1);
                let others = graph.plus(&size, -1.0)?;
                let others = graph.call("Max", &[&others, &one], [])?;
                let step = graph.ratio(&last, &others)?;
                let places = graph.mul(&numbers, &step)?;
                let places = graph.cast(&places, DType::Float64)?;
                graph.plus(&places, 0.5)?
            }
        };
        let places = graph.call("Floor", &[&places], [])?;
        let places = graph.cast(&places, DType::Int64)?;
        graph.call("Min", &[&places, &last], [])
    }
}

/// Computes the distance of the places along an axis.
#[expect(clippy::cast_possible_truncation, reason = "as the kernels")]
fn step(graph: &mut Graph, dim: &Value, size: &Value, scale: &Scale, repeats: Repeats) -> Made {
    let scale = match scale {
        Scale::Known(scale) if *scale > 0.0 => *scale,
        Scale::Known(_) | Scale::Absent => return graph.ratio(dim, size),
        Scale::Value(scale) => {
            let one = graph.number(DType::Float32, 1.0)?;
            return graph.div(&one, scale);
        }
    };
    let step = graph.number(DType::Float32, f64::from((1.0 / scale) as f32))?;
    if repeats == Repeats::Never || !(1.0..3.0).contains(&scale) {
        return Ok(step);
    }
    let own = graph.ratio(dim, size)?;
    let twice = graph.times(dim, 2.0)?;
    let is_same = graph.call("Equal", &[dim, size], [])?;
    let is_twice = graph.call("Equal", &[&twice, size], [])?;
    let is_kept = graph.call("Or", &[&is_same, &is_twice], [])?;
    graph.choose(&is_kept, &own, &step)
}

impl Graph {
    /// Divides integers in single precision.
    fn ratio(&mut self, dividend: &Value, divisor: &Value) -> Made {
        let dividend = self.cast(dividend, DType::Float32)?;
        let divisor = self.cast(divisor, DType::Float32)?;
        self.div(&dividend, &divisor)
    }
}

impl Graph {
    /// Picks the nearest elements of the axes from the third on by index; `None` if each element is repeated the same
    /// number of times, which `Resize` does without rounding.
    pub(crate) fn picked(
        &mut self,
        x: &Value,
        picks: Picks,
        sizes: &[Size],
        scales: &[Scale],
    ) -> Made<Option<Value>> {
        let mut all = Vec::new();
        let mut is_known = true;
        for (axis, (size, scale)) in (2..).zip(sizes.iter().zip(scales)) {
            let places = match (x.size(axis)?, size, scale) {
                (Some(dim), Size::Known(size), Scale::Absent | Scale::Known(_)) => {
                    match picks.places(dim, *size, scale.known()) {
                        Some(places) => Some((dim, places)),
                        None => return Ok(None),
                    }
                }
                _ => None,
            };
            is_known &= places.is_some();
            all.push((axis, size, scale, places));
        }
        let is_whole = |(dim, places): &(i64, Vec<i64>)| {
            let factor = length(places.len()) / dim;
            (0..).zip(places).all(|(at, place)| factor > 0 && *place == at / factor)
        };
        let is_factor = |scale: &Scale| scale.known().is_some_and(|scale| scale.fract() == 0.0);
        let needs_no_rounding = match is_known {
            true => all.iter().all(|(.., places)| places.as_ref().is_some_and(is_whole)),
            false => picks != Picks::Corners && scales.iter().all(is_factor),
        };
        if needs_no_rounding {
            return Ok(None);
        }
        let mut y = x.clone();
        for (axis, size, scale, places) in all {
            if places.is_some_and(|(dim, places)| places.into_iter().eq(0..dim)) {
                continue;
            }
            let dim = self.size_of(x, axis)?;
            let places = self.nearest(picks, &dim, size, scale)?;
            y = self.gather(&y, &places, axis)?;
        }
        Ok(Some(y))
    }

    /// Returns the places of the nearest elements of an axis.
    pub(crate) fn nearest(&mut self, picks: Picks, dim: &Size, size: &Size, scale: &Scale) -> Made {
        let places = match (dim.known(), size.known(), scale) {
            (Some(dim), Some(size), Scale::Absent | Scale::Known(_)) => {
                picks.places(dim, size, scale.known())
            }
            _ => None,
        };
        match places {
            Some(places) => Ok(self.longs(&places)),
            None => picks.computed(self, dim, size, scale),
        }
    }

    /// Cuts `size` elements of an axis out, from `start` on.
    pub(crate) fn cut(&mut self, x: &Value, axis: i64, start: &Size, size: &Size) -> Made {
        let (end, dim) = (self.sum_of(start, size)?, x.size(axis)?);
        let is_outside =
            |at: &Size| at.known().is_some_and(|at| at < 0 || dim.is_some_and(|dim| at > dim));
        if [start, size, &end].into_iter().any(is_outside) {
            let dim = dim.map_or("unknown".to_owned(), |dim| dim.to_string());
            return Err(format!("elements from {start} to {end} exceed a dim of {dim}").into());
        }
        if let (Size::Known(start), Size::Known(end)) = (start, &end) {
            return self.slice(x, axis, *start, *end);
        }
        let (start, end) = (self.list_of(std::slice::from_ref(start))?, self.list_of(&[end])?);
        let axes = self.longs(&[axis]);
        self.call("Slice", &[x, &start, &end, &axes], [])
    }
}

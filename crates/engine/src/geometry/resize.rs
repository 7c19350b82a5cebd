//! Where `Resize` reads: the axes that it resizes, and the elements around each coordinate.

use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::scaled_size;

use crate::call::Call;
use crate::dims::{at_mut, axis, bounded, count, dim_at, elements, whole};
use crate::error::Outcome;
use crate::tensor::Dense;

/// The largest dim whose indices are not charged.
const LONG: usize = 1 << 16;

/// The resizing of one axis.
pub(crate) struct Side {
    pub(crate) axis: usize,
    /// The numbers of input and output elements.
    pub(crate) from: usize,
    pub(crate) to: usize,
    scale: f64,
    /// The region that is resized, as fractions of the whole.
    region: (f64, f64),
}

/// Indices and weights of elements: one list per tap, with an entry for each result.
pub(crate) type Taps = Vec<(Vec<i64>, Vec<f64>)>;

/// Returns, for each axis that is resized, the index in the input of every element of the result; `None` for an axis that is
/// unchanged. Returns `None` unless the mode is `nearest`, no element is extrapolated, and the indices are few.
pub(crate) fn nearest(call: &Call<'_>) -> Outcome<Option<Vec<Option<Vec<usize>>>>> {
    let (shape, modes) = (call.input(0)?.shape(), Modes::of(call)?);
    let is_nearest = modes.mode == Mode::Nearest;
    let extrapolates = modes.coordinates == Coordinates::TfCropAndResize;
    if !is_nearest || extrapolates || shape.contains(&0) {
        return Ok(None);
    }
    let mut found = vec![None; shape.len()];
    let sides = sides(call, &shape)?;
    let mut dims = shape;
    for side in &sides {
        *at_mut(&mut dims, side.axis)? = side.to;
    }
    bounded(&dims)?;
    if dims.iter().any(|dim| *dim > LONG) {
        return Ok(None);
    }
    for side in sides.iter().filter(|side| !modes.is_identity(side)) {
        let places: Vec<f64> = (0..side.to).map(|to| modes.place(side, to)).collect();
        let places = modes.nearest(side, &places).into_iter().map(count).collect::<Outcome<_>>()?;
        *at_mut(&mut found, side.axis)? = Some(places);
    }
    Ok(Some(found))
}

/// Returns the axes from scales or sizes, adjusted to the aspect ratio policy.
pub(crate) fn sides(call: &Call<'_>, shape: &[usize]) -> Outcome<Vec<Side>> {
    let rank = shape.len();
    let axes: Vec<usize> = match call.ints("axes") {
        Some(axes) => axes.iter().map(|at| axis(*at, rank)).collect::<Outcome<_>>()?,
        None => (0..rank).collect(),
    };
    let doubles = |number: usize| call.optional(number).map(Dense::to_doubles).transpose();
    let regions = match call.text("coordinate_transformation_mode").as_deref() {
        Some("tf_crop_and_resize") => doubles(1)?.filter(|region| !region.is_empty()),
        _ => None,
    };
    let regions: Vec<(f64, f64)> = match &regions {
        Some(region) if region.len() == 2 * axes.len() => {
            let (begins, ends) = region.split_at(axes.len());
            begins.iter().copied().zip(ends.iter().copied()).collect()
        }
        Some(other) => {
            let wrong = format!("expected {} fractions, found {}", 2 * axes.len(), other.len());
            return Err(Finding::from(wrong).about_input(1));
        }
        None => vec![(0.0, 1.0); axes.len()],
    };
    let scales = doubles(2)?.filter(|scales| !scales.is_empty());
    let sizes = call.longs(3)?.filter(|sizes| !sizes.is_empty());
    let dims = axes.iter().map(|at| dim_at(shape, *at)).collect::<Outcome<Vec<usize>>>()?;
    let made: Vec<(usize, f64)> = match (scales, sizes) {
        (Some(scales), None) if scales.len() == dims.len() => {
            let side = |(scale, dim): (&f64, &usize)| {
                let to = scaled_size(*dim as u64, *scale);
                match *scale > 0.0 && to <= 9e15 {
                    true => Ok((elements(to), *scale)),
                    false => Err(format!("expected scales above 0, found {scale}").into()),
                }
            };
            scales.iter().zip(&dims).map(side).collect::<Outcome<_>>()?
        }
        (None, Some(sizes)) if sizes.len() == dims.len() => {
            let sizes = sizes.iter().map(|size| count(*size)).collect::<Outcome<Vec<_>>>()?;
            let parts = sizes.iter().zip(&dims);
            let scales: Vec<f64> = parts.map(|(to, from)| *to as f64 / *from as f64).collect();
            let one = [
                ("stretch", None),
                ("not_larger", scales.iter().copied().reduce(f64::min)),
                ("not_smaller", scales.iter().copied().reduce(f64::max)),
            ];
            let one = call.choice("keep_aspect_ratio_policy", &one)?;
            match one {
                Some(one) => {
                    dims.iter().map(|dim| (elements(one * *dim as f64 + 0.5), one)).collect()
                }
                None => sizes.into_iter().zip(scales).collect(),
            }
        }
        _ => return Err("expected a scale or size for each axis".into()),
    };
    let all = axes.into_iter().zip(dims).zip(made).zip(regions);
    let side = |(((axis, from), (to, scale)), region)| Side { axis, from, to, scale, region };
    Ok(all.map(side).collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// The formula of the coordinate in the input of an element of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coordinates {
    HalfPixel,
    HalfPixelSymmetric,
    HalfPixelUnlessSingle,
    AlignCorners,
    Asymmetric,
    TfHalfPixelForNn,
    TfCropAndResize,
}

/// The integer that a coordinate is rounded to.
#[derive(Clone, Copy)]
enum Rounding {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
}

/// Defines a function that returns the input coordinate of a result, in a precision.
macro_rules! coordinates {
    ($name:ident, $float:ty) => {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::unnecessary_cast,
            reason = "the precision of the runtimes, which may be that of the sides"
        )]
        pub(crate) fn $name(&self, side: &Side, to: usize) -> $float {
            let (to, from, size) = (to as $float, side.from as $float, side.to as $float);
            let (begin, end) = (side.region.0 as $float, side.region.1 as $float);
            let scale = side.scale as $float;
            let half_pixel = (to + 0.5) / scale - 0.5;
            match self.coordinates {
                Coordinates::HalfPixel => half_pixel,
                Coordinates::HalfPixelSymmetric => {
                    // The scale leads to a size that is not always a whole number.
                    from / 2.0 * (1.0 - size / (scale * from)) + (to + 0.5) / scale - 0.5
                }
                Coordinates::HalfPixelUnlessSingle if side.to == 1 => 0.0,
                Coordinates::HalfPixelUnlessSingle => half_pixel,
                Coordinates::AlignCorners if side.to == 1 => 0.0,
                Coordinates::AlignCorners => to * (from - 1.0) / (size - 1.0),
                Coordinates::Asymmetric => to / scale,
                Coordinates::TfHalfPixelForNn => (to + 0.5) / scale,
                Coordinates::TfCropAndResize => {
                    let step = match side.to == 1 {
                        true => (end - begin) * (from - 1.0) / 2.0,
                        false => to * (end - begin) * (from - 1.0) / (size - 1.0),
                    };
                    step + begin * (from - 1.0)
                }
            }
        }
    };
}

pub(crate) struct Modes {
    pub(crate) mode: Mode,
    pub(crate) coordinates: Coordinates,
    nearest: Rounding,
    curve: f64,
    antialias: bool,
    excludes: bool,
}

impl Modes {
    pub(crate) fn of(call: &Call<'_>) -> Outcome<Self> {
        let modes = [("nearest", Mode::Nearest), ("linear", Mode::Linear), ("cubic", Mode::Cubic)];
        let coordinates = [
            ("half_pixel", Coordinates::HalfPixel),
            ("half_pixel_symmetric", Coordinates::HalfPixelSymmetric),
            ("pytorch_half_pixel", Coordinates::HalfPixelUnlessSingle),
            ("align_corners", Coordinates::AlignCorners),
            ("asymmetric", Coordinates::Asymmetric),
            ("tf_half_pixel_for_nn", Coordinates::TfHalfPixelForNn),
            ("tf_crop_and_resize", Coordinates::TfCropAndResize),
        ];
        let roundings = [
            ("round_prefer_floor", Rounding::PreferFloor),
            ("round_prefer_ceil", Rounding::PreferCeil),
            ("floor", Rounding::Floor),
            ("ceil", Rounding::Ceil),
        ];
        Ok(Self {
            mode: call.choice("mode", &modes)?,
            coordinates: call.choice("coordinate_transformation_mode", &coordinates)?,
            nearest: call.choice("nearest_mode", &roundings)?,
            curve: call.float("cubic_coeff_a", -0.75).into(),
            antialias: call.int("antialias", 0) != 0,
            excludes: call.int("exclude_outside", 0) != 0,
        })
    }

    /// Returns whether the axis keeps all its elements.
    pub(crate) fn is_identity(&self, side: &Side) -> bool {
        side.scale == 1.0
            && side.from == side.to
            && self.coordinates != Coordinates::TfCropAndResize
    }

    /// Returns the input coordinate of a result.
    pub(crate) fn place(&self, side: &Side, to: usize) -> f64 {
        match self.mode {
            // In single precision, ONNX Runtime's coordinates are on other sides of some pixels.
            Mode::Nearest => self.place_single(side, to).into(),
            Mode::Linear | Mode::Cubic => self.place_double(side, to),
        }
    }

    coordinates!(place_single, f32);
    coordinates!(place_double, f64);

    pub(crate) fn nearest(&self, side: &Side, places: &[f64]) -> Vec<i64> {
        let last = side.from as f64 - 1.0;
        let of = |place: &f64| {
            let near = match self.nearest {
                Rounding::PreferFloor => (place - 0.5).ceil(),
                Rounding::PreferCeil => (place + 0.5).floor(),
                Rounding::Floor => place.floor(),
                Rounding::Ceil => place.ceil(),
            };
            whole(near.clamp(0.0, last))
        };
        places.iter().map(of).collect()
    }

    /// Returns the factor by which antialiasing narrows distances.
    pub(crate) fn squeeze(&self, side: &Side) -> f64 {
        if self.antialias { side.scale.min(1.0) } else { 1.0 }
    }

    /// Returns the position of the first tap, relative to the element before a coordinate.
    pub(crate) fn first(&self, side: &Side) -> f64 {
        let reach = if self.mode == Mode::Cubic { 2.0 } else { 1.0 };
        (-reach / self.squeeze(side)).floor() + 1.0
    }

    /// Returns the number of taps.
    pub(crate) fn steps(&self, side: &Side) -> usize {
        elements(2.0 - 2.0 * self.first(side))
    }

    /// Returns the elements around each coordinate, and their weights.
    pub(crate) fn taps(&self, side: &Side, places: &[f64]) -> Taps {
        let is_cubic = self.mode == Mode::Cubic;
        let (squeeze, first, steps) = (self.squeeze(side), self.first(side), self.steps(side));
        let last = side.from as f64 - 1.0;
        let weight = |distance: f64| {
            let x = (distance * squeeze).abs();
            let a = self.curve;
            match is_cubic {
                true if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
                true if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
                true => 0.0,
                false => (1.0 - x).clamp(0.0, 1.0),
            }
        };
        let mut taps: Taps =
            vec![(Vec::with_capacity(places.len()), Vec::with_capacity(places.len())); steps];
        for place in places {
            let base = place.ceil() - 1.0 + first;
            let at = |step: usize| base + step as f64;
            let share = |step: usize| match self.excludes && !(0.0..=last).contains(&at(step)) {
                true => 0.0,
                false => weight(at(step) - place),
            };
            let sum: f64 = (0..steps).map(share).sum();
            let sum = if sum == 0.0 || !(self.antialias || self.excludes) { 1.0 } else { sum };
            for (step, (numbers, shares)) in taps.iter_mut().enumerate() {
                numbers.push(whole(at(step).clamp(0.0, last)));
                shares.push(share(step) / sum);
            }
        }
        taps
    }
}

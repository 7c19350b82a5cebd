//! Pooling.

use lodstone_model::{Attribute, DType};
use lodstone_schema::paddle::Release;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::windows::{Divisor, Padding, Pads, Rounding, Windows, bins, spatial_dims};
use crate::onnx::{Value, int, ints};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("max_pool2d_with_index", |op| with_places(op, 2)),
    ("max_pool3d_with_index", |op| with_places(op, 3)),
    ("pool2d", pool),
    ("pool3d", pool),
];

impl Operator<'_> {
    /// Whether the pool computes the maximum of each window rather than the mean.
    pub(super) fn pools_maxima(&self) -> Outcome<bool> {
        match self.text("pooling_type")?.as_str() {
            "max" => Ok(true),
            "avg" => Ok(false),
            other => {
                Err(format!("expected `max` or `avg` as `pooling_type`, found `{other}`").into())
            }
        }
    }

    /// Returns what sums of windows are divided by: up to 1.x, windows exceed the padding.
    pub(super) fn divisor(&self) -> Outcome<Divisor> {
        let is_pool = self.kind().starts_with("pool");
        Ok(if self.flag("exclusive")? {
            Divisor::Inside
        } else if is_pool && !self.flag("adaptive")? && self.is_older_than(Release::new(2, 0)) {
            Divisor::Whole
        } else {
            Divisor::Padded
        })
    }

    /// Returns the windows of a pool, if their padding does not depend on unknown dims.
    pub(super) fn pool_windows(&self, size: &[i64], dims: Option<&[i64]>) -> Outcome<Windows> {
        let (strides, padding) = (self.each("strides", size.len())?, self.padding(size.len())?);
        let padding = match self.flag("adaptive")? {
            true => Padding::Explicit(Pads::none(size.len())),
            false => padding,
        };
        Windows::padded(size, &strides, &vec![1; size.len()], &padding, dims)
    }
}

fn pool(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let layout = op.layout("data_format")?;
    let x = op.channels_first(&x, layout)?;
    let is_max = op.pools_maxima()?;
    let size = op.ints("ksize")?;
    let (global, adaptive) = (op.flag("global_pooling")?, op.flag("adaptive")?);
    if global && adaptive {
        return Err("`global_pooling` is not supported with `adaptive`".into());
    }
    let y = if global || (adaptive && !is_max && size.iter().all(|cells| *cells == 1)) {
        op.call(if is_max { "GlobalMaxPool" } else { "GlobalAveragePool" }, &[&x], [])?
    } else if adaptive && !is_max {
        cells(op, &x, &size, "ReduceMean")?
    } else {
        windows(op, &x, &size, is_max)?
    };
    let y = op.in_layout(&y, layout)?;
    op.put("Out", &y)
}

/// Returns the maximum of each window, and its index in the image.
fn with_places(op: &mut Operator<'_>, spatial: usize) -> Outcome {
    let x = op.input("X")?;
    if op.is_exported() && !op.wants("Mask") {
        return maxima(op, &x, spatial);
    }
    let dims = x.dims()?;
    let spatial_dims = dims.get(2..).filter(|spatial_dims| spatial_dims.len() == spatial);
    let spatial_dims = spatial_dims.ok_or_else(|| format!("expected images, found {dims:?}"))?;
    let mut size = op.each("ksize", spatial)?;
    let (mut strides, pads) = (op.each("strides", spatial)?, op.each("paddings", spatial)?);
    let mut pads = Pads::both(&pads);
    if op.flag("adaptive")? {
        let pairs = spatial_dims.iter().zip(&size);
        let evenly = |(dim, count): (&i64, &i64)| dim.checked_rem(*count) == Some(0);
        if size.iter().any(|count| *count < 1) || !pairs.clone().all(evenly) {
            return Err(format!(
                "expected numbers of windows that divide {spatial_dims:?}, found {size:?}"
            )
            .into());
        }
        size = pairs.map(|(dim, count)| dim / count).collect();
        (strides, pads) = (size.clone(), Pads::none(spatial));
    } else if op.flag("global_pooling")? {
        (size, pads) = (spatial_dims.to_vec(), Pads::none(spatial));
    }
    let count = spatial_dims.iter().try_fold(1_i64, |all, dim| all.checked_mul(*dim));
    let count = op.long(count.ok_or("the image is too large")?.max(1));
    let attributes = [ints("kernel_shape", &size), ints("strides", &strides), pads.attribute()];
    // NaN is never the maximum.
    let x = op.numbered(&x, f32::MIN.into())?;
    let [y, places] = op.emit_all("MaxPool", &[Some(&x)], attributes)?;
    // ONNX's indices run through all images.
    let places = op.call("Mod", &[&places, &count], [])?;
    let places = op.cast(&places, DType::Int32)?;
    // Neither is the lowest value or -infinity: then there is no maximum.
    let lowest = op.number(y.dtype(), f32::MIN.into())?;
    let is_none = op.call("LessOrEqual", &[&y, &lowest], [])?;
    let none = op.number(DType::Int32, -1.0)?;
    let (y, places) = (op.choose(&is_none, &lowest, &y)?, op.choose(&is_none, &none, &places)?);
    op.put("Out", &y)?;
    op.put("Mask", &places)
}

/// Returns the maximum of each window, without its index.
fn maxima(op: &mut Operator<'_>, x: &Value, spatial: usize) -> Outcome {
    let size = op.each("ksize", spatial)?;
    let y = if op.flag("global_pooling")? {
        op.call("GlobalMaxPool", &[x], [])?
    } else if op.flag("adaptive")? {
        match size.iter().all(|cells| *cells == 1) {
            true => op.call("GlobalMaxPool", &[x], [])?,
            false => cells(op, x, &size, "ReduceMax")?,
        }
    } else {
        let (strides, pads) = (op.each("strides", spatial)?, op.each("paddings", spatial)?);
        let pads = Pads::both(&pads).attribute();
        let attributes = [ints("kernel_shape", &size), ints("strides", &strides), pads];
        let [y] = op.emit_all("MaxPool", &[Some(x)], attributes)?;
        y
    };
    op.put("Out", &y)
}

/// A pool as ONNX has it.
pub(super) struct Pool {
    /// The tensor, padded where ONNX's operator would pad it differently.
    pub(super) x: Value,
    /// The attributes of ONNX's operator.
    pub(super) attributes: Vec<Attribute>,
    /// The padding that was added.
    pub(super) around: Option<Pads>,
    /// For each window along each dim, the factor of the mean of all of its elements: PaddlePaddle divides by another
    /// number, which may be 0 or less if the window covers nothing of the tensor. Empty if no correction is needed.
    factors: Vec<Vec<f32>>,
}

impl Pool {
    pub(super) fn of(
        op: &mut Operator<'_>,
        x: &Value,
        size: &[i64],
        is_max: bool,
    ) -> Outcome<Self> {
        let ceil = op.flag("ceil_mode")?;
        let Some(dims) = spatial_dims(x) else {
            return Self::of_unknown(op, x, size, (is_max, ceil));
        };
        // With `auto_pad`, ONNX decides which padding counts and how many windows there are.
        let windows = op.pool_windows(size, Some(&dims))?;
        let Some((around, factors)) = beyond(op, &windows, &dims, (is_max, ceil))? else {
            let attributes = windows.of_pools(ceil);
            return Ok(Self { x: x.clone(), attributes, around: None, factors: Vec::new() });
        };
        let x = padded(op, x, &around, if is_max { f32::MIN } else { 0.0 })?;
        let attributes = windows.bare().of_pools(false);
        Ok(Self { x, attributes, around: Some(around), factors })
    }

    /// Returns the pool of a tensor whose dims are unknown, if ONNX has as many windows as PaddlePaddle, and they count the
    /// same elements.
    ///
    /// With `ceil_mode`, PaddlePaddle has a window that begins in the padding behind the tensor, and ONNX does not. There is
    /// none if the padding is not larger than what a window exceeds a stride by.
    fn of_unknown(
        op: &mut Operator<'_>,
        x: &Value,
        size: &[i64],
        (is_max, ceil): (bool, bool),
    ) -> Outcome<Self> {
        let unknown =
            |what: &str| Err(format!("the dims must be known for these windows: {what}").into());
        if op.flag("adaptive")? {
            return unknown("they are adaptive");
        }
        let counts_padding = !is_max && !op.flag("exclusive")?;
        let strides = op.each("strides", size.len())?;
        let pads = match op.padding(size.len())? {
            Padding::Explicit(pads) => pads,
            padding @ Padding::Same => {
                let exceeds = size.iter().zip(&strides).any(|(size, stride)| size < stride);
                if counts_padding {
                    return unknown("means count padding that depends on the dims");
                }
                if ceil && exceeds {
                    return unknown("`ceil_mode` adds windows between strides");
                }
                let [size, strides] = [("kernel_shape", size), ("strides", &strides)]
                    .map(|(name, numbers)| ints(name, numbers));
                // The padding makes the windows fit.
                let attributes = vec![size, strides, padding.attribute(), int("ceil_mode", 0)];
                return Ok(Self { x: x.clone(), attributes, around: None, factors: Vec::new() });
            }
        };
        let windows = Windows::of_pool(size, &strides, &pads)?;
        if !windows.is_native() {
            return unknown("some consist of padding");
        }
        if counts_padding && pads.begins != pads.ends {
            return unknown("means count padding that differs at the begin and the end");
        }
        let is_free = !ceil || windows.begin_inside();
        let (x, attributes) = match is_max {
            true if !is_free => {
                let around = windows.whole_of_any(Rounding::Up).pads();
                (padded(op, x, &around, f32::MIN)?, windows.bare().of_pools(false))
            }
            false if ceil && (counts_padding || !is_free) => {
                return unknown("`ceil_mode` counts padding");
            }
            _ => (x.clone(), windows.of_pools(ceil)),
        };
        Ok(Self { x, attributes, around: None, factors: Vec::new() })
    }
}

fn windows(op: &mut Operator<'_>, x: &Value, size: &[i64], is_max: bool) -> Outcome<Value> {
    let Pool { x, mut attributes, factors, .. } = Pool::of(op, x, size, is_max)?;
    if !is_max {
        attributes.push(int("count_include_pad", i64::from(!op.flag("exclusive")?)));
    }
    let kind = if is_max { "MaxPool" } else { "AveragePool" };
    let [mut y] = op.emit_all(kind, &[Some(&x)], attributes)?;
    for (behind, factors) in factors.iter().rev().enumerate().filter(|_| !is_max) {
        let list = op.singles(factors);
        let list = op.cast(&list, y.dtype())?;
        let list = op.reshape(&list, &[&[-1][..], &vec![1; behind]].concat())?;
        y = op.mul(&y, &list)?;
    }
    Ok(y)
}

/// Returns the padding with which all windows are whole and the factors of their means, if ONNX omits windows or counts
/// their elements differently. For maxima, `adaptive` only changes the number of windows.
fn beyond(
    op: &Operator<'_>,
    windows: &Windows,
    dims: &[i64],
    (is_max, ceil): (bool, bool),
) -> Outcome<Option<(Pads, Vec<Vec<f32>>)>> {
    let (adaptive, divisor) = (op.flag("adaptive")?, op.divisor()?);
    let rounding = if ceil { Rounding::Up } else { Rounding::Down };
    let Pads { begins, ends } = windows.pads();
    let (mut whole, mut factors, mut is_other) = (Vec::new(), Vec::new(), adaptive);
    for ((window, dim), end) in windows.over(dims)?.zip(ends) {
        let size = window.kernel();
        let count = if adaptive { size } else { window.count(dim, rounding)? };
        let (divisors, needed) =
            (window.divisors(dim, count, divisor)?, window.end_of(dim, count)?);
        is_other |= !window.fits(dim)?;
        is_other |= (0..count).any(|number| window.inside(number, dim).is_empty());
        if !is_max && divisor != Divisor::Inside {
            is_other |= needed > end || divisors.iter().any(|divisor| *divisor != size);
        }
        whole.push(needed);
        factors.push(divisors.iter().map(|divisor| size as f32 / *divisor as f32).collect());
    }
    Ok(is_other.then_some((Pads { begins, ends: whole }, factors)))
}

/// Pads the spatial dims; negative pads crop.
pub(super) fn padded(op: &mut Operator<'_>, x: &Value, pads: &Pads, number: f32) -> Outcome<Value> {
    let pads = op.longs(&pads.of_images());
    let number = op.number(x.dtype(), number.into())?;
    op.call("Pad", &[x, &pads, &number], [])
}

/// The maximum number of cells of a dim that is not known.
const MAX_CELLS: i64 = 64;

/// Reduces cells along a dim whose size is known when the program runs.
fn cells_of_unknown(
    op: &mut Operator<'_>,
    x: &Value,
    axis: i64,
    count: i64,
    kind: &str,
) -> Outcome<Value> {
    if count == 1 {
        return op.reduce(kind, x, &[axis], true);
    }
    if !(1..=MAX_CELLS).contains(&count) {
        return Err(
            format!("expected 1 to {MAX_CELLS} cells of an unknown dim, found {count}").into()
        );
    }
    let dim = op.dim(x, axis)?;
    let (axes, all) = (op.longs(&[axis]), op.longs(&[count]));
    let mut cells = Vec::new();
    for cell in 0..count {
        let (first, last) = (op.longs(&[cell]), op.longs(&[cell + 1]));
        let (begin, end) = (op.mul(&dim, &first)?, op.mul(&dim, &last)?);
        let rounded = op.longs(&[count - 1]);
        let end = op.add(&end, &rounded)?;
        let (begin, end) = (op.div(&begin, &all)?, op.div(&end, &all)?);
        let part = op.call("Slice", &[x, &begin, &end, &axes], [])?;
        cells.push(op.reduce(kind, &part, &[axis], true)?);
    }
    op.concat(&cells.iter().collect::<Vec<_>>(), axis)
}

/// Reduces a number of cells for each dim to their mean or maximum.
fn cells(op: &mut Operator<'_>, x: &Value, size: &[i64], kind: &str) -> Outcome<Value> {
    let mut y = x.clone();
    for (axis, count) in (2..).zip(size) {
        let Some(dim) = x.size(axis)? else {
            y = cells_of_unknown(op, &y, axis, *count, kind)?;
            continue;
        };
        if *count < 1 || *count > dim.max(1).saturating_mul(MAX_CELLS) {
            return Err(format!("expected at least 1 cell of a dim of {dim}, found {count}").into());
        }
        let cells = bins(*count, dim)?.into_iter().map(|cell| {
            let cell = op.slice(&y, axis, cell.start, cell.end)?;
            op.reduce(kind, &cell, &[axis], true)
        });
        let cells = cells.collect::<Outcome<Vec<_>>>()?;
        y = op.concat(&cells.iter().collect::<Vec<_>>(), axis)?;
    }
    Ok(y)
}

//! Pooling.

use lodstone_model::{Attribute, DType};

use lodstone_schema::paddle::Release;

use super::conv::{Pads, same_pads, spatial_dims};
use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int, ints, text};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("max_pool2d_with_index", |op| with_places(op, 2)),
    ("max_pool3d_with_index", |op| with_places(op, 3)),
    ("pool2d", pool),
    ("pool3d", pool),
];

/// The maximum number of windows along a dim that are computed one by one.
pub(super) const MAX_WINDOWS: usize = 1 << 20;

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
}

fn pool(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let last = op.channels_last("data_format")?;
    let x = if last { op.channels_to_front(&x)? } else { x };
    let is_max = op.pools_maxima()?;
    let size = op.ints("ksize")?;
    let (global, adaptive) = (op.flag("global_pooling")?, op.flag("adaptive")?);
    let y = if global || (adaptive && !is_max && size.iter().all(|cells| *cells == 1)) {
        op.call(if is_max { "GlobalMaxPool" } else { "GlobalAveragePool" }, &[&x], [])?
    } else if adaptive && !is_max {
        cells(op, &x, &size, "ReduceMean")?
    } else {
        windows(op, &x, &size, is_max)?
    };
    let y = if last { op.channels_to_back(&y)? } else { y };
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
    let (mut strides, mut pads) = (op.each("strides", spatial)?, op.each("paddings", spatial)?);
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
        (strides, pads) = (size.clone(), vec![0; spatial]);
    } else if op.flag("global_pooling")? {
        (size, pads) = (spatial_dims.to_vec(), vec![0; spatial]);
    }
    let count = spatial_dims.iter().try_fold(1_i64, |all, dim| all.checked_mul(*dim));
    let count = op.long(count.ok_or("the image is too large")?.max(1));
    let attributes = [
        ints("kernel_shape", &size),
        ints("strides", &strides),
        ints("pads", &[pads.clone(), pads].concat()),
    ];
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
        let attributes = [
            ints("kernel_shape", &size),
            ints("strides", &strides),
            ints("pads", &[pads.clone(), pads].concat()),
        ];
        let [y] = op.emit_all("MaxPool", &[Some(x)], attributes)?;
        y
    };
    op.put("Out", &y)
}

/// The sliding windows over a tensor.
pub(super) struct Windows {
    /// The tensor, padded where ONNX's operator would pad it differently.
    pub(super) x: Value,
    /// The attributes of ONNX's operator.
    pub(super) attributes: Vec<Attribute>,
    /// The padding that was added at the begin and the end of each spatial dim.
    pub(super) around: Option<(Vec<i64>, Vec<i64>)>,
    /// The factors of the means along each dim; empty if no correction is needed.
    factors: Vec<Vec<f32>>,
}

impl Windows {
    pub(super) fn of(
        op: &mut Operator<'_>,
        x: &Value,
        size: &[i64],
        is_max: bool,
    ) -> Outcome<Self> {
        let strides = op.each("strides", size.len())?;
        let mut ceil = op.flag("ceil_mode")?;
        let mut padding = match (op.pads(size.len())?, spatial_dims(x)) {
            _ if op.flag("adaptive")? => Pads::Explicit(vec![0; 2 * size.len()]),
            // With `auto_pad`, ONNX decides which padding counts and how many windows there are.
            (Pads::Same, Some(dims)) => Pads::Explicit(same_pads(&dims, size, &strides)?),
            (pads, _) => pads,
        };
        let (mut x, mut factors, mut around) = (x.clone(), Vec::new(), None);
        if spatial_dims(&x).is_none() {
            let pads = over_unknown(op, &padding, size, &strides, ceil, is_max)?;
            // The padding already makes the windows fit.
            ceil &= matches!(padding, Pads::Explicit(_));
            if let Some((begins, ends)) = pads {
                x = padded(op, &x, &begins, &ends, f32::MIN)?;
                (padding, ceil) = (Pads::Explicit(vec![0; 2 * size.len()]), false);
            }
        }
        if let Pads::Explicit(pads) = &padding
            && let Some(beyond) = beyond(op, &x, size, &strides, pads, ceil)?
        {
            let begins = pads.get(..size.len()).unwrap_or_default().to_vec();
            x = padded(op, &x, &begins, &beyond.ends, if is_max { f32::MIN } else { 0.0 })?;
            (padding, ceil) = (Pads::Explicit(vec![0; 2 * size.len()]), false);
            factors = beyond.factors;
            around = Some((begins, beyond.ends));
        }
        let how = match padding {
            Pads::Same => text("auto_pad", "SAME_UPPER"),
            Pads::Explicit(pads) => ints("pads", &pads),
        };
        let attributes = vec![
            ints("kernel_shape", size),
            ints("strides", &strides),
            how,
            int("ceil_mode", i64::from(ceil)),
        ];
        Ok(Self { x, attributes, around, factors })
    }
}

/// Returns the padding at the begins and ends of dims of unknown size with which ONNX has as many windows as
/// PaddlePaddle; `None` if it has anyway.
///
/// With `ceil_mode`, PaddlePaddle has a window that begins in the padding behind the tensor, and ONNX does not. There is
/// none if the padding is not larger than what a window exceeds a stride by.
fn over_unknown(
    op: &Operator<'_>,
    padding: &Pads,
    size: &[i64],
    strides: &[i64],
    ceil: bool,
    is_max: bool,
) -> Outcome<Option<(Vec<i64>, Vec<i64>)>> {
    let unknown =
        |what: &str| Err(format!("the dims must be known for these windows: {what}").into());
    if op.flag("adaptive")? {
        return unknown("they are adaptive");
    }
    let counts_padding = !is_max && !op.flag("exclusive")?;
    let exceeds = size.iter().zip(strides).any(|(size, stride)| size < stride);
    let Pads::Explicit(pads) = padding else {
        return match (counts_padding, ceil && exceeds) {
            (true, _) => unknown("means count padding that depends on the dims"),
            (_, true) => unknown("`ceil_mode` adds windows between strides"),
            _ => Ok(None),
        };
    };
    let (begins, ends) =
        pads.split_at_checked(size.len()).ok_or("expected pads at begins and ends")?;
    if begins.iter().chain(ends).zip(size.iter().cycle()).any(|(pad, size)| pad >= size) {
        return unknown("some consist of padding");
    }
    if counts_padding && begins != ends {
        return unknown("means count padding that differs at the begin and the end");
    }
    if !ceil {
        return Ok(None);
    }
    let is_free = ends
        .iter()
        .zip(size)
        .zip(strides)
        .all(|((end, size), stride)| *end <= size.saturating_sub(*stride));
    if is_max {
        let ends = ends.iter().zip(strides).map(|(end, stride)| end.saturating_add(stride - 1));
        return Ok((!is_free).then(|| (begins.to_vec(), ends.collect())));
    }
    match is_free && !counts_padding {
        true => Ok(None),
        false => unknown("`ceil_mode` counts padding"),
    }
}

fn windows(op: &mut Operator<'_>, x: &Value, size: &[i64], is_max: bool) -> Outcome<Value> {
    let Windows { x, mut attributes, factors, .. } = Windows::of(op, x, size, is_max)?;
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

/// Corrections for windows that differ from ONNX's, or divide by another number of elements.
struct Beyond {
    /// The padding at the end of each dim with which the last window fits.
    ends: Vec<i64>,
    /// For each window along each dim, the factor of the mean of all of its elements: PaddlePaddle divides by another
    /// number, which may be 0 or less if the window covers nothing of the tensor.
    factors: Vec<Vec<f32>>,
}

/// The begin and the end of a window along a dim, relative to the first element of the tensor.
pub(super) struct Window {
    begin: i64,
    end: i64,
}

impl Operator<'_> {
    /// Whether means of windows that exceed the padding are divided by the size of the window, as up to 1.x.
    pub(super) fn windows_exceed_padding(&self) -> Outcome<bool> {
        let is_pool = self.kind().starts_with("pool");
        Ok(is_pool && !self.flag("adaptive")? && self.is_older_than(Release::new(2, 0)))
    }
}

impl Window {
    /// Returns the window that begins at a position along a dim of `dim` elements, with `before` elements of padding at
    /// the begin. PaddlePaddle assumes the same padding at the end, which a window does not exceed; up to 1.x, it
    /// `exceeds` the padding.
    pub(super) fn at(begin: i64, size: i64, dim: i64, before: i64, exceeds: bool) -> Self {
        let end = begin + size;
        Self { begin, end: if exceeds { end } else { end.min(dim + before) } }
    }

    /// Returns the elements of the tensor that the window covers.
    pub(super) fn inside(&self, dim: i64) -> std::ops::Range<i64> {
        self.begin.max(0)..self.end.min(dim)
    }

    /// Returns the number by which the sum is divided: elements of the tensor only, or all.
    pub(super) fn count(&self, dim: i64, exclusive: bool) -> i64 {
        let inside = self.inside(dim);
        if exclusive { inside.end - inside.start } else { self.end - self.begin }
    }
}

/// Returns the corrections for windows that ONNX omits or counts differently, if there are any. For maxima, `adaptive`
/// only changes the number of windows.
fn beyond(
    op: &Operator<'_>,
    x: &Value,
    size: &[i64],
    strides: &[i64],
    pads: &[i64],
    ceil: bool,
) -> Outcome<Option<Beyond>> {
    let (adaptive, exclusive, is_max) =
        (op.flag("adaptive")?, op.flag("exclusive")?, op.pools_maxima()?);
    let old = op.windows_exceed_padding()?;
    let (begins, ends) =
        pads.split_at_checked(size.len()).ok_or("expected pads at begins and ends")?;
    let Some(dims) = spatial_dims(x) else { return Ok(None) };
    let numbers = [size, strides, pads, &dims].into_iter().flatten();
    if numbers.into_iter().any(|number| number.unsigned_abs() > u64::from(u32::MAX >> 1)) {
        return Err(format!("windows of {size:?} over {dims:?} are too large").into());
    }
    if size.iter().chain(strides).any(|number| *number < 1) {
        return Ok(None);
    }
    let (mut lacking, mut factors, mut is_other) = (Vec::new(), Vec::new(), adaptive);
    let pads = begins.iter().copied().zip(ends);
    let windows = size.iter().zip(&dims).zip(strides.iter().copied().zip(pads));
    for ((size, dim), (stride, (before, after))) in windows {
        let rest = dim + before + after - size;
        let last = match (adaptive, ceil) {
            (true, _) => size - 1,
            // Rounded towards 0: if the padded dim is too small by less than a stride, there is one window.
            (false, true) => (rest + stride - 1) / stride,
            (false, false) => rest / stride,
        };
        if last < 0 {
            return Ok(None);
        }
        is_other |= rest < 0;
        let windows = (0..=last).take(MAX_WINDOWS + 1);
        let windows =
            windows.map(|number| Window::at(number * stride - before, *size, *dim, before, old));
        let windows = windows.collect::<Vec<Window>>();
        if windows.len() > MAX_WINDOWS {
            return Err(
                format!("expected at most {MAX_WINDOWS} windows, found {}", last + 1).into()
            );
        }
        is_other |= windows.iter().any(|window| window.inside(*dim).is_empty());
        if !is_max && !exclusive {
            is_other |= windows.iter().any(|window| window.count(*dim, false) != *size);
            is_other |= last * stride - before + size > dim + after;
        }
        lacking.push(last * stride + size - dim - before);
        let factor = |window: &Window| *size as f32 / window.count(*dim, exclusive) as f32;
        factors.push(windows.iter().map(factor).collect());
    }
    Ok(is_other.then_some(Beyond { ends: lacking, factors }))
}

/// Pads the begin and the end of each spatial dim; negative pads crop.
pub(super) fn padded(
    op: &mut Operator<'_>,
    x: &Value,
    begins: &[i64],
    ends: &[i64],
    number: f32,
) -> Outcome<Value> {
    let pads = op.longs(&[&[0, 0], begins, &[0, 0], ends].concat());
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

/// Reduces a number of cells for each dim to their mean or maximum; cell `i` of `n` spans `i * dim / n`, rounded down, to
/// `(i + 1) * dim / n`, rounded up.
fn cells(op: &mut Operator<'_>, x: &Value, size: &[i64], kind: &str) -> Outcome<Value> {
    let mut y = x.clone();
    for (axis, count) in (2..).zip(size) {
        let Some(dim) = x.size(axis)? else {
            y = cells_of_unknown(op, &y, axis, *count, kind)?;
            continue;
        };
        if *count < 1 || *count > dim.max(1) * 64 {
            return Err(format!("expected at least 1 cell of a dim of {dim}, found {count}").into());
        }
        let cells = (0..*count).map(|cell| {
            let (begin, end) = (cell * dim / count, ((cell + 1) * dim + count - 1) / count);
            let cell = op.slice(&y, axis, begin, end)?;
            op.reduce(kind, &cell, &[axis], true)
        });
        let cells = cells.collect::<Outcome<Vec<_>>>()?;
        y = op.concat(&cells.iter().collect::<Vec<_>>(), axis)?;
    }
    Ok(y)
}

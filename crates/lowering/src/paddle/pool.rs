//! Pooling.

use lodstone_model::DType;
use lodstone_schema::paddle::Release;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::adaptive::Pooled;
use crate::onnx::pools::{Empty, Pool};
use crate::onnx::windows::{Divisor, Pads, Rounding, Windows};
use crate::onnx::{Size, Value};

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

    /// Returns the pool over an image. For maxima, `adaptive` only changes the number of windows.
    pub(super) fn pool_of(&self, x: &Value, size: &[i64]) -> Outcome<Pool> {
        let strides = self.each("strides", size.len())?;
        if self.flag("adaptive")? {
            let windows = Windows::of_pool(size, &strides, &Pads::none(size.len()))?;
            return Ok(Pool::as_many_as_elements(x, windows)?.with_empty(Empty::Quotient));
        }
        let rounding = if self.flag("ceil_mode")? { Rounding::Up } else { Rounding::Down };
        let pool = Pool::padded(x, [size, &strides], &self.padding(size.len())?, rounding)?;
        Ok(pool.with_empty(Empty::Quotient))
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
    let y = match (global, adaptive, is_max) {
        (true, _, true) => op.call("GlobalMaxPool", &[&x], [])?,
        (true, _, false) => op.call("GlobalAveragePool", &[&x], [])?,
        (false, true, false) => op.adaptive_pool(&x, &counts(&size), Pooled::Mean)?,
        (false, _, true) => {
            let pool = op.pool_of(&x, &size)?;
            op.max_pool(&x, &pool)?
        }
        (false, false, false) => {
            let (pool, divisor) = (op.pool_of(&x, &size)?, op.divisor()?);
            op.mean_pool(&x, &pool, divisor)?
        }
    };
    let y = op.in_layout(&y, layout)?;
    op.put("Out", &y)
}

fn counts(size: &[i64]) -> Vec<Size> {
    size.iter().copied().map(Size::Known).collect()
}

/// Returns the maximum of each window, and its index in the image.
fn with_places(op: &mut Operator<'_>, spatial: usize) -> Outcome {
    let x = op.input("X")?;
    if op.is_exported() && !op.wants("Mask") {
        return maxima(op, &x, spatial);
    }
    // NaN is never the maximum.
    let lowest = op.number(x.dtype(), f32::MIN.into())?;
    let x = op.numbered(&x, f32::MIN.into())?;
    let size = op.each("ksize", spatial)?;
    let [y, places] = if op.flag("adaptive")? {
        op.adaptive_maxima(&x, &counts(&size))?
    } else if op.flag("global_pooling")? {
        op.adaptive_maxima(&x, &vec![Size::Known(1); spatial])?
    } else {
        let pool = windows_with_places(op, &x, &size)?;
        op.max_pool_with_places(&x, &pool)?
    };
    let places = op.cast(&places, DType::Int32)?;
    // Neither is the lowest value or -infinity: then there is no maximum.
    let is_none = op.call("LessOrEqual", &[&y, &lowest], [])?;
    let none = op.number(DType::Int32, -1.0)?;
    let (y, places) = (op.choose(&is_none, &lowest, &y)?, op.choose(&is_none, &none, &places)?);
    op.put("Out", &y)?;
    op.put("Mask", &places)
}

/// Returns the windows of operators that return indices, too: their number is rounded down.
fn windows_with_places(op: &Operator<'_>, x: &Value, size: &[i64]) -> Outcome<Pool> {
    let (strides, pads) = (op.each("strides", size.len())?, op.each("paddings", size.len())?);
    let windows = Windows::of_pool(size, &strides, &Pads::both(&pads))?;
    Pool::new(x, windows, Rounding::Down)
}

/// Returns the maximum of each window, without its index.
fn maxima(op: &mut Operator<'_>, x: &Value, spatial: usize) -> Outcome {
    let size = op.each("ksize", spatial)?;
    let y = if op.flag("global_pooling")? {
        op.call("GlobalMaxPool", &[x], [])?
    } else if op.flag("adaptive")? {
        op.adaptive_pool(x, &counts(&size), Pooled::Maximum)?
    } else {
        let pool = windows_with_places(op, x, &size)?;
        op.max_pool(x, &pool)?
    };
    op.put("Out", &y)
}

//! Gradients of pooling: a maximum gets the gradients of its windows, an element of a mean its share of them.

use std::ops::Range;

use lodstone_model::DType;
use lodstone_schema::numbers::{exact, length};

use super::super::operator::{Operator, Outcome, Rule};
use super::reduce::spread;
use crate::onnx::adaptive::bins;
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("max_pool2d_with_index_grad", by_places),
    ("max_pool3d_with_index_grad", by_places),
    ("pool2d_grad", pool),
    ("pool3d_grad", pool),
];

/// The maximum number of elements of a matrix of windows and elements.
const MAX_ELEMENTS: usize = 1 << 24;

fn pool(op: &mut Operator<'_>) -> Outcome {
    let (x, given) = (op.input("X")?, op.gradient("Out")?);
    let layout = op.layout("data_format")?;
    let (x, given) = (op.channels_first(&x, layout)?, op.channels_first(&given, layout)?);
    let y = match (op.pools_maxima()?, op.flag("global_pooling")?) {
        (true, true) => greatest(op, &x, &given)?,
        (true, false) => maxima(op, &x, &given)?,
        (false, is_global) => means(op, &x, &given, is_global)?,
    };
    let y = op.in_layout(&y, layout)?;
    op.put_gradient("X", &y)
}

/// The gradient of `max_pool_with_index`: goes to the recorded indices of each image.
fn by_places(op: &mut Operator<'_>) -> Outcome {
    let (x, places, given) = (op.input("X")?, op.input("Mask")?, op.gradient("Out")?);
    let [examples, channels, ..] = x.dims()?[..] else {
        return Err("expected batch and channels".into());
    };
    let places = op.cast(&places, DType::Int64)?;
    let mut lined = |value: &Value| op.reshape(value, &[examples, channels, -1]);
    let (lines, places, given) = (lined(&x)?, lined(&places)?, lined(&given)?);
    // Windows without a maximum have no gradient.
    let (first, nothing) = (op.long(0), op.number(given.dtype(), 0.0)?);
    let is_none = op.call("Less", &[&places, &first], [])?;
    let places = op.choose(&is_none, &first, &places)?;
    let given = op.choose(&is_none, &nothing, &given)?;
    let y = op.scattered(&lines, &places, &given, 2)?;
    let y = op.reshape_as(&y, &x)?;
    op.put_gradient("X", &y)
}

/// The gradient of the maximum of each channel: the first of equal elements gets it.
fn greatest(op: &mut Operator<'_>, x: &Value, given: &Value) -> Outcome<Value> {
    let [examples, channels, ..] = x.dims()?[..] else {
        return Err("expected batch and channels".into());
    };
    let lines = op.reshape(x, &[examples, channels, -1])?;
    let top = op.call("GlobalMaxPool", &[x], [])?;
    let given = counting(op, &top, given)?;
    let top = op.reshape(&top, &[examples, channels, 1])?;
    let is_top = op.call("Equal", &[&lines, &top], [])?;
    let is_top = op.cast(&is_top, DType::Int32)?;
    let place = op.call("ArgMax", &[&is_top], [int("axis", 2)])?;
    let given = op.reshape(&given, &[examples, channels, 1])?;
    let y = op.scattered(&lines, &place, &given, 2)?;
    op.reshape_as(&y, x)
}

/// Masks the output gradient where the maximum is NaN, since no element equals NaN.
fn counting(op: &mut Operator<'_>, tops: &Value, given: &Value) -> Outcome<Value> {
    let none = op.call("IsNaN", &[tops], [])?;
    op.except(&none, given)
}

/// The gradient of the maximum of each window: the first of equal elements gets it.
fn maxima(op: &mut Operator<'_>, x: &Value, given: &Value) -> Outcome<Value> {
    let size = op.ints("ksize")?;
    let pool = op.pool_of(x, &size)?;
    let (pads, windows) = (pool.whole()?.pads(), pool.whole()?.bare());
    let whole = op.pad_images(x, &pads, f32::MIN.into())?;
    let [tops, places] = op.emit_all("MaxPool", &[Some(&whole)], windows.of_pools(false))?;
    let given = counting(op, &tops, given)?;
    let (list, places) = (op.reshape(&whole, &[-1])?, op.reshape(&places, &[-1])?);
    let given = op.reshape(&given, &[-1])?;
    let sums = op.scattered(&list, &places, &given, 0)?;
    let sums = op.reshape_as(&sums, &whole)?;
    op.pad_images(&sums, &pads.undone(), 0.0)
}

/// The elements of the tensor that a window covers along a dim, and the number by which its sum is divided.
struct Share {
    inside: Range<i64>,
    count: i64,
}

/// The gradient of means: along each dim, the windows are rows of a matrix, with ones at their elements.
fn means(op: &mut Operator<'_>, x: &Value, given: &Value, is_global: bool) -> Outcome<Value> {
    let (dims, found) = (x.dims()?, given.dims()?);
    let (Some(dims), Some(found)) = (dims.get(2..), found.get(2..)) else {
        return Err(format!("expected images, found rank {}", x.rank()?).into());
    };
    if dims.len() != found.len() {
        return Err(format!("expected results over {dims:?}, found {found:?}").into());
    }
    if is_global || found.iter().all(|count| *count == 1) && op.flag("adaptive")? {
        let count = dims.iter().try_fold(1_i64, |all, dim| all.checked_mul(*dim));
        let count = op.number(given.dtype(), count.ok_or("the image is too large")? as f64)?;
        let share = op.div(given, &count)?;
        return spread(op, &share, x);
    }
    let all = along(op, x, [dims, found])?;
    let mut y = given.clone();
    for (axis, (windows, dim)) in (2..).zip(all.iter().zip(dims)) {
        y = over(op, &y, axis, windows, *dim)?;
    }
    Ok(y)
}

/// Returns the windows along each dim.
fn along(op: &Operator<'_>, x: &Value, [dims, found]: [&[i64]; 2]) -> Outcome<Vec<Vec<Share>>> {
    if op.flag("adaptive")? {
        let shares = |(dim, count): (&i64, &i64)| {
            let share = |bin: Range<i64>| Share { count: bin.end - bin.start, inside: bin };
            Ok(bins(*count, *dim)?.into_iter().map(share).collect())
        };
        return dims.iter().zip(found).map(shares).collect();
    }
    let pool = op.pool_of(x, &op.each("ksize", dims.len())?)?;
    let divisor = op.divisor()?;
    let shares = pool.windows.over(dims)?.zip(found).map(|((window, dim), count)| {
        let divisors = window.divisors(dim, *count, divisor)?;
        // A window without elements has no gradient.
        let share = |(number, divisor): (i64, i64)| Share {
            inside: window.inside(number, dim),
            count: divisor.max(1),
        };
        Ok((0..).zip(divisors).map(share).collect())
    });
    shares.collect()
}

/// Maps the gradients of the windows along a dim to those of its elements.
fn over(
    op: &mut Operator<'_>,
    given: &Value,
    axis: i64,
    windows: &[Share],
    dim: i64,
) -> Outcome<Value> {
    let width = exact(dim)?;
    if windows.len().checked_mul(width).is_none_or(|all| all > MAX_ELEMENTS) {
        return Err(format!("{} windows over a dim of {dim} are too many", windows.len()).into());
    }
    let row = |window: &Share| {
        let inside = window.inside.clone();
        (0..dim).map(move |place| if inside.contains(&place) { 1.0 } else { 0.0 })
    };
    let ones: Vec<f32> = windows.iter().flat_map(row).collect();
    let counts: Vec<f32> = windows.iter().map(|window| window.count as f32).collect();
    let rows = length(windows.len());
    let (ones, counts) = (op.singles(&ones), op.singles(&counts));
    let (ones, counts) = (op.cast(&ones, given.dtype())?, op.cast(&counts, given.dtype())?);
    let ones = op.reshape(&ones, &[rows, dim])?;
    // The dim is moved to the end.
    let rank = given.rank()?;
    let mut order: Vec<i64> = rank.numbers().collect();
    order.swap(rank.axis(axis)?.index(), rank.last()?.index());
    let lines = op.transpose(given, &order)?;
    let shares = op.div(&lines, &counts)?;
    let sums = op.call("MatMul", &[&shares, &ones], [])?;
    op.transpose(&sums, &order)
}

//! Pooling.

use super::conv::Pads;
use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int, ints, text};

pub(super) const RULES: &[(&str, Rule)] = &[("pool2d", pool), ("pool3d", pool)];

fn pool(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let last = op.channels_last("data_format")?;
    let x = if last { op.channels_to_front(&x)? } else { x };
    let is_max = match op.text("pooling_type")?.as_str() {
        "max" => true,
        "avg" => false,
        other => return Err(format!("expected `max` or `avg` as `pooling_type`, found `{other}`")),
    };
    let size = op.ints("ksize")?;
    let all = op.flag("global_pooling")? || (op.flag("adaptive")? && size.iter().all(|n| *n == 1));
    let y = if all {
        op.call(if is_max { "GlobalMaxPool" } else { "GlobalAveragePool" }, &[&x], [])?
    } else if op.flag("adaptive")? {
        adaptive(op, &x, &size, is_max)?
    } else {
        windows(op, &x, &size, is_max)?
    };
    let y = if last { op.channels_to_back(&y)? } else { y };
    op.put("Out", &y)
}

fn windows(op: &mut Operator<'_>, x: &Value, size: &[i64], is_max: bool) -> Outcome<Value> {
    let how = match op.pads(size.len())? {
        Pads::Same => text("auto_pad", "SAME_UPPER"),
        Pads::Explicit(pads) => ints("pads", &pads),
    };
    let strides = op.each("strides", size.len())?;
    let (exclusive, ceil) = (op.flag("exclusive")?, op.flag("ceil_mode")?);
    let mut attributes = vec![
        ints("kernel_shape", size),
        ints("strides", &strides),
        how,
        int("ceil_mode", i64::from(ceil)),
    ];
    if !is_max {
        attributes.push(int("count_include_pad", i64::from(!exclusive)));
    }
    let kind = if is_max { "MaxPool" } else { "AveragePool" };
    op.emit(kind, &[Some(x)], attributes, 1)?.pop().ok_or_else(|| "it gives nothing".to_owned())
}

/// So many cells for each extent; cell `i` of `n` is what lies from `i * dim / n`, rounded down, to
/// `(i + 1) * dim / n`, rounded up.
fn adaptive(op: &mut Operator<'_>, x: &Value, size: &[i64], is_max: bool) -> Outcome<Value> {
    let dims = x.dims()?;
    let kind = if is_max { "ReduceMax" } else { "ReduceMean" };
    let mut y = x.clone();
    for (axis, count) in (2..).zip(size) {
        let dim = usize::try_from(axis).ok().and_then(|axis| dims.get(axis));
        let dim = *dim.ok_or("expected an extent for each of `ksize`")?;
        if *count < 1 || *count > dim.max(1) * 64 {
            return Err(format!("expected 1 cell or more of an extent of {dim}, found {count}"));
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

//! Operators on rows that LoD groups into sequences, for export: the offsets of each level are values of the program.
//!
//! Most of them work on sequences of equal length, `[sequences, steps, ...]`, which are filled up with a row of zeros or
//! of the lowest number, and are at least one step long. Sequences without rows are therefore no special case.

use std::f64::consts::FRAC_PI_2;

use lodstone_model::{AttributeValue, DType, Dim};

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::required::required_dim;
use crate::onnx::{Graph, Value, int, ints};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("add_position_encoding", add_positions),
    ("row_conv", look_ahead),
    ("sequence_conv", convolve),
    ("sequence_expand", expand),
    ("sequence_pool", pool),
    ("sequence_softmax", softmax),
];

/// Returns the lengths of the sequences between offsets.
pub(super) fn lengths(graph: &mut Graph, offsets: &Value) -> Outcome<Value> {
    let ends = graph.slice(offsets, 0, 1, i64::MAX)?;
    let starts = starts(graph, offsets)?;
    graph.sub(&ends, &starts)
}

/// Returns the offsets at which sequences begin.
pub(super) fn starts(graph: &mut Graph, offsets: &Value) -> Outcome<Value> {
    graph.slice(offsets, 0, 0, -1)
}

/// Returns the offsets of sequences of these lengths.
pub(super) fn offsets(graph: &mut Graph, lengths: &Value) -> Outcome<Value> {
    let axis = graph.long(0);
    let ends = graph.call("CumSum", &[lengths, &axis], [])?;
    let zero = graph.longs(&[0]);
    graph.concat(&[&zero, &ends], 0)
}

/// Returns the length of the longest sequence, at least `least`, as a scalar.
pub(super) fn longest(graph: &mut Graph, lengths: &Value, least: i64) -> Outcome<Value> {
    let least = graph.longs(&[least]);
    let all = graph.concat(&[&least, lengths], 0)?;
    graph.reduce("ReduceMax", &all, &[0], false)
}

/// Returns the elements at which a mask of the same dims is true.
pub(super) fn compress(graph: &mut Graph, value: &Value, mask: &Value) -> Outcome<Value> {
    let (value, mask) = (graph.reshape(value, &[-1])?, graph.reshape(mask, &[-1])?);
    graph.call("Compress", &[&value, &mask], [int("axis", 0)])
}

/// Sequences of equal length.
pub(super) struct Steps {
    /// The length of each sequence: `[sequences]`.
    pub(super) lengths: Value,
    /// The offsets at which the sequences begin: `[sequences]`.
    pub(super) starts: Value,
    /// The steps: `[1, steps]`.
    steps: Value,
    /// Which sequences have a row at which step: `[sequences, steps]`.
    pub(super) has: Value,
}

impl Steps {
    /// Returns the steps of the sequences between offsets, of which there are at least `least`.
    pub(super) fn of(graph: &mut Graph, level: &Value, least: i64) -> Outcome<Self> {
        let (lengths, starts) = (lengths(graph, level)?, starts(graph, level)?);
        Self::at(graph, starts, lengths, least)
    }

    /// Returns the steps of sequences that begin at these offsets.
    pub(super) fn at(
        graph: &mut Graph,
        starts: Value,
        lengths: Value,
        least: i64,
    ) -> Outcome<Self> {
        let count = longest(graph, &lengths, least)?;
        let steps = graph.counting(&count, DType::Int64)?;
        let steps = graph.unsqueeze(&steps, &[0])?;
        let column = graph.unsqueeze(&lengths, &[1])?;
        let has = graph.call("Less", &[&steps, &column], [])?;
        Ok(Self { lengths, starts, steps, has })
    }

    /// Returns the row of each step of each sequence: `[sequences, steps]`. Steps without a row have another one's.
    pub(super) fn rows(&self, graph: &mut Graph) -> Outcome<Value> {
        let starts = graph.unsqueeze(&self.starts, &[1])?;
        graph.add(&starts, &self.steps)
    }

    /// Returns the rows in the order of the sequences: `[rows]`.
    pub(super) fn in_order(&self, graph: &mut Graph) -> Outcome<Value> {
        let rows = self.rows(graph)?;
        compress(graph, &rows, &self.has)
    }

    /// Returns the index of the sequence of each row: `[rows]`.
    pub(super) fn numbers(&self, graph: &mut Graph) -> Outcome<Value> {
        let dims = graph.call("Shape", &[&self.has], [])?;
        let sequences = graph.gather_scalar(&dims, 0)?;
        let numbers = graph.counting(&sequences, DType::Int64)?;
        let numbers = graph.unsqueeze(&numbers, &[1])?;
        let numbers = graph.call("Expand", &[&numbers, &dims], [])?;
        compress(graph, &numbers, &self.has)
    }

    /// Returns the rows of a tensor step by step, filled up with rows of `fill`: `[sequences, steps, ...]`.
    pub(super) fn padded(&self, graph: &mut Graph, x: &Value, fill: f64) -> Outcome<Value> {
        let (more, last) = with_row(graph, x, fill)?;
        let rows = self.rows(graph)?;
        let rows = graph.choose(&self.has, &rows, &last)?;
        graph.gather(&more, &rows, 0)
    }

    /// The inverse of [`padded`](Self::padded).
    pub(super) fn unpadded(&self, graph: &mut Graph, x: &Value) -> Outcome<Value> {
        let dims = graph.call("Shape", &[x], [int("start", 2)])?;
        let all = graph.longs(&[-1]);
        let dims = graph.concat(&[&all, &dims], 0)?;
        let flat = graph.call("Reshape", &[x, &dims], [])?;
        let all = graph.call("Size", &[&self.has], [])?;
        let places = graph.counting(&all, DType::Int64)?;
        let places = compress(graph, &places, &self.has)?;
        graph.gather(&flat, &places, 0)
    }
}

/// Returns a tensor with a row of `fill` after its own, and the index of that row.
pub(super) fn with_row(graph: &mut Graph, x: &Value, fill: f64) -> Outcome<(Value, Value)> {
    let dims = graph.call("Shape", &[x], [])?;
    let rows = graph.gather_scalar(&dims, 0)?;
    let one = graph.longs(&[1]);
    let rest = graph.slice(&dims, 0, 1, i64::MAX)?;
    let dims = graph.concat(&[&one, &rest], 0)?;
    let row = graph.filled_as(x.dtype(), fill, &dims)?;
    Ok((graph.concat(&[x, &row], 0)?, rows))
}

/// Returns the offsets of the innermost level of an input.
pub(super) fn level(op: &mut Operator<'_>, slot: &str) -> Outcome<Value> {
    let name = slot.to_owned();
    op.offsets(slot).ok_or_else(|| format!("`{name}` has no LoD").into())
}

/// Reduces each sequence to one row; the LoD has one level less.
fn pool(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let offsets = level(op, "X")?;
    let empty = match op.attribute("pad_value") {
        Some(AttributeValue::Float(value)) => f64::from(*value),
        _ => 0.0,
    };
    let way = op.text("pooltype")?;
    if op.wants("MaxIndex") {
        return Err("ONNX has no operator for the rows of the maxima, `MaxIndex`".into());
    }
    let graph = &mut **op;
    let y = match way.as_str() {
        "FIRST" | "LAST" => {
            let (more, last) = with_row(graph, &x, empty)?;
            let lengths = lengths(graph, &offsets)?;
            let zero = graph.long(0);
            let has = graph.call("Greater", &[&lengths, &zero], [])?;
            let rows = match way.as_str() {
                "FIRST" => starts(graph, &offsets)?,
                _ => {
                    let ends = graph.slice(&offsets, 0, 1, i64::MAX)?;
                    graph.plus(&ends, -1.0)?
                }
            };
            let rows = graph.choose(&has, &rows, &last)?;
            graph.gather(&more, &rows, 0)?
        }
        "AVERAGE" | "SUM" | "SQRT" | "MAX" => {
            let steps = Steps::of(graph, &offsets, 1)?;
            let is_max = way == "MAX";
            let padded = steps.padded(graph, &x, if is_max { f32::MIN.into() } else { 0.0 })?;
            let kind = if is_max { "ReduceMax" } else { "ReduceSum" };
            let mut y = graph.reduce(kind, &padded, &[1], false)?;
            // One element for each sequence, aligned with the rows.
            let behind: Vec<i64> = (1..).take(x.rank()?.count().saturating_sub(1)).collect();
            let column = |graph: &mut Graph, value: &Value| match behind.is_empty() {
                true => Ok(value.clone()),
                false => graph.unsqueeze(value, &behind),
            };
            if way == "AVERAGE" || way == "SQRT" {
                let one = graph.long(1);
                let count = graph.call("Max", &[&steps.lengths, &one], [])?;
                let mut count = graph.cast(&count, x.dtype())?;
                if way == "SQRT" {
                    count = graph.call("Sqrt", &[&count], [])?;
                }
                let count = column(graph, &count)?;
                y = graph.div(&y, &count)?;
            }
            if is_max || empty != 0.0 {
                let zero = graph.long(0);
                let is_empty = graph.call("Equal", &[&steps.lengths, &zero], [])?;
                let is_empty = column(graph, &is_empty)?;
                let empty = graph.number(x.dtype(), empty)?;
                y = graph.choose(&is_empty, &empty, &y)?;
            }
            y
        }
        other => return Err(format!("unknown `pooltype` `{other}`").into()),
    };
    let mut lod = op.lod("X");
    lod.pop();
    op.put("Out", &y)?;
    op.put_lod("Out", &lod);
    Ok(())
}

/// Computes the softmax within each sequence.
fn softmax(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let offsets = level(op, "X")?;
    let graph = &mut **op;
    let flat = graph.reshape(&x, &[-1])?;
    let steps = Steps::of(graph, &offsets, 1)?;
    let padded = steps.padded(graph, &flat, f32::MIN.into())?;
    let shares = graph.call("Softmax", &[&padded], [int("axis", 1)])?;
    let shares = compress(graph, &shares, &steps.has)?;
    let y = match x.rank()?.count() {
        1 => shares,
        rank => graph.reshape(&shares, &[&[-1][..], &vec![1; rank - 1]].concat())?,
    };
    let lod = op.lod("X");
    op.put("Out", &y)?;
    op.put_lod("Out", &lod);
    Ok(())
}

/// Adds sines of the position of each row in its sequence to the first half of the row, and cosines to the other half.
/// Positions count in double precision, as in PaddlePaddle.
fn add_positions(op: &mut Operator<'_>) -> Outcome {
    let (x, alpha, beta) = (op.input("X")?, op.float("alpha")?, op.float("beta")?);
    if !(alpha >= 0.0 && beta >= 0.0) {
        return Err(format!("expected factors from 0 on, found {alpha} and {beta}").into());
    }
    let positions = match (op.lod("X").as_slice(), x.rank()?.count()) {
        ([offsets], 2) => {
            let steps = Steps::of(op, offsets, 0)?;
            let (rows, numbers) = (steps.in_order(op)?, steps.numbers(op)?);
            let first = op.gather(&steps.starts, &numbers, 0)?;
            op.sub(&rows, &first)?
        }
        ([], 3) => {
            let steps = op.extent(&x, 1)?;
            op.counting(&steps, DType::Int64)?
        }
        (lod, rank) => {
            let levels = lod.len();
            let expected = "expected rank 3 without LoD, or 2 with one level";
            return Err(format!("{expected}, as `X`, found rank {rank} with {levels}").into());
        }
    };
    if let Some(Dim::Known(width)) = x.shape()?.last()
        && (width % 2 != 0 || *width == 0)
    {
        return Err(format!("expected an even width, found {width}").into());
    }
    let width = op.dim(&x, x.rank()?.last()?.number())?;
    let waves = waves(op, &positions, &width)?;
    let waves = op.times(&waves, beta.into())?;
    let waves = op.cast(&waves, x.dtype())?;
    let scaled = op.times(&x, alpha.into())?;
    let y = op.add(&scaled, &waves)?;
    op.put("Out", &y)
}

/// Returns the sines of positions, and the cosines, at rates that decrease from 1 to 1/10000: `[positions, width]`.
fn waves(graph: &mut Graph, positions: &Value, width: &Value) -> Outcome<Value> {
    let (one, two) = (graph.longs(&[1]), graph.longs(&[2]));
    let half = graph.div(width, &two)?;
    let most = graph.sub(&half, &one)?;
    let most = graph.call("Max", &[&most, &one], [])?;
    // A single rate is the slowest.
    let zero = graph.longs(&[0]);
    let first = graph.sub(&two, &half)?;
    let first = graph.call("Max", &[&first, &zero], [])?;
    let count = graph.gather_scalar(&half, 0)?;
    let numbers = graph.counting(&count, DType::Int64)?;
    let numbers = graph.add(&numbers, &first)?;
    let [numbers, most, positions] =
        [&numbers, &most, positions].map(|value| graph.cast(value, DType::Float64));
    let share = graph.div(&numbers?, &most?)?;
    let slowest = graph.number(DType::Float64, 1e-4)?;
    let rates = graph.call("Pow", &[&slowest, &share], [])?;
    let positions = graph.unsqueeze(&positions?, &[1])?;
    let angles = graph.mul(&positions, &rates)?;
    let sines = graph.call("Sin", &[&angles], [])?;
    // ONNX Runtime has no cosine in double precision.
    let ahead = graph.plus(&angles, FRAC_PI_2)?;
    let cosines = graph.call("Sin", &[&ahead], [])?;
    let both = graph.concat(&[&sines, &cosines], 1)?;
    // Fails if the width is odd.
    let dims = graph.concat(&[&zero, width], 0)?;
    graph.call("Reshape", &[&both, &dims], [])
}

/// Repeats rows, or sequences of rows, as often as the sequences of `Y` are long.
fn expand(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let levels = op.lod("Y");
    let level = match usize::try_from(op.int("ref_level")?) {
        Ok(level) => levels.get(level),
        Err(_) => levels.last(),
    };
    let level = level.cloned().ok_or("the LoD of `Y` does not have this level")?;
    let own = op.lod("X");
    let graph = &mut **op;
    let repeats = Steps::of(graph, &level, 0)?;
    // What is repeated, by index.
    let numbers = repeats.numbers(graph)?;
    let (y, lod) = match own.as_slice() {
        [] => (graph.gather(&x, &numbers, 0)?, Vec::new()),
        [level] => {
            let (lengths, starts) = (lengths(graph, level)?, starts(graph, level)?);
            let (lengths, starts) =
                (graph.gather(&lengths, &numbers, 0)?, graph.gather(&starts, &numbers, 0)?);
            let level = offsets(graph, &lengths)?;
            let steps = Steps::at(graph, starts, lengths, 0)?;
            let rows = steps.in_order(graph)?;
            (graph.gather(&x, &rows, 0)?, vec![level])
        }
        _ => return Err("expected at most one level of LoD".into()),
    };
    op.put("Out", &y)?;
    op.put_lod("Out", &lod);
    Ok(())
}

/// Multiplies each row and its neighbours within the sequence by a filter.
fn convolve(op: &mut Operator<'_>) -> Outcome {
    let (x, filter) = (op.input("X")?, op.input("Filter")?);
    let offsets = level(op, "X")?;
    let (context, start) = (op.int("contextLength")?, op.int("contextStart")?);
    if op.int("contextStride")? != 1 {
        return Err("expected a stride of 1".into());
    }
    if op.flag("paddingTrainable")? {
        return Err("trainable padding rows are not supported".into());
    }
    if !(1..=1 << 10).contains(&context) {
        return Err(format!("expected 1 to 1024 rows of context, found {context}").into());
    }
    let graph = &mut **op;
    let steps = Steps::of(graph, &offsets, 0)?;
    let numbers = steps.numbers(graph)?;
    let rows = steps.in_order(graph)?;
    let first = graph.gather(&steps.starts, &numbers, 0)?;
    let ends = graph.slice(&offsets, 0, 1, i64::MAX)?;
    let end = graph.gather(&ends, &numbers, 0)?;
    let (more, last) = with_row(graph, &x, 0.0)?;
    let mut parts = Vec::new();
    for step in 0..context {
        let offset = graph.long(start.saturating_add(step));
        let other = graph.add(&rows, &offset)?;
        let is_after = graph.call("GreaterOrEqual", &[&other, &first], [])?;
        let is_before = graph.call("Less", &[&other, &end], [])?;
        let is_inside = graph.call("And", &[&is_after, &is_before], [])?;
        let other = graph.choose(&is_inside, &other, &last)?;
        parts.push(graph.gather(&more, &other, 0)?);
    }
    let around = graph.concat(&parts.iter().collect::<Vec<_>>(), 1)?;
    let y = graph.call("MatMul", &[&around, &filter], [])?;
    let lod = op.lod("X");
    op.put("Out", &y)?;
    op.put_lod("Out", &lod);
    Ok(())
}

/// Returns the end of each of these sequences, by their number.
pub(super) fn ends_of(graph: &mut Graph, offsets: &Value, numbers: &Value) -> Outcome<Value> {
    let ends = graph.slice(offsets, 0, 1, i64::MAX)?;
    graph.gather(&ends, numbers, 0)
}

/// The maximum number of rows that a row looks ahead: each becomes operators.
const AHEAD: i64 = 1 << 10;

/// Returns, for each row of the filter, the rows that it is multiplied by: those that far ahead in the sequence, and zero
/// beyond its end.
pub(super) fn ahead(
    op: &mut Operator<'_>,
    x: &Value,
    count: i64,
    back: bool,
) -> Outcome<Vec<Value>> {
    if !(1..=AHEAD).contains(&count) {
        return Err(format!("expected 1 to {AHEAD} rows in `Filter`, found {count}").into());
    }
    let sign = if back { -1 } else { 1 };
    let Some(offsets) = op.offsets("X") else {
        // [sequences, steps, width]
        if x.rank()? != 3 {
            return Err(format!("expected LoD or rank 3 as `X`, found rank {}", x.rank()?).into());
        }
        let most = count - 1;
        let (before, after) = if back { (most, 0) } else { (0, most) };
        let pads = op.longs(&[0, before, 0, 0, after, 0]);
        let zero = op.number(x.dtype(), 0.0)?;
        let padded = op.call("Pad", &[x, &pads, &zero], [])?;
        let parts = (0..count).map(|step| {
            let begin = if back { most - step } else { step };
            let end = if begin == most { i64::MAX } else { begin - most };
            op.slice(&padded, 1, begin, end)
        });
        return parts.collect();
    };
    let graph = &mut **op;
    let steps = Steps::of(graph, &offsets, 0)?;
    let (numbers, rows) = (steps.numbers(graph)?, steps.in_order(graph)?);
    let first = graph.gather(&steps.starts, &numbers, 0)?;
    let end = ends_of(graph, &offsets, &numbers)?;
    let (more, last) = with_row(graph, x, 0.0)?;
    let mut parts = Vec::new();
    for step in 0..count {
        let offset = graph.long(sign * step);
        let other = graph.add(&rows, &offset)?;
        let is_inside = match back {
            true => graph.call("GreaterOrEqual", &[&other, &first], [])?,
            false => graph.call("Less", &[&other, &end], [])?,
        };
        let other = graph.choose(&is_inside, &other, &last)?;
        parts.push(graph.gather(&more, &other, 0)?);
    }
    Ok(parts)
}

/// Adds to each row those ahead of it in the sequence, weighted element by element.
fn look_ahead(op: &mut Operator<'_>) -> Outcome {
    let (x, filter) = (op.input("X")?, op.input("Filter")?);
    let count = required_dim(&filter, 0)?;
    let parts = ahead(op, &x, count, false)?;
    let y = weighted(op, &parts, &filter)?;
    op.put("Out", &y)
}

/// Returns the sum of values, each multiplied by a row of the filter.
pub(super) fn weighted(op: &mut Operator<'_>, parts: &[Value], filter: &Value) -> Outcome<Value> {
    let mut sum = None;
    for (step, part) in (0..).zip(parts) {
        let row = op.slice(filter, 0, step, step + 1)?;
        let product = op.mul(part, &row)?;
        sum = Some(match sum {
            None => product,
            Some(sum) => op.add(&sum, &product)?,
        });
    }
    Ok(sum.ok_or("`Filter` has no rows")?)
}

/// Returns the steps first: `[steps, sequences, ...]`.
pub(super) fn steps_first(graph: &mut Graph, x: &Value) -> Outcome<Value> {
    let rank = x.rank()?.number();
    let order: Vec<i64> = [1, 0].into_iter().chain(2..rank).collect();
    graph.call("Transpose", &[x], [ints("perm", &order)])
}

/// Returns integers as `int32`, as lengths of sequences are.
pub(super) fn narrow(graph: &mut Graph, lengths: &Value) -> Outcome<Value> {
    graph.cast(lengths, DType::Int32)
}

//! Operators that move the rows of sequences: concatenation, padding, slices, and changes of their offsets; and branches by
//! rows.
//!
//! Arguments that contradict the offsets are errors when a program runs. An exported program leaves them to the runtime.

use lodstone_model::DType;

use super::operator::{Operator, Outcome, Rule};
use super::sequences::{Steps, compress, ends_of, lengths, longest, offsets, starts, with_row};
use crate::onnx::{Graph, Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("merge_lod_tensor", merge),
    ("split_lod_tensor", split),
    ("sequence_concat", concat),
    ("sequence_enumerate", enumerate),
    ("sequence_erase", erase),
    ("sequence_expand_as", expand_as),
    ("sequence_pad", pad),
    ("sequence_reshape", reshape),
    ("sequence_reverse", reverse),
    ("sequence_scatter", scatter),
    ("sequence_slice", slice),
    ("sequence_unpad", unpad),
];

/// The maximum number of rows in a window: each becomes operators.
const WIDEST: i64 = 1 << 10;

/// The maximum number of tokens that are erased: each becomes operators.
const TOKENS: usize = 1 << 10;

/// An index that no tensor has.
const NOWHERE: i64 = i64::MAX >> 1;

impl Operator<'_> {
    /// Replaces indices by one that is an error where a condition holds, unless the program is exported.
    pub(super) fn poisoned(&mut self, condition: &Value, numbers: &Value) -> Outcome<Value> {
        if self.is_exported() {
            return Ok(numbers.clone());
        }
        let nowhere = self.long(NOWHERE);
        self.choose(condition, &nowhere, numbers)
    }

    /// Returns the only LoD level of an input.
    fn only_level(&mut self, slot: &str) -> Outcome<Value> {
        match self.lod(slot).as_slice() {
            [level] => Ok(level.clone()),
            [] => Err(format!("`{slot}` has no LoD").into()),
            more => {
                Err(format!("expected one level of LoD in `{slot}`, found {}", more.len()).into())
            }
        }
    }

    /// Returns an input of one integer for each sequence.
    fn counts(&mut self, slot: &str) -> Outcome<Value> {
        let value = self.input(slot)?;
        if !matches!(value.dtype(), DType::Int32 | DType::Int64) {
            return Err(
                format!("expected int32 or int64 as `{slot}`, found {}", value.dtype()).into()
            );
        }
        let value = self.cast(&value, DType::Int64)?;
        self.reshape(&value, &[-1])
    }
}

/// Returns the number of rows, as a scalar.
fn rows_of(graph: &mut Graph, value: &Value) -> Outcome<Value> {
    let dims = graph.call("Shape", &[value], [])?;
    graph.gather_scalar(&dims, 0)
}

/// Returns the row of each concatenated sequence in the rows of all inputs, and the offsets of these sequences.
pub(super) fn concatenated(op: &mut Operator<'_>) -> Outcome<(Vec<Value>, Value, Value)> {
    let inputs = op.inputs("X")?;
    let mut levels = Vec::new();
    for number in 0..inputs.len() {
        levels.push(op.offsets_at("X", number).ok_or("each `X` must have LoD")?);
    }
    let graph = &mut **op;
    let (mut all, mut begins) = (Vec::new(), Vec::new());
    let mut before = graph.long(0);
    for (input, level) in inputs.iter().zip(&levels) {
        let count = lengths(graph, level)?;
        let begin = starts(graph, level)?;
        let begin = graph.add(&begin, &before)?;
        let rows = rows_of(graph, input)?;
        before = graph.add(&before, &rows)?;
        all.push(graph.unsqueeze(&count, &[1])?);
        begins.push(graph.unsqueeze(&begin, &[1])?);
    }
    // [sequences, inputs]
    let all = graph.concat(&all.iter().collect::<Vec<_>>(), 1)?;
    let begins = graph.concat(&begins.iter().collect::<Vec<_>>(), 1)?;
    let whole = graph.reduce("ReduceSum", &all, &[1], false)?;
    let level = offsets(graph, &whole)?;
    let (all, begins) = (graph.reshape(&all, &[-1])?, graph.reshape(&begins, &[-1])?);
    let rows = Steps::at(graph, begins, all, 0)?.in_order(graph)?;
    Ok((inputs, rows, level))
}

/// Concatenates the first sequences of all inputs, then the second ones, and so on.
fn concat(op: &mut Operator<'_>) -> Outcome {
    let (inputs, rows, level) = concatenated(op)?;
    let all = op.concat(&inputs.iter().collect::<Vec<_>>(), 0)?;
    let y = op.gather(&all, &rows, 0)?;
    op.put("Out", &y)?;
    op.put_lod("Out", &[level]);
    Ok(())
}

/// Makes all sequences equally long: `[sequences, steps, ...]`; `Length` has the lengths that they had.
pub(super) fn pad(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let level = op.only_level("X")?;
    let length = op.int("padded_length")?;
    if length < -1 || length == 0 || length > i64::from(i32::MAX) {
        return Err(format!("expected -1 or at least 1 as `padded_length`, found {length}").into());
    }
    let fill = match op.kind() {
        "sequence_pad" => Some(op.input("PadValue")?),
        // The gradient of what was inserted is not needed.
        _ => None,
    };
    let graph = &mut **op;
    let (more, last) = match fill {
        None => with_row(graph, &x, 0.0)?,
        Some(fill) => {
            let dims = graph.call("Shape", &[&x], [])?;
            let (rows, rest) =
                (graph.gather_scalar(&dims, 0)?, graph.slice(&dims, 0, 1, i64::MAX)?);
            let one = graph.longs(&[1]);
            let dims = graph.concat(&[&one, &rest], 0)?;
            let fill = match x.rank()?.count() {
                1 => graph.reshape(&fill, &[1])?,
                _ => fill,
            };
            let row = graph.call("Expand", &[&fill, &dims], [])?;
            (graph.concat(&[&x, &row], 0)?, rows)
        }
    };
    let (lengths, starts) = (lengths(graph, &level)?, starts(graph, &level)?);
    let count = match length {
        -1 => longest(graph, &lengths, 0)?,
        _ => graph.long(length),
    };
    let steps = graph.counting(&count, DType::Int64)?;
    let steps = graph.unsqueeze(&steps, &[0])?;
    let (ends, starts) = (graph.unsqueeze(&lengths, &[1])?, graph.unsqueeze(&starts, &[1])?);
    let has = graph.call("Less", &[&steps, &ends], [])?;
    let rows = graph.add(&starts, &steps)?;
    let rows = graph.choose(&has, &rows, &last)?;
    let is_cut = graph.call("Greater", &[&ends, &count], [])?;
    let rows = op.poisoned(&is_cut, &rows)?;
    let y = op.gather(&more, &rows, 0)?;
    op.put("Out", &y)?;
    if op.wants("Length") {
        op.put("Length", &lengths)?;
    }
    Ok(())
}

/// Keeps the first `Length` rows of each padded sequence. Rows of single elements have a dim of size 1.
fn unpad(op: &mut Operator<'_>) -> Outcome {
    let (x, lengths) = (op.input("X")?, op.counts("Length")?);
    if x.rank()? < 2 {
        return Err(format!("expected at least rank 2 as `X`, found {}", x.rank()?).into());
    }
    let graph = &mut **op;
    let dims = graph.call("Shape", &[&x], [])?;
    let (sequences, width) = (graph.gather_scalar(&dims, 0)?, graph.gather_scalar(&dims, 1)?);
    let numbers = graph.counting(&sequences, DType::Int64)?;
    let starts = graph.mul(&numbers, &width)?;
    let is_long = graph.call("Greater", &[&lengths, &width], [])?;
    let starts = op.poisoned(&is_long, &starts)?;
    let graph = &mut **op;
    let level = offsets(graph, &lengths)?;
    let rows = Steps::at(graph, starts, lengths, 0)?.in_order(graph)?;
    let rest = match x.rank()?.count() {
        2 => graph.longs(&[1]),
        _ => graph.slice(&dims, 0, 2, i64::MAX)?,
    };
    let all = graph.call("Mul", &[&sequences, &width], [])?;
    let all = graph.unsqueeze(&all, &[0])?;
    let dims = graph.concat(&[&all, &rest], 0)?;
    let flat = graph.call("Reshape", &[&x, &dims], [int("allowzero", 1)])?;
    let y = graph.gather(&flat, &rows, 0)?;
    op.put("Out", &y)?;
    op.put_lod("Out", &[level]);
    Ok(())
}

/// Reverses the rows within each sequence.
fn reverse(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let level = op.only_level("X")?;
    let graph = &mut **op;
    let steps = Steps::of(graph, &level, 0)?;
    let (numbers, rows) = (steps.numbers(graph)?, steps.in_order(graph)?);
    let first = graph.gather(&steps.starts, &numbers, 0)?;
    let end = ends_of(graph, &level, &numbers)?;
    let both = graph.add(&first, &end)?;
    let both = graph.plus(&both, -1.0)?;
    let rows = graph.sub(&both, &rows)?;
    let y = graph.gather(&x, &rows, 0)?;
    op.put("Y", &y)
}

/// Repeats each row as often as the sequence of `Y` has rows.
pub(super) fn expand_as(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let level = op.only_level("Y")?;
    let graph = &mut **op;
    let numbers = Steps::of(graph, &level, 0)?.numbers(graph)?;
    // A row for each sequence: too few are an index out of range.
    let rows = rows_of(graph, &x)?;
    let count = graph.call("Size", &[&level], [])?;
    let count = graph.plus(&count, -1.0)?;
    let is_same = graph.call("Equal", &[&rows, &count], [])?;
    let differs = graph.call("Not", &[&is_same], [])?;
    let numbers = op.poisoned(&differs, &numbers)?;
    let y = op.gather(&x, &numbers, 0)?;
    op.put("Out", &y)
}

/// Takes `Length` rows of each sequence, from `Offset` on.
pub(super) fn slice(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let level = op.only_level("X")?;
    let (begin, count) = (op.counts("Offset")?, op.counts("Length")?);
    let graph = &mut **op;
    let (own, starts) = (lengths(graph, &level)?, starts(graph, &level)?);
    let zero = graph.long(0);
    let end = graph.add(&begin, &count)?;
    let is_beyond = graph.call("Greater", &[&end, &own], [])?;
    let is_before = graph.call("Less", &[&begin, &zero], [])?;
    let is_outside = graph.call("Or", &[&is_beyond, &is_before], [])?;
    let starts = graph.add(&starts, &begin)?;
    let starts = op.poisoned(&is_outside, &starts)?;
    let graph = &mut **op;
    let made = offsets(graph, &count)?;
    let rows = Steps::at(graph, starts, count, 0)?.in_order(graph)?;
    let y = graph.gather(&x, &rows, 0)?;
    op.put("Out", &y)?;
    op.put_lod("Out", &[made]);
    Ok(())
}

/// Returns each element with those after it in the sequence, `win_size` in all; beyond its end, `pad_value`.
fn enumerate(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let level = op.only_level("X")?;
    let (size, fill) = (op.int("win_size")?, op.int("pad_value")?);
    if !(2..=WIDEST).contains(&size) {
        return Err(format!("expected 2 to {WIDEST} as `win_size`, found {size}").into());
    }
    if !matches!(x.dtype(), DType::Int32 | DType::Int64) {
        return Err(format!("expected int32 or int64, found {}", x.dtype()).into());
    }
    let graph = &mut **op;
    let flat = graph.reshape(&x, &[-1, 1])?;
    let steps = Steps::of(graph, &level, 0)?;
    let (numbers, rows) = (steps.numbers(graph)?, steps.in_order(graph)?);
    let end = ends_of(graph, &level, &numbers)?;
    let count = rows_of(graph, &flat)?;
    let one = graph.longs(&[1, 1]);
    let fill = graph.long(fill);
    let fill = graph.cast(&fill, x.dtype())?;
    let row = graph.call("Expand", &[&fill, &one], [])?;
    let more = graph.concat(&[&flat, &row], 0)?;
    let mut parts = Vec::new();
    for step in 0..size {
        let offset = graph.long(step);
        let other = graph.add(&rows, &offset)?;
        let is_inside = graph.call("Less", &[&other, &end], [])?;
        let other = graph.choose(&is_inside, &other, &count)?;
        parts.push(graph.gather(&more, &other, 0)?);
    }
    let y = graph.concat(&parts.iter().collect::<Vec<_>>(), 1)?;
    op.put("Out", &y)
}

/// Changes the width of rows, and thereby their number in each sequence.
fn reshape(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let level = op.only_level("X")?;
    let wide = op.int("new_dim")?;
    if !(1..=i64::from(i32::MAX)).contains(&wide) {
        return Err(format!("expected at least 1 as `new_dim`, found {wide}").into());
    }
    if x.rank()? != 2 {
        return Err(format!("expected a matrix as `X`, found rank {}", x.rank()?).into());
    }
    let graph = &mut **op;
    let dims = graph.call("Shape", &[&x], [])?;
    let width = graph.gather_scalar(&dims, 1)?;
    let elements = graph.mul(&level, &width)?;
    let wider = graph.long(wide);
    let made = graph.div(&elements, &wider)?;
    let rest = graph.call("Mod", &[&elements, &wider], [])?;
    let zero = graph.long(0);
    let is_cut = graph.call("Greater", &[&rest, &zero], [])?;
    // Offsets that no tensor has are an error, too.
    let made = op.poisoned(&is_cut, &made)?;
    let y = op.reshape(&x, &[-1, wide])?;
    op.put("Out", &y)?;
    op.put_lod("Out", &[made]);
    Ok(())
}

/// Returns the row and the column of each of the `Ids`, which are columns of the row of their sequence: `[ids, 2]`.
pub(super) fn targets(op: &mut Operator<'_>) -> Outcome<Value> {
    let level = op.only_level("Ids")?;
    let columns = op.counts("Ids")?;
    let graph = &mut **op;
    let numbers = Steps::of(graph, &level, 0)?.numbers(graph)?;
    let zero = graph.long(0);
    let is_before = graph.call("Less", &[&columns, &zero], [])?;
    let columns = op.poisoned(&is_before, &columns)?;
    let (numbers, columns) = (op.unsqueeze(&numbers, &[1])?, op.unsqueeze(&columns, &[1])?);
    op.concat(&[&numbers, &columns], 1)
}

/// Adds the elements of each sequence of `Updates` to columns of a row.
fn scatter(op: &mut Operator<'_>) -> Outcome {
    let (x, updates) = (op.input("X")?, op.input("Updates")?);
    let targets = targets(op)?;
    if x.rank()? != 2 {
        return Err(format!("expected a matrix as `X`, found rank {}", x.rank()?).into());
    }
    let updates = op.reshape(&updates, &[-1])?;
    let y = op.put_slices(&x, &targets, &updates, "add")?;
    op.put("Out", &y)
}

/// Returns the mask of a branch, a Boolean for each row of `X`: sequences of rows are not supported.
fn mask(op: &mut Operator<'_>, slots: &[&str]) -> Outcome<Value> {
    if op.int("level")? != 0 {
        return Err(format!("expected 0 as `level`, found {}", op.int("level")?).into());
    }
    if slots.iter().any(|slot| !op.lod(slot).is_empty()) {
        return Err("sequences by LoD are only supported at run time".into());
    }
    let mask = op.input("Mask")?;
    if mask.dtype() != DType::Bool {
        return Err(format!("expected Booleans as `Mask`, found {}", mask.dtype()).into());
    }
    op.reshape(&mask, &[-1])
}

/// Separates the rows where a mask is true from the others.
fn split(op: &mut Operator<'_>) -> Outcome {
    let (x, mask) = (op.input("X")?, mask(op, &["X"])?);
    let others = op.call("Not", &[&mask], [])?;
    let yes = op.call("Compress", &[&x, &mask], [int("axis", 0)])?;
    let no = op.call("Compress", &[&x, &others], [int("axis", 0)])?;
    op.put("OutTrue", &yes)?;
    op.put("OutFalse", &no)
}

/// Puts the rows of both branches together again, in the order of the mask.
fn merge(op: &mut Operator<'_>) -> Outcome {
    let (yes, no) = (op.input("InTrue")?, op.input("InFalse")?);
    let mask = mask(op, &["InTrue", "InFalse"])?;
    let graph = &mut **op;
    let ones = graph.cast(&mask, DType::Int64)?;
    let before = offsets(graph, &ones)?;
    let own = starts(graph, &before)?;
    let all = graph.call("Size", &[&mask], [])?;
    let numbers = graph.counting(&all, DType::Int64)?;
    let count = graph.gather_scalar(&before, -1)?;
    let others = graph.sub(&numbers, &own)?;
    let others = graph.add(&others, &count)?;
    let rows = graph.choose(&mask, &own, &others)?;
    let both = graph.concat(&[&yes, &no], 0)?;
    let y = graph.gather(&both, &rows, 0)?;
    op.put("Out", &y)
}

/// Removes tokens.
fn erase(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let mut lod = op.lod("X");
    let level = lod.pop().ok_or("`X` has no LoD")?;
    let tokens = op.ints("tokens")?;
    if tokens.len() > TOKENS {
        return Err(format!("expected at most {TOKENS} tokens, found {}", tokens.len()).into());
    }
    if !matches!(x.dtype(), DType::Int32 | DType::Int64) {
        return Err(format!("expected int32 or int64, found {}", x.dtype()).into());
    }
    let rank = x.rank()?;
    let graph = &mut **op;
    let flat = graph.reshape(&x, &[-1])?;
    let wide = graph.cast(&flat, DType::Int64)?;
    let mut is_kept = graph.call("Equal", &[&wide, &wide], [])?;
    for token in tokens {
        let token = graph.long(token);
        let is_token = graph.call("Equal", &[&wide, &token], [])?;
        let differs = graph.call("Not", &[&is_token], [])?;
        is_kept = graph.call("And", &[&is_kept, &differs], [])?;
    }
    let ones = graph.cast(&is_kept, DType::Int64)?;
    let before = offsets(graph, &ones)?;
    let made = graph.gather(&before, &level, 0)?;
    let y = compress(graph, &flat, &is_kept)?;
    let y = if rank == 1 { y } else { graph.reshape(&y, &[-1, 1])? };
    lod.push(made);
    op.put("Out", &y)?;
    op.put_lod("Out", &lod);
    Ok(())
}

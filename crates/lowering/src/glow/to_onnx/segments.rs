//! Rows in groups, one behind the other, as lengths or offsets say them.
//!
//! The group of each row is how many groups end before it: a one is added where each ends, and summed up.
//! That is linear in rows and groups, and needs no loop. Rows that are in no group are in one more, behind
//! the last, which is left out in the end.

use lodstone_model::DType;

use super::node::{Node, Outcome};
use crate::onnx::{Value, int, text};

/// Which group rows are in.
pub(super) struct Segments {
    /// The number of the group of each row: `[rows]`.
    pub(super) number: Value,
    /// Where each group begins: `[groups]`.
    pub(super) starts: Value,
    /// How many groups there are.
    pub(super) groups: i64,
    /// How many rows there are.
    pub(super) rows: i64,
}

/// Groups of `rows` rows by their lengths.
pub(super) fn by_lengths(n: &mut Node<'_>, lengths: &Value, rows: i64) -> Outcome<Segments> {
    let lengths = n.cast(lengths, DType::Int64)?;
    let lengths = n.reshape(&lengths, &[-1])?;
    let groups = *lengths.dims()?.first().unwrap_or(&0);
    let axis = n.long(0);
    let ends = n.call("CumSum", &[&lengths, &axis], [])?;
    let starts = n.sub(&ends, &lengths)?;
    let number = counted(n, &ends, groups, rows)?;
    Ok(Segments { number, starts, groups, rows })
}

/// Groups of `rows` rows by where they begin, and, with `has_end`, where the last ends.
pub(super) fn by_offsets(
    n: &mut Node<'_>,
    offsets: &Value,
    rows: i64,
    has_end: bool,
) -> Outcome<Segments> {
    let offsets = n.cast(offsets, DType::Int64)?;
    let many = *offsets.dims()?.first().unwrap_or(&0);
    let groups = many - i64::from(has_end);
    if groups < 0 {
        return Err("expected an offset where the last group ends".into());
    }
    // A group ends where the next begins.
    let starts = n.slice(&offsets, 0, 0, groups)?;
    let ends = n.slice(&offsets, 0, 1, many)?;
    let ends_told = *ends.dims()?.first().unwrap_or(&0);
    let number = counted(n, &ends, ends_told, rows)?;
    Ok(Segments { number, starts, groups, rows })
}

/// How many of `ends` are not behind each row.
fn counted(n: &mut Node<'_>, ends: &Value, many: i64, rows: i64) -> Outcome<Value> {
    // An end behind all rows is counted behind them.
    let last = n.long(rows);
    let ends = n.call("Min", &[ends, &last], [])?;
    let zeros = n.filled(DType::Int64, 0.0, &[rows.saturating_add(1)])?;
    let ones = n.filled(DType::Int64, 1.0, &[many])?;
    let attributes = [int("axis", 0), text("reduction", "add")];
    let marks = n.call("ScatterElements", &[&zeros, &ends, &ones], attributes)?;
    let axis = n.long(0);
    let number = n.call("CumSum", &[&marks, &axis], [])?;
    n.slice(&number, 0, 0, rows)
}

impl Segments {
    /// Whether each row is in a group.
    pub(super) fn is_inside(&self, n: &mut Node<'_>) -> Outcome<Value> {
        let groups = n.long(self.groups);
        n.call("Less", &[&self.number, &groups], [])
    }

    /// Numbers of the rows that are in a group; 0 for others, whose numbers mean nothing.
    pub(super) fn numbers(&self, n: &mut Node<'_>, numbers: &Value) -> Outcome<Value> {
        let inside = self.is_inside(n)?;
        let numbers = n.cast(numbers, DType::Int64)?;
        let none = n.long(0);
        n.choose(&inside, &numbers, &none)
    }

    /// What a value of each group is for each row; that of the last group where a row is in none.
    pub(super) fn spread(&self, n: &mut Node<'_>, of_groups: &Value) -> Outcome<Value> {
        let last = n.long(self.groups.saturating_sub(1));
        let number = n.call("Min", &[&self.number, &last], [])?;
        n.gather(of_groups, &number, 0)
    }

    /// Which row of its group each row is.
    pub(super) fn within(&self, n: &mut Node<'_>) -> Outcome<Value> {
        let row = n.range(self.rows)?;
        let row = n.reshape(&row, &[self.rows])?;
        let start = self.spread(n, &self.starts)?;
        n.sub(&row, &start)
    }

    /// The sum of the rows of each group: `[rows, ..]` become `[groups, ..]`.
    pub(super) fn sum(&self, n: &mut Node<'_>, values: &Value) -> Outcome<Value> {
        let dims = values.dims()?;
        let mut sums = dims.clone();
        if let Some(first) = sums.first_mut() {
            *first = self.groups.saturating_add(1);
        }
        let mut aligned = vec![1; dims.len()];
        if let Some(first) = aligned.first_mut() {
            *first = self.rows;
        }
        let number = n.reshape(&self.number, &aligned)?;
        let number = n.expand(&number, &dims)?;
        let zeros = n.filled(values.dtype(), 0.0, &sums)?;
        let attributes = [int("axis", 0), text("reduction", "add")];
        let sums = n.call("ScatterElements", &[&zeros, &number, values], attributes)?;
        n.slice(&sums, 0, 0, self.groups)
    }
}

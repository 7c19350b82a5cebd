//! Consecutive groups of rows, given by lengths or offsets.
//!
//! The group of each row is the number of groups that end before it: a one is added at each end, and a cumulative sum
//! computed. That is linear in rows and groups, and needs no loop. Rows outside of all groups are in an additional one
//! after the last, which is dropped at the end.

use lodstone_model::DType;

use super::node::{Node, Outcome};
use crate::onnx::{Value, int, text};

/// The assignment of rows to groups.
pub(super) struct Segments {
    /// The index of the group of each row: `[rows]`.
    pub(super) number: Value,
    /// The first row of each group: `[groups]`.
    pub(super) starts: Value,
    /// The number of groups.
    pub(super) groups: i64,
    /// The number of rows.
    pub(super) rows: i64,
}

/// Returns the groups of `rows` rows by their lengths.
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

/// Returns the groups of `rows` rows by their offsets, which with `has_end` include the end of the last group.
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
    let end_count = *ends.dims()?.first().unwrap_or(&0);
    let number = counted(n, &ends, end_count, rows)?;
    Ok(Segments { number, starts, groups, rows })
}

/// Counts the `ends` that are not after each row.
fn counted(n: &mut Node<'_>, ends: &Value, many: i64, rows: i64) -> Outcome<Value> {
    // An end after all rows is counted after them.
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
    /// Returns whether each row is in a group.
    pub(super) fn is_inside(&self, n: &mut Node<'_>) -> Outcome<Value> {
        let groups = n.long(self.groups);
        n.call("Less", &[&self.number, &groups], [])
    }

    /// Replaces the indices of rows outside of all groups, which have no meaning, by 0.
    pub(super) fn numbers(&self, n: &mut Node<'_>, numbers: &Value) -> Outcome<Value> {
        let inside = self.is_inside(n)?;
        let numbers = n.cast(numbers, DType::Int64)?;
        let none = n.long(0);
        n.choose(&inside, &numbers, &none)
    }

    /// Returns for each row the value of its group; for rows outside of all groups, that of the last one.
    pub(super) fn spread(&self, n: &mut Node<'_>, of_groups: &Value) -> Outcome<Value> {
        let last = n.long(self.groups.saturating_sub(1));
        let number = n.call("Min", &[&self.number, &last], [])?;
        n.gather(of_groups, &number, 0)
    }

    /// Returns the position of each row within its group.
    pub(super) fn within(&self, n: &mut Node<'_>) -> Outcome<Value> {
        let row = n.range(self.rows)?;
        let row = n.reshape(&row, &[self.rows])?;
        let start = self.spread(n, &self.starts)?;
        n.sub(&row, &start)
    }

    /// Sums the rows of each group: `[rows, ..]` become `[groups, ..]`.
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

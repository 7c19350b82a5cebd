//! `bipartite_match`: pairs of rows and columns, nearest first.

use lodstone_model::{AttributeValue, Lod, Op};
use lodstone_schema::numbers::exact;
use lodstone_schema::paddle::attribute;

use super::super::{Outcome, input};
use super::{at, at_mut, dims, put_numbers, put_rows, real};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;
use crate::executor::native::sequences::singles;

/// The least similarity that counts.
const LEAST: f32 = 1e-6;

/// For each image, the row of each column, or -1, and their similarity.
pub(super) fn bipartite(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let tensor = frame.tensor(input(step, "DistMat")?)?;
    let [rows, columns] = dims(tensor)?;
    let near = singles(tensor)?;
    let by_column = match attribute(op, "match_type") {
        Some(AttributeValue::String(text)) => text.to_string() == "per_prediction",
        _ => false,
    };
    let offsets = match tensor.lod.0.last() {
        Some(last) => last.iter().map(|end| exact(*end)).collect::<Result<_, _>>()?,
        None => vec![0, rows],
    };
    if !offsets.is_sorted() || offsets.last().is_some_and(|end| *end > rows) {
        return Err(format!("expected offsets of {rows} rows, found {offsets:?}").into());
    }
    let (mut numbers, mut found) = (Vec::new(), Vec::new());
    for pair in offsets.windows(2) {
        let [start, end] = pair else { continue };
        frame.reserve(((end - start) as u64).saturating_mul(columns as u64).saturating_mul(24))?;
        let mut pairs = Vec::new();
        for (row, column) in (*start..*end).flat_map(|row| (0..columns).map(move |at| (row, at))) {
            let value = at(&near, row * columns + column)?;
            if value >= LEAST {
                pairs.push((row - start, column, value));
            }
        }
        pairs.sort_by(|left, right| {
            right.2.partial_cmp(&left.2).unwrap_or(std::cmp::Ordering::Equal)
        });
        let mut own = vec![(-1_i32, 0.0_f32); columns];
        let mut is_taken = vec![false; end - start];
        for (row, column, value) in &pairs {
            let (own, is_taken) = (at_mut(&mut own, *column)?, at_mut(&mut is_taken, *row)?);
            if own.0 == -1 && !*is_taken {
                *own = (exact(*row)?, *value);
                *is_taken = true;
            }
        }
        if by_column {
            let least = real(op, "dist_threshold", 0.5);
            for (row, column, value) in &pairs {
                let own = at_mut(&mut own, *column)?;
                if own.0 == -1 && *value >= least {
                    *own = (exact(*row)?, *value);
                }
            }
        }
        numbers.extend(own.iter().map(|(row, _)| *row));
        found.extend(own.iter().map(|(_, value)| *value));
    }
    let shape = vec![offsets.len().saturating_sub(1) as u64, columns as u64];
    put_numbers(frame, step, "ColToRowMatchIndices", &numbers, shape.clone(), Lod::default())?;
    put_rows(frame, step, "ColToRowMatchDist", found, shape, Lod::default())
}

//! `sequence_conv`: multiplies each row and its neighbours within the sequence by a filter.

use std::ops::Range;

use lodstone_model::{AttributeValue, Op};
use lodstone_schema::numbers::exact;

use super::super::{Outcome, input, output};
use super::{
    Rows, add_outer, add_product, add_product_back, int, made, numbers, part, part_mut, singles,
    zeros,
};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;

/// The inputs of a convolution.
struct Convolution {
    rows: Rows,
    /// [context * width, size]
    filter: Vec<f32>,
    size: usize,
    /// The first row of the context, relative to the row itself, and the number of rows of the context.
    start: i64,
    context: usize,
}

impl Convolution {
    fn of(frame: &Frame<'_>, step: &Step, op: &Op) -> Outcome<Self> {
        let rows = Rows::of(frame, input(step, "X")?)?;
        let filter = frame.tensor(input(step, "Filter")?)?;
        let (length, start) = (int(op, "contextLength", 1), int(op, "contextStart", 0));
        if int(op, "contextStride", 1) != 1 {
            return Err("expected a stride of 1".into());
        }
        if matches!(op.attribute("paddingTrainable"), Some(AttributeValue::Bool(true))) {
            return Err("trainable padding rows are not supported".into());
        }
        let context = usize::try_from(length).ok().filter(|length| *length > 0);
        let context =
            context.ok_or_else(|| format!("expected a positive context length, found {length}"))?;
        let [inner, size] = *filter.shape.as_slice() else {
            return Err(format!("expected a matrix as filter, found {:?}", filter.shape).into());
        };
        if context.checked_mul(rows.width) != Some(exact(inner)?) {
            return Err(format!("{context} rows of {} do not match the filter", rows.width).into());
        }
        let filter = singles(filter)?;
        Ok(Self { rows, filter, size: exact(size)?, start: start.into(), context })
    }

    /// Returns the rows of the context of a row, each with the first row of its part of the filter.
    fn around(&self, sequence: &Range<usize>, row: usize) -> impl Iterator<Item = (usize, usize)> {
        let (sequence, start, width) = (sequence.clone(), self.start, self.rows.width);
        (0..self.context).filter_map(move |step| {
            let offset = start.checked_add(i64::try_from(step).ok()?)?;
            let other = usize::try_from(i64::try_from(row).ok()?.checked_add(offset)?).ok()?;
            sequence.contains(&other).then_some((other, step * width))
        })
    }
}

pub(super) fn convolve(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let this = Convolution::of(frame, step, op)?;
    let count = this.rows.count();
    let mut values = zeros(frame, count.saturating_mul(this.size))?;
    for sequence in &this.rows.sequences {
        for row in sequence.clone() {
            let sums = part_mut(&mut values, row, this.size)?;
            for (other, first) in this.around(sequence, row) {
                add_product(sums, this.rows.row(other)?, &this.filter, first)?;
            }
        }
    }
    let shape = vec![count as u64, this.size as u64];
    Ok(frame.make(output(step, "Out")?, made(values, shape, this.rows.lod))?)
}

pub(super) fn gradient(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let this = Convolution::of(frame, step, op)?;
    let rows = &this.rows;
    let given = numbers(frame, step, "Out@GRAD", rows.count().saturating_mul(this.size))?;
    let mut of_rows = zeros(frame, rows.values.len())?;
    let mut of_filter = zeros(frame, this.filter.len())?;
    for sequence in &rows.sequences {
        for row in sequence.clone() {
            let given = part(&given, row, this.size)?;
            for (other, first) in this.around(sequence, row) {
                let sums = part_mut(&mut of_rows, other, rows.width)?;
                add_product_back(sums, given, &this.filter, first)?;
                add_outer(&mut of_filter, rows.row(other)?, given, first)?;
            }
        }
    }
    if let Ok(slot) = output(step, "X@GRAD") {
        frame.make(slot, rows.like(of_rows))?;
    }
    if let Ok(slot) = output(step, "Filter@GRAD") {
        let filter = frame.tensor(input(step, "Filter")?)?;
        let made = made(of_filter, filter.shape.clone(), filter.lod.clone());
        frame.make(slot, made)?;
    }
    Ok(())
}

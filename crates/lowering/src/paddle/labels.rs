//! Sequences that exported programs hold in dense tensors.

use lodstone_model::DType;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::int;

pub(super) const RULES: &[(&str, Rule)] = &[("ctc_align", align), ("lod_reset", keep)];

/// ONNX has no LoD.
fn keep(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    op.put("Out", &x)
}

/// Removes blanks and repeated labels from rows, which are padded at the end.
fn align(op: &mut Operator<'_>) -> Outcome {
    let (x, lengths) = (op.input("Input")?, op.optional("InputLength")?);
    let lengths = lengths.ok_or("sequences by LoD are only supported at run time")?;
    let (blank, padding) = (op.int("blank")?, op.int("padding_value")?);
    let lengths = op.cast(&lengths, DType::Int64)?;
    let lengths = op.reshape(&lengths, &[-1, 1])?;
    let count = op.extent(&x, 1)?;
    let numbers = op.counting(&count, DType::Int64)?;
    let mut is_kept = op.call("Less", &[&numbers, &lengths], [])?;
    let blank = op.number(x.dtype(), blank as f64)?;
    let is_blank = op.call("Equal", &[&x, &blank], [])?;
    let is_label = op.call("Not", &[&is_blank], [])?;
    is_kept = op.call("And", &[&is_kept, &is_label], [])?;
    if op.flag_or_true("merge_repeated")? {
        let first = op.longs(&[0, 1, 0, 0]);
        let none = op.number(x.dtype(), -1.0)?;
        let before = op.slice(&x, 1, 0, -1)?;
        let before = op.call("Pad", &[&before, &first, &none], [])?;
        let same = op.call("Equal", &[&x, &before], [])?;
        let other = op.call("Not", &[&same], [])?;
        is_kept = op.call("And", &[&is_kept, &other], [])?;
    }
    // Kept labels come first, in their order.
    let behind = op.add(&numbers, &count)?;
    let keys = op.choose(&is_kept, &numbers, &behind)?;
    let [_, order] = op.highest(&keys, None, false)?;
    let y = op.call("GatherElements", &[&x, &order], [int("axis", 1)])?;
    let marks = op.cast(&is_kept, DType::Int64)?;
    let kept = op.reduce("ReduceSum", &marks, &[1], true)?;
    let is_found = op.call("Less", &[&numbers, &kept], [])?;
    let padding = op.number(x.dtype(), padding as f64)?;
    let y = op.choose(&is_found, &y, &padding)?;
    op.put("Output", &y)?;
    let kept = op.cast(&kept, x.dtype())?;
    op.put("OutputLength", &kept)
}

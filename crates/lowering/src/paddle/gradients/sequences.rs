//! Gradients of operators that move the rows of sequences.

use super::super::operator::{Operator, Outcome, Rule};
use super::super::regroup::{self, concatenated, targets};
use super::super::sequences::{Steps, ahead, level, weighted};
use super::moved;
use crate::onnx::Size;
use crate::onnx::indexing::Sections;
use crate::onnx::required::required_dim;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("add_position_encoding_grad", scaled),
    ("lod_reset_grad", alike),
    ("row_conv_grad", look_ahead),
    ("sequence_concat_grad", concat),
    ("sequence_expand_as_grad", |op| moved(op, regroup::expand_as, "X", "Out")),
    ("sequence_pad_grad", |op| moved(op, regroup::pad, "X", "Out")),
    ("sequence_reshape_grad", alike),
    ("sequence_scatter_grad", scatter),
    ("sequence_slice_grad", |op| moved(op, regroup::slice, "X", "Out")),
    ("sequence_unpad_grad", unpad),
];

/// The gradient of a row comes from those behind it; that of a row of the filter from all rows.
fn look_ahead(op: &mut Operator<'_>) -> Outcome {
    let (x, filter, given) = (op.input("X")?, op.input("Filter")?, op.gradient("Out")?);
    let (count, width) = (required_dim(&filter, 0)?, required_dim(&filter, 1)?);
    if op.wants_gradient("X") {
        let parts = ahead(op, &given, count, true)?;
        let sum = weighted(op, &parts, &filter)?;
        op.put_gradient("X", &sum)?;
    }
    if op.wants_gradient("Filter") {
        let parts = ahead(op, &x, count, false)?;
        let mut rows = Vec::new();
        for part in &parts {
            let product = op.mul(part, &given)?;
            let flat = op.reshape(&product, &[-1, width])?;
            rows.push(op.reduce("ReduceSum", &flat, &[0], true)?);
        }
        let y = op.concat(&rows.iter().collect::<Vec<_>>(), 0)?;
        op.put_gradient("Filter", &y)?;
    }
    Ok(())
}

/// Positions are added to rows that are scaled by `alpha`.
fn scaled(op: &mut Operator<'_>) -> Outcome {
    let (given, alpha) = (op.gradient("Out")?, op.float("alpha")?);
    let y = op.times(&given, alpha.into())?;
    op.put_gradient("X", &y)
}

/// The elements are the same, in the same order.
fn alike(op: &mut Operator<'_>) -> Outcome {
    let (x, given) = (op.input("X")?, op.gradient("Out")?);
    let y = op.reshape_as(&given, &x)?;
    op.put_gradient("X", &y)
}

/// Each row goes back to where it came from.
fn concat(op: &mut Operator<'_>) -> Outcome {
    let (inputs, rows, _) = concatenated(op)?;
    let given = op.gradient("Out")?;
    let sizes = inputs.iter().map(|input| required_dim(input, 0)).collect::<Outcome<Vec<_>>>()?;
    let zeros = op.constant_like(&given, given.dtype(), 0.0)?;
    let all = op.put_rows(&zeros, &rows, &given, "none")?;
    let sizes = sizes.into_iter().map(Size::Known).collect();
    let made = op.split(&all, 0, Sections::Lengths(sizes))?;
    op.put_all("X@GRAD", &made)
}

fn scatter(op: &mut Operator<'_>) -> Outcome {
    let (given, updates) = (op.gradient("Out")?, op.input("Updates")?);
    op.put_gradient("X", &given)?;
    if op.wants_gradient("Updates") {
        let targets = targets(op)?;
        let made = op.call("GatherND", &[&given, &targets], [])?;
        let made = op.reshape_as(&made, &updates)?;
        op.put_gradient("Updates", &made)?;
    }
    Ok(())
}

/// Rows that were dropped have gradient 0.
fn unpad(op: &mut Operator<'_>) -> Outcome {
    let (x, given) = (op.input("X")?, op.gradient("Out")?);
    let level = level(op, "Out@GRAD")?;
    let width = required_dim(&x, 1)?;
    let graph = &mut **op;
    let steps = Steps::of(graph, &level, width)?;
    let y = steps.padded(graph, &given, 0.0)?;
    let y = op.reshape_as(&y, &x)?;
    op.put_gradient("X", &y)
}

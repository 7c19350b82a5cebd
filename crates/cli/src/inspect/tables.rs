//! The tables of `lodstone inspect`.

use std::io::{self, Write};

use lodstone::Model;
use lodstone::inspect::{BlockValue, Inspection, TensorDetails, TensorInfo};
use lodstone::model::{Op, Operand};

use super::summary::type_of;
use crate::console::{count, size};
use crate::table;

/// Writes a table of some of `total` rows, at most `limit` [default: all], and the number of the others.
pub(super) fn write<I: Iterator<Item = Vec<String>>>(
    out: &mut impl Write,
    header: &[&str],
    right: &[usize],
    (total, limit): (usize, Option<usize>),
    rows: impl Fn() -> I,
) -> io::Result<()> {
    let limit = limit.unwrap_or(usize::MAX);
    table::write(out, header, right, || rows().take(limit))?;
    match total.saturating_sub(limit) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more"),
    }
}

/// A column, what it shows for a tensor without a value, and the value of a tensor.
type Column = (&'static str, &'static str, fn(&TensorInfo, &TensorDetails) -> Option<String>);

/// The columns that are shown if a tensor has a value in them.
const COLUMNS: [Column; 10] = [
    ("kind", "dense", |tensor, _| (tensor.kind != "dense").then(|| tensor.kind.to_owned())),
    ("LoD", "", |_, it| (!it.lod.is_empty()).then(|| count(it.lod.len(), "level"))),
    ("layout", "", |_, it| it.properties.layout.clone()),
    ("strides", "", |_, it| it.properties.strides.as_ref().map(|it| format!("{it:?}"))),
    ("quantization", "", |_, it| it.properties.quantization.as_ref().map(ToString::to_string)),
    ("static", "", |_, it| it.properties.is_static.map(yes_or_no)),
    ("trainable", "", |_, it| it.properties.trainable.map(yes_or_no)),
    ("context", "", |_, it| it.properties.context.clone()),
    ("shares", "", |_, it| it.shares.clone()),
    ("sha256", "", |_, it| it.sha256.clone()),
];

fn yes_or_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

pub(super) fn tensors(
    inspection: &Inspection,
    limit: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    if inspection.tensors.is_empty() {
        return Ok(());
    }
    let shown: Vec<_> = COLUMNS
        .iter()
        .filter(|(_, _, cell)| inspection.tensors.iter().any(|it| cell(it, it.details()).is_some()))
        .collect();
    let header = ["#", "tensor", "dtype", "shape", "size"].into_iter();
    let header: Vec<_> = header.chain(shown.iter().map(|(name, ..)| *name)).collect();
    let row = |(index, tensor): (usize, &TensorInfo)| {
        let mut row = vec![
            index.to_string(),
            tensor.name.clone(),
            tensor.dtype.to_string(),
            format!("{:?}", tensor.shape),
            size(tensor.nbytes),
        ];
        let cell = |(_, otherwise, cell): &&Column| {
            cell(tensor, tensor.details()).unwrap_or_else(|| (*otherwise).to_owned())
        };
        row.extend(shown.iter().map(cell));
        row
    };
    writeln!(out)?;
    let rows = (inspection.tensors.len(), limit);
    write(out, &header, &[0, 4], rows, || inspection.tensors.iter().enumerate().map(row))
}

/// Prints the operators in order, with their inputs and outputs.
pub(super) fn operators(
    model: &Model,
    limit: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    let Some(program) = model.main().filter(|program| program.ops().count() > 0) else {
        return Ok(());
    };
    let several = program.blocks.len() > 1;
    let mut header = vec!["#", "operator", "inputs", "outputs"];
    header.extend(several.then_some("block"));
    let row = |block: usize, number: usize, op: &Op| {
        let mut row =
            vec![number.to_string(), op.kind.clone(), slots(&op.inputs), slots(&op.outputs)];
        row.extend(several.then(|| block.to_string()));
        row
    };
    writeln!(out)?;
    write(out, &header, &[0], (program.ops().count(), limit), || {
        program.blocks.iter().enumerate().flat_map(|(block, contents)| {
            contents.ops.iter().enumerate().map(move |(number, op)| row(block, number, op))
        })
    })
}

/// Prints the types of all values, block by block.
pub(super) fn values(
    inspection: &Inspection,
    limit: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    let Some(values) = inspection.values.as_ref().filter(|values| !values.is_empty()) else {
        return Ok(());
    };
    let several = values.iter().any(|value| value.block > 0);
    let mut header = vec!["value", "type"];
    header.extend(several.then_some("block"));
    let row = |value: &BlockValue| {
        let known = type_of(&value.value);
        let text = if known.is_empty() { "?" } else { known.trim_start() }.to_owned();
        let mut row = vec![value.value.name.clone(), text];
        row.extend(several.then(|| value.block.to_string()));
        row
    };
    writeln!(out)?;
    write(out, &header, &[], (values.len(), limit), || values.iter().map(row))
}

/// Formats operands: `Input=x Filter=w`, or `x,w` by position, without empty slots.
fn slots(operands: &[Operand]) -> String {
    let slots = operands.iter().filter(|operand| !operand.args.is_empty());
    let slot = |operand: &Operand| match operand.slot.as_str() {
        "" => operand.args.join(","),
        name => format!("{name}={}", operand.args.join(",")),
    };
    slots.map(slot).collect::<Vec<_>>().join(" ")
}

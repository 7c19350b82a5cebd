//! `lodstone inspect`.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use lodstone::{Inspection, OperatorInfo, TensorInfo, ValueInfo};

use crate::Failure;
use crate::args::Inspect;
use crate::say::{self, count, size};

pub(crate) fn run(arguments: &Inspect) -> Result<(), Failure> {
    let model = lodstone::open_with(&arguments.path, &arguments.open.options())?;
    let inspection = lodstone::inspect(&model, arguments.hash)?;
    if arguments.json {
        let mut json = serde_json::to_string_pretty(&inspection)?;
        json.push('\n');
        return say::out(json.as_bytes());
    }
    let mut out = String::new();
    summary(&inspection, &arguments.path.display().to_string(), &mut out);
    tensors(&inspection, &mut out);
    operators(&inspection, &mut out);
    say::out(out.as_bytes())?;
    inspection.warnings.iter().for_each(|warning| say::warning(warning));
    Ok(())
}

fn summary(inspection: &Inspection, path: &str, out: &mut String) {
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(out, "{label:<9}{value}");
    };
    line("path", path);
    let title = lodstone::FORMATS.iter().find(|format| format.name == inspection.format);
    let title = title.map_or("Paddle 3 program (PIR)", |format| format.title);
    line("format", &format!("{} ({title})", inspection.format));
    if let Some(program) = &inspection.program {
        if let Some(version) = &program.version {
            line("version", version);
        }
        let parts = [
            count(program.blocks, "block"),
            count(program.operators, "operator"),
            count(program.variables, "variable"),
        ];
        line("program", &parts.join(", "));
    }
    let nbytes = inspection.tensors.iter().map(|tensor| tensor.nbytes).sum();
    let elements: u64 = inspection.tensors.iter().map(elements).fold(0, u64::saturating_add);
    let total = count(inspection.tensors.len(), "tensor");
    line("tensors", &format!("{total}, {elements} elements, {}", size(nbytes)));
    inspection.inputs.iter().for_each(|value| line("input", &describe(value)));
    inspection.outputs.iter().for_each(|value| line("output", &describe(value)));
    inspection
        .metadata
        .iter()
        .for_each(|(key, value)| line("metadata", &format!("{key}: {value}")));
}

/// How many elements a tensor has; a vocabulary has none.
fn elements(tensor: &TensorInfo) -> u64 {
    if tensor.kind == "vocab" || tensor.shape.contains(&0) {
        return 0;
    }
    tensor.shape.iter().fold(1, |count, extent| count.saturating_mul(*extent))
}

fn describe(value: &ValueInfo) -> String {
    let mut text = value.name.clone();
    if let Some(dtype) = &value.dtype {
        let _ = write!(text, " {dtype}");
    }
    if let Some(shape) = &value.shape {
        let extent = |n: &i64| if *n < 0 { "?".to_owned() } else { n.to_string() };
        let extents: Vec<_> = shape.iter().map(extent).collect();
        let _ = write!(text, " [{}]", extents.join(", "));
    }
    if value.lod_level > 0 {
        let _ = write!(text, ", {}", count(value.lod_level as usize, "LoD level"));
    }
    text
}

fn tensors(inspection: &Inspection, out: &mut String) {
    if inspection.tensors.is_empty() {
        return;
    }
    let hashed = inspection.tensors.iter().any(|tensor| tensor.sha256.is_some());
    let marked = inspection.tensors.iter().any(|t| t.kind != "dense" || !t.lod.is_empty());
    let mut header = vec!["#", "tensor", "dtype", "shape", "size"];
    header.extend(marked.then_some("kind"));
    header.extend(hashed.then_some("sha256"));
    let mut table = table(&header);
    for (index, tensor) in inspection.tensors.iter().enumerate() {
        let mut row = vec![
            index.to_string(),
            tensor.name.clone(),
            tensor.dtype.to_string(),
            format!("{:?}", tensor.shape),
            size(tensor.nbytes),
        ];
        row.extend(marked.then(|| match tensor.lod.len() {
            0 => tensor.kind.to_owned(),
            levels => format!("{}, {}", tensor.kind, count(levels, "LoD level")),
        }));
        row.extend(hashed.then(|| tensor.sha256.clone().unwrap_or_default()));
        table.add_row(row);
    }
    print(table, &[0, 4], out);
}

fn operators(inspection: &Inspection, out: &mut String) {
    if inspection.operators.is_empty() {
        return;
    }
    let blocks = inspection.program.as_ref().map_or(1, |program| program.blocks);
    let mut header = vec!["#", "operator", "inputs", "outputs"];
    header.extend((blocks > 1).then_some("block"));
    let mut table = table(&header);
    let (mut block, mut number) = (0, 0);
    for operator in &inspection.operators {
        if operator.block != block {
            (block, number) = (operator.block, 0);
        }
        let OperatorInfo { kind, inputs, outputs, .. } = operator;
        let mut row = vec![number.to_string(), kind.clone(), slots(inputs), slots(outputs)];
        row.extend((blocks > 1).then(|| block.to_string()));
        table.add_row(row);
        number += 1;
    }
    print(table, &[0], out);
}

/// `Input=x Filter=w`; slots without variables are left out.
fn slots(slots: &serde_json::Map<String, serde_json::Value>) -> String {
    let slots = slots.iter().filter_map(|(slot, args)| {
        let args: Vec<_> = args.as_array()?.iter().filter_map(|arg| arg.as_str()).collect();
        (!args.is_empty()).then(|| format!("{slot}={}", args.join(",")))
    });
    slots.collect::<Vec<_>>().join(" ")
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    table
}

/// Prints a table with some columns aligned to the right, without blanks at the ends of lines.
fn print(mut table: Table, right: &[usize], out: &mut String) {
    for column in right {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    out.push('\n');
    table.to_string().lines().for_each(|line| *out += &format!("{}\n", line.trim_end()));
}

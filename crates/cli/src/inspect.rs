//! `lodstone inspect`.

use std::fmt::Write as _;
use std::io::{self, Write};

use lodstone::{InspectOptions, Inspection, Model, Op, Operand, TensorInfo, ValueInfo};

use crate::args::Inspect;
use crate::say::{self, count, plain, size};
use crate::{Failure, table};

pub(crate) fn run(arguments: &Inspect) -> Result<(), Failure> {
    let model = lodstone::open_with(&arguments.path, &arguments.open.options())?;
    let options = InspectOptions { hash: arguments.hash, operators: arguments.json };
    let inspection = lodstone::inspect(&model, options)?;
    if arguments.json {
        return say::json(&inspection);
    }
    say::to_stdout(|out| {
        summary(&inspection, &arguments.path.display().to_string(), out)?;
        tensors(&inspection, out)?;
        Ok(operators(&model, out)?)
    })?;
    inspection.warnings.iter().for_each(|warning| say::warning(warning));
    Ok(())
}

fn summary(inspection: &Inspection, path: &str, out: &mut impl Write) -> io::Result<()> {
    let mut line = |label: &str, value: &str| writeln!(out, "{label:<9}{}", plain(value));
    line("path", path)?;
    let title = lodstone::FORMATS.iter().find(|format| format.name == inspection.format);
    let title = title.map_or("Paddle 3 program (PIR)", |format| format.title);
    line("format", &format!("{} ({title})", inspection.format))?;
    if let Some(program) = &inspection.program {
        if let Some(version) = &program.version {
            line("version", version)?;
        }
        let parts = [
            count(program.blocks, "block"),
            count(program.operators, "operator"),
            count(program.variables, "variable"),
        ];
        line("program", &parts.join(", "))?;
    }
    let nbytes = inspection.tensors.iter().map(|t| t.nbytes).fold(0, u64::saturating_add);
    let total = inspection.tensors.iter().map(elements).fold(0, u64::saturating_add);
    let elements = if total == 1 { "1 element".to_owned() } else { format!("{total} elements") };
    let tensors = count(inspection.tensors.len(), "tensor");
    line("tensors", &format!("{tensors}, {elements}, {}", size(nbytes)))?;
    for value in &inspection.inputs {
        line("input", &describe(value))?;
    }
    for value in &inspection.outputs {
        line("output", &describe(value))?;
    }
    for (key, value) in &inspection.metadata {
        // A table of the names of all tensors may be one value; `--json` has all of it.
        line("metadata", &table::cut(&format!("{key}: {value}")))?;
    }
    Ok(())
}

/// How many elements of a tensor are stored; of a vocabulary none are.
fn elements(tensor: &TensorInfo) -> u64 {
    let shape = tensor.parts.get("data").map_or(&tensor.shape, |values| &values.shape);
    if tensor.kind == "vocab" || shape.contains(&0) {
        return 0;
    }
    shape.iter().fold(1, |count, extent| count.saturating_mul(*extent))
}

fn describe(value: &ValueInfo) -> String {
    let mut text = value.name.clone();
    text += &typed(value.dtype.as_deref(), value.shape.as_deref());
    if value.lod_level > 0 {
        let _ = write!(text, ", {}", count(value.lod_level as usize, "LoD level"));
    }
    if let Some(inferred) = &value.inferred {
        let inferred = typed(inferred.dtype.as_deref(), inferred.shape.as_deref());
        let _ = write!(text, ", inferred{inferred}");
    }
    text
}

/// ` float32 [?, 3]`, as far as it is known.
fn typed(dtype: Option<&str>, shape: Option<&[i64]>) -> String {
    let mut text = dtype.map(|dtype| format!(" {dtype}")).unwrap_or_default();
    if let Some(shape) = shape {
        let extent = |n: &i64| if *n < 0 { "?".to_owned() } else { n.to_string() };
        let extents: Vec<_> = shape.iter().map(extent).collect();
        let _ = write!(text, " [{}]", extents.join(", "));
    }
    text
}

fn tensors(inspection: &Inspection, out: &mut impl Write) -> io::Result<()> {
    if inspection.tensors.is_empty() {
        return Ok(());
    }
    let hashed = inspection.tensors.iter().any(|tensor| tensor.sha256.is_some());
    let marked = inspection.tensors.iter().any(|t| t.kind != "dense" || !t.lod.is_empty());
    let mut header = vec!["#", "tensor", "dtype", "shape", "size"];
    header.extend(marked.then_some("kind"));
    header.extend(hashed.then_some("sha256"));
    let row = |(index, tensor): (usize, &TensorInfo)| {
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
        row
    };
    writeln!(out)?;
    table::write(out, &header, &[0, 4], || inspection.tensors.iter().enumerate().map(row))
}

fn operators(model: &Model, out: &mut impl Write) -> io::Result<()> {
    let Some(program) = model.program.as_ref().filter(|program| program.ops().count() > 0) else {
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
    table::write(out, &header, &[0], || {
        program.blocks.iter().enumerate().flat_map(|(block, contents)| {
            contents.ops.iter().enumerate().map(move |(number, op)| row(block, number, op))
        })
    })
}

/// `Input=x Filter=w`, or `x,w` by position; slots without variables are left out.
fn slots(operands: &[Operand]) -> String {
    let slots = operands.iter().filter(|operand| !operand.args.is_empty());
    let slot = |operand: &Operand| match operand.slot.as_str() {
        "" => operand.args.join(","),
        name => format!("{name}={}", operand.args.join(",")),
    };
    slots.map(slot).collect::<Vec<_>>().join(" ")
}

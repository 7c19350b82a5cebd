//! `lodstone inspect`.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use lodstone::{
    BlockValue, GraphFormat, InspectOptions, Inspection, InterfaceValue, Layer, Layers, Model, Op,
    Operand, TensorInfo,
};

use crate::args::Inspect;
use crate::console::{self, count, plain, size};
use crate::paths::{About, each};
use crate::stores::at;
use crate::{Answer, Failure, table, yes};

pub(crate) fn run(arguments: &Inspect) -> Result<Answer, Failure> {
    let mut is_first = true;
    each(&arguments.paths, |path| {
        if !std::mem::take(&mut is_first) && !arguments.json {
            console::out(b"\n")?;
        }
        inspect(path, arguments).map(yes)
    })
}

fn inspect(path: &Path, arguments: &Inspect) -> Result<(), Failure> {
    let model = lodstone::open_with(at(path)?, &arguments.open.options()?)?;
    console::opened(path, &model);
    if let Some(format) = &arguments.graph {
        return graph(&model, format, arguments.limit);
    }
    if arguments.layers {
        return by_layer(&lodstone::layers(&model), path, arguments.json);
    }
    let options = InspectOptions::default()
        .with_hash(arguments.hash)
        .with_inferred(arguments.inferred)
        .with_operators(arguments.json);
    let inspection = lodstone::inspect(&model, &options)?;
    if arguments.json {
        return console::json(&About::new(path, &inspection));
    }
    console::to_stdout(|out| {
        summary(&inspection, &path.display().to_string(), out)?;
        tensors(&inspection, out)?;
        operators(&model, out)?;
        Ok(values(&inspection, out)?)
    })?;
    console::warnings(&inspection.warnings);
    Ok(())
}

fn graph(model: &Model, format: &str, limit: usize) -> Result<(), Failure> {
    let format = match format {
        "dot" => GraphFormat::Dot,
        "mermaid" => GraphFormat::Mermaid,
        _ => GraphFormat::Text,
    };
    let mut text = Vec::new();
    lodstone::write_graph(model, format, limit, &mut text)?;
    let text = String::from_utf8_lossy(&text);
    console::to_stdout(|out| {
        text.lines().try_for_each(|line| writeln!(out, "{}", plain(line)))?;
        Ok(())
    })
}

fn by_layer(layers: &Layers, path: &Path, json: bool) -> Result<(), Failure> {
    if json {
        return console::json(&About::new(path, layers));
    }
    let row = |layer: &Layer| {
        let name = match (layer.name.as_str(), layer.kind.as_str()) {
            ("", "") => "unused".to_owned(),
            (name, "") => name.to_owned(),
            (name, kind) => format!("{kind} {name}"),
        };
        vec![name, layer.tensors.to_string(), layer.elements.to_string(), size(layer.nbytes)]
    };
    console::to_stdout(|out| {
        for (what, rows) in [("operator", &layers.operators), ("name", &layers.prefixes)] {
            if !rows.is_empty() {
                let header = [what, "tensors", "elements", "size"];
                table::write(out, &header, &[1, 2, 3], || rows.iter().map(row))?;
                writeln!(out)?;
            }
        }
        let total = &layers.total;
        let tensors = count(total.tensors, "tensor");
        Ok(writeln!(out, "{tensors}, {} elements, {}", total.elements, size(total.nbytes))?)
    })
}

fn summary(inspection: &Inspection, path: &str, out: &mut impl Write) -> io::Result<()> {
    let mut line = |label: &str, value: &str| writeln!(out, "{label:<9}{}", plain(value));
    line("path", path)?;
    let name = &inspection.format;
    let format = match lodstone::format_title(name) {
        Some(title) => format!("{name} ({title})"),
        None => name.clone(),
    };
    line("format", &format)?;
    if let Some(program) = &inspection.program {
        if let Some(version) = &program.version {
            line("version", version)?;
        }
        let sets = program.operator_sets.iter().map(|(domain, version)| match domain.as_str() {
            "" => version.to_string(),
            domain => format!("{domain} {version}"),
        });
        let sets: Vec<String> = sets.collect();
        if !sets.is_empty() {
            line("opset", &sets.join(", "))?;
        }
        let fact = |name: &str| program.facts.get(name).filter(|text| !text.is_empty());
        let producer: Vec<&str> = ["producer_name", "producer_version"]
            .into_iter()
            .filter_map(fact)
            .map(|s| &**s)
            .collect();
        if !producer.is_empty() {
            line("producer", &producer.join(" "))?;
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
        // A value may be a table of all tensor names; `--json` prints all of it.
        line("metadata", &table::cut(&format!("{key}: {value}")))?;
    }
    Ok(())
}

/// Returns the number of stored elements of a tensor; 0 for a vocabulary.
fn elements(tensor: &TensorInfo) -> u64 {
    let shape = tensor.parts.get("data").map_or(&tensor.shape, |values| &values.shape);
    if tensor.kind == "vocab" || shape.contains(&0) {
        return 0;
    }
    shape.iter().fold(1, |count, dim| count.saturating_mul(*dim))
}

fn describe(value: &InterfaceValue) -> String {
    let mut text = value.name.clone();
    if let Some(kind) = &value.kind {
        let _ = write!(text, " {kind}");
    }
    let of = if value.kind.is_some() && value.dtype.is_some() { " of" } else { "" };
    text += of;
    text += &typed(value.dtype.as_deref(), value.shape.as_deref(), &value.symbols);
    if value.lod_level > 0 {
        let _ = write!(text, ", {}", count(value.lod_level as usize, "LoD level"));
    }
    if let Some(inferred) = &value.inferred {
        let inferred = typed(inferred.dtype.as_deref(), inferred.shape.as_deref(), &[]);
        let _ = write!(text, ", inferred{inferred}");
    }
    text
}

/// Formats the known parts of a type: ` float32 [batch, ?, 3]`.
fn typed(dtype: Option<&str>, shape: Option<&[i64]>, symbols: &[Option<String>]) -> String {
    let mut text = dtype.map(|dtype| format!(" {dtype}")).unwrap_or_default();
    if let Some(shape) = shape {
        let symbols = symbols.iter().map(Option::as_deref).chain(std::iter::repeat(None));
        let dim = |(n, symbol): (&i64, Option<&str>)| match symbol {
            Some(symbol) => symbol.to_owned(),
            None if *n < 0 => "?".to_owned(),
            None => n.to_string(),
        };
        let dims: Vec<_> = shape.iter().zip(symbols).map(dim).collect();
        let _ = write!(text, " [{}]", dims.join(", "));
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
    table::write(out, &header, &[0], || {
        program.blocks.iter().enumerate().flat_map(|(block, contents)| {
            contents.ops.iter().enumerate().map(move |(number, op)| row(block, number, op))
        })
    })
}

/// Prints the types of all values, block by block.
fn values(inspection: &Inspection, out: &mut impl Write) -> io::Result<()> {
    let Some(values) = inspection.values.as_ref().filter(|values| !values.is_empty()) else {
        return Ok(());
    };
    let several = values.iter().any(|value| value.block > 0);
    let mut header = vec!["value", "type"];
    header.extend(several.then_some("block"));
    let row = |value: &BlockValue| {
        let InterfaceValue { name, .. } = &value.value;
        let text = describe(&value.value);
        let text = text.strip_prefix(name.as_str()).unwrap_or(&text).trim_start().to_owned();
        let mut row = vec![name.clone(), if text.is_empty() { "?".to_owned() } else { text }];
        row.extend(several.then(|| value.block.to_string()));
        row
    };
    writeln!(out)?;
    table::write(out, &header, &[], || values.iter().map(row))
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

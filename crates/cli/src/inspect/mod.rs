//! `lodstone inspect`.

pub(crate) mod args;
mod bytes;
mod origins;
mod summary;
mod tables;

use std::io::Write;
use std::path::Path;

use lodstone::inspect::{GraphFormat, Layer, Layers};
use lodstone::{InspectOptions, Model};

use self::args::Inspect;
use crate::console::{self, count, plain, size};
use crate::paths::{About, each};
use crate::stores::{at, for_parts, shown};
use crate::{Answer, Failure, yes};

/// Maximum number of operators of a graph by default.
const MAX_DRAWN: usize = 10_000;

/// Maximum number of tensors that are listed without `--tensors`, if there is nothing else to list: the rest of a screen
/// of 24 lines.
const MAX_SHOWN: usize = 12;

pub(crate) fn run(arguments: &Inspect) -> Result<Answer, Failure> {
    let mut is_first = true;
    each(&arguments.paths, |path| {
        if !std::mem::take(&mut is_first) && !arguments.json {
            console::out(b"\n")?;
        }
        match arguments.bytes {
            true => bytes::run(path, arguments),
            false => inspect(path, arguments).map(yes),
        }
    })
}

fn inspect(path: &Path, arguments: &Inspect) -> Result<(), Failure> {
    let options = arguments.open.options()?;
    let options = if arguments.hash { options } else { for_parts(path, options) };
    let mut model = lodstone::open_with(at(path)?, &options)?;
    console::opened(path, &model);
    if arguments.origins {
        return origins::run(&model, path, arguments);
    }
    arguments.interface.fix(&mut model)?;
    if let Some(format) = &arguments.graph {
        return graph(&model, format, arguments.limit.unwrap_or(MAX_DRAWN));
    }
    if arguments.layers {
        return by_layer(&lodstone::inspect::layers(&model), path, arguments);
    }
    let options = InspectOptions::default()
        .with_hash(arguments.hash)
        .with_inferred(arguments.inferred)
        .with_operators(arguments.json);
    let inspection = lodstone::inspect(&model, &options)?;
    if arguments.json {
        return console::json(&About::new(path, &inspection));
    }
    // Hashes are printed in the table.
    let is_small = inspection.program.is_none() && inspection.tensors.len() <= MAX_SHOWN;
    let has_tensors = arguments.tensors || arguments.hash || is_small;
    let limit = arguments.limit;
    console::to_stdout(|out| {
        let listed =
            summary::Listed { tensors: has_tensors, operators: arguments.operators, limit };
        summary::write(&inspection, &shown(path), listed, out)?;
        if has_tensors {
            tables::tensors(&inspection, limit, out)?;
        }
        if arguments.operators {
            tables::operators(&model, limit, out)?;
        }
        Ok(tables::values(&inspection, limit, out)?)
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
    lodstone::inspect::write_graph(model, format, limit, &mut text)?;
    let text = String::from_utf8_lossy(&text);
    console::to_stdout(|out| {
        text.lines().try_for_each(|line| writeln!(out, "{}", plain(line)))?;
        Ok(())
    })
}

fn by_layer(layers: &Layers, path: &Path, arguments: &Inspect) -> Result<(), Failure> {
    if arguments.json {
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
                let size = (rows.len(), arguments.limit);
                tables::write(out, &header, &[1, 2, 3], size, || rows.iter().map(row))?;
                writeln!(out)?;
            }
        }
        let total = &layers.total;
        let tensors = count(total.tensors, "tensor");
        Ok(writeln!(out, "{tensors}, {} elements, {}", total.elements, size(total.nbytes))?)
    })
}

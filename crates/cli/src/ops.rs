//! `lodstone ops`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use lodstone::operators;
use lodstone::ops::{OperatorSupport, OperatorTarget};

use crate::args::options::{Interface, Open};
use crate::console::{self, count, plain};
use crate::stores::at;
use crate::{Failure, table};

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone ops model/                        can it be exported to ONNX?
  lodstone ops net.onnx --target run         does it run without ONNX Runtime?
  lodstone ops net/ --fetch 'fc*'            can these values be exported?")]
pub(crate) struct Ops {
    /// A file, a directory, or the prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// What the operators are for
    #[arg(long, value_name = "TARGET", value_parser = ["onnx", "run"], default_value = "onnx")]
    pub(crate) target: String,
    /// Consider only the operators that this value depends on; a name or a pattern (`*`, `?`, `[..]`, `{a,b}`); may be
    /// repeated
    #[arg(long, visible_alias = "output", value_name = "NAME")]
    pub(crate) fetch: Vec<String>,
    #[command(flatten)]
    pub(crate) interface: Interface,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

/// Reports whether all operators of a model are supported.
pub(crate) fn run(arguments: &Ops) -> Result<bool, Failure> {
    let mut model = lodstone::open_with(at(&arguments.path)?, &arguments.open.options()?)?;
    console::opened(&arguments.path, &model);
    arguments.interface.fix(&mut model)?;
    lodstone::convert::select_outputs(&mut model, &arguments.fetch)?;
    let target = match arguments.target.as_str() {
        "run" => OperatorTarget::Run,
        _ => OperatorTarget::Onnx,
    };
    let report = operators(&model, target)?;
    if arguments.json {
        console::json(&report)?;
        return Ok(report.supported);
    }
    let header = ["operator", "count", "supported", "opset", "reason"];
    let row = |kind: &OperatorSupport| {
        let name = match kind.domain.as_str() {
            "" => kind.kind.clone(),
            domain => format!("{domain}.{}", kind.kind),
        };
        let supported = match kind.unsupported {
            0 => "yes".to_owned(),
            number if number == kind.count => "no".to_owned(),
            number => format!("{} of {}", kind.count - number, kind.count),
        };
        let opset = kind.opset.map_or_else(|| "-".to_owned(), |opset| opset.to_string());
        let reasons = plain(&kind.reasons.join("; "));
        vec![plain(&name), kind.count.to_string(), supported, opset, reasons]
    };
    let kinds = &report.operators;
    let total = kinds.iter().map(|kind| kind.count).sum();
    let unsupported: usize = kinds.iter().map(|kind| kind.unsupported).sum();
    console::to_stdout(|out| {
        table::write(out, &header, &[1, 3], || kinds.iter().map(row))?;
        let (total, kinds) = (count(total, "operator"), count(kinds.len(), "kind"));
        let opset = report.opset.map(|opset| format!(", opset {opset} or newer"));
        let opset = opset.unwrap_or_default();
        writeln!(out, "{total} of {kinds}: {unsupported} not supported{opset}")?;
        if let Some(needs) = &report.needs {
            writeln!(out, "an export needs more: {}", plain(needs))?;
        }
        Ok(())
    })?;
    Ok(report.supported)
}

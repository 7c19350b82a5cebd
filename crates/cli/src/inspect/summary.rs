//! The summary of a model, which fits a screen.

use std::fmt::Write as _;
use std::io::{self, Write};

use lodstone::inspect::{Inspection, InterfaceValue, Properties, Summary};

use unicode_width::UnicodeWidthStr;

use crate::console::{count, plain, size};
use crate::table;

/// Maximum number of inputs, outputs and metadata that are listed, each.
const MAX_LISTED: usize = 4;

/// Maximum number of kinds of operators that are listed.
const MAX_KINDS: usize = 8;

/// Maximum width of the name of a kind.
const MAX_KIND: usize = 30;

/// Maximum width of a line, in columns.
const WIDTH: usize = 80;

/// Width of the labels.
const LABEL: usize = 11;

/// The tables that follow the summary.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    pub(super) tensors: bool,
    pub(super) operators: bool,
    /// The maximum number of inputs, outputs and metadata, each, if requested.
    pub(super) limit: Option<usize>,
}

pub(super) fn write(
    inspection: &Inspection,
    path: &str,
    listed: Listed,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut line = |label: &str, value: &str| {
        let mut label = label;
        for value in wrapped(&plain(value), WIDTH - LABEL) {
            writeln!(out, "{label:<LABEL$}{value}")?;
            label = "";
        }
        Ok(())
    };
    line("path", path)?;
    let name = &inspection.format;
    let format = match lodstone::formats::title(name) {
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
    if !inspection.programs.is_empty() {
        line("programs", &format!("{} (--program opens one)", inspection.programs.join(", ")))?;
    }
    let summary = &inspection.summary;
    if !summary.operators.is_empty() {
        let hint = if listed.operators { "" } else { " (--operators lists them)" };
        line("operators", &format!("{}{hint}", kinds(summary)))?;
    }
    let elements = match summary.elements {
        1 => "1 element".to_owned(),
        elements => format!("{elements} elements"),
    };
    let tensors = count(summary.tensors, "tensor");
    let is_listed = listed.tensors || summary.tensors == 0;
    let hint = if is_listed { "" } else { " (--tensors lists them)" };
    line("tensors", &format!("{tensors}, {elements}, {}{hint}", size(summary.nbytes)))?;
    if summary.elements > 0 {
        line("precision", &precision(summary))?;
    }
    for (label, values) in [("input", &inspection.inputs), ("output", &inspection.outputs)] {
        list(
            label,
            values.iter().map(|value| format!("{}{}", value.name, type_of(value))),
            listed.limit,
            &mut line,
        )?;
    }
    // A value may be a table of all tensor names; `--json` prints all of it.
    let entries = inspection.metadata.iter();
    let entries =
        entries.map(|(key, value)| table::cut_to(&format!("{key}: {value}"), WIDTH - LABEL));
    list("metadata", entries, listed.limit, &mut line)
}

/// Writes a line for each value, or for some and the number of the others.
fn list(
    label: &str,
    values: impl ExactSizeIterator<Item = String>,
    limit: Option<usize>,
    mut line: impl FnMut(&str, &str) -> io::Result<()>,
) -> io::Result<()> {
    let total = values.len();
    // The number of the others is a line, too.
    let shown = limit.unwrap_or(if total > MAX_LISTED { MAX_LISTED - 1 } else { total });
    for value in values.take(shown) {
        line(label, &value)?;
    }
    match total.saturating_sub(shown) {
        0 => Ok(()),
        more => line(label, &format!("and {more} more (--limit {total} lists them)")),
    }
}

/// Splits text into lines: after commas, or at spaces where a part does not fit. A longer word is a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in text.split_inclusive(", ") {
        let fits = part.trim_end().width() <= width;
        let words = if fits { vec![part] } else { part.split_inclusive(' ').collect() };
        for word in words {
            match lines.last_mut() {
                Some(line)
                    if line.is_empty() || line.width() + word.trim_end().width() <= width =>
                {
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Formats the most frequent kinds of operators: `conv2d 53, relu 49 and 6 more kinds`.
fn kinds(summary: &Summary) -> String {
    let shown = summary.operators.iter().take(MAX_KINDS);
    let shown: Vec<_> =
        shown.map(|(kind, count)| format!("{} {count}", table::cut_to(kind, MAX_KIND))).collect();
    match summary.operators.len().saturating_sub(MAX_KINDS) {
        0 => shown.join(", "),
        more => format!("{} and {}", shown.join(", "), count(more, "more kind")),
    }
}

/// Formats the share of elements of each type: `float32 99.8%, int64 0.2%`.
fn precision(summary: &Summary) -> String {
    let shares = summary.dtypes.iter().filter(|(_, count)| *count > 0).map(|(dtype, count)| {
        #[expect(clippy::cast_precision_loss, reason = "one decimal of a percentage is shown")]
        let share = 100.0 * (*count as f64) / (summary.elements as f64);
        match share {
            100.0 => format!("{dtype} 100%"),
            // Rounding must not hide a type, or the other types.
            share => format!("{dtype} {:.1}%", share.clamp(0.1, 99.9)),
        }
    });
    shares.collect::<Vec<_>>().join(", ")
}

/// Formats what is known about the type of a value, as it follows the name: ` float32 [batch, ?, 3], 1 LoD level`.
pub(super) fn type_of(value: &InterfaceValue) -> String {
    let mut text = String::new();
    if let Some(kind) = &value.kind {
        let _ = write!(text, " {kind}");
    }
    let of = if value.kind.is_some() && value.dtype.is_some() { " of" } else { "" };
    text += of;
    text += &typed(value.dtype.as_deref(), value.shape.as_deref(), &value.symbols);
    if value.lod_level > 0 {
        let _ = write!(text, ", {}", count(value.lod_level as usize, "LoD level"));
    }
    for property in properties(&value.properties) {
        let _ = write!(text, ", {property}");
    }
    if let Some(inferred) = &value.inferred {
        let inferred = typed(inferred.dtype.as_deref(), inferred.shape.as_deref(), &[]);
        let _ = write!(text, ", inferred{inferred}");
    }
    text
}

/// Formats the properties of a value beside its type, each with its name.
fn properties(properties: &Properties) -> Vec<String> {
    let Properties { layout, strides, quantization, is_static, trainable, context } = properties;
    let mut parts = Vec::new();
    parts.extend(layout.as_ref().map(|layout| format!("layout {layout}")));
    parts.extend(strides.as_ref().map(|strides| format!("strides {strides:?}")));
    parts.extend(quantization.as_ref().map(|quantization| format!("quantized ({quantization})")));
    parts.extend(is_static.filter(|is_static| *is_static).map(|_| "static".to_owned()));
    parts.extend(trainable.filter(|trainable| *trainable).map(|_| "trainable".to_owned()));
    parts.extend(context.as_ref().map(|context| format!("context {context}")));
    parts
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

//! `lodstone diff`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use lodstone::diff::{
    Change, Detail, Diff, DiffedTensor, Difference, OperatorChange, OperatorPlace,
    ProgramDifference,
};
use lodstone::{DiffOptions, Model, Progress};
use serde::Serialize;

use crate::args::options::{Files, Renaming, Trust};
use crate::args::values::tolerance;
use crate::console::{self, count, plain};
use crate::stores::{at, for_parts, shown};
use crate::{Failure, progress, table};

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone diff before.pdmodel after.pdmodel
  lodstone diff resnet50/ resnet50.safetensors   across formats
  lodstone diff a.npz b.npz --rtol 1e-5 --atol 1e-8
  lodstone diff paddle.pdparams torch.safetensors --rename names.txt --transpose '*linear*.weight'")]
pub(crate) struct Arguments {
    /// A model
    pub(crate) a: PathBuf,
    /// The model to compare it with
    pub(crate) b: PathBuf,
    #[command(flatten)]
    pub(crate) renaming: Renaming,
    /// Transpose matrices of A whose names match first; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) transpose: Vec<String>,
    /// Relative tolerance: numbers are equal if |a - b| <= atol + rtol * |b| [default: 0]
    #[arg(long, value_name = "NUMBER", default_value = "0", hide_default_value = true)]
    #[arg(value_parser = tolerance)]
    pub(crate) rtol: f64,
    /// Absolute tolerance [default: 0]
    #[arg(long, value_name = "NUMBER", default_value = "0", hide_default_value = true)]
    #[arg(value_parser = tolerance)]
    pub(crate) atol: f64,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    /// Read the parameters of A from this file or directory
    #[arg(long, value_name = "PATH")]
    pub(crate) params_a: Option<PathBuf>,
    /// Read the parameters of B from this file or directory
    #[arg(long, value_name = "PATH")]
    pub(crate) params_b: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) files: Files,
    #[command(flatten)]
    pub(crate) trust: Trust,
}

/// A comparison as JSON.
#[derive(Serialize)]
struct Compared<'a> {
    #[serde(flatten)]
    document: &'a Diff,
    #[cfg(feature = "remote")]
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<crate::remote::Counts>,
}

/// Reports whether two models are equal.
pub(crate) fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let open = |path: &Path, params: Option<&Path>| {
        let options = arguments.files.options(params)?;
        let options = for_parts(path, arguments.trust.options(options));
        Ok::<_, Failure>(lodstone::open_with(at(path)?, &options)?)
    };
    let a = open(&arguments.a, arguments.params_a.as_deref())?;
    let b = open(&arguments.b, arguments.params_b.as_deref())?;
    let progress = Progress::default();
    progress::cancel_on_interrupt(&progress)?;
    let options = DiffOptions::default()
        .with_renames(arguments.renaming.renames()?)
        .with_transpose(arguments.transpose.clone())
        .with_rtol(arguments.rtol)
        .with_atol(arguments.atol)
        .with_progress(progress.clone());
    let [of_a, of_b] =
        [(&arguments.a, &a), (&arguments.b, &b)].map(|(path, model)| title(path, model));
    let found = progress::show(&progress, None, || lodstone::diff(a, &b, &options))?;
    if arguments.json {
        console::json(&Compared {
            document: &found,
            #[cfg(feature = "remote")]
            stats: crate::remote::counts(),
        })?;
    } else {
        console::to_stdout(|out| {
            let same = if found.same { "the same" } else { "different" };
            writeln!(out, "{of_a}\n{of_b}\n{same}: {}", summary(&found))?;
            found.program.as_ref().map_or(Ok(()), |program| operators(program, out))?;
            Ok(tensors(&found.tensors, out)?)
        })?;
        found.warnings.iter().for_each(|warning| console::warning(warning));
    }
    Ok(found.same)
}

fn title(path: &Path, model: &Model) -> String {
    let tensors = count(lodstone::inspect::weights(model).len(), "tensor");
    plain(&format!("{} ({}, {tensors})", shown(path), model.format))
}

/// Formats the counts: `9 tensors equal, 2 changed, 1 renamed and cast`.
fn summary(found: &Diff) -> String {
    let mut counts: BTreeMap<&[Change], usize> = BTreeMap::new();
    for difference in &found.tensors {
        *counts.entry(&difference.changes).or_default() += 1;
    }
    let mut parts = vec![format!("{} equal", count(found.equal, "tensor"))];
    parts.extend(counts.iter().map(|(changes, number)| format!("{number} {}", words(changes))));
    parts.join(", ")
}

fn words(changes: &[Change]) -> String {
    let word = |change: &Change| match change {
        Change::Added => "added",
        Change::Removed => "removed",
        Change::Renamed => "renamed",
        Change::Moved => "moved",
        Change::Cast => "cast",
        Change::Reshaped => "reshaped",
        Change::Transposed => "transposed",
        Change::Stored => "stored differently",
        Change::Changed => "changed",
        _ => "different",
    };
    changes.iter().map(word).collect::<Vec<_>>().join(" and ")
}

/// Maximum number of printed differences of programs; `--json` prints all of them.
const MAX_PRINTED: usize = 40;

fn operators(program: &ProgramDifference, out: &mut impl Write) -> io::Result<()> {
    if program.same {
        return writeln!(out, "programs: the same operators");
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for operator in &program.operators {
        let words: Vec<&str> = operator.changes.iter().map(operator_word).collect();
        *counts.entry(words.join(" and ")).or_default() += 1;
    }
    let mut parts = vec![format!("{} equal", count(program.equal, "operator"))];
    parts.extend(counts.iter().map(|(words, number)| format!("{number} {words}")));
    if !program.renamed.is_empty() {
        parts.push(format!("{} changed", count(program.renamed.len(), "name")));
    }
    if program.ambiguous > 0 {
        parts.push(format!("{} ambiguous", program.ambiguous));
    }
    writeln!(out, "programs: {}", parts.join(", "))?;
    let mut left = MAX_PRINTED;
    for detail in program.details.iter().take(left) {
        writeln!(out, "  {}", detail_line(detail))?;
    }
    left = left.saturating_sub(program.details.len());
    for (old, new) in program.renamed.iter().take(left) {
        writeln!(out, "  {} -> {}", plain(old), plain(new))?;
    }
    left = left.saturating_sub(program.renamed.len());
    for operator in program.operators.iter().take(left) {
        let words: Vec<&str> = operator.changes.iter().map(operator_word).collect();
        let place = |place: &OperatorPlace| {
            plain(&format!(
                "block {}, operator {}, {} `{}`",
                place.block, place.number, place.kind, place.name
            ))
        };
        let a = operator.a.as_ref().or(operator.b.as_ref()).map(place).unwrap_or_default();
        writeln!(out, "  {}: {a}", words.join(" and "))?;
        for detail in operator.details.iter().take(MAX_PRINTED) {
            writeln!(out, "    {}", detail_line(detail))?;
        }
    }
    let all = program.details.len() + program.renamed.len() + program.operators.len();
    if all > MAX_PRINTED {
        writeln!(out, "  and {} more; `--json` prints all", all - MAX_PRINTED)?;
    }
    Ok(())
}

fn operator_word(change: &OperatorChange) -> &'static str {
    match change {
        OperatorChange::Added => "added",
        OperatorChange::Removed => "removed",
        OperatorChange::Kind => "of another kind",
        OperatorChange::Rewired => "rewired",
        OperatorChange::Attributes => "with different attributes",
        OperatorChange::Moved => "moved",
        _ => "different",
    }
}

fn detail_line(detail: &Detail) -> String {
    let text = |side: &Option<String>| side.clone().unwrap_or_else(|| "nothing".to_owned());
    let line = format!("{}: {} -> {}", detail.what, text(&detail.a), text(&detail.b));
    plain(&table::cut(&line))
}

fn tensors(differences: &[Difference], out: &mut impl Write) -> io::Result<()> {
    if differences.is_empty() {
        return Ok(());
    }
    let valued = differences.iter().any(|difference| difference.values.is_some());
    let mut header = vec!["change", "tensor", "dtype", "shape"];
    header.extend(
        valued.then_some(["elements", "max abs", "max rel", "cosine"]).into_iter().flatten(),
    );
    let row = |difference: &Difference| {
        let of = |what: fn(&DiffedTensor) -> String| {
            let [a, b] = [&difference.a, &difference.b].map(|which| which.as_ref().map(what));
            match (a, b) {
                (Some(a), Some(b)) if a != b => format!("{a} -> {b}"),
                (a, b) => a.or(b).unwrap_or_default(),
            }
        };
        let name = of(|which| which.name.clone());
        let moved = difference.changes.contains(&Change::Moved);
        let place = of(|which| format!("#{}", which.index));
        let mut row = vec![
            words(&difference.changes),
            if moved && !name.contains(" -> ") { format!("{name} ({place})") } else { name },
            of(|which| which.dtype.to_string()),
            of(|which| format!("{:?}", which.shape)),
        ];
        if let Some(values) = &difference.values {
            let number =
                |number: Option<f64>| number.map_or_else(String::new, |n| format!("{n:.3e}"));
            let nan = match values.not_a_number {
                0 => String::new(),
                count => format!(", {count} NaN"),
            };
            row.push(format!("{} of {}{nan}", values.count, values.elements));
            row.extend([number(values.max_abs), number(values.max_rel)]);
            row.push(values.cosine.map_or_else(String::new, |cosine| format!("{cosine:.9}")));
        }
        row
    };
    writeln!(out)?;
    table::write(out, &header, &[], || differences.iter().map(row))
}

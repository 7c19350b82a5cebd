//! `lodstone compare`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use lodstone::CompareOptions;
use lodstone::run::{ComparedValue, Comparison, Engine, PairedBy};

use crate::args::options::{Files, Interface, Running, Trust};
use crate::args::values::tolerance;
use crate::console::{self, count, plain};
use crate::run::inputs;
use crate::stores::at;
use crate::{Failure, table};

#[derive(Args)]
pub(crate) struct Compare {
    /// A model
    pub(crate) a: PathBuf,
    /// The model to compare it with
    pub(crate) b: PathBuf,
    /// An input, by its name in A: NAME=FILE, or FILE for the next input without a value, or for all
    /// inputs named in it (npz)
    #[arg(short, long, value_name = "[NAME=]FILE")]
    pub(crate) input: Vec<String>,
    /// Offsets of one LoD level of an input, outermost level first; may be repeated
    #[arg(long, value_name = "NAME=0,3,7")]
    pub(crate) lod: Vec<String>,
    /// Seed of the random elements of inputs without a value
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(crate) random_inputs: u64,
    #[command(flatten)]
    pub(crate) interface: Interface,
    /// Relative tolerance: elements agree if |a - b| <= atol + rtol * |b|
    #[arg(long, value_name = "NUMBER", default_value = "1e-3", value_parser = tolerance)]
    pub(crate) rtol: f64,
    /// Absolute tolerance
    #[arg(long, value_name = "NUMBER", default_value = "1e-5", value_parser = tolerance)]
    pub(crate) atol: f64,
    /// Compare only the outputs, not intermediate values
    #[arg(long)]
    pub(crate) outputs_only: bool,
    #[command(flatten)]
    pub(crate) running: Running,
    /// Engine of the second model [default: the same]; compares engines if the models are one
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine_b: Option<Engine>,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) files: Files,
    #[command(flatten)]
    pub(crate) trust: Trust,
}

/// Reports whether the outputs of two models agree.
pub(crate) fn run(arguments: &Compare) -> Result<bool, Failure> {
    let open = |path: &Path| {
        let options = arguments.trust.options(arguments.files.options(None)?);
        let model = lodstone::open_with(at(path)?, &options)?;
        console::opened(path, &model);
        console::warnings(&model.report.warnings);
        Ok::<_, Failure>(model)
    };
    let (mut a, mut b) = (open(&arguments.a)?, open(&arguments.b)?);
    arguments.interface.fix(&mut a)?;
    arguments.interface.fix_known(&mut b)?;
    let mut inputs = inputs(&arguments.input, &arguments.lod)?;
    for added in inputs.add_random(&a, arguments.random_inputs, &[])? {
        console::note(&format!("random input {added}"));
    }
    let options = CompareOptions::default()
        .with_rtol(arguments.rtol)
        .with_atol(arguments.atol)
        .with_outputs_only(arguments.outputs_only)
        .with_engine_b(arguments.engine_b)
        .with_run(arguments.running.options());
    let found = lodstone::compare(&a, &b, inputs, &options)?;
    if arguments.json {
        console::json(&found)?;
    } else {
        console::to_stdout(|out| print(&found, out))?;
    }
    Ok(found.same)
}

fn print(found: &Comparison, out: &mut impl Write) -> Result<(), Failure> {
    let Comparison { values, unpaired_a, unpaired_b, unpaired_outputs, .. } = found;
    let outputs = values.iter().filter(|value| value.is_output).count();
    let verdict = match (found.same, outputs) {
        (true, _) => "outputs agree",
        (false, 0) => "no outputs to compare",
        (false, _) => "outputs differ",
    };
    let agreeing = values.iter().filter(|value| value.agrees).count();
    writeln!(
        out,
        "{verdict}: {} compared ({}), {agreeing} within tolerance",
        count(values.len(), "value"),
        count(outputs, "output"),
    )?;
    writeln!(out, "without a counterpart: {} in A, {} in B", unpaired_a.len(), unpaired_b.len())?;
    for name in unpaired_outputs {
        writeln!(out, "output without a counterpart: {}", plain(name))?;
    }
    if let Some(first) = values.iter().find(|value| !value.agrees) {
        writeln!(out, "first difference: {}", title(first))?;
        difference(first, out)?;
    }
    if outputs == 0 {
        return Ok(());
    }
    let rows = || values.iter().filter(|value| value.is_output).map(row);
    let header =
        ["output", "agrees", "elements", "outside", "max abs", "max rel", "mean abs", "p99 abs"];
    Ok(table::write(out, &header, &[2, 3, 4, 5, 6, 7], rows)?)
}

fn title(value: &ComparedValue) -> String {
    match value.paired_by {
        PairedBy::Name => plain(&value.a),
        _ => plain(&format!("{} and {}", value.a, value.b)),
    }
}

/// Prints why a value differs.
fn difference(value: &ComparedValue, out: &mut impl Write) -> Result<(), Failure> {
    if let Some(mismatch) = &value.mismatch {
        writeln!(out, "  {mismatch}")?;
    }
    if let Some(errors) = &value.errors {
        writeln!(out, "  outside tolerance: {} of {} elements", errors.outside, errors.elements)?;
        let [p50, p90, p99] = errors.quantiles;
        writeln!(
            out,
            "  absolute difference: mean {:.3e}, p50 {p50:.3e}, p90 {p90:.3e}, p99 {p99:.3e}, max {:.3e}",
            errors.mean_abs, errors.max_abs
        )?;
        if let Some((position, a, b)) = errors.worst {
            writeln!(out, "  largest at element {position}: {a} in A, {b} in B")?;
        }
    }
    Ok(())
}

fn row(value: &ComparedValue) -> Vec<String> {
    let agrees = if value.agrees { "yes" } else { "no" };
    let mut row = vec![title(value), agrees.to_owned()];
    match (&value.errors, &value.mismatch) {
        (Some(errors), None) => {
            row.extend([errors.elements.to_string(), errors.outside.to_string()]);
            let [_, _, p99] = errors.quantiles;
            let numbers = [errors.max_abs, errors.max_rel, errors.mean_abs, p99];
            row.extend(numbers.map(|number| format!("{number:.3e}")));
        }
        _ => row.push(value.mismatch.clone().unwrap_or_default()),
    }
    row
}

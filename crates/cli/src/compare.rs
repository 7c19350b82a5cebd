//! `lodstone compare`.

use std::io::Write;
use std::path::Path;

use lodstone::{CompareOptions, ComparedValue, Comparison, PairedBy, RunOptions, Threads};

use crate::args::Compare;
use crate::console::{self, count, plain};
use crate::run::inputs;
use crate::stores::at;
use crate::{Failure, table};

/// Reports whether the outputs of two models agree.
pub(crate) fn run(arguments: &Compare) -> Result<bool, Failure> {
    let open = |path: &Path| {
        let options = arguments.trust.options(arguments.files.options(None)?);
        let model = lodstone::open_with(at(path)?, &options)?;
        console::opened(path, &model);
        console::warnings(&model.report.warnings);
        Ok::<_, Failure>(model)
    };
    let (mut a, b) = (open(&arguments.a)?, open(&arguments.b)?);
    lodstone::fix_types(&mut a, &arguments.input_type)?;
    let mut inputs = inputs(&arguments.input, &arguments.lod)?;
    for added in inputs.add_random(&a, arguments.random_inputs, &arguments.input_shape)? {
        console::note(&format!("random input {added}"));
    }
    let options = CompareOptions::default()
        .with_rtol(arguments.rtol)
        .with_atol(arguments.atol)
        .with_outputs_only(arguments.outputs_only)
        .with_engine_b(arguments.engine_b)
        .with_run(
            RunOptions::default()
                .with_engine(arguments.engine)
                .with_engine_path(arguments.engine_path.clone())
                .with_threads(arguments.threads.map(Threads::new))
                .with_max_memory(arguments.memory_limit),
        );
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

//! `lodstone diff`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lodstone::{
    Change, Diff, DiffOptions, Difference, Model, ProgramDifference, Progress, Renames, Which,
};

use crate::args::Diff as Arguments;
use crate::say::{self, count, plain};
use crate::{Failure, progress, table};

/// Says whether two models are the same.
pub(crate) fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let open = |path: &Path, params: Option<&PathBuf>| {
        let options = arguments.files.options(params.cloned());
        lodstone::open_with(path, &arguments.trust.options(options))
    };
    let a = open(&arguments.a, arguments.params_a.as_ref())?;
    let b = open(&arguments.b, arguments.params_b.as_ref())?;
    let progress = Progress::default();
    progress::cancel_when_asked(&progress)?;
    let options = DiffOptions {
        renames: arguments.rename.as_deref().map(Renames::load).transpose()?.unwrap_or_default(),
        transpose: arguments.transpose.clone(),
        rtol: arguments.rtol,
        atol: arguments.atol,
        progress: progress.clone(),
    };
    let [of_a, of_b] =
        [(&arguments.a, &a), (&arguments.b, &b)].map(|(path, model)| title(path, model));
    let found = progress::show(&progress, None, || lodstone::diff(a, &b, &options))?;
    if arguments.json {
        say::json(&found)?;
    } else {
        say::to_stdout(|out| {
            let same = if found.same { "the same" } else { "different" };
            writeln!(out, "{of_a}\n{of_b}\n{same}: {}", summary(&found))?;
            found.program.as_ref().map_or(Ok(()), |program| operators(program, out))?;
            Ok(tensors(&found.tensors, out)?)
        })?;
        found.warnings.iter().for_each(|warning| say::warning(warning));
    }
    Ok(found.same)
}

fn title(path: &Path, model: &Model) -> String {
    let tensors = count(model.parameters.len(), "tensor");
    plain(&format!("{} ({}, {tensors})", path.display(), model.format))
}

/// `9 tensors equal, 2 changed, 1 renamed, cast`.
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
        Change::Stored => "stored otherwise",
        Change::Changed => "changed",
        _ => "different",
    };
    changes.iter().map(word).collect::<Vec<_>>().join(" and ")
}

fn operators(program: &ProgramDifference, out: &mut impl Write) -> io::Result<()> {
    if program.same {
        return writeln!(out, "programs: the same operators");
    }
    if let Some((block, number)) = program.first {
        writeln!(out, "programs: different from block {block}, operator {number} on")?;
    }
    for (kind, a, b) in &program.operators {
        writeln!(out, "  {} {a} -> {b}", plain(kind))?;
    }
    Ok(())
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
        let of = |what: fn(&Which) -> String| {
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

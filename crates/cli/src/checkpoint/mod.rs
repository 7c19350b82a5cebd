//! `lodstone checkpoint`.

pub(crate) mod args;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use lodstone::checkpoint::{
    Error as CheckpointError, LOADER, Manager, ManagerOptions, Manifest, SavedVariable, Serial,
    serials,
};
use lodstone::reshard::{ReshardOptions, Resharding};
use lodstone::store::{Error as StoreError, prune_chunks};
use lodstone::{Blob, ConvertOptions, Error, Parameter, Progress, Target};
use serde::Serialize;

use crate::console::{self, count, plain, size};
use crate::convert::finish;
use crate::stores::{Output, at, shown};
use crate::{Answer, Failure, progress, table, yes};
use args::{Checkpoint, Command, List, Prune, Reshard, Restore, Show};

/// A serial as JSON.
#[derive(Serialize)]
struct Listed {
    step: u64,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    nbytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    variables: Option<usize>,
    /// Why the manifest could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
}

/// The serials of a directory as JSON.
#[derive(Serialize)]
struct Listing {
    /// Version of this structure.
    schema: u32,
    serials: Vec<Listed>,
}

/// A pruning as JSON.
#[derive(Serialize)]
struct Pruned {
    /// Version of this structure.
    schema: u32,
    /// Steps of the removed checkpoints.
    removed: Vec<u64>,
    /// The number of removed chunks, and their size in bytes.
    chunks: usize,
    nbytes: u64,
}

/// A resharding as JSON.
#[derive(Serialize)]
struct Resharded {
    /// Version of this structure.
    schema: u32,
    to: &'static str,
    shards: usize,
    /// The number of shards that interrupted work had written.
    continued: usize,
    tensors: usize,
    nbytes: u64,
}

/// The verification of a serial as JSON.
#[derive(Serialize)]
struct Verified {
    step: u64,
    path: String,
    whole: bool,
    findings: Vec<String>,
}

/// The verification of several serials as JSON.
#[derive(Serialize)]
struct Verification {
    /// Version of this structure.
    schema: u32,
    whole: bool,
    serials: Vec<Verified>,
}

pub(crate) fn run(arguments: &Checkpoint) -> Result<Answer, Failure> {
    match &arguments.command {
        Command::List(arguments) => list(arguments).map(yes),
        Command::Show(arguments) => show(arguments).map(yes),
        Command::Verify(arguments) => verify(arguments),
        Command::Prune(arguments) => prune(arguments).map(yes),
        Command::Restore(arguments) => restore(arguments).map(yes),
        Command::Reshard(arguments) => reshard(arguments).map(yes),
    }
}

fn path_of(serial: &Serial) -> String {
    serial.path().display().to_string()
}

/// A checkpoint that operators of a program have saved, as JSON.
#[derive(Serialize)]
struct SavedByProgram {
    /// Version of this structure.
    schema: u32,
    path: String,
    /// Whether all files have the structure that the loader expects.
    readable: bool,
    /// Whether checksums prove that nothing has changed: such checkpoints have none.
    verified: bool,
    nbytes: u64,
    variables: Vec<SavedTensor>,
}

/// A variable of a checkpoint as JSON.
#[derive(Serialize)]
struct SavedTensor {
    name: String,
    dtype: String,
    shape: Vec<u64>,
}

/// Returns the checkpoint that operators of a program have saved to a directory; `None` if there is none.
fn saved_by_program(directory: &Path) -> Result<Option<SavedByProgram>, Failure> {
    let dir = at(directory)?;
    if !dir.is_dir()? || !serials(&dir)?.is_empty() || !dir.join(LOADER).is_dir()? {
        return Ok(None);
    }
    let model = lodstone::open(dir)?;
    let tensor = |one: &Parameter| SavedTensor {
        name: one.name.clone(),
        dtype: one.tensor.dtype.to_string(),
        shape: one.tensor.shape.clone(),
    };
    Ok(Some(SavedByProgram {
        schema: 1,
        path: shown(directory),
        readable: true,
        verified: false,
        nbytes: model.nbytes(),
        variables: model.parameters.iter().map(tensor).collect(),
    }))
}

fn list(arguments: &List) -> Result<(), Failure> {
    if let Some(saved) = saved_by_program(&arguments.directory)? {
        if arguments.json {
            return console::json(&saved);
        }
        let row = |saved: &SavedByProgram| {
            let count = saved.variables.len().to_string();
            vec!["-".to_owned(), size(saved.nbytes), count, saved.path.clone()]
        };
        return console::to_stdout(|out| {
            let header = ["step", "size", "variables", "path"];
            Ok(table::write(out, &header, &[0, 1, 2], || std::iter::once(row(&saved)))?)
        });
    }
    let listed = |serial: &Serial| {
        let (step, path) = (serial.step, path_of(serial));
        match serial.manifest() {
            Ok(manifest) => {
                let (nbytes, variables) = (Some(manifest.nbytes()), Some(manifest.variables.len()));
                Listed { step, path, nbytes, variables, damage: None }
            }
            Err(error) => {
                let damage = Some(error.to_string());
                Listed { step, path, nbytes: None, variables: None, damage }
            }
        }
    };
    let serials: Vec<Listed> = serials(at(&arguments.directory)?)?.iter().map(listed).collect();
    if arguments.json {
        return console::json(&Listing { schema: 1, serials });
    }
    let row = |serial: &Listed| {
        let known = serial.nbytes.zip(serial.variables);
        let (nbytes, variables) = known
            .map_or(("?".to_owned(), "?".to_owned()), |known| (size(known.0), known.1.to_string()));
        vec![serial.step.to_string(), nbytes, variables, serial.path.clone()]
    };
    console::to_stdout(|out| {
        let header = ["step", "size", "variables", "path"];
        Ok(table::write(out, &header, &[0, 1, 2], || serials.iter().map(row))?)
    })?;
    let damages = serials.iter().filter_map(|serial| serial.damage.as_ref());
    damages.for_each(|damage| console::warning(damage));
    Ok(())
}

fn show(arguments: &Show) -> Result<(), Failure> {
    if let Some(saved) = saved_by_program(&arguments.directory)? {
        if arguments.json {
            return console::json(&saved);
        }
        return console::to_stdout(|out| {
            let variables = count(saved.variables.len(), "variable");
            writeln!(out, "{}: saved by operators of a program", plain(&saved.path))?;
            writeln!(out, "  {variables}, {}\n", size(saved.nbytes))?;
            let row = |var: &SavedTensor| {
                let shape = var.shape.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
                vec![var.name.clone(), var.dtype.clone(), format!("[{shape}]")]
            };
            let header = ["variable", "dtype", "shape"];
            Ok(table::write(out, &header, &[], || saved.variables.iter().map(row))?)
        });
    }
    let serial = Serial::find(at(&arguments.directory)?, arguments.step)?;
    let manifest = serial.manifest()?;
    if arguments.json {
        return console::json(&manifest);
    }
    console::to_stdout(|out| {
        describe(&manifest, &path_of(&serial), out)?;
        let row = |var: &SavedVariable| {
            let shape = var.shape.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            vec![var.name.clone(), var.dtype.clone(), format!("[{shape}]"), var.kind.clone()]
        };
        let header = ["variable", "dtype", "shape", "kind"];
        Ok(table::write(out, &header, &[], || manifest.variables.iter().map(row))?)
    })
}

fn describe(manifest: &Manifest, path: &str, out: &mut impl Write) -> std::io::Result<()> {
    let variables = count(manifest.variables.len(), "variable");
    writeln!(out, "{}: step {}", plain(path), manifest.step)?;
    writeln!(out, "  {variables}, {}", size(manifest.nbytes()))?;
    if let Some(numerics) = &manifest.numerics {
        writeln!(out, "  computed by {}", plain(&numerics.to_string()))?;
    }
    for (what, names) in [("random", &manifest.random), ("schedule", &manifest.schedule)] {
        if !names.is_empty() {
            writeln!(out, "  {what}: {}", plain(&names.join(", ")))?;
        }
    }
    let programs = [("main", &manifest.programs.main), ("startup", &manifest.programs.startup)];
    for (what, hash) in programs {
        if let Some(hash) = hash {
            writeln!(out, "  {what} program: {}", plain(hash))?;
        }
    }
    for (key, value) in &manifest.metadata {
        writeln!(out, "  {}: {}", plain(key), plain(&value.to_string()))?;
    }
    writeln!(out)
}

fn verify(arguments: &Show) -> Result<Answer, Failure> {
    if let Some(saved) = saved_by_program(&arguments.directory)? {
        match arguments.json {
            true => console::json(&saved)?,
            false => console::to_stdout(|out| {
                Ok(writeln!(out, "{}: readable, but without checksums", plain(&saved.path))?)
            })?,
        }
        return Ok(Answer::Unknown);
    }
    let all = match arguments.step {
        Some(step) => vec![Serial::named(at(&arguments.directory)?, step)?],
        None => serials(at(&arguments.directory)?)?,
    };
    if all.is_empty() {
        Serial::find(at(&arguments.directory)?, None)?;
    }
    let progress = Progress::default();
    progress::cancel_on_interrupt(&progress)?;
    let verified = |serial: &Serial| {
        let findings = match lodstone::verify::verify_serial(serial, &progress) {
            Err(Error::Checkpoint(error)) if is_damage(&error) => vec![error.to_string()],
            found => found?,
        };
        let (step, path, whole) = (serial.step, path_of(serial), findings.is_empty());
        Ok::<_, Error>(Verified { step, path, whole, findings })
    };
    let work = || all.iter().map(verified).collect::<Result<Vec<_>, _>>();
    let serials = progress::show(&progress, None, work)?;
    let whole = serials.iter().all(|serial| serial.whole);
    if arguments.json {
        console::json(&Verification { schema: 1, whole, serials })?;
        return Ok(whole.into());
    }
    console::to_stdout(|out| {
        for serial in &serials {
            let verdict = if serial.whole { "whole" } else { "damaged" };
            writeln!(out, "{}: {verdict}", plain(&serial.path))?;
            for finding in &serial.findings {
                writeln!(out, "  {}", plain(finding))?;
            }
        }
        Ok(())
    })?;
    Ok(whole.into())
}

/// Returns whether the error means damage: an unusable manifest or missing files.
fn is_damage(error: &CheckpointError) -> bool {
    matches!(
        error,
        CheckpointError::Absent { .. } | CheckpointError::Store(StoreError::Unusable { .. })
    )
}

fn prune(arguments: &Prune) -> Result<(), Failure> {
    let directory = at(&arguments.directory)?;
    // `Manager::open` would create a misspelled directory; this fails.
    serials(&directory)?;
    let removed = match arguments.keep {
        Some(keep) => Manager::open(&directory, ManagerOptions::default())?.prune(keep)?,
        None => Vec::new(),
    };
    let pruned = prune_chunks(&directory, &Progress::default());
    let chunks = pruned.as_ref().copied().unwrap_or_default();
    if arguments.json {
        let (chunks, nbytes) = (chunks.count, chunks.nbytes);
        console::json(&Pruned { schema: 1, removed, chunks, nbytes })?;
        return Ok(pruned.map(drop)?);
    }
    let mut done = String::new();
    if !removed.is_empty() {
        let steps = removed.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        done += &format!("removed {}: {steps}\n", count(removed.len(), "checkpoint"));
    }
    if chunks.count > 0 {
        done += &format!("removed {}: {}\n", count(chunks.count, "chunk"), size(chunks.nbytes));
    }
    if done.is_empty() && pruned.is_ok() {
        done += "nothing to remove\n";
    }
    // What was removed is reported even if chunks could not be.
    console::summary(&done)?;
    Ok(pruned.map(drop)?)
}

fn restore(arguments: &Restore) -> Result<(), Failure> {
    let serial = Serial::find(at(&arguments.directory)?, arguments.step)?;
    let model = lodstone::open::open_serial(&serial)?;
    let (total, progress) = (model.nbytes(), Progress::default());
    let options = ConvertOptions::default()
        .with_to(arguments.to.clone().map(Target::Format))
        .with_allow(arguments.allow.losses())
        .with_write(arguments.clobber.options().with_progress(progress.clone()));
    progress::cancel_on_interrupt(&progress)?;
    let output = Output::at(&arguments.output)?;
    let convert = || lodstone::convert(model, output.location(), &options);
    let done = progress::show(&progress, Some(total), convert)?;
    finish(&format!("step {}", serial.step), &done, &output, arguments.json)
}

fn reshard(arguments: &Reshard) -> Result<(), Failure> {
    let plan = match &arguments.plan {
        Some(path) => {
            let bytes = Blob::open(at(path)?, false)?.read()?;
            let wrong = |error| format!("{}: expected a plan: {error}", path.display());
            serde_json::from_slice(&bytes).map_err(wrong)?
        }
        None => BTreeMap::new(),
    };
    let from = at(&arguments.model)?;
    let model = lodstone::open_with(&from, &arguments.open.options()?)?;
    console::opened(from.path(), &model);
    let (total, progress) = (model.nbytes(), Progress::default());
    let options = ReshardOptions::default()
        .with_to(arguments.to.clone())
        .with_shards(arguments.shards)
        .with_axes(arguments.axis.clone())
        .with_plan(plan)
        .with_allow(arguments.allow.losses())
        .with_progress(progress.clone());
    progress::cancel_on_interrupt(&progress)?;
    let to = at(&arguments.output)?;
    let work = || lodstone::reshard(model, &to, &options);
    let done = progress::show(&progress, Some(total), work)?;
    console::report(&done.report);
    let Resharding { format, shards, continued, tensors, nbytes, .. } = done;
    if arguments.json {
        let schema = 1;
        return console::json(&Resharded {
            schema,
            to: format,
            shards,
            continued,
            tensors,
            nbytes,
        });
    }
    let written = match continued {
        0 => String::new(),
        number => format!(" ({number} written before)"),
    };
    let (to, shards) = (plain(&to.display().to_string()), count(shards, "shard"));
    let (tensors, nbytes) = (count(tensors, "tensor"), size(nbytes));
    console::summary(&format!("wrote {to}: {format}, {shards}{written}, {tensors}, {nbytes}\n"))
}

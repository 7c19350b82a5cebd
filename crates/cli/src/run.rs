//! `lodstone run`.

use std::io::Write;
use std::path::Path;

use lodstone::{
    ConvertOptions, Dirs, Inputs, Loss, Model, OpenOptions, Parameter, Paths, RunOptions, Target,
    WriteOptions,
};

use crate::Failure;
use crate::args::Run;
use crate::say::{self, plain};
use crate::stores::{Output, STANDARD, at};

/// Runs a model once.
pub(crate) fn run(arguments: &Run) -> Result<(), Failure> {
    let inputs = inputs(&arguments.input, &arguments.lod)?;
    let options = RunOptions::default()
        .with_dirs(dirs(arguments)?)
        .with_fetch(arguments.fetch.clone())
        .with_max_memory(arguments.max_memory)
        .with_max_steps(arguments.max_steps);
    let model = lodstone::open_with(at(&arguments.path)?, &arguments.open.options()?)?;
    say::opened(&arguments.path, &model);
    say::warnings(&model.report.warnings);
    let outputs = lodstone::run(&model, inputs, &options)?;
    match &arguments.output {
        Some(path) => write(outputs, path, arguments),
        None => say::to_stdout(|out| {
            if arguments.json {
                return Ok(lodstone::write_json(&outputs, out)?);
            }
            for output in &outputs {
                writeln!(out, "{}:", plain(&output.name))?;
                lodstone::write_text(&output.tensor, out)?;
            }
            Ok(())
        }),
    }
}

fn write(outputs: Vec<Parameter>, path: &Path, arguments: &Run) -> Result<(), Failure> {
    let made = Model { parameters: outputs, ..Model::default() };
    let mut allow = arguments.allow.losses();
    // The names of outputs are those of the program, and do not belong to the values.
    allow.push(Loss::Names);
    let output = Output::at(path)?;
    let options = ConvertOptions::default()
        .with_to(arguments.to.clone().map(Target::Format))
        .with_allow(allow)
        .with_write(WriteOptions::default().with_no_clobber(arguments.clobber.no_clobber));
    let done = lodstone::convert(made, output.location(), &options)?;
    say::report(&done.report);
    output.finish(&done.files, "")
}

/// What a model is fed: `[NAME=]FILE`, and levels of LoD.
pub(crate) fn inputs(files: &[String], lod: &[String]) -> Result<Inputs, Failure> {
    let mut inputs = Inputs::default();
    for given in files {
        let (name, path) = match given.split_once('=') {
            Some((name, path)) if !is_file(given) => (Some(name), path),
            _ => (None, given.as_str()),
        };
        inputs.read(name, at(path)?, &OpenOptions::default())?;
    }
    for given in lod {
        inputs.lod.push(level(given)?);
    }
    Ok(inputs)
}

/// Whether an argument is the path of a file as it stands.
fn is_file(path: &str) -> bool {
    path != STANDARD && at(path).is_ok_and(|location| location.exists())
}

/// Where operators of the program may load and save.
fn dirs(arguments: &Run) -> Result<Dirs, Failure> {
    let mut dirs = match arguments.path == Path::new(STANDARD) {
        true => Dirs::default(),
        false => lodstone::dirs_beside(at(&arguments.path)?),
    };
    dirs.read = arguments.load_from.as_ref().map(at).transpose()?.or(dirs.read);
    dirs.write = arguments.save_to.as_ref().map(at).transpose()?;
    if arguments.allow_outside_paths {
        dirs.paths = Paths::Anywhere;
    }
    Ok(dirs)
}

/// `name=0,3,7`
fn level(given: &str) -> Result<(String, Vec<u64>), Failure> {
    let (name, offsets) = given
        .rsplit_once('=')
        .ok_or_else(|| format!("expected `--lod NAME=OFFSETS`, found `{given}`"))?;
    let offset = |text: &str| {
        text.trim().parse().map_err(|_| format!("`{text}` in `--lod {given}` is not an offset"))
    };
    let offsets = offsets.split(',').map(offset).collect::<Result<_, _>>()?;
    Ok((name.to_owned(), offsets))
}

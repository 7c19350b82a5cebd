//! `lodstone run`.

use std::io::Write;

use lodstone::{ConvertOptions, Dirs, Inputs, Loss, Model, OpenOptions, Paths, RunOptions};

use crate::Failure;
use crate::args::Run;
use crate::say::{self, plain};
use crate::stores::at;

/// Runs a model once.
pub(crate) fn run(arguments: &Run) -> Result<(), Failure> {
    let inputs = inputs(&arguments.input, &arguments.lod)?;
    let options = RunOptions::default()
        .with_dirs(dirs(arguments)?)
        .with_max_memory(arguments.max_memory)
        .with_max_steps(arguments.max_steps);
    let model = lodstone::open_with(at(&arguments.path)?, &arguments.open.options()?)?;
    model.report.warnings.iter().for_each(|warning| say::warning(warning));
    let outputs = lodstone::run(&model, inputs, &options)?;
    let Some(path) = &arguments.output else {
        return say::to_stdout(|out| {
            for output in &outputs {
                writeln!(out, "{}:", plain(&output.name))?;
                lodstone::write_text(&output.tensor, out)?;
            }
            Ok(())
        });
    };
    let made = Model { parameters: outputs, ..Model::default() };
    // Who asks for a format without names has seen them on the command line.
    let options = ConvertOptions::default().with_allow(vec![Loss::Names]);
    let done = lodstone::convert(made, at(path)?, &options)?;
    done.report.warnings.iter().for_each(|warning| say::warning(warning));
    Ok(())
}

/// What a model is given: `[NAME=]FILE`, and levels of LoD.
pub(crate) fn inputs(files: &[String], lod: &[String]) -> Result<Inputs, Failure> {
    let mut inputs = Inputs::default();
    for given in files {
        let (name, path) = match given.split_once('=') {
            Some((name, path)) => (Some(name), path),
            None => (None, given.as_str()),
        };
        inputs.read(name, at(path)?, &OpenOptions::default())?;
    }
    for given in lod {
        inputs.lod.push(level(given)?);
    }
    Ok(inputs)
}

/// Where operators of the program may load and save.
fn dirs(arguments: &Run) -> Result<Dirs, Failure> {
    let mut dirs = lodstone::dirs_beside(at(&arguments.path)?);
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
        .split_once('=')
        .ok_or_else(|| format!("expected NAME=OFFSETS as `--lod`, found `{given}`"))?;
    let offset = |text: &str| {
        text.trim().parse().map_err(|_| format!("`{text}` in `--lod {given}` is no offset"))
    };
    let offsets = offsets.split(',').map(offset).collect::<Result<_, _>>()?;
    Ok((name.to_owned(), offsets))
}

//! `lodstone program`.

pub(crate) mod args;

use lodstone::model::Program;
use lodstone::program::Form;
use lodstone::program::{DeriveOptions, Derived as Part};
use lodstone::store::Error as StoreError;
use lodstone::{ConvertOptions, Location, Model, Target};
use serde::Serialize;

use crate::Failure;
use crate::console::{self, count, plain};
use crate::stores::{at, shown};
use args::{Checkpoint, Command, Derived, Inference, Programs, Prune};

/// The files of the programs of a training in their directory.
const TRAINING: [&str; 2] = ["main_program", "startup_program"];

/// What was written, as JSON.
#[derive(Serialize)]
struct Written {
    /// Version of this structure.
    schema: u32,
    output: String,
    operators: usize,
    variables: usize,
    warnings: Vec<String>,
}

pub(crate) fn run(arguments: &Programs) -> Result<(), Failure> {
    match &arguments.command {
        Command::Inference(arguments) => {
            let Inference { derived, fetch, feed, for_test } = arguments;
            let (options, model) = (selection(fetch, feed, *for_test), open(derived)?);
            part(derived, &lodstone::program::inference_program(&model, &options)?)
        }
        Command::Prune(arguments) => {
            let Prune { derived, fetch, feed, for_test } = arguments;
            let (options, model) = (selection(fetch, feed, *for_test), open(derived)?);
            part(derived, &lodstone::program::pruned_program(&model, &options)?)
        }
        Command::Loader(arguments) => {
            let (derived, model) = (&arguments.derived, open(&arguments.derived)?);
            write(derived, &lodstone::program::loader_program(&model, &arguments.vars.options())?)
        }
        Command::Checkpoint(arguments) => checkpoint(arguments),
        Command::Print(arguments) => {
            let model = lodstone::open_with(at(&arguments.path)?, &arguments.open.options()?)?;
            console::out(&lodstone::program::print_program(&model)?)
        }
    }
}

/// Returns the options of a part of a program.
fn selection(fetch: &[String], feed: &[String], for_test: bool) -> DeriveOptions {
    let options = DeriveOptions::default().with_fetch(fetch.to_vec()).with_feed(feed.to_vec());
    options.with_for_test(for_test)
}

fn open(derived: &Derived) -> Result<Model, Failure> {
    let startup = derived.startup.as_ref().map(at).transpose()?;
    let options = derived.open.options()?;
    let model = lodstone::train::open_training(at(&derived.path)?, startup.as_ref(), &options)?;
    console::opened(&derived.path, &model);
    console::warnings(&model.report.warnings);
    Ok(model)
}

/// Writes a part of a program: with its parameters in the format of its model, or alone into its directory.
fn part(derived: &Derived, part: &Part) -> Result<(), Failure> {
    let model = match part {
        Part::Program(program) => return write(derived, program),
        Part::Model(model) => model,
    };
    let output = at(&derived.output)?;
    let options = ConvertOptions::default()
        .with_to(Some(Target::Format(model.format.clone())))
        .with_write(derived.clobber.options());
    let done = lodstone::convert(Model::clone(model), output, &options)?;
    let program = part.program().ok_or("the model has no program")?;
    report(derived, program, done.report.warnings)
}

/// Writes a program into its directory.
fn write(derived: &Derived, program: &Program) -> Result<(), Failure> {
    let output = at(&derived.output)?;
    save(derived, program, &output)?;
    report(derived, program, Vec::new())
}

fn checkpoint(arguments: &Checkpoint) -> Result<(), Failure> {
    let (derived, model) = (&arguments.derived, open(&arguments.derived)?);
    let options = arguments.vars.options().with_every(arguments.every);
    let output = at(&derived.output)?;
    for name in TRAINING {
        free(derived, &output.join(name))?;
    }
    let made = lodstone::program::checkpoint_programs(&model, at(&arguments.dir)?, &options)?;
    lodstone::train::save_training(&output, &made.main, &made.startup)?;
    report(derived, &made.main, made.stale.iter().map(ToString::to_string).collect())
}

fn save(derived: &Derived, program: &Program, output: &Location) -> Result<(), Failure> {
    let (name, form) = match derived.text {
        true => ("__model__.txt", Form::Text),
        false => ("__model__", Form::Binary),
    };
    free(derived, &output.join(name))?;
    Ok(lodstone::program::save_program(program, output.clone(), form)?)
}

/// Fails if a file exists that must not be replaced.
fn free(derived: &Derived, file: &Location) -> Result<(), Failure> {
    match derived.clobber.options().no_clobber && file.exists()? {
        true => Err(StoreError::Exists { path: file.to_path_buf() }.into()),
        false => Ok(()),
    }
}

fn report(derived: &Derived, program: &Program, warnings: Vec<String>) -> Result<(), Failure> {
    let operators = program.ops().count();
    let output = shown(&derived.output);
    if derived.json {
        let variables = program.vars().count();
        return console::json(&Written { schema: 1, output, operators, variables, warnings });
    }
    console::warnings(&warnings);
    console::note(&format!("wrote {}: {}", plain(&output), count(operators, "operator")));
    Ok(())
}

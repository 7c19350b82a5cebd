//! Running PaddlePaddle programs with their executor.

use lodstone_checkpoint::Serial;
use lodstone_lowering::{OperatorCoverage, pir};
use lodstone_model::{Dialect, Model, Op, Program, Tensor};
use lodstone_paddle::checkpoint::{restore, restore_saved};
use lodstone_paddle::executor::{Prepared, Scope};
use lodstone_schema::paddle::{Release, operator};
use lodstone_schema::{Finding, Origin};
use lodstone_store::{Location, Progress};

use crate::error::no_program;
use crate::paddle::executor::Dirs;
use crate::paddle::planned::{Planned, is_plannable};
use crate::run::{Engine, Output, RunOptions, Runner, Value, no_output};
use crate::{Error, Result};

struct Executed {
    prepared: Prepared,
    scope: Scope,
    dirs: Dirs,
}

/// Returns the reason why the executor does not run an operator.
pub(crate) fn unsupported(program: &Program, op: &Op) -> Option<String> {
    let computed = operator(&op.kind).and_then(|row| row.choose(op, Release::of(program)));
    computed.is_none().then(|| "the operator is not supported".to_owned())
}

/// Prepares a PaddlePaddle program. Persistable variables keep their values between runs.
pub(crate) fn prepare(model: &Model, options: &RunOptions) -> Result<Box<dyn Runner>> {
    if options.engine != Engine::Builtin {
        let why = "only the engine `builtin` runs PaddlePaddle programs".to_owned();
        return Err(Error::InvalidOption { option: "engine", why });
    }
    let program = model.main();
    let program = program.ok_or_else(|| no_program(model))?;
    let fetch: Vec<&str> = options.fetch.iter().map(String::as_str).collect();
    let mut prepared = Prepared::new(program, &fetch)?;
    if let Some(steps) = options.max_steps {
        prepared = prepared.with_max_steps(steps);
    }
    if let Some(threads) = &options.threads {
        prepared = prepared.with_threads(threads.clone());
    }
    if let Some(profile) = &options.profile {
        prepared = prepared.with_profile(profile.clone());
    }
    let mut scope = Scope::of(model)?;
    if let Some(bytes) = options.max_memory {
        scope = scope.with_memory(bytes);
    }
    if let Some(dir) = &options.loader {
        load(dir, &mut scope)?;
    }
    let executed = Box::new(Executed { prepared, scope, dirs: options.dirs.clone() });
    match is_plannable(program, options) {
        true => Ok(Box::new(Planned::new(model, options, executed))),
        false => Ok(executed),
    }
}

/// Runs the loader of the checkpoint in a directory: a serial, which is verified, or one that operators have saved.
fn load(dir: &Location, scope: &mut Scope) -> Result<()> {
    match Serial::at(dir)? {
        Some(serial) => drop(restore(&serial, scope)?),
        None => restore_saved(dir.clone(), scope)?,
    }
    Ok(())
}

/// Returns the main program of a model as a PaddlePaddle program; a program of PaddlePaddle 3 is translated.
///
/// # Errors
/// If the model has no program, or that of another framework, or it cannot be translated.
pub fn program_of(model: &Model) -> Result<Program> {
    let main = model.main().ok_or_else(|| no_program(model))?;
    match main.dialect {
        Dialect::Paddle => Ok(main.clone()),
        Dialect::Pir => {
            let mut translated = model.clone();
            pir::to_run(&mut translated)?;
            translated.main().cloned().ok_or_else(|| no_program(model))
        }
        other => {
            let finding =
                format!("expected one of PaddlePaddle, found one of {}", other.framework());
            Err(Error::InvalidProgram { what: "the program", finding: finding.into() })
        }
    }
}

/// Returns which operators of a program run that is translated to PaddlePaddle 2's operators.
pub(crate) fn translated_coverage(
    model: &Model,
) -> Option<std::result::Result<Vec<OperatorCoverage>, Finding>> {
    Some(pir::coverage_by(model, |translated| {
        let program = translated.main().ok_or("expected a program, found none")?;
        let reasons = program.ops().filter_map(|op| {
            let reason = unsupported(program, op)?;
            Some((op.writes().next()?.to_owned(), (None, Some(Finding::from(reason)))))
        });
        Ok(reasons.collect())
    }))
}

/// Prepares a program that is translated to PaddlePaddle 2's operators. Values are fetched by their names in the source.
pub(crate) fn prepare_translated(model: &Model, options: &RunOptions) -> Result<Box<dyn Runner>> {
    let mut translated = model.clone();
    let origins = pir::to_run(&mut translated)?;
    let mut options = options.clone();
    let wanted = std::mem::take(&mut options.fetch);
    for name in &wanted {
        match origins.of(0, name) {
            Origin::Value(value) => options.fetch.push(value.to_string()),
            Origin::Folded(_) | Origin::Removed => {
                return Err(no_output(model, name, |it| {
                    matches!(origins.of(0, it), Origin::Value(_))
                }));
            }
        }
    }
    Ok(Box::new(Renamed { runner: prepare(&translated, &options)?, names: wanted }))
}

/// A program whose results have the names of another one.
struct Renamed {
    runner: Box<dyn Runner>,
    /// The names of the results; empty if they keep theirs.
    names: Vec<String>,
}

impl Runner for Renamed {
    fn run(&mut self, inputs: Vec<(String, Value)>, progress: &Progress) -> Result<Vec<Output>> {
        let mut outputs = self.runner.run(inputs, progress)?;
        for (output, name) in outputs.iter_mut().zip(&self.names) {
            output.name.clone_from(name);
        }
        Ok(outputs)
    }

    fn outputs(&self) -> Vec<String> {
        if self.names.is_empty() { self.runner.outputs() } else { self.names.clone() }
    }
}

impl Runner for Executed {
    fn run(&mut self, inputs: Vec<(String, Value)>, progress: &Progress) -> Result<Vec<Output>> {
        self.dirs.progress = progress.clone();
        let inputs = fed(inputs)?;
        let feed: Vec<(&str, Tensor)> =
            inputs.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
        let outputs = self.prepared.run(&mut self.scope, &feed, &self.dirs)?;
        let named = self.prepared.fetched().iter().cloned().zip(outputs);
        let output = |(name, tensor)| Output { name, value: Value::Tensor(tensor) };
        Ok(named.map(output).collect())
    }

    fn outputs(&self) -> Vec<String> {
        self.prepared.fetched().to_vec()
    }
}

/// Returns the tensors that a program is fed with.
pub(super) fn fed(inputs: Vec<(String, Value)>) -> Result<Vec<(String, Tensor)>> {
    let tensor = |(name, value): (String, Value)| match value.tensor() {
        Ok(tensor) => Ok((name, tensor.clone())),
        Err(finding) => Err(Error::input(name, finding)),
    };
    inputs.into_iter().map(tensor).collect()
}

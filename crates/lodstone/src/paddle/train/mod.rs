//! Training of models.
//!
//! The samples of a step follow from its number (`samples`), so a resumed run continues with the same data.

mod samples;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use lodstone_checkpoint::{Serial, Snapshot};
use lodstone_formats::paddle::stream::{self, Layout};
use lodstone_formats::{OpenOptions, WriteOptions, paddle::program};
use lodstone_lowering::pir;
use lodstone_model::{
    DType, Model, Parameter, Program, Programs, Tensor, TensorType, ValueType, Var, some,
};
use lodstone_paddle::checkpoint::{Contents, RestoreOptions, Restored, restore_for};
use lodstone_paddle::executor::{Dirs, Executor, Prepared, RANDOM_STATE, Scope};
use lodstone_paddle::program::{Network, loss};
use lodstone_schema::paddle::{interface, needed, saved};
use lodstone_schema::{Finding, conventions};
use lodstone_store::{Commit, Location, Output, Progress};

use crate::error::no_program;
use crate::numbers::numbers;
use crate::paddle::run::fed;
use crate::run::dirs_beside;
use crate::{Error, Inputs, Renames, Result, open_with};
use samples::Samples;

/// The files of a trainable program in its directory: the training step, and the startup program.
const MAIN: &str = "main_program";
const STARTUP: &str = "startup_program";

/// The metadata key in checkpoints for the batch selection.
const SAMPLES: &str = "samples";

/// The file of its variables.
const PARAMS: &str = "__params__";

/// The options of a training run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TrainOptions {
    /// The loss variable; by default, the root of the backward pass.
    pub loss: Option<String>,
    /// Further scalar variables to report.
    pub watch: Vec<String>,
    /// The batch selection.
    pub samples: SampleOptions,
    /// Fails at the first operator whose result is infinite or NaN.
    pub check_finite: bool,
    /// The directories where operators of the program may load and save.
    pub dirs: Dirs,
    /// The checkpoint to resume from.
    pub resume: Option<Serial>,
    /// Whether to load the matching part of a checkpoint that does not match completely.
    pub partial: bool,
    /// The map from variable names of the program to those of the checkpoint.
    pub renames: Renames,
}

lodstone_model::with_fields!(TrainOptions {
    with_loss(loss: Option<String>),
    with_watch(watch: Vec<String>),
    with_samples(samples: SampleOptions),
    with_check_finite(check_finite: bool),
    with_dirs(dirs: Dirs),
    with_resume(resume: Option<Serial>),
    with_partial(partial: bool),
    with_renames(renames: Renames),
});

/// The samples of each step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SampleOptions {
    /// The batch size; by default, the declared one, or all samples.
    pub batch: Option<u64>,
    /// The seed that shuffles each epoch; by default, samples are in file
    /// order.
    pub shuffle: Option<u64>,
}

lodstone_model::with_fields!(SampleOptions {
    with_batch(batch: Option<u64>),
    with_shuffle(shuffle: Option<u64>),
});

/// A model in training.
#[derive(Debug)]
pub struct Training {
    program: Program,
    startup: Option<Program>,
    has_run_startup: bool,
    step: Prepared,
    scope: Scope,
    /// The data of all steps, unless each step is given its own.
    samples: Option<Samples>,
    inputs: Vec<String>,
    options: SampleOptions,
    dirs: Dirs,
    done: u64,
    contents: Option<Contents>,
    restored: Option<Restored>,
}

impl Training {
    /// Starts to train a PaddlePaddle model, whose program computes gradients and updates parameters. Its variables
    /// have the values of the model; if some are missing, the program `startup` runs first.
    ///
    /// `data` holds the inputs of the program; unknown names are ignored.
    ///
    /// # Errors
    /// If the model has no program, or it cannot run or does not train; if an input or a variable is missing, or
    /// does not match its declaration.
    pub fn new(model: &Model, data: Inputs, options: TrainOptions) -> Result<Self> {
        let mut training = Self::without_data(model, options)?;
        let fed = training.fed(data)?;
        training.samples = Some(Samples::new(&training.program, fed, training.options)?);
        Ok(training)
    }

    /// Starts to train a model like [`new`](Self::new), without data: each step is given its batch
    /// ([`step_with`](Self::step_with)).
    ///
    /// # Errors
    /// Like [`new`](Self::new).
    pub fn without_data(model: &Model, options: TrainOptions) -> Result<Self> {
        let program = model.main();
        let startup = model.programs.get(Programs::STARTUP).cloned();
        let program = program.ok_or_else(|| no_program(model))?.clone();
        let loss = match options.loss.as_deref().or_else(|| loss(&program)) {
            Some(loss) => loss.to_owned(),
            None => return untrainable("it computes no gradients"),
        };
        let mut fetch = vec![loss.as_str()];
        fetch.extend(options.watch.iter().map(String::as_str));
        let prepared = Prepared::new(&program, &fetch)?;
        let step = if options.check_finite { prepared.checking_finite() } else { prepared };

        let inputs = interface(&program).inputs;
        let inputs: Vec<String> = inputs.into_iter().map(str::to_owned).collect();
        let (mut scope, has_run_startup) = first_values(model, &program, &options)?;
        let resume = |serial: &Serial| resume(serial, &program, &mut scope, &options);
        let restored = options.resume.as_ref().map(resume).transpose()?;
        check_variables(&program, &scope)?;
        Ok(Self {
            program,
            startup,
            has_run_startup,
            step,
            scope,
            samples: None,
            inputs,
            options: options.samples,
            dirs: options.dirs,
            done: restored.as_ref().map_or(0, |restored| restored.step),
            contents: None,
            restored,
        })
    }

    /// Returns whether the startup program initialized variables, because the model does not have them.
    pub fn has_run_startup(&self) -> bool {
        self.has_run_startup
    }

    /// Returns warnings about the program, one sentence each: files that it saves before the step of a run.
    pub fn warnings(&self) -> Vec<String> {
        (conventions(&self.program).notes)(&self.program)
    }

    /// Returns the state that was restored from the checkpoint, if training was resumed.
    pub fn restored(&self) -> Option<&Restored> {
        self.restored.as_ref()
    }

    /// Returns the contents of a checkpoint that resumes from here.
    ///
    /// # Errors
    /// If a variable has no value.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        let contents = match self.contents.take() {
            Some(contents) => contents,
            None => {
                let empty = Network::new().startup;
                Contents::of(&self.program, self.startup.as_ref().unwrap_or(&empty), None)?
            }
        };
        let snapshot = contents.snapshot(&self.scope)?;
        self.contents = Some(contents);
        Ok(snapshot.with(SAMPLES, recorded(self.options)))
    }

    /// Returns the names of the reported variables, the loss first.
    pub fn watched(&self) -> &[String] {
        self.step.fetched()
    }

    /// Returns the number of completed steps.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Runs a step; returns the values of the reported variables.
    ///
    /// # Errors
    /// If an operator fails, or a reported variable is not a scalar. The variables are then unchanged.
    pub fn step(&mut self) -> Result<Vec<f64>> {
        let fed = match (&mut self.samples, self.inputs.first()) {
            (Some(samples), _) => samples.of_step(self.done)?,
            (None, Some(input)) => return Err(Error::MissingInput(input.clone())),
            (None, None) => Vec::new(),
        };
        let found = self.step.run(&mut self.scope, &fed, &self.dirs)?;
        self.reported(&found)
    }

    /// Runs a step on a batch; returns the values of the reported variables. Inputs that the program does not have are
    /// ignored.
    ///
    /// # Errors
    /// Like [`step`](Self::step); if an input is missing, or does not match its declaration.
    pub fn step_with(&mut self, batch: Inputs) -> Result<Vec<f64>> {
        let fed = self.fed(batch)?;
        let fed: Vec<(&str, Tensor)> =
            fed.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
        let found = self.step.run(&mut self.scope, &fed, &self.dirs)?;
        self.reported(&found)
    }

    /// Returns the inputs of the program.
    fn fed(&self, data: Inputs) -> Result<Vec<(String, Tensor)>> {
        let mut fed = fed(data.named(&self.inputs, &self.inputs)?)?;
        fed.retain(|(name, _)| self.inputs.contains(name));
        check_reads(&self.program, &fed)?;
        Ok(fed)
    }

    /// Cancels steps by `progress`, which also counts the bytes that they save.
    pub fn stopped_by(&mut self, progress: &Progress) {
        self.dirs.progress = progress.clone();
    }

    /// Returns the program with its current variables, as a model.
    pub fn model(&self) -> Model {
        let program = self.with_random();
        let tensor = |var: &&Var| {
            let tensor = self.scope.tensor(&var.name)?.clone();
            Some(Parameter { name: var.name.clone(), tensor })
        };
        let parameters = saved(&program).iter().filter_map(tensor).collect();
        let mut programs = Programs::from(program);
        if let Some(startup) = &self.startup {
            programs.insert(Programs::STARTUP, startup.clone());
        }
        Model { format: "paddle".to_owned(), programs, parameters, ..Model::default() }
    }

    /// Counts a step; returns the values that it reports.
    fn reported(&mut self, found: &[Tensor]) -> Result<Vec<f64>> {
        self.done += 1;
        let named = self.watched().iter().zip(found);
        let number = |(name, tensor): (&String, &Tensor)| {
            number(tensor).map_err(|finding| Error::output(name, finding))
        };
        named.map(number).collect()
    }

    /// Returns the variables.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Writes the program with its current variables, and additional files, into a directory, atomically.
    /// It can be opened and trained further: the state of the random number generator is a variable.
    ///
    /// `options` for formats with a choice have no effect. Missing parent directories of `dir` are created.
    ///
    /// # Errors
    /// If a variable has no value, a file exists that may not be replaced, or writing fails.
    pub fn save(
        &self,
        dir: impl Into<Location>,
        files: &[(&str, &[u8])],
        options: &WriteOptions,
    ) -> Result<()> {
        let dir = dir.into();
        let program = self.with_random();
        let mut tensors = Vec::new();
        for var in saved(&program) {
            let Some(tensor) = self.scope.tensor(&var.name) else {
                return Err(Error::NoValues(vec![var.name.clone()]));
            };
            tensors.push((var.name.as_str(), tensor));
        }
        dir.directory().create_dir()?;
        let commit = Commit::within(dir, options.progress.clone())?;
        let mut commit = commit.only_new(options.no_clobber);
        for (name, bytes) in files {
            commit.write(name, |out: &mut Output| out.put(bytes))?;
        }
        commit.write(PARAMS, |out: &mut Output| stream::write(out, tensors, Layout::default()))?;
        if let Some(startup) = &self.startup {
            let startup = program::write(startup)?;
            commit.write(STARTUP, |out: &mut Output| out.put(&startup))?;
        }
        let main = program::write(&program)?;
        commit.write(MAIN, |out: &mut Output| out.put(&main))?;
        Ok(commit.publish()?)
    }

    /// Returns the program; it declares the state of the random number generator if there is one.
    fn with_random(&self) -> Program {
        let mut program = self.program.clone();
        let is_declared = program.vars().any(|var| var.name == RANDOM_STATE);
        if let Some(state) = self.scope.tensor(RANDOM_STATE).filter(|_| !is_declared)
            && let Some(block) = program.blocks.first_mut()
        {
            let value = ValueType::tensor(TensorType::of(state));
            let name = RANDOM_STATE.to_owned();
            block.vars.push(Var { name, value, persistable: true, ..Var::default() });
        }
        program
    }
}

/// Returns the initial values of variables: those of the model and, where some are missing, the results of
/// the startup program. Also returns whether the startup program ran.
fn first_values(model: &Model, program: &Program, options: &TrainOptions) -> Result<(Scope, bool)> {
    let mut scope = Scope::default();
    let is_missing = |name: &&str| model.parameter(name).is_none();
    let lacks_some = needed(program).iter().any(is_missing);
    let startup = model.programs.get(Programs::STARTUP).filter(|_| lacks_some);
    if let Some(startup) = startup {
        Executor::default().run(startup, &mut scope, &[], &[], &options.dirs)?;
    }
    let mut known = model.clone();
    known.load()?;
    for parameter in known.parameters {
        scope.set(&parameter.name, parameter.tensor);
    }
    Ok((scope, startup.is_some()))
}

/// Restores a checkpoint, which must have been trained with the same samples in the same order.
fn resume(
    serial: &Serial,
    program: &Program,
    scope: &mut Scope,
    options: &TrainOptions,
) -> Result<Restored> {
    let names = serial.manifest()?.variables.into_iter().map(|variable| variable.name);
    let renamed = names.filter_map(|name| options.renames.of(&name).map(|new| (name, new)));
    let how =
        RestoreOptions::default().with_partial(options.partial).with_renames(renamed.collect());
    let restored = restore_for(serial, program, scope, &how)?;
    let (now, then) = (recorded(options.samples), restored.metadata.get(SAMPLES));
    match then.filter(|then| **then != now) {
        Some(then) => {
            let why = format!("the checkpoint was trained with samples {then}, not {now}");
            Err(Error::InvalidOption { option: "samples", why })
        }
        None => Ok(restored),
    }
}

/// Returns the batch selection as recorded in checkpoints.
fn recorded(options: SampleOptions) -> serde_json::Value {
    serde_json::json!({ "batch": options.batch, "shuffle": options.shuffle })
}

/// Opens a model for training. The program that initializes its variables is in the file
/// `startup`, or, if that is `None`, in the file `startup_program` in the directory of the model, if there is one. A
/// program of PaddlePaddle 3 is translated to one of PaddlePaddle 2, which is trained.
///
/// # Errors
/// The errors of [`open_with`]; if the startup program exists but cannot be read, or the program cannot be translated.
pub fn open_training(
    path: impl Into<Location>,
    startup: Option<&Location>,
    options: &OpenOptions,
) -> Result<Model> {
    let path = path.into();
    let startup = match startup {
        Some(startup) => Some(open_program(startup, options)?),
        None => match dirs_beside(&path)?.read.map(|dir| dir.join(STARTUP)) {
            Some(path) if path.is_there()? => Some(open_program(&path, options)?),
            _ => None,
        },
    };
    let mut model = open_with(&path, options)?;
    pir::to_run(&mut model)?;
    if let Some(startup) = startup {
        model.programs.insert(Programs::STARTUP, startup);
    }
    Ok(model)
}

/// Writes a training program and its startup program into a directory, where [`open_training`] finds both. The directory,
/// and those above it, need not exist.
///
/// # Errors
/// If they cannot be written; nothing is changed then.
pub fn save_training(dir: impl Into<Location>, main: &Program, startup: &Program) -> Result<()> {
    let dir = dir.into();
    dir.directory().create_dir()?;
    let mut commit = Commit::within(dir, Progress::default())?;
    for (name, program) in [(MAIN, main), (STARTUP, startup)] {
        let bytes = program::write(program)?;
        commit.write(name, |out: &mut Output| out.put(&bytes))?;
    }
    Ok(commit.publish()?)
}

/// Opens a program alone, ignoring the files beside it.
///
/// # Errors
/// If it cannot be read.
pub fn open_program(path: impl Into<Location>, options: &OpenOptions) -> Result<Program> {
    let path = path.into();
    let blob = options.file(&path)?;
    Ok(program::open(&blob, &path.display().to_string(), &options.limits)?)
}

/// Fails if operators read variables that are neither written nor inputs.
fn check_reads(program: &Program, fed: &[(String, Tensor)]) -> Result<()> {
    let Some(block) = program.blocks.first() else { return Ok(()) };
    let vars = block.vars.iter().map(|var| (var.name.as_str(), var));
    let vars: BTreeMap<&str, &Var> = vars.collect();
    let mut known: BTreeSet<&str> = fed.iter().map(|(name, _)| name.as_str()).collect();
    for (number, op) in block.ops.iter().enumerate() {
        // A block may read what it writes itself.
        let reads = op.reads().filter(|_| op.blocks().next().is_none());
        for name in reads.filter(|name| !known.contains(name)) {
            let is_tensor =
                |var: &&Var| matches!(var.value, ValueType::Tensor(_)) && !var.persistable;
            if vars.get(name).is_some_and(is_tensor) {
                return untrainable(&format!(
                    "`{name}`: operator {number} (`{}`) reads it, but no earlier operator writes it",
                    op.kind
                ));
            }
        }
        known.extend(op.writes());
    }
    Ok(())
}

/// Fails with all variables that a program reads and that are missing or do not match their declaration.
fn check_variables(program: &Program, scope: &Scope) -> Result<()> {
    let needed: BTreeSet<&str> = needed(program).into_iter().collect();
    let (mut missing, mut others) = (Vec::new(), Vec::new());
    for var in saved(program) {
        let declared = var.value.tensor_type();
        match (scope.tensor(&var.name), declared) {
            (None, _) if needed.contains(var.name.as_str()) => {
                missing.push(var.name.clone());
            }
            (Some(found), Some(declared))
                if found.dtype != declared.dtype || !declared.admits(&found.shape) =>
            {
                let found = format!("{}{:?}", found.dtype, found.shape);
                others.push(format!("`{}` is {found}, not {declared}", var.name));
            }
            _ => {}
        }
    }
    if !missing.is_empty() {
        return Err(Error::NoValues(missing));
    }
    match others.is_empty() {
        true => Ok(()),
        false => Err(Error::InvalidProgram {
            what: "variables contradict their declarations",
            finding: some(others).into(),
        }),
    }
}

/// Returns the number in a tensor of one element.
fn number(tensor: &Tensor) -> Result<f64, Finding> {
    let found = || format!("expected a scalar, found {}{:?}", tensor.dtype, tensor.shape);
    if tensor.shape.iter().product::<u64>() != 1 || tensor.dtype == DType::String {
        return Err(found().into());
    }
    let (data, decoder) = numbers(tensor).ok_or_else(found)?;
    let bytes = data.bytes().map_err(|error| error.to_string())?;
    Ok((decoder.number)(&bytes))
}

fn untrainable<T>(why: &str) -> Result<T> {
    Err(Error::InvalidProgram { what: "cannot train the program", finding: why.into() })
}

//! Running models of any framework.
//!
//! A [`Session`] prepares a program once, for the executor of its framework, or lowered to ONNX for the engine, and runs it
//! often. [`Inputs`] are values by name, from files, random, or of the caller.

mod compare;
pub(crate) mod engine;
mod inputs;
#[cfg(feature = "onnxruntime")]
mod onnxruntime;
mod random;
mod sizes;
pub(crate) mod typed;
mod value;

use std::collections::HashSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

pub use lodstone_engine::{NUMERICS, OperatorTime, Profile, Threads, cpu_level};
use lodstone_model::{Model, Parameter};
use lodstone_schema::conventions;
use lodstone_store::{Location, Progress};

pub use compare::{
    CompareOptions, ComparedValue, Comparison, ErrorDistribution, PairedBy, compare,
};
pub use inputs::Inputs;
pub use value::{Output, Value};

use crate::dialects::RUNS;
pub use crate::dialects::runtime::executor::Dirs;
use crate::error::no_program;
use crate::names::{MAX_SUGGESTIONS, similar};
use crate::{Error, Result};

/// The options of a run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// The directories where operators of the program may load and save.
    pub dirs: Dirs,
    /// The directory of a checkpoint whose loader runs before the program, in the same scope.
    pub loader: Option<Location>,
    /// Names of the values to return; the outputs of the program by default.
    pub fetch: Vec<String>,
    /// Maximum size of the tensors of the run in bytes; the available memory by default, and at most that.
    pub max_memory: Option<u64>,
    /// Maximum number of executed operators, counting every iteration of a loop; unlimited by default.
    pub max_steps: Option<u64>,
    /// The threads; one per processor by default. Results do not depend on them.
    pub threads: Option<Threads>,
    /// The implementation of the operators.
    pub engine: Engine,
    /// The library of [`Engine::OnnxRuntime`], or its directory; by default that of the environment variable
    /// `ORT_DYLIB_PATH`, or of an installed Python package `onnxruntime`. A process loads it once.
    pub engine_path: Option<PathBuf>,
    /// The profile that records the time of each operator.
    pub profile: Option<Arc<Profile>>,
}

lodstone_model::with_fields!(RunOptions {
    with_dirs(dirs: Dirs),
    with_loader(loader: Option<Location>),
    with_fetch(fetch: Vec<String>),
    with_max_memory(max_memory: Option<u64>),
    with_max_steps(max_steps: Option<u64>),
    with_threads(threads: Option<Threads>),
    with_engine(engine: Engine),
    with_engine_path(engine_path: Option<PathBuf>),
    with_profile(profile: Option<Arc<Profile>>),
});

/// The implementation of the operators of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// The engine of this crate, with simplified programs and fused operators.
    #[default]
    Builtin,
    /// The engine of this crate, with a kernel for each operator and no fused operators.
    Reference,
    /// ONNX Runtime, whose library is loaded for it; needs the feature `onnxruntime`.
    OnnxRuntime,
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        match name {
            "builtin" => Ok(Self::Builtin),
            "reference" => Ok(Self::Reference),
            "onnxruntime" => Ok(Self::OnnxRuntime),
            _ => Err(format!(
                "unknown engine `{name}`; the engines are `builtin`, `reference` and `onnxruntime`"
            )),
        }
    }
}

/// A prepared program.
pub(crate) trait Runner: Send {
    /// Runs the program once with these inputs.
    fn run(&mut self, inputs: Vec<(String, Value)>, progress: &Progress) -> Result<Vec<Output>>;

    /// Returns the names of what a run returns, in order.
    fn outputs(&self) -> Vec<String>;
}

/// Prepares the main program of a model.
pub(crate) type Prepare = fn(&Model, &RunOptions) -> Result<Box<dyn Runner>>;

/// A prepared model. It can run any number of times, with inputs of any shape that the program accepts.
pub struct Session {
    runner: Box<dyn Runner>,
    /// The inputs without a default value, in the order of the program, and the other inputs.
    inputs: (Vec<String>, Vec<String>),
    /// The names of all values of the main graph, which some programs take as inputs.
    values: HashSet<String>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("inputs", &self.inputs.0).finish_non_exhaustive()
    }
}

impl Session {
    /// Prepares the main program of a model.
    ///
    /// # Errors
    /// Fails if the model has no program, or the program cannot run; the error lists all unsupported operators.
    pub fn new(model: &Model, options: &RunOptions) -> Result<Self> {
        let program = model.main();
        let program = program.ok_or_else(|| no_program(model))?;
        let prepare = RUNS.of(program.dialect).prepare;
        let (inputs, values) = (required_inputs(model)?, values(model));
        let mut unknown = options.fetch.iter().filter(|name| !is_known(name, &values)).peekable();
        if unknown.peek().is_some() {
            // Such as the next values of states. What cannot be lowered adds none.
            let added = engine::lowered(model)
                .map_or_else(|_| Vec::new(), |(lowered, _)| engine::added_outputs(model, &lowered));
            if let Some(name) = unknown.find(|name| !added.contains(name)) {
                return Err(no_output(model, name, |_| true));
            }
        }
        Ok(Self { runner: prepare(model, options)?, inputs, values })
    }

    /// Returns the names of the inputs without a default value, in the order of the program.
    pub fn inputs(&self) -> &[String] {
        &self.inputs.0
    }

    /// Returns the names of what a run returns: the outputs of the program, or [`RunOptions::fetch`], in order.
    pub fn outputs(&self) -> Vec<String> {
        self.runner.outputs()
    }

    /// Runs the program once; returns its outputs, or the values of [`RunOptions::fetch`], in that order.
    ///
    /// # Errors
    /// Fails if an input is missing, unknown or does not match its declaration, if an operator fails, or if the run
    /// exceeds its limits.
    pub fn run(&mut self, inputs: Inputs) -> Result<Vec<Output>> {
        self.run_with(inputs, &Progress::default())
    }

    /// Runs the program once. The run stops before its next operator when `progress` is cancelled.
    ///
    /// # Errors
    /// As [`run`](Self::run), and if the run was cancelled.
    pub fn run_with(&mut self, inputs: Inputs, progress: &Progress) -> Result<Vec<Output>> {
        let (required, optional) = &self.inputs;
        let known: Vec<&str> = required.iter().chain(optional).map(String::as_str).collect();
        let is_input = |name: &str| known.contains(&name) || is_known(name, &self.values);
        // An unknown name is rather misspelled than one too many: it is reported before the input that is missing then.
        let mut given = inputs.values.iter().filter_map(|(name, _)| name.as_deref());
        if let Some(name) = given.find(|name| !is_input(name)) {
            return Err(Error::no_input(name, known));
        }
        self.runner.run(inputs.named(required, optional)?, progress)
    }
}

/// Returns the names of the values of the main graph: variables, results, inputs and parameters.
fn values(model: &Model) -> HashSet<String> {
    let main = model.main().and_then(|program| program.blocks.first());
    let vars = main.iter().flat_map(|main| &main.vars).map(|var| var.name.as_str());
    let ops = main.iter().flat_map(|main| &main.ops);
    let used = ops.flat_map(|op| op.writes().chain(op.reads()));
    let inputs = main.iter().flat_map(|main| main.inputs.iter().chain(&main.outputs));
    let parameters = model.parameters.iter().map(|parameter| parameter.name.as_str());
    let names = vars.chain(used).chain(inputs.map(String::as_str)).chain(parameters);
    names.map(str::to_owned).collect()
}

/// Whether a name is that of a value, or of its LoD in a lowered program.
fn is_known(name: &str, values: &HashSet<String>) -> bool {
    let of_level = name.rsplit_once(".lod").map(|(base, _)| base);
    values.contains(name) || of_level.is_some_and(|base| values.contains(base))
}

/// Returns the error for a value that a program does not compute. It suggests the outputs of the operator of this name, or
/// the most similar of the values that `is_computed` accepts.
pub(crate) fn no_output(model: &Model, name: &str, is_computed: impl Fn(&str) -> bool) -> Error {
    let main = model.main().and_then(|program| program.blocks.first());
    let ops = || main.iter().flat_map(|main| &main.ops);
    let own = ops().filter(|op| !name.is_empty() && op.name == name).flat_map(|op| op.writes());
    let own = own.filter(|it| is_computed(it)).take(MAX_SUGGESTIONS);
    let own: Vec<String> = own.map(str::to_owned).collect();
    let vars = main.iter().flat_map(|main| &main.vars).map(|var| var.name.as_str());
    let known = ops().flat_map(|op| op.writes()).chain(vars);
    let mut seen = HashSet::new();
    let known = known.filter(|it| !it.is_empty() && is_computed(it) && seen.insert(*it));
    let similar = if own.is_empty() { similar(name, known) } else { own };
    Error::NoSuchOutput { name: name.to_owned(), similar }
}

/// Runs the main program of a model once; returns its outputs, or the values of [`RunOptions::fetch`], in that order.
/// To run a model several times, use a [`Session`].
///
/// # Errors
/// The errors of [`Session::new`] and [`Session::run`].
pub fn run(model: &Model, inputs: Inputs, options: &RunOptions) -> Result<Vec<Output>> {
    Session::new(model, options)?.run(inputs)
}

/// Returns the names of the inputs of the main program without a default value, and of those with one, in program
/// order.
fn required_inputs(model: &Model) -> Result<(Vec<String>, Vec<String>)> {
    let program = model.main();
    let program = program.ok_or_else(|| no_program(model))?;
    let interface = (conventions(program).interface)(program);
    let names = interface.inputs.iter().map(|name| (*name).to_owned());
    let constants: HashSet<&str> =
        model.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    Ok(names.partition(|name| !constants.contains(name.as_str())))
}

/// Returns the default directories for the operators of the model at a path: they may load from its directory, and save
/// nowhere.
///
/// # Errors
/// If the path cannot be inspected.
pub fn dirs_beside(path: impl Into<Location>) -> Result<Dirs> {
    let path = path.into();
    let dir = if path.is_dir()? { Some(path) } else { path.parent() };
    Ok(Dirs { read: dir.map(Location::or_here), ..Dirs::default() })
}

/// Returns the tensors of outputs. The values of a sequence are named `NAME.0`, `NAME.1`, ...; so are those of a map,
/// whose keys are the tensor `NAME.keys`. Empty sequences and absent optional values have no tensor.
pub fn tensors(outputs: Vec<Output>) -> Vec<Parameter> {
    let mut tensors = Vec::new();
    for Output { name, value } in outputs {
        value.flatten(name, &mut tensors);
    }
    tensors
}

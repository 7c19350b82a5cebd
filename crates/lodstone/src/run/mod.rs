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
pub(crate) use crate::outputs::no_output;
use crate::{Error, Result, outputs};

/// The options of a run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// The directories where operators of the program may load and save.
    pub dirs: Dirs,
    /// The directory of a checkpoint whose loader runs before the program, in the same scope.
    pub loader: Option<Location>,
    /// Names of the values to return, or patterns, as [`select_outputs`](crate::convert::select_outputs) has them; the outputs
    /// of the program by default. Operators and inputs that they do not depend on are not needed.
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
    /// The inputs that a run needs: those without a default value that the results depend on, in the order of the program.
    required: Vec<String>,
    /// All inputs, in the order in which values without a name are assigned to them.
    all_inputs: Vec<String>,
    /// The inputs that the results do not depend on.
    unused: HashSet<String>,
    /// The names of all values of the main graph, which some programs take as inputs.
    values: HashSet<String>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("inputs", &self.required).finish_non_exhaustive()
    }
}

impl Session {
    /// Prepares the main program of a model, as far as the results of [`RunOptions::fetch`] depend on it.
    ///
    /// # Errors
    /// Fails if the model has no program, or the program cannot run; the error lists all unsupported operators.
    pub fn new(model: &Model, options: &RunOptions) -> Result<Self> {
        let program = model.main();
        let program = program.ok_or_else(|| no_program(model))?;
        let prepare = RUNS.of(program.dialect).prepare;
        let (all_inputs, required) = inputs_of(model)?;
        let parameters = model.parameters.iter().map(|parameter| parameter.name.as_str());
        let values = outputs::values(program).into_iter().chain(parameters);
        let values: HashSet<String> = values.map(str::to_owned).collect();
        let (runner, required, unused) = match fetched_part(model, &options.fetch, &values)? {
            None => (prepare(model, options)?, required, HashSet::new()),
            Some((part, fetch)) => {
                let (used, required) = inputs_of(&part)?;
                let unused = all_inputs.iter().filter(|name| !used.contains(name));
                let unused = unused.cloned().collect();
                (prepare(&part, &options.clone().with_fetch(fetch))?, required, unused)
            }
        };
        Ok(Self { runner, required, all_inputs, unused, values })
    }

    /// Returns the names of the inputs without a default value that the results depend on, in the order of the program.
    pub fn inputs(&self) -> &[String] {
        &self.required
    }

    /// Returns the names of what a run returns: the outputs of the program, or [`RunOptions::fetch`], in order.
    pub fn outputs(&self) -> Vec<String> {
        self.runner.outputs()
    }

    /// Runs the program once; returns its outputs, or the values of [`RunOptions::fetch`], in that order. Values of inputs
    /// that these do not depend on are ignored.
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
        let is_input = |name: &str| {
            self.all_inputs.iter().any(|input| input == name) || is_known(name, &self.values)
        };
        // An unknown name is rather misspelled than one too many: it is reported before the input that is missing then.
        let mut given = inputs.values.iter().filter_map(|(name, _)| name.as_deref());
        if let Some(name) = given.find(|name| !is_input(name)) {
            return Err(Error::no_input(name, self.all_inputs.iter().map(String::as_str)));
        }
        let mut named = inputs.named(&self.all_inputs, &self.required)?;
        named.retain(|(name, _)| !self.unused.contains(name));
        self.runner.run(named, progress)
    }
}

/// Returns the part of a model that computes the values of `fetch`, and their names; `None` if the whole model is needed,
/// because nothing is fetched, or a value that a lowering adds. `values` are the names of the main graph.
///
/// # Errors
/// If a name or pattern stands for no value.
fn fetched_part(
    model: &Model,
    fetch: &[String],
    values: &HashSet<String>,
) -> Result<Option<(Model, Vec<String>)>> {
    if fetch.is_empty() {
        return Ok(None);
    }
    match outputs::matching(model, fetch) {
        Ok(fetch) => {
            let mut part = model.clone();
            outputs::select_named(&mut part, &fetch)?;
            Ok(Some((part, fetch)))
        }
        // Such as the next values of states, and LoD. What cannot be lowered adds none.
        Err(error) => {
            let added = engine::lowered(model)
                .map_or_else(|_| Vec::new(), |(lowered, _)| engine::added_outputs(model, &lowered));
            let is_added = |name: &String| is_known(name, values) || added.contains(name);
            if fetch.iter().all(is_added) { Ok(None) } else { Err(error) }
        }
    }
}

/// Whether a name is that of a value, or of its LoD in a lowered program.
fn is_known(name: &str, values: &HashSet<String>) -> bool {
    let of_level = name.rsplit_once(".lod").map(|(base, _)| base);
    values.contains(name) || of_level.is_some_and(|base| values.contains(base))
}

/// Runs the main program of a model once; returns its outputs, or the values of [`RunOptions::fetch`], in that order.
/// To run a model several times, use a [`Session`].
///
/// # Errors
/// The errors of [`Session::new`] and [`Session::run`].
pub fn run(model: &Model, inputs: Inputs, options: &RunOptions) -> Result<Vec<Output>> {
    Session::new(model, options)?.run(inputs)
}

/// Returns the names of the inputs of the main program, those with a default value last, and of those without one; both in
/// program order.
fn inputs_of(model: &Model) -> Result<(Vec<String>, Vec<String>)> {
    let program = model.main();
    let program = program.ok_or_else(|| no_program(model))?;
    let interface = (conventions(program).interface)(program);
    let names = interface.inputs.iter().map(|name| (*name).to_owned());
    let constants: HashSet<&str> =
        model.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    let (required, optional): (Vec<String>, Vec<String>) =
        names.partition(|name| !constants.contains(name.as_str()));
    Ok((required.iter().cloned().chain(optional).collect(), required))
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

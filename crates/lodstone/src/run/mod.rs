//! Running models of any framework.
//!
//! [`RUNS`](crate::RUNS) has what runs the programs of each dialect: the executor of their framework, or the engine
//! after they were lowered to ONNX.

mod compare;
pub(crate) mod engine;
mod inputs;
mod random;
mod value;

use std::collections::HashSet;
use std::str::FromStr;
use std::sync::Arc;

use lodstone_engine::Profile;
use lodstone_model::{Dialect, Model, Parameter, Tensor};
use lodstone_schema::conventions;
use lodstone_store::{Location, Progress};

pub use compare::{
    CompareOptions, ComparedValue, Comparison, ErrorDistribution, PairedBy, compare,
};
pub use inputs::Inputs;
pub use value::{Output, OutputValue};

use crate::{Dirs, Error, RUNS, Result};

/// How a model runs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// Where operators of the program may load and save.
    pub dirs: Dirs,
    /// Names of the values to return instead of the outputs of the program, if there are any.
    pub fetch: Vec<String>,
    /// Maximum bytes of the tensors of the run, within the available memory; all of that by default.
    pub max_memory: Option<u64>,
    /// Maximum number of operators that run, those in loops each time; unlimited by default.
    pub max_steps: Option<u64>,
    /// Number of threads; one per processor by default. Results do not depend on it.
    pub threads: Option<usize>,
    /// What computes the operators.
    pub engine: Engine,
    /// Measures the operators of the runs.
    pub profile: Option<Arc<Profile>>,
}

lodstone_model::with_fields!(RunOptions {
    with_dirs(dirs: Dirs),
    with_fetch(fetch: Vec<String>),
    with_max_memory(max_memory: Option<u64>),
    with_max_steps(max_steps: Option<u64>),
    with_threads(threads: Option<usize>),
    with_engine(engine: Engine),
    with_profile(profile: Option<Arc<Profile>>),
});

/// What computes the operators of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// The engine of this crate, with simplified programs and fused operators.
    #[default]
    Builtin,
    /// The engine of this crate, each operator by its own kernel.
    Reference,
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        match name {
            "builtin" => Ok(Self::Builtin),
            "reference" => Ok(Self::Reference),
            _ => Err(format!("unknown engine `{name}`; the engines are `builtin` and `reference`")),
        }
    }
}

/// A prepared program.
pub(crate) trait Runner: Send {
    /// Runs it once, from its inputs by name.
    fn run(&mut self, inputs: Vec<(String, Tensor)>, progress: &Progress) -> Result<Vec<Output>>;
}

/// Prepares the main program of a model.
pub(crate) type Prepare = fn(&Model, &RunOptions) -> Result<Box<dyn Runner>>;

/// A model that is ready to run, any number of times, with inputs of any shapes that it accepts.
pub struct Session {
    runner: Box<dyn Runner>,
    /// The inputs without a default, in the order of the program, and the others.
    inputs: (Vec<String>, Vec<String>),
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
    /// If the model has no program, or the program cannot run: one error lists all operators that are not supported.
    pub fn new(model: &Model, options: &RunOptions) -> Result<Self> {
        let program = model.main();
        let program =
            program.ok_or_else(|| Error::Absent("the model has no program".to_owned()))?;
        let prepare = RUNS.iter().find(|(dialect, _)| *dialect == program.dialect);
        let (_, prepare) = prepare.ok_or_else(|| not_run(program.dialect))?;
        Ok(Self { runner: prepare(model, options)?, inputs: required_inputs(model)? })
    }

    /// The names of the inputs that have no default, in the order of the program.
    pub fn inputs(&self) -> &[String] {
        &self.inputs.0
    }

    /// Runs the program once; returns its outputs, or the values to fetch, in their order.
    ///
    /// # Errors
    /// If an input is missing, unknown or not what the program takes, an operator fails, or the run exceeds its limits.
    pub fn run(&mut self, inputs: Inputs) -> Result<Vec<Output>> {
        self.run_with(inputs, &Progress::default())
    }

    /// Runs the program once. The run stops before its next operator when `progress` is cancelled.
    ///
    /// # Errors
    /// As [`run`](Self::run), and if the run was cancelled.
    pub fn run_with(&mut self, inputs: Inputs, progress: &Progress) -> Result<Vec<Output>> {
        let (required, optional) = &self.inputs;
        let inputs = inputs.named(required, optional)?;
        self.runner.run(inputs, progress)
    }
}

/// Runs the main program of a model once; returns its outputs, or the values to fetch, in their order. Use a [`Session`] to
/// run it again.
///
/// # Errors
/// As [`Session::new`] and [`Session::run`].
pub fn run(model: &Model, inputs: Inputs, options: &RunOptions) -> Result<Vec<Output>> {
    Session::new(model, options)?.run(inputs)
}

/// The names of the inputs of the main program that have no default, and of those that have one, in its order.
fn required_inputs(model: &Model) -> Result<(Vec<String>, Vec<String>)> {
    let program = model.main();
    let program = program.ok_or_else(|| Error::Absent("the model has no program".to_owned()))?;
    let interface = (conventions(program).interface)(program);
    let names = interface.inputs.iter().map(|name| (*name).to_owned());
    let constants: HashSet<&str> =
        model.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    Ok(names.partition(|name| !constants.contains(name.as_str())))
}

fn not_run(dialect: Dialect) -> Error {
    Error::Absent(format!("running {} programs is not supported", dialect.framework()))
}

/// Where operators of the model at a path may load from by default: its directory. They may save nowhere.
pub fn dirs_beside(path: impl Into<Location>) -> Dirs {
    let path = path.into();
    let dir = if path.is_dir() { Some(path) } else { path.parent() };
    Dirs { read: dir.map(Location::or_here), ..Dirs::default() }
}

/// The tensors of outputs. Values of a sequence are named `NAME.0`, `NAME.1`, ...; a map is `NAME.keys`, and its values
/// are those of a sequence. Empty sequences and absent optional values have no tensor.
pub fn tensors(outputs: Vec<Output>) -> Vec<Parameter> {
    let mut tensors = Vec::new();
    for Output { name, value } in outputs {
        value.flatten(name, &mut tensors);
    }
    tensors
}

//! Runs by ONNX Runtime, whose library is loaded when a model first runs with it.

mod library;
mod value;

use lodstone_formats::onnx;
use lodstone_model::Model;
use lodstone_store::{Location, MemoryStore, Progress};
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::session::{Session, builder::SessionBuilder};

use super::engine::lowered_for;
use super::{Output, RunOptions, Runner, Value, no_program};
use crate::{ConvertOptions, Error, Result, Target, convert};

/// Models with more bytes of weights are handed over in files: the length of a message is limited.
const MAX_IN_MEMORY: u64 = 1 << 30;

struct Runtime {
    session: Session,
    /// The names of the outputs in the source program.
    names: Vec<String>,
    /// The environment must live as long as the session.
    _environment: Environment,
}

/// Prepares a program of ONNX, or one that can be lowered to it.
pub(super) fn prepare(model: &Model, options: &RunOptions) -> Result<Box<dyn Runner>> {
    for (option, name, is_set) in [
        ("max_memory", "a memory limit", options.max_memory.is_some()),
        ("max_steps", "a step limit", options.max_steps.is_some()),
        ("profile", "a profile", options.profile.is_some()),
    ] {
        if is_set {
            let why = format!("ONNX Runtime does not support {name} here");
            return Err(Error::InvalidOption { option, why });
        }
    }
    let (mut lowered, fetched) = lowered_for(model, options)?;
    let main = lowered.main_mut().and_then(|program| program.blocks.first_mut());
    let main = main.ok_or_else(|| no_program(model))?;
    let names = match fetched.is_empty() {
        true => main.outputs.clone(),
        false => options.fetch.clone(),
    };
    if !fetched.is_empty() {
        main.outputs = fetched;
    }
    let environment = library::environment(options.engine_path.as_deref())?;
    // Errors are returned, and need not be printed as well.
    let builder = Session::builder(&environment).map_err(failed)?;
    let mut builder = builder.with_log_level(LogLevel::Fatal).map_err(failed)?;
    if let Some(threads) = &options.threads {
        builder = builder.with_intra_threads(threads.count()).map_err(failed)?;
    }
    let session = commit(lowered, builder)?;
    Ok(Box::new(Runtime { session, names, _environment: environment }))
}

fn commit(model: Model, mut builder: SessionBuilder) -> Result<Session> {
    let options = ConvertOptions::default()
        .with_to(Some(Target::Format(onnx::BINARY.name.to_owned())))
        .with_allow(lodstone_model::Loss::ALL.to_vec());
    if lodstone_schema::weights(&model).iter().map(|weight| weight.tensor.nbytes()).sum::<u64>()
        <= MAX_IN_MEMORY
    {
        let store = MemoryStore::default();
        let location = store.location("model.onnx");
        convert(model, location.clone(), &options)?;
        let bytes = store.get(location.path()).unwrap_or_default();
        return builder.commit_from_memory(&bytes).map_err(failed);
    }
    let directory = tempfile::tempdir().map_err(Error::Output)?;
    let path = directory.path().join("model.onnx");
    convert(model, Location::from(path.as_path()), &options)?;
    builder.commit_from_file(&path).map_err(failed)
}

impl Runner for Runtime {
    /// Runs once; ONNX Runtime does not look at the progress.
    fn run(&mut self, inputs: Vec<(String, Value)>, _: &Progress) -> Result<Vec<Output>> {
        let input = |(name, value): (String, Value)| {
            let value = value::input(&value);
            match value {
                Ok(value) => Ok((name, value)),
                Err(why) => Err(Error::InvalidInput { name, why }),
            }
        };
        let inputs = inputs.into_iter().map(input).collect::<Result<Vec<_>>>()?;
        let outputs = self.session.run(inputs).map_err(failed)?;
        let output = |(name, value): (&String, &ort::value::DynValue)| {
            let value = value::output(value);
            match value {
                Ok(value) => Ok(Output { name: name.clone(), value }),
                Err(why) => Err(Error::InvalidOutput { name: name.clone(), why }),
            }
        };
        self.names
            .iter()
            .zip(outputs.values())
            .map(|(name, value)| output((name, &value)))
            .collect()
    }

    fn outputs(&self) -> Vec<String> {
        self.names.clone()
    }
}

/// Returns the error of ONNX Runtime.
fn failed<R>(error: ort::Error<R>) -> Error {
    Error::OnnxRuntime(error.to_string())
}

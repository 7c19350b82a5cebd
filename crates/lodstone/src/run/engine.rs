//! Running ONNX programs, and programs that can be lowered to ONNX.

use std::collections::BTreeSet;
use std::sync::Arc;

use lodstone_engine::{
    Budget, Context, Executable, ExecutableOptions, Mode, Profile, Steps, Threads,
};
use lodstone_model::Model;
use lodstone_schema::onnx::inline;
use lodstone_schema::{Findings, Origin, Origins, conventions};
use lodstone_store::Progress;

use super::{Engine, Output, RunOptions, Runner, Value, no_output};
use crate::{Error, Result};

struct Engined {
    executable: Executable,
    /// The names of the outputs in the source program.
    names: Vec<String>,
    budget: Budget,
    threads: Threads,
    max_steps: Option<u64>,
    profile: Option<Arc<Profile>>,
}

/// Prepares an ONNX program, or a program that can be lowered to ONNX.
pub(crate) fn prepare(model: &Model, options: &RunOptions) -> Result<Box<dyn Runner>> {
    if options.loader.is_some() {
        let why = "programs of this framework have no loaders: pass parameters instead".to_owned();
        return Err(Error::InvalidOption { option: "loader", why });
    }
    let mode = match options.engine {
        Engine::Builtin => Mode::Fast,
        Engine::Reference => Mode::Reference,
        #[cfg(feature = "onnxruntime")]
        Engine::OnnxRuntime => return super::onnxruntime::prepare(model, options),
        #[cfg(not(feature = "onnxruntime"))]
        Engine::OnnxRuntime => {
            let why = "this build is without the feature `onnxruntime`";
            return Err(Error::OnnxRuntime(why.to_owned()));
        }
    };
    let (lowered, fetched) = lowered_for(model, options)?;
    let budget = options.max_memory.map_or_else(Budget::default, Budget::new);
    let threads = options.threads.clone().unwrap_or_default();
    let wanted = ExecutableOptions::default().with_mode(mode).with_outputs(fetched);
    let executable = Executable::new(&lowered, &wanted, Context::new(&budget, &threads))?;
    let (max_steps, profile) = (options.max_steps, options.profile.clone());
    let names = match options.fetch.is_empty() {
        true => executable.outputs().to_vec(),
        false => options.fetch.clone(),
    };
    Ok(Box::new(Engined { executable, names, budget, threads, max_steps, profile }))
}

/// Why operators of a program of ONNX do not run.
pub(crate) enum Unsupported {
    /// Findings by the places of the operators: they have unknown attributes, or no equivalent among the newest operators.
    Located(Findings),
    /// Domains and kinds without a kernel, which are all that remain after an upgrade.
    Kinds(BTreeSet<(String, String)>),
}

/// Returns why operators of a program of ONNX do not run.
///
/// # Errors
/// If the program contradicts itself as a whole.
pub(crate) fn unsupported(model: &Model) -> Result<Unsupported> {
    let upgraded = match lodstone_engine::upgraded(model) {
        Ok(upgraded) => upgraded,
        Err(lodstone_engine::Error::Operators(findings)) => {
            return Ok(Unsupported::Located(findings));
        }
        Err(other) => return Err(other.into()),
    };
    let program = upgraded.main().ok_or_else(|| super::no_program(model))?;
    let inlined = inline(program).map_err(lodstone_engine::Error::from)?;
    let unknown = inlined.ops().filter(|op| !lodstone_engine::is_computed(&op.domain, &op.kind));
    let kinds = unknown.map(|op| (op.domain.clone(), op.kind.clone()));
    Ok(Unsupported::Kinds(kinds.collect()))
}

/// Returns the model with its program lowered to ONNX, and the origins of its values if the program was lowered.
///
/// Losses are ignored: names and storage of the other framework are not part of the computation.
pub(super) fn lowered(model: &Model) -> Result<(Model, Option<Origins>)> {
    match lodstone_lowering::to_onnx(model).transpose()? {
        Some((lowered, origins)) => Ok((lowered, Some(origins))),
        None => Ok((model.clone(), None)),
    }
}

/// Returns the model as a program of ONNX, and the names of the values to fetch in it.
pub(crate) fn lowered_for(model: &Model, options: &RunOptions) -> Result<(Model, Vec<String>)> {
    let (lowered, origins) = lowered(model)?;
    let fetched = fetched(model, &lowered, origins.as_ref(), options)?;
    Ok((lowered, fetched))
}

/// Returns the names of the values to fetch in a lowered program; an empty list is all outputs.
pub(crate) fn fetched(
    model: &Model,
    lowered: &Model,
    origins: Option<&Origins>,
    options: &RunOptions,
) -> Result<Vec<String>> {
    if options.fetch.is_empty() {
        return Ok(own_outputs(model, lowered));
    }
    let fetched = options.fetch.iter().map(|name| {
        let Some(origins) = origins else { return Ok(name.clone()) };
        match origins.of(0, name) {
            Origin::Value(lowered) => Ok(lowered.to_string()),
            // A value that the lowering adds.
            _ if computes(lowered, name) => Ok(name.clone()),
            _ => Err(no_output(model, name, |it| matches!(origins.of(0, it), Origin::Value(_)))),
        }
    });
    fetched.collect()
}

/// Returns the outputs of a lowered program without those that the lowering adds after them, such as the next values of
/// states; an empty list is all outputs.
fn own_outputs(source: &Model, lowered: &Model) -> Vec<String> {
    let mut all = outputs(lowered);
    let added = added_outputs(source, lowered).len();
    all.truncate(if added == 0 { 0 } else { all.len() - added });
    all
}

/// Returns the outputs that a lowering adds.
pub(super) fn added_outputs(source: &Model, lowered: &Model) -> Vec<String> {
    let (mut all, own) = (outputs(lowered), outputs(source).len());
    all.split_off(own.min(all.len()))
}

pub(super) fn outputs(model: &Model) -> Vec<String> {
    let interface = model.main().map(|program| (conventions(program).interface)(program));
    let names = interface.map(|interface| interface.outputs).unwrap_or_default();
    names.into_iter().map(str::to_owned).collect()
}

fn computes(model: &Model, name: &str) -> bool {
    let main = model.main().and_then(|program| program.blocks.first());
    main.is_some_and(|main| main.ops.iter().flat_map(|op| op.writes()).any(|it| it == name))
}

impl Runner for Engined {
    fn run(&mut self, inputs: Vec<(String, Value)>, progress: &Progress) -> Result<Vec<Output>> {
        let value = |(name, value): &(String, Value)| match value.to_engine() {
            Ok(value) => Ok((name.clone(), value)),
            Err(finding) => Err(Error::input(name, finding)),
        };
        let values = inputs.iter().map(value).collect::<Result<Vec<_>>>()?;
        let values = values.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let steps = Steps::new(self.max_steps.unwrap_or(u64::MAX));
        let mut context =
            Context::new(&self.budget, &self.threads).with_steps(&steps).with_progress(progress);
        if let Some(profile) = &self.profile {
            context = context.with_profile(profile);
        }
        let outputs = self.executable.run(values, context)?;
        let named = self.names.iter().zip(&outputs);
        let output = |(name, value): (&String, &lodstone_engine::Value)| {
            let value = Value::of(value).map_err(|finding| Error::output(name, finding))?;
            Ok(Output { name: name.clone(), value })
        };
        named.map(output).collect()
    }

    fn outputs(&self) -> Vec<String> {
        self.names.clone()
    }
}

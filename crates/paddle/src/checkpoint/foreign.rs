//! Checkpoints in PaddlePaddle's own formats: parameters and optimizer states.
//!
//! | written by | files | restored |
//! |---|---|---|
//! | `save_persistables`, `save_vars` | a file for each variable, or one | by name; names in a single file come from the program |
//! | `static.save` | `.pdparams`, `.pdopt` | by name |
//! | `paddle.save` of `state_dict()` | `.pdparams`, `.pdopt` | by the parameters' own names, which the pickle stores beside the structured ones |
//!
//! A scheduler on the Python side (`LR_Scheduler` in `.pdopt`) has no variables: its state is returned unchanged. If the
//! checkpoint does not have the variables itself, the scheduler's step count initializes the [counter](COUNTER) of a
//! program that computes its own schedule, and its last rate the learning rate of a program without a schedule.

use std::collections::BTreeMap;

use lodstone_model::{DType, Model, Parameter, Program, Tensor};
use lodstone_schema::paddle::saved;
use lodstone_store::Blob;
use serde_json::Value;

use crate::checkpoint::error::{Error, Result};
use crate::checkpoint::fit::{self, RestoreOptions, Restored};
use crate::checkpoint::loader::is_checkpointed;
use crate::checkpoint::restore::loaded;
use crate::executor::Scope;
use crate::program::layers::COUNTER;

/// The key of a table in a pickle of `state_dict()` that maps structured names to parameter names.
const TABLE: &str = "StructuredToParameterName@@";

/// The key of the state of a scheduler in a pickle of an optimizer's `state_dict()`.
const SCHEDULER: &str = "LR_Scheduler";

/// Restores a checkpoint of another framework into a scope: the variables of a program, or, without a program, all of
/// them. Several models are parts of one checkpoint: parameters, and the state of their optimizer.
///
/// # Errors
/// [`Error::Mismatch`] with every variable that is missing, extra or of another type, unless a partial restore is
/// allowed; also if tensors have no names and the program does not determine them, or reading fails. The scope is
/// unchanged then.
pub fn restore_models(
    models: &[Model],
    main: Option<&Program>,
    scope: &mut Scope,
    options: &RestoreOptions,
) -> Result<Restored> {
    let (mut tensors, mut metadata, mut renames) = Default::default();
    for model in models {
        collect(model, main, &mut tensors, &mut metadata, &mut renames)?;
    }
    renames.extend(options.renames.clone());
    let mut tensors = fit::rename(tensors, &renames)?;
    if let Some(main) = main {
        let scheduled = scheduled(main, &metadata, &tensors);
        tensors.extend(scheduled);
    }
    let (fitting, mismatch) = match main {
        Some(main) => fit::split(tensors, main, |_| false),
        None => (tensors, fit::Mismatch::default()),
    };
    if !mismatch.is_empty() && !options.partial {
        return Err(Error::Mismatch(mismatch));
    }
    let fitting = loaded(fitting)?;
    let mut names: Vec<String> = fitting.iter().map(|tensor| tensor.name.clone()).collect();
    names.sort();
    fitting.into_iter().for_each(|it| scope.set(&it.name, it.tensor));
    let warnings = models.iter().flat_map(|model| model.report.warnings.clone()).collect();
    Ok(Restored { loaded: names, mismatch, warnings, metadata, ..Restored::default() })
}

/// Adds the tensors, metadata and renames of a model to those of others.
fn collect(
    model: &Model,
    main: Option<&Program>,
    tensors: &mut Vec<Parameter>,
    metadata: &mut BTreeMap<String, Value>,
    renames: &mut BTreeMap<String, String>,
) -> Result<()> {
    for (key, text) in &model.metadata {
        match key.as_str() {
            TABLE => renames.extend(table(text)?),
            _ => drop(metadata.insert(key.clone(), value_of(text))),
        }
    }
    renames.retain(|name, _| {
        tensors.iter().chain(&model.parameters).any(|parameter| parameter.name == *name)
    });
    let names = match model.parameters.iter().any(|parameter| parameter.name.is_empty()) {
        true => names_from_program(main, model.parameters.len())?,
        false => model.parameters.iter().map(|parameter| parameter.name.clone()).collect(),
    };
    let pairs = names.into_iter().zip(&model.parameters);
    tensors.extend(pairs.map(|(name, it)| Parameter { name, tensor: it.tensor.clone() }));
    Ok(())
}

/// Returns the names of `count` tensors in one file: those of the program's saved variables, sorted.
fn names_from_program(main: Option<&Program>, count: usize) -> Result<Vec<String>> {
    let vars = main.map(saved).unwrap_or_default();
    if vars.len() == count {
        return Ok(vars.into_iter().map(|var| var.name.clone()).collect());
    }
    let what = match main {
        Some(_) => {
            "the file has no names, and its number of tensors differs from that of the saved variables"
        }
        None => "the file has no names, which requires a program",
    };
    Err(Error::Variable { name: String::new(), what })
}

/// Parses metadata as JSON, as it comes from pickles, or else takes it as text.
fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

/// Parses a table that maps structured names to the names of variables; equal names are omitted.
///
/// # Errors
/// If the text is not a table of names.
fn table(text: &str) -> Result<BTreeMap<String, String>> {
    let table: serde_json::Result<BTreeMap<String, String>> = serde_json::from_str(text);
    let Ok(mut table) = table else {
        let what = "expected a table of names of variables";
        return Err(Error::Variable { name: TABLE.to_owned(), what });
    };
    table.retain(|name, variable| name != variable);
    Ok(table)
}

/// Returns variables of the program that follow from a scheduler's state and that the checkpoint does not have: the step
/// count, and the last rate for a program without a schedule.
fn scheduled(
    main: &Program,
    metadata: &BTreeMap<String, Value>,
    tensors: &[Parameter],
) -> Vec<Parameter> {
    let Some(scheduler) = metadata.get(SCHEDULER) else { return Vec::new() };
    let declared = |name: &str, dtype| {
        let var = main.vars().find(|var| var.name == name && is_checkpointed(var))?;
        let declared = var.value.tensor_type()?;
        let rank = declared.shape.as_ref()?.len();
        let is_there = tensors.iter().any(|tensor| tensor.name == name);
        (!is_there && declared.dtype == dtype && rank <= 1).then(|| vec![1; rank])
    };
    let made = |name: &str, dtype, bytes: Vec<u8>| {
        let tensor = Tensor::dense(dtype, declared(name, dtype)?, Blob::memory(bytes));
        Some(Parameter { name: name.to_owned(), tensor })
    };
    // A program increments the counter before it computes the rate of a step, a scheduler afterwards.
    let count = scheduler.get("last_epoch").and_then(Value::as_i64);
    let count = count.and_then(|count| {
        made(COUNTER, DType::Int64, count.saturating_sub(1).to_le_bytes().to_vec())
    });
    let mut rates: Vec<&String> = main.ops().flat_map(|op| op.input("LearningRate")).collect();
    rates.sort();
    rates.dedup();
    let rate = scheduler.get("last_lr").and_then(Value::as_f64).zip(rates.first());
    let rate = rate.filter(|_| rates.len() == 1).and_then(|(rate, name)| {
        #[expect(clippy::cast_possible_truncation, reason = "rates of programs are float32")]
        let rate = rate as f32;
        made(name, DType::Float32, rate.to_le_bytes().to_vec())
    });
    count.into_iter().chain(rate).collect()
}

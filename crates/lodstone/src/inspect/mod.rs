//! The contents of a model, as data. The JSON form of [`Inspection`] is a contract, versioned by
//! `schema`.

mod program;
mod properties;
mod summary;
mod tensors;
mod values;

use std::collections::BTreeMap;

use lodstone_model::{Model, Parameter};
use lodstone_store::Progress;
use serde::Serialize;

use properties::Variables;

use crate::Result;
use crate::fit::place;
use crate::infer::{inference, warnings};

pub use lodstone_schema::{Properties, weights};

pub use crate::graph::{GraphFormat, write_graph};
pub use crate::layers::{Layer, Layers, layers};
pub use crate::names::Names;
pub use crate::statistics::Statistics;
pub use crate::text::{write_json, write_text};
pub use program::{OperatorInfo, ProgramInfo};
pub use properties::{PropertyKeys, properties};
pub use summary::Summary;
pub use tensors::{PartInfo, TensorDetails, TensorInfo};
pub use values::{BlockValue, InferredInfo, InterfaceValue};

/// The contents of a model.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// The version of this structure.
    pub schema: u32,
    /// The format of the model.
    pub format: String,
    /// Totals and counts.
    pub summary: Summary,
    /// The program, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramInfo>,
    /// The names of the programs, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// The tensors in file order.
    pub tensors: Vec<TensorInfo>,
    /// The inputs, in order.
    pub inputs: Vec<InterfaceValue>,
    /// The outputs, in order.
    pub outputs: Vec<InterfaceValue>,
    /// The operators, block by block, if requested.
    pub operators: Vec<OperatorInfo>,
    /// The types of all block inputs and operator outputs, block by block, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<BlockValue>>,
    /// The metadata of the file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// The options of an inspection.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct InspectOptions {
    /// Whether to hash the elements of tensors, which reads all of them.
    pub hash: bool,
    /// Whether to list the operators.
    pub operators: bool,
    /// Whether to list the types of all values, inferred where the program does not declare them.
    pub inferred: bool,
    /// The progress of hashing.
    pub progress: Progress,
}

lodstone_model::with_fields!(InspectOptions {
    with_hash(hash: bool),
    with_operators(operators: bool),
    with_inferred(inferred: bool),
    with_progress(progress: Progress),
});

/// Returns the contents of a model.
///
/// # Errors
/// If reading tensors fails or is cancelled.
pub fn inspect(model: &Model, options: &InspectOptions) -> Result<Inspection> {
    let weights = weights(model);
    let variables = model.main().map_or_else(Variables::default, Variables::of);
    let shared = tensors::shared(&weights);
    let mut tensors = Vec::with_capacity(weights.len());
    for (parameter, first) in weights.iter().zip(shared) {
        let details = TensorDetails {
            structured_name: model.structured_names.get(&parameter.name).cloned(),
            properties: variables.tensor_properties(parameter),
            shares: first.and_then(|first| weights.get(first)).map(|first| first.name.clone()),
            ..TensorDetails::default()
        };
        tensors.push(tensors::describe(&parameter.name, &parameter.tensor, details, options)?);
    }
    let mut inspection = Inspection {
        schema: 1,
        format: model.format.clone(),
        summary: Summary::default(),
        program: None,
        programs: Vec::new(),
        tensors,
        inputs: Vec::new(),
        outputs: Vec::new(),
        operators: Vec::new(),
        values: None,
        metadata: model.metadata.clone(),
        warnings: model.report.warnings.clone(),
    };
    if options.hash {
        // Everything is read anyway.
        for (number, Parameter { name, tensor }) in weights.iter().enumerate() {
            if let Some(broken) = tensor.broken_indices()? {
                let place = place(name, number);
                inspection.warnings.push(format!("{place} has invalid indices: {broken}"));
            }
        }
    }
    let names: Vec<String> = model.programs.iter().map(|(name, _)| name.to_owned()).collect();
    if names.len() > 1 || !names.is_empty() && model.main().is_none() {
        inspection.programs = names;
    }
    if let Some(program) = model.main() {
        program::describe(program, &variables, &mut inspection);
        values::infer(model, program, &mut inspection);
        if options.operators {
            inspection.operators = program::operators(program);
        }
        if options.inferred {
            let inference = inference(model);
            inspection.warnings.extend(inference.iter().flat_map(warnings));
            inspection.values = Some(values::all(program, inference.as_ref()));
        }
    }
    inspection.summary = Summary::of(&inspection.tensors, model.main());
    Ok(inspection)
}

//! Type inference for the values of a program, and declaration of the results.

use std::collections::{HashMap, HashSet};

use lodstone_model::{DType, Dialect, Dim, Model, Program, ValueType, Var};
use lodstone_schema::conventions;
use lodstone_schema::onnx::infer::{Inference, Options, ValueInfo, infer, merged_types};

use crate::{Error, Result};

/// The result of an inference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InferredShapes {
    /// The number of values whose type was declared or became more specific.
    pub declared: usize,
    /// The number of values whose type is unknown, because their operators are unknown or do not determine it.
    pub unknown: usize,
    /// Contradictions in the program, and the reason if inference is incomplete.
    pub warnings: Vec<String>,
}

/// Declares the types of all values of an ONNX program that can be inferred: element types, dims, and symbols for
/// unknown dims that are equal. More specific declarations are kept.
///
/// Initializers that are also inputs count as constants. Subgraphs are included, function bodies are not.
///
/// ```
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../formats/tests/golden/onnx/attributes.onnx");
/// let mut model = lodstone::open(path)?;
/// let inferred = lodstone::infer_shapes(&mut model)?;
/// println!("{} types declared, {} unknown", inferred.declared, inferred.unknown);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the model has no ONNX program.
pub fn infer_shapes(model: &mut Model) -> Result<InferredShapes> {
    let inference = onnx_inference(model);
    declare_types(model, &inference)
}

/// Declares what was [inferred](infer_shapes) about an ONNX program, with symbols.
pub(crate) fn declare_types(model: &mut Model, inference: &Inference) -> Result<InferredShapes> {
    let constants: HashSet<String> = model.parameters.iter().map(|p| p.name.clone()).collect();
    let program = model.main_mut().filter(|program| program.dialect == Dialect::Onnx);
    let Some(program) = program else {
        let why = "cannot infer types: the model has no ONNX program".to_owned();
        return Err(Error::InvalidOption { option: "infer_shapes", why });
    };
    let mut done = InferredShapes { warnings: warnings(inference), ..InferredShapes::default() };
    let bodies: HashSet<usize> = bodies(program);
    for (number, block) in program.blocks.iter_mut().enumerate() {
        let Some(known) = inference.blocks.get(number).filter(|_| !bodies.contains(&number)) else {
            continue;
        };
        let mut declared: HashMap<String, usize> =
            block.vars.iter().enumerate().map(|(at, var)| (var.name.clone(), at)).collect();
        let written = block.ops.iter().flat_map(|op| op.writes()).map(str::to_owned);
        let names: Vec<String> = block.inputs.iter().cloned().chain(written).collect();
        for name in names.into_iter().filter(|name| !constants.contains(name)) {
            let inferred = known.get(&name).filter(|info| is_known(info));
            let old = declared.get(&name).and_then(|at| block.vars.get_mut(*at));
            match (old, inferred) {
                (None, None) => done.unknown += 1,
                (Some(var), Some(info)) => {
                    // The warnings report the contradiction, and the declaration is kept.
                    let merged = merged_types(&var.value, &info.value);
                    if let Some(merged) = merged.filter(|merged| *merged != var.value) {
                        var.value = merged;
                        done.declared += 1;
                    }
                }
                (None, Some(info)) => {
                    declared.insert(name.clone(), block.vars.len());
                    block.vars.push(Var { name, value: info.value.clone(), ..Var::default() });
                    done.declared += 1;
                }
                (Some(_), None) => {}
            }
        }
    }
    Ok(done)
}

/// Infers the types of the main program; `None` if its operators have no inference rules.
pub(crate) fn inference(model: &Model) -> Option<Inference> {
    let program = model.main()?;
    match program.dialect {
        Dialect::Onnx => Some(onnx_inference(model)),
        _ => (conventions(program).infer)(model),
    }
}

fn onnx_inference(model: &Model) -> Inference {
    infer(model, &Options::default().with_fresh_symbols(true))
}

/// The warning of an inference that exceeded its limits.
pub(crate) const INCOMPLETE: &str = "type inference is incomplete: the program is too large";

/// Returns the warnings of an inference.
pub(crate) fn warnings(inference: &Inference) -> Vec<String> {
    let mut warnings: Vec<String> =
        inference.findings.located.iter().map(ToString::to_string).collect();
    let more = inference.findings.count() - warnings.len();
    if more > 0 {
        warnings.push(format!("{more} more contradictions"));
    }
    if !inference.complete {
        warnings.push(INCOMPLETE.to_owned());
    }
    warnings
}

/// Returns whether a type has any information.
fn is_known(info: &ValueInfo) -> bool {
    match &info.value {
        ValueType::Unspecified => false,
        ValueType::Tensor(tensor) => {
            let is_typed = !matches!(tensor.dtype, DType::Unknown(_) | DType::Unspecified);
            is_typed || tensor.shape.as_ref().is_some_and(|shape| !shape.iter().all(is_dynamic))
        }
        _ => true,
    }
}

fn is_dynamic(dim: &Dim) -> bool {
    !matches!(dim, Dim::Known(_))
}

/// Returns the blocks of function bodies.
fn bodies(program: &Program) -> HashSet<usize> {
    let mut pending: Vec<i32> = program.functions.iter().map(|function| function.block).collect();
    let mut seen = HashSet::new();
    while let Some(number) = pending.pop() {
        let Ok(index) = usize::try_from(number) else { continue };
        if let Some(block) = program.blocks.get(index).filter(|_| seen.insert(index)) {
            pending.extend(block.ops.iter().flat_map(|op| op.blocks()));
        }
    }
    seen
}

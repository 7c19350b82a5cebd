//! ONNX: what goes in and out of its programs, and how they say what they are.

pub mod dtype;
pub mod infer;

use std::collections::HashSet;

use infer::{Inference, Options};
use lodstone_model::{Dialect, Model, Program};

use crate::{Conventions, Interface};

/// ONNX's conventions.
pub static CONVENTIONS: Conventions = Conventions {
    framework: "ONNX",
    has_operator_sets: true,
    version: |version| format!("IR {version}"),
    interface,
    unknown_operators: |_| Vec::new(),
    infer,
    risk: |_| None,
    variable_of: |parameter| parameter,
    parameters: |_| Vec::new(),
    declare: |var, dtype| var.value.tensors.iter_mut().for_each(|tensor| tensor.dtype = dtype),
    source: None,
    notes: |_| Vec::new(),
};

/// Operators of Glow have no rules here.
fn infer(model: &Model) -> Option<Inference> {
    let program = model.program.as_ref().filter(|program| program.dialect == Dialect::Onnx);
    program.map(|_| infer::infer(model, &Options::default()))
}

/// Inputs that are not initialised, and outputs. (Up to IR version 3 every tensor had to be an input,
/// too.)
fn interface(program: &Program) -> Interface<'_> {
    let Some(main) = program.blocks.first() else { return Interface::default() };
    let initialised: HashSet<&str> =
        main.vars.iter().filter(|var| var.persistable).map(|var| var.name.as_str()).collect();
    let inputs = main.inputs.iter().map(String::as_str);
    Interface {
        inputs: inputs.filter(|name| !initialised.contains(name)).collect(),
        outputs: main.outputs.iter().map(String::as_str).collect(),
    }
}

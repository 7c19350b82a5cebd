//! Extents of inputs that a program leaves open, as numbers.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_model::{Dialect, Dim, Model, TensorType, ValueType};

use crate::{Error, Result};

/// Declares inputs of a program of ONNX to be of these shapes. What an extent that is a name becomes, it
/// becomes wherever the main graph declares it.
///
/// # Errors
/// If there is no such input, or its declared shape contradicts; then nothing is changed.
pub(crate) fn declare(model: &mut Model, shapes: &[(String, Vec<u64>)]) -> Result<()> {
    if shapes.is_empty() {
        return Ok(());
    }
    let parameters: Vec<&str> = model.parameters.iter().map(|p| p.name.as_str()).collect();
    let program = model.programs.main_mut().filter(|program| program.dialect == Dialect::Onnx);
    let Some(main) = program.and_then(|program| program.blocks.first_mut()) else {
        let what = "there is no program with operators of ONNX whose inputs could be of a shape";
        return Err(Error::Absent(what.to_owned()));
    };
    let inputs = main.inputs.iter().filter(|name| !parameters.contains(&name.as_str()));
    let inputs: Vec<&str> = inputs.map(String::as_str).collect();
    let mut symbols: HashMap<Arc<str>, u64> = HashMap::new();
    let mut declared: HashMap<&str, &[u64]> = HashMap::new();
    for (name, shape) in shapes {
        if !inputs.contains(&name.as_str()) {
            let (all, count) = (listed(&inputs), inputs.len());
            return Err(Error::Absent(format!(
                "there is no input `{name}`; the {count} are {all}"
            )));
        }
        let var = main.vars.iter().find(|var| var.name == *name);
        let tensor = var.filter(|var| matches!(var.value, ValueType::Tensor(_)));
        let Some(tensor) = tensor.and_then(|var| var.value.tensor_type()) else {
            return Err(Error::Absent(format!(
                "the input `{name}` is not declared to be a tensor"
            )));
        };
        let contradicts = |found: &dyn std::fmt::Display| {
            let said = format!("the input `{name}` is {found}");
            Error::Absent(format!("{said}, which cannot be of the shape {shape:?}"))
        };
        let extents = tensor.shape.as_deref().unwrap_or_default();
        if tensor.shape.is_some() && extents.len() != shape.len() {
            return Err(contradicts(tensor));
        }
        for (extent, number) in extents.iter().zip(shape) {
            let known = match extent {
                Dim::Known(known) => *known,
                Dim::Symbol(symbol) => *symbols.entry(Arc::clone(symbol)).or_insert(*number),
                Dim::Unknown => *number,
            };
            if known != *number {
                return Err(contradicts(tensor));
            }
        }
        if declared.insert(name, shape).is_some_and(|before| before != shape) {
            return Err(contradicts(tensor));
        }
    }
    for var in &mut main.vars {
        let shape = declared.get(var.name.as_str());
        for tensor in var.value.tensors_mut() {
            let numbers = shape.map(|shape| shape.iter().map(|n| Dim::Known(*n)).collect());
            fix(tensor, numbers, &symbols);
        }
    }
    Ok(())
}

fn fix(tensor: &mut TensorType, shape: Option<Vec<Dim>>, symbols: &HashMap<Arc<str>, u64>) {
    if shape.is_some() {
        tensor.shape = shape;
    }
    for extent in tensor.shape.iter_mut().flatten() {
        if let Dim::Symbol(symbol) = extent
            && let Some(number) = symbols.get(symbol)
        {
            *extent = Dim::Known(*number);
        }
    }
}

fn listed(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().take(8).map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

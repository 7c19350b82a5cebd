//! The inputs, outputs and values of a program, with their types.

use std::collections::HashSet;

use lodstone_model::{DType, Dim, Holder, Model, Op, Program, TensorType, ValueType};
use lodstone_schema::onnx::infer::{Inference, merged_types};
use lodstone_schema::{Properties, conventions};
use serde::Serialize;

use super::Inspection;
use super::properties::Variables;

/// An input or output.
#[derive(Clone, Debug, Serialize)]
pub struct InterfaceValue {
    /// The name.
    pub name: String,
    /// The kind of value, if not a tensor: `sequence`, `map of int64 of sequence`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The element type, if the program declares it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// The dims, if the program declares them; -1 for dynamic dims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<i64>>,
    /// The names of the dims, if any dim has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<Option<String>>,
    /// The number of LoD levels, if not 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub lod_level: u32,
    /// What the program records beside the type.
    #[serde(flatten, serialize_with = "super::properties::serialize")]
    pub properties: Properties,
    /// The inferred type, where the program does not declare all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inferred: Option<InferredInfo>,
}

/// A value of a block of a program.
#[derive(Clone, Debug, Serialize)]
pub struct BlockValue {
    /// The index of the block.
    pub block: usize,
    /// The name and the type, declared or inferred.
    #[serde(flatten)]
    pub value: InterfaceValue,
}

/// The inferred type of a tensor, as far as it is determined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InferredInfo {
    /// The element type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// The dims; -1 for dynamic dims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<i64>>,
}

/// Adds the inferred types of inputs and outputs that are not declared in full.
pub(super) fn infer(model: &Model, program: &Program, inspection: &mut Inspection) {
    let open = |value: &InterfaceValue| {
        value.dtype.is_none() || value.shape.as_ref().is_none_or(|shape| shape.contains(&-1))
    };
    if !inspection.inputs.iter().chain(&inspection.outputs).any(open) {
        return;
    }
    let Some(inference) = (conventions(program).infer)(model) else { return };
    let Some(known) = inference.blocks.first() else { return };
    for value in inspection.inputs.iter_mut().chain(&mut inspection.outputs).filter(|v| open(v)) {
        let Some(info) =
            known.get(&value.name).filter(|info| matches!(info.value, ValueType::Tensor(_)))
        else {
            continue;
        };
        let inferred = InferredInfo {
            dtype: Some(info.dtype())
                .filter(|dtype| !matches!(dtype, DType::Unknown(_)))
                .map(|d| d.to_string()),
            shape: info.shape().map(|shape| shape.iter().map(dim_number).collect()),
        };
        let declared = InferredInfo { dtype: value.dtype.clone(), shape: value.shape.clone() };
        value.inferred = Some(inferred).filter(|inferred| *inferred != declared);
    }
}

/// Returns the inputs of blocks and the outputs of their operators.
pub(super) fn all(program: &Program, inference: Option<&Inference>) -> Vec<BlockValue> {
    let mut values = Vec::new();
    for (block, contents) in program.blocks.iter().enumerate() {
        let known = inference.and_then(|inference| inference.blocks.get(block));
        let variables = Variables::of_block(program, contents);
        let written = contents.ops.iter().flat_map(Op::writes);
        let names = contents.inputs.iter().map(String::as_str).chain(written);
        let mut seen = HashSet::new();
        for name in names.filter(|name| seen.insert(*name)) {
            let declared = variables.get(name).map(|var| &var.value);
            let inferred = known.and_then(|known| known.get(name)).map(|info| &info.value);
            let merged = match (declared, inferred) {
                // The warnings report contradictions.
                (Some(declared), Some(inferred)) => merged_types(declared, inferred),
                (one, other) => one.or(other).cloned(),
            };
            let info = value_info(name, merged.as_ref().or(declared));
            let value = InterfaceValue { properties: variables.properties(name), ..info };
            values.push(BlockValue { block, value });
        }
    }
    values
}

/// Returns the names of dims, if any dim has one.
fn symbols(declared: &TensorType) -> Vec<Option<String>> {
    let symbol = |dim: &Dim| match dim {
        Dim::Symbol(name) => Some(name.to_string()),
        _ => None,
    };
    let symbols: Vec<_> = declared.shape.iter().flatten().map(symbol).collect();
    if symbols.iter().any(Option::is_some) { symbols } else { Vec::new() }
}

/// Returns the kind of a value that is more than a tensor: `sequence of optional`.
fn kind_of(value: &ValueType) -> Option<String> {
    let of = |word: &str, inner: &ValueType| match kind_of(inner) {
        Some(inner) => Some(format!("{word} of {inner}")),
        None => Some(word.to_owned()),
    };
    match value {
        ValueType::List(element) => of("sequence", element),
        ValueType::Optional(element) => of("optional", element),
        ValueType::Dict(key, value) => of(&format!("map of {key}"), value),
        ValueType::Tuple(_) => Some("tuple".to_owned()),
        ValueType::Sparse(tensor) if tensor.layout.is_none() => Some("sparse".to_owned()),
        ValueType::Class(name) if name.is_empty() => Some("opaque".to_owned()),
        ValueType::Class(name) => Some(name.clone()),
        ValueType::Scalar(dtype) => Some(dtype.to_string()),
        ValueType::Holder(Holder::SelectedRows(_)) => Some("selected_rows".to_owned()),
        ValueType::Unspecified
        | ValueType::Tensor(_)
        | ValueType::Sparse(_)
        | ValueType::Holder(_)
        | ValueType::Unknown(_) => None,
    }
}

fn dim_number(dim: &Dim) -> i64 {
    match dim {
        Dim::Known(size) => i64::try_from(*size).unwrap_or(i64::MAX),
        _ => -1,
    }
}

pub(super) fn value_info(name: &str, value: Option<&ValueType>) -> InterfaceValue {
    let declared = value.and_then(ValueType::tensor_type);
    InterfaceValue {
        name: name.to_owned(),
        kind: value.and_then(kind_of),
        dtype: declared.map(|declared| declared.dtype.to_string()),
        shape: declared.and_then(|d| Some(d.shape.as_ref()?.iter().map(dim_number).collect())),
        symbols: declared.map(symbols).unwrap_or_default(),
        lod_level: declared.map_or(0, |declared| declared.lod_level),
        properties: Properties::default(),
        inferred: None,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_zero(level: &u32) -> bool {
    *level == 0
}

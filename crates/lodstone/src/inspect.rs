//! The contents of a model, as data. The JSON form of [`Inspection`] is a contract, versioned by
//! `schema`.

use std::collections::{BTreeMap, HashMap, HashSet};

use lodstone_model::{
    Attribute, AttributeValue, DType, Dim, Indices, Kind, Model, Op, Operand, Parameter, Program,
    Scalar, Tensor, TensorType, ValueType, some,
};
use lodstone_schema::onnx::infer::{Inference, merged_types};
use lodstone_schema::{conventions, weights};
use lodstone_store::{Blob, Progress};
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::Result;
use crate::fit::place;
use crate::infer::{inference, warnings};

/// The contents of a model.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// The version of this structure.
    pub schema: u32,
    /// The format of the model.
    pub format: String,
    /// The program, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramInfo>,
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

/// A summary of a program.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramInfo {
    /// The version of the framework: `2.6.2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The metadata of the program.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// The opset versions, by domain.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub operator_sets: BTreeMap<String, i64>,
    /// The number of blocks.
    pub blocks: usize,
    /// The number of variables.
    pub variables: usize,
    /// The number of operators.
    pub operators: usize,
    /// The number of operators with paths and source lines of the training script.
    pub operators_with_source: usize,
}

/// A tensor.
#[derive(Clone, Debug, Serialize)]
pub struct TensorInfo {
    /// The name; empty if the files do not contain one.
    pub name: String,
    /// `dense`, `selected_rows`, `row_sparse`, `csr` or `vocab`.
    pub kind: &'static str,
    /// The element type, as NumPy or `ml_dtypes` spell it.
    #[serde(serialize_with = "display")]
    pub dtype: DType,
    /// The dims.
    pub shape: Vec<u64>,
    /// The size of the elements in bytes.
    pub nbytes: u64,
    /// The hash of the elements, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The structured name that layers use, where files record one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_name: Option<String>,
    /// The LoD offsets, if any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lod: Vec<Vec<u64>>,
    /// The number of rows of the whole tensor, for `selected_rows`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<i64>,
    /// The parts of a sparse tensor.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<&'static str, PartInfo>,
}

/// A part of a sparse tensor.
#[derive(Clone, Debug, Serialize)]
pub struct PartInfo {
    /// The element type.
    #[serde(serialize_with = "display")]
    pub dtype: DType,
    /// The dims.
    pub shape: Vec<u64>,
    /// The hash of the elements, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

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

/// An operator.
#[derive(Clone, Debug, Serialize)]
pub struct OperatorInfo {
    /// The index of its block.
    pub block: usize,
    /// The name, where operators have names.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The operator kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// The input variables by slot; positional ones are in a slot without a name.
    pub inputs: serde_json::Map<String, serde_json::Value>,
    /// The output variables by slot.
    pub outputs: serde_json::Map<String, serde_json::Value>,
    /// The attributes, except for references to the training script.
    pub attributes: serde_json::Map<String, serde_json::Value>,
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
    let tensors = weights.iter().map(|p| {
        let structured_name = model.structured_names.get(&p.name).cloned();
        Ok(TensorInfo { structured_name, ..tensor_info(&p.name, &p.tensor, options)? })
    });
    let mut inspection = Inspection {
        schema: 1,
        format: model.format.clone(),
        program: None,
        tensors: tensors.collect::<Result<_>>()?,
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
    if let Some(program) = model.main() {
        describe_program(program, &mut inspection);
        infer(model, program, &mut inspection);
        if options.operators {
            inspection.operators = operators(program);
        }
        if options.inferred {
            let inference = inference(model);
            inspection.warnings.extend(inference.iter().flat_map(warnings));
            inspection.values = Some(values(program, inference.as_ref()));
        }
    }
    Ok(inspection)
}

fn describe_program(program: &Program, inspection: &mut Inspection) {
    let conventions = conventions(program);
    let interface = (conventions.interface)(program);
    let vars = program.blocks.iter().take(1).flat_map(|block| &block.vars);
    let declared: HashMap<&str, &ValueType> =
        vars.map(|var| (var.name.as_str(), &var.value)).collect();
    let value = |name: &&str| value_info(name, declared.get(name).copied());
    inspection.inputs = interface.inputs.iter().map(value).collect();
    inspection.outputs = interface.outputs.iter().map(value).collect();
    let operators_with_source = conventions.count_source(program);
    inspection.program = Some(ProgramInfo {
        version: program.version.map(conventions.version),
        facts: program.attributes.iter().map(fact).collect(),
        operator_sets: match conventions.has_opsets {
            true => program.operator_versions.iter().cloned().collect(),
            false => BTreeMap::new(),
        },
        blocks: program.blocks.len(),
        variables: program.vars().count(),
        operators: program.ops().count(),
        operators_with_source,
    });
    if operators_with_source > 0 {
        inspection.warnings.push(format!(
            "operators with paths and source lines of the training script (`{}`): {operators_with_source}",
            conventions.source.unwrap_or_default()
        ));
    }
    let unknown = (conventions.unknown_operators)(program);
    if !unknown.is_empty() {
        let what = format!("custom operators, not part of {}", conventions.framework);
        let name = |(domain, kind): &(&str, &str)| match *domain {
            "" => format!("`{kind}`"),
            domain => format!("`{kind}` of `{domain}`"),
        };
        let names = some(unknown.iter().map(name));
        inspection.warnings.push(format!("{what}: {names}"));
    }
    inspection.warnings.extend((conventions.notes)(program));
}

/// Adds the inferred types of inputs and outputs that are not declared in full.
fn infer(model: &Model, program: &Program, inspection: &mut Inspection) {
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
fn values(program: &Program, inference: Option<&Inference>) -> Vec<BlockValue> {
    let mut values = Vec::new();
    for (block, contents) in program.blocks.iter().enumerate() {
        let known = inference.and_then(|inference| inference.blocks.get(block));
        let declared: HashMap<&str, &ValueType> =
            contents.vars.iter().map(|var| (var.name.as_str(), &var.value)).collect();
        let written = contents.ops.iter().flat_map(Op::writes);
        let names = contents.inputs.iter().map(String::as_str).chain(written);
        let mut seen = HashSet::new();
        for name in names.filter(|name| seen.insert(*name)) {
            let declared = declared.get(name).copied();
            let inferred = known.and_then(|known| known.get(name)).map(|info| &info.value);
            let merged = match (declared, inferred) {
                // The warnings report contradictions.
                (Some(declared), Some(inferred)) => merged_types(declared, inferred),
                (one, other) => one.or(other).cloned(),
            };
            let value = value_info(name, merged.as_ref().or(declared));
            values.push(BlockValue { block, value });
        }
    }
    values
}

/// Returns the metadata of a program as text.
fn fact(attribute: &Attribute) -> (String, String) {
    let value = match &attribute.value {
        AttributeValue::String(text) => text.to_string(),
        AttributeValue::Long(number) => number.to_string(),
        value => format!("{value:?}"),
    };
    (attribute.name.clone(), value)
}

fn operators(program: &Program) -> Vec<OperatorInfo> {
    let source = conventions(program).source;
    let blocks = program.blocks.iter().enumerate();
    let ops = blocks.flat_map(|(block, contents)| contents.ops.iter().map(move |op| (block, op)));
    ops.map(|(block, op)| operator_info(block, op, source)).collect()
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

fn value_info(name: &str, value: Option<&ValueType>) -> InterfaceValue {
    let declared = value.and_then(ValueType::tensor_type);
    InterfaceValue {
        name: name.to_owned(),
        kind: value.and_then(kind_of),
        dtype: declared.map(|declared| declared.dtype.to_string()),
        shape: declared.and_then(|d| Some(d.shape.as_ref()?.iter().map(dim_number).collect())),
        symbols: declared.map(symbols).unwrap_or_default(),
        lod_level: declared.map_or(0, |declared| declared.lod_level),
        inferred: None,
    }
}

fn operator_info(block: usize, op: &Op, source: Option<&str>) -> OperatorInfo {
    let slots = |operands: &[Operand]| {
        operands.iter().map(|o| (o.slot.clone(), o.args.clone().into())).collect()
    };
    let attributes = op.attributes.iter().filter(|attribute| Some(&*attribute.name) != source);
    OperatorInfo {
        block,
        name: op.name.clone(),
        kind: op.kind.clone(),
        inputs: slots(&op.inputs),
        outputs: slots(&op.outputs),
        attributes: attributes.map(|a| (a.name.clone(), json(&a.value))).collect(),
    }
}

fn json(value: &AttributeValue) -> serde_json::Value {
    use AttributeValue as A;
    match value {
        A::Bool(value) => (*value).into(),
        A::Int(value) | A::Block(value) => (*value).into(),
        A::Long(value) => (*value).into(),
        A::Float(value) => float(f64::from(*value)),
        A::Double(value) => float(*value),
        A::String(value) => value.to_string().into(),
        A::Bools(values) => values.clone().into(),
        A::Ints(values) | A::Blocks(values) => values.clone().into(),
        A::Longs(values) => values.clone().into(),
        A::Floats(values) => values.iter().map(|value| float(f64::from(*value))).collect(),
        A::Doubles(values) => values.iter().map(|value| float(*value)).collect(),
        A::Strings(values) => values.iter().map(ToString::to_string).collect(),
        A::Var(value) => value.clone().into(),
        A::Vars(values) => values.clone().into(),
        A::Scalar(value) => scalar(value),
        A::Scalars(values) => values.iter().map(scalar).collect(),
        A::List(values) => values.iter().map(json).collect(),
        A::Dict(entries) => {
            let entries = entries.iter().map(|entry| (entry.name.clone(), json(&entry.value)));
            serde_json::Value::Object(entries.collect())
        }
        A::None
        | A::Tensor(_)
        | A::Tensors(_)
        | A::SparseTensor(_)
        | A::SparseTensors(_)
        | A::Type(_)
        | A::Types(_)
        | A::Reference { .. }
        | A::Unknown(_) => serde_json::Value::Null,
    }
}

fn scalar(value: &Scalar) -> serde_json::Value {
    match value {
        Scalar::Bool(value) => (*value).into(),
        Scalar::Long(value) => (*value).into(),
        Scalar::Double(value) => float(*value),
        Scalar::Complex(value) => [float(value.re), float(value.im)].into_iter().collect(),
        Scalar::Unknown(_) => serde_json::Value::Null,
    }
}

/// JSON has no infinities and no NaN: they become strings.
fn float(value: f64) -> serde_json::Value {
    serde_json::Number::from_f64(value).map_or_else(|| value.to_string().into(), Into::into)
}

fn tensor_info(name: &str, tensor: &Tensor, options: &InspectOptions) -> Result<TensorInfo> {
    let hashed = |blob: &Blob| {
        if options.hash { sha256(blob, &options.progress).map(Some) } else { Ok(None) }
    };
    let mut info = TensorInfo {
        name: name.to_owned(),
        structured_name: None,
        kind: tensor.kind.name(),
        dtype: tensor.dtype,
        shape: tensor.shape.clone(),
        nbytes: tensor.data.len(),
        sha256: hashed(&tensor.data)?,
        lod: tensor.lod.0.clone(),
        height: None,
        parts: BTreeMap::new(),
    };
    let data = || PartInfo {
        dtype: tensor.dtype,
        shape: tensor.stored_shape(),
        sha256: info.sha256.clone(),
    };
    let numbers = |indices: &Indices| -> Result<PartInfo> {
        let (dtype, shape) = (indices.dtype, vec![indices.count()]);
        Ok(PartInfo { dtype, shape, sha256: hashed(&indices.data)? })
    };
    match &tensor.kind {
        Kind::Dense => {}
        Kind::SelectedRows { rows, height } => {
            let rows = Indices { dtype: DType::Int64, data: rows.clone() };
            info.parts = BTreeMap::from([("data", data()), ("rows", numbers(&rows)?)]);
            info.height = Some(*height);
        }
        Kind::RowSparse { indices } => {
            info.parts = BTreeMap::from([("data", data()), ("indices", numbers(indices)?)]);
        }
        Kind::Csr { indptr, indices } => {
            info.parts = BTreeMap::from([
                ("data", data()),
                ("indptr", numbers(indptr)?),
                ("indices", numbers(indices)?),
            ]);
        }
        Kind::Coo { indices, .. } => {
            info.parts = BTreeMap::from([("data", data()), ("indices", numbers(indices)?)]);
        }
        Kind::Absent => info.sha256 = None,
        // They have no elements to hash.
        Kind::Strings { .. } | Kind::Vocabulary { .. } => {
            (info.nbytes, info.sha256) = (tensor.nbytes(), None)
        }
    }
    Ok(info)
}

/// Returns the SHA-256 of all bytes in hexadecimal.
fn sha256(blob: &Blob, progress: &Progress) -> Result<String> {
    let mut hasher = Sha256::new();
    blob.for_each_chunk(|piece| {
        hasher.update(piece);
        progress.advance(piece.len() as u64)
    })?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn display<S: Serializer>(dtype: &DType, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(dtype)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_zero(level: &u32) -> bool {
    *level == 0
}

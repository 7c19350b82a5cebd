//! The program of a model, and its operators.

use std::collections::BTreeMap;

use lodstone_model::{Attribute, AttributeValue, Op, Operand, Program, Scalar, some};
use lodstone_schema::conventions;
use serde::Serialize;

use super::Inspection;
use super::properties::Variables;
use super::values::{InterfaceValue, value_info};

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

pub(super) fn describe(program: &Program, variables: &Variables<'_>, inspection: &mut Inspection) {
    let conventions = conventions(program);
    let interface = (conventions.interface)(program);
    let value = |name: &&str| {
        let declared = variables.get(name).map(|var| &var.value);
        InterfaceValue { properties: variables.properties(name), ..value_info(name, declared) }
    };
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

/// Returns the metadata of a program as text.
fn fact(attribute: &Attribute) -> (String, String) {
    let value = match &attribute.value {
        AttributeValue::String(text) => text.to_string(),
        AttributeValue::Long(number) => number.to_string(),
        value => format!("{value:?}"),
    };
    (attribute.name.clone(), value)
}

pub(super) fn operators(program: &Program) -> Vec<OperatorInfo> {
    let source = conventions(program).source;
    let blocks = program.blocks.iter().enumerate();
    let ops = blocks.flat_map(|(block, contents)| contents.ops.iter().map(move |op| (block, op)));
    ops.map(|(block, op)| operator_info(block, op, source)).collect()
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

//! Checks of an operator against the table of operators.

use std::collections::HashSet;

use lodstone_model::{Attribute, AttributeValue, Op};

use super::walk::Walk;
use super::{quoted, types, values};
use crate::onnx::attributes::mistakes;
use crate::onnx::operators::is_of_runtime;
use crate::onnx::scopes::Bindings;
use crate::onnx::{Formal, Operator, Presence, domain_name, operator, versions};
use crate::{Finding, Findings};

/// Operators that old exporters wrote into ONNX's own domain although no opset has them; the checker accepts them.
const EXPERIMENTAL: [&str; 11] = [
    "ATen",
    "Affine",
    "ConstantFill",
    "Crop",
    "DynamicSlice",
    "GRUUnit",
    "GivenTensorFill",
    "ImageScaler",
    "ParametricSoftplus",
    "Scale",
    "ScaledTanh",
];

/// Domains whose operators are all in the table.
const CLOSED: [&str; 3] = ["ai.onnx", "ai.onnx.ml", "ai.onnx.training"];

/// Whether an operator is among those that old exporters wrote although no opset has them.
pub(super) fn is_experimental(op: &Op) -> bool {
    domain_name(&op.domain) == "ai.onnx" && EXPERIMENTAL.contains(&op.kind.as_str())
}

/// Checks an operator of the innermost open block.
pub(super) fn check(walk: &Walk<'_>, op: &Op, findings: &mut Findings) {
    let mut add = |what: String| findings.add(walk.place(), what);
    if op.kind.is_empty() {
        add("has no operator type".to_owned());
    }
    let count = |operands: &[lodstone_model::Operand]| -> usize {
        operands.iter().map(|operand| operand.args.len()).sum()
    };
    if count(&op.inputs) == 0 && count(&op.outputs) == 0 {
        add("has no inputs and no outputs".to_owned());
    }
    attributes(walk, op, findings);
    let domain = domain_name(&op.domain);
    let Some(version) = walk.imports.get(domain) else {
        let whose = if walk.function.is_some() { "the function" } else { "the model" };
        let what = format!("is of {}, whose version {whose} does not declare", quoted(domain));
        return findings.add(walk.place(), what);
    };
    if is_experimental(op) {
        return;
    }
    match operator(domain, &op.kind, *version) {
        None if is_of_runtime(domain, &op.kind) => {
            // It is the operator that ONNX has since.
            if let Some(first) = versions(domain, &op.kind).next() {
                check_against(walk, op, first, findings);
            }
        }
        None if CLOSED.contains(&domain) => {
            let what = format!("{} {version} has no such operator", quoted(domain));
            findings.add(walk.place(), what);
        }
        None => {}
        Some(known) if known.deprecated => {
            let (domain, since) = (quoted(domain), known.since);
            findings.add(walk.place(), format!("{domain} does not have it since version {since}"));
        }
        Some(known) => check_against(walk, op, known, findings),
    }
}

fn check_against(walk: &Walk<'_>, op: &Op, known: &Operator, findings: &mut Findings) {
    let inputs: Vec<&str> = arguments(&op.inputs);
    let outputs: Vec<&str> = arguments(&op.outputs);
    for (what, given, count) in
        [("inputs", &inputs, &known.input_count), ("outputs", &outputs, &known.output_count)]
    {
        if !count.admits(given.len()) {
            let what = format!("has {} {what}, expected {count}", given.len());
            findings.add(walk.place(), what);
        }
    }
    for (what, given, formals, has_first) in
        [("input", &inputs, &known.inputs, true), ("output", &outputs, &known.outputs, false)]
    {
        let is_needed = |(number, (_, formal)): &(usize, (&&str, &Formal))| match formal.presence {
            Presence::Single => true,
            // A variadic input must have at least its first value.
            Presence::Variadic => has_first && *number == 0,
            Presence::Optional => false,
        };
        let left_out = given.iter().zip(formals).enumerate().filter(is_needed);
        for (number, (name, formal)) in left_out {
            if name.is_empty() {
                let place = format!("{}, {what} {number}", walk.place());
                findings.add(place, format!("required {} is missing", quoted(formal.name)));
            }
        }
    }
    let bindings = Bindings::new();
    for wrong in mistakes(op, known, &bindings) {
        findings.add(walk.place(), wrong);
    }
    types::check(walk, known, (&inputs, &outputs), findings);
}

/// Returns all names in the slots of an operator.
pub(super) fn arguments(operands: &[lodstone_model::Operand]) -> Vec<&str> {
    operands.iter().flat_map(|operand| &operand.args).map(String::as_str).collect()
}

/// Checks attributes by rules that hold for all operators.
fn attributes(walk: &Walk<'_>, op: &Op, findings: &mut Findings) {
    let mut seen = HashSet::new();
    for Attribute { name, value } in &op.attributes {
        let mut add = |wrong: String| {
            let place = format!("{}, attribute {}", walk.place(), quoted(name));
            findings.add(place, Finding::from(wrong).about_attribute(name));
        };
        if name.is_empty() {
            add("has no name".to_owned());
        }
        if !seen.insert(name.as_str()) {
            add("is a duplicate".to_owned());
        }
        match value {
            AttributeValue::Unknown(0) => add("has no type".to_owned()),
            AttributeValue::Unknown(code) => add(format!("has unknown type {code}")),
            AttributeValue::Reference { name, .. } if walk.function.is_none() => {
                add(format!(
                    "refers to attribute {} of a function, but is not in one",
                    quoted(name)
                ));
            }
            _ => {}
        }
        for wrong in value.tensors().filter_map(values::broken) {
            add(format!("a tensor {wrong}"));
        }
    }
}

//! An operator beside the table of operators.

use std::collections::HashSet;

use lodstone_model::{Attribute, AttributeValue, Op};

use super::walk::Walk;
use super::{quoted, types, values};
use crate::onnx::{Formal, Operator, Presence, attribute_kind, domain_name, operator};
use crate::{Finding, Findings};

/// Operators that old exporters wrote as ONNX's and that no set of operators has; the checker lets them
/// pass.
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

/// Sets of operators that have no others than those in the table.
const CLOSED: [&str; 3] = ["ai.onnx", "ai.onnx.ml", "ai.onnx.training"];

/// Whether an operator is one that old exporters wrote without its being in any set.
pub(super) fn is_experimental(op: &Op) -> bool {
    domain_name(&op.domain) == "ai.onnx" && EXPERIMENTAL.contains(&op.kind.as_str())
}

/// Checks an operator of the block that is open.
pub(super) fn check(walk: &Walk<'_>, op: &Op, findings: &mut Findings) {
    let mut add = |what: String| findings.add(walk.place(), what);
    if op.kind.is_empty() {
        add("does not say what it does".to_owned());
    }
    let count = |operands: &[lodstone_model::Operand]| -> usize {
        operands.iter().map(|operand| operand.args.len()).sum()
    };
    if count(&op.inputs) == 0 && count(&op.outputs) == 0 {
        add("reads nothing and writes nothing".to_owned());
    }
    attributes(walk, op, findings);
    let domain = domain_name(&op.domain);
    let Some(version) = walk.imports.get(domain) else {
        let whose = if walk.function.is_some() { "the function" } else { "the model" };
        let what = format!("is of {}, whose version {whose} does not say", quoted(domain));
        return findings.add(walk.place(), what);
    };
    if is_experimental(op) {
        return;
    }
    match operator(domain, &op.kind, *version) {
        None if CLOSED.contains(&domain) => {
            let what = format!("{} {version} has no such operator", quoted(domain));
            findings.add(walk.place(), what);
        }
        None => {}
        Some(known) if known.deprecated => {
            let (domain, since) = (quoted(domain), known.since);
            findings.add(walk.place(), format!("{domain} has it no more since {since}"));
        }
        Some(known) => against(walk, op, known, findings),
    }
}

fn against(walk: &Walk<'_>, op: &Op, known: &Operator, findings: &mut Findings) {
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
            // Of any number of inputs, the first has to be there.
            Presence::Variadic => has_first && *number == 0,
            Presence::Optional => false,
        };
        let left_out = given.iter().zip(formals).enumerate().filter(is_needed);
        for (number, (name, formal)) in left_out {
            if name.is_empty() {
                let place = format!("{}, {what} {number}", walk.place());
                findings.add(place, format!("{} is left out", quoted(formal.name)));
            }
        }
    }
    for Attribute { name, value } in &op.attributes {
        let Some(parameter) = known.attribute(name) else {
            // What begins so is whoever's wrote it.
            if !name.starts_with("__") {
                let wrong = format!("has an attribute {}, which it knows not", quoted(name));
                findings.add(walk.place(), Finding::from(wrong).about_attribute(name));
            }
            continue;
        };
        let kind = attribute_kind(value);
        if kind != parameter.kind {
            let (quoted, expected) = (quoted(name), parameter.kind);
            let wrong = format!("attribute {quoted} is {kind}, expected {expected}");
            findings.add(walk.place(), Finding::from(wrong).about_attribute(name));
        }
    }
    for parameter in known.attributes.iter().filter(|parameter| parameter.required) {
        if op.attribute(parameter.name).is_none() {
            let wrong = format!("has no attribute {}", quoted(parameter.name));
            findings.add(walk.place(), Finding::from(wrong).about_attribute(parameter.name));
        }
    }
    types::check(walk, known, (&inputs, &outputs), findings);
}

/// All that is in the slots of an operator.
pub(super) fn arguments(operands: &[lodstone_model::Operand]) -> Vec<&str> {
    operands.iter().flat_map(|operand| &operand.args).map(String::as_str).collect()
}

/// What is wrong with attributes whatever the operator.
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
            add("is there twice".to_owned());
        }
        match value {
            AttributeValue::Unknown(0) => add("has no type".to_owned()),
            AttributeValue::Unknown(code) => add(format!("is of type {code}, which is unknown")),
            AttributeValue::Reference { name, .. } if walk.function.is_none() => {
                add(format!("is the attribute {} of a function, and is in none", quoted(name)));
            }
            _ => {}
        }
        for wrong in value.tensors().filter_map(values::broken) {
            add(format!("a tensor {wrong}"));
        }
    }
}

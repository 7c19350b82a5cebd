//! Upgrades an ONNX program to the newest operators, and moves the operators that only Glow's loader has to a domain of
//! their own.
//!
//! Glow's loader accepts operators of every opset as they are. Here, each is handled in its newest form only. If that
//! form differs from what Glow computes for an old operator, the old one is kept.

use std::collections::HashSet;

use lodstone_model::{Attribute, AttributeValue, Model, Op, Program};
use lodstone_schema::Findings;
use lodstone_schema::numbers::length;
use lodstone_schema::onnx::scopes::Scope;
use lodstone_schema::onnx::{self, UpgradeError, domain_name, infer};

use super::{integers, own, rules, spelled};

/// The domain for operators that Glow's loader accepts in ONNX's own domain, although ONNX does not have them.
pub(super) const LOADER: &str = "com.facebook.glow.loader";

/// An attribute with the index of an operator, or of the operator that it was made from, in its block. Names with this prefix
/// belong to no operator.
const NUMBER: &str = "__glow_number";

/// Operators that had `broadcast` and `axis` before NumPy's broadcasting rules.
const BROADCASTING: &[&str] =
    &["Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"];

/// Returns the model with the newest operators.
pub(super) fn prepare(model: &Model) -> Result<Model, Findings> {
    let mut prepared = model.clone();
    if let Some(program) = prepared.main_mut() {
        mark(program);
        if let Some(main) = program.blocks.first_mut() {
            spelled::gather(main, &model.parameters);
        }
    }
    let types = |values: &std::collections::HashMap<String, infer::ValueInfo>| {
        values.iter().map(|(name, info)| (name.clone(), info.value.clone())).collect()
    };
    let inference = infer::infer(&prepared, &infer::Options::default().with_overridable(true));
    let inferred: Vec<_> = inference.blocks.iter().map(types).collect();
    match onnx::upgrade_with(&mut prepared, onnx::NEWEST_OPSET, &inferred) {
        Ok(()) => Ok(prepared),
        Err(UpgradeError::Operators(findings)) => Err(findings),
        Err(other) => {
            let mut findings = Findings::default();
            findings.add("the model", other.to_string());
            Err(findings)
        }
    }
}

fn mark(program: &mut Program) {
    let functions: HashSet<(String, String)> = program
        .functions
        .iter()
        .map(|function| (domain_name(&function.domain).to_owned(), function.name.clone()))
        .collect();
    let reads = program.ops().flat_map(Op::reads);
    let outputs = program.blocks.iter().flat_map(|block| &block.outputs).map(String::as_str);
    let read: HashSet<String> = reads.chain(outputs).map(str::to_owned).collect();
    for block in &mut program.blocks {
        for (number, op) in block.ops.iter_mut().enumerate() {
            let is_own = domain_name(&op.domain) == "ai.onnx";
            let is_function =
                functions.contains(&(domain_name(&op.domain).to_owned(), op.kind.clone()));
            let is_known = onnx::versions(domain_name(&op.domain), &op.kind).next().is_some();
            // Glow ignores domains.
            let is_others = !is_own && !is_known && rules::rule(LOADER, &op.kind).is_some();
            let is_others = is_others && op.domain != own::DOMAIN;
            if !is_function && (is_own && is_loaders(op) || is_others) {
                LOADER.clone_into(&mut op.domain);
            }
            if is_own {
                tidy(op, &read);
            }
            let value = AttributeValue::Long(length(number));
            op.attributes.push(Attribute { name: NUMBER.to_owned(), value });
        }
    }
}

/// Removes attributes and outputs that have no effect, or that Glow ignores.
fn tidy(op: &mut Op, read: &HashSet<String>) {
    match op.kind.as_str() {
        // Training statistics without a reader.
        "BatchNormalization" => {
            for operand in &mut op.outputs {
                while operand.args.len() > 1
                    && operand.args.last().is_some_and(|name| !read.contains(name))
                {
                    operand.args.pop();
                }
            }
        }
        // Glow ignores `output_padding`; one of zeros or of the wrong length is removed. It also ignores `pads` beside
        // `auto_pad`, which ONNX rejects.
        "ConvTranspose" => {
            let is_automatic = match op.attribute("auto_pad") {
                Some(AttributeValue::String(text)) => text.0 != "NOTSET".as_bytes(),
                _ => false,
            };
            op.attributes.retain(|attribute| !(is_automatic && attribute.name == "pads"));
            let axes = match op.attribute("kernel_shape").or(op.attribute("strides")) {
                Some(AttributeValue::Longs(all)) => Some(all.len()),
                _ => None,
            };
            op.attributes.retain(|attribute| match &attribute.value {
                AttributeValue::Longs(all) if attribute.name == "output_padding" => {
                    all.iter().any(|number| *number != 0)
                        && axes.is_none_or(|axes| axes == all.len())
                }
                _ => true,
            });
        }
        _ => {}
    }
}

fn is_loaders(op: &Op) -> bool {
    let broadcasts = op.attribute("broadcast") == Some(&AttributeValue::Long(1));
    onnx::versions("", &op.kind).next().is_none()
        || integers::is_quantized(op)
        || broadcasts && BROADCASTING.contains(&op.kind.as_str())
}

/// Returns the index that marks an operator.
pub(super) fn number(op: &Op) -> Option<usize> {
    match op.attribute(NUMBER) {
        Some(AttributeValue::Long(number)) => usize::try_from(*number).ok(),
        _ => None,
    }
}

/// Returns the operator for its rule: without the mark, and with the attributes of the call around it.
pub(super) fn resolved(op: &Op, scope: &Scope<'_, Option<usize>>) -> Op {
    let mut attributes = scope.resolved(op);
    attributes.retain(|attribute| attribute.name != NUMBER);
    Op { attributes, ..op.clone() }
}

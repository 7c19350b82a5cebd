//! The table of rules by kind; each family of rules is a file.

use std::collections::HashMap;
use std::sync::LazyLock;

use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_store::Blob;

use super::op::{Fault, Rule};
use super::{
    activations, audio, conv, elementwise, indexing, integers, linear, loader, normalize, own,
    pieces, pool, prepare, quantize, recurrent, reduce, reshape, resize, tables,
};
use crate::rules::{Family, RuleName};

/// The families of a domain.
const FAMILIES: &[(&str, Family<Rule>)] = &[
    ("ai.onnx", ("activations", activations::RULES)),
    ("ai.onnx", ("elementwise", elementwise::RULES)),
    ("ai.onnx", ("reshape", reshape::RULES)),
    ("ai.onnx", ("pieces", pieces::RULES)),
    ("ai.onnx", ("conv", conv::RULES)),
    ("ai.onnx", ("pool", pool::RULES)),
    ("ai.onnx", ("linear", linear::RULES)),
    ("ai.onnx", ("reduce", reduce::RULES)),
    ("ai.onnx", ("normalize", normalize::RULES)),
    ("ai.onnx", ("indexing", indexing::RULES)),
    ("ai.onnx", ("resize", resize::RULES)),
    ("ai.onnx", ("recurrent", recurrent::RULES)),
    ("ai.onnx", ("quantize", quantize::RULES)),
    (prepare::LOADER, ("elementwise", elementwise::OLD)),
    (prepare::LOADER, ("loader", loader::RULES)),
    (prepare::LOADER, ("audio", audio::RULES)),
    (prepare::LOADER, ("integers", integers::RULES)),
    (prepare::LOADER, ("tables", tables::RULES)),
];

/// Rules by domain and kind.
type ByKind = HashMap<(&'static str, &'static str), (RuleName, Rule)>;

static RULES: LazyLock<ByKind> = LazyLock::new(|| {
    let all = FAMILIES.iter().flat_map(|(domain, (family, rules))| {
        rules.iter().map(|(kind, rule)| ((*domain, *kind), (RuleName { family, kind }, *rule)))
    });
    all.collect()
});

/// Returns the names of all rules.
pub(crate) fn names() -> impl Iterator<Item = RuleName> {
    RULES.values().map(|(name, _)| *name)
}

/// Returns the name of the rule of an operator.
pub(crate) fn name(domain: &str, kind: &str) -> Option<RuleName> {
    RULES.get(&(domain, kind)).map(|(name, _)| *name)
}

/// Returns the rule of an operator, if there is one.
pub(super) fn rule(domain: &str, kind: &str) -> Option<Rule> {
    match domain {
        own::DOMAIN => Some(own::node),
        _ => RULES.get(&(domain, kind)).map(|(_, rule)| *rule),
    }
}

/// Whether an operator becomes a node even if its result is known: a fill value takes less space than the
/// filled tensor.
pub(super) fn is_made_even_if_known(domain: &str, kind: &str) -> bool {
    domain == own::DOMAIN || kind == "ConstantOfShape"
}

/// Returns the tensor of a `Constant` operator.
pub(super) fn constant(op: &Op) -> Result<Option<Tensor>, Fault> {
    if op.kind != "Constant" || !op.domain.is_empty() && op.domain != "ai.onnx" {
        return Ok(None);
    }
    let scalar =
        |dtype, bytes: &[u8]| Tensor::dense(dtype, Vec::new(), Blob::memory(bytes.to_vec()));
    let list = |dtype, count: usize, bytes: Vec<u8>| {
        Tensor::dense(dtype, vec![count as u64], Blob::memory(bytes))
    };
    let longs = |numbers: &[i64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    let tensor =
        op.attributes.iter().find_map(|attribute| match (&*attribute.name, &attribute.value) {
            ("value", AttributeValue::Tensor(tensor)) => Some((**tensor).clone()),
            ("value_int", AttributeValue::Long(n)) => Some(scalar(DType::Int64, &n.to_le_bytes())),
            ("value_float", AttributeValue::Float(n)) => {
                Some(scalar(DType::Float32, &n.to_le_bytes()))
            }
            // Glow's own loader also accepts a list as the value, and its writer writes one.
            ("value" | "value_ints", AttributeValue::Longs(all)) => {
                Some(list(DType::Int64, all.len(), longs(all)))
            }
            ("value_floats", AttributeValue::Floats(all)) => {
                let bytes = all.iter().flat_map(|n| n.to_le_bytes()).collect();
                Some(list(DType::Float32, all.len(), bytes))
            }
            _ => None,
        });
    tensor.map(Some).ok_or_else(|| "expected a dense numeric tensor as the value".into())
}

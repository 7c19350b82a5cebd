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

/// All rules, by domain and kind of the operator.
static RULES: LazyLock<HashMap<(&str, &str), Rule>> = LazyLock::new(|| {
    let families = [
        ("ai.onnx", activations::RULES),
        ("ai.onnx", elementwise::RULES),
        ("ai.onnx", reshape::RULES),
        ("ai.onnx", pieces::RULES),
        ("ai.onnx", conv::RULES),
        ("ai.onnx", pool::RULES),
        ("ai.onnx", linear::RULES),
        ("ai.onnx", reduce::RULES),
        ("ai.onnx", normalize::RULES),
        ("ai.onnx", indexing::RULES),
        ("ai.onnx", resize::RULES),
        ("ai.onnx", recurrent::RULES),
        ("ai.onnx", quantize::RULES),
        (prepare::LOADER, elementwise::OLD),
        (prepare::LOADER, loader::RULES),
        (prepare::LOADER, audio::RULES),
        (prepare::LOADER, integers::RULES),
        (prepare::LOADER, tables::RULES),
    ];
    let rules = families
        .into_iter()
        .flat_map(|(domain, rules)| rules.iter().map(move |(kind, rule)| ((domain, *kind), *rule)));
    rules.collect()
});

/// Returns the rule of an operator, if there is one.
pub(super) fn rule(domain: &str, kind: &str) -> Option<Rule> {
    match domain {
        own::DOMAIN => Some(own::node),
        _ => RULES.get(&(domain, kind)).copied(),
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

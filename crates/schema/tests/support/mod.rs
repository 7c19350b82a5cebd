//! Builders of ONNX programs for tests, and golden files.

use std::path::Path;

use lodstone_model::{Attribute, AttributeValue, Op, Operand};

/// The slot of an operator with positional operands.
fn operands(names: &[&str]) -> Vec<Operand> {
    let args = names.iter().map(ToString::to_string).collect();
    vec![Operand { slot: String::new(), args }]
}

/// An operator.
pub(crate) fn op(
    kind: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: &[(&str, AttributeValue)],
) -> Op {
    let attribute = |(name, value): &(&str, AttributeValue)| Attribute {
        name: (*name).to_owned(),
        value: value.clone(),
    };
    Op {
        kind: kind.to_owned(),
        inputs: operands(inputs),
        outputs: operands(outputs),
        attributes: attributes.iter().map(attribute).collect(),
        ..Op::default()
    }
}

/// Returns the contents of a file.
#[expect(clippy::disallowed_methods, reason = "tests read their own files")]
pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

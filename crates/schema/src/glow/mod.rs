//! Glow's operators in ONNX's messages: the kinds of nodes, how a file encodes each, and what Glow accepts.
//!
//! | in the file | meaning |
//! |---|---|
//! | an operator `Glow_KIND` | a node of a kind in [`nodes`] |
//! | an operator `Identity` | a save node: its output is a placeholder |
//! | `Glow__ConstFoldSubgraph` | the computation of a constant |
//! | `Glow__StaticPHDummyNode` | the former type of a static placeholder |
//! | doc string of a variable or tensor | the properties of its storage ([`Storage`]) |
//! | `metadata_props` | the partitions of a program, and their backends |
//!
//! Source of truth: `ONNXModelWriter.cpp`, `ONNXModelLoader.cpp`, `NodeGen.cpp` and `Type.h` of Glow (commit
//! 05dd99b9, the last one), and files that it wrote. Where its page `Serialization.md` differs, the files are
//! right: that page swaps the names of placeholders and save nodes, and spells the key `elemKind` with a capital.

mod check;
mod nodes;
mod storage;
mod types;

use lodstone_model::{ByteString, Op, Program};

use crate::training::{Row, training};
use crate::{Conventions, Properties, conventions, onnx};

pub use check::check;
pub use nodes::{Member, Node, NodeResult, node, nodes};
pub use storage::Storage;
pub use types::{ElemKind, Type};

/// Glow's conventions.
pub static CONVENTIONS: Conventions = Conventions {
    framework: "Glow",
    unknown_operators,
    runtime_domains: &[],
    check: |model, _| check(model),
    is_semantic: |attribute| !TYPE_ATTRIBUTES.iter().any(|end| attribute.ends_with(end)),
    is_implied: |_, op, attribute| names_inputs(op, &attribute.name),
    var_properties: |var| properties(var.doc_string()),
    tensor_properties: |tensor| properties(tensor.doc_string.as_deref()),
    sharing: None,
    training: |op| training(TRAINING, &op.kind, op),
    ..onnx::CONVENTIONS
};

/// What nodes record for training.
///
/// Source of truth: `NodeGen.cpp` of Glow.
const TRAINING: &[Row] = &[Row {
    kinds: &["Glow_BatchNormalization"],
    momentum: Some(("Momentum", 0.9)),
    epsilon: Some(("Epsilon", 1e-5)),
    ..Row::NONE
}];

/// Suffixes of attributes that hold the types of values.
const TYPE_ATTRIBUTES: [&str; 5] = ["_elemKind", "_shape", "_strides", "_qScale", "_qOffset"];

/// Whether an attribute repeats the names of an operator's inputs.
fn names_inputs(op: &Op, attribute: &str) -> bool {
    let node = op.kind.strip_prefix(PREFIX).and_then(node);
    attribute == "Predicate"
        || node.is_some_and(|node| node.members.contains(&(attribute, Member::Values)))
}

/// Returns the storage properties in a doc string; none if they are malformed, which [`check`] reports.
fn properties(text: Option<&ByteString>) -> Properties {
    let storage = text.and_then(|text| Storage::parse(&text.to_string()).ok());
    storage.map_or_else(Properties::default, Properties::from)
}

/// Returns the operators that Glow does not have, sorted and without duplicates.
fn unknown_operators(program: &Program) -> Vec<(&str, &str)> {
    conventions::unknown_operators(program, |_, kind| {
        [SAVE, CONSTANT_FOLDING, STATIC_PLACEHOLDER].contains(&kind)
            || kind.strip_prefix(PREFIX).is_some_and(|kind| node(kind).is_some())
    })
}

/// The prefix of operators that are nodes.
pub const PREFIX: &str = "Glow_";

/// The operator of a save node.
pub const SAVE: &str = "Identity";

/// The operator that holds the computation of a constant.
pub const CONSTANT_FOLDING: &str = "Glow__ConstFoldSubgraph";

/// The operator that holds the former type of a static placeholder.
pub const STATIC_PLACEHOLDER: &str = "Glow__StaticPHDummyNode";

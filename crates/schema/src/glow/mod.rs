//! Glow's operators in ONNX's messages: what kinds of nodes there are, what a file says of each, and what
//! of it Glow accepts.
//!
//! | in the file | what it is |
//! |---|---|
//! | an operator `Glow_KIND` | a node of one of the kinds of [`nodes`] |
//! | an operator `Identity` | a save node: its output is a placeholder |
//! | `Glow__ConstFoldSubgraph` | how a constant was computed |
//! | `Glow__StaticPHDummyNode` | the type that a static placeholder had |
//! | text of a variable or tensor | the properties of its storage ([`Storage`]) |
//! | `metadata_props` | the partitions of a program, and on what they run |
//!
//! Source of truth: `ONNXModelWriter.cpp`, `ONNXModelLoader.cpp`, `NodeGen.cpp` and `Type.h` of Glow (commit
//! 05dd99b9, the last one), and files that it wrote. Where its page `Serialization.md` says something
//! else, files are right: that page exchanges the names of placeholders and save nodes, and spells the
//! key `elemKind` with a capital.

mod check;
mod nodes;
mod storage;
mod types;

use lodstone_model::{Op, Program};

use crate::{Conventions, conventions, onnx};

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
    is_told: |attribute| !TYPE_ATTRIBUTES.iter().any(|end| attribute.ends_with(end)),
    is_implied: |_, op, attribute| names_inputs(op, &attribute.name),
    ..onnx::CONVENTIONS
};

/// What the names of attributes end in that say the types of values.
const TYPE_ATTRIBUTES: [&str; 5] = ["_elemKind", "_shape", "_strides", "_qScale", "_qOffset"];

/// Whether an attribute names what an operator reads, which its inputs do too.
fn names_inputs(op: &Op, attribute: &str) -> bool {
    let node = op.kind.strip_prefix(PREFIX).and_then(node);
    attribute == "Predicate"
        || node.is_some_and(|node| node.members.contains(&(attribute, Member::Values)))
}

/// Operators that Glow has not, each once, sorted.
fn unknown_operators(program: &Program) -> Vec<(&str, &str)> {
    conventions::unknown_operators(program, |_, kind| {
        [SAVE, CONSTANT_FOLDING, STATIC_PLACEHOLDER].contains(&kind)
            || kind.strip_prefix(PREFIX).is_some_and(|kind| node(kind).is_some())
    })
}

/// What the names of operators that are nodes begin with.
pub const PREFIX: &str = "Glow_";

/// The operator that a save node is.
pub const SAVE: &str = "Identity";

/// The operator that says how a constant was computed.
pub const CONSTANT_FOLDING: &str = "Glow__ConstFoldSubgraph";

/// The operator that says what type a static placeholder had.
pub const STATIC_PLACEHOLDER: &str = "Glow__StaticPHDummyNode";

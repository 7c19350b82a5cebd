//! The types of all values of an ONNX program: kinds, element types and extents, known or symbolic.
//!
//! [`infer`] goes through a program, [`infer_op`] applies the rule of one operator. Rules are a table,
//! `FAMILIES`, of functions by the kind of the operator; one handles all versions of it, by the
//! attributes and inputs that it is given. What shapes are computed from is followed too: elements of
//! small tensors, known or symbols, through the operators of `contents`.
//!
//! What contradicts itself is a finding. What cannot be known is unknown; nothing is guessed. The work is
//! bounded by the size of the program, not by numbers in it.
//!
//! Source of truth: the operator specification of ONNX 1.23 (`docs/Operators.md`, opset 28), and
//! `onnx.shape_inference` where that is silent.

mod attention;
mod contents;
mod control;
mod conv;
mod dims;
mod elementwise;
mod generate;
mod indexing;
mod linear;
mod loss;
mod ml;
mod node;
mod normalize;
mod pieces;
mod pool;
mod program;
mod quantize;
mod recurrent;
mod reduce;
mod reshape;
mod resize;
mod sequence;
mod signal;
mod text;
mod training;
mod value;
mod vision;
mod work;

use std::collections::HashMap;
use std::sync::LazyLock;

use lodstone_model::{Dim, Op};

use super::scopes::Bindings;
use crate::Finding;

pub use node::{Bodies, NoBodies};
pub use program::{Inference, Options, infer};
pub use value::{Contents, Element, MOST_ELEMENTS, UNDEFINED, ValueInfo};
pub use work::Work;

pub use dims::{common_type, merged_types, show_type};
use node::{Node, Outcome};

/// What an operator does to types.
type Rule = fn(&mut Node<'_>) -> Outcome;

/// Rules of a family of operators.
struct Family {
    /// The set of operators that they belong to.
    domain: &'static str,
    /// Whether all inputs have to be tensors.
    tensors: bool,
    rules: &'static [(&'static str, Rule)],
}

const fn tensors(rules: &'static [(&'static str, Rule)]) -> Family {
    Family { domain: "", tensors: true, rules }
}

const fn values(domain: &'static str, rules: &'static [(&'static str, Rule)]) -> Family {
    Family { domain, tensors: false, rules }
}

static FAMILIES: &[Family] = &[
    tensors(elementwise::RULES),
    tensors(reduce::RULES),
    tensors(linear::RULES),
    tensors(conv::RULES),
    tensors(pool::RULES),
    tensors(normalize::RULES),
    tensors(reshape::RULES),
    tensors(pieces::RULES),
    tensors(indexing::RULES),
    tensors(resize::RULES),
    tensors(vision::RULES),
    tensors(generate::RULES),
    tensors(signal::RULES),
    tensors(recurrent::RULES),
    tensors(quantize::RULES),
    tensors(attention::RULES),
    tensors(loss::RULES),
    tensors(text::RULES),
    values("", control::RULES),
    values("", sequence::RULES),
    values("ai.onnx.ml", ml::RULES),
    values("ai.onnx.preview", attention::PREVIEW),
    values("ai.onnx.preview.training", training::RULES),
];

/// A rule and its family.
type Entry = (&'static Family, Rule);

/// Every rule, by the set and the kind of the operator.
static RULES: LazyLock<HashMap<(&str, &str), Entry>> = LazyLock::new(|| {
    let rules = FAMILIES.iter().flat_map(|family| {
        family.rules.iter().map(move |(kind, rule)| ((family.domain, *kind), (family, *rule)))
    });
    rules.collect()
});

/// Whether there is a rule for an operator.
pub fn is_known(domain: &str, kind: &str) -> bool {
    RULES.contains_key(&(domain_of(domain), kind))
}

/// The set of operators that a name stands for: ONNX's own has two.
pub(super) fn domain_of(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// What is known of the outputs of an operator, in order.
///
/// `inputs` are by position, none where one is left out. An operator that has blocks asks `bodies` what
/// they give. An output that nothing is known of is [unknown](ValueInfo::is_unknown); so are all outputs
/// of an operator that there is no rule for.
///
/// # Errors
/// What is wrong with the operator: what was expected, and what was found.
pub fn infer_op(
    op: &Op,
    opset: i64,
    inputs: &[Option<&ValueInfo>],
    bodies: &mut dyn Bodies,
) -> Result<Vec<ValueInfo>, Finding> {
    apply(op, opset, inputs, &Bindings::new(), bodies)
}

/// The same, of an operator in a function that was given attributes.
fn apply(
    op: &Op,
    opset: i64,
    inputs: &[Option<&ValueInfo>],
    bindings: &Bindings<'_>,
    bodies: &mut dyn Bodies,
) -> Result<Vec<ValueInfo>, Finding> {
    let outputs = vec![ValueInfo::default(); op.output("").len()];
    let Some((family, rule)) = RULES.get(&(domain_of(&op.domain), op.kind.as_str())) else {
        return Ok(outputs);
    };
    let mut node = Node { op, opset, inputs, bindings, outputs, bodies };
    if family.tensors {
        node.only_tensors()?;
    }
    rule(&mut node)?;
    node.outputs.iter().try_for_each(fits)?;
    contents::follow(&mut node);
    Ok(node.outputs)
}

/// Fails if an extent is more than an `int64` says, which all extents are in a file.
fn fits(info: &ValueInfo) -> Result<(), Finding> {
    let tensors = info.value.tensors().into_iter();
    let shapes = tensors.filter_map(|tensor| tensor.shape.as_deref());
    let is_too_large =
        |dim: &Dim| matches!(dim, Dim::Known(extent) if i64::try_from(*extent).is_err());
    match shapes.flatten().any(is_too_large) {
        true => {
            let found = dims::show_type(&info.value);
            Err(format!("expected extents below 2^63, found {found} or more").into())
        }
        false => Ok(()),
    }
}

//! Type inference for ONNX programs: kinds, element types and dims, known or symbolic.
//!
//! [`infer`] walks a program, [`infer_op`] applies the rule of one operator. Rules are functions in a table, `FAMILIES`,
//! by the kind of the operator; a rule handles all versions of its operator, by its attributes and inputs. The elements
//! of small tensors from which shapes are computed, known or symbols, are also propagated, by the rules of `contents`.
//! A contradiction is a finding. What cannot be inferred stays unknown; nothing is guessed. The work is
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
mod onnx_runtime;
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

use super::attributes;
use super::scopes::Bindings;
use crate::Finding;

pub use node::{Bodies, NoBodies};
pub use program::{Inference, Options, infer};
pub use resize::scaled_size;
pub use value::{Contents, Element, MAX_ELEMENTS, UNDEFINED, ValueInfo};
pub use work::Work;

pub use dims::{common_type, merged_types, show_type};
use node::{Node, Outcome};

/// The inference rule of an operator.
type Rule = fn(&mut Node<'_>) -> Outcome;

/// Rules of a family of operators.
struct Family {
    /// The domain of the operators.
    domain: &'static str,
    /// Whether all inputs must be tensors.
    only_tensors: bool,
    rules: &'static [(&'static str, Rule)],
}

const fn only_tensors(rules: &'static [(&'static str, Rule)]) -> Family {
    Family { domain: "", only_tensors: true, rules }
}

const fn values(domain: &'static str, rules: &'static [(&'static str, Rule)]) -> Family {
    Family { domain, only_tensors: false, rules }
}

static FAMILIES: &[Family] = &[
    only_tensors(elementwise::RULES),
    only_tensors(reduce::RULES),
    only_tensors(linear::RULES),
    only_tensors(conv::RULES),
    only_tensors(pool::RULES),
    only_tensors(normalize::RULES),
    only_tensors(reshape::RULES),
    only_tensors(pieces::RULES),
    only_tensors(indexing::RULES),
    only_tensors(resize::RULES),
    only_tensors(vision::RULES),
    only_tensors(generate::RULES),
    only_tensors(signal::RULES),
    only_tensors(recurrent::RULES),
    only_tensors(quantize::RULES),
    only_tensors(attention::RULES),
    only_tensors(loss::RULES),
    only_tensors(text::RULES),
    only_tensors(onnx_runtime::OWN),
    Family { domain: "com.microsoft", only_tensors: true, rules: onnx_runtime::RULES },
    values("", control::RULES),
    values("", sequence::RULES),
    values("ai.onnx.ml", ml::RULES),
    values("ai.onnx.preview", attention::PREVIEW),
    values("ai.onnx.preview.training", training::RULES),
];

/// A rule and its family.
type Entry = (&'static Family, Rule);

/// All rules, by domain and kind of the operator.
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

/// Returns the canonical form of a domain: ONNX's own has two names.
pub(super) fn domain_of(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Infers the outputs of one operator, in order.
///
/// `inputs` are by position, `None` where an input is omitted. `bodies` infers the blocks of the operator. Outputs that
/// cannot be inferred are [unknown](ValueInfo::is_unknown), as are all outputs of an operator without a rule.
///
/// # Errors
/// If the operator breaks a rule; the finding has what was expected and what was found.
pub fn infer_op(
    op: &Op,
    opset: i64,
    inputs: &[Option<&ValueInfo>],
    bodies: &mut dyn Bodies,
) -> Result<Vec<ValueInfo>, Finding> {
    apply(op, opset, inputs, &Bindings::new(), bodies)
}

/// Infers the outputs of one operator, with the attributes of the function call around it.
fn apply(
    op: &Op,
    opset: i64,
    inputs: &[Option<&ValueInfo>],
    bindings: &Bindings<'_>,
    bodies: &mut dyn Bodies,
) -> Result<Vec<ValueInfo>, Finding> {
    attributes::check(op, opset, bindings)?;
    let outputs = vec![ValueInfo::default(); op.output("").len()];
    let Some((family, rule)) = RULES.get(&(domain_of(&op.domain), op.kind.as_str())) else {
        return Ok(outputs);
    };
    let mut node = Node { op, opset, inputs, bindings, outputs, bodies };
    if family.only_tensors {
        node.only_tensors()?;
    }
    rule(&mut node)?;
    node.outputs.iter().try_for_each(fits)?;
    contents::follow(&mut node);
    Ok(node.outputs)
}

/// Checks that all dims fit into the `int64` of a file.
fn fits(info: &ValueInfo) -> Result<(), Finding> {
    let tensors = info.value.tensors().into_iter();
    let shapes = tensors.filter_map(|tensor| tensor.shape.as_deref());
    let is_too_large = |dim: &Dim| matches!(dim, Dim::Known(size) if i64::try_from(*size).is_err());
    match shapes.flatten().any(is_too_large) {
        true => {
            let found = dims::show_type(&info.value);
            Err(format!("expected dims below 2^63, found {found}").into())
        }
        false => Ok(()),
    }
}

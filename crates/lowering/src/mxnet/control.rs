//! Operators that run subgraphs.

use lodstone_model::Op;

use super::node::Outcome;
use super::walk::Walk;
use crate::onnx::Value;

/// The rule of an operator that runs subgraphs. It returns the outputs, or `None` if an operator of a subgraph could
/// not be translated, which has been reported.
pub(super) type ControlRule =
    for<'m> fn(&mut Walk<'m>, &'m Op, Vec<Value>) -> Outcome<Option<Vec<Value>>>;

const RULES: &[(&str, ControlRule)] = &[];

/// Returns the rule of an operator that runs subgraphs.
pub(super) fn rule(kind: &str) -> Option<ControlRule> {
    RULES.iter().find(|(known, _)| *known == kind).map(|(_, rule)| *rule)
}

/// Returns the names of the operators that run subgraphs.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|(kind, _)| *kind)
}

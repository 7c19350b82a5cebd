//! What a framework's programs mean beyond their operators: a value for each dialect.

use std::collections::BTreeSet;

use lodstone_model::{Attribute, AttributeValue, Dialect, Model, Op, Program, Var};

use crate::onnx::infer::Inference;
use crate::{Findings, Risk, glow, mxnet, onnx, paddle};

/// The conventions of a framework.
#[derive(Debug)]
pub struct Conventions {
    /// The framework, and the releases whose operators are known.
    pub framework: &'static str,
    /// Whether programs say the versions of sets of operators, rather than of operators.
    pub has_operator_sets: bool,
    /// Whether each value is written once, so that values alone order the operators.
    pub is_ssa: bool,
    /// A version as people write it.
    pub version: fn(i64) -> String,
    /// What goes in and what comes out.
    pub interface: fn(&Program) -> Interface<'_>,
    /// Operators that no known release has: sets and names, each once, sorted.
    pub unknown_operators: fn(&Program) -> Vec<(&str, &str)>,
    /// Sets of operators that come with a runtime of the framework, and are not listed one by one.
    pub runtime_domains: &'static [&'static str],
    /// What follows for the types of values, where rules of operators are known.
    pub infer: fn(&Model) -> Option<Inference>,
    /// What is wrong with a model by the rules of the framework, as far as they are known here; with what
    /// follows for its types, if that is known.
    pub check: fn(&Model, Option<&Inference>) -> Findings,
    /// What an operator does beyond computing.
    pub risk: fn(&str) -> Option<Risk>,
    /// Flags of a variable that only this framework has, by the names that it gives them.
    pub flags: fn(&Var) -> &'static [&'static str],
    /// The variable that a parameter of this name is the value of.
    pub variable_of: fn(&str) -> &str,
    /// The variables that a program needs parameters for, as far as it says.
    pub parameters: fn(&Program) -> Vec<String>,
    /// The attribute in which operators say where in a training script they were made.
    pub source: Option<&'static str>,
    /// Whether an attribute adds nothing to its operator: it equals the default, or repeats the inputs.
    pub is_implied: fn(&Program, &Op, &Attribute) -> bool,
    /// Whether an attribute tells what an operator does, rather than how the framework keeps it: roles, devices, types
    /// of values.
    pub is_told: fn(&str) -> bool,
    /// What else a user should know, a sentence each.
    pub notes: fn(&Program) -> Vec<String>,
}

/// What goes into a program and what comes out of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interface<'a> {
    /// Names of the variables that are fed, in order.
    pub inputs: Vec<&'a str>,
    /// Names of the variables that are fetched, in order.
    pub outputs: Vec<&'a str>,
}

/// The conventions that a program follows.
pub fn conventions(program: &Program) -> &'static Conventions {
    match program.dialect {
        Dialect::Mxnet => &mxnet::CONVENTIONS,
        Dialect::Onnx => &onnx::CONVENTIONS,
        Dialect::Glow => &glow::CONVENTIONS,
        Dialect::Paddle => &paddle::CONVENTIONS,
    }
}

/// The operators of a program that are not `known`: sets and names, each once, sorted.
pub(crate) fn unknown_operators(
    program: &Program,
    known: impl Fn(&str, &str) -> bool,
) -> Vec<(&str, &str)> {
    let operators: BTreeSet<_> =
        program.ops().map(|op| (op.domain.as_str(), op.kind.as_str())).collect();
    operators.into_iter().filter(|(domain, kind)| !known(domain, kind)).collect()
}

impl Conventions {
    /// How many operators say where in a training script they were made.
    pub fn count_source(&self, program: &Program) -> usize {
        let Some(source) = self.source else { return 0 };
        let says = |value: &AttributeValue| !matches!(value, AttributeValue::Strings(lines) if lines.is_empty());
        program.ops().filter(|op| op.attribute(source).is_some_and(says)).count()
    }

    /// Whether an attribute says what an operator is, rather than where it was made or what is known
    /// without it.
    pub fn counts(&self, program: &Program, op: &Op, attribute: &Attribute) -> bool {
        Some(attribute.name.as_str()) != self.source && !(self.is_implied)(program, op, attribute)
    }

    /// Removes what operators say about where they were made.
    pub fn strip_source(&self, program: &mut Program) {
        let Some(source) = self.source else { return };
        for op in program.blocks.iter_mut().flat_map(|block| &mut block.ops) {
            op.attributes.retain(|attribute| attribute.name != source);
        }
    }
}

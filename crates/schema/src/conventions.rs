//! The conventions of each framework's programs beyond their operators: a value for each dialect.

use std::collections::BTreeSet;

use lodstone_model::{
    Attribute, AttributeValue, ByDialect, Model, Op, Parameter, Program, Tensor, Var,
};

use crate::onnx::infer::Inference;
use crate::{
    Findings, Properties, Risk, Sharing, Training, Unprunable, caffe2, glow, mxnet, onnx, paddle,
    pir, torch,
};

/// The conventions of a framework.
#[derive(Debug)]
pub struct Conventions {
    /// The framework, and the releases whose operators are in the tables.
    pub framework: &'static str,
    /// Whether programs declare the versions of opsets, rather than of single operators.
    pub has_opsets: bool,
    /// Whether each value is written once, so that data dependencies alone order the operators.
    pub is_ssa: bool,
    /// Formats a version for display.
    pub version: fn(i64) -> String,
    /// The inputs and outputs of a program.
    pub interface: fn(&Program) -> Interface<'_>,
    /// Makes values the outputs of the main program of a model, as [`select`](crate::select()) does.
    pub select: fn(&mut Model, &[&str]) -> Result<(), Unprunable>,
    /// How operators change values in place; `None` where each value is what one operator returns.
    pub sharing: Option<Sharing>,
    /// What an operator records for training.
    pub training: fn(&Op) -> Training,
    /// The scope in which an operator was made, such as the path of its module; empty if it is not recorded.
    pub scope: fn(&Op) -> String,
    /// Operators that no known release has, as (domain, kind), sorted and without duplicates.
    pub unknown_operators: fn(&Program) -> Vec<(&str, &str)>,
    /// Domains of operators that a runtime of the framework provides and the tables do not list.
    pub runtime_domains: &'static [&'static str],
    /// Infers the types of values; `None` for dialects without inference rules.
    pub infer: fn(&Model) -> Option<Inference>,
    /// Checks a model against the known rules of the framework, using inferred types if they are given.
    pub check: fn(&Model, Option<&Inference>) -> Findings,
    /// The side effects of an operator, by its kind.
    pub risk: fn(&str) -> Option<Risk>,
    /// Flags of a variable that only this framework has, by the framework's names.
    pub flags: fn(&Var) -> &'static [&'static str],
    /// Properties of a variable beside its type.
    pub var_properties: fn(&Var) -> Properties,
    /// Properties of a tensor beside its type, if the program holds them with the tensor.
    pub tensor_properties: fn(&Tensor) -> Properties,
    /// The variable that holds the value of a parameter of this name.
    pub variable_of: fn(&str) -> &str,
    /// The variables that a program needs parameters for, as far as the program declares them.
    pub parameters: fn(&Program) -> Vec<String>,
    /// The weights that a program holds in operators and subgraphs, in its order; names may repeat.
    pub embedded: fn(&Program) -> Vec<Parameter>,
    /// The attribute that records where in a training script an operator was made.
    pub source: Option<&'static str>,
    /// Whether an attribute adds nothing to its operator because it equals the default or repeats the inputs.
    pub is_implied: fn(&Program, &Op, &Attribute) -> bool,
    /// Whether an attribute affects what an operator computes, unlike roles, devices and types of values, which the
    /// framework keeps for itself.
    pub is_semantic: fn(&str) -> bool,
    /// Further notes for users, one sentence each.
    pub notes: fn(&Program) -> Vec<String>,
    /// Notes on parameters that the program does not use as they are stored, one sentence each: without the program, they
    /// are another model.
    pub unused_values: fn(&Model) -> Vec<String>,
}

/// The inputs and outputs of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interface<'a> {
    /// Names of the variables that are fed, in order.
    pub inputs: Vec<&'a str>,
    /// Names of the variables that are fetched, in order.
    pub outputs: Vec<&'a str>,
}

/// Returns the conventions of a program's dialect.
pub fn conventions(program: &Program) -> &'static Conventions {
    const ALL: ByDialect<&Conventions> = ByDialect {
        paddle: &paddle::CONVENTIONS,
        pir: &pir::CONVENTIONS,
        mxnet: &mxnet::CONVENTIONS,
        onnx: &onnx::CONVENTIONS,
        glow: &glow::CONVENTIONS,
        caffe2: &caffe2::CONVENTIONS,
        torch: &torch::CONVENTIONS,
    };
    ALL.of(program.dialect)
}

/// Returns the operators of a program that are not `known`, as (domain, kind), sorted and without duplicates.
pub(crate) fn unknown_operators(
    program: &Program,
    known: impl Fn(&str, &str) -> bool,
) -> Vec<(&str, &str)> {
    let operators: BTreeSet<_> =
        program.ops().map(|op| (op.domain.as_str(), op.kind.as_str())).collect();
    operators.into_iter().filter(|(domain, kind)| !known(domain, kind)).collect()
}

impl Conventions {
    /// Returns the number of operators that record where in a training script they were made.
    pub fn count_source(&self, program: &Program) -> usize {
        let Some(source) = self.source else { return 0 };
        let says = |value: &AttributeValue| !matches!(value, AttributeValue::Strings(lines) if lines.is_empty());
        program.ops().filter(|op| op.attribute(source).is_some_and(says)).count()
    }

    /// Whether an attribute is part of what an operator means: it neither records where the operator was made nor is
    /// implied.
    pub fn is_significant(&self, program: &Program, op: &Op, attribute: &Attribute) -> bool {
        Some(attribute.name.as_str()) != self.source && !(self.is_implied)(program, op, attribute)
    }

    /// Removes the attributes that record where operators were made.
    pub fn strip_source(&self, program: &mut Program) {
        let Some(source) = self.source else { return };
        for op in program.blocks.iter_mut().flat_map(|block| &mut block.ops) {
            op.attributes.retain(|attribute| attribute.name != source);
        }
    }
}

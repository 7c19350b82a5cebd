//! ONNX: the interface of its programs, and their conventions.
//!
//! | module | contents |
//! |---|---|
//! | `operators`, `releases`, `types`, `bound` | every version of every operator, the opsets of each release, the lowest opset that has an operator |
//! | `scopes`, `blocks`, `embedded` | walking programs with subgraphs and functions; tensors in attributes |
//! | `check` | the rules of the specification |
//! | `infer` | types, dims and small contents of all values |
//! | `upgrade`, `downgrade`, `inline` | other opsets; functions in place of their calls |
//! | `simplify` | fewer operators with the same results |

mod attributes;
mod blocks;
mod bound;
mod cast;
mod check;
pub mod downgrade;
pub mod dtype;
mod embedded;
pub mod infer;
mod inline;
mod names;
mod operators;
mod releases;
pub mod scopes;
pub mod simplify;
mod types;
mod upgrade;

pub use attributes::meaning;
pub use blocks::subprogram;
pub use bound::{admits, lowest_opset};
pub use cast::{CastOptions, Change, Kept, cast};
pub use check::{check, check_with};
pub use downgrade::{DowngradeError, downgrade};
pub use inline::inline;
pub use operators::{
    AttributeSpec, Count, Formal, Operator, Presence, domain_name, operator, operators, versions,
};
pub use releases::{
    NEWEST_OPSET, Release, domains, introduced, ir_version_of_opset, newest_ir_version,
    newest_opset, releases,
};
pub use types::{attribute_kind, tensor_name, type_name};
pub use upgrade::{UpgradeError, changes, upgrade, upgrade_with};

use std::collections::{HashMap, HashSet};

use embedded::embedded;
use infer::{Inference, Options};
use lodstone_model::{Attribute, Block, Dialect, Model, Op, Program};

use crate::Risk;
use crate::training::{Row, training};
use crate::{Conventions, Findings, Interface, Properties, conventions, prune};

/// ONNX's conventions.
pub static CONVENTIONS: Conventions = Conventions {
    is_ssa: true,
    is_semantic: |_| true,
    framework: "ONNX 1.23.2",
    has_opsets: true,
    version: |version| format!("IR {version}"),
    interface,
    select: prune::select_listed,
    sharing: None,
    training: |op| training(TRAINING, &op.kind, op),
    scope,
    unknown_operators,
    // The domains of ONNX Runtime.
    runtime_domains: &["com.microsoft"],
    check: rules,
    infer,
    risk,
    flags: |_| &[],
    var_properties: |_| Properties::default(),
    tensor_properties: |_| Properties::default(),
    variable_of: |parameter| parameter,
    parameters: |_| Vec::new(),
    embedded,
    source: None,
    is_implied: is_default,
    notes,
    unused_values: |_| Vec::new(),
};

/// Whether an attribute equals its operator's default. (Functions have their own opset imports: their operators are
/// looked up in those of the model, which must be compatible.)
fn is_default(program: &Program, op: &Op, attribute: &Attribute) -> bool {
    let sets = &program.operator_versions;
    let set = sets.iter().find(|(domain, _)| domain_name(domain) == domain_name(&op.domain));
    let known = set.and_then(|(_, version)| operator(&op.domain, &op.kind, *version));
    let parameter = known.and_then(|known| known.attribute(&attribute.name));
    parameter.is_some_and(|parameter| parameter.default.as_ref() == Some(&attribute.value))
}

/// Infers the types of a model. Other dialects in the same messages have no rules here.
fn infer(model: &Model) -> Option<Inference> {
    let program = model.main().filter(|program| program.dialect == Dialect::Onnx);
    program.map(|_| infer::infer(model, &Options::default().with_dead_branches(true)))
}

/// What operators record for training. The momentum of statistics is what they keep. The ratio of a dropout is an input from
/// opset 12 on.
const TRAINING: &[Row] = &[
    Row {
        kinds: &["BatchNormalization"],
        momentum: Some(("momentum", 0.9)),
        epsilon: Some(("epsilon", 1e-5)),
        is_test: Some(("training_mode", false, true)),
        ..Row::NONE
    },
    Row {
        kinds: &["GroupNormalization", "InstanceNormalization", "LayerNormalization"],
        epsilon: Some(("epsilon", 1e-5)),
        ..Row::NONE
    },
];

/// Returns the scope of an operator, which exporters write into its name: `/encoder/layer.0`.
fn scope(op: &Op) -> String {
    let scope = op.name.rsplit_once('/').map(|(scope, _)| scope.to_owned());
    scope.unwrap_or_default() // The name has none.
}

/// Returns the inputs that have no initializer, and the outputs. (Up to IR version 3, every initializer also had to be
/// an input.)
fn interface(program: &Program) -> Interface<'_> {
    let Some(main) = program.blocks.first() else { return Interface::default() };
    let initialised: HashSet<&str> =
        main.vars.iter().filter(|var| var.persistable).map(|var| var.name.as_str()).collect();
    let inputs = main.inputs.iter().map(String::as_str);
    Interface {
        inputs: inputs.filter(|name| !initialised.contains(name)).collect(),
        outputs: main.outputs.iter().map(String::as_str).collect(),
    }
}

/// Operators that run code from outside of the model, or load a file of it, by kind: those of ONNX Runtime (`com.microsoft`)
/// that call Python and its compilers, or an accelerator's compiled graph, which is in the model or in a file that it
/// names.
const RUNS: &[&str] =
    &["ATen", "EPContext", "PyCustomOp", "PyOp", "PythonOp", "PythonOpGrad", "Snpe", "TritonOp"];

fn risk(kind: &str) -> Option<Risk> {
    RUNS.contains(&kind).then_some(Risk::Runs)
}

/// Checks the rules of ONNX, including inferred types of values without a declared type.
fn rules(model: &Model, inference: Option<&Inference>) -> Findings {
    let types = |values: &HashMap<String, infer::ValueInfo>| {
        values.iter().map(|(name, info)| (name.clone(), info.value.clone())).collect()
    };
    let inferred: Option<Vec<_>> = inference.map(|i| i.blocks.iter().map(types).collect());
    check_with(model, &inferred.unwrap_or_default())
}

/// Returns the operators that no version of an ONNX opset has and no function of the program defines.
fn unknown_operators(program: &Program) -> Vec<(&str, &str)> {
    let own: HashSet<(&str, &str)> = program
        .functions
        .iter()
        .map(|function| (domain_name(&function.domain), function.name.as_str()))
        .collect();
    conventions::unknown_operators(program, |domain, kind| {
        versions(domain, kind).next().is_some()
            || operators::is_of_runtime(domain, kind)
            || own.contains(&(domain_name(domain), kind))
    })
}

/// Reports opsets that are newer than the known ones and therefore cannot be checked.
fn notes(program: &Program) -> Vec<String> {
    let newer = |(domain, version): &(String, i64)| {
        let newest = newest_opset(domain).filter(|newest| version > newest)?;
        let domain = quoted(domain_name(domain));
        Some(format!(
            "the program uses version {version} of {domain}; the newest known is {newest}"
        ))
    };
    program.operator_versions.iter().filter_map(newer).collect()
}

/// Returns the inputs of a body that `given` values bind. Up to IR version 3, initializers, including those of a body,
/// are also listed as inputs; they are bound only if all inputs are.
pub fn formal_inputs(body: &Block, given: usize) -> Vec<&String> {
    if body.inputs.len() == given || body.initializers.is_empty() {
        return body.inputs.iter().collect();
    }
    let constant: HashSet<&str> =
        body.initializers.iter().map(|parameter| parameter.name.as_str()).collect();
    body.inputs.iter().filter(|name| !constant.contains(name.as_str())).collect()
}

/// Formats the place of an operator: "the graph, operator 3 (`Conv` `conv1`)".
pub fn place_of(block: &str, number: usize, op: &Op) -> String {
    match op.name.as_str() {
        "" => format!("{block}, operator {number} ({})", quoted(&op.kind)),
        name => format!("{block}, operator {number} ({} {})", quoted(&op.kind), quoted(name)),
    }
}

/// Quotes a name for a message. Names come from the file and may have any length.
pub fn quoted(name: &str) -> String {
    const LONGEST: usize = 100;
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("`{}..`", name.get(..end).unwrap_or_default()),
        None => format!("`{name}`"),
    }
}

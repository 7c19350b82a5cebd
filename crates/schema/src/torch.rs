//! PyTorch's conventions and operators.
//!
//! | part of a program | representation |
//! |---|---|
//! | an operator | its kind is the name of the schema: `aten::add.Tensor`, `aten::conv2d`, `prim::Constant` |
//! | an argument with values of the program | a slot with the name of the argument; `None` in a list is an empty name |
//! | a constant argument | an attribute with the name of the argument; arguments that equal their default may be absent |
//! | a list of which a member is a value | a slot: its other members are results of `prim::Constant` |
//! | `ScalarType` | an attribute of the kind `Type` |
//! | `Device`, `Layout`, `MemoryFormat` | an attribute of the kind `String`: `cuda:0`, `strided`, `channels_last` |
//! | a result | a slot with its name in the schema, or its position; a list has all its members in one slot |
//! | an operator with subgraphs | `higher_order::cond`, `prim::If`, ...: attributes that are blocks, in order |
//! | arithmetic of sizes | `_operator::add`, `math::trunc`, ...: operands in the slots `a`, `b`, ... |
//! | a parameter, buffer or constant | a persistable variable of the main block; its name is that of the module's attribute |
//! | a size, number or truth value | a variable of the type `Scalar` |
//!
//! Operators whose name ends with `_` write to their first argument. Some results are views of an argument: what is
//! written to one is seen through the other. A parameter that an operator writes to is state of the module.
//!
//! Source of truth: the registry of PyTorch 2.15.

mod operators;
mod types;

pub use operators::{Argument, Operator, Returned, operator, overloads};
pub use types::{script_code, script_type};

use lodstone_model::{AttributeValue, ByteString, Op, Program};

use crate::training::{Row, training};
use crate::{
    Conventions, Findings, Interface, Properties, Risk, Sharing, Training, conventions, prune,
};

/// PyTorch's conventions.
pub static CONVENTIONS: Conventions = Conventions {
    is_ssa: false,
    is_semantic: |_| true,
    framework: "PyTorch (2.15)",
    has_opsets: false,
    version: |version| version.to_string(),
    interface,
    select: prune::select_listed,
    sharing: Some(Sharing { changed, shares }),
    training: training_of,
    scope,
    unknown_operators: |program| conventions::unknown_operators(program, |_, kind| is_known(kind)),
    runtime_domains: &[],
    check: |_, _| Findings::default(),
    infer: |_| None,
    risk,
    variable_of: |parameter| parameter,
    flags: |_| &[],
    var_properties: |_| Properties::default(),
    tensor_properties: |_| Properties::default(),
    parameters: |program| {
        let main = program.blocks.iter().take(1);
        let vars = main.flat_map(|main| &main.vars).filter(|var| var.persistable);
        vars.map(|var| var.name.clone()).collect()
    },
    embedded: |_| Vec::new(),
    source: None,
    is_implied: |_, _, _| false,
    notes: |_| Vec::new(),
    unused_values: |_| Vec::new(),
};

/// What operators record for training. The momentum of statistics is the part of the new ones.
///
/// Source of truth: `native_functions.yaml` of PyTorch 2.15.
const TRAINING: &[Row] = &[
    Row {
        kinds: &[
            "aten::batch_norm",
            "aten::_batch_norm_with_update",
            "aten::native_batch_norm",
            "aten::_native_batch_norm_legit",
            "aten::_native_batch_norm_legit_no_training",
            "aten::cudnn_batch_norm",
        ],
        momentum: Some(("momentum", 0.1)),
        epsilon: Some(("eps", 1e-5)),
        is_test: Some(("training", false, true)),
        ..Row::NONE
    },
    Row {
        kinds: &["aten::instance_norm"],
        momentum: Some(("momentum", 0.1)),
        epsilon: Some(("eps", 1e-5)),
        is_test: Some(("use_input_stats", true, true)),
        ..Row::NONE
    },
    Row {
        kinds: &[
            "aten::group_norm",
            "aten::layer_norm",
            "aten::native_layer_norm",
            "aten::native_group_norm",
        ],
        epsilon: Some(("eps", 1e-5)),
        ..Row::NONE
    },
    Row {
        kinds: &[
            "aten::dropout",
            "aten::dropout_",
            "aten::feature_dropout",
            "aten::alpha_dropout",
            "aten::native_dropout",
        ],
        dropout: Some(("p", 0.5)),
        is_test: Some(("train", true, true)),
        ..Row::NONE
    },
];

fn training_of(op: &Op) -> Training {
    let kind = op.kind.split('.').next().unwrap_or(&op.kind); // Without its overload.
    training(TRAINING, kind, op)
}

/// The path of the module in which an operator was made.
const SCOPE: &str = "torch.scope";

/// Returns the path of the module in which an operator was made: `encoder.layers.0`; empty if it is not recorded, or the
/// operator is one of the model itself.
pub fn scope(op: &Op) -> String {
    match op.reserved.get(SCOPE) {
        Some(AttributeValue::String(scope)) => scope.to_string(),
        _ => String::new(),
    }
}

/// Sets the path of the module in which an operator was made.
pub fn set_scope(op: &mut Op, scope: &str) {
    if !scope.is_empty() {
        op.reserved.set(SCOPE, Some(AttributeValue::String(ByteString::from(scope))));
    }
}

/// Returns the inputs and outputs of the program, without parameters.
fn interface(program: &Program) -> Interface<'_> {
    let Some(main) = program.blocks.first() else { return Interface::default() };
    Interface {
        inputs: main.inputs.iter().map(String::as_str).collect(),
        outputs: main.outputs.iter().map(String::as_str).collect(),
    }
}

/// Whether an operator writes to its first argument, by its name.
pub fn is_written(kind: &str) -> bool {
    let name = kind.split('.').next().unwrap_or(kind);
    name.ends_with('_') && !name.ends_with("__")
}

/// The operator that changes a parameter of the module.
pub const SET_ATTRIBUTE: &str = "prim::SetAttr";

/// Returns the operands that an operator writes to.
fn changed(op: &Op) -> Vec<&str> {
    let slots = operator(&op.kind).map_or(&[][..], |operator| &operator.arguments);
    let written = slots.iter().filter(|slot| slot.is_written).flat_map(|slot| op.input(slot.name));
    let is_first = is_written(&op.kind) || op.kind == SET_ATTRIBUTE;
    let first = op.inputs.first().filter(|_| is_first).and_then(|operand| operand.args.first());
    written.chain(first).map(String::as_str).collect()
}

/// Whether results of an operator may be views of its operands, lists of them, or the operands themselves.
fn shares(op: &Op) -> bool {
    operator(&op.kind).is_none_or(|known| known.results.iter().any(|result| result.is_alias))
}

/// Namespaces of operators without a schema: control flow, arithmetic of sizes, and what only the interpreter has.
const WITHOUT_SCHEMA: &[&str] = &["_operator", "higher_order", "math", "prim", "torch", "upgrader"];

/// Operators of TorchScript's lists, which have no schema.
const OF_LISTS: &[&str] = &["aten::__getitem__", "aten::append", "aten::dim", "aten::len"];

/// Whether an operator exists.
pub fn is_known(kind: &str) -> bool {
    let namespace = kind.split_once("::").map_or("", |(namespace, _)| namespace);
    WITHOUT_SCHEMA.contains(&namespace) || OF_LISTS.contains(&kind) || operator(kind).is_some()
}

/// Operators with side effects beyond the values of the program, without their overload.
const RISKS: &[(Risk, &[&str])] = &[
    (
        Risk::Runs,
        &[
            "prim::PythonOp",
            "prim::IgnoredPythonOp",
            "higher_order::triton_kernel_wrapper_mutation",
        ],
    ),
    (Risk::Reads, &["aten::from_file", "image::read_file"]),
    (Risk::Writes, &["aten::save", "image::write_file", "prim::Print", "higher_order::print"]),
    (Risk::Connects, &["prim::rpc_async", "prim::rpc_remote", "prim::rpc_sync"]),
];

fn risk(kind: &str) -> Option<Risk> {
    let name = kind.split('.').next().unwrap_or(kind);
    RISKS.iter().find(|(_, kinds)| kinds.contains(&name)).map(|(risk, _)| *risk)
}

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

use lodstone_model::Program;

use crate::{Conventions, Findings, Interface, Properties, Risk, conventions};

/// PyTorch's conventions.
pub static CONVENTIONS: Conventions = Conventions {
    is_ssa: false,
    is_semantic: |_| true,
    framework: "PyTorch (2.15)",
    has_opsets: false,
    version: |version| version.to_string(),
    interface,
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

/// Returns the inputs and outputs of the program, without parameters.
fn interface(program: &Program) -> Interface<'_> {
    let Some(main) = program.blocks.first() else { return Interface::default() };
    Interface {
        inputs: main.inputs.iter().map(String::as_str).collect(),
        outputs: main.outputs.iter().map(String::as_str).collect(),
    }
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

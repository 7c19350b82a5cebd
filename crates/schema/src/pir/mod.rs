//! PaddlePaddle 3's conventions and operators: PIR.
//!
//! - Parameters are operators `builtin.parameter`; other saved values are persistable inputs (`pd_op.data`). The saved
//!   values, sorted by name, are those of the parameter file.
//! - Inputs are the other operators `pd_op.data` and `pd_op.feed`, outputs the results of `pd_op.fetch`, in the order of
//!   their columns.
//! - `struct_name` is the path of the layer that made an operator.
//!
//! Source of truth: `paddle/fluid/pir` of PaddlePaddle, and the registry of 3.3.1.

mod operators;
mod select;

pub use operators::{Attribute, Operand, OperandKind, Operator, Result, operator, operators};

use std::borrow::Cow;
use std::collections::HashSet;

use lodstone_model::{AttributeValue, Op, Program, Var};

use crate::training::{Row, training};
use crate::{Conventions, Findings, Interface, Properties, conventions, paddle};

/// The operator that declares a parameter.
pub const PARAMETER: &str = "builtin.parameter";

/// The operator of an input, or of a saved value that is not a parameter.
pub const DATA: &str = "pd_op.data";

/// The operator of an input in older programs.
pub const FEED: &str = "pd_op.feed";

/// The operator of an output.
pub const FETCH: &str = "pd_op.fetch";

/// The prefix of PaddlePaddle's own operators.
pub const OWN: &str = "pd_op.";

/// The attribute with the name of a parameter, an input or an output.
pub const NAME: &str = "name";

/// The attribute with the blocks that an operator runs.
pub const REGIONS: &str = "regions";

/// The attribute of a parameter that marks one that is distributed over devices.
pub const IS_DISTRIBUTED: &str = "is_distributed";

/// The attribute of a parameter whose gradient may be clipped.
pub const NEED_CLIP: &str = "need_clip";

/// The attribute of a program that can be trained, and of a parameter that is trained.
pub const TRAINABLE: &str = "trainable";

/// The attribute with the path of the layer that made an operator: `/Sequential_1/Conv2D/`.
pub const LAYER: &str = "struct_name";

/// The dialects of PIR by number.
const DIALECTS: [&str; 5] = ["builtin", "pd_op", "cf", "custom_op", "pd_dist"];

/// PIR's conventions.
pub static CONVENTIONS: Conventions = Conventions {
    is_ssa: true,
    is_semantic: |attribute| !attribute.starts_with("op_") && attribute != LAYER,
    framework: "PaddlePaddle 3.3.1",
    has_opsets: false,
    version: |version| match version {
        // Development builds write 0.
        0 => "development".to_owned(),
        version => format!("{version} (PaddlePaddle {})", release(version)),
    },
    interface,
    select: select::select,
    sharing: None,
    training: |op| training(TRAINING, &op.kind, op),
    scope: |_| String::new(),
    unknown_operators,
    runtime_domains: &[],
    check: |_, _| Findings::default(),
    infer: |_| None,
    risk: |kind| paddle::operator(operator(kind).and_then(|row| row.kind).unwrap_or(kind))?.risk,
    flags: paddle::CONVENTIONS.flags,
    var_properties,
    tensor_properties: paddle::CONVENTIONS.tensor_properties,
    variable_of: |parameter| parameter,
    parameters: |program| paddle::saved(program).into_iter().map(|var| var.name.clone()).collect(),
    embedded: |_| Vec::new(),
    source: None,
    is_implied: |_, _, _| false,
    notes: |_| Vec::new(),
    unused_values: |_| Vec::new(),
};

/// Returns whether training changes a parameter. Programs that cannot be trained record nothing.
fn var_properties(var: &Var) -> Properties {
    let attribute = var.attributes.iter().find(|attribute| attribute.name == TRAINABLE);
    let is_trainable = attribute.is_some_and(|it| it.value == AttributeValue::Bool(true));
    let is_fixed = var.is_parameter && paddle::stop_gradient(var);
    let trainable = (is_trainable || is_fixed).then_some(is_trainable);
    Properties { trainable, ..Properties::default() }
}

/// Returns the release that writes a version of the format.
fn release(version: i64) -> String {
    match version {
        1 => "3.0".to_owned(),
        2 => "3.1".to_owned(),
        3 => "3.2".to_owned(),
        4 => "3.3".to_owned(),
        _ => "after 3.3".to_owned(),
    }
}

/// Returns the name of an operator (`pd_op.conv2d`) by the one in a file, in which the dialect is a number (`1.conv2d`).
pub fn full_name(name: &str) -> Cow<'_, str> {
    let split = name.split_once('.');
    let known = split.and_then(|(dialect, kind)| {
        let dialect = DIALECTS.get(dialect.parse::<usize>().ok()?)?;
        Some(format!("{dialect}.{kind}"))
    });
    known.map_or(Cow::Borrowed(name), Cow::Owned)
}

/// Whether an operator is an input of the program or a persistable value.
pub fn is_input(op: &Op) -> bool {
    [DATA, FEED].contains(&op.kind.as_str())
}

/// Returns the value that an operator fetches, if the output has the name of the value: inputs and parameters keep
/// theirs.
pub fn fetched(op: &Op) -> Option<&str> {
    let (value, name) = (op.input("").first()?, op.attribute(NAME)?);
    match name {
        AttributeValue::String(name) if name.0 == value.as_bytes() => Some(value),
        _ => None,
    }
}

/// What operators record for training.
///
/// Source of truth: `ops.yaml` of PaddlePaddle 3.3.1.
const TRAINING: &[Row] = &[
    Row {
        kinds: &["pd_op.batch_norm", "pd_op.batch_norm_", "pd_op.sync_batch_norm_"],
        momentum: Some(("momentum", 0.9)),
        epsilon: Some(("epsilon", 1e-5)),
        is_test: Some(("is_test", false, false)),
        ..Row::NONE
    },
    Row {
        kinds: &["pd_op.group_norm", "pd_op.instance_norm", "pd_op.layer_norm"],
        epsilon: Some(("epsilon", 1e-5)),
        ..Row::NONE
    },
    Row {
        kinds: &["pd_op.dropout"],
        mode: Some(("mode", "upscale_in_train")),
        is_test: Some(("is_test", false, false)),
        ..Row::NONE
    },
];

/// Returns the interface of a program.
pub fn interface(program: &Program) -> Interface<'_> {
    let Some(main) = program.blocks.first() else { return Interface::default() };
    let persistable: HashSet<&str> =
        paddle::saved(program).into_iter().map(|var| var.name.as_str()).collect();
    let mut inputs = Vec::new();
    let mut outputs = Vec::new();
    for op in &main.ops {
        let column = match op.attribute("col") {
            Some(AttributeValue::Long(column)) => *column,
            _ => 0,
        };
        let results = op.output("").iter().map(String::as_str);
        if is_input(op) {
            inputs.extend(
                results.filter(|name| !persistable.contains(name)).map(|name| (column, name)),
            );
        } else if op.kind == FETCH {
            let name = fetched(op).into_iter().chain(results).next();
            outputs.extend(name.map(|name| (column, name)));
        }
    }
    let in_order = |mut named: Vec<(i64, _)>| {
        named.sort_by_key(|(column, _)| *column);
        named.into_iter().map(|(_, name)| name).collect()
    };
    Interface { inputs: in_order(inputs), outputs: in_order(outputs) }
}

/// Operators of PIR itself, and those of PaddlePaddle that are not in its registry of kernels.
const STRUCTURE: [&str; 17] = [
    PARAMETER,
    FETCH,
    "builtin.combine",
    "builtin.constant",
    "builtin.set_parameter",
    "builtin.shadow_output",
    "builtin.slice",
    "builtin.split",
    "cf.stack_create",
    "cf.tuple_pop",
    "cf.tuple_push",
    "cf.yield",
    "pd_op.assert",
    "pd_op.has_elements",
    "pd_op.if",
    "pd_op.select_input",
    "pd_op.while",
];

fn unknown_operators(program: &Program) -> Vec<(&str, &str)> {
    conventions::unknown_operators(program, |_, kind| {
        operator(kind).is_some() || STRUCTURE.contains(&kind)
    })
}

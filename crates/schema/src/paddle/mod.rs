//! PaddlePaddle's conventions and operators.
//!
//! - `feed` operators read column `col` of the feed holder into a variable, `fetch` operators write
//!   a variable to column `col`; their order in the file has no meaning (they are prepended).
//! - The saved variables are the persistable variables of all blocks that hold values, each name once,
//!   sorted by name (as bytes).
//! - `op_callstack` holds paths and source lines of the training script.
//!
//! Source of truth: `fluid/io.py` and `static/io.py` of PaddlePaddle; the registries of 1.8.5, 2.6.2
//! and 3.3.1.

mod activation;
mod attributes;
pub mod codes;
mod files;
mod gradients;
mod indices;
mod lod;
mod operators;
mod plan;
mod prune;
mod releases;
mod reserved;
mod roles;
mod stale;
pub mod types;

pub use activation::Activation;
pub use attributes::{
    AttributeSpec, attribute, attributes, check_attributes, closed_sets, input_type,
};
pub use files::{LOAD_MERGED, POSITION, SAVE_MERGED, is_load, is_merged, is_save, record_position};
pub use gradients::{EMPTY, GRAD, gradient_of, gradient_ops, has_gradient};
pub use indices::Indices;
pub use lod::{Levels, LodRule, Share, SharedLod};
pub use operators::{Choice, Computation, Operator, Slot, operator, operators, truncates};
pub use plan::{Plan, REASONS, Reason};
pub use prune::{for_test, prune};
pub use releases::Release;
pub use reserved::{
    forward_block, is_target, need_check_feed, set_forward_block, set_is_target,
    set_need_check_feed, set_stop_gradient, stop_gradient, with_stop_gradient,
};
pub use roles::{BACKWARD, LOSS, OPTIMIZES, SCHEDULES, loss, role};
pub use stale::{StaleSave, stale_saves};

use std::collections::{BTreeMap, HashSet};

use lodstone_model::{AttributeValue, Holder, Op, Program, ValueType, Var};

use crate::training::{Row, training};
use crate::{Conventions, Interface, Properties, conventions};

/// The attribute that records where an operator was created.
pub const CALLSTACK: &str = "op_callstack";

/// The prefix of operators that PaddlePaddle does not have, and therefore rejects.
pub const OWN: &str = "lodstone.";

/// Returns the output slot of an optimizer that writes the variable of an input slot: `ParamOut` for `Param`.
pub fn updated_slot(input: &str) -> String {
    match input {
        "LinearAccumulator" => "LinearAccumOut".to_owned(),
        "SquaredAccumulator" => "SquaredAccumOut".to_owned(),
        _ => format!("{input}Out"),
    }
}

/// PaddlePaddle's conventions.
pub static CONVENTIONS: Conventions = Conventions {
    is_ssa: false,
    is_semantic: |attribute| !attribute.starts_with("op_"),
    framework: "PaddlePaddle 1.8.5, 2.6.2 and 3.3.1",
    has_opsets: false,
    version,
    interface,
    select: prune::select,
    sharing: None,
    training: |op| training(TRAINING, &op.kind, op),
    scope,
    unknown_operators,
    runtime_domains: &[],
    check: |model, _| attributes::check(model),
    infer: |_| None,
    risk: |kind| operator(kind)?.risk,
    flags: |var| if stop_gradient(var) { &["stop_gradient"] } else { &[] },
    var_properties: |var| Properties {
        trainable: var.is_parameter.then(|| !stop_gradient(var)),
        ..Properties::default()
    },
    tensor_properties: |_| Properties::default(),
    variable_of: |parameter| parameter,
    parameters: |program| wanted(program).into_iter().map(|var| var.name.clone()).collect(),
    embedded: |_| Vec::new(),
    source: Some(CALLSTACK),
    is_implied: |_, _, _| false,
    notes: |program| stale_saves(program).iter().map(StaleSave::to_string).collect(),
    unused_values: |_| Vec::new(),
};

/// Formats a version: `2006002` is 2.6.2; 1.2 and older, and development builds, write 0.
fn version(version: i64) -> String {
    if version < 1_000_000 {
        return version.to_string();
    }
    format!("{}.{}.{}", version / 1_000_000, version / 1000 % 1000, version % 1000)
}

/// Whether PaddlePaddle saves the value of a variable with a model.
pub fn is_saved(var: &Var) -> bool {
    let is_unsaved = matches!(
        var.value,
        ValueType::Holder(
            Holder::FeedMinibatch
                | Holder::FeedList
                | Holder::FetchList
                | Holder::Reader(_)
                | Holder::Raw
        )
    );
    var.persistable && !is_unsaved
}

/// Returns the variables that are saved with a program, in the order of a combined file.
pub fn saved(program: &Program) -> Vec<&Var> {
    let by_name: BTreeMap<&str, &Var> =
        program.vars().filter(|var| is_saved(var)).map(|var| (var.name.as_str(), var)).collect();
    by_name.into_values().collect()
}

/// Returns the variables that are saved with a program, without those that it fills itself: a loader loads them, and a
/// startup program initializes them.
pub fn wanted(program: &Program) -> Vec<&Var> {
    let (mut read, mut filled) = (HashSet::new(), HashSet::new());
    for op in program.blocks.first().into_iter().flat_map(|block| &block.ops) {
        read.extend(op.reads());
        filled.extend(op.writes().filter(|name| !read.contains(name)));
    }
    let mut wanted = saved(program);
    wanted.retain(|var| !filled.contains(var.name.as_str()));
    wanted
}

/// Returns the variables that the main block reads before it writes them, in the order of their first use: inputs from
/// outside and persistable variables.
pub fn needed(program: &Program) -> Vec<&str> {
    let (mut seen, mut needed) = (HashSet::from([EMPTY]), Vec::new());
    for op in program.blocks.first().into_iter().flat_map(|block| &block.ops) {
        needed.extend(op.reads().filter(|name| seen.insert(*name)));
        seen.extend(op.writes());
    }
    needed
}

/// What operators record for training. The momentum of statistics is what they keep.
///
/// Source of truth: `batch_norm_op.cc`, `dropout_op.cc` of PaddlePaddle 2.6.2.
const TRAINING: &[Row] = &[
    Row {
        kinds: &["batch_norm", "sync_batch_norm"],
        momentum: Some(("momentum", 0.9)),
        epsilon: Some(("epsilon", 1e-5)),
        is_test: Some(("is_test", false, false)),
        ..Row::NONE
    },
    Row {
        kinds: &["group_norm", "instance_norm", "layer_norm"],
        epsilon: Some(("epsilon", 1e-5)),
        ..Row::NONE
    },
    Row {
        kinds: &["dropout"],
        dropout: Some(("dropout_prob", 0.5)),
        mode: Some(("dropout_implementation", "downgrade_in_infer")),
        is_test: Some(("is_test", false, false)),
        ..Row::NONE
    },
];

/// Returns the name scope of an operator: `/layer1/`.
fn scope(op: &Op) -> String {
    match op.attribute("op_namescope") {
        Some(AttributeValue::String(scope)) if scope.0 != b"/".as_slice() => scope.to_string(),
        _ => String::new(), // The outermost one, or not recorded.
    }
}

/// Returns the interface of a program. The inputs of a program without `feed` operators, such as a training program, are
/// the variables with `need_check_feed`, or, up to 1.6, those that the main block reads before it writes them.
pub fn interface(program: &Program) -> Interface<'_> {
    let column = |op: &Op| match op.attribute("col") {
        Some(AttributeValue::Int(column)) => *column,
        _ => 0,
    };
    let in_order = |kind: &str, args: fn(&Op) -> &[String]| {
        let mut ops: Vec<_> = program.ops().filter(|op| op.kind == kind).collect();
        ops.sort_by_key(|op| column(op));
        ops.into_iter().flat_map(args).map(String::as_str).collect::<Vec<_>>()
    };
    let mut inputs = in_order("feed", |op| op.output("Out"));
    if inputs.is_empty() {
        let fed = program.vars().filter(|var| need_check_feed(var) && !var.persistable);
        inputs = fed.map(|var| var.name.as_str()).collect();
    }
    if inputs.is_empty() {
        let persist: HashSet<&str> =
            program.vars().filter(|var| var.persistable).map(|var| var.name.as_str()).collect();
        inputs = needed(program);
        inputs.retain(|name| !persist.contains(name));
    }
    Interface { inputs, outputs: in_order("fetch", |op| op.input("X")) }
}

/// Returns the operators that no release of PaddlePaddle has, sorted and without duplicates. Gradients are not in the
/// registries: they are known if their forward operator is.
pub fn unknown_operators(program: &Program) -> Vec<(&str, &str)> {
    let is_registered = |kind: &str| operator(kind).is_some_and(|row| !row.releases.is_empty());
    conventions::unknown_operators(program, |_, kind| {
        // `relu_grad`, `relu_grad_grad`; `cross_entropy_grad2` is that of `cross_entropy2`.
        is_registered(kind) || is_registered(&kind.replace("_grad", ""))
    })
}

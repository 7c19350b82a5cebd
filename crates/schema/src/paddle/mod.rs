//! PaddlePaddle's conventions and operators.
//!
//! - `feed` operators read column `col` of the feed holder into a variable, `fetch` operators write
//!   a variable to column `col`; their order in the file says nothing (they are prepended).
//! - What is saved are the persistable variables of all blocks that hold values, each name once,
//!   sorted by name (as bytes).
//! - `op_callstack` holds paths and source lines of the training script.
//!
//! Source of truth: `fluid/io.py` and `static/io.py` of PaddlePaddle; the registries of 1.8.5, 2.6.2
//! and 3.3.1.

mod attributes;
pub mod codes;
mod gradients;
mod operators;
mod reserved;

pub use attributes::{Parameter, attribute, attributes};
pub use gradients::{EMPTY, GRAD, gradient_of, gradient_ops, has_gradient};
pub use operators::{
    Choice, Computation, LodRule, Operator, Share, SharedLod, Slot, operator, operators,
};
pub use reserved::{
    forward_block, is_target, need_check_feed, set_forward_block, set_is_target,
    set_need_check_feed, set_stop_gradient, stop_gradient, with_stop_gradient,
};

use std::collections::{BTreeMap, HashSet};

use lodstone_model::{AttributeValue, Holder, Op, Program, ValueType, Var};

use crate::{Conventions, Findings, Interface, conventions};

/// The attribute in which PaddlePaddle keeps where an operator was made.
pub const CALLSTACK: &str = "op_callstack";

/// PaddlePaddle's conventions, for who has a program of any framework.
pub static CONVENTIONS: Conventions = Conventions {
    is_ssa: false,
    is_told: |attribute| !attribute.starts_with("op_"),
    framework: "PaddlePaddle 1.8.5, 2.6.2 and 3.3.1",
    has_operator_sets: false,
    version,
    interface,
    unknown_operators,
    runtime_domains: &[],
    check: |_, _| Findings::default(),
    infer: |_| None,
    risk: |kind| operator(kind)?.risk,
    flags: |var| if stop_gradient(var) { &["stop_gradient"] } else { &[] },
    variable_of: |parameter| parameter,
    parameters: |program| wanted(program).into_iter().map(|var| var.name.clone()).collect(),
    source: Some(CALLSTACK),
    is_implied: |_, _, _| false,
    notes: |_| Vec::new(),
};

/// `2006002` is 2.6.2; 0 is what 1.2 and older, and development builds, write.
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

/// The variables that are saved with a program, in the order in which a combined file has them.
pub fn saved(program: &Program) -> Vec<&Var> {
    let by_name: BTreeMap<&str, &Var> =
        program.vars().filter(|var| is_saved(var)).map(|var| (var.name.as_str(), var)).collect();
    by_name.into_values().collect()
}

/// The variables that are saved with a program, but for those that it fills itself: a loader loads them, and a startup
/// program begins them.
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

/// The variables that a program reads before anything in it writes them, in this order: those that come from
/// outside, and those that persist.
pub fn needed(program: &Program) -> Vec<&str> {
    let (mut seen, mut needed) = (HashSet::from([EMPTY]), Vec::new());
    for op in program.blocks.first().into_iter().flat_map(|block| &block.ops) {
        needed.extend(op.reads().filter(|name| seen.insert(*name)));
        seen.extend(op.writes());
    }
    needed
}

/// What goes in and out. A program without `feed` operators (one that trains) is fed by the
/// variables that it declares to check, or, up to 1.6, by those that nothing in it writes.
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

/// Operators that no release of PaddlePaddle has, each once, sorted. Gradients are not in the
/// registries: they are known if what they are the gradient of is.
pub fn unknown_operators(program: &Program) -> Vec<(&str, &str)> {
    let is_registered = |kind: &str| operator(kind).is_some_and(|row| !row.releases.is_empty());
    conventions::unknown_operators(program, |_, kind| {
        // `relu_grad`, `relu_grad_grad`; `cross_entropy_grad2` is that of `cross_entropy2`.
        is_registered(kind) || is_registered(&kind.replace("_grad", ""))
    })
}

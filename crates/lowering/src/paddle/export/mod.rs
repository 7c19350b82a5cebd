//! Export of whole programs to ONNX.
//!
//! Each operator is lowered by the rule that also runs it. This folder adds what a program is beyond its operators:
//!
//! | PaddlePaddle | ONNX | by |
//! |---|---|---|
//! | variables, written any number of times | values, written once | `scope` |
//! | `feed` and `fetch`; persistable variables | inputs and outputs; initializers | `walk` |
//! | `while`, `conditional_block` | `Loop`, `If` | `control` |
//! | arrays of tensors | sequences | `arrays` |
//! | rank tables of sequences | two tensors | `ranks` |
//! | Viterbi's algorithm | two `Scan` | `paths` |
//! | convolutions to which a bias is added | convolutions with a bias | `fuse` |
//! | LoD | inputs `NAME.lod0`, `NAME.lod1`, ... with the offsets of each level | `walk` |
//!
//! Training programs are reduced to inference first. The result has the newest opset, as the rules emit it.
//!
//! Source of truth: the executor of PaddlePaddle 2.6.2, and results that it gave.

mod arrays;
mod control;
mod finish;
mod fuse;
mod paths;
mod ranks;
mod scope;
mod walk;

use std::collections::BTreeSet;

use lodstone_model::{Model, Op, Program, Report, ValueType, Var};
use lodstone_schema::paddle::{
    BACKWARD, OPTIMIZES, for_test, interface, loss, operator, prune, role,
};
use lodstone_schema::{Finding, Findings, Origins};

use crate::{LowerOptions, OperatorCoverage};
use walk::Walk;

/// Translates the main program of a model to ONNX, with its parameters.
///
/// # Errors
/// All operators that have no rule, and all contradictions, with their places.
pub(crate) fn to_onnx(
    model: &Model,
    options: &LowerOptions,
    report: &mut Report,
) -> Result<(Model, Origins), Findings> {
    let whole = |finding: Finding| {
        let mut findings = Findings::default();
        findings.add("the program", finding);
        findings
    };
    let program = model.main().ok_or_else(|| whole("expected a program, found none".into()))?;
    let (program, outputs) = inference(program, report).map_err(whole)?;
    let mut walk = Walk::new(model, &program, &outputs, options)?;
    walk.inputs();
    walk.main();
    walk.finish(report)
}

/// Returns the part of a program that computes its outputs, for evaluation, and the outputs. A program without `fetch` operators computes
/// the variables that none of its operators reads.
fn inference(program: &Program, report: &mut Report) -> Result<(Program, Vec<String>), Finding> {
    let trains = program.ops().any(|op| role(op) & (BACKWARD | OPTIMIZES) != 0);
    let tested = for_test(program);
    let before = interface(&tested);
    let outputs: Vec<&str> = match before.outputs.is_empty() {
        true => leaves(&tested),
        false => before.outputs.clone(),
    };
    if outputs.is_empty() {
        return Err("the program computes nothing: no operator writes a variable".into());
    }
    let feeds: Vec<&str> = before.inputs.clone();
    let mut pruned = prune(&tested, &feeds, &outputs)
        .map_err(|error| error.finding.within(format!("`{}`", error.variable)))?;
    restore(&tested, &outputs, &mut pruned);
    if trains {
        let removed = program.ops().count() - pruned.ops().count();
        let loss = loss(program).map(|loss| format!(" of the loss `{loss}`")).unwrap_or_default();
        report.warn(format!(
            "the training program{loss} was reduced to inference: {removed} operators were removed"
        ));
    }
    let outputs = outputs.into_iter().map(str::to_owned).collect();
    Ok((pruned, outputs))
}

/// Restores the `feed` operators of a program that was reduced, which have the order of its inputs, and the declarations
/// of outputs that no operator computes: inputs and parameters.
fn restore(program: &Program, outputs: &[&str], pruned: &mut Program) {
    let Some(main) = program.blocks.first() else { return };
    let read: BTreeSet<String> = pruned.ops().flat_map(Op::reads).map(str::to_owned).collect();
    let is_used = |name: &str| read.contains(name) || outputs.contains(&name);
    let is_feed = |op: &&Op| op.kind == "feed" && op.writes().any(is_used);
    let feeds: Vec<Op> = main.ops.iter().filter(is_feed).cloned().collect();
    let Some(first) = pruned.blocks.first_mut() else { return };
    let fed = feeds.iter().flat_map(Op::writes);
    let declared: BTreeSet<&str> = first.vars.iter().map(|var| var.name.as_str()).collect();
    let named: BTreeSet<&str> = fed.chain(outputs.iter().copied()).collect();
    let is_lost =
        |var: &&Var| named.contains(var.name.as_str()) && !declared.contains(var.name.as_str());
    let lost: Vec<Var> = main.vars.iter().filter(is_lost).cloned().collect();
    first.vars.extend(lost);
    first.ops.splice(0..0, feeds);
}

/// Returns the variables that operators of the main block write and none reads, in order.
fn leaves(program: &Program) -> Vec<&str> {
    let Some(main) = program.blocks.first() else { return Vec::new() };
    let read: BTreeSet<&str> = program.ops().flat_map(|op| op.reads()).collect();
    let is_tensor = |name: &str| {
        let var = main.vars.iter().find(|var| var.name == name);
        var.is_some_and(|var| matches!(var.value, ValueType::Tensor(_)) && !var.persistable)
    };
    let mut seen = BTreeSet::new();
    let ops = main.ops.iter().filter(|op| operator(&op.kind).is_none_or(|row| row.risk.is_none()));
    // Of several outputs, only the first slot is a result; the others are kept for gradients.
    let written = ops.filter_map(|op| op.outputs.iter().find(|operand| !operand.args.is_empty()));
    let written = written.flat_map(|operand| &operand.args).map(String::as_str);
    written.filter(|name| !read.contains(name) && is_tensor(name) && seen.insert(*name)).collect()
}

/// Tries to export each operator that the outputs of a program depend on.
///
/// # Errors
/// If the model has no program, or it contradicts itself as a whole.
pub(crate) fn coverage(model: &Model) -> Result<Vec<OperatorCoverage>, Finding> {
    let program = model.main().ok_or("expected a program, found none")?;
    let (program, outputs) = inference(program, &mut Report::default())?;
    let options = LowerOptions::default();
    let first = |findings: Findings| match findings.located.into_iter().next() {
        Some(located) => located.finding.within(located.place),
        None => Finding::internal("a program is rejected without a reason"),
    };
    let mut walk = Walk::new(model, &program, &outputs, &options).map_err(first)?;
    walk.inputs();
    Ok(walk.coverage())
}

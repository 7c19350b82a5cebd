//! Export of whole programs to ONNX.
//!
//! Each operator is lowered by the rule that also runs it. This folder adds to `frame` what a program of PaddlePaddle is
//! beyond its operators:
//!
//! | PaddlePaddle | ONNX | by |
//! |---|---|---|
//! | variables, written any number of times | values, written once | `variables` |
//! | `feed` and `fetch`; persistable variables | inputs and outputs; initializers | `variables`, `finish` |
//! | `conditional_block`, `while` | `If`, `Loop` | `control`, `loops` |
//! | arrays of tensors | sequences | `arrays` |
//! | rank tables of sequences | two tensors | `ranks` |
//! | Viterbi's algorithm | two `Scan` | `paths` |
//! | convolutions to which a bias is added | convolutions with a bias | `fuse` |
//! | products of quantized integers | products of numbers that are dequantized | `integers` |
//! | LoD | inputs `NAME.lod0`, `NAME.lod1`, ... with the offsets of each level | `variables`, `lower` |
//!
//! An unknown dim gets a symbol of its own, so equal dims are recognized. Rules of sequences take the offsets of LoD as
//! values; those of `native_exported` rows exist for the export only, since the executor computes them natively.
//!
//! Training programs are reduced to inference first. The result has the newest opset, as the rules emit it.
//!
//! Source of truth: the executor of PaddlePaddle 2.6.2, and results that it gave.

mod arrays;
mod control;
mod finish;
mod fuse;
mod integers;
mod loops;
mod lower;
mod paths;
mod ranks;
mod variables;
mod walk;

use std::collections::BTreeSet;

use lodstone_model::{Block, Model, Op, Program, Report, ValueType, Var};
use lodstone_schema::onnx::quoted;
use lodstone_schema::paddle::{
    BACKWARD, OPTIMIZES, SCHEDULES, for_test, interface, loss, operator, prune, role,
};
use lodstone_schema::{Finding, Findings, Origins};

use crate::{LowerOptions, OperatorCoverage, frame};
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
    let program = inference(program, report).map_err(whole)?;
    let mut walk = Walk::of(model, &program, options, false)?;
    walk.custom_domain.clone_from(&options.custom_domain);
    walk.main();
    walk.written(report)
}

/// Returns the part of a program that computes its outputs, which the main block returns, for evaluation. A program without
/// `fetch` operators computes the variables that none of its operators reads.
fn inference(program: &Program, report: &mut Report) -> Result<Program, Finding> {
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
    let is_training = |op: &&Op| role(op) & (BACKWARD | OPTIMIZES | SCHEDULES) != 0;
    let trained: BTreeSet<&str> =
        program.ops().filter(is_training).flat_map(|op| op.writes()).collect();
    if let Some(name) = before.outputs.iter().find(|name| trained.contains(**name)) {
        return Err(format!("only training computes {}", quoted(name)).into());
    }
    let feeds: Vec<&str> = before.inputs.clone();
    let mut pruned = prune(&tested, &feeds, &outputs)
        .map_err(|error| error.finding.within(format!("`{}`", error.variable)))?;
    restore(&tested, &outputs, &mut pruned);
    if trains {
        let removed = program.ops().count() - pruned.ops().count();
        let loss = loss(program).map(|loss| format!(" of the loss `{loss}`")).unwrap_or_default();
        let names: Vec<String> = outputs.iter().map(|name| quoted(name)).collect();
        let names = names.join(", ");
        report.warn(format!(
            "the training program{loss} was reduced to inference of {names}: {removed} operators were removed"
        ));
    }
    if let Some(main) = pruned.blocks.first_mut() {
        main.outputs = outputs.into_iter().map(str::to_owned).collect();
    }
    Ok(pruned)
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

/// Returns the variables that operators of the main block write and none reads, in order. Losses and metrics, which
/// depend on labels, are left out if there are others.
fn leaves(program: &Program) -> Vec<&str> {
    let Some(main) = program.blocks.first() else { return Vec::new() };
    let mut judged: BTreeSet<&str> = BTreeSet::new();
    let mut predicting = Vec::new();
    for op in &main.ops {
        let is_label = |slot: &str| LABELS.contains(&slot);
        let judges = op.inputs.iter().any(|it| is_label(&it.slot) && !it.args.is_empty());
        match judges || op.reads().any(|name| judged.contains(name)) {
            true => judged.extend(op.writes()),
            false => predicting.push(op),
        }
    }
    match unread(main, &predicting) {
        none if none.is_empty() => unread(main, &main.ops.iter().collect::<Vec<_>>()),
        found => found,
    }
}

/// The slots of the operators of losses and metrics that take labels.
const LABELS: [&str; 4] = ["Label", "Labels", "GTLabel", "label"];

/// Returns the variables that operators write and none of them reads.
fn unread<'p>(main: &'p Block, ops: &[&'p Op]) -> Vec<&'p str> {
    let read: BTreeSet<&str> = ops.iter().flat_map(|op| op.reads()).collect();
    let is_tensor = |name: &str| {
        let var = main.vars.iter().find(|var| var.name == name);
        var.is_some_and(|var| matches!(var.value, ValueType::Tensor(_)) && !var.persistable)
    };
    let mut seen = BTreeSet::new();
    let ops = ops.iter().filter(|op| operator(&op.kind).is_none_or(|row| row.risk.is_none()));
    // Of several outputs, only the first slot of the registry is a result; the others are kept for gradients.
    let written = ops.flat_map(|op| match operator(&op.kind).and_then(|row| row.outputs.first()) {
        Some(slot) => op.output(slot.name),
        None => op.outputs.first().map_or(&[][..], |operand| &operand.args),
    });
    let written = written.map(String::as_str);
    written.filter(|name| !read.contains(name) && is_tensor(name) && seen.insert(*name)).collect()
}

/// Returns the kinds of operators that can be exported, sorted: those that a rule lowers, except gradients, and those that
/// act on variables.
pub fn exported_kinds() -> Vec<&'static str> {
    let is_forward = |kind: &&str| !kind.ends_with("_grad") && !kind.ends_with("_grad2");
    let lowered = super::names().into_iter().map(|name| name.kind).filter(is_forward);
    let mut kinds: Vec<&str> = lowered.chain(walk::own_kinds()).chain(["feed", "fetch"]).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Tries to export each operator that the outputs of a program depend on.
///
/// # Errors
/// If the model has no program, or it contradicts itself as a whole.
pub(crate) fn coverage(model: &Model) -> Result<Vec<OperatorCoverage>, Finding> {
    Ok(covered(model)?.into_iter().map(|(_, covered)| covered).collect())
}

/// Tries to export like [`coverage`]; each operator has the name of the first variable that it writes.
///
/// # Errors
/// As [`coverage`].
pub(crate) fn covered(model: &Model) -> Result<Vec<(String, OperatorCoverage)>, Finding> {
    let program = model.main().ok_or("expected a program, found none")?;
    let program = inference(program, &mut Report::default())?;
    let options = LowerOptions::default();
    let mut walk = Walk::of(model, &program, &options, true).map_err(frame::first)?;
    if !walk.findings.is_empty() {
        return Err(frame::first(walk.findings));
    }
    walk.main();
    let covered = walk.coverage().into_iter().filter(|covered| !walk::is_interface(&covered.kind));
    let covered = covered.map(|covered| {
        let (block, number) = covered.place;
        let op = program.blocks.get(block).and_then(|block| block.ops.get(number));
        (op.and_then(|op| op.writes().next()).unwrap_or_default().to_owned(), covered)
    });
    Ok(covered.collect())
}

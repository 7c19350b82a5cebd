//! Lowering of Caffe2 nets: to Glow nodes, as Glow's own loader makes them, and through these to ONNX.
//!
//! | step | file |
//! |---|---|
//! | declare inputs and weights | `weights` |
//! | walk the startup net and the main net, in the order of execution | `walk` |
//! | translate an operator by its rule, a table by kind | `rules`, and a file for each family |
//! | write nodes and storage | `glow/from_onnx/finish` |
//! | translate the nodes to ONNX | `glow/to_onnx` |
//!
//! A net declares no shapes, and those of Glow are fixed, so the shapes of all inputs must be given. Dims of an input that
//! stay unknown are those of `dynamic`; Glow has none.
//!
//! Where Glow differs from Caffe2 in what a net computes, the rule is that of Glow, except that these are computed as in
//! Caffe2 instead of being rejected or ignored: pools with `legacy_pad`, global pools of `NHWC`, a bias that is
//! computed, `axis` below 0, casts between types.
//!
//! Source of truth: `Caffe2ModelLoader.cpp` and `CommonOperatorLoader.h` of Glow (commit 05dd99b9), the files that it
//! wrote of the nets of its tests, and results of Caffe2 (PyTorch 1.9.1).

mod arithmetic;
mod conv;
mod dynamic;
mod fills;
mod indexing;
mod linear;
mod normalize;
mod pool;
mod quantize;
mod random;
mod reduce;
mod reshape;
mod rules;
mod sparse;
mod unary;
mod walk;
mod weights;

use lodstone_model::{Model, Op, Programs, Report};
use lodstone_schema::onnx::{NEWEST_OPSET, place_of};
use lodstone_schema::{Code, Finding, Findings, Origins};

use crate::glow;
use crate::glow::from_onnx::finish::finish;
use crate::{LowerOptions, OperatorCoverage, RuleName};

/// Returns the names of all rules.
pub(crate) fn names() -> Vec<RuleName> {
    rules::names().collect()
}

/// Returns the name of the rule of an operator.
pub(crate) fn name(op: &Op) -> Option<RuleName> {
    rules::name(&op.kind)
}

/// Translates a model to Glow's operators; returns the origins of the values of the main net.
pub(crate) fn to_glow(model: &Model, report: &mut Report) -> Result<(Model, Origins), Findings> {
    let walked = walk::walk(model)?;
    for note in &walked.graph.notes {
        report.warn(note.clone());
    }
    let mut declared = model.clone();
    declared.programs = Programs::default();
    let mut program = lodstone_model::Program::new(lodstone_model::Dialect::Caffe2);
    // The inputs that remain, in their order.
    let main = model.main().and_then(|program| program.blocks.first());
    let fed = main.into_iter().flat_map(|main| &main.vars).filter(|var| !var.persistable);
    let names = fed.map(|var| var.name.clone()).collect();
    program.blocks.push(lodstone_model::Block { inputs: names, ..Default::default() });
    declared.set_main(program);
    declared.parameters.clear();
    finish(&declared, walked).map_err(|finding| {
        let mut findings = Findings::default();
        findings.add("the graph", finding);
        findings
    })
}

/// Translates a model to ONNX.
pub(crate) fn to_onnx(
    model: &Model,
    _: &LowerOptions,
    report: &mut Report,
) -> Result<(Model, Origins), Findings> {
    let unknowns = dynamic::unknowns(model).map_err(|finding| {
        let mut findings = Findings::default();
        findings.add("the graph", finding);
        findings
    })?;
    if unknowns.is_empty() {
        return fixed_to_onnx(model, report);
    }
    let translate = |model: &Model| {
        let mut inner = Report::default();
        let (onnx, origins) = fixed_to_onnx(model, &mut inner)?;
        Ok((onnx, (origins, inner)))
    };
    let (onnx, (origins, inner)) = dynamic::translate(model, &unknowns, translate)?;
    report.warnings.extend(inner.warnings);
    report.losses.extend(inner.losses);
    Ok((onnx, origins))
}

/// Translates a model whose shapes are known to ONNX.
fn fixed_to_onnx(model: &Model, report: &mut Report) -> Result<(Model, Origins), Findings> {
    let (glow, first) = to_glow(model, report)?;
    let mut inner = Report::default();
    let (mut onnx, second) = glow::to_onnx(&glow, &mut inner)?;
    random::pass_on(inner, report);
    random::replace(&mut onnx);
    let names = weights::own_names(&onnx);
    let mut origins = first.then(&second);
    origins.rename(&names);
    if let Some(main) = onnx.main_mut() {
        main.rename(&names);
        // The operators are those of the newest version, of which Glow's lowering declares the lowest equal one.
        for (domain, version) in &mut main.operator_versions {
            if domain.is_empty() {
                *version = NEWEST_OPSET;
            }
        }
    }
    weights::forget_storage(&mut onnx);
    Ok((onnx, origins))
}

/// Tries to translate each operator of the main net. If shapes of inputs are unknown, only the kinds are checked.
///
/// # Errors
/// If the model has no net.
pub(crate) fn coverage(model: &Model) -> Result<Vec<OperatorCoverage>, Finding> {
    let main = model.main().and_then(|program| program.blocks.first());
    let main = main.ok_or("expected a net, found none")?;
    let findings = match to_onnx(model, &LowerOptions::default(), &mut Report::default()) {
        Ok(_) => Vec::new(),
        Err(findings) => findings.located,
    };
    let is_shaped = !findings.iter().any(|it| it.finding.code == Code::UnknownDims);
    let covered = main.ops.iter().enumerate().map(|(number, op)| {
        let place = place_of("the graph", number, op);
        let found = findings.iter().find(|it| is_shaped && it.place == place);
        let finding = found.map(|it| it.finding.clone()).or_else(|| rules::missing(&op.kind));
        OperatorCoverage {
            domain: op.domain.clone(),
            kind: op.kind.clone(),
            place: (0, number),
            opset: None,
            finding,
        }
    });
    Ok(covered.collect())
}

//! Lowering of Caffe2 nets to Glow nodes, as Glow's own loader makes them.
//!
//! | step | file |
//! |---|---|
//! | declare inputs and weights | `weights` |
//! | walk the startup net and the main net, in the order of execution | `walk` |
//! | translate an operator by its rule, a table by kind | `rules`, and a file for each family |
//! | write nodes and storage | `glow/from_onnx/finish` |
//!
//! A net declares no shapes, and those of Glow are fixed, so the shapes of all inputs must be given.
//!
//! Where Glow differs from Caffe2 in what a net computes, the rule is that of Glow, except that these are computed as in
//! Caffe2 instead of being rejected or ignored: pools with `legacy_pad`, global pools of `NHWC`, a bias that is
//! computed, `axis` below 0, casts between types.
//!
//! Source of truth: `Caffe2ModelLoader.cpp` and `CommonOperatorLoader.h` of Glow (commit 05dd99b9), and the files that it
//! wrote of the nets of its tests.

mod arithmetic;
mod conv;
mod fills;
mod indexing;
mod linear;
mod normalize;
mod pool;
mod quantize;
mod reduce;
mod reshape;
mod rules;
mod sparse;
mod unary;
mod walk;
mod weights;

use lodstone_model::{Model, Programs, Report};
use lodstone_schema::{Findings, Origins};

use super::from_onnx::finish::finish;

/// Translates a model to Glow's operators; returns the origins of the values of the main net.
pub(crate) fn from_caffe2(
    model: &Model,
    report: &mut Report,
) -> Result<(Model, Origins), Findings> {
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

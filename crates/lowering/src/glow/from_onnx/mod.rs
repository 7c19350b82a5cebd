//! Operators of ONNX as nodes of Glow, as Glow's own loader makes them.
//!
//! | step | file |
//! |---|---|
//! | every operator in its newest form | `prepare` |
//! | through the program, operator by operator; functions, branches and loops are said in full | `walk`, `control` |
//! | an operator by its rule, a table by kind | `rules`, and a file for each family |
//! | numbers that are read, computed with and quantized again: a node of quantized types | `fused` |
//! | what Glow's reader wants of nodes and storage | `finish` |
//!
//! Shapes of Glow are fixed, so all of them have to be known. What the nodes cannot hold is told of all
//! operators at once.
//!
//! Source of truth: `ONNXModelLoader.cpp`, `CommonOperatorLoader.h` and `Graph.cpp` of Glow (commit
//! 05dd99b9), and the files that it wrote of the models of its tests; for what operators mean, the
//! specification of ONNX 1.23.

mod activations;
mod audio;
mod control;
mod conv;
mod elementwise;
mod finish;
mod fused;
mod graph;
mod indexing;
mod integers;
mod known;
mod linear;
mod loader;
mod make;
mod names;
mod normalize;
mod op;
mod own;
mod pieces;
mod pool;
mod prepare;
mod quantize;
mod recurrent;
mod reduce;
mod reshape;
mod resize;
mod rules;
mod spelled;
mod storage;
mod tables;
mod walk;
mod weights;

use lodstone_model::{AttributeValue, Loss, Model, Report};
use lodstone_schema::{Finding, Findings, Origins};

/// The same program in Glow's operators, and what became of the values of its main graph.
pub(crate) fn from_onnx(model: &Model, report: &mut Report) -> Result<(Model, Origins), Findings> {
    let prepared = prepare::prepare(model)?;
    let mut walked = walk::walk(&prepared)?;
    let live = finish::live(&walked.graph, &walked.outputs);
    // Transpositions that undo each other are no loss.
    let nodes = walked.graph.nodes.iter().zip(&live);
    let dropped = nodes.filter(|(node, live)| !**live && node.kind.kind != "Transpose").count();
    if dropped > 0 {
        report.warn(format!("nodes whose results nothing asks for were left out: {dropped}"));
    }
    fused::fuse(&mut walked).map_err(lost)?;
    if walked.calls > 0 {
        report.warn(format!("functions were put in place of their calls: {}", walked.calls));
    }
    for note in &walked.graph.notes {
        report.warn(note.clone());
    }
    lose(model, report);
    finish::finish(model, walked).map_err(lost)
}

/// A defect that belongs to no operator.
fn lost(finding: Finding) -> Findings {
    let mut findings = Findings::default();
    findings.add("the graph", finding);
    findings
}

/// What files of Glow have no place for. Who wrote the file is no loss: it is another one now.
fn lose(model: &Model, report: &mut Report) {
    let Some(program) = model.main() else { return };
    for fact in &program.attributes {
        let is_said = match &fact.value {
            AttributeValue::String(text) => !text.0.is_empty(),
            AttributeValue::Long(number) => *number != 0,
            _ => true,
        };
        if is_said && ["domain", "model_version", "doc_string"].contains(&fact.name.as_str()) {
            report.lose(Loss::Metadata, format!("`{}` of the model", fact.name));
        }
    }
}

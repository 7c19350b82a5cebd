//! Translation of ONNX operators to Glow nodes, as Glow's own loader does it.
//!
//! | step | file |
//! |---|---|
//! | upgrade all operators to the newest version | `prepare` |
//! | walk the program, inlining functions, resolving branches and unrolling loops | `walk`, `control` |
//! | translate an operator by its rule, a table by kind | `rules`, and a file for each family |
//! | fuse dequantized, computed and quantized values into nodes of quantized types | `fused` |
//! | write nodes and storage as Glow's reader requires them | `finish` |
//!
//! Glow's shapes are fixed, so all of them must be known. All operators without an equivalent are reported at once.
//!
//! Source of truth: `ONNXModelLoader.cpp`, `CommonOperatorLoader.h` and `Graph.cpp` of Glow (commit
//! 05dd99b9), and the files that it wrote of the models of its tests; for the meaning of operators, the
//! specification of ONNX 1.23.

pub(crate) mod activations;
mod audio;
mod control;
mod conv;
mod elementwise;
pub(crate) mod finish;
mod fused;
pub(crate) mod graph;
mod indexing;
mod integers;
pub(crate) mod known;
mod linear;
mod loader;
pub(crate) mod make;
pub(crate) mod names;
mod normalize;
pub(crate) mod op;
mod own;
mod pieces;
mod pool;
mod prepare;
mod quantize;
mod recurrent;
mod reduce;
mod reshape;
mod resize;
pub(crate) mod rules;
mod spelled;
pub(crate) mod storage;
mod tables;
pub(crate) mod walk;
mod weights;

use lodstone_model::{AttributeValue, Loss, Model, Report};
use lodstone_schema::{Finding, Findings, Origins};

/// Translates a model to Glow's operators; returns the origins of the values of its main graph.
pub(crate) fn from_onnx(model: &Model, report: &mut Report) -> Result<(Model, Origins), Findings> {
    let prepared = prepare::prepare(model)?;
    let mut walked = walk::walk(&prepared)?;
    let live = finish::live(&walked.graph, &walked.outputs);
    // Transpositions that cancel out are no loss.
    let nodes = walked.graph.nodes.iter().zip(&live);
    let dropped = nodes.filter(|(node, live)| !**live && node.kind.kind != "Transpose").count();
    if dropped > 0 {
        report.warn(format!("nodes whose results are not used were omitted: {dropped}"));
    }
    fused::fuse(&mut walked).map_err(lost)?;
    if walked.calls > 0 {
        report.warn(format!("function calls were inlined: {}", walked.calls));
    }
    for note in &walked.graph.notes {
        report.warn(note.clone());
    }
    lose(model, report);
    finish::finish(model, walked).map_err(lost)
}

/// Returns a defect that belongs to no operator.
fn lost(finding: Finding) -> Findings {
    let mut findings = Findings::default();
    findings.add("the graph", finding);
    findings
}

/// Reports what Glow's files cannot hold. The producer is not a loss: the new file has another one.
fn lose(model: &Model, report: &mut Report) {
    let Some(program) = model.main() else { return };
    for fact in &program.attributes {
        let is_set = match &fact.value {
            AttributeValue::String(text) => !text.0.is_empty(),
            AttributeValue::Long(number) => *number != 0,
            _ => true,
        };
        if is_set && ["domain", "model_version", "doc_string"].contains(&fact.name.as_str()) {
            report.lose(Loss::Metadata, format!("`{}` of the model", fact.name));
        }
    }
}

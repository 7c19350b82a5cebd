//! Simplification of exported programs.

use lodstone_lowering::LowerError;
use lodstone_model::{Dialect, Model, Op, Tensor};
use lodstone_schema::Findings;
use lodstone_schema::onnx::infer::Inference;
use lodstone_schema::onnx::simplify::{Bounds, Evaluator, simplify as simplify_program};

use crate::Result;

/// The limits of the constants that folding makes: parameters keep their names, unless they are small and an operator
/// merely rearranges them.
const FOLDED: Bounds = Bounds { each: 1 << 20, all: 1 << 26 };

/// Folds constants, but keeps quantized weights: runtimes compute with integers where they find `DequantizeLinear`.
struct Quantized<'a>(&'a dyn Evaluator);

impl Evaluator for Quantized<'_> {
    fn evaluate(&self, op: &Op, inputs: &[Option<&Tensor>]) -> Option<Vec<Tensor>> {
        (op.kind != "DequantizeLinear").then(|| self.0.evaluate(op, inputs))?
    }
}

/// Folds constants, and removes operators that are not needed, from an ONNX program of which the values are inferred.
///
/// # Errors
/// If a subgraph is missing, runs itself, or is nested too deep.
pub(crate) fn simplify(model: &mut Model, inference: &Inference) -> Result<()> {
    let Some(program) = model.main() else { return Ok(()) };
    #[cfg(feature = "runtime")]
    let threads = lodstone_engine::Threads::default();
    #[cfg(feature = "runtime")]
    let folding = lodstone_engine::Folding(&threads);
    #[cfg(not(feature = "runtime"))]
    let folding = lodstone_schema::onnx::simplify::NoEvaluator;
    let folding = Quantized(&folding);
    let sizes = model.parameters.iter().map(|parameter| parameter.tensor.data.len());
    let all = sizes.fold(0, u64::saturating_add).max(FOLDED.all);
    let bounds = Bounds { all, ..FOLDED };
    let simple = simplify_program(program, &model.parameters, &inference.blocks, &folding, bounds);
    let simple = simple.map_err(|located| {
        let mut findings = Findings::default();
        findings.push(located);
        LowerError::new(Dialect::Onnx, findings)
    })?;
    model.set_main(simple.program);
    model.parameters = simple.parameters;
    Ok(())
}

//! Operators, gradients and operators on sequences that PaddlePaddle 2.6.2 or 1.8.5 computed (the scripts `make_paddle_*.py` beside
//! the tests of the executor, which tries the same cases with the operators that it computes itself).

use std::sync::Arc;

use lodstone_lowering::paddle::{LodLevel, Lowered, VariableFacts, lower_op};
use lodstone_model::{DType, Dialect, Dim, Kind, Model, Op, Tensor, TensorType};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::{Choice, Computation, Release, operator};
use lodstone_store::Blob;

use super::Case;
use super::evaluate::evaluate;
use super::recorded::{
    self, GRADIENTS, LODS, OLD_OPERATORS, OPERATORS, Recorded, SEQUENCES, Tensors, recorded,
};

/// The maximum difference of an element from the recorded one: relative, and absolute.
const TOLERANCE: (f64, f64) = (1e-5, 1e-6);

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for folder in [OPERATORS, GRADIENTS, SEQUENCES, LODS, OLD_OPERATORS] {
        let recorded = Arc::new(recorded(folder));
        for index in 0..recorded.cases.len() {
            let (op, feed, _) = recorded.case(&recorded.cases[index]);
            if !is_lowered(&op, &feed) {
                continue;
            }
            let name = format!("{folder}/{}", recorded.cases[index]["name"].as_str().unwrap());
            let recorded = recorded.clone();
            cases.push(Case::new(Dialect::Paddle, &name, std::iter::once(&op), move || {
                failure(&recorded, index)
            }));
        }
    }
    cases
}

/// Whether the executor, or an export, computes an operator as its rule does.
fn is_lowered(op: &Op, feed: &Tensors<'_>) -> bool {
    let is_dense = feed.iter().all(|(_, tensor)| matches!(tensor.kind, Kind::Dense));
    let has_nan = || feed.iter().any(|(_, it)| recorded::elements(it).iter().any(|it| it.is_nan()));
    let Some(row) = operator(&op.kind).filter(|_| is_dense) else { return false };
    match row.choose(op, Release::WRITTEN) {
        _ if row.computation == Computation::NativeExported => true,
        Some(Choice::Lowered | Choice::NativeIfSparse) => true,
        Some(Choice::NativeIfNan) => !has_nan(),
        Some(Choice::Native) | None => false,
    }
}

/// Outputs of operators that the executor computes itself which exports do not compute.
const UNEXPORTED: [&str; 6] =
    ["BatchCellPreAct", "BatchGate", "BatchHidden", "BatchResetHiddenPrev", "Cell", "MaxIndex"];

/// What exports of such operators refuse.
const REFUSED: [&str; 3] = [
    "sequences by LoD are only supported at run time",
    "ONNX has no suppression with an adaptive threshold",
    "ONNX cannot invert a gate with activation",
];

/// Cases without a detection: PaddlePaddle returns a row that is none, and an export no row.
const EMPTY: [&str; 5] = [
    "generate_proposals-4",
    "generate_proposals_v2-7",
    "generate_proposals_v2-8",
    "multiclass_nms-11",
    "multiclass_nms-12",
];

fn failure(recorded: &Recorded, index: usize) -> Option<String> {
    let (mut op, feed, mut wanted) = recorded.case(&recorded.cases[index]);
    let is_exported = operator(&op.kind)?.computation == Computation::NativeExported;
    op.outputs.retain(|operand| !is_exported || !UNEXPORTED.contains(&operand.slot.as_str()));
    wanted.retain(|(name, _)| op.writes().any(|written| written == *name));
    let lowered = match lower_op(&op, Release::WRITTEN, &Fed { feed: &feed, open: Open::None }) {
        Ok(lowered) => lowered,
        Err(finding) => {
            let what = finding.to_string();
            let is_refused = is_exported && REFUSED.iter().any(|known| what.contains(known));
            return (!is_refused).then_some(what);
        }
    };
    let is_empty = EMPTY.contains(&recorded.cases[index]["name"].as_str()?);
    match results(&lowered, &feed) {
        Err(error) => Some(error),
        Ok(found) => wanted.iter().find_map(|(name, wanted)| {
            let Some((_, found)) = found.iter().find(|(found, _)| found == name) else {
                return Some(format!("there is no `{name}`"));
            };
            match recorded::difference(wanted, found, TOLERANCE) {
                _ if is_empty => {
                    let is_none = recorded::elements(found).iter().all(|it| *it == 0.0);
                    (!is_none).then(|| format!("`{name}` has rows"))
                }
                what => what.map(|what| format!("`{name}`: {what}")),
            }
        }),
    }
}

/// Returns the variables that a lowered operator writes.
pub(crate) fn results(
    lowered: &Lowered,
    feed: &Tensors<'_>,
) -> Result<Vec<(String, Tensor)>, String> {
    let mut inputs: Vec<(String, Tensor)> =
        feed.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
    for lod in &lowered.lods {
        let (_, tensor) = feed.iter().find(|(name, _)| *name == lod.variable).unwrap();
        let offsets = &tensor.lod.0[lod.level];
        let bytes: Vec<u8> = offsets.iter().flat_map(|it| it.cast_signed().to_le_bytes()).collect();
        let dims = vec![offsets.len() as u64];
        inputs.push((lod.name.clone(), Tensor::dense(DType::Int64, dims, Blob::memory(bytes))));
    }
    let mut model = Model::default();
    model.parameters.clone_from(&lowered.program.blocks[0].initializers);
    model.set_main(lowered.program.clone());
    let values = evaluate(&model, &inputs)?;
    let value = |name: &str| values.iter().chain(&inputs).find(|(found, _)| found == name);
    let written = lowered.outputs.iter().map(|output| {
        let (_, tensor) = value(&output.value).ok_or_else(|| format!("no `{}`", output.value))?;
        Ok((output.variable.clone(), tensor.clone()))
    });
    written.collect()
}

/// Which inputs have unknown dims from the third on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    None,
    First,
    All,
}

/// The inputs of an operator.
pub(crate) struct Fed<'a> {
    pub(crate) feed: &'a Tensors<'a>,
    pub(crate) open: Open,
}

impl Fed<'_> {
    fn tensor(&self, variable: &str) -> Option<&Tensor> {
        self.feed.iter().find(|(name, _)| *name == variable).map(|(_, tensor)| tensor)
    }
}

impl VariableFacts for Fed<'_> {
    fn info(&self, variable: &str) -> Option<ValueInfo> {
        let number = self.feed.iter().position(|(name, _)| *name == variable)?;
        let ty = TensorType { layout: None, ..TensorType::of(&self.feed[number].1) };
        let mut dims = ty.shape?;
        if self.open == Open::All || self.open == Open::First && number == 0 {
            dims.iter_mut().skip(2).for_each(|dim| *dim = Dim::Unknown);
        }
        Some(ValueInfo::tensor(ty.dtype, Some(dims)))
    }

    fn contents(&self, variable: &str) -> Option<Vec<i64>> {
        ValueInfo::of(self.tensor(variable)?).ints()
    }

    fn lod(&self, variable: &str) -> Vec<LodLevel> {
        let levels = self.tensor(variable).map_or(&[][..], |tensor| &tensor.lod.0);
        let level = |it: &Vec<u64>| LodLevel { value: None, count: Dim::Known(it.len() as u64) };
        levels.iter().map(level).collect()
    }
}

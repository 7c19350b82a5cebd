//! Single operators compute the same results as PaddlePaddle 2.6.2.
//!
//! `golden/make_paddle_operators.py` defines the format of a case and recorded operators, `golden/make_paddle_gradients.py`
//! gradients, `golden/make_paddle_sequences.py` sequences and rows, with their gradients, and
//! `golden/make_paddle_lods.py` inputs of different LoD. Element types, dims, LoD, integers and Booleans
//! must be identical, floats must match within [`TOLERANCE`].

#![expect(clippy::disallowed_methods, reason = "reads golden files directly")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "recorded numbers fit"
)]

mod differences;
mod hostile;
mod hostile_exports;
mod optimizers;
mod pir;
mod recorded;

use std::collections::BTreeSet;

use lodstone_lowering::paddle::{LodLevel, VariableFacts, output_types};
use lodstone_model::{Dim, Holder, Kind, Lod, Op, Tensor, TensorType, ValueType};
use lodstone_paddle::executor::{Dirs, Executor, Scope};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::types::Types;
use lodstone_schema::paddle::{Levels, LodRule, Operator, Plan, operator, operators};
use serde_json::Value as Json;

use crate::bits;
use recorded::{
    GRADIENTS, LODS, OLD_OPERATORS, OPERATORS, Recorded, SEQUENCES, Tensors, program, recorded,
};

/// The maximum difference of an element from the recorded one: relative, and absolute.
const TOLERANCE: (f64, f64) = (1e-5, 1e-6);

/// Describes what is wrong with the results of a case; `None` if they are right.
fn failure(recorded: &Recorded, case: &Json) -> Option<String> {
    let (op, feed, wanted) = recorded.case(case);
    let fetch: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let program = program(op, &feed);
    let found =
        Executor::default().run(&program, &mut Scope::default(), &feed, &fetch, &Dirs::default());
    let found = match found {
        Ok(found) => found,
        Err(error) => return Some(error.to_string()),
    };
    bits::keep(&format!("{case}"), &found);
    let pairs = wanted.iter().zip(&found);
    let differences = pairs.filter_map(|((name, wanted), found)| {
        difference(wanted, found).map(|what| format!("`{name}`: {what}"))
    });
    let differences: Vec<String> = differences.collect();
    (!differences.is_empty()).then(|| differences.join("; "))
}

fn difference(wanted: &Tensor, found: &Tensor) -> Option<String> {
    if wanted.lod != found.lod {
        return Some(format!("expected LoD {:?}, found {:?}", wanted.lod.0, found.lod.0));
    }
    if rows(wanted) != rows(found) {
        return Some(format!("expected rows {:?}, found {:?}", rows(wanted), rows(found)));
    }
    recorded::difference(wanted, found, TOLERANCE)
}

/// Returns the indices of selected rows, and the height of the tensor.
fn rows(tensor: &Tensor) -> Option<(Vec<i64>, i64)> {
    let Kind::SelectedRows { rows, height } = &tensor.kind else { return None };
    let rows = rows.bytes().unwrap();
    Some((rows.as_chunks().0.iter().map(|row| i64::from_le_bytes(*row)).collect(), *height))
}

#[test]
fn every_operator_computes_what_paddlepaddle_computed() {
    check_all(OPERATORS, 1300);
}

#[test]
fn operators_of_old_releases_compute_what_paddlepaddle_computed() {
    check_all(OLD_OPERATORS, 50);
}

#[test]
fn every_gradient_is_what_paddlepaddle_computed() {
    check_all(GRADIENTS, 900);
}

#[test]
fn sequences_and_rows_become_what_paddlepaddle_computed() {
    check_all(SEQUENCES, 450);
}

#[test]
fn results_have_the_lod_that_paddlepaddle_gave() {
    check_all(LODS, 90);
}

#[test]
fn rows_declare_the_lod_that_paddlepaddle_gave() {
    let mut count = 0;
    for folder in [OPERATORS, GRADIENTS, SEQUENCES, LODS] {
        let recorded = recorded(folder);
        for case in &recorded.cases {
            let (op, feed, wanted) = recorded.case(case);
            for (name, tensor) in &wanted {
                let Some(declared) = declared_lod(&op, &feed, name, tensor.shape.first()) else {
                    continue;
                };
                assert_eq!(declared, tensor.lod, "`{name}` of {}", case["name"]);
                count += 1;
            }
        }
    }
    assert!(count > 2000, "compared {count}");
}

/// Returns the LoD that the row of an operator declares for a result of `rows` rows, if it shares that of one variable.
fn declared_lod(op: &Op, feed: &Tensors<'_>, name: &str, rows: Option<&u64>) -> Option<Lod> {
    let LodRule::Shared(shared) = &operator(&op.kind)?.lod else { return None };
    let written = op.outputs.iter().find(|operand| operand.args.iter().any(|arg| arg == name))?;
    let Some(share) = shared.source(&written.slot) else { return Some(Lod::default()) };
    let place = written.args.iter().position(|arg| arg == name)?;
    let sources = op.input(share.input);
    let source = sources.get(place).or(sources.first()).filter(|_| !share.joins)?;
    let (_, source) = feed.iter().find(|(fed, _)| fed == source)?;
    let same = source.shape.first() == rows;
    Some(if same { source.lod.clone() } else { Lod::default() })
}

/// The inputs of a case, whose dims are known and whose contents are not.
struct Fed<'a>(&'a Tensors<'a>);

impl VariableFacts for Fed<'_> {
    fn info(&self, variable: &str) -> Option<ValueInfo> {
        let (_, tensor) = self.0.iter().find(|(name, _)| *name == variable)?;
        let declared = TensorType {
            lod_level: tensor.lod.0.len() as u32,
            layout: None,
            ..TensorType::of(tensor)
        };
        Some(match tensor.kind {
            Kind::SelectedRows { .. } => ValueType::Holder(Holder::SelectedRows(declared)).into(),
            _ => ValueType::Tensor(declared).into(),
        })
    }

    fn contents(&self, _variable: &str) -> Option<Vec<i64>> {
        None
    }

    fn lod(&self, variable: &str) -> Vec<LodLevel> {
        let fed = self.0.iter().filter(|(name, _)| *name == variable);
        let levels = fed.flat_map(|(_, tensor)| &tensor.lod.0);
        levels.map(|it| LodLevel { value: None, count: Dim::Known(it.len() as u64) }).collect()
    }
}

/// Operators with cases whose results have another number of levels than programs declare: detections and labels are
/// declared without LoD, as is the gradient of a softmax, and the LoD that replaces another one with one level.
const DECLARED_OTHERWISE: [&str; 10] = [
    "box_coder",
    "collect_fpn_proposals",
    "crf_decoding",
    "distribute_fpn_proposals",
    "generate_proposals",
    "lod_reset",
    "multiclass_nms",
    "multiclass_nms2",
    "sequence_expand",
    "sequence_softmax_grad",
];

#[test]
fn rows_declare_as_many_levels_of_lod_as_paddlepaddle_gave() {
    let (mut count, mut others) = (0, BTreeSet::new());
    for folder in [OPERATORS, SEQUENCES, LODS] {
        let recorded = recorded(folder);
        for case in &recorded.cases {
            let (op, feed, wanted) = recorded.case(case);
            let Some(LodRule::Computed(levels)) = operator(&op.kind).map(|row| &row.lod) else {
                continue;
            };
            let of = |slot: &str| {
                let name = op.input(slot).first()?;
                let (_, tensor) = feed.iter().find(|(fed, _)| fed == name)?;
                Some(tensor.lod.0.len() as u32)
            };
            let found = wanted.iter().map(|(_, tensor)| tensor.lod.0.len() as u32).max();
            if *levels != Levels::Declared && found != Some(levels.count(of)) {
                others.insert(op.kind.clone());
            }
            count += 1;
        }
    }
    assert_eq!(others.iter().map(String::as_str).collect::<Vec<_>>(), DECLARED_OTHERWISE);
    assert!(count > 100, "compared {count}");
}

/// Operators without a case here: they act on blocks, arrays and the order of sequences.
const WITHOUT_CASE: [&str; 14] = [
    "array_to_lod_tensor",
    "conditional_block",
    "conditional_block_infer",
    "lod_array_length",
    "lod_rank_table",
    "lod_tensor_to_array",
    "max_sequence_len",
    "read_from_array",
    "reorder_lod_tensor_by_rank",
    "select_input",
    "shrink_rnn_memory",
    "tensor_array_to_tensor",
    "while",
    "write_to_array",
];

#[test]
fn rows_declare_the_types_that_paddlepaddle_gave() {
    let (mut kinds, mut wrong) = (BTreeSet::new(), Vec::new());
    for folder in [OPERATORS, SEQUENCES, LODS] {
        let recorded = recorded(folder);
        for case in &recorded.cases {
            let (op, feed, wanted) = recorded.case(case);
            let types = operator(&op.kind).map(|row| &row.types);
            if types.is_none_or(|types| *types == Types::Inferred) {
                continue;
            }
            // A lowering of fixed dims may need the contents of an input.
            let Ok(declared) = output_types(&op, &Fed(&feed)) else { continue };
            for (name, tensor) in &wanted {
                let found = declared.iter().find(|(declared, _)| declared == name);
                let Some((_, info)) = found else { continue };
                let is_same = |(declared, dim): (&Dim, &u64)| match declared {
                    Dim::Known(declared) => declared == dim,
                    _ => true,
                };
                let is_declared = info.shape().is_none_or(|dims| {
                    dims.len() == tensor.shape.len() && dims.iter().zip(&tensor.shape).all(is_same)
                });
                let is_rows = matches!(tensor.kind, Kind::SelectedRows { .. });
                let dtype = info.value.tensor_type().map(|declared| declared.dtype);
                let is_same = dtype == Some(tensor.dtype)
                    && info.value.is_selected_rows() == is_rows
                    && (is_rows || is_declared);
                if !is_same {
                    wrong.push(format!("`{name}` of {}: {info:?}", case["name"]));
                }
                kinds.insert(op.kind.clone());
            }
        }
    }
    // Operators with an effect are optimizers, act on files or are random; others have variables that are declared before.
    let is_effect = |plan| matches!(plan, Some(Plan::Apart(reason)) if reason.name == "effect");
    let is_typed = |row: &&Operator| match &row.types {
        Types::Inferred => false,
        Types::Unlowered(_) => true,
        Types::Native { outputs, .. } => !outputs.is_empty() && !is_effect(row.plan),
    };
    let all = operators().filter(is_typed).map(|row| row.kind);
    let missing: Vec<&str> = all.filter(|kind| !kinds.contains(*kind)).collect();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(missing, WITHOUT_CASE);
}

/// Fails if a case of a folder fails, or there are no more than `least`.
fn check_all(folder: &str, least: usize) {
    let recorded = recorded(folder);
    assert!(recorded.cases.len() > least, "found {} cases", recorded.cases.len());
    let wrong: Vec<String> = recorded
        .cases
        .iter()
        .filter_map(|case| {
            let what = failure(&recorded, case)?;
            Some(format!("{}: {what} {}", case["name"], case["attributes"]))
        })
        .collect();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

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

use lodstone_lowering::paddle::{VariableFacts, output_types};
use lodstone_model::{Dim, Holder, Kind, Lod, Op, Tensor, TensorType, ValueType};
use lodstone_paddle::executor::{Dirs, Executor, Scope};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::types::Types;
use lodstone_schema::paddle::{Computation, Levels, LodRule, Operator, operator, operators};
use serde_json::Value as Json;

use crate::bits;
use recorded::{GRADIENTS, LODS, OPERATORS, Recorded, SEQUENCES, Tensors, program, recorded};

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
}

/// Operators of which programs declare no LoD, as PaddlePaddle does, although their results have it.
const UNDECLARED: [&str; 0] = [];

#[test]
fn rows_declare_as_many_levels_of_lod_as_paddlepaddle_gave() {
    let (mut count, mut undeclared) = (0, BTreeSet::new());
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
                undeclared.insert(op.kind.clone());
            }
            count += 1;
        }
    }
    assert_eq!(undeclared.iter().map(String::as_str).collect::<Vec<_>>(), UNDECLARED);
    assert!(count > 100, "compared {count}");
}

#[test]
fn rows_declare_the_types_that_paddlepaddle_gave() {
    let mut kinds = BTreeSet::new();
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
                let what = format!("`{name}` of {}: {info:?}, {:?}", case["name"], tensor.shape);
                assert_eq!(info.dtype(), tensor.dtype, "{what}");
                assert_eq!(info.value.is_selected_rows(), is_rows, "{what}");
                assert!(is_rows || is_declared, "{what}");
                kinds.insert(op.kind.clone());
            }
        }
    }
    // Those without a case hold no tensors (arrays, scopes), act on files, are random, or are optimizers, whose types are
    // those of what they update.
    let is_typed =
        |row: &&Operator| row.computation != Computation::None && row.types != Types::Inferred;
    let all = operators().filter(is_typed).map(|row| row.kind);
    let missing: Vec<&str> = all.filter(|kind| !kinds.contains(*kind)).collect();
    assert_eq!(missing, [""; 0]);
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

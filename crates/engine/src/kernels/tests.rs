//! The table of operators is complete and consistent.

use std::collections::BTreeSet;

use lodstone_schema::onnx::infer::is_known;
use lodstone_schema::onnx::operators as defined;

use super::{FAMILIES, onnx_runtime, operator, operators};
use crate::executable::is_computed;
use crate::operator::{Fusion, Kernel, RUNTIME};
use crate::plan::Mode;

#[test]
fn an_operator_has_one_row() {
    let mut rows = BTreeSet::new();
    for row in operators() {
        assert!(rows.insert((row.domain, row.kind)), "`{}` has two rows", row.kind);
        assert!(operator(row.domain, row.kind).is_some_and(|found| std::ptr::eq(found, row)));
    }
    assert!(operator("ai.onnx", "Add").is_some(), "ONNX's own domain has two names");
}

#[test]
fn rows_of_a_family_are_in_order() {
    for family in FAMILIES.iter().chain(onnx_runtime::FAMILIES) {
        let kinds: Vec<&str> = family.iter().map(|row| row.kind).collect();
        assert!(kinds.is_sorted(), "{kinds:?}");
    }
}

#[test]
fn inference_knows_operators_with_a_row() {
    // The dims of their results are known when they run.
    let expected = [
        "Attention",
        "BiasSplitGelu",
        "LayerNormalization",
        "QLinearConcat",
        "QLinearReduceMean",
        "QLinearWhere",
    ];
    let unknown = operators().filter(|row| !is_known(row.domain, row.kind));
    let unknown: BTreeSet<_> = unknown.map(|row| (row.domain, row.kind)).collect();
    assert_eq!(unknown, expected.map(|kind| (RUNTIME, kind)).into());
}

#[test]
fn operators_that_inference_knows_are_computed() {
    // Operators without a kernel, and those that newer opsets do not have: programs are upgraded first.
    let expected = ["Gradient", "Scatter", "Upsample"];
    let missing = defined()
        .filter(|it| is_known(it.domain, it.kind) && !is_computed(it.domain, it.kind))
        .map(|it| it.kind);
    assert_eq!(missing.collect::<BTreeSet<_>>(), expected.into());
}

#[test]
fn columns_of_a_row_fit_together() {
    for row in operators() {
        let kind = row.kind;
        let is_fast = row.fast.is_some() || row.packing.is_some();
        assert!(is_fast || row.fusion.is_some() || row.error == 0.0, "`{kind}` is never fast");
        assert!(is_fast || !row.channels_last, "`{kind}` has no fast kernel");
        let is_dense = matches!(row.kernel, Kernel::Dense(_));
        assert!(is_dense || !row.moves, "`{kind}` takes strings itself");
        let is_elementwise = matches!(row.fusion, Some(Fusion::Elementwise(_)));
        assert!(is_elementwise || row.epilogue.is_none(), "`{kind}` is not in chains");
        assert!(Mode::Fast.error(kind) >= row.error && Mode::Reference.error(kind) == 0.0);
    }
}

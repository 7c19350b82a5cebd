//! The cost of adding findings.

use std::cell::Cell;
use std::path::Path;

use super::{DangerKind, Findings, MAX_FINDINGS};

thread_local! {
    /// The number of comparisons of findings.
    pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
}

/// Adds `count` findings, each twice; returns the number of comparisons.
fn comparisons(count: usize) -> usize {
    COMPARED.set(0);
    let mut findings = Findings::default();
    for number in (0..count).chain(0..count) {
        let place = format!("operator {number}");
        findings.add(DangerKind::Operator, Path::new("model.onnx"), &place, "reads files");
    }
    assert_eq!(findings.count, count);
    assert_eq!(findings.kept.len(), count.min(MAX_FINDINGS));
    COMPARED.get()
}

#[test]
fn adding_a_finding_takes_constant_time() {
    let (few, many) = (comparisons(1000), comparisons(100_000));
    // One per duplicate, and few more.
    assert!(few >= 1000 && many >= 100_000, "{few} {many}");
    assert!(many < 100 * few * 2, "{few} {many}");
}

#[test]
fn equal_findings_in_different_files_are_distinct() {
    let mut findings = Findings::default();
    for file in ["a", "b", "b"] {
        findings.add(DangerKind::Path, Path::new(file), "a name", "it is absolute");
    }
    assert_eq!(findings.count, 2);
}

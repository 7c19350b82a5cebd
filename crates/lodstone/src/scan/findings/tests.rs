//! What it takes to add findings.

use std::cell::Cell;
use std::path::Path;

use super::{DangerKind, Findings, MAX_FINDINGS};

thread_local! {
    /// How often two findings were compared.
    pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
}

/// Adds so many findings, each twice; gives how many comparisons that took.
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
fn adding_a_finding_takes_the_same_work_however_many_there_are() {
    let (few, many) = (comparisons(1000), comparisons(100_000));
    // One for each that is there, and hardly any more.
    assert!(few >= 1000 && many >= 100_000, "{few} {many}");
    assert!(many < 100 * few * 2, "{few} {many}");
}

#[test]
fn findings_of_other_files_are_others() {
    let mut findings = Findings::default();
    for file in ["a", "b", "b"] {
        findings.add(DangerKind::Path, Path::new(file), "a name", "it is absolute");
    }
    assert_eq!(findings.count, 2);
}

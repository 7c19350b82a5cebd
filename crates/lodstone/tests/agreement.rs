//! What `operators` says about a model is what an export and a run do.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use lodstone::finding::Code;
use lodstone::ops::OperatorTarget;
use lodstone::{ConvertOptions, Error, MemoryStore, RunOptions, Target, convert, operators, run};

use crate::golden_models::{self, Golden};

/// Whether an export fails for what `operators` reports as the need of one.
fn is_need(error: &Error) -> bool {
    let Error::Lower(error) = error else { return false };
    let codes = [Code::UnknownDims, Code::NoParameter];
    error.findings.located.iter().all(|located| {
        codes.contains(&located.finding.code) || !located.place.contains("operator ")
    })
}

#[test]
fn a_supported_program_is_exported_and_another_is_not() {
    let (mut counts, mut wrong) = (BTreeMap::new(), Vec::new());
    for Golden { path, model, .. } in golden_models::all() {
        let Ok(report) = operators(&model, OperatorTarget::Onnx) else { continue };
        let options = ConvertOptions::default().with_to(Some(Target::Format("onnx".to_owned())));
        let dialect = model.main().unwrap().dialect;
        let done = convert(model, MemoryStore::default().location("a.onnx"), &options);
        let agrees = match (&done, report.supported, &report.needs) {
            (Ok(_), true, None) => true,
            (Err(error), true, Some(needs)) => error.to_string() == *needs || is_need(error),
            (Err(_), false, _) => true,
            _ => false,
        };
        *counts.entry((dialect.framework(), report.supported)).or_insert(0) += 1;
        if !agrees {
            let done = done.map(|_| ()).map_err(|error| error.to_string());
            wrong.push(format!("{path}: {}, {:?}, {done:?}", report.supported, report.needs));
        }
    }
    assert!(counts.values().sum::<usize>() > 200, "{counts:?}");
    assert!(wrong.is_empty(), "{} {wrong:#?}", wrong.len());
}

#[test]
fn a_supported_program_runs_and_another_does_not() {
    let (mut counts, mut wrong) = (BTreeMap::new(), Vec::new());
    for Golden { path, model, inputs } in golden_models::all() {
        let Ok(report) = operators(&model, OperatorTarget::Run) else { continue };
        let dialect = model.main().unwrap().dialect;
        let done = run(&model, inputs, &RunOptions::default());
        *counts.entry((dialect.framework(), report.supported)).or_insert(0) += 1;
        // Values, such as random indices, may be out of range.
        let is_unsupported = |error: &Error| match error {
            Error::Lower(error) => error.findings.has(Code::NoEquivalent),
            Error::Engine(error) => error.to_string().contains("not supported"),
            _ => false,
        };
        let agrees = match (&done, report.supported) {
            (Ok(_), supported) => supported,
            (Err(error), true) => !is_unsupported(error),
            (Err(_), false) => true,
        };
        if !agrees {
            let done = done.map(|_| ()).map_err(|error| error.to_string());
            wrong.push(format!("{path}: {}, {done:?}", report.supported));
        }
    }
    assert!(counts.values().sum::<usize>() > 150, "{counts:?}");
    assert!(wrong.is_empty(), "{} {wrong:#?}", wrong.len());
}

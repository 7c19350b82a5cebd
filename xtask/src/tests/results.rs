//! Results of suites, and what a resumed run skips.

use std::fs;
use std::time::Duration;

use crate::interop::Extent;
use crate::interop::results::Results;
use crate::run::Outcome;

#[test]
fn what_has_passed_at_the_same_revision_with_the_same_extent_is_skipped() {
    let directory = std::env::temp_dir().join(format!("lodstone-results-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("the directory is created");
    let path = directory.join("results.json");
    let extent = Extent { all: true, seed: 7 };
    let read = |revision: &str, extent: Extent, resumes: bool| {
        Results::read(&path, revision, extent, resumes).expect("results are read")
    };
    let has_passed =
        |results: &Results, name: &str| results.has_passed(name).expect("results are read");
    let results = read("a", extent, false);
    let record = |name: &str, outcome: Result<(), Outcome>| {
        results.record(name, &outcome, Duration::from_secs(3)).expect("a result is recorded");
    };
    record("onnx/nodes", Ok(()));
    record("onnx/models", Err(Outcome::Failed("a model".to_owned())));
    record("onnx", Err(Outcome::Failed("a model".to_owned())));
    record("onnx_other", Ok(()));
    record("mxnet", Err(Outcome::CouldNotRun("no network".to_owned())));
    record("mxnet", Ok(()));
    assert!(!has_passed(&results, "mxnet"), "a run that resumes nothing repeats everything");

    let resumed = read("a", extent, true);
    for (name, is_skipped) in [
        ("onnx/nodes", true),
        ("onnx/models", false),
        ("onnx", false),
        ("mxnet", true),
        ("torch", false),
    ] {
        assert_eq!(has_passed(&resumed, name), is_skipped, "{name}");
    }
    assert!(!has_passed(&read("b", extent, true), "mxnet"));
    assert!(!has_passed(&read("a", Extent { all: false, ..extent }, true), "mxnet"));
    assert!(!has_passed(&read("a", Extent { seed: 8, ..extent }, true), "mxnet"));

    resumed.forget("onnx").expect("parts are forgotten");
    let resumed = read("a", extent, true);
    assert!(!has_passed(&resumed, "onnx/nodes"));
    assert!(has_passed(&resumed, "onnx_other"));

    fs::write(&path, "[{").expect("the file is cut");
    let damaged = Results::read(&path, "a", extent, true).map(|_| ());
    assert!(matches!(damaged, Err(Outcome::CouldNotRun(why)) if why.contains("delete the file")));
    fs::remove_dir_all(&directory).expect("the directory is deleted");
}

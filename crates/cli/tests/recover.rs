//! `lodstone recover`.

#![expect(clippy::disallowed_methods, reason = "makes the directory that is written to")]

use std::path::Path;

use crate::common::{DIGITS, dir, good, root, run};
use lodstone::store::{Error as StoreError, StepKind};
use lodstone::{ConvertOptions, Progress, WriteOptions};
use serde_json::{Value, json};

/// Stops a conversion into `directory` after its first file has been moved into place, as a crash would.
pub(crate) fn interrupt(directory: &Path) {
    let progress = Progress::watched(|step| match step.kind {
        StepKind::Replace if step.path.ends_with("m.pdmodel") => Err(StoreError::Cancelled),
        _ => Ok(()),
    });
    let write = WriteOptions::default().with_progress(progress);
    let model = lodstone::open(root().join(DIGITS)).expect("a model");
    let options = ConvertOptions::default().with_write(write);
    lodstone::convert(model, directory.join("m.pdmodel"), &options).expect_err("interrupted");
}

#[test]
fn an_interrupted_write_is_reported_and_finished() {
    let dir = dir();
    let path = dir.path().to_str().expect("UTF-8");
    std::fs::write(dir.path().join("README.md"), "about").expect("written");
    interrupt(dir.path());

    let model = dir.path().join("m");
    let model = model.to_str().expect("UTF-8");
    for command in ["inspect", "verify"] {
        let outcome = run([command, model]);
        assert_eq!((outcome.code, outcome.out.as_str()), (Some(2), ""), "{outcome:?}");
        let expected = format!(
            "error: `{path}/m.pdmodel` is part of an interrupted write to `{path}`: \
             `lodstone recover` or the next write to that directory finishes it\n"
        );
        assert_eq!(outcome.err, expected);
    }

    let outcome = good(["recover", path]);
    assert_eq!(outcome.out, "finished an interrupted write: 1 file\n", "{outcome:?}");
    good(["inspect", model]);
    assert_eq!(good(["recover", path]).out, "nothing to recover\n");
}

#[test]
fn recoveries_are_reported_as_json() {
    let dir = dir();
    let recovered = || {
        let outcome = good(["recover", dir.path().to_str().expect("UTF-8"), "--json"]);
        serde_json::from_str::<Value>(&outcome.out).expect("JSON")
    };
    std::fs::write(dir.path().join("README.md"), "about").expect("written");
    interrupt(dir.path());
    std::fs::create_dir(dir.path().join(".1-0.lodstone")).expect("a directory");
    assert_eq!(recovered(), json!({"schema": 1, "files": 1, "left_over": 1}));
    assert_eq!(recovered(), json!({"schema": 1, "files": 0, "left_over": 0}));
}

#[test]
fn temporary_files_of_killed_writes_are_removed() {
    let dir = dir();
    std::fs::create_dir_all(dir.path().join(".1-0.lodstone/sub")).expect("directories");
    std::fs::create_dir(dir.path().join(".model.1-0.lodstone")).expect("a directory");
    let outcome = good(["recover", dir.path().to_str().expect("UTF-8")]);
    assert_eq!(outcome.out, "removed temporary files of 2 interrupted writes\n", "{outcome:?}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

#[test]
fn an_unfinished_recovery_reports_the_obstacle() {
    let dir = dir();
    interrupt(dir.path());
    std::fs::create_dir(dir.path().join("m.pdmodel")).expect("a directory");
    let outcome = run(["recover", dir.path().to_str().expect("UTF-8")]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.err.contains("/m.pdmodel`: Is a directory"), "{outcome:?}");
    let missing = run(["recover", "missing"]);
    assert_eq!(missing.code, Some(2), "{missing:?}");
}

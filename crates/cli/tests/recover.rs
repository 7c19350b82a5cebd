//! `lodstone recover`, as a user sees it.

#![expect(clippy::disallowed_methods, reason = "makes the directory that is written to")]

mod common;

use std::path::Path;

use common::{DIGITS, dir, good, root, run};
use lodstone::{ConvertOptions, Progress, StepKind, StoreError, WriteOptions};
use serde_json::{Value, json};

/// Stops a conversion into `directory` when its first file is in its place, as a crash would.
fn interrupt(directory: &Path) {
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
fn an_interrupted_write_is_told_and_finished() {
    let dir = dir();
    let path = dir.path().to_str().expect("UTF-8");
    std::fs::write(dir.path().join("README.md"), "about").expect("written");
    interrupt(dir.path());

    let model = dir.path().join("m");
    let model = model.to_str().expect("UTF-8");
    for command in ["inspect", "verify"] {
        let said = run([command, model]);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{said:?}");
        let expected = format!(
            "error: `{path}/m.pdmodel` is part of an interrupted write to `{path}`: \
             `lodstone recover` or the next write to that directory finishes it\n"
        );
        assert_eq!(said.err, expected);
    }

    let said = good(["recover", path]);
    assert_eq!(said.out, "finished an interrupted write: 1 file\n", "{said:?}");
    good(["inspect", model]);
    assert_eq!(good(["recover", path]).out, "nothing to recover\n");
}

#[test]
fn what_was_recovered_is_told_to_programs() {
    let dir = dir();
    let recovered = || {
        let said = good(["recover", dir.path().to_str().expect("UTF-8"), "--json"]);
        serde_json::from_str::<Value>(&said.out).expect("JSON")
    };
    std::fs::write(dir.path().join("README.md"), "about").expect("written");
    interrupt(dir.path());
    std::fs::create_dir(dir.path().join(".1-0.lodstone")).expect("a directory");
    assert_eq!(recovered(), json!({"schema": 1, "files": 1, "left_over": 1}));
    assert_eq!(recovered(), json!({"schema": 1, "files": 0, "left_over": 0}));
}

#[test]
fn what_a_killed_write_has_left_behind_is_removed() {
    let dir = dir();
    std::fs::create_dir_all(dir.path().join(".1-0.lodstone/sub")).expect("directories");
    std::fs::create_dir(dir.path().join(".model.1-0.lodstone")).expect("a directory");
    let said = good(["recover", dir.path().to_str().expect("UTF-8")]);
    assert_eq!(said.out, "removed temporary files of 2 interrupted writes\n", "{said:?}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

#[test]
fn what_cannot_be_finished_says_what_is_in_its_way() {
    let dir = dir();
    interrupt(dir.path());
    std::fs::create_dir(dir.path().join("m.pdmodel")).expect("a directory");
    let said = run(["recover", dir.path().to_str().expect("UTF-8")]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("/m.pdmodel`: Is a directory"), "{said:?}");
    let missing = run(["recover", "missing"]);
    assert_eq!(missing.code, Some(2), "{missing:?}");
}

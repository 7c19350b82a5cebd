//! `lodstone checkpoint`.

#![expect(clippy::disallowed_methods, reason = "damages files")]

use std::path::Path;

use crate::common::{bad, dir, good, read, run};
use lodstone::checkpoint::{Manager, ManagerOptions, Snapshot};
use lodstone::{Blob, DType, Parameter, Tensor};
use serde_json::{Value, json};

/// Writes serials of the steps 10, 20 and 30; returns the path.
pub(crate) fn serials(dir: &Path) -> String {
    let mut manager = Manager::open(dir, ManagerOptions::default()).expect("a directory");
    for step in [10_u8, 20, 30] {
        let of = |name: &str, len: u64| {
            let data = Blob::memory(vec![step; usize::try_from(len).expect("small")]);
            let tensor = Tensor::dense(DType::Uint8, vec![len], data);
            Parameter { name: name.to_owned(), tensor }
        };
        let snapshot = Snapshot::of_tensors([of("bias", 3), of("weight", 5000)]).expect("names");
        manager.save(step.into(), &snapshot.with("epoch", step / 10)).expect("saved");
    }
    dir.to_str().expect("UTF-8").to_owned()
}

fn json_of(arguments: &[&str]) -> Value {
    serde_json::from_str(&run(arguments).out).expect("JSON")
}

#[test]
fn serials_are_listed_and_shown() {
    let dir = dir();
    let path = serials(dir.path());
    let outcome = good(["checkpoint", "list", &path]);
    let lines: Vec<Vec<&str>> =
        outcome.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["step", "size", "variables", "path"]);
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[3][..4], ["30", "5.0", "KiB", "2"], "{outcome:?}");
    let listed = json_of(&["checkpoint", "list", &path, "--json"]);
    assert_eq!(listed["schema"], 1);
    assert_eq!(listed["serials"][0]["step"], 10);
    assert_eq!(listed["serials"][0]["variables"], 2);

    let outcome = good(["checkpoint", "show", &path]);
    assert!(outcome.out.contains("step-00000030: step 30\n"), "{outcome:?}");
    assert!(outcome.out.contains("  epoch: 3\n") && outcome.out.contains("[5000]"), "{outcome:?}");
    let shown = json_of(&["checkpoint", "show", &path, "--step", "20", "--json"]);
    assert_eq!((&shown["step"], &shown["metadata"]), (&json!(20), &json!({"epoch": 2})));
    let error = bad(["checkpoint", "show", &path, "--step", "25"]);
    assert!(error.contains("10, 20, 30"), "{error}");
}

#[test]
fn one_flipped_bit_is_found_and_named() {
    let dir = dir();
    let path = serials(dir.path());
    let outcome = good(["checkpoint", "verify", &path]);
    assert_eq!(outcome.out.matches(": whole\n").count(), 3, "{outcome:?}");
    let file = dir.path().join("step-00000020/params");
    let mut bytes = read(&file);
    *bytes.last_mut().expect("not empty") ^= 1;
    std::fs::write(&file, bytes).expect("written");
    let outcome = run(["checkpoint", "verify", &path]);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(1), ""), "{outcome:?}");
    assert!(outcome.out.contains("step-00000020: damaged\n"), "{outcome:?}");
    assert!(outcome.out.contains("tensor `weight`, chunk 1 of 1"), "{outcome:?}");
    let found = json_of(&["checkpoint", "verify", &path, "--json"]);
    assert_eq!((&found["whole"], &found["serials"][2]["whole"]), (&json!(false), &json!(true)));
    assert_eq!(run(["checkpoint", "verify", &path, "--step", "30"]).code, Some(0));

    let out = dir.path().join("out.npz");
    let error = bad(["checkpoint", "restore", &path, out.to_str().expect("UTF-8"), "--step", "20"]);
    assert!(error.contains("tensor `weight`") && !out.exists(), "{error}");
    std::fs::write(dir.path().join("step-00000010/manifest.json"), "{}").expect("written");
    assert_eq!(run(["checkpoint", "verify", &path, "--step", "10"]).code, Some(1));
    let outcome = run(["checkpoint", "list", &path]);
    assert!(outcome.code == Some(0) && outcome.err.contains("cannot be used"), "{outcome:?}");
}

#[test]
fn variables_are_restored_into_any_format() {
    let dir = dir();
    let path = serials(dir.path());
    let out = dir.path().join("out.safetensors");
    let out = out.to_str().expect("UTF-8");
    let outcome = good(["checkpoint", "restore", &path, out]);
    assert!(outcome.out.starts_with("step 30 -> safetensors: 2 tensors, 4.9 KiB\n"), "{outcome:?}");
    let model = lodstone::open(out).expect("a model");
    let bias = model.parameter("bias").expect("a bias").data.bytes().expect("bytes");
    assert_eq!(bias.as_ref(), [30, 30, 30]);
}

#[test]
fn the_oldest_checkpoints_are_removed_and_one_remains() {
    let dir = dir();
    let path = serials(dir.path());
    let outcome = good(["checkpoint", "prune", &path, "--keep", "2"]);
    assert_eq!(outcome.out, "removed 1 checkpoint: 10\n");
    assert_eq!(good(["checkpoint", "prune", &path, "--keep", "2"]).out, "nothing to remove\n");
    assert_eq!(
        good(["checkpoint", "prune", &path, "--keep", "0"]).out,
        "removed 1 checkpoint: 20\n"
    );
    let _writer = Manager::open(dir.path(), ManagerOptions::default()).expect("free");
    let error = bad(["checkpoint", "prune", &path, "--keep", "1"]);
    assert!(error.contains("is in use: another writer has locked it"), "{error}");

    let absent = dir.path().join("absent");
    let absent = absent.to_str().expect("UTF-8");
    for command in ["list", "show", "verify"] {
        bad(["checkpoint", command, absent]);
    }
    bad(["checkpoint", "prune", absent, "--keep", "1"]);
    assert!(!Path::new(absent).exists());
}

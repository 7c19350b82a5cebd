//! Hostile ONNX models: each is rejected, reported as invalid, or harmless, as recorded.
//! `hostile/onnx/make_attacks.py` creates them.

#![expect(clippy::disallowed_methods, reason = "tests read and write files directly")]

use std::fs;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use lodstone_formats::{OpenOptions, WriteOptions, onnx};
use lodstone_schema::onnx::{CONVENTIONS, newest_opset, upgrade};
use lodstone_store::Location;
use serde::Deserialize;

#[derive(Deserialize)]
struct Attack {
    file: String,
    outcome: Outcome,
    /// Parts of the error, or of a finding.
    words: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    /// Opening fails.
    Refused,
    /// It opens, but violates rules.
    Broken,
    /// It is valid.
    Harmless,
}

/// Creates the files that the script expects beside a model.
fn set_up(scratch: &Path) -> std::path::PathBuf {
    let model = scratch.join("model");
    fs::create_dir_all(model.join("junk")).expect("directories");
    fs::write(scratch.join("secret"), [7; 64]).expect("a file");
    fs::write(model.join("weights"), [0; 64]).expect("a file");
    symlink("../secret", model.join("link")).expect("a link");
    symlink("..", model.join("linked")).expect("a link");
    fs::hard_link(scratch.join("secret"), model.join("hard")).expect("a link");
    model
}

/// Returns the outcome for a file, and its messages.
fn tried(path: &Path, out: &Path) -> (Outcome, Vec<String>) {
    let mut model = match (onnx::BINARY.read)(&Location::from(path), &OpenOptions::default()) {
        Ok(model) => model,
        Err(error) => return (Outcome::Refused, vec![error.to_string()]),
    };
    let inferred = (CONVENTIONS.infer)(&model);
    let mut findings = (CONVENTIONS.check)(&model, inferred.as_ref());
    inferred.into_iter().for_each(|inferred| findings.extend(inferred.findings));
    let said: Vec<String> = findings.located.iter().map(ToString::to_string).collect();
    // An opened model can be written, and upgraded or not: nothing else happens.
    onnx::BINARY.write(&model, out, &WriteOptions::default()).expect("written");
    let newest = newest_opset("").expect("a version");
    let _ = upgrade(&mut model, newest);
    (if findings.is_empty() { Outcome::Harmless } else { Outcome::Broken }, said)
}

#[test]
fn every_attack_has_the_expected_result() {
    let attacks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/onnx");
    let index = fs::read(attacks.join("index.json")).expect("an index");
    let index: Vec<Attack> = serde_json::from_slice(&index).expect("an index");
    assert!(index.len() >= 37);
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = set_up(scratch.path());
    for Attack { file, outcome, words } in index {
        let path = directory.join("model.onnx");
        fs::copy(attacks.join(&file), &path).expect("copied");
        let out = scratch.path().join("out.onnx");
        let found = catch_unwind(AssertUnwindSafe(|| tried(&path, &out)));
        let (found, said) = found.unwrap_or_else(|_| panic!("{file} panics"));
        assert_eq!(found, outcome, "{file}: {said:?}");
        let told = |told: &String| words.iter().all(|word| told.contains(word));
        assert!(words.is_empty() || said.iter().any(told), "{file}: {said:?}");
        assert_eq!(fs::read(scratch.path().join("secret")).expect("a file"), [7; 64], "{file}");
    }
}

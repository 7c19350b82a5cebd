//! The golden models of all formats, as their indexes list them.

#![allow(clippy::disallowed_methods, reason = "reads what the scripts wrote")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lodstone::{Model, OpenOptions, open_with};
use serde_json::Value;

pub(crate) fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden")
}

/// A golden model: its path, and the path of its parameters if they are elsewhere.
struct Case {
    path: String,
    params: Option<PathBuf>,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let folders = std::fs::read_dir(golden()).expect("folders").map(|it| it.expect("one").path());
    for folder in folders {
        let Ok(index) = std::fs::read(folder.join("index.json")) else { continue };
        let index: Value = serde_json::from_slice(&index).expect("JSON");
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        for case in index["cases"].as_array().expect("cases") {
            // Golden models for checks and upgrades are not meant to be opened.
            if case["format"].is_null() {
                continue;
            }
            let path = format!("{name}/{}", case["path"].as_str().expect("a path"));
            let params = case["params"].as_str().map(|params| folder.join(params));
            cases.push(Case { path, params });
        }
    }
    cases
}

/// Returns every golden model that can be opened, by path. (Some golden arrays must be rejected; the test suite of their
/// format lists which.)
pub(crate) fn models() -> BTreeMap<String, Model> {
    let open = |case: Case| {
        let options = OpenOptions::default().with_params(case.params.map(Into::into));
        open_with(golden().join(&case.path), &options).ok().map(|model| (case.path, model))
    };
    let models: BTreeMap<_, _> = cases().into_iter().filter_map(open).collect();
    assert!(models.len() > 180, "{}", models.len());
    models
}

//! Models that PaddlePaddle 1.8.5 saved give what it computed, run as they are and exported to ONNX: their operators compute
//! something else in newer releases.
//!
//! `golden/paddle_older/make_paddle_older.py` saved them.

#![expect(clippy::disallowed_methods, reason = "reads and writes files directly")]

use std::path::{Path, PathBuf};

use lodstone::run::tensors;
use lodstone::{ConvertOptions, Inputs, Model, Parameter, RunOptions, Target, convert, open, run};

use crate::paddle_recorded as recorded;

/// The maximum difference of an element: relative, and absolute.
const TOLERANCE: (f64, f64) = (2e-5, 2e-5);

fn folders() -> Vec<PathBuf> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/paddle_older");
    let entries = std::fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn results(model: &Model, folder: &Path) -> Result<Vec<Parameter>, String> {
    let given = open(folder.join("in.npz")).unwrap().parameters;
    let interface = &model.main().unwrap();
    let needed = (lodstone_schema::conventions(interface).interface)(interface);
    let given = given.into_iter().filter(|it| needed.inputs.contains(&it.name.as_str()));
    let values = given.map(|it| (Some(it.name), it.tensor.into())).collect();
    let inputs = Inputs { values, lod: Vec::new() };
    run(model, inputs, &RunOptions::default()).map(tensors).map_err(|error| error.to_string())
}

fn assert_expected(mut found: Vec<Parameter>, folder: &Path, how: &str) {
    // Offsets of sequences are outputs of their own in ONNX.
    found.retain(|output| !output.name.contains(".lod"));
    let wanted = open(folder.join("expected.npz")).unwrap().parameters;
    assert_eq!(wanted.len(), found.len(), "{}, {how}", folder.display());
    for (wanted, found) in wanted.iter().zip(&found) {
        let difference = recorded::difference(&wanted.tensor, &found.tensor, TOLERANCE);
        assert_eq!(difference, None, "{}, {how}, `{}`", folder.display(), found.name);
    }
}

#[test]
fn older_models_compute_what_their_release_computed() {
    for folder in folders() {
        let found = results(&open(&folder).unwrap(), &folder);
        assert_expected(found.unwrap(), &folder, "run");
    }
}

#[test]
fn older_models_are_exported_as_their_release_computes() {
    let dir = tempfile::tempdir().unwrap();
    for folder in folders() {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap();
        let out = dir.path().join(name).with_extension("onnx");
        let options = ConvertOptions::default().with_to(Some(Target::Format("onnx".to_owned())));
        convert(open(&folder).unwrap(), out.clone(), &options).unwrap();
        let found = results(&open(&out).unwrap(), &folder);
        assert_expected(found.unwrap(), &folder, "exported");
    }
}

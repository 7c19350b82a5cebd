//! Gluon blocks of `Block.save` in MXNet 2: the mapping of parameters to variables of the program.
#![expect(clippy::disallowed_methods, reason = "tests read and write files directly")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{bytes, facts_of_all};
use lodstone_formats::{Error, FORMATS, OpenOptions, Probe, mxnet};
use lodstone_model::{Limits, Model};
use lodstone_store::{Blob, Location};
use serde::Deserialize;
use serde_json::Value;

/// The recorded contents of a block.
#[derive(Deserialize)]
struct Expected {
    /// The SHA-256 of each parameter, by path.
    parameters: BTreeMap<String, String>,
    /// The path of each parameter, by the variable of the program.
    variables: BTreeMap<String, String>,
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mxnet_block")
}

fn expected(name: &str) -> Expected {
    let mut all: BTreeMap<String, Expected> =
        serde_json::from_slice(&bytes(&golden().join("expected.json"))).unwrap();
    all.remove(name).unwrap()
}

fn open(path: &Path) -> Result<Model, Error> {
    mxnet::open(&Location::from(path), &OpenOptions::default())
}

/// Returns the names that operators of the program of a block read, as in the file.
fn read_names(name: &str) -> Vec<String> {
    let file: Value =
        serde_json::from_slice(&bytes(&golden().join(name).join("net-model.json"))).unwrap();
    let block = file.as_object().unwrap().values().next().unwrap();
    let text = block["symbol"].as_str().unwrap().as_bytes().to_vec();
    let program = mxnet::symbol::read(&Blob::memory(text), &Limits::default()).unwrap();
    program.ops().flat_map(|op| op.reads()).map(str::to_owned).collect()
}

#[test]
fn variables_are_named_by_the_paths_of_their_parameters() {
    for name in ["sequential", "named"] {
        let expected = expected(name);
        for path in ["net-model.json", "net", ""] {
            let model = open(&golden().join(name).join(path)).unwrap();
            assert_eq!(model.format, "mxnet-block");
            let found: BTreeMap<String, String> = facts_of_all(&model)
                .into_iter()
                .filter_map(|f| Some((f.name, f.sha256?)))
                .collect();
            assert_eq!(found, expected.parameters, "{name}");
            let program = model.main().unwrap();
            let reads: Vec<&str> = program.ops().flat_map(|op| op.reads()).collect();
            let wanted: Vec<String> = read_names(name)
                .into_iter()
                .map(|old| expected.variables.get(&old).cloned().unwrap_or(old))
                .collect();
            assert_eq!(reads, wanted, "{name}");
            let inputs = lodstone_schema::mxnet::interface(program).inputs;
            assert_eq!(inputs, ["data"], "{name}");
            assert!(model.report.warnings.is_empty(), "{:?}", model.report.warnings);
        }
    }
}

#[test]
fn indistinguishable_parameters_keep_their_names_with_a_warning() {
    let model = open(&golden().join("alike/net-model.json")).unwrap();
    assert_eq!(model.parameters.len(), expected("alike").parameters.len());
    assert!(model.main().is_some());
    assert!(model.report.warnings[0].contains("cannot be matched"), "{:?}", model.report.warnings);
}

#[test]
fn a_block_that_was_not_hybridized_has_parameters_only() {
    let model = open(&golden().join("imperative/net-model.json")).unwrap();
    assert!(model.main().is_none());
    let mut names: Vec<&str> = model.parameters.iter().map(|p| p.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, expected("imperative").parameters.keys().collect::<Vec<_>>());
    assert!(model.report.warnings[0].contains("not hybridized"), "{:?}", model.report.warnings);
}

#[test]
fn damaged_blocks_are_errors() {
    let whole = bytes(&golden().join("named/net-model.json"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("net-model.json");
    for end in 0..whole.len() {
        std::fs::write(&path, &whole[..end]).unwrap();
        assert!(open(&path).is_err(), "cut at {end}");
    }
    for other in [
        r#"{"a": {"params": 1}}"#,
        r#"{"a": {"params": {}, "b": 1}}"#,
        r#"{"a": {"params": {"w": 1}}}"#,
    ] {
        std::fs::write(&path, other).unwrap();
        assert!(open(&path).is_err(), "{other}");
    }
    let location = Location::from(&path);
    let probe = Probe { path: &location, head: &whole, len: whole.len() as u64, entries: None };
    let found = FORMATS.iter().find(|format| (format.detect)(&probe)).map(|format| format.name);
    assert_eq!(found, Some("mxnet"));
}

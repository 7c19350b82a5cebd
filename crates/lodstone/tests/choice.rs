//! The choice of parameters if several files lie beside a program: those of its prefix, or a warning, or an error.
#![expect(clippy::disallowed_methods, reason = "tests write files directly")]

use std::fs;
use std::path::{Path, PathBuf};

use lodstone::formats::Error as FormatError;
use lodstone::{Error, Model, OpenOptions, open, open_with};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn lenet() -> PathBuf {
    root().join("crates/formats/tests/golden/paddle/2.6.2/lenet/saved")
}

/// Copies the files of one prefix under another.
fn saved(dir: &Path, prefix: &str, extensions: &[&str]) {
    for extension in extensions {
        let to = dir.join(format!("{prefix}.{extension}"));
        fs::copy(lenet().join(format!("lenet.{extension}")), to).expect("a copy");
    }
}

/// Writes the parameters of the program, with other values, to a file of another name.
fn unrelated(dir: &Path, name: &str) {
    let mut model = open(lenet().join("lenet")).expect("a model");
    let names: Vec<String> = {
        let program = model.main().expect("a program");
        lodstone_schema_names(program)
    };
    model.parameters.retain(|parameter| names.contains(&parameter.name));
    model.parameters.sort_by(|a, b| a.name.cmp(&b.name));
    for parameter in &mut model.parameters {
        let zeros = vec![0u8; usize::try_from(parameter.tensor.nbytes()).expect("a size")];
        parameter.tensor.data = zeros.into();
    }
    model.programs = lodstone::model::Programs::default();
    model.residual.clear();
    let options = lodstone::ConvertOptions::default()
        .with_to(Some(lodstone::Target::Format("paddle-params".to_owned())))
        .with_allow(lodstone::Loss::ALL.to_vec());
    lodstone::convert(model, dir.join(name), &options).expect("written");
}

/// Returns the names of the saved variables of a program.
fn lodstone_schema_names(program: &lodstone::model::Program) -> Vec<String> {
    program.vars().filter(|var| var.persistable).map(|var| var.name.clone()).collect()
}

fn first(model: &Model) -> Vec<u8> {
    let parameter = model.parameters.iter().max_by_key(|p| p.tensor.nbytes()).expect("a tensor");
    parameter.tensor.data.bytes().expect("bytes").to_vec()
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn files_of_the_same_prefix_take_precedence_over_default_names() {
    let own = first(&open(lenet().join("lenet")).expect("a model"));
    for name in ["__params__", "params"] {
        let dir = dir();
        saved(dir.path(), "X", &["pdmodel", "pdparams", "pdopt"]);
        unrelated(dir.path(), name);
        for path in [dir.path().join("X"), dir.path().join("X.pdmodel"), dir.path().to_path_buf()] {
            let model = open(&path).expect("a model");
            assert_eq!(first(&model), own, "{name}, {}", path.display());
            assert!(own.iter().any(|byte| *byte != 0));
        }
    }
}

#[test]
fn parameters_that_do_not_share_the_prefix_are_read_with_a_warning() {
    for name in ["__params__", "params"] {
        let dir = dir();
        saved(dir.path(), "X", &["pdmodel"]);
        unrelated(dir.path(), name);
        let model = open(dir.path().join("X")).expect("a model");
        let warned = model.report.warnings.join("\n");
        assert!(warned.contains(&format!("`{name}`")), "{warned}");
        assert!(warned.contains("does not share the prefix"), "{warned}");
    }
}

fn ambiguous(path: &Path, candidates: [&str; 2]) {
    match open(path) {
        Err(Error::Format(FormatError::AmbiguousParams { candidates: mut found, .. })) => {
            found.sort();
            assert_eq!(found, candidates);
        }
        other => panic!("{other:?}"),
    }
    // If it is named, each of them is read.
    for name in candidates {
        let params = Some(path.parent().expect("a directory").join(name).into());
        let options = OpenOptions::default().with_params(params);
        open_with(path, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn two_candidates_are_an_error() {
    let two = dir();
    saved(two.path(), "X", &["pdmodel", "pdparams"]);
    unrelated(two.path(), "X.pdiparams");
    ambiguous(&two.path().join("X.pdmodel"), ["X.pdiparams", "X.pdparams"]);
    let two = dir();
    saved(two.path(), "X", &["pdmodel"]);
    fs::rename(two.path().join("X.pdmodel"), two.path().join("__model__")).expect("renamed");
    unrelated(two.path(), "__params__");
    unrelated(two.path(), "params");
    ambiguous(&two.path().join("__model__"), ["__params__", "params"]);
}

#[test]
fn training_begins_with_the_parameters_of_the_prefix() {
    let dir = dir();
    let training = root().join("examples/digits/training");
    fs::copy(training.join("main_program"), dir.path().join("X.pdmodel")).expect("a copy");
    fs::copy(training.join("__params__"), dir.path().join("X.pdiparams")).expect("a copy");
    let model = open(training).expect("a model");
    let own = first(&model);
    // The same size, but different numbers.
    let mut other = fs::read(dir.path().join("X.pdiparams")).expect("a file");
    let at = other.windows(own.len()).position(|found| found == own).expect("the tensor");
    other[at..at + own.len()].fill(0);
    fs::write(dir.path().join("__params__"), other).expect("written");
    assert_eq!(first(&open(dir.path().join("X")).expect("a model")), own);
}

#[test]
fn other_epochs_of_a_prefix_are_reported() {
    let dir = dir();
    let digits = root().join("examples/digits/mxnet");
    for (from, to) in [
        ("digits-symbol.json", "digits-symbol.json"),
        ("digits-0012.params", "digits-0012.params"),
        ("digits-0012.params", "digits-0003.params"),
    ] {
        fs::copy(digits.join(from), dir.path().join(to)).expect("a copy");
    }
    let model = open(dir.path().join("digits")).expect("a model");
    let warned = model.report.warnings.join("\n");
    assert!(warned.contains("digits-0003.params"), "{warned}");
}

#[test]
fn a_file_beside_shards_that_is_not_one_of_them_is_reported_or_rejected() {
    let dir = dir();
    let model = open(root().join("examples/digits/paddle")).expect("a model");
    let write = lodstone::WriteOptions::default().with_max_shard_size(Some(9000));
    let options = lodstone::ConvertOptions::default().with_weights_only(true).with_write(write);
    let first = lodstone::convert(model, dir.path().join("model.safetensors"), &options);
    let shard = first
        .expect("written")
        .files
        .into_iter()
        .find(|file| file.extension().is_some_and(|extension| extension == "safetensors"));
    let shard = shard.expect("a shard");
    fs::copy(&shard, dir.path().join("other.safetensors")).expect("a copy");
    let warned = open(dir.path()).expect("a model").report.warnings.join("\n");
    assert!(warned.contains("other.safetensors"), "{warned}");
    fs::copy(&shard, dir.path().join("model.safetensors")).expect("a copy");
    open(dir.path()).expect_err("two models");
}

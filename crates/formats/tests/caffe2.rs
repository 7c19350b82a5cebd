//! Caffe2 nets: contents, and byte-identical write-back.
#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

pub(crate) mod hostile;

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::facts::cases;
use crate::support::facts_of_all;
use lodstone_formats::{FORMATS, OpenOptions, Probe, WriteOptions, caffe2, named};
use lodstone_model::{DType, Limits, Model, Parameter, Tensor};
use lodstone_store::{Blob, Location};
use sha2::{Digest, Sha256};

/// Returns the files that Caffe2 wrote, with their facts.
fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/caffe2")
}

/// Returns the nets that the tests of the facade run.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lowering/tests/golden/caffe2")
}

/// Opens a file by the format that is detected.
fn open(path: &Path) -> Model {
    let location = Location::from(path.to_path_buf());
    let bytes = fs::read(path).unwrap();
    let head = &bytes[..bytes.len().min(4096)];
    let probe = Probe { path: &location, head, len: bytes.len() as u64, entries: None };
    let format = FORMATS.iter().find(|format| (format.detect)(&probe));
    let format = format.unwrap_or_else(|| panic!("no format detects {}", path.display()));
    let model = (format.read)(&location, &OpenOptions::default());
    model.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the files that a model was read from.
fn files(model: &Model) -> Vec<PathBuf> {
    model.files.iter().map(|blob| blob.path().to_path_buf()).collect()
}

/// Writes a model as it was, and fails unless each file has its bytes.
fn assert_written_back(path: &Path) {
    let model = open(path);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join(path.file_name().unwrap());
    let options = WriteOptions::default().with_same(true);
    let format = named(&model.format).unwrap();
    format.write(&model, Location::from(out), &options).unwrap();
    let mut written: Vec<Vec<u8>> =
        fs::read_dir(dir.path()).unwrap().map(|it| fs::read(it.unwrap().path()).unwrap()).collect();
    let mut expected: Vec<Vec<u8>> =
        files(&model).iter().map(|file| fs::read(file).unwrap()).collect();
    written.sort();
    expected.sort();
    assert!(written == expected, "{} was not written back", path.display());
}

/// Returns the nets of a folder and those below it.
fn nets(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.extension().and_then(|end| end.to_str()) {
            None if path.is_dir() => nets(&path, found),
            Some("pb" | "pbtxt" | "minidb") if fs::metadata(&path).unwrap().len() > 0 => {
                found.push(path);
            }
            _ => {}
        }
    }
}

#[test]
fn tensors_are_those_that_caffe2_saved() {
    for case in cases(&recorded()) {
        // A pair has the name of a folder.
        let first = case.files.keys().next().unwrap();
        let model = open(&recorded().join(first));
        assert_eq!(model.format, case.format, "{}", case.path);
        assert_eq!(facts_of_all(&model), case.tensors, "{}", case.path);
        assert_written_back(&recorded().join(first));
    }
}

#[test]
fn every_net_of_the_collection_is_written_back() {
    let Some(all) = std::env::var_os("LODSTONE_CASES").map(PathBuf::from) else { return };
    let mut found = Vec::new();
    nets(&all.join("glow/models/caffe2Models"), &mut found);
    nets(&all.join("peers/caffe2-torch1.9.1"), &mut found);
    assert!(found.len() > 100, "{} files", found.len());
    let failed =
        found.iter().filter(|path| std::panic::catch_unwind(|| assert_written_back(path)).is_err());
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "{} of {} files: {failed:#?}", failed.len(), found.len());
}

/// Compares the tensors of every file with the names, types, shapes and hashes that were recorded when it was written.
#[test]
fn tensors_of_the_collection_have_their_recorded_bytes() {
    let Some(all) = std::env::var_os("LODSTONE_CASES").map(PathBuf::from) else { return };
    let (mut found, mut tried) = (Vec::new(), 0);
    nets(&all.join("peers/caffe2-torch1.9.1"), &mut found);
    for path in found {
        let facts = PathBuf::from(format!("{}.facts.json", path.display()));
        let Ok(text) = fs::read(facts) else { continue };
        let facts: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let Some(tensors) = facts["tensors"].as_array() else { continue };
        let model = open(&path);
        assert_eq!(model.parameters.len(), tensors.len(), "{}", path.display());
        for expected in tensors {
            let name = expected["name"].as_str().unwrap();
            let at = format!("{}: `{name}`", path.display());
            let tensor = model.parameter(name).unwrap_or_else(|| panic!("{at} is missing"));
            let shape: Vec<u64> =
                expected["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
            assert_eq!(tensor.shape, shape, "{at}");
            assert_eq!(tensor.dtype.to_string(), expected["dtype"].as_str().unwrap(), "{at}");
            let hash = Sha256::digest(tensor.data.bytes().unwrap());
            let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hash, expected["sha256"].as_str().unwrap(), "{at}");
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried}");
}

#[test]
fn golden_nets_are_written_back() {
    let mut found = Vec::new();
    nets(&golden(), &mut found);
    // Nets that fill nothing are only recognized beside others.
    found.retain(|path| fs::metadata(path).unwrap().len() > 16);
    assert!(found.len() > 90, "{} files", found.len());
    found.iter().for_each(|path| assert_written_back(path));
}

/// Reads a net from memory, and everything in it; the result does not matter.
fn read(bytes: &[u8], is_init: bool) {
    let blob = Blob::memory(bytes.to_vec());
    if let Ok(model) = caffe2::read_net(&blob, "n", &Limits::default(), is_init) {
        model.parameters.iter().for_each(|it| drop(it.tensor.data.bytes()));
    }
}

fn read_records(bytes: &[u8], is_database: bool) {
    let blob = Blob::memory(bytes.to_vec());
    if let Ok(model) = caffe2::read_records(&blob, "d", &Limits::default(), is_database) {
        model.parameters.iter().for_each(|it| drop(it.tensor.data.bytes()));
    }
}

/// Calls a reader with every prefix of a file, and with every byte replaced by some others.
fn damage(bytes: &[u8], read: impl Fn(&[u8])) {
    // Large files repeat the same structures.
    let step = bytes.len().div_ceil(600).max(1);
    for at in (0..bytes.len()).step_by(step) {
        read(&bytes[..at]);
        for value in [0, 1, 8, 0x0a, 0x2d, 0x7f, 0x80, 0xfe, 0xff] {
            let mut changed = bytes.to_vec();
            changed[at] = value;
            read(&changed);
        }
    }
}

#[test]
fn damaged_nets_are_errors() {
    let mut found = Vec::new();
    nets(&golden(), &mut found);
    for path in found {
        let bytes = fs::read(&path).unwrap();
        let is_init = path.file_name().unwrap() == "init_net.pb";
        damage(&bytes, |bytes| read(bytes, is_init));
    }
}

/// Returns the bytes of a model in a format.
fn written(model: &Model, format: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let format = named(format).unwrap();
    format.write(model, Location::from(out.clone()), &WriteOptions::default()).unwrap();
    fs::read(out).unwrap()
}

/// Returns a model of tensors only.
fn tensors() -> Model {
    let mut parameters = open(&golden().join("conv/init_net.pb")).parameters;
    let numbers: Vec<u8> = (0..100_i64).flat_map(|it| (it - 50).to_le_bytes()).collect();
    for (name, dtype, size) in [
        ("int64", DType::Int64, 100),
        ("int32", DType::Int32, 200),
        ("int16", DType::Int16, 400),
        ("bool", DType::Bool, 0),
        ("float64", DType::Float64, 100),
        ("uint8", DType::Uint8, 800),
    ] {
        let data = if size == 0 { Vec::new() } else { numbers.clone() };
        let data = if dtype == DType::Float64 { vec![0; 800] } else { data };
        let tensor = Tensor::dense(dtype, vec![size], Blob::memory(data));
        parameters.push(Parameter { name: name.to_owned(), tensor });
    }
    Model { parameters, ..Model::default() }
}

#[test]
fn tensors_survive_every_format() {
    let model = tensors();
    for format in ["caffe2", "caffe2-text", "caffe2-minidb"] {
        let bytes = Blob::memory(written(&model, format));
        let limits = Limits::default();
        let again = match format {
            "caffe2-minidb" => caffe2::read_records(&bytes, "d", &limits, true),
            _ => caffe2::read_net(&bytes, "n", &limits, true),
        };
        let again = again.unwrap();
        assert_eq!(again.parameters.len(), model.parameters.len(), "{format}");
        for Parameter { name, tensor } in &model.parameters {
            let found = again.parameter(name).unwrap();
            assert_eq!(
                (found.dtype, &found.shape),
                (tensor.dtype, &tensor.shape),
                "{format} {name}"
            );
            assert_eq!(
                found.data.bytes().unwrap(),
                tensor.data.bytes().unwrap(),
                "{format} {name}"
            );
        }
    }
}

#[test]
fn damaged_databases_and_texts_are_errors() {
    let database = written(&tensors(), "caffe2-minidb");
    damage(&database, |bytes| read_records(bytes, true));
    // The value of the first record is a blob alone.
    damage(&database[12..], |bytes| read_records(bytes, false));
    damage(&written(&tensors(), "caffe2-text"), |bytes| read(bytes, true));
}

#[test]
fn an_edited_weight_leaves_all_other_bytes() {
    let path = golden().join("conv/init_net.pb");
    let mut model = open(&path);
    let bias = model.parameters.iter_mut().find(|it| it.name == "b").unwrap();
    bias.tensor.data = Blob::memory(vec![0; 24]);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("init_net.pb");
    let options = WriteOptions::default().with_same(true);
    named("caffe2").unwrap().write(&model, Location::from(out.clone()), &options).unwrap();
    let (before, after) = (fs::read(path).unwrap(), fs::read(&out).unwrap());
    assert_eq!(before.len(), after.len());
    let changed = before.iter().zip(&after).filter(|(a, b)| a != b).count();
    assert!((1..=24).contains(&changed), "{changed} bytes changed");
    assert_eq!(*open(&out).parameter("b").unwrap().data.bytes().unwrap(), [0; 24]);
}

#[test]
fn shapes_that_do_not_match_are_errors() {
    let net = |shape: &str, values: &str| {
        let args = format!("arg {{ name: \"shape\" {shape} }} arg {{ name: \"values\" {values} }}");
        let text = format!("op {{ output: \"w\" type: \"GivenTensorFill\" {args} }}");
        let blob = Blob::memory(text.into_bytes());
        caffe2::read_net(&blob, "n", &Limits::default(), true).map(|model| model.parameters.len())
    };
    assert_eq!(net("ints: 2", "floats: 1 floats: 2").unwrap(), 1);
    let error = net("ints: 3", "floats: 1 floats: 2").unwrap_err().to_string();
    assert!(error.contains("`w`") && error.contains("expected 3 floats"), "{error}");
    let error = net("ints: 4611686018427387904 ints: 8", "floats: 1").unwrap_err().to_string();
    assert!(error.contains("64 bits"), "{error}");
}

//! Caffe2 nets: contents, and byte-identical write-back.
#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use lodstone_formats::{FORMATS, OpenOptions, Probe, WriteOptions, named};
use lodstone_model::{Model, Programs};
use lodstone_store::Location;
use sha2::{Digest, Sha256};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/caffe2")
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
    println!("{tried} tensors");
    assert!(tried > 50, "{tried}");
}

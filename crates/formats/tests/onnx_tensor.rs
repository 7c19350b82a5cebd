//! Single ONNX tensors: the contents of the files, byte-for-byte write-back, and rejected files.
#![expect(clippy::disallowed_methods, reason = "tests read and write files directly")]

use std::path::{Path, PathBuf};

use crate::support::facts::{self, Case};
use crate::support::{bytes, facts_of_all};
use lodstone_formats::{Error, FORMATS, OpenOptions, Probe, WriteOptions, onnx};
use lodstone_model::{DType, Model, Parameter, Tensor};
use lodstone_store::{Blob, Location};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/onnx_tensor")
}

fn cases() -> Vec<Case> {
    facts::cases(&golden())
}

fn open(path: &Path) -> Result<Model, Error> {
    (onnx::TENSOR.read)(&Location::from(path), &OpenOptions::default())
}

/// Returns the detected format of a file.
fn detected(bytes: &[u8]) -> Option<&'static str> {
    let path = Location::from("x.pb");
    let head = &bytes[..bytes.len().min(4096)];
    let probe = Probe { path: &path, head, len: bytes.len() as u64, entries: None };
    FORMATS.iter().find(|format| (format.detect)(&probe)).map(|format| format.name)
}

#[test]
fn every_tensor_is_what_onnx_wrote() {
    assert_eq!(cases().len(), 13);
    for case in cases() {
        let path = golden().join(&case.path);
        assert_eq!(detected(&bytes(&path)), Some("onnx-tensor"), "{}", case.path);
        let model = open(&path).unwrap_or_else(|error| panic!("{}: {error}", case.path));
        assert_eq!(facts_of_all(&model), case.tensors, "{}", case.path);
    }
}

#[test]
fn every_file_is_written_back_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.pb");
    for case in cases() {
        let path = golden().join(&case.path);
        let options = WriteOptions::default().with_same(true);
        onnx::TENSOR.write(&open(&path).unwrap(), Location::from(&out), &options).unwrap();
        assert!(bytes(&out) == bytes(&path), "{}", case.path);
    }
}

#[test]
fn tensors_of_other_formats_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.pb");
    let data = Blob::memory([1.5_f32, -2.0].map(f32::to_le_bytes).concat());
    let tensor = Tensor::dense(DType::Float32, vec![2, 1], data);
    let one = Parameter { name: "y".to_owned(), tensor };
    let model = Model { parameters: vec![one.clone()], ..Model::default() };
    onnx::TENSOR.write(&model, Location::from(&out), &WriteOptions::default()).unwrap();
    let again = open(&out).unwrap();
    let [Parameter { name, tensor }] = again.parameters.as_slice() else { panic!("{again:?}") };
    assert_eq!(
        (name.as_str(), tensor.dtype, tensor.shape.as_slice()),
        ("y", DType::Float32, &[2, 1][..])
    );
    assert_eq!(tensor.data.bytes().unwrap(), one.tensor.data.bytes().unwrap());
    let two = Model { parameters: vec![one.clone(), one], ..Model::default() };
    let error = onnx::TENSOR.write(&two, Location::from(&out), &WriteOptions::default());
    assert!(error.unwrap_err().to_string().contains("2 tensors instead of one"));
}

#[test]
fn truncated_files_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.pb");
    for case in cases() {
        let whole = bytes(&golden().join(&case.path));
        for end in 0..whole.len() {
            std::fs::write(&path, &whole[..end]).unwrap();
            // A file that ends between two fields may be a tensor with fewer of them.
            let _ = open(&path);
        }
    }
    // The elements are the last field.
    let whole = bytes(&golden().join("float32-raw.pb"));
    for end in whole.len() - 60..whole.len() {
        std::fs::write(&path, &whole[..end]).unwrap();
        assert!(open(&path).is_err(), "cut at {end}");
    }
}

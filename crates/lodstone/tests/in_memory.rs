//! Models in memory are opened, converted, sealed, verified and saved like those in files.

#![expect(clippy::disallowed_methods, reason = "reads the files that are put into memory")]

use std::path::{Path, PathBuf};

use lodstone::formats::Error as FormatError;
use lodstone::store::Error as StoreError;
use lodstone::{
    ConvertOptions, Error, MemoryStore, OpenOptions, Progress, Save, ScanOptions, Target, convert,
    open, open_bytes, scan, seal, verify,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns a directory of the repository as a store.
fn stored(directory: &str) -> MemoryStore {
    let store = MemoryStore::default();
    for entry in std::fs::read_dir(root().join(directory)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let name = Path::new("model").join(path.file_name().unwrap());
            store.insert(name, std::fs::read(path).unwrap()).unwrap();
        }
    }
    store
}

#[test]
fn a_directory_in_memory_equals_the_model_in_files() {
    for directory in ["examples/digits/paddle", "crates/formats/tests/golden/mxnet/1.9.1/module"] {
        let (in_files, store) = (open(root().join(directory)).unwrap(), stored(directory));
        let in_memory = open(store.location("model")).unwrap();
        assert_eq!(in_memory.format, in_files.format);
        assert_eq!(in_memory.parameters.len(), in_files.parameters.len());
        for (a, b) in in_memory.parameters.iter().zip(&in_files.parameters) {
            assert_eq!((&a.name, &a.tensor.shape), (&b.name, &b.tensor.shape));
            assert!(a.tensor.data.bytes().unwrap() == b.tensor.data.bytes().unwrap(), "{}", a.name);
        }
        // Written back, file by file, to another directory of the store.
        let same = ConvertOptions::default().with_to(Some(Target::Same));
        let done = convert(in_memory, store.location("copy"), &same).unwrap();
        for file in done.files {
            let name = Path::new("model").join(file.file_name().unwrap());
            assert!(store.get(&file).unwrap() == store.get(&name).unwrap(), "{}", file.display());
        }
    }
}

#[test]
fn a_file_opens_from_its_bytes_without_a_copy() {
    let path = root().join("crates/formats/tests/golden/safetensors");
    let path = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let path = path.filter(|path| path.extension().is_some_and(|end| end == "safetensors"));
    let mut opened = 0;
    for path in path {
        let bytes = bytes::Bytes::from(std::fs::read(&path).unwrap());
        let range = bytes.as_ptr_range();
        let Ok(model) = open_bytes(bytes.clone()) else { continue };
        for parameter in &model.parameters {
            let data = parameter.tensor.data.bytes().unwrap();
            assert!(data.is_empty() || range.contains(&data.as_ptr()), "{}", parameter.name);
        }
        // Saved without an extension, it is the same file.
        let store = MemoryStore::default();
        let done = model.save(store.location("copy")).unwrap();
        assert!(store.get(&done.files[0]).unwrap() == bytes, "{}", path.display());
        opened += 1;
    }
    assert!(opened > 3, "{opened}");
}

#[test]
fn invalid_bytes_and_models_without_a_format_are_errors() {
    let error = open_bytes(vec![1, 2, 3]).unwrap_err();
    assert!(matches!(error, Error::Format(FormatError::Unrecognized { .. })), "{error}");
    assert!(error.to_string().contains("memory"), "{error}");
    let made = lodstone::Model::default();
    let error = made.save(MemoryStore::default().location("model")).unwrap_err();
    assert!(matches!(error, Error::UnclearTarget(_)), "{error}");
}

#[test]
fn the_extension_of_a_path_selects_the_format() {
    let store = stored("examples/digits/paddle");
    let mut model = open(store.location("model")).unwrap();
    model.programs = lodstone::model::Programs::default();
    model.save(store.location("digits.safetensors")).unwrap();
    assert_eq!(open(store.location("digits.safetensors")).unwrap().format, "safetensors");
}

#[test]
fn seals_in_memory_find_a_flipped_bit() {
    let store = stored("examples/digits/paddle");
    let (path, options) = (store.location("model"), OpenOptions::default());
    let sealing = seal(&path, &options, false, &Progress::default()).unwrap();
    assert_eq!(sealing.seals, [Path::new("model/lodstone.seal")]);
    let found = verify(&path, &options, &Progress::default()).unwrap();
    assert!(found.whole && found.sealed, "{found:?}");
    let damaged = open(&path)
        .unwrap()
        .files
        .iter()
        .map(|file| file.file_range().unwrap().0.path().to_owned())
        .max_by_key(|path| store.get(path).unwrap().len());
    let damaged = damaged.unwrap();
    let mut bytes = store.get(&damaged).unwrap().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    store.insert(&damaged, bytes).unwrap();
    let found = verify(&path, &options, &Progress::default()).unwrap();
    assert!(!found.whole, "{found:?}");
    let mut model = open(&path).unwrap();
    let error = model.load().unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    let scanned = scan(&path, &ScanOptions::default()).unwrap();
    // The program names the training script; nothing is unknown.
    assert_eq!((scanned.finding_count, scanned.unknown_count), (1, 0), "{scanned:?}");
}

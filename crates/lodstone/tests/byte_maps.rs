//! Byte maps of models, and of their tensors.

#![expect(clippy::disallowed_methods, reason = "finds golden files, and damages copies")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use lodstone::byte_map::FileMap;
use lodstone::inspect::weights;
use lodstone::{Blob, Error, OpenOptions, byte_map, open};
use lodstone_formats::{byte_maps, named};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden")
}

/// Returns the files below a directory, sorted.
fn files(directory: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![directory.to_path_buf()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

fn has_range(file: &FileMap, path: &Path, offset: u64, len: u64) -> bool {
    // The fields of a tensor are in one piece here.
    let covered = |at: u64| {
        file.map.fields.iter().any(|field| (field.offset..field.offset + field.len).contains(&at))
    };
    Path::new(&file.path) == path && covered(offset) && covered(offset + len - 1)
}

/// Returns whether a format has no byte map: it is text, or has no records of its own.
fn is_unmapped(name: &str) -> bool {
    named(name).is_some_and(|format| format.byte_maps.is_empty())
}

#[test]
fn each_tensor_of_golden_files_has_a_map_with_its_name_and_elements() {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for path in files(&golden()) {
        // The cases of the checker repeat names.
        let Some(model) =
            open(&path).ok().filter(|_| !path.starts_with(golden().join("onnx_check")))
        else {
            continue;
        };
        for (number, weight) in weights(&model).iter().enumerate().take(25) {
            let name = match weight.name.as_str() {
                "" => number.to_string(),
                name => name.to_owned(),
            };
            let what = format!("{}, `{name}`", path.display());
            let maps = match byte_map(path.as_path(), Some(&name), &OpenOptions::default()) {
                Ok(maps) => maps.files,
                Err(error) => {
                    // A tensor without elements may have no bytes anywhere.
                    let has_bytes = weight.tensor.blobs().any(|blob| !blob.is_empty());
                    let is_apart = is_unmapped(&model.format) || !has_bytes;
                    assert!(is_apart, "{what} of {}: {error}", model.format);
                    continue;
                }
            };
            let fields = maps.iter().flat_map(|file| &file.map.fields);
            let texts: Vec<_> = fields.flat_map(|field| [&field.name, &field.value]).collect();
            let head: String = weight.name.chars().take(6).collect();
            // The bytes of a tensor that shares them may have the name of the other one.
            let is_shared = texts.iter().any(|text| text.starts_with("elements of"));
            let is_named = is_shared || texts.iter().any(|text| text.contains(&head));
            // A repeated name has a suffix. Streams and pickles hold names elsewhere.
            let is_apart = |kind: &str| {
                // Archives and tapes have them in other members.
                ["streams", "pickles", "states", "archives"].iter().any(|end| kind.ends_with(end))
            };
            let has_names = !maps.iter().any(|file| is_apart(file.kind));
            assert!(is_named || !has_names || !head.is_ascii(), "{what}: {texts:?}");
            for (file, offset, len) in weight.tensor.blobs().flat_map(Blob::file_ranges) {
                let has = |map: &FileMap| len == 0 || has_range(map, file.path(), offset, len);
                assert!(maps.iter().any(has), "{what}: {offset} {len} {maps:?}");
            }
            for file in maps {
                *kinds.entry(file.kind.to_owned()).or_default() += 1;
            }
        }
    }
    // All kinds but programs.
    let all: BTreeSet<_> = byte_maps().map(|mapper| mapper.what).collect();
    assert_eq!(kinds.len() + 1, all.len(), "{kinds:?}");
}

#[test]
fn the_elements_of_other_files_are_mapped_too() {
    let path = golden().join("onnx/external/one.onnx");
    let maps = byte_map(path.as_path(), None, &OpenOptions::default()).unwrap();
    let kinds: Vec<_> = maps.files.iter().map(|file| file.kind).collect();
    assert_eq!(kinds, ["ONNX models", "elements of tensors"]);
    let data = &maps.files[1];
    let size: u64 = data.map.fields.iter().map(|field| field.len).sum();
    assert_eq!(size, std::fs::metadata(&data.path).unwrap().len());
    let model = open(&path).unwrap();
    for weight in weights(&model).iter() {
        let maps = byte_map(path.as_path(), Some(&weight.name), &OpenOptions::default()).unwrap();
        let is_named = |text: &str| text.contains(&weight.name);
        assert!(maps.files[0].map.fields.iter().any(|field| is_named(&field.value)));
        // The bias is small, and in the model.
        let Some(data) = maps.files.get(1) else {
            assert_eq!(weight.name, "layer/bias");
            continue;
        };
        let names: Vec<_> = data.map.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, [format!("elements of `{}`", weight.name)]);
    }
}

#[test]
fn damage_outside_of_the_mapped_files_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["one.onnx", "one.data"] {
        std::fs::copy(golden().join("onnx/external").join(name), dir.path().join(name)).unwrap();
    }
    std::fs::write(dir.path().join("one.data"), [1, 2, 3]).unwrap();
    let path = dir.path().join("one.onnx");
    let maps = byte_map(path.as_path(), None, &OpenOptions::default()).unwrap();
    assert!(maps.files[0].map.error.is_none());
    assert!(maps.unopened.unwrap().contains("one.data"));
}

#[test]
fn tensors_of_damaged_files_are_called_by_their_index() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.safetensors");
    let whole = std::fs::read(golden().join("safetensors/shapes.safetensors")).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let maps = byte_map(path.as_path(), Some("0"), &OpenOptions::default()).unwrap();
    assert!(maps.files[0].map.error.is_some());
    assert!(maps.files[0].map.fields.iter().all(|field| field.tensor == Some(0)));
    let error = byte_map(path.as_path(), Some("99"), &OpenOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Format(_)), "the damage: {error}");
}

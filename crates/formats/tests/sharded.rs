//! Checkpoints of several processes: torch's and PaddlePaddle's, with what their processes saved.

#![expect(clippy::disallowed_methods, reason = "tests read and write files directly")]

pub(crate) mod hostile;

use std::path::{Path, PathBuf};

use crate::support::facts::{Case, Tensor, cases};
use crate::support::{bytes, facts_of_all, open, sha256};
use lodstone_formats::{WriteOptions, named};

/// The directories of golden checkpoints.
const FOLDERS: [&str; 2] = ["torch_sharded", "paddle_sharded"];

fn golden(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder)
}

fn sorted(mut tensors: Vec<Tensor>) -> Vec<Tensor> {
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    tensors
}

fn all() -> Vec<(PathBuf, Case)> {
    let of = |folder| {
        let golden = golden(folder);
        cases(&golden).into_iter().map(move |case| (golden.join(&case.path), case))
    };
    FOLDERS.into_iter().flat_map(of).collect()
}

#[test]
fn checkpoints_of_four_processes_are_whole_tensors() {
    let all = all();
    assert!(all.len() > 12, "{} cases", all.len());
    for (path, case) in all {
        let model = open(&path).unwrap_or_else(|error| panic!("{}: {error}", case.path));
        assert_eq!(model.format, case.format, "{}", case.path);
        let (found, expected) = (sorted(facts_of_all(&model)), sorted(case.tensors.clone()));
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{}", case.path);
        }
        assert_eq!(found.len(), expected.len(), "{}: {found:?}", case.path);
    }
}

#[test]
fn ranges_of_assembled_tensors_equal_those_of_the_whole() {
    for (path, case) in all() {
        let model = open(&path).unwrap();
        for parameter in &model.parameters {
            let data = &parameter.tensor.data;
            let whole = data.read().unwrap();
            for step in [1, 3, 7] {
                for start in (0..data.len()).step_by(step) {
                    let len = (data.len() - start).min(step as u64 + 2);
                    let found = data.slice(start, len).unwrap().read().unwrap();
                    let at = usize::try_from(start).unwrap();
                    let expected = &whole[at..at + usize::try_from(len).unwrap()];
                    assert_eq!(&found[..], expected, "{}: {}", case.path, parameter.name);
                }
            }
        }
    }
}

#[test]
fn unedited_checkpoints_are_written_back_byte_for_byte() {
    for (path, case) in all() {
        let model = open(&path).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let options = WriteOptions::default().with_same(true);
        named(&case.format).unwrap().write(&model, &out, &options).unwrap();
        for file in std::fs::read_dir(&out).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let expected = &case.files[&format!("{}/{name}", case.path)];
            assert_eq!(&sha256(&bytes(&out.join(&name))), expected, "{}: {name}", case.path);
        }
    }
}

#[test]
fn metadata_opens_the_whole_checkpoint() {
    for name in ["torch_sharded/dtensor/.metadata", "paddle_sharded/3.3.1/auto/0.metadata"] {
        let path = golden(name);
        let (file, directory) = (open(&path).unwrap(), open(path.parent().unwrap()).unwrap());
        assert_eq!(facts_of_all(&file), facts_of_all(&directory), "{name}");
    }
}

#[test]
fn the_newest_of_several_checkpoints_is_opened() {
    let directory = golden("paddle_sharded/3.3.1/two");
    let newest = open(&directory).unwrap();
    let warning = "the directory holds other checkpoints: `0.metadata`; `10.metadata` was opened";
    assert_eq!(newest.report.warnings, [warning]);
    let older = open(&directory.join("0.metadata")).unwrap();
    assert_ne!(facts_of_all(&newest), facts_of_all(&older));
}

/// Copies the files of a checkpoint except for one.
fn without(directory: &Path, missing: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let name = file.file_name().into_string().unwrap();
        if name != missing && file.path().is_file() {
            std::fs::copy(file.path(), copy.path().join(name)).unwrap();
        }
    }
    copy
}

#[test]
fn a_missing_file_is_an_error() {
    let data = |name: &str| name.ends_with(".distcp") || name.ends_with(".safetensors");
    for (path, case) in all().into_iter().filter(|(_, case)| !case.path.contains("huggingface")) {
        let mut needed = 0;
        for file in case.files.keys().filter(|file| data(file)) {
            let name = file.rsplit('/').next().unwrap();
            match open(without(&path, name).path()) {
                // The processes that hold replicas write files without tensors.
                Ok(model) => assert_eq!(facts_of_all(&model).len(), case.tensors.len(), "{file}"),
                Err(error) => {
                    assert!(error.to_string().contains(name), "{file}: {error}");
                    needed += 1;
                }
            }
        }
        assert!(needed > 1, "{}", case.path);
    }
}

#[test]
fn shards_without_dims_warn_that_a_missing_last_file_is_not_noticed() {
    let directory = golden("torch_sharded/huggingface");
    let whole = open(&directory).unwrap();
    let warning = whole.report.warnings.first().unwrap();
    assert!(warning.contains("a missing last file would not be noticed"), "{warning}");
    // Two dims are split: the box of the missing file is a hole.
    let copy = without(&directory, "shard-00002-model-00001-of-00001.safetensors");
    let error = open(copy.path()).unwrap_err().to_string();
    assert!(error.contains("elements in all"), "{error}");
}

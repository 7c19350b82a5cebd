//! Checkpoints that several processes write.

#![expect(clippy::disallowed_methods, reason = "tests read and damage files directly")]

use std::collections::BTreeMap;
use std::path::Path;

use lodstone_checkpoint::{Error, Publication, ShardReader, write_items, write_shard};
use lodstone_formats::SealedFile;
use lodstone_formats::safetensors::{Shard, read_blob};
use lodstone_model::{DType, Limits};
use lodstone_store::{Blob, Error as StoreError, Location, Progress};

/// The elements of a tensor of the test.
fn elements(rank: u8, len: usize) -> Vec<u8> {
    (0..len).map(|index| u8::try_from(index % 251).unwrap() ^ rank).collect()
}

fn shard(name: &str, dtype: DType, shape: &[u64]) -> Shard {
    Shard { name: name.to_owned(), dtype, shape: shape.to_vec() }
}

/// Writes the tensors of a process.
fn write(staged: &Location, rank: u8) -> SealedFile {
    // Larger than a chunk with a checksum, to be stored after wider elements.
    let large = (16 << 20) + 5;
    let tensors = [
        shard("small", DType::Uint8, &[3]),
        shard("large", DType::Uint8, &[large]),
        shard("wide", DType::Float64, &[2, 2]),
        shard("empty", DType::Float32, &[0, 4]),
    ];
    let metadata = BTreeMap::from([("rank".to_owned(), rank.to_string())]);
    let sizes = [3, usize::try_from(large).unwrap(), 32, 0];
    let load = |index: usize| Ok(Blob::memory(elements(rank, sizes[index])));
    let name = format!("rank-{rank}.safetensors");
    write_shard(staged, &name, &tensors, &metadata, load, &Progress::default()).unwrap()
}

fn saved(path: &Path) {
    let publication = Publication::begin(path, Progress::default()).unwrap();
    let staged = publication.staged().unwrap();
    let mut files: Vec<SealedFile> = (0..2).map(|rank| write(&staged, rank)).collect();
    let items = [("a".to_owned(), Blob::memory(vec![1; 10])), ("b".to_owned(), Blob::default())];
    files.push(write_items(&staged, "values", &items, &Progress::default()).unwrap());
    assert!(!path.exists());
    publication.publish("test", ("index", b"the index"), files).unwrap();
}

#[test]
fn a_checkpoint_of_two_processes_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run/step-1");
    saved(&path);
    for rank in 0..2 {
        let file = path.join(format!("rank-{rank}.safetensors"));
        let blob = Blob::open(&file, false).unwrap();
        let model = read_blob(&blob, &Limits::default()).unwrap();
        let names: Vec<&str> = model.parameters.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["wide", "empty", "small", "large"]);
        let first = model.parameters[0].tensor.data.file_range().unwrap().1;
        assert_eq!(first % 64, 0, "the elements are aligned");
        for parameter in &model.parameters {
            let data = parameter.tensor.data.read().unwrap();
            assert_eq!(data, elements(rank, data.len()), "{}", parameter.name);
        }
        assert_eq!(model.metadata["rank"], rank.to_string());
    }
    let mut reader = ShardReader::open(&path, Some(true)).unwrap();
    let index = reader.range("index", 0, None).unwrap().read().unwrap();
    assert_eq!(&index[..], b"the index");
    assert_eq!(reader.range("values", 2, Some(3)).unwrap().read().unwrap(), vec![1; 3]);
    assert!(matches!(reader.range("missing", 0, None), Err(Error::Absent { .. })));
    reader.range("values", 5, Some(9)).unwrap_err();
}

#[test]
fn an_existing_checkpoint_is_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("step");
    let late = Publication::begin(&path, Progress::default()).unwrap();
    saved(&path);
    let again = Publication::begin(&path, Progress::default()).unwrap_err();
    assert!(matches!(again, Error::Store(StoreError::Exists { .. })), "{again}");
    let file = write(&late.staged().unwrap(), 0);
    late.publish("test", ("index", b"another"), vec![file]).unwrap_err();
    assert_eq!(std::fs::read(path.join("index")).unwrap(), b"the index");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left over");
}

#[test]
fn what_processes_report_is_compared_with_their_files() {
    let dir = tempfile::tempdir().unwrap();
    for (number, what) in ["missing", "short", "twice", "renamed"].into_iter().enumerate() {
        let path = dir.path().join(number.to_string());
        let publication = Publication::begin(&path, Progress::default()).unwrap();
        let staged = publication.staged().unwrap();
        let file = write(&staged, 0);
        let there = staged.path().join(&file.name);
        let mut files = vec![file.clone()];
        match what {
            "missing" => std::fs::remove_file(there).unwrap(),
            "short" => std::fs::write(there, [0; 3]).unwrap(),
            "twice" => files.push(file),
            _ => files[0].name = "../elsewhere".to_owned(),
        }
        publication.publish("test", ("index", b""), files).expect_err(what);
        assert!(!path.exists(), "{what}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_flipped_bit_is_named_before_it_is_returned() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("step");
    saved(&path);
    let file = path.join("rank-1.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 4;
    std::fs::write(&file, &bytes).unwrap();
    let mut reader = ShardReader::open(&path, None).unwrap();
    let range = reader.range("rank-1.safetensors", bytes.len() as u64 - 4, None).unwrap();
    let error = range.read().unwrap_err().to_string();
    assert!(
        error.contains("rank-1.safetensors") && error.contains("`large`, chunk 2 of 2"),
        "{error}"
    );
    // The rest of the file is not affected, and nothing is if nothing is compared.
    reader.range("rank-1.safetensors", 0, Some(100)).unwrap().read().unwrap();
    let mut trusting = ShardReader::open(&path, Some(false)).unwrap();
    trusting.range("rank-1.safetensors", 0, None).unwrap().read().unwrap();
    std::fs::remove_file(path.join("lodstone.seal")).unwrap();
    let error = ShardReader::open(&path, Some(true)).unwrap_err().to_string();
    assert!(error.contains("seal"), "{error}");
    ShardReader::open(&path, None).unwrap().range("values", 0, None).unwrap().read().unwrap();
}

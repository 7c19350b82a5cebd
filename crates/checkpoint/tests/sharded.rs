//! Checkpoints that several processes write.

#![expect(clippy::disallowed_methods, reason = "tests read and damage files directly")]

use std::collections::BTreeMap;
use std::path::Path;

use lodstone_checkpoint::{Error, Publication, ShardReader, write_items, write_shard};
use lodstone_formats::SealedFile;
use lodstone_formats::safetensors::{Shard, read_blob};
use lodstone_model::{DType, Limits};
use lodstone_store::{Blob, Error as StoreError, Location, Progress, prune_chunks};

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
    write_shard((staged, false), &name, &tensors, &metadata, load, &Progress::default()).unwrap()
}

fn saved(path: &Path) {
    let publication = Publication::begin(path, false, Progress::default()).unwrap();
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
    let late = Publication::begin(&path, false, Progress::default()).unwrap();
    saved(&path);
    let again = Publication::begin(&path, false, Progress::default()).unwrap_err();
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
        let publication = Publication::begin(&path, false, Progress::default()).unwrap();
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

/// Saves two processes' tensors in chunks; `step` is a tensor that differs between checkpoints.
fn saved_in_chunks(path: &Path, step: u8) -> usize {
    let publication = Publication::begin(path, true, Progress::default()).unwrap();
    let staged = publication.staged().unwrap();
    let of_rank = |rank: u8| {
        let tensors = [
            shard("large", DType::Uint8, &[(16 << 20) + 5]),
            shard("tied", DType::Uint8, &[1 << 20]),
            shard("own", DType::Uint8, &[100]),
        ];
        let load = |index: usize| {
            Ok(Blob::memory(match index {
                0 => elements(0, (16 << 20) + 5),
                1 => elements(9, 1 << 20),
                _ => elements(rank ^ step, 100),
            }))
        };
        let name = format!("rank-{rank}.safetensors");
        let place = (&staged, true);
        write_shard(place, &name, &tensors, &BTreeMap::new(), load, &Progress::default()).unwrap()
    };
    let files = (0..2).map(of_rank).collect();
    publication.publish("test", ("index", b"the index"), files).unwrap();
    let folders = std::fs::read_dir(path.parent().unwrap().join("chunks")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    folders.map(|folder| std::fs::read_dir(folder).unwrap().count()).sum()
}

/// The elements of a tensor of a checkpoint in chunks.
fn loaded(path: &Path, name: &str) -> Result<Vec<u8>, Error> {
    let mut reader = ShardReader::open(path, Some(true))?;
    let file = reader.range("rank-1.safetensors", 0, None)?;
    let model = read_blob(&file, &Limits::default()).unwrap();
    let tensor = model.parameters.iter().find(|it| it.name == name).unwrap();
    Ok(tensor.tensor.data.read()?.to_vec())
}

#[test]
fn chunks_are_stored_once_and_pruned_with_their_last_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let [one, two] = ["step-1", "step-2"].map(|name| dir.path().join(name));
    // Of each process: the header, and the small tensor. Of both: two pieces of the large one, and the tied one.
    let first = saved_in_chunks(&one, 0);
    assert!(first <= 2 + 2 + 3, "{first} chunks");
    let second = saved_in_chunks(&two, 64);
    assert_eq!(second, first + 2, "the tensors that differ");
    assert_eq!(loaded(&two, "large").unwrap(), elements(0, (16 << 20) + 5));
    assert_eq!(loaded(&two, "own").unwrap(), elements(1 ^ 64, 100));

    // A file in chunks is opened by its name, alone, too.
    let whole = Blob::open(one.join("rank-0.safetensors"), true).unwrap();
    assert_eq!(read_blob(&whole, &Limits::default()).unwrap().parameters.len(), 3);

    let saving = Publication::begin(dir.path().join("step-3"), true, Progress::default()).unwrap();
    let busy = prune_chunks(dir.path(), &Progress::default()).unwrap_err();
    assert!(matches!(busy, StoreError::Locked { .. }), "{busy}");
    drop(saving);
    assert_eq!(prune_chunks(dir.path(), &Progress::default()).unwrap().count, 0);
    // What is no chunk stays, and so do all chunks while a checkpoint may be behind a link.
    let foreign = ["aa/notes", "aa/", "notes"].map(|name| dir.path().join("chunks").join(name));
    std::fs::create_dir_all(&foreign[1]).unwrap();
    std::fs::write(&foreign[0], "mine").unwrap();
    std::fs::write(&foreign[2], "mine").unwrap();
    std::fs::remove_dir_all(&one).unwrap();
    #[cfg(unix)]
    {
        let link = dir.path().join("linked");
        std::os::unix::fs::symlink(&two, &link).unwrap();
        let refused = prune_chunks(dir.path(), &Progress::default()).unwrap_err();
        assert!(refused.to_string().contains("linked"), "{refused}");
        std::fs::remove_file(&link).unwrap();
    }
    assert_eq!(prune_chunks(dir.path(), &Progress::default()).unwrap().count, 2);
    assert!(foreign.iter().all(|path| path.exists()));
    assert_eq!(loaded(&two, "tied").unwrap(), elements(9, 1 << 20));

    // The chunks of a table that cannot be read are unknown.
    let table = two.join("rank-1.safetensors.chunks");
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[60] ^= 1;
    std::fs::write(&table, &bytes).unwrap();
    let refused = prune_chunks(dir.path(), &Progress::default()).unwrap_err();
    assert!(refused.to_string().contains("rank-1.safetensors.chunks"), "{refused}");
    std::fs::remove_dir_all(&two).unwrap();
    assert_eq!(prune_chunks(dir.path(), &Progress::default()).unwrap().count, first);
}

#[test]
fn damaged_and_missing_chunks_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("step-1");
    saved_in_chunks(&path, 0);
    let mut chunks: Vec<_> = walk(&dir.path().join("chunks"));
    chunks.sort_by_key(|path| std::fs::metadata(path).unwrap().len());
    let largest = chunks.pop().unwrap();
    let bytes = std::fs::read(&largest).unwrap();
    let mut flipped = bytes.clone();
    flipped[1 << 20] ^= 8;
    std::fs::write(&largest, &flipped).unwrap();
    let error = loaded(&path, "large").unwrap_err().to_string();
    assert!(
        error.contains("rank-1.safetensors") && error.contains("`large`, chunk 1 of 2"),
        "{error}"
    );
    std::fs::write(&largest, &bytes[1..]).unwrap();
    let error = loaded(&path, "large").unwrap_err().to_string();
    assert!(error.contains(largest.file_name().unwrap().to_str().unwrap()), "{error}");
    std::fs::remove_file(&largest).unwrap();
    assert!(loaded(&path, "large").is_err());
    // The next checkpoint stores a chunk of another size, and a missing one, again.
    saved_in_chunks(&dir.path().join("step-2"), 0);
    assert_eq!(loaded(&path, "large").unwrap(), elements(0, (16 << 20) + 5));
}

/// Writes a table of chunks.
fn put_table(step: &Path, size: &str, chunks: &str) {
    let body = format!(
        "{{\"schema\": 1, \"hash\": \"BLAKE3\", \"size\": {size}, \"chunks\": [{chunks}],\n"
    );
    let sum = lodstone_store::checksum(body.as_bytes());
    std::fs::write(step.join("w.chunks"), format!("{body}\"self\": \"{sum:016x}\"}}\n")).unwrap();
}

#[test]
fn tables_name_chunks_only() {
    let dir = tempfile::tempdir().unwrap();
    let (outside, step) = (dir.path().join("secret"), dir.path().join("a/step-1"));
    std::fs::write(&outside, [7; 10]).unwrap();
    let hash = "a".repeat(64);
    let folder = dir.path().join("a/chunks/aa");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::create_dir_all(&step).unwrap();
    std::fs::write(folder.join(&hash), [7; 10]).unwrap();
    // The same frame with valid contents is read.
    let read = || Blob::open(step.join("w"), false)?.read();
    put_table(&step, "20", &format!("[\"{hash}\", 10], [\"{hash}\", 10]"));
    assert_eq!(read().unwrap(), [7; 20].as_slice());
    let most = u64::MAX.to_string();
    for (size, chunks) in [
        ("10", "[\"../secret\", 10]".to_owned()),
        ("10", format!("[\"{}\", 10]", outside.display())),
        ("10", format!("[\"{}\", 10]", "A".repeat(64))),
        ("10", format!("[\"{hash}\", 11]")),
        ("0", format!("[\"{hash}\", 0]")),
        (&*most, format!("[\"{hash}\", {most}], [\"{hash}\", {most}]")),
        ("16777217", format!("[\"{hash}\", 16777217]")),
    ] {
        put_table(&step, size, &chunks);
        let error = read().unwrap_err().to_string();
        assert!(error.contains("w.chunks") && error.contains("chunk"), "{chunks}: {error}");
        assert!(!error.contains("damaged"), "{chunks}: {error}");
    }
    // A link cannot lead out of the directory of chunks.
    #[cfg(unix)]
    {
        put_table(&step, "10", &format!("[\"{hash}\", 10]"));
        std::fs::remove_file(folder.join(&hash)).unwrap();
        std::os::unix::fs::symlink(&outside, folder.join(&hash)).unwrap();
        let error = read().unwrap_err().to_string();
        assert!(error.contains(&hash), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::write(dir.path().join(&hash), [7; 10]).unwrap();
        std::os::unix::fs::symlink(dir.path(), &folder).unwrap();
        assert!(read().is_err());
    }
}

/// Returns the files below a directory, except for locks.
fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let folders = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.is_dir());
    folders
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()))
        .collect()
}

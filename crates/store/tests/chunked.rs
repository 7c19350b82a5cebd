//! Files in chunks: they are where readers look for them, whatever the commit, and their names are those of their bytes.

#![expect(clippy::disallowed_methods, reason = "creates directories, and checks the results")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use common::{dir, read};
use lodstone_store::{Blob, Commit, Derive, Error, Output, Progress, Result, prune_chunks};

/// Three chunks.
const LEN: usize = (33 << 20) + 5;

fn contents(seed: u8) -> Vec<u8> {
    (0..LEN).map(|at| (at >> 20).to_le_bytes()[0].wrapping_add(seed)).collect()
}

/// Returns the chunks of a directory, after comparing their names with their bytes.
fn chunks(root: &Path) -> Vec<PathBuf> {
    let list = |path: &Path| {
        let entries = std::fs::read_dir(path).expect("a directory");
        entries.map(|entry| entry.expect("an entry").path()).collect::<Vec<_>>()
    };
    let nested = list(root).into_iter().filter(|path| path.is_dir());
    let chunks: Vec<PathBuf> = nested.flat_map(|path| list(&path)).collect();
    for chunk in &chunks {
        let name = chunk.file_name().and_then(|name| name.to_str()).expect("a name");
        assert_eq!(blake3::hash(&read(chunk)).to_hex().as_str(), name);
    }
    chunks
}

type Begin = fn(&Path) -> Result<Commit>;

#[test]
fn files_of_every_commit_are_read_by_their_names() {
    let begins: [(&str, Begin); 4] = [
        ("directory", |root| Commit::directory(root, Progress::default())),
        ("existing", |root| {
            std::fs::create_dir(root).expect("a directory");
            Commit::existing(root, Progress::default())
        }),
        ("within, absent", |root| Commit::within(root, Progress::default())),
        ("within, present", |root| {
            std::fs::create_dir(root).expect("a directory");
            Commit::within(root, Progress::default())
        }),
    ];
    for (what, begin) in begins {
        let dir = dir();
        let root = dir.path().join("step");
        std::fs::create_dir(dir.path().join("chunks")).expect("a directory");
        let mut commit = begin(&root).expect("a commit");
        commit.write_chunked::<Error>("weights", |out| out.put(&contents(0))).expect(what);
        commit.publish().expect(what);
        let found = Blob::open(root.join("weights"), false).and_then(|blob| blob.read());
        assert!(found.expect(what) == contents(0), "{what}");
        assert_eq!(chunks(&dir.path().join("chunks")).len(), 3, "{what}");
    }
}

#[test]
fn the_chunks_of_a_nested_file_are_beside_its_directory() {
    let dir = dir();
    let root = dir.path().join("run");
    std::fs::create_dir_all(root.join("chunks")).expect("a directory");
    let mut commit = Commit::existing(&root, Progress::default()).expect("a commit");
    commit.write_chunked::<Error>("step/weights", |out| out.put(&contents(1))).expect("written");
    commit.publish().expect("published");
    let found = Blob::open(root.join("step/weights"), false).and_then(|blob| blob.read());
    assert!(found.expect("read") == contents(1));
    assert_eq!(chunks(&root.join("chunks")).len(), 3);
    // The table uses all of them.
    assert_eq!(prune_chunks(root.as_path(), &Progress::default()).expect("pruned").count, 0);
}

#[test]
fn a_commit_of_another_process_stores_chunks_beside_the_directory() {
    let dir = dir();
    std::fs::create_dir(dir.path().join("chunks")).expect("a directory");
    let root = dir.path().join("step");
    let mut main = Commit::directory(&root, Progress::default()).expect("a commit");
    let staged = main.staged("").expect("a staged directory");
    let mut joined = Commit::join(staged, Progress::default()).expect("joined");
    joined.write_chunked::<Error>("weights", |out| out.put(&contents(2))).expect("written");
    joined.publish().expect("published");
    main.adopt("weights.chunks").expect("adopted");
    main.publish().expect("published");
    let found = Blob::open(root.join("weights"), false).and_then(|blob| blob.read());
    assert!(found.expect("read") == contents(2));
    assert_eq!(chunks(&dir.path().join("chunks")).len(), 3);
}

/// Writes a file, of which the chunks are compared with their names.
fn written(fill: impl FnOnce(&mut Output) -> Result<()>) -> Result<Vec<u8>> {
    let dir = dir();
    std::fs::create_dir(dir.path().join("chunks")).expect("a directory");
    let root = dir.path().join("step");
    let mut commit = Commit::directory(&root, Progress::default())?;
    commit.write_chunked("weights", fill)?;
    commit.publish()?;
    chunks(&dir.path().join("chunks"));
    Ok(Blob::open(root.join("weights"), false)?.read()?.to_vec())
}

#[test]
fn bytes_of_the_current_chunk_can_be_patched() {
    let found = written(|out| {
        out.share(&Blob::memory(vec![1; 1 << 20]), |_| ())?;
        out.put(&vec![2; 1 << 20])?;
        out.patch(1 << 20, b"first")?;
        out.patch((2 << 20) - 4, b"last")?;
        out.put(b"end")
    });
    let mut expected = vec![1; 1 << 20];
    expected.extend(vec![2; 1 << 20]);
    expected[1 << 20..][..5].copy_from_slice(b"first");
    expected[(2 << 20) - 4..].copy_from_slice(b"last");
    expected.extend(b"end");
    assert!(found.expect("written") == expected);
}

#[test]
fn equal_chunks_are_stored_once() {
    let dir = dir();
    std::fs::create_dir(dir.path().join("chunks")).expect("a directory");
    for step in ["one", "two"] {
        let mut commit =
            Commit::directory(dir.path().join(step), Progress::default()).expect("one");
        let fill = |out: &mut Output| {
            for _ in 0..3 {
                out.share(&Blob::memory(vec![7; 1 << 20]), |_| ())?;
            }
            out.put(step.as_bytes())
        };
        commit.write_chunked::<Error>("weights", fill).expect("written");
        commit.publish().expect("published");
    }
    assert_eq!(chunks(&dir.path().join("chunks")).len(), 3);
}

/// Bytes that are others each time.
#[derive(Debug)]
struct Unsteady(AtomicU8);

impl Derive for Unsteady {
    fn len(&self) -> u64 {
        1 << 20
    }

    fn read_at(&self, _: u64, buffer: &mut [u8]) -> Result<()> {
        buffer.fill(self.0.fetch_add(1, Ordering::Relaxed));
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        None
    }
}

#[test]
fn bytes_that_change_meanwhile_are_not_stored() {
    let dir = dir();
    let store = dir.path().join("chunks");
    std::fs::create_dir(&store).expect("a directory");
    let mut commit = Commit::directory(dir.path().join("step"), Progress::default()).expect("one");
    let unsteady = Blob::derived(Arc::new(Unsteady(AtomicU8::new(0))));
    let written = commit.write_chunked("weights", |out| out.share(&unsteady, |_| ()));
    assert!(matches!(written, Err(Error::Unsteady)), "{written:?}");
    drop(commit);
    assert!(chunks(&store).is_empty());
}

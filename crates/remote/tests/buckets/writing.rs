//! Writing to object stores.

use std::sync::Arc;
use std::thread;

use lodstone_remote::Fault;
use lodstone_store::{Blob, Commit, Error, Location, Output, Progress};
use object_store::memory::InMemory;
use object_store::{ObjectStoreExt, path::Path};

use super::{each, in_memory};
use crate::common::content;

fn put(path: &Location, bytes: &[u8], only_new: bool) -> Result<(), Error> {
    let (commit, name) = Commit::file(path, Progress::default())?;
    let mut commit = commit.only_new(only_new);
    commit.write(&name, |out: &mut Output| out.put(bytes))?;
    commit.publish()
}

/// Runs writers at the same time; returns their outcomes in order.
fn at_once<T: Send>(count: usize, write: impl Fn(usize) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let write = &write;
        let writers: Vec<_> = (0..count).map(|writer| scope.spawn(move || write(writer))).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    })
}

#[test]
fn large_files_are_uploaded_in_parts() {
    let large = content(50 << 20);
    each("writing/large", |open| {
        let root = open();
        let (mut commit, name) = Commit::file(root.join("dir/model"), Progress::default()).unwrap();
        commit
            .write::<Error>(&name, |out| {
                assert!(out.only_appends());
                out.put(b"header")?;
                out.copy(&Blob::memory(large.clone()))
            })
            .unwrap();
        // It is not there, but can be opened and verified.
        assert!(!open().join("dir/model").exists().expect("inspected"));
        let staged = Blob::open(commit.staged(&name).unwrap(), false).unwrap();
        assert!(staged.slice(6, large.len() as u64).unwrap().read().unwrap() == large);
        commit.publish().unwrap();
        let blob = Blob::open(open().join("dir/model"), false).unwrap();
        assert_eq!(blob.len(), 6 + (50 << 20));
        assert!(blob.slice(6, large.len() as u64).unwrap().read().unwrap() == large);
    });
}

#[test]
fn bytes_that_were_uploaded_are_not_patched() {
    each("writing/patched", |open| {
        let path = open().join("model");
        let (mut commit, name) = Commit::file(&path, Progress::default()).unwrap();
        let error = commit
            .write::<Error>(&name, |out| {
                out.put(&vec![0; 20 << 20])?;
                out.patch(19 << 20, b"still here")?;
                out.patch(0, b"gone")
            })
            .expect_err("uploaded");
        assert!(matches!(Fault::of(&error), Some(Fault::Unsupported(_))), "{error}");
        drop(commit);
        assert!(!path.exists().expect("inspected"));
    });
}

#[test]
fn of_several_writers_one_creates_a_file() {
    // One put, and the completion of an upload, which a store in memory does not compare.
    for len in [10, 20 << 20] {
        each(&format!("writing/one-{len}"), |open| {
            let outcomes = at_once(4, |writer| {
                let byte = u8::try_from(writer).unwrap();
                put(&open().join("model"), &vec![byte; len], true)
            });
            let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
            let is_conditional = len == 10 || open().display().to_string().starts_with("s3://");
            assert!(won == 1 || (!is_conditional && won > 1), "{outcomes:?}");
            for outcome in outcomes {
                assert!(matches!(outcome, Ok(()) | Err(Error::Exists { .. })), "{outcome:?}");
            }
        });
    }
}

#[test]
fn of_several_writers_of_a_set_one_publishes_what_refers_to_the_others() {
    each("writing/set", |open| {
        let outcomes = at_once(6, |writer| {
            let mut commit = Commit::directory(open().join("model"), Progress::default())?;
            let data = format!("data-{writer}");
            commit.write(&data, |out: &mut Output| out.put(data.as_bytes()))?;
            commit.write("index", |out: &mut Output| out.put(data.as_bytes()))?;
            commit.publish()
        });
        let won: Vec<usize> = (0..6).filter(|writer| outcomes[*writer].is_ok()).collect();
        let [won] = won.as_slice() else { panic!("{outcomes:?}") };
        // The files of the others are removed.
        let root = open().join("model");
        let names: Vec<_> = root.list().unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, [format!("data-{won}"), "index".to_owned()]);
        let index = Blob::open(root.join("index"), false).unwrap().read().unwrap();
        assert_eq!(index, format!("data-{won}").as_bytes());
    });
}

#[test]
fn a_changed_object_is_not_mixed_with_the_opened_one() {
    each("writing/changed", |open| {
        put(&open().join("model"), &content(300_000), false).unwrap();
        let blob = Blob::open(open().join("model"), false).unwrap();
        put(&open().join("model"), &[7; 300_000], false).unwrap();
        let error = blob.read().expect_err("replaced");
        assert!(matches!(error, Error::Changed { .. }), "{error}");
    });
}

#[test]
fn other_objects_of_a_bucket_are_read_and_kept() {
    let store = Arc::new(InMemory::new());
    let root = in_memory(&store);
    let path = Path::parse("a b/ü%20/file").unwrap();
    let put_foreign = store.put(&path, "foreign".into());
    tokio::runtime::Runtime::new().unwrap().block_on(put_foreign).unwrap();
    let path = root.join("a b/ü%20/file");
    assert!(path.exists().expect("inspected") && root.join("a b").is_dir().expect("inspected"));
    assert_eq!(Blob::open(&path, false).unwrap().read().unwrap(), b"foreign".as_slice());
    assert!(put(&root.join("a b"), b"", false).is_err(), "a directory is there");
    root.join("a b").remove_dir(&Progress::default()).unwrap();
    assert!(!path.exists().expect("inspected"));
}

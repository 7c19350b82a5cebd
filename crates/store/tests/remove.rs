//! Atomic removal of directories, and their writer locks.

#![expect(clippy::disallowed_methods, reason = "checks the results directly")]

mod common;

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{dir, names, recover};
use lodstone_store::{Error, Location, Progress, Result, StepKind, WriterLock};
use rustix::io::Errno;

/// Creates a directory with files, directories, and links that lead out of it.
fn make(path: &Path, outside: &Path) {
    std::fs::create_dir_all(path.join("deep/deeper")).expect("a directory");
    for name in ["a", "b", "deep/c", "deep/deeper/d"] {
        std::fs::write(path.join(name), name).expect("a file");
    }
    symlink(outside, path.join("link")).expect("a link");
}

fn remove_dir(path: impl AsRef<Path>, progress: &Progress) -> Result<()> {
    Location::from(path).remove_dir(progress)
}

#[test]
fn a_directory_is_removed_with_its_contents_and_nothing_else() {
    let root = dir();
    std::fs::create_dir(root.path().join("outside")).expect("a directory");
    std::fs::write(root.path().join("outside/kept"), "kept").expect("a file");
    make(&root.path().join("old"), &root.path().join("outside"));
    remove_dir(root.path().join("old"), &Progress::default()).expect("removed");
    assert_eq!(names(root.path()), ["outside/", "outside/kept"]);

    let error = remove_dir(root.path().join("old"), &Progress::default()).expect_err("absent");
    assert!(error.to_string().contains("cannot remove"), "{error}");
    for odd in ["outside/kept", ".."] {
        assert!(remove_dir(root.path().join(odd), &Progress::default()).is_err(), "{odd}");
    }
    symlink(root.path().join("outside"), root.path().join("alias")).expect("a link");
    assert!(remove_dir(root.path().join("alias"), &Progress::default()).is_err());
    assert_eq!(names(&root.path().join("outside")), ["kept"]);
}

#[test]
fn a_removed_directory_is_complete_or_gone_after_any_failure() {
    let outside = dir();
    for last in 0.. {
        let root = dir();
        let old = root.path().join("old");
        make(&old, outside.path());
        let before = names(&old);
        let count = AtomicUsize::new(0);
        let progress = Progress::watched(move |step| {
            let fails = count.fetch_add(1, Ordering::Relaxed) == last;
            if !fails {
                return Ok(());
            }
            assert!(last > 0 || step.kind == StepKind::Retire, "{step:?}");
            Err(Error::io("do", step.path)(Errno::IO.into()))
        });
        let removed = remove_dir(&old, &progress);
        match old.exists() {
            true => {
                // The rename failed, or was withdrawn because it is not durable.
                assert!(removed.is_err() && last < 2);
                assert_eq!(names(&old), before);
                continue;
            }
            false => assert!(removed.is_ok(), "{last}: {removed:?}"),
        }
        // What could not be removed is a hidden leftover.
        let left = names(root.path());
        let is_hidden =
            |name: &String| lodstone_store::is_hidden(name.split('/').next().unwrap_or_default());
        assert!(left.iter().all(is_hidden), "{left:?}");
        recover(root.path()).expect("recovered");
        assert_eq!(names(root.path()), [""; 0], "{last}");
        if left.is_empty() {
            assert!(last > 5);
            return;
        }
    }
}

#[test]
fn a_directory_has_one_writer_at_a_time() {
    let root = dir();
    let first = WriterLock::take(root.path()).expect("free");
    let second = WriterLock::take(root.path());
    assert!(matches!(second, Err(Error::Locked { .. })), "{second:?}");
    first.check().expect("its own");
    drop(first);
    let third = WriterLock::take(root.path()).expect("free again");
    // Recovery does not mistake the lock for a leftover.
    recover(root.path()).expect("recovered");
    third.check().expect("its own");

    std::fs::remove_file(root.path().join(".lock.lodstone")).expect("removed");
    assert!(third.check().is_err());
    let _fourth = WriterLock::take(root.path()).expect("a new one");
    assert!(matches!(third.check(), Err(Error::Changed { .. })));
    assert!(WriterLock::take(root.path().join("absent")).is_err());
}

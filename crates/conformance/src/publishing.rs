//! Requirements for writing files.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use lodstone_store::{
    Atomicity, Blob, Commit, Error, Location, Output, Progress, StepKind, WriterLock,
};

use crate::{names, put, read, write};

fn is_set(root: &Location) -> bool {
    root.store().atomicity() == Atomicity::AtomicSet
}

pub(crate) fn a_file_appears_when_it_is_published(root: &Location) {
    let path = root.join("model");
    let (mut commit, name) = Commit::file(&path, Progress::default()).expect("begun");
    assert_eq!(name, "model");
    let large = vec![7; 3 << 20];
    commit
        .write::<Error>(&name, |out| {
            out.put(b"begin")?;
            out.put(&large)?;
            out.copy(&Blob::memory(b"end".as_slice()))?;
            assert_eq!(out.position(), 8 + (3 << 20));
            Ok(())
        })
        .expect("written");
    assert!(!path.exists().expect("inspected") && names(root).is_empty());
    assert_eq!(commit.names(), ["model"]);
    assert!(commit.root().is_some_and(|root| root.is_dir().expect("inspected")));
    commit.publish().expect("published");
    assert_eq!(names(root), ["model"]);
    assert_eq!(read(&path), [b"begin".as_slice(), &large, b"end"].concat());
}

pub(crate) fn a_file_is_replaced(root: &Location) {
    let path = root.join("model");
    put(&path, b"old").expect("written");
    // A file may be rewritten from itself.
    let old = Blob::open(&path, true).expect("a file");
    let (mut commit, name) = Commit::file(&path, Progress::default()).expect("begun");
    commit
        .write::<Error>(&name, |out| {
            out.put(b"new and ")?;
            out.copy(&old)
        })
        .expect("written");
    assert_eq!(read(&path), b"old");
    commit.publish().expect("published");
    assert_eq!(read(&path), b"new and old");
    assert_eq!(names(root), ["model"]);
}

pub(crate) fn a_dropped_commit_leaves_nothing(root: &Location) {
    put(&root.join("model"), b"old").expect("written");
    let mut commit = Commit::existing(root, Progress::default()).expect("begun");
    for name in ["model", "new", "sub/deep/new"] {
        commit.write::<Error>(name, |out| out.put(b"new")).expect("written");
    }
    drop(commit);
    let mut commit = Commit::directory(root.join("other"), Progress::default()).expect("begun");
    commit.write::<Error>("sub/file", |out| out.put(b"new")).expect("written");
    drop(commit);
    assert_eq!(names(root), ["model"]);
    assert_eq!(read(&root.join("model")), b"old");
}

pub(crate) fn a_failed_write_leaves_the_old_contents(root: &Location) {
    put(&root.join("model"), b"old").expect("written");
    let mut commit = Commit::existing(root, Progress::default()).expect("begun");
    let error = commit
        .write("model", |out| {
            out.put(&vec![1; 5 << 20])?;
            Err(Error::Cancelled)
        })
        .expect_err("it fails");
    assert!(matches!(error, Error::Cancelled));
    assert_eq!((commit.names(), commit.staged("model")), (Vec::new(), None));
    commit.write::<Error>("beside", |out| out.put(b"beside")).expect("written");
    commit.publish().expect("published");
    assert_eq!(names(root), ["beside", "model"]);
    assert_eq!(read(&root.join("model")), b"old");
}

pub(crate) fn a_cancelled_write_leaves_the_old_contents(root: &Location) {
    put(&root.join("model"), b"old").expect("written");
    for while_writing in [true, false] {
        let progress = Progress::default();
        let (mut commit, name) = Commit::file(root.join("model"), progress.clone()).expect("begun");
        let cancel = || {
            if while_writing {
                progress.cancel()
            }
        };
        let written = commit.write(&name, |out: &mut Output| {
            out.put(b"new")?;
            cancel();
            out.put(b" content")
        });
        assert_eq!(written.is_err(), while_writing);
        progress.cancel();
        assert!(matches!(commit.publish(), Err(Error::Cancelled)));
        assert_eq!(read(&root.join("model")), b"old");
        assert_eq!(names(root), ["model"]);
    }
}

pub(crate) fn bytes_are_patched(root: &Location) {
    let (mut commit, name) = Commit::file(root.join("model"), Progress::default()).expect("begun");
    let large = vec![0; 3 << 20];
    commit
        .write::<Error>(&name, |out| {
            out.put(&large)?;
            out.put(b"0123456789")?;
            out.patch(1, b"ab")?;
            out.patch((3 << 20) + 8, b"89")?;
            assert!(matches!(out.patch((3 << 20) + 9, b"9X"), Err(Error::OutOfRange { .. })));
            out.put(b"end")
        })
        .expect("written");
    commit.publish().expect("published");
    let found = read(&root.join("model"));
    assert_eq!((&found[..4], &found[3 << 20..]), (&b"\0ab\0"[..], &b"0123456789end"[..]));
}

pub(crate) fn staged_files_can_be_opened(root: &Location) {
    let mut commit = Commit::directory(root.join("model"), Progress::default()).expect("begun");
    commit.write::<Error>("sub//b", |out| out.put(b"b")).expect("written");
    commit.write::<Error>("./a", |out| out.put(b"a")).expect("written");
    let staged = commit.staged("").expect("a directory");
    assert_eq!(names(&staged), ["a", "sub/"]);
    assert_eq!(read(&staged.join("sub/b")), b"b");
    assert_eq!(commit.staged("a"), Some(staged.join("a")));
    assert_eq!(commit.staged("c"), None);
    assert_eq!(commit.names(), ["sub/b", "a"]);
    commit.publish().expect("published");
    assert!(!staged.exists().expect("inspected"));
}

pub(crate) fn a_directory_appears_whole(root: &Location) {
    let model = root.join("model");
    let mut commit = Commit::directory(&model, Progress::default()).expect("begun");
    assert!(commit.root().is_none());
    for name in ["params", "sub/one", "sub/two", "program"] {
        commit.write::<Error>(name, |out| out.put(name.as_bytes())).expect("written");
        assert!(!model.exists().expect("inspected"));
    }
    commit.publish().expect("published");
    assert_eq!(names(root), ["model/"]);
    assert_eq!(names(&model), ["params", "program", "sub/"]);
    assert_eq!(read(&model.join("sub/two")), b"sub/two");
    assert!(Commit::existing(root.join("no"), Progress::default()).is_err());
    // The parent must exist, unless it comes with its first file.
    let implied = root.store().implies_parents();
    assert_eq!(Commit::directory(root.join("no/model"), Progress::default()).is_ok(), implied);
    assert_eq!(Commit::file(root.join("no/file"), Progress::default()).is_ok(), implied);
    if implied {
        put(&root.join("no/deep/file"), b"content").expect("written");
        assert_eq!(names(&root.join("no")), ["deep/"]);
    }
}

pub(crate) fn an_empty_directory_is_created(root: &Location) {
    let path = root.join("empty");
    Commit::directory(&path, Progress::default()).expect("begun").publish().expect("published");
    assert!(path.is_dir().expect("inspected") && names(&path).is_empty());
    write(&path, &[("file", b"content")]).expect("written");
    assert_eq!(names(&path), ["file"]);
}

pub(crate) fn several_files_are_replaced_atomically_or_not_at_all(root: &Location) {
    let model = root.join("model");
    write(&model, &[("a", b"old"), ("b", b"old")]).expect("written");
    // First without other files, then with one.
    for (number, other) in [None, Some("other")].into_iter().enumerate() {
        if let Some(other) = other {
            put(&model.join(other), b"other").expect("written");
        }
        let new = format!("new {number}");
        let written = write(&model, &[("a", new.as_bytes()), ("b", new.as_bytes())]);
        let found = ["a", "b"].map(|name| read(&model.join(name)));
        if is_set(root) {
            written.expect("published");
            assert_eq!(found, [new.as_bytes(), new.as_bytes()]);
        } else {
            assert!(matches!(written, Err(Error::Replaces { .. })), "{written:?}");
            assert_eq!(found, [b"old", b"old"]);
        }
    }
    assert_eq!(names(&model), ["a", "b", "other"]);
    // One existing file is enough.
    let written = write(&model, &[("new", b"new"), ("b", b"new")]);
    assert_eq!(
        (written.is_ok(), model.join("new").exists().expect("inspected")),
        (is_set(root), is_set(root))
    );
}

pub(crate) fn new_files_are_added_to_a_directory(root: &Location) {
    put(&root.join("other"), b"other").expect("written");
    let mut commit = Commit::existing(root, Progress::default()).expect("begun");
    for name in ["a", "sub/b"] {
        commit.write::<Error>(name, |out| out.put(name.as_bytes())).expect("written");
    }
    commit.publish().expect("published");
    assert_eq!(names(root), ["a", "other", "sub/"]);
    assert_eq!(read(&root.join("sub/b")), b"sub/b");
    // An empty commit changes nothing.
    Commit::existing(root, Progress::default()).expect("begun").publish().expect("published");
}

pub(crate) fn names_are_unique_and_inside_the_directory(root: &Location) {
    let mut commit = Commit::directory(root.join("model"), Progress::default()).expect("begun");
    commit.write::<Error>("a/b", |out| out.put(b"")).expect("written");
    let mut refused = |name: &str| {
        commit.write::<Error>(name, |_| panic!("it is refused before")).expect_err(name)
    };
    assert!(matches!(refused("a/./b"), Error::Twice { .. }));
    for name in ["", "../x", "/x", "a/../../x", "a\0b"] {
        assert!(matches!(refused(name), Error::Escapes { .. }), "{name:?}");
    }
    for name in ["lodstone.seal", "a/lodstone.seal", ".x.lodstone", ".x.lodstone/a"] {
        assert!(matches!(refused(name), Error::Reserved { .. }), "{name:?}");
    }
    for name in ["a/", "."] {
        assert!(matches!(refused(name), Error::NotAFile { .. }), "{name:?}");
    }
    commit.publish().expect("published");
    assert_eq!(names(&root.join("model/a")), ["b"]);
    assert!(Commit::directory(root.join(".x.lodstone"), Progress::default()).is_err());
    assert!(Commit::file(root.join(".x.lodstone/a"), Progress::default()).is_err());
}

pub(crate) fn an_obstacle_is_an_error(root: &Location) {
    write(&root.join("model"), &[("sub/file", b"old")]).expect("written");
    assert!(put(&root.join("model"), b"").is_err(), "a directory is there");
    assert!(write(&root.join("model"), &[("sub", b"")]).is_err(), "a directory is there");
    let below = write(&root.join("model"), &[("sub/file/below", b"")]);
    assert!(below.is_err(), "a file is in the place of its directory");
    assert!(write(&root.join("model/sub/file"), &[("a", b"")]).is_err());
    assert_eq!(read(&root.join("model/sub/file")), b"old");
}

/// Fails each step of a write once.
pub(crate) fn a_failure_at_any_step_leaves_the_old_or_the_new(root: &Location) {
    let parts = ["params", "sub/more", "program"];
    for replaces in [false, true] {
        if replaces && !is_set(root) {
            continue;
        }
        for fails in 0.. {
            let model = root.join(format!("{replaces}-{fails}"));
            if replaces {
                write(&model, &parts.map(|name| (name, b"old".as_slice()))).expect("written");
                put(&model.join("foreign"), b"foreign").expect("written");
            }
            let steps = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&steps);
            let progress =
                Progress::watched(move |_| match counted.fetch_add(1, Ordering::Relaxed) {
                    step if step == fails => Err(Error::io("write", "a full disk")(
                        std::io::ErrorKind::StorageFull.into(),
                    )),
                    _ => Ok(()),
                });
            let written = (|| {
                let mut commit = Commit::directory(&model, progress)?;
                for name in parts {
                    commit.write::<Error>(name, |out| out.put(b"new"))?;
                }
                commit.refers("program");
                commit.publish()
            })();
            if model.is_dir().expect("inspected") {
                model.recover().expect("recovered");
            }
            let is_new = |name: &&str| {
                let path = model.join(name);
                path.exists().expect("inspected") && read(&path) == b"new"
            };
            let new = parts.iter().filter(|name| is_new(name)).count();
            if is_set(root) {
                assert!(new == 0 || new == parts.len(), "{model}: {new} are new");
            } else {
                assert!(new == parts.len() || !is_new(&"program"), "{model}: it refers to nothing");
            }
            assert!(written.is_err() || new == parts.len(), "{model}: it is not there");
            assert!(!replaces || read(&model.join("foreign")) == b"foreign");
            if steps.load(Ordering::Relaxed) <= fails {
                written.expect("no step failed");
                break;
            }
            if replaces {
                write(&model, &parts.map(|name| (name, b"next".as_slice()))).expect("written");
            }
        }
    }
}

pub(crate) fn the_file_that_refers_to_others_is_last(root: &Location) {
    if is_set(root) {
        return;
    }
    for (refers, last) in [(None, "c"), (Some("a"), "a"), (Some("./b"), "b")] {
        let order = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&order);
        let progress = Progress::watched(move |step| {
            if step.kind == StepKind::Replace {
                seen.lock().expect("seen").push(step.path.to_path_buf());
            }
            Ok(())
        });
        let model = root.join(format!("model-{last}"));
        let mut commit = Commit::directory(&model, progress).expect("begun");
        for name in ["a", "b", "c"] {
            commit.write::<Error>(name, |out| out.put(b"")).expect("written");
        }
        commit.write_seal::<Error>(|out| out.put(br#"{"models":[]}"#)).expect("written");
        refers.iter().for_each(|name| commit.refers(name));
        commit.publish().expect("published");
        let order = order.lock().expect("seen");
        assert_eq!(order.len(), 4);
        assert_eq!(order.last().and_then(|path| path.file_name()), Some(last.as_ref()));
    }
}

pub(crate) fn sealed_files_are_not_replaced(root: &Location) {
    let model = root.join("model");
    write(&model, &[("sub/a", b"old")]).expect("written");
    let mut commit = Commit::existing(&model, Progress::default()).expect("begun");
    let seal = br#"{"models":[{"files":[{"name":"sub/a"}]}]}"#;
    commit.write_seal::<Error>(|out| out.put(seal)).expect("written");
    commit.alone().expect("alone");
    commit.publish().expect("published");
    for path in [model.join("sub/a"), model.join("sub")] {
        let written = match path.is_dir().expect("inspected") {
            true => write(&path, &[("a", b"new")]),
            false => put(&path, b"new"),
        };
        assert!(matches!(written, Err(Error::Sealed { .. })), "{written:?}");
        assert_eq!(read(&model.join("sub/a")), b"old");
    }
    put(&model.join("sub/b"), b"not listed").expect("written");
    let (commit, name) = Commit::file(model.join("sub/a"), Progress::default()).expect("begun");
    let mut commit = commit.over_seals();
    commit.write::<Error>(&name, |out| out.put(b"new")).expect("written");
    commit.publish().expect("published");
    assert_eq!(read(&model.join("sub/a")), b"new");
}

pub(crate) fn concurrent_writers_leave_the_files_of_one(root: &Location) {
    const WRITERS: u8 = 8;
    let path = root.join("model");
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let path = &path;
            scope.spawn(move || put(path, &vec![writer; 1 << 20]).expect("written"));
        }
    });
    let found = read(&path);
    assert_eq!(found.len(), 1 << 20);
    assert!(found.iter().all(|byte| *byte == found[0] && *byte < WRITERS));
    assert_eq!(names(root), ["model"]);
    if is_set(root) {
        let several = root.join("several");
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let several = &several;
                scope.spawn(move || {
                    let bytes = [writer];
                    // Another writer may have created the directory first.
                    while write(several, &[("a", &bytes), ("b/c", &bytes)]).is_err() {}
                });
            }
        });
        assert_eq!(read(&several.join("a")), read(&several.join("b/c")));
    }
}

pub(crate) fn a_directory_has_one_writer(root: &Location) {
    let path = root.join("checkpoints");
    assert!(WriterLock::take(&path).is_err(), "it is not there");
    write(&path, &[("file", b"")]).expect("written");
    let lock = WriterLock::take(&path).expect("taken");
    assert!(matches!(WriterLock::take(&path), Err(Error::Locked { .. })));
    lock.check().expect("still held");
    write(&path, &[("other", b"")]).expect("a rule among those that take it");
    drop(lock);
    let lock = WriterLock::take(&path).expect("given back");
    path.remove_dir(&Progress::default()).expect("removed");
    assert!(lock.check().is_err(), "its directory is gone");
}

pub(crate) fn a_directory_is_removed(root: &Location) {
    write(&root.join("old"), &[("a", b"a"), ("deep/deeper/b", b"b")]).expect("written");
    put(&root.join("older"), b"stays").expect("written");
    root.join("old").remove_dir(&Progress::default()).expect("removed");
    assert_eq!(names(root), ["older"]);
    assert!(root.join("old").remove_dir(&Progress::default()).is_err(), "it is gone");
    assert!(root.join("older").remove_dir(&Progress::default()).is_err(), "it is a file");
    // A failed step leaves the whole directory.
    write(&root.join("new"), &[("a", b"a"), ("b", b"b")]).expect("written");
    let refuses = Progress::watched(|step| match step.kind {
        StepKind::Retire => Err(Error::Cancelled),
        _ => Ok(()),
    });
    root.join("new").remove_dir(&refuses).expect_err("refused");
    assert_eq!(names(&root.join("new")), ["a", "b"]);
}

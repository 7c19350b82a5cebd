//! Leftovers of interrupted writes: who may read them, which process finishes them, and entries that only resemble
//! them.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "creates leftovers of other users"
)]

mod common;

use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};
use std::thread::{scope, sleep};
use std::time::Duration;

use common::{
    assert_filled, begin, dir, failing_in, file, fill, foreign, in_time, interrupt, is_root,
    list_dir, names, pipe, publish, read, recover, set_mode,
};
use lodstone_store::{Commit, Dir, Error, Links, Progress, Recovery, SourceFile, StepKind};

const LOG: &str = ".pending.lodstone";

#[test]
fn a_redo_log_of_another_user_cannot_reach_outside_its_directory() {
    let root = dir();
    let inside = root.path().join("inside");
    std::fs::create_dir_all(inside.join(".pending.lodstone/deep")).expect("directories");
    file(root.path(), "secret", b"secret");
    let pending = inside.join(".pending.lodstone");
    symlink("../../secret", pending.join("link")).expect("a link");
    symlink("..", pending.join("up")).expect("a link");
    symlink("../..", pending.join("deep/up")).expect("a link");
    pipe(&pending.join("pipe"));
    file(&pending, "deep/file", b"theirs");
    symlink("../secret", inside.join("deep")).expect("a link");
    let before = names(root.path());
    recover(&inside).expect_err("`deep` leads out");
    assert_eq!(names(root.path()), before);
    std::fs::remove_file(inside.join("deep")).expect("removed");
    recover(&inside).expect("recovered");
    assert_eq!(names(root.path()), ["inside/", "inside/deep/", "inside/deep/file", "secret"]);
    assert_eq!(read(&root.path().join("secret")), b"secret");
    // Entries that are not directories.
    for make in [|path: &Path| symlink("../..", path).expect("a link"), |path: &Path| pipe(path)] {
        make(&pending);
        publish(&inside, &["a", "b"], "new", Progress::default()).expect("published");
        assert_filled(&inside, &["a", "b"], "new");
    }
    assert_eq!(read(&root.path().join("secret")), b"secret");
}

#[test]
fn a_redo_log_of_another_user_in_a_sticky_directory_is_ignored() {
    let dir = foreign();
    set_mode(dir.path(), 0o1777);
    interrupt(dir.path(), &["a", "b"], "theirs");
    let owner = if is_root() { Some(12) } else { None };
    chown(dir.path().join(".pending.lodstone"), owner, None).expect("an owner");
    let (mut commit, name) = Commit::file(dir.path().join("a"), Progress::default()).expect("one");
    commit.write(&name, |out| out.put(b"a mine")).expect("written");
    commit.publish().expect("published");
    let refused = publish(dir.path(), &["a", "b"], "mine", Progress::default());
    if is_root() {
        refused.expect_err("it is not ours to remove");
        assert_eq!(names(dir.path()).len(), 5, "nothing else is there: {:?}", names(dir.path()));
        assert_filled(dir.path(), &["a"], "mine");
    } else {
        refused.expect("it is our own");
    }
}

#[test]
fn readers_wait_for_a_live_writer_for_a_bounded_time() {
    for patient in [true, false] {
        let dir = foreign();
        publish(dir.path(), &["a", "b"], "old", Progress::default()).expect("published");
        let (begun, read) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let (together, until, reached) = (Arc::clone(&begun), Arc::clone(&read), Mutex::new(false));
        let progress = Progress::watched(move |step| {
            let mut reached = reached.lock().expect("no panic");
            if step.kind == StepKind::Replace && !std::mem::replace(&mut *reached, true) {
                together.wait();
                match patient {
                    true => sleep(Duration::from_millis(50)),
                    false => drop(until.wait()),
                }
            }
            Ok(())
        });
        scope(|scope| {
            scope.spawn(|| publish(dir.path(), &["a", "b"], "new", progress).expect("published"));
            begun.wait();
            let opened = SourceFile::open(dir.path().join("b"), false);
            if patient {
                let mut found = [0; 5];
                opened.expect("it waited").read_at(0, &mut found).expect("read");
                assert_eq!(found, *b"b new");
            } else {
                assert!(matches!(opened, Err(Error::Interrupted { .. })), "{opened:?}");
                read.wait();
            }
        });
        assert_filled(dir.path(), &["a", "b"], "new");
    }
}

#[test]
fn a_leftover_that_names_the_parent_directory_has_no_effect_there() {
    let home = dir();
    let inside = home.path().join("downloaded");
    // The name of the parent directory, `..`, in the name of a staging directory.
    let planted = inside.join("....1-1.lodstone");
    std::fs::create_dir_all(planted.join(".replaced.lodstone")).expect("directories");
    std::fs::create_dir_all(planted.join("sub")).expect("directories");
    file(&planted, "profile", b"theirs");
    file(&planted, "sub/keys", b"theirs");
    publish(&inside, &["a", "b"], "new", Progress::default()).expect("published");
    publish(&inside, &["a"], "new", Progress::default()).expect("published");
    recover(&inside).expect("recovered");
    let outside: Vec<_> = names(home.path());
    assert!(outside.iter().all(|name| name.starts_with("downloaded/")), "{outside:?}");
}

#[test]
fn only_files_are_rescued_from_a_replaced_directory() {
    let dir = dir();
    let planted = dir.path().join(".model.1-1.lodstone");
    for name in [".replaced.lodstone", LOG, ".1-1.lodstone"] {
        std::fs::create_dir_all(planted.join(name)).expect("directories");
    }
    publish(&dir.path().join("model"), &["a"], "mine", Progress::default()).expect("published");
    symlink("/etc", planted.join("link")).expect("a link");
    pipe(&planted.join("pipe"));
    file(&planted, ".pending.lodstone/a", b"theirs");
    file(&planted, ".1-1.lodstone/a", b"theirs");
    file(&planted, "late", b"late");
    assert_eq!(recover(dir.path()).expect("recovered"), Recovery::default(), "it is still there");
    recover(dir.path().join("model")).expect("recovered");
    assert_eq!(names(&dir.path().join("model")), ["a", "late"]);
    assert_eq!(read(&dir.path().join("model/a")), b"a mine");
}

#[test]
fn a_redo_log_that_cannot_be_removed_is_an_error_and_not_an_endless_loop() {
    let dir = foreign();
    std::fs::create_dir_all(dir.path().join(LOG).join("sub")).expect("directories");
    symlink("x", dir.path().join(LOG).join("sub/link")).expect("a link");
    let path = dir.path().to_owned();
    let error = in_time(move || {
        publish(&path, &["a", "b"], "new", failing_in(StepKind::Remove)).expect_err("in the way")
    });
    assert!(error.to_string().contains(LOG), "{error}");
    assert!(!dir.path().join("a").exists());
    recover(dir.path()).expect("recovered");
    assert_eq!(names(dir.path()), ["foreign"]);
}

#[test]
fn a_log_of_another_user_does_not_block_writers() {
    let dir = foreign();
    set_mode(dir.path(), 0o1777);
    publish(dir.path(), &["a", "b"], "old", Progress::default()).expect("published");
    let log = dir.path().join(LOG);
    std::fs::create_dir(&log).expect("a directory");
    file(&log, "a", b"theirs");
    // Write permission of others is enough, regardless of the owner.
    set_mode(&log, 0o777);
    let held = std::fs::File::open(&log).expect("a directory");
    held.lock().expect("locked");
    let path = dir.path().to_owned();
    in_time(move || {
        SourceFile::open(path.join("a"), false).expect("it waits for nothing");
        recover(&path).expect("recovered");
        publish(&path, &["a"], "new", Progress::default()).expect("published");
        publish(&path, &["a", "b"], "new", Progress::default()).expect_err("its place is taken");
    });
    assert_filled(dir.path(), &["a"], "new");
    assert_filled(dir.path(), &["b"], "old");
}

#[test]
fn a_log_in_a_sticky_directory_is_writable_only_by_its_owner() {
    let dir = foreign();
    set_mode(dir.path(), 0o1777);
    interrupt(dir.path(), &["a", "sub/b"], "new");
    for name in [LOG.to_owned(), format!("{LOG}/sub")] {
        assert_eq!(common::mode(&dir.path().join(&name)) & 0o022, 0, "{name}");
    }
    recover(dir.path()).expect("recovered");
    assert_filled(dir.path(), &["a", "sub/b"], "new");
}

#[test]
fn a_file_that_was_changed_after_the_interruption_is_not_replaced() {
    let dir = foreign();
    publish(dir.path(), &["a", "b"], "old", Progress::default()).expect("published");
    interrupt(dir.path(), &["a", "b"], "new");
    // Clocks of file systems may stand still for some milliseconds.
    sleep(Duration::from_millis(50));
    let before = names(dir.path());
    file(dir.path(), "b", b"b mine");
    for error in [
        recover(dir.path()).expect_err("somebody's work"),
        publish(dir.path(), &["c"], "new", Progress::default()).expect_err("the same"),
    ] {
        let Error::Overtaken { path, log } = &error else { panic!("{error:?}") };
        assert!(path.ends_with("b") && log.ends_with(".pending.lodstone/b"), "{error}");
    }
    assert_eq!(names(dir.path()), before);
    assert_filled(dir.path(), &["b"], "mine");
    std::fs::remove_file(dir.path().join(LOG).join("b")).expect("removed");
    assert_eq!(recover(dir.path()).expect("recovered").files, 1);
    assert_filled(dir.path(), &["a"], "new");
    assert_filled(dir.path(), &["b"], "mine");
}

#[test]
fn a_waiting_file_is_rejected_under_every_path() {
    let dir = foreign();
    let root = dir.path();
    publish(root, &["sub/a", "sub/deep/b", "c"], "old", Progress::default()).expect("published");
    interrupt(root, &["sub/a", "sub/deep/b", "sub/new", "c"], "new");
    symlink("sub/deep", root.join("link")).expect("a link");
    for name in ["c", "sub/a", "sub/deep/b", "link/b", "sub/new"] {
        let opened = SourceFile::open(root.join(name), false);
        assert!(matches!(opened, Err(Error::Interrupted { .. })), "{name}: {opened:?}");
    }
    let entries = list_dir(root.join("sub")).expect("listed");
    let entries: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(entries, ["a", "deep", "new"]);
    for (path, name, all) in [
        ("", "sub/a", &["c", "foreign", "sub/a", "sub/deep/b", "sub/new"][..]),
        ("sub", "deep/b", &["a", "deep/b", "new"]),
    ] {
        let dir = Dir::open(root.join(path), Links::Confined, false).expect("opened");
        let opened = dir.open_file(name);
        assert!(matches!(opened, Err(Error::Interrupted { .. })), "{name}: {opened:?}");
        let files = dir.files(100).expect("listed");
        assert_eq!(files.iter().filter(|name| *name != "link").collect::<Vec<_>>(), all);
    }
}

#[test]
fn files_that_wait_further_down_are_listed() {
    let dir = dir();
    let sub = dir.path().join("sub");
    std::fs::create_dir(&sub).expect("a directory");
    file(&sub, "foreign", b"foreign");
    interrupt(&sub, &["a", "lodstone.seal"], "new");
    let listed = Dir::open(dir.path(), Links::Confined, false).expect("opened").files(100);
    assert_eq!(listed.expect("listed"), ["sub/a", "sub/foreign"]);
    let entries = list_dir(&sub).expect("listed");
    assert_eq!(entries.iter().map(|entry| &entry.name).collect::<Vec<_>>(), ["a", "foreign"]);
}

#[test]
fn a_log_is_synced_before_another_process_finishes_it() {
    let dir = foreign();
    interrupt(dir.path(), &["a", "b"], "new");
    let steps = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&steps);
    let progress = Progress::watched(move |step| {
        seen.lock().expect("no panic").push((step.kind, step.path.to_path_buf()));
        Ok(())
    });
    publish(dir.path(), &["c"], "new", progress).expect("published");
    let steps = steps.lock().expect("no panic");
    let root = dir.path().canonicalize().expect("a directory");
    assert_eq!(steps[0], (StepKind::SyncDirectory, root.clone()));
    assert_eq!(steps[1], (StepKind::Replace, root.join("a")));
}

#[test]
fn a_staged_file_removed_during_publication_is_an_error() {
    let dir = foreign();
    // Before publication.
    let commit = fill(begin(dir.path()), &["a", "b"], "new").expect("written");
    std::fs::remove_file(commit.staged("b").expect("a path").path()).expect("removed");
    let error = commit.publish().expect_err("it is gone");
    assert!(error.to_string().contains("/b`: No such file"), "{error}");
    assert_eq!(names(dir.path()), ["foreign"]);
    // After publication.
    let log = dir.path().join(LOG);
    let progress = Progress::watched(move |step| {
        if step.kind == StepKind::Replace && step.path.ends_with("a") {
            std::fs::remove_file(log.join("b")).expect("removed");
        }
        Ok(())
    });
    let error = publish(dir.path(), &["a", "b"], "new", progress).expect_err("it is gone");
    assert!(matches!(error, Error::Unfinished { .. }), "{error:?}");
    // Another process has published the file, and so finished the log.
    let root = dir.path().to_owned();
    let progress = Progress::watched(move |step| {
        if step.kind == StepKind::Replace && step.path.ends_with("a") {
            std::fs::rename(root.join(LOG).join("b"), root.join("b")).expect("moved");
        }
        Ok(())
    });
    publish(dir.path(), &["a", "b"], "newer", progress).expect("published");
    assert_filled(dir.path(), &["a", "b"], "newer");
}

#[test]
fn reserved_names_are_not_written() {
    let dir = dir();
    let kept = dir.path().join(".1-2.lodstone");
    std::fs::create_dir(&kept).expect("a directory");
    for path in [kept.clone(), kept.join("sub"), dir.path().join(".new.1-1.lodstone")] {
        let error = Commit::directory(&path, Progress::default()).expect_err("kept");
        assert!(matches!(error, Error::NotAFile { .. }), "{error:?}");
    }
    Commit::existing(&kept, Progress::default()).expect_err("kept");
    Commit::file(kept.join("m"), Progress::default()).expect_err("kept");
}

#[test]
fn a_file_created_by_another_process_is_not_removed() {
    let dir = foreign();
    let mut commit = fill(begin(dir.path()), &["a"], "new").expect("written");
    // Simulates a case-insensitive file system.
    let staged = commit.staged("").expect("a directory").to_path_buf();
    std::fs::hard_link(staged.join("a"), staged.join("A")).expect("a link");
    commit.write("A", |out| out.put(b"other")).expect_err("it exists");
    assert_eq!(names(&staged), ["A", "a"]);
}

#[test]
fn a_publisher_that_holds_the_lock_is_waited_for() {
    let dir = foreign();
    publish(dir.path(), &["a"], "old", Progress::default()).expect("published");
    let mut first = fill(begin(dir.path()), &["a"], "first").expect("written");
    first.alone().expect("nobody else");
    let waiting = Progress::default();
    scope(|scope| {
        let second = scope.spawn(|| publish(dir.path(), &["a"], "second", waiting.clone()));
        sleep(Duration::from_millis(50));
        assert_filled(dir.path(), &["a"], "old");
        first.publish().expect("published");
        second.join().expect("no panic").expect("published");
    });
    assert_filled(dir.path(), &["a"], "second");
    // A waiting publisher can be cancelled.
    let mut first = begin(dir.path());
    first.alone().expect("nobody else");
    let second = fill(Commit::existing(dir.path(), waiting.clone()).expect("one"), &["a"], "third");
    waiting.cancel();
    let error = second.and_then(Commit::publish).expect_err("cancelled");
    assert!(matches!(error, Error::Cancelled), "{error:?}");
}

#[test]
fn a_redo_log_that_is_a_link_to_itself_does_not_prevent_reading() {
    let dir = dir();
    file(dir.path(), "model", b"content");
    symlink(LOG, dir.path().join(LOG)).expect("a link");
    let path = dir.path().join("model");
    assert_eq!(SourceFile::open(&path, false).expect("a file").len(), 7);
    let folder = Dir::open(dir.path(), Links::Confined, false).expect("a directory");
    assert!(folder.open_file("model").expect("a file").is_some());
}

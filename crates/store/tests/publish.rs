//! Publication of commits: concurrent writers, replaced files, and what readers see meanwhile.

#![expect(
    clippy::disallowed_methods,
    reason = "creates the files that are replaced, and checks the results"
)]

mod common;

use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::scope;

use common::{
    assert_filled, begin, dir, file, fill, foreign, interrupt, is_root, list_dir, mode, names,
    pipe, publish, read, recover, set_mode, text,
};
use lodstone_store::{Commit, Dir, Error, Links, Progress, Recovery, SourceFile, StepKind};

const NONE: [&str; 0] = [];

fn inode(path: &Path) -> u64 {
    std::fs::metadata(path).expect("metadata").ino()
}

#[test]
fn staged_files_can_be_opened_beside_each_other_under_their_names() {
    let foreign = foreign();
    for root in [foreign.path().to_path_buf(), foreign.path().join("new")] {
        let mut commit = fill(begin(&root), &["a", "sub/b"], "new").expect("written");
        let staged = |name| commit.staged(name).expect("a path").to_path_buf();
        let (a, b) = (staged("./a"), staged("sub//b"));
        assert_eq!(
            (a.parent(), a.file_name()),
            (b.parent().and_then(Path::parent), Some("a".as_ref()))
        );
        assert_eq!((text(&a), text(&b)), ("a new".to_owned(), "sub/b new".to_owned()));
        SourceFile::open(&b, true).expect("a file");
        assert_eq!(commit.staged("c"), None);
        commit.write("c", |_| Err(Error::Cancelled)).expect_err("it failed");
        assert_eq!(commit.staged("c"), None);
        commit.publish().expect("published");
        assert_filled(&root, &["a", "sub/b"], "new");
        assert!(!a.exists() && !root.join("c").exists());
    }
}

#[test]
fn a_file_whose_writing_failed_can_be_written_again() {
    let dir = foreign();
    let mut commit = begin(dir.path());
    commit.write("a", |out| out.put(b"half").and(Err(Error::Cancelled))).expect_err("it failed");
    fill(commit, &["a", "b"], "new").expect("written").publish().expect("published");
    assert_filled(dir.path(), &["a", "b"], "new");
}

#[test]
fn names_reserved_for_staging_are_rejected() {
    let dir = foreign();
    let mut commit = begin(dir.path());
    for name in [".pending.lodstone/a", ".pending.lodstone", "sub/.1-1.lodstone/a", ".x.lodstone"] {
        let error = commit.write(name, |out| out.put(b"new")).expect_err("kept");
        assert!(matches!(error, Error::Reserved { .. }), "{name}: {error:?}");
    }
    commit.publish().expect("published");
    assert_eq!(names(dir.path()), ["foreign"]);
}

#[test]
fn staged_files_beside_others_are_private() {
    let dir = foreign();
    let secret = file(dir.path(), "secret", b"old");
    set_mode(&secret, 0o600);
    let commit = fill(begin(dir.path()), &["secret", "usual"], "new").expect("written");
    let staged = commit.staged("secret").expect("a path").to_path_buf();
    assert_eq!(mode(&staged), 0o600);
    assert_eq!(mode(staged.parent().expect("a directory")), 0o700);
    commit.publish().expect("published");
    assert_eq!(
        (mode(&secret), mode(&dir.path().join("usual"))),
        (0o600, mode(&dir.path().join("foreign")))
    );
}

#[test]
fn owner_and_group_of_a_replaced_file_are_kept_where_that_is_allowed() {
    let dir = foreign();
    let path = file(dir.path(), "a", b"old");
    let (owner, group) = if is_root() { (Some(12), Some(34)) } else { (None, None) };
    chown(&path, owner, group).expect("an owner");
    set_mode(&path, 0o6750);
    let before = std::fs::metadata(&path).expect("metadata");
    publish(dir.path(), &["a"], "new", Progress::default()).expect("published");
    let after = std::fs::metadata(&path).expect("metadata");
    assert_eq!((before.uid(), before.gid()), (after.uid(), after.gid()));
    assert_eq!(mode(&path), 0o750, "what is written runs as nobody else");
    assert_ne!(before.ino(), after.ino());
}

#[test]
fn a_directory_without_other_contents_is_exchanged() {
    let dir = dir();
    let root = dir.path().join("model");
    publish(&root, &["a", "sub/b", "old/c"], "old", Progress::default()).expect("published");
    set_mode(&root, 0o2750);
    set_mode(&root.join("sub"), 0o711);
    if is_root() {
        chown(&root, Some(12), Some(34)).expect("an owner");
        chown(root.join("sub"), Some(12), Some(34)).expect("an owner");
    }
    let before = std::fs::metadata(&root).expect("metadata");
    publish(&root, &["a", "sub/b", "old/c", "more/d"], "new", Progress::default())
        .expect("published");
    let after = std::fs::metadata(&root).expect("metadata");
    assert_ne!(before.ino(), after.ino(), "it was not exchanged");
    assert_eq!(
        (before.uid(), before.gid(), before.mode()),
        (after.uid(), after.gid(), after.mode())
    );
    let sub = std::fs::metadata(root.join("sub")).expect("metadata");
    assert_eq!((sub.uid(), sub.mode() & 0o7777), (before.uid(), 0o711));
    assert_filled(&root, &["a", "sub/b", "old/c", "more/d"], "new");
    assert_eq!(names(dir.path()).len(), 8, "{:?}", names(dir.path()));
}

#[test]
fn a_directory_with_other_contents_is_not_exchanged() {
    type Add = fn(&Path);
    let others: [(&str, Add); 6] = [
        ("a file", |root| drop(file(root, "other", b"foreign"))),
        ("a file below", |root| drop(file(root, "sub/other", b"foreign"))),
        ("an empty directory", |root| std::fs::create_dir(root.join("other")).expect("one")),
        ("a link to a directory", |root| symlink("sub", root.join("other")).expect("a link")),
        ("a pipe", |root| pipe(&root.join("other"))),
        ("an attribute", |root| {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(root, "user.origin", b"here", flags).expect("an attribute");
        }),
    ];
    for (what, add) in others {
        let dir = dir();
        let root = dir.path().join("model");
        publish(&root, &["a", "sub/b"], "old", Progress::default()).expect("published");
        add(&root);
        let (before, there) = (inode(&root), names(&root));
        publish(&root, &["a", "sub/b"], "new", Progress::default()).expect("published");
        assert_eq!(inode(&root), before, "{what}");
        assert_eq!(names(&root), there, "{what}");
        assert_filled(&root, &["a", "sub/b"], "new");
        assert_eq!(list_dir(dir.path()).expect("listed").len(), 1);
    }
}

#[test]
fn files_added_to_a_directory_during_its_replacement_are_rescued() {
    for killed in [false, true] {
        let dir = dir();
        let root = dir.path().join("model");
        publish(&root, &["a", "sub/b"], "old", Progress::default()).expect("published");
        let there = root.clone();
        let progress = Progress::watched(move |step| {
            if step.kind == StepKind::Exchange {
                for name in ["late", "sub/late"] {
                    file(&there, name, b"foreign");
                }
                std::fs::create_dir(there.join("empty")).expect("a directory");
                std::fs::create_dir(there.join("theirs")).expect("a directory");
                file(&there, "theirs/late", b"foreign");
            }
            // As if it were killed before it removed anything.
            let stop = killed && matches!(step.kind, StepKind::Remove | StepKind::Rescue);
            if stop { Err(Error::Cancelled) } else { Ok(()) }
        });
        publish(&root, &["a", "sub/b"], "new", progress).expect("published");
        assert_filled(&root, &["a", "sub/b"], "new");
        if killed {
            assert!(!root.join("late").exists(), "it is still to be saved");
            publish(&root, &["a", "sub/b"], "newer", Progress::default()).expect("published");
            assert_filled(&root, &["a", "sub/b"], "newer");
        }
        for name in ["late", "sub/late", "theirs/late"] {
            assert_eq!(read(&root.join(name)), b"foreign", "{name}");
        }
        assert_eq!(names(dir.path()).iter().find(|name| name.contains(".lodstone")), None);
    }
}

#[test]
fn a_commit_survives_the_exchange_of_its_directory() {
    let seconds = [&["a"][..], &["a", "sub/b"], &["other", "sub/b"]];
    for (later, when) in
        seconds.into_iter().flat_map(|names| [(names, StepKind::Move), (names, StepKind::Exchange)])
    {
        let dir = dir();
        let root = dir.path().join("model");
        publish(&root, &["a", "sub/b"], "old", Progress::default()).expect("published");
        let begun = Arc::new(Mutex::new(None));
        let (there, commit) = (root.clone(), Arc::clone(&begun));
        let progress = Progress::watched(move |step| {
            let mut commit = commit.lock().expect("no panic");
            if step.kind == when && commit.is_none() {
                *commit = Some(fill(begin(&there), later, "newest").expect("written"));
            }
            Ok(())
        });
        let before = inode(&root);
        publish(&root, &["a", "sub/b"], "new", progress).expect("published");
        // Too late for the check for other writers.
        assert_eq!(inode(&root) != before, when == StepKind::Exchange);
        assert_filled(&root, &["a", "sub/b"], "new");
        let begun = begun.lock().expect("no panic").take().expect("begun");
        begun.publish().expect("published");
        assert_filled(&root, later, "newest");
        assert_eq!(names(dir.path()).iter().find(|name| name.contains(".lodstone")), None);
    }
}

#[test]
fn a_directory_that_cannot_be_exchanged_is_written_into() {
    use rustix::io::Errno;
    for errno in [Errno::INVAL, Errno::NOSYS, Errno::XDEV, Errno::BUSY, Errno::ACCESS, Errno::PERM]
    {
        for step in [StepKind::Move, StepKind::Exchange] {
            let dir = dir();
            let root = dir.path().join("model");
            publish(&root, &["a", "b"], "old", Progress::default()).expect("published");
            let before = inode(&root);
            let failed = Mutex::new(false);
            let progress = Progress::watched(move |found| {
                let mut failed = failed.lock().expect("no panic");
                if found.kind != step || std::mem::replace(&mut *failed, true) {
                    return Ok(());
                }
                Err(Error::io("test", found.path)(errno.into()))
            });
            publish(&root, &["a", "b"], "new", progress).expect("published");
            assert_filled(&root, &["a", "b"], "new");
            assert_eq!(inode(&root), before);
            assert_eq!(names(dir.path()), ["model/", "model/a", "model/b"]);
        }
    }
}

#[test]
fn files_of_an_interrupted_write_are_rejected_by_name() {
    let dir = foreign();
    publish(dir.path(), &["a", "sub/b", "other"], "old", Progress::default()).expect("published");
    interrupt(dir.path(), &["a", "sub/b", "absent"], "new");
    symlink("a", dir.path().join("link")).expect("a link");
    for links in [Links::Confined, Links::Follow] {
        let opened = Dir::open(dir.path(), links, true).expect("a directory");
        for name in ["a", "./a", "sub/b", "absent"] {
            let error = opened.open_file(name).expect_err("interrupted");
            assert!(matches!(error, Error::Interrupted { .. }), "{name}: {error:?}");
            let said = error.to_string();
            assert!(said.contains("`lodstone recover`") && said.contains("interrupted"), "{said}");
        }
        for name in ["other", "foreign"] {
            assert!(opened.open_file(name).expect("another").is_some(), "{name}");
        }
    }
    for name in ["a", "link"] {
        let error = SourceFile::open(dir.path().join(name), false).expect_err("interrupted");
        assert!(matches!(error, Error::Interrupted { .. }), "{name}: {error:?}");
    }
    SourceFile::open(dir.path().join("other"), false).expect("another");
    // Without them, the directory would look complete.
    let listed = list_dir(dir.path()).expect("listed");
    assert!(listed.iter().any(|entry| entry.name == "absent" && !entry.is_dir), "{listed:?}");
    let opened = Dir::open(dir.path(), Links::Confined, true).expect("a directory");
    assert!(opened.files(100).expect("listed").contains(&"absent".to_owned()));
}

#[test]
fn an_interrupted_write_is_finished_by_recover_and_by_any_write_into_the_directory() {
    type Finish = fn(&Path);
    let ways: [Finish; 4] = [
        |root| {
            let Recovery { files, .. } = recover(root).expect("recovered");
            assert_eq!(files, 3);
        },
        |root| drop(begin(root)),
        |root| publish(root, &["one"], "", Progress::default()).expect("published"),
        |root| {
            let (mut commit, name) =
                Commit::file(root.join("one"), Progress::default()).expect("a commit");
            commit.write(&name, |out| out.put(b"one ")).expect("written");
            commit.publish().expect("published");
        },
    ];
    for finish in ways {
        let dir = foreign();
        publish(dir.path(), &["a", "one"], "old", Progress::default()).expect("published");
        interrupt(dir.path(), &["a", "sub/b", "absent"], "new");
        assert_eq!(text(&dir.path().join("a")), "a old");
        finish(dir.path());
        assert_filled(dir.path(), &["a", "sub/b", "absent"], "new");
        assert_eq!(names(dir.path()), ["a", "absent", "foreign", "one", "sub/", "sub/b"]);
        assert_eq!(recover(dir.path()).expect("recovered"), Recovery::default());
    }
}

#[test]
fn a_commit_that_was_begun_before_another_was_interrupted_comes_after_it() {
    let dir = foreign();
    for later in [&["a"][..], &["a", "b"]] {
        let begun = fill(begin(dir.path()), later, "newest").expect("written");
        interrupt(dir.path(), &["a", "b"], "new");
        begun.publish().expect("published");
        assert_filled(dir.path(), later, "newest");
        assert_eq!(names(dir.path()), ["a", "b", "foreign"]);
    }
}

#[test]
fn a_write_that_cannot_be_finished_reports_the_obstacle() {
    let dir = foreign();
    interrupt(dir.path(), &["a", "b"], "new");
    std::fs::create_dir_all(dir.path().join("a/theirs")).expect("a directory");
    let error = recover(dir.path()).expect_err("a directory");
    let said = error.to_string();
    assert!(said.contains(&format!("`{}`", dir.path().join("a").display())), "{said}");
    assert!(said.contains("Is a directory") && said.contains("`lodstone recover`"), "{said}");
    Commit::directory(dir.path(), Progress::default()).expect_err("the same");
    std::fs::remove_dir_all(dir.path().join("a")).expect("removed");
    recover(dir.path()).expect("recovered");
    assert_filled(dir.path(), &["a", "b"], "new");
}

#[test]
fn live_writers_do_not_disturb_each_other() {
    let dir = foreign();
    let root = dir.path().join("model");
    publish(&root, &["a", "b"], "old", Progress::default()).expect("published");
    let here: Vec<_> = (0..3)
        .map(|number| fill(begin(dir.path()), &["x", "y"], &number.to_string()).expect("written"))
        .collect();
    let there: Vec<_> = (0..3)
        .map(|number| fill(begin(&root), &["a", "b"], &number.to_string()).expect("written"))
        .collect();
    assert_eq!(recover(dir.path()).expect("recovered"), Recovery::default());
    assert_eq!(recover(&root).expect("recovered"), Recovery::default());
    for (number, (here, there)) in here.into_iter().zip(there).enumerate() {
        here.publish().expect("published");
        assert_filled(dir.path(), &["x", "y"], &number.to_string());
        there.publish().expect("published");
        assert_filled(&root, &["a", "b"], &number.to_string());
    }
    let expected = ["foreign", "model/", "model/a", "model/b", "x", "y"];
    assert_eq!(names(dir.path()), expected);
}

#[test]
fn concurrent_writers_leave_the_files_of_one_of_them() {
    const WRITERS: usize = 4;
    const ROUNDS: usize = 25;
    let dir = dir();
    let root = dir.path().join("model");
    publish(&root, &["a", "b", "sub/c"], "old", Progress::default()).expect("published");
    for foreign in [false, true] {
        if foreign {
            file(&root, "foreign", b"foreign");
        }
        let together = Barrier::new(WRITERS);
        scope(|scope| {
            for writer in 0..WRITERS {
                let (root, together) = (&root, &together);
                scope.spawn(move || {
                    together.wait();
                    for round in 0..ROUNDS {
                        let content = format!("{writer} {round}");
                        let progress = Progress::default();
                        publish(root, &["a", "b", "sub/c"], &content, progress).expect("published");
                    }
                });
            }
        });
        let last: String = text(&root.join("a"))[1..].to_owned();
        for name in ["a", "b", "sub/c"] {
            assert_eq!(text(&root.join(name)), format!("{name}{last}"));
        }
        let others = names(dir.path());
        assert_eq!(others.iter().find(|name| name.contains(".lodstone")), None, "{others:?}");
        assert!(!foreign || read(&root.join("foreign")) == b"foreign");
    }
}

#[test]
fn a_removed_directory_is_an_error() {
    let parent = dir();
    let root = parent.path().join("model");
    for new in [false, true] {
        for written in [false, true] {
            if !new {
                std::fs::create_dir(&root).expect("a directory");
                file(&root, "foreign", b"foreign");
            }
            let mut commit = begin(&root);
            if written {
                commit = fill(commit, &["a", "b"], "new").expect("written");
            }
            for entry in std::fs::read_dir(parent.path()).expect("a directory") {
                std::fs::remove_dir_all(entry.expect("an entry").path()).expect("removed");
            }
            let error = match written {
                true => commit.publish().expect_err("it is gone"),
                false => fill(commit, &["a", "b"], "new").expect_err("it is gone"),
            };
            assert!(error.to_string().contains("model"), "{error}");
            assert_eq!(names(parent.path()), NONE, "{new} {written}");
        }
    }
}

#[test]
fn a_directory_that_was_moved_away_is_not_published_into() {
    let parent = dir();
    let (root, away) = (parent.path().join("model"), parent.path().join("away"));
    for replaced in [false, true] {
        std::fs::create_dir(&root).expect("a directory");
        file(&root, "foreign", b"foreign");
        let commit = fill(begin(&root), &["a", "b"], "new").expect("written");
        std::fs::rename(&root, &away).expect("moved");
        if replaced {
            std::fs::create_dir(&root).expect("a directory");
        }
        let error = commit.publish().expect_err("it is elsewhere");
        assert!(error.to_string().contains("/model`"), "{error}");
        assert!(matches!(error, Error::Changed { .. }) == replaced, "{error:?}");
        assert_eq!(names(&away), ["foreign"]);
        let _ = std::fs::remove_dir(&root);
        std::fs::remove_dir_all(&away).expect("removed");
    }
}

#[test]
fn a_link_to_a_directory_that_is_not_there_stays_one_and_gets_its_directory() {
    let dir = dir();
    symlink("real", dir.path().join("link")).expect("a link");
    let link: PathBuf = dir.path().join("link");
    publish(&link, &["a", "b"], "new", Progress::default()).expect("published");
    assert_eq!(std::fs::read_link(&link).expect("still a link"), Path::new("real"));
    assert_filled(&dir.path().join("real"), &["a", "b"], "new");
}

#[test]
fn more_files_than_are_kept_open_are_published() {
    let dir = foreign();
    let names: Vec<String> = (0..200).map(|number| format!("sub{}/{number}", number % 7)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (root, content) in [(dir.path().join("new"), "new"), (dir.path().to_path_buf(), "newer")] {
        publish(&root, &names, content, Progress::default()).expect("published");
        assert_filled(&root, &names, content);
    }
}

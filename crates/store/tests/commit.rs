//! Commits: readers of the target see either the old or the new content, and no leftovers remain.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "creates the files that are replaced, and checks the results"
)]

mod common;

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier, Mutex};

use common::{Random, dir, file, names, read};
use lodstone_store::{Blob, Commit, Derive, Error, Location, Output, Progress, Result, StepKind};

const NONE: [&str; 0] = [];

/// Publishes `bytes` as the file at `path`.
fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    fill(path, |out| out.put(bytes))
}

fn fill(path: &Path, fill: impl FnOnce(&mut Output) -> Result<()>) -> Result<()> {
    let (mut commit, name) = Commit::file(path, Progress::default())?;
    commit.write(&name, fill)?;
    commit.publish()
}

fn directory(path: &Path) -> Commit {
    Commit::directory(path, Progress::default()).expect("a commit")
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("metadata").permissions().mode() & 0o7777
}

#[test]
fn a_file_appears_when_it_is_published_and_not_before() {
    let dir = dir();
    let path = dir.path().join("model");
    let (mut commit, name) = Commit::file(&path, Progress::default()).expect("a commit");
    assert_eq!(name, "model");
    commit.write(&name, |out| out.put(b"content")).expect("write");
    assert!(!path.exists());
    let hidden = format!(".{}-", std::process::id());
    for staged in names(dir.path()) {
        assert!(staged.starts_with(&hidden) && staged.contains(".lodstone/"), "{staged}");
    }
    commit.publish().expect("publish");
    assert_eq!(names(dir.path()), ["model"]);
    assert_eq!(read(&path), b"content");
}

#[test]
fn the_old_content_stays_until_the_new_one_is_published() {
    let dir = dir();
    let path = file(dir.path(), "model", b"old");
    let (mut commit, name) = Commit::file(&path, Progress::default()).expect("a commit");
    commit.write(&name, |out| out.put(b"new")).expect("write");
    assert_eq!(read(&path), b"old");
    commit.publish().expect("publish");
    assert_eq!(read(&path), b"new");
    assert_eq!(names(dir.path()), ["model"]);
}

#[test]
fn a_commit_that_is_dropped_leaves_nothing() {
    let dir = dir();
    file(dir.path(), "model", b"old");
    let mut commit = directory(dir.path());
    for name in ["model", "new", "sub/deep/new"] {
        commit.write(name, |out| out.put(b"new")).expect("write");
    }
    drop(commit);
    assert_eq!(names(dir.path()), ["model"]);
    assert_eq!(read(&dir.path().join("model")), b"old");
}

#[test]
fn a_new_directory_that_is_dropped_leaves_nothing() {
    let dir = dir();
    let mut commit = directory(&dir.path().join("new"));
    commit.write("sub/file", |out| out.put(b"new")).expect("write");
    drop(commit);
    assert_eq!(names(dir.path()), NONE);
}

#[test]
fn a_dropped_commit_leaves_directories_that_were_there() {
    let dir = dir();
    std::fs::create_dir_all(dir.path().join("empty/below")).expect("directories");
    let mut commit = directory(dir.path());
    commit.write("empty/below/new/file", |out| out.put(b"new")).expect("write");
    drop(commit);
    assert_eq!(names(dir.path()), ["empty/", "empty/below/"]);
}

#[test]
fn a_new_directory_appears_whole() {
    let dir = dir();
    let path = dir.path().join("model");
    let mut commit = directory(&path);
    for name in ["params", "sub/one", "sub/two", "program"] {
        commit.write(name, |out| out.put(name.as_bytes())).expect("write");
        assert!(!path.exists());
    }
    commit.publish().expect("publish");
    let expected =
        ["model/", "model/params", "model/program", "model/sub/", "model/sub/one", "model/sub/two"];
    assert_eq!(names(dir.path()), expected);
    assert_eq!(read(&path.join("sub/two")), b"sub/two");
}

#[test]
fn an_existing_directory_keeps_the_files_of_others() {
    let dir = dir();
    std::fs::create_dir(dir.path().join("sub")).expect("a directory");
    for name in ["foreign", "mine", "sub/foreign"] {
        file(dir.path(), name, b"old");
    }
    let mut commit = directory(dir.path());
    for name in ["mine", "sub/mine", "other/mine"] {
        commit.write(name, |out| out.put(b"new")).expect("write");
    }
    commit.publish().expect("publish");
    let expected = ["foreign", "mine", "other/", "other/mine", "sub/", "sub/foreign", "sub/mine"];
    assert_eq!(names(dir.path()), expected);
    for name in ["foreign", "sub/foreign"] {
        assert_eq!(read(&dir.path().join(name)), b"old", "{name}");
    }
    for name in ["mine", "sub/mine", "other/mine"] {
        assert_eq!(read(&dir.path().join(name)), b"new", "{name}");
    }
}

#[test]
fn a_replaced_file_keeps_its_mode() {
    let dir = dir();
    for bits in [0o640, 0o444, 0o600, 0o755] {
        let path = file(dir.path(), &format!("{bits:o}"), b"old");
        std::fs::set_permissions(&path, Permissions::from_mode(bits)).expect("a mode");
        put(&path, b"new").expect("publish");
        assert_eq!(read(&path), b"new");
        assert_eq!(mode(&path), bits, "{bits:o}");
    }
}

#[test]
fn a_new_file_has_the_mode_of_any_new_file() {
    let dir = dir();
    let usual = file(dir.path(), "usual", b"");
    let path = dir.path().join("new");
    put(&path, b"new").expect("publish");
    assert_eq!(mode(&path), mode(&usual));
    std::fs::create_dir(dir.path().join("usual_dir")).expect("a directory");
    let new_dir = dir.path().join("new_dir");
    let mut commit = directory(&new_dir);
    commit.write("new", |out| out.put(b"new")).expect("write");
    commit.publish().expect("publish");
    assert_eq!(mode(&new_dir), mode(&dir.path().join("usual_dir")));
    assert_eq!(mode(&new_dir.join("new")), mode(&usual));
}

#[test]
fn a_symbolic_link_stays_one_and_what_it_points_to_is_replaced() {
    let dir = dir();
    std::fs::create_dir(dir.path().join("store")).expect("a directory");
    let real = file(dir.path(), "store/real", b"old");
    std::fs::set_permissions(&real, Permissions::from_mode(0o640)).expect("a mode");
    let link = dir.path().join("link");
    symlink("store/real", &link).expect("a link");
    put(&link, b"new").expect("publish");
    assert_eq!(std::fs::read_link(&link).expect("still a link"), Path::new("store/real"));
    assert_eq!((read(&real), mode(&real)), (b"new".to_vec(), 0o640));
    assert_eq!(names(dir.path()), ["link", "store/", "store/real"]);
}

#[test]
fn a_symbolic_link_to_nothing_yet_stays_one_and_gets_its_file() {
    let dir = dir();
    std::fs::create_dir(dir.path().join("store")).expect("a directory");
    symlink("store/second", dir.path().join("first")).expect("a link");
    symlink("../store/real", dir.path().join("store/second")).expect("a link");
    put(&dir.path().join("first"), b"new").expect("publish");
    assert_eq!(names(dir.path()), ["first", "store/", "store/real", "store/second"]);
    assert_eq!(read(&dir.path().join("store/real")), b"new");
    assert_eq!(read(&dir.path().join("first")), b"new");
}

#[test]
fn names_with_needless_dots_and_slashes_are_written() {
    let dir = dir();
    let mut commit = directory(dir.path());
    for name in ["./one", "sub/./two", "sub//three", "./sub/.//four"] {
        commit.write(name, |out| out.put(b"new")).expect("write");
    }
    commit.publish().expect("publish");
    assert_eq!(names(dir.path()), ["one", "sub/", "sub/four", "sub/three", "sub/two"]);
}

#[test]
fn a_link_to_a_directory_is_written_through() {
    let dir = dir();
    std::fs::create_dir(dir.path().join("real")).expect("a directory");
    symlink("real", dir.path().join("link")).expect("a link");
    let mut commit = directory(&dir.path().join("link"));
    commit.write("file", |out| out.put(b"new")).expect("write");
    commit.publish().expect("publish");
    assert_eq!(names(dir.path()), ["link", "real/", "real/file"]);
}

#[test]
fn other_hard_links_keep_the_old_content() {
    let dir = dir();
    let path = file(dir.path(), "model", b"old");
    let other = dir.path().join("other");
    std::fs::hard_link(&path, &other).expect("a link");
    put(&path, b"new").expect("publish");
    assert_eq!((read(&path), read(&other)), (b"new".to_vec(), b"old".to_vec()));
}

#[test]
fn open_and_mapped_files_keep_the_old_content() {
    let dir = dir();
    let old = vec![1; 200_000];
    let path = file(dir.path(), "model", &old);
    for mmap in [true, false] {
        let blob = Blob::open(&path, mmap).expect("a file");
        put(&path, &[2; 100]).expect("publish");
        assert!(blob.bytes().expect("bytes") == old);
        put(&path, &old).expect("publish");
    }
}

#[test]
fn a_file_can_be_rewritten_from_itself() {
    let dir = dir();
    let content = Random::new(5).bytes(3 << 20);
    let path = file(dir.path(), "model", &content);
    let blob = Blob::open(&path, true).expect("a file");
    let half = blob.len() / 2;
    let halves = [blob.slice(half, half).expect("half"), blob.slice(0, half).expect("half")];
    fill(&path, |out| out.copy(&Blob::concat(halves.to_vec()))).expect("publish");
    let (front, back) = content.split_at(content.len() / 2);
    assert!(read(&path) == [back, front].concat());
}

#[test]
fn names_that_lead_out_are_refused_and_nothing_is_written() {
    let root = dir();
    let inside = root.path().join("inside");
    std::fs::create_dir(&inside).expect("a directory");
    let absolute = root.path().join("absolute").display().to_string();
    let mut commit = directory(&inside);
    for name in [
        "../out",
        "sub/../../out",
        "sub/..",
        "..",
        "",
        "a\0b",
        "\\\\srv\\share",
        "\\out",
        "C:\\x",
        "c:/x",
        "..\\out",
        "/",
        &absolute,
    ] {
        let result = commit.write(name, |_| -> Result<()> { panic!("`{name}` was opened") });
        assert!(matches!(result, Err(Error::Escapes { .. })), "{name}: {result:?}");
    }
    commit.publish().expect("publish");
    assert_eq!(names(root.path()), ["inside/"]);
}

#[test]
fn invalid_names_are_rejected_before_anything_is_published() {
    let dir = dir();
    let path = dir.path().join("model");
    for name in [".", "./", "sub/", "sub/."] {
        let mut commit = directory(&path);
        commit.write("good", |out| out.put(b"new")).expect("write");
        let result = commit.write(name, |out| out.put(b"new"));
        assert!(result.is_err(), "`{name}`: {result:?}");
        drop(commit);
        assert_eq!(names(dir.path()), NONE, "`{name}`");
    }
}

#[test]
fn a_subdirectory_that_is_a_link_to_the_outside_is_refused() {
    let root = dir();
    for name in ["inside", "outside"] {
        std::fs::create_dir(root.path().join(name)).expect("a directory");
    }
    file(root.path(), "outside/file", b"old");
    let inside = root.path().join("inside");
    symlink("../outside", inside.join("relative")).expect("a link");
    symlink(root.path().join("outside"), inside.join("absolute")).expect("a link");
    let before = names(root.path());
    let mut commit = directory(&inside);
    for name in ["relative/file", "relative/new", "absolute/new", "relative/sub/new"] {
        let result = commit.write(name, |_| -> Result<()> { panic!("`{name}` was opened") });
        assert!(result.is_err(), "{name}");
    }
    commit.publish().expect("publish");
    assert_eq!(names(root.path()), before);
    assert_eq!(read(&root.path().join("outside/file")), b"old");
}

#[test]
fn a_file_in_a_directory_that_is_a_link_to_the_outside_leaves_the_outside() {
    let root = dir();
    let inside = root.path().join("inside");
    std::fs::create_dir(&inside).expect("a directory");
    file(root.path(), "secret", b"old");
    symlink("../secret", inside.join("file")).expect("a link");
    let mut commit = directory(&inside);
    commit.write("file", |out| out.put(b"new")).expect("write");
    commit.publish().expect("publish");
    assert_eq!(read(&root.path().join("secret")), b"old");
    assert_eq!(read(&inside.join("file")), b"new");
}

#[test]
fn a_subdirectory_that_is_a_file_is_an_error() {
    let dir = dir();
    file(dir.path(), "file", b"old");
    let mut commit = directory(dir.path());
    commit.write("file/below", |out| out.put(b"new")).expect_err("a file is no directory");
    drop(commit);
    assert_eq!(names(dir.path()), ["file"]);
    assert_eq!(read(&dir.path().join("file")), b"old");
}

#[test]
fn invalid_paths_are_errors() {
    let dir = dir();
    for path in [dir.path().to_path_buf(), dir.path().join("missing/file"), PathBuf::from("/")] {
        let result = Commit::file(&path, Progress::default());
        assert!(result.is_err(), "{}", path.display());
    }
    let missing = Commit::directory(dir.path().join("missing/new"), Progress::default());
    missing.expect_err("no parent");
    let path = file(dir.path(), "file", b"old");
    Commit::directory(&path, Progress::default()).expect_err("a file");
    assert_eq!(names(dir.path()), ["file"]);
}

#[test]
fn a_fill_that_fails_leaves_the_old_file_and_nothing_else() {
    let dir = dir();
    let path = file(dir.path(), "model", b"old");
    let error = fill(&path, |out| {
        out.put(&[1; 500_000])?;
        Err(Error::Cancelled)
    });
    assert!(matches!(error, Err(Error::Cancelled)), "{error:?}");
    assert_eq!(names(dir.path()), ["model"]);
    assert_eq!(read(&path), b"old");
}

#[test]
fn a_fill_that_panics_leaves_the_old_file_and_nothing_else() {
    let dir = dir();
    let path = file(dir.path(), "model", b"old");
    let there = path.clone();
    let result = std::thread::spawn(move || fill(&there, |_| panic!("on purpose"))).join();
    assert!(result.is_err());
    assert_eq!(names(dir.path()), ["model"]);
    assert_eq!(read(&path), b"old");
}

#[test]
fn the_error_of_a_fill_keeps_its_type() {
    #[derive(Debug)]
    enum Mine {
        Own,
        Store,
    }
    impl From<Error> for Mine {
        fn from(_: Error) -> Self {
            Self::Store
        }
    }
    let dir = dir();
    let mut commit = directory(dir.path());
    assert!(matches!(commit.write("name", |_| Err(Mine::Own)), Err(Mine::Own)));
    assert!(matches!(commit.write("..", |_| Err(Mine::Own)), Err(Mine::Store)));
}

#[test]
fn a_cancelled_commit_leaves_the_old_file() {
    let dir = dir();
    let path = file(dir.path(), "model", b"old");
    let source = Blob::open(file(dir.path(), "source", &vec![1; 3 << 20]), false).expect("a file");
    for blob in [Blob::memory(vec![1; 3 << 20]), source] {
        let progress = Progress::default();
        let (mut commit, name) = Commit::file(&path, progress.clone()).expect("a commit");
        let result = commit.write(&name, |out| {
            out.put(b"begin")?;
            progress.cancel();
            out.copy(&blob)
        });
        assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
        drop(commit);
        assert_eq!(names(dir.path()), ["model", "source"]);
        assert_eq!(read(&path), b"old");
    }
}

#[test]
fn a_commit_that_is_cancelled_after_the_last_byte_publishes_nothing() {
    let dir = dir();
    let path = file(dir.path(), "model", b"old");
    let progress = Progress::default();
    let (mut commit, name) = Commit::file(&path, progress.clone()).expect("a commit");
    commit.write(&name, |out| out.put(b"new")).expect("write");
    progress.cancel();
    let result = commit.publish();
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    assert_eq!(names(dir.path()), ["model"]);
    assert_eq!(read(&path), b"old");
}

#[test]
fn progress_counts_every_byte_once() {
    let dir = dir();
    let source = file(dir.path(), "source", &vec![1; 1_000_000]);
    let blob = Blob::open(&source, false).expect("a file");
    let progress = Progress::default();
    let mut commit = Commit::directory(dir.path(), progress.clone()).expect("a commit");
    commit
        .write("copy", |out| {
            out.put(&[0; 10])?;
            out.copy(&blob)?;
            out.copy(&Blob::memory(vec![0; 500_000]))?;
            out.copy(&blob.slice(5, 7)?)
        })
        .expect("write");
    assert_eq!(progress.done(), 10 + 1_000_000 + 500_000 + 7);
}

#[test]
fn files_are_published_in_the_order_in_which_they_were_written() {
    let dir = dir();
    file(dir.path(), "foreign", b"old");
    for order in [["a", "b", "c"], ["c", "b", "a"]] {
        let replaced = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&replaced);
        let progress = Progress::watched(move |step| {
            if step.kind == StepKind::Replace {
                seen.lock().expect("no panic").push(step.path.to_path_buf());
            }
            Ok(())
        });
        let mut commit = Commit::directory(dir.path(), progress).expect("a commit");
        for name in order {
            commit.write(name, |out| out.put(b"new")).expect("write");
        }
        commit.publish().expect("publish");
        let root = dir.path().canonicalize().expect("a directory");
        assert_eq!(*replaced.lock().expect("no panic"), order.map(|name| root.join(name)));
    }
}

#[test]
fn an_obstacle_that_appears_meanwhile_is_found_before_anything_is_published() {
    let dir = dir();
    for name in ["a", "c", "foreign"] {
        file(dir.path(), name, b"old");
    }
    let mut commit = directory(dir.path());
    for name in ["a", "b", "c"] {
        commit.write(name, |out| out.put(b"new")).expect("write");
    }
    std::fs::create_dir_all(dir.path().join("b/occupied")).expect("a directory");
    let error = commit.publish().expect_err("`b` cannot be replaced");
    assert!(error.to_string().contains("/b`, found something that is not a file"), "{error}");
    assert_eq!(names(dir.path()), ["a", "b/", "b/occupied/", "c", "foreign"]);
    assert_eq!(
        (read(&dir.path().join("a")), read(&dir.path().join("c"))),
        (b"old".to_vec(), b"old".to_vec())
    );
}

#[test]
fn an_irregular_file_is_not_replaced() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let dir = dir();
    std::fs::create_dir(dir.path().join("directory")).expect("a directory");
    let pipe = dir.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    std::os::unix::fs::symlink("pipe", dir.path().join("to-pipe")).expect("a link");
    std::os::unix::fs::symlink("loop", dir.path().join("loop")).expect("a link");
    for name in ["directory", "pipe", "to-pipe", "loop"] {
        let error = Commit::file(dir.path().join(name), Progress::default()).expect_err("no file");
        assert!(error.to_string().contains("expected a regular file"), "{name}: {error}");
    }
    for name in ["directory", "pipe"] {
        let mut commit = directory(dir.path());
        commit.write("before", |out| out.put(b"new")).expect("write");
        commit.write(name, |out| out.put(b"new")).expect_err("no file");
        drop(commit);
        assert_eq!(names(dir.path()), ["directory/", "loop", "pipe", "to-pipe"]);
    }
}

#[test]
fn one_file_is_not_written_twice_under_two_spellings() {
    let dir = dir();
    for (first, second) in [("a", "a"), ("a", "./a"), ("b/c", "b//c"), ("b/./c", "b/c")] {
        let mut commit = directory(dir.path());
        commit.write(first, |out| out.put(b"one")).expect("write");
        let error = commit.write(second, |out| out.put(b"two")).expect_err("twice");
        assert!(error.to_string().starts_with("two files have the same path"), "{error}");
    }
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_directory_that_appears_meanwhile_is_not_replaced() {
    let dir = dir();
    let path = dir.path().join("model");
    let mut commit = directory(&path);
    commit.write("file", |out| out.put(b"new")).expect("write");
    std::fs::create_dir(&path).expect("a directory");
    file(&path, "file", b"theirs");
    commit.publish().expect_err("there is something");
    assert_eq!(names(dir.path()), ["model/", "model/file"]);
    assert_eq!(read(&path.join("file")), b"theirs");
}

#[test]
fn leftovers_of_a_killed_process_are_removed_by_the_next_commit() {
    let dir = dir();
    // In containers, the process ID is often the same.
    let left = |name: &str, count| format!(".{name}{}-{count}.lodstone", std::process::id());
    for count in 0..100 {
        for name in ["", "new."] {
            let name = left(name, count);
            std::fs::create_dir_all(dir.path().join(&name).join("sub")).expect("a directory");
            file(dir.path(), &format!("{name}/sub/file"), b"left");
        }
    }
    symlink("file", dir.path().join(left("", 0)).join("link")).expect("a link");
    symlink("..", dir.path().join(left("", 0)).join("sub/link")).expect("a link");
    put(&dir.path().join("file"), b"new").expect("publish");
    assert_eq!(names(dir.path()), ["file"]);
    std::fs::create_dir(dir.path().join(left("new.", 5000))).expect("a directory");
    std::fs::create_dir(dir.path().join(left("other.", 5000))).expect("a directory");
    let mut commit = directory(&dir.path().join("new"));
    commit.write("file", |out| out.put(b"new")).expect("write");
    commit.publish().expect("publish");
    let other = format!("{}/", left("other.", 5000));
    assert_eq!(names(dir.path()), [other.as_str(), "file", "new/", "new/file"]);
}

#[test]
fn concurrent_commits_to_one_file_leave_one_of_the_contents_whole() {
    let dir = dir();
    let path = dir.path().join("model");
    let contents: Vec<Vec<u8>> = (1..=4).map(|byte| vec![byte; 700_000]).collect();
    for _ in 0..10 {
        let together = Arc::new(Barrier::new(contents.len()));
        let threads: Vec<_> = contents
            .iter()
            .map(|content| {
                let (path, content, together) = (path.clone(), content.clone(), together.clone());
                std::thread::spawn(move || {
                    fill(&path, |out| {
                        together.wait();
                        content.chunks(10_000).try_for_each(|chunk| out.put(chunk))
                    })
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic").expect("publish");
        }
        let found = read(&path);
        assert!(contents.contains(&found), "{} bytes, from {:?}", found.len(), found.first());
        assert_eq!(names(dir.path()), ["model"]);
    }
}

#[test]
fn long_names_are_published_too() {
    let dir = dir();
    for name in ["x".repeat(255), "猫".repeat(85)] {
        put(&dir.path().join(&name), b"new").expect("publish");
        assert_eq!(names(dir.path()), [name.as_str()]);
        std::fs::remove_file(dir.path().join(name)).expect("remove");
    }
}

/// Bytes that cannot be copied inside the kernel.
struct Computed(u64);

impl Derive for Computed {
    fn len(&self) -> u64 {
        self.0
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        for (byte, at) in buffer.iter_mut().zip(offset..) {
            *byte = (at % 251).to_le_bytes()[0];
        }
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        None
    }
}

#[test]
fn output_copies_every_kind_of_blob_and_tracks_its_position() {
    let dir = dir();
    let mut random = Random::new(6);
    let content = random.bytes(5 << 20);
    let source = file(dir.path(), "source", &content);
    for mmap in [true, false] {
        let blob = Blob::open(&source, mmap).expect("a file");
        let large = blob.slice(12_345, 4 << 20).expect("a slice");
        let small = blob.slice(77, 99).expect("a slice");
        let memory = Blob::memory(content[..300_000].to_vec());
        let computed = Blob::derived(Arc::new(Computed(2_000_003)));
        let joined = Blob::concat(vec![
            small.clone(),
            large.clone(),
            Blob::concat(vec![memory.clone(), small.clone()]),
        ]);
        let mut expected = Vec::new();
        let path = dir.path().join("copy");
        fill(&path, |out| {
            for piece in [&small, &large, &memory, &computed, &joined, &Blob::memory(vec![])] {
                // Buffered bytes before and after must stay in order.
                out.put(b"head")?;
                out.copy(piece)?;
                out.put(b"tail")?;
                expected.extend(b"head");
                expected.extend(piece.bytes()?);
                expected.extend(b"tail");
                assert_eq!(out.position(), expected.len() as u64);
            }
            Ok(())
        })
        .expect("publish");
        assert!(read(&path) == expected, "mmap: {mmap}");
    }
}

#[test]
fn output_copies_from_beyond_4_gib() {
    let dir = dir();
    let path = dir.path().join("sparse");
    std::fs::File::create(&path).expect("a file").set_len(5 << 30).expect("a sparse file");
    let far = Blob::open(&path, false).expect("a file").slice((4 << 30) + 1, 300_000);
    let copy = dir.path().join("copy");
    fill(&copy, |out| out.copy(&far?)).expect("publish");
    assert!(read(&copy) == vec![0; 300_000]);
}

#[test]
fn output_takes_pieces_of_any_size() {
    let dir = dir();
    let mut random = Random::new(7);
    let content = random.bytes(3 << 20);
    let path = dir.path().join("pieces");
    let edges = [0, 1, 262_143, 262_144, 262_145];
    fill(&path, |out| {
        let mut rest = content.as_slice();
        let mut sizes = edges.into_iter().chain(std::iter::repeat_with(|| {
            usize::try_from(random.below(400_000)).expect("small")
        }));
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
            out.put(piece)?;
            rest = later;
        }
        Ok(())
    })
    .expect("publish");
    assert!(read(&path) == content);
}

#[test]
fn output_is_a_writer() {
    use std::io::Write;
    let dir = dir();
    let path = dir.path().join("written");
    fill(&path, |out| {
        write!(out, "{}-{}", 1, 2).and_then(|()| out.flush()).map_err(Error::io("write", "it"))
    })
    .expect("publish");
    assert_eq!(read(&path), b"1-2");
}

#[test]
fn output_patches_written_bytes_and_continues_at_the_end() {
    let dir = dir();
    let path = dir.path().join("patched");
    let mut expected = vec![0; 600_000];
    fill(&path, |out| {
        out.put(&vec![0; 600_000])?;
        out.put(b"still in the buffer")?;
        out.patch(0, b"first")?;
        out.patch(262_140, b"over the edge")?;
        out.patch(600_006, b"IN")?;
        out.patch(600_019, b"")?;
        assert_eq!(out.position(), 600_019);
        out.put(b" end")
    })
    .expect("publish");
    expected.extend(b"still IN the buffer end");
    expected[..5].copy_from_slice(b"first");
    expected[262_140..262_153].copy_from_slice(b"over the edge");
    assert!(read(&path) == expected);
}

#[test]
fn output_does_not_patch_unwritten_bytes() {
    let dir = dir();
    let path = dir.path().join("patched");
    fill(&path, |out| {
        out.put(b"0123456789")?;
        for (offset, bytes) in [(10, &b"x"[..]), (9, b"xx"), (11, b""), (u64::MAX, b"x")] {
            let error = out.patch(offset, bytes).expect_err("not written yet");
            assert!(matches!(error, Error::OutOfRange { len: 10, .. }), "{error:?}");
        }
        Ok(())
    })
    .expect("publish");
    assert_eq!(read(&path), b"0123456789");
}

#[test]
fn a_source_that_shrinks_while_it_is_copied_publishes_nothing() {
    let dir = dir();
    for size in [100_000, 3 << 20] {
        let source = file(dir.path(), "source", &vec![1; size]);
        let blob = Blob::open(&source, true).expect("a file");
        file(dir.path(), "source", &[1; 1000]);
        let error = fill(&dir.path().join("copy"), |out| out.copy(&blob)).expect_err("it shrank");
        assert!(matches!(error, Error::Changed { .. }), "{error:?}");
        assert_eq!(names(dir.path()), ["source"]);
    }
}

#[test]
fn a_published_file_is_another_file_than_the_one_it_replaces() {
    let dir = dir();
    let path = file(dir.path(), "model", b"old");
    let inode = |path: &Path| std::fs::metadata(path).expect("metadata").ino();
    let before = inode(&path);
    let _keep = std::fs::hard_link(&path, dir.path().join("keep"));
    put(&path, b"new").expect("publish");
    assert_ne!(inode(&path), before);
}

#[test]
fn relative_paths_start_in_the_working_directory() {
    let dir = tempfile::tempdir_in(".").expect("a directory here");
    let relative = PathBuf::from(dir.path().file_name().expect("a name"));
    put(&relative.join("file"), b"new").expect("publish");
    let absolute = dir.path().canonicalize().expect("a directory");
    assert_eq!(read(&absolute.join("file")), b"new");
}

/// Writes a file into the staged directory of a commit, as another process does.
fn contribute(staged: &Location, name: &str, bytes: &[u8]) {
    let mut other = Commit::join(staged, Progress::default()).unwrap();
    other.write::<Error>(name, |out| out.put(bytes)).unwrap();
    other.publish().unwrap();
}

#[test]
fn files_of_another_process_are_published_with_those_of_the_commit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("step");
    let mut commit = Commit::directory(&path, Progress::default()).unwrap();
    let staged = commit.staged("").unwrap();
    contribute(&staged, "a", b"one");
    contribute(&staged, "below/b", b"two");
    assert!(!path.exists());
    assert_eq!(commit.adopt("a").unwrap(), 3);
    assert_eq!(commit.adopt("below/b").unwrap(), 3);
    commit.write::<Error>("index", |out| out.put(b"a below/b")).unwrap();
    commit.publish().unwrap();
    for (name, bytes) in [("a", "one"), ("below/b", "two"), ("index", "a below/b")] {
        assert_eq!(std::fs::read_to_string(path.join(name)).unwrap(), bytes);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn files_of_another_process_are_removed_with_the_commit() {
    let dir = tempfile::tempdir().unwrap();
    let commit = Commit::directory(dir.path().join("step"), Progress::default()).unwrap();
    let staged = commit.staged("").unwrap();
    contribute(&staged, "a", b"one");
    drop(commit);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    Commit::join(&staged, Progress::default()).unwrap_err();
}

#[test]
fn only_files_in_a_directory_in_progress_are_adopted() {
    let dir = tempfile::tempdir().unwrap();
    let mut commit = Commit::directory(dir.path().join("step"), Progress::default()).unwrap();
    let staged = commit.staged("").unwrap();
    contribute(&staged, "a", b"one");
    std::fs::write(dir.path().join("outside"), b"secret").unwrap();
    std::os::unix::fs::symlink(dir.path().join("outside"), staged.path().join("link")).unwrap();
    std::fs::create_dir(staged.path().join("folder")).unwrap();
    for name in ["missing", "link", "folder", "../outside", "/etc/passwd", "", "lodstone.seal"] {
        commit.adopt(name).expect_err(name);
    }
    commit.adopt("a").unwrap();
    assert!(matches!(commit.adopt("./a"), Err(Error::Twice { .. })));
    let other = Commit::join(dir.path(), Progress::default()).unwrap_err().to_string();
    assert!(other.contains("no directory of files in progress"), "{other}");
    // Two processes do not write the same file.
    let mut twice = Commit::join(&staged, Progress::default()).unwrap();
    twice.write::<Error>("a", |out| out.put(b"two")).unwrap_err();
}

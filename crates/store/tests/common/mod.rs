//! Code shared by the tests of this crate.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use lodstone_store::{
    Commit, Entry, Error, Location, Output, Progress, Recovery, Result, SEAL, StepKind,
};

/// Creates a temporary directory.
pub(crate) fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// Writes a file and returns its path.
pub(crate) fn file(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, bytes).expect("a file");
    path
}

/// Returns the sorted names in a directory and below it; directories end in a slash.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("UTF-8");
        if entry.file_type().expect("a type").is_dir() {
            names.extend(self::names(&entry.path()).iter().map(|inner| format!("{name}/{inner}")));
            names.push(format!("{name}/"));
        } else {
            names.push(name);
        }
    }
    names.sort();
    names
}

/// Finishes an interrupted write into the directory at a path.
pub(crate) fn recover(path: impl AsRef<Path>) -> Result<Recovery> {
    Location::from(path).recover()
}

/// Returns the entries of the directory at a path.
pub(crate) fn list_dir(path: impl AsRef<Path>) -> Result<Vec<Entry>> {
    Location::from(path).list()
}

/// Returns the content of a file.
pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("a readable file")
}

/// Creates a named pipe without a writer, which blocks readers that open it without `O_NONBLOCK`.
pub(crate) fn pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
}

/// Returns the result of `work`; fails the test on a timeout.
pub(crate) fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    result.recv_timeout(Duration::from_secs(20)).expect("an answer in time")
}

/// A reproducible sequence of pseudorandom numbers (xorshift64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.checked_rem(bound).unwrap_or(0)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256).to_le_bytes()[0]).collect()
    }
}

/// Writes each name with its own name and `content` in it.
pub(crate) fn fill(mut commit: Commit, names: &[&str], content: &str) -> Result<Commit> {
    for name in names {
        let text = |out: &mut Output| out.put(format!("{name} {content}").as_bytes());
        match *name == SEAL {
            true => commit.write_seal::<Error>(text)?,
            false => commit.write::<Error>(name, text)?,
        }
    }
    Ok(commit)
}

pub(crate) fn begin(path: &Path) -> Commit {
    Commit::directory(path, Progress::default()).expect("a commit")
}

pub(crate) fn publish(
    path: &Path,
    names: &[&str],
    content: &str,
    progress: Progress,
) -> Result<()> {
    fill(Commit::directory(path, progress)?, names, content)?.publish()
}

pub(crate) fn text(path: &Path) -> String {
    String::from_utf8(read(path)).expect("UTF-8")
}

pub(crate) fn assert_filled(root: &Path, names: &[&str], content: &str) {
    for name in names {
        assert_eq!(text(&root.join(name)), format!("{name} {content}"));
    }
}

/// Creates a directory with an unrelated file.
pub(crate) fn foreign() -> tempfile::TempDir {
    let dir = dir();
    file(dir.path(), "foreign", b"foreign");
    dir
}

/// Fails every step of the given kind.
pub(crate) fn failing_in(kind: StepKind) -> Progress {
    Progress::watched(move |step| match step.kind == kind {
        true => Err(Error::io("test", step.path)(std::io::ErrorKind::Other.into())),
        false => Ok(()),
    })
}

/// Creates a directory with a redo log of `names`, none of which is at its target.
pub(crate) fn interrupt(root: &Path, names: &[&str], content: &str) {
    let error =
        publish(root, names, content, failing_in(StepKind::Replace)).expect_err("interrupted");
    assert!(matches!(error, Error::Unfinished { .. }), "{error:?}");
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

pub(crate) fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("metadata").mode() & 0o7777
}

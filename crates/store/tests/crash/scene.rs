//! The directories to be overwritten, and what must hold whatever happens to the writer.

use std::fs::Permissions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use lodstone_store::{Commit, Dir, Error, Links, Output, Progress, Result, SourceFile};

use crate::common::{dir, file, names, read, recover};

/// A method of publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One file, through a symlink, beside other files.
    File,
    /// A directory that does not exist.
    New,
    /// A directory without other contents.
    Whole,
    /// Several files into a directory with other contents, through a symlink.
    Several,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::File, Self::New, Self::Whole, Self::Several];

    /// Returns the files to be written, in order, and their shares of the bytes.
    pub(crate) fn parts(self) -> &'static [(&'static str, usize)] {
        match self {
            Self::File => &[("file", 8)],
            _ => &[("params", 6), ("sub/more", 1), ("program", 1)],
        }
    }

    /// Returns steps that a write must include.
    pub(crate) fn steps(self) -> &'static [&'static str] {
        match self {
            Self::File => {
                &["Stage", "Create", "Write", "Sync", "Replace", "SyncDirectory", "Remove"]
            }
            Self::New => {
                &["Stage", "MakeDirectory", "Create", "Write", "Sync", "Appear", "SyncDirectory"]
            }
            Self::Whole => &[
                "Stage",
                "MakeDirectory",
                "Create",
                "Write",
                "Sync",
                "SyncDirectory",
                "Move",
                "Exchange",
                "Remove",
            ],
            Self::Several => &[
                "Stage",
                "MakeDirectory",
                "Create",
                "Write",
                "Sync",
                "SyncDirectory",
                "Pend",
                "Replace",
                "Remove",
            ],
        }
    }
}

/// Writes the content of `seed`, of `size` bytes, below `root`.
pub(crate) fn write(
    kind: Kind,
    root: &Path,
    seed: u64,
    size: usize,
    progress: Progress,
) -> Result<()> {
    let mut commit = match kind {
        Kind::File => Commit::file(root.join("link"), progress)?.0,
        Kind::Several => Commit::directory(root.join("link"), progress)?,
        Kind::New | Kind::Whole => Commit::directory(root.join("model"), progress)?,
    };
    for (number, (name, share)) in (0..).zip(kind.parts()) {
        commit.write(name, |out| put(out, seed + number, size / 8 * share))?;
    }
    commit.publish()
}

const CHUNK: usize = 256 << 10;

fn put(out: &mut Output, seed: u64, len: usize) -> Result<()> {
    let mut chunk = vec![0; CHUNK];
    for start in (0..len).step_by(CHUNK) {
        let chunk = &mut chunk[..CHUNK.min(len - start)];
        content(seed, start, chunk);
        out.put(chunk)?;
    }
    Ok(())
}

/// Fills `chunk` with words that encode the content and the position.
fn content(seed: u64, start: usize, chunk: &mut [u8]) {
    let (words, rest) = chunk.as_chunks_mut::<8>();
    assert!(rest.is_empty(), "whole words");
    for (number, word) in ((start / 8) as u64..).zip(words) {
        *word = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number).to_le_bytes();
    }
}

/// Returns whether a file has exactly the content of `seed`.
fn has(path: &Path, seed: u64, len: usize) -> bool {
    let mut file = std::fs::File::open(path).expect("a file");
    let (mut expected, mut found) = (vec![0; CHUNK], vec![0; CHUNK]);
    if file.metadata().expect("metadata").len() != len as u64 {
        return false;
    }
    (0..len).step_by(CHUNK).all(|start| {
        let size = CHUNK.min(len - start);
        content(seed, start, &mut expected[..size]);
        file.read_exact(&mut found[..size]).expect("as long as it says");
        expected[..size] == found[..size]
    })
}

/// The state of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Old,
    New,
    /// Some files are old and some new, each complete.
    Mix,
}

/// A directory with the content of `seed`.
pub(crate) struct Scene {
    directory: tempfile::TempDir,
    pub(crate) kind: Kind,
    pub(crate) size: usize,
    /// The current content.
    pub(crate) seed: u64,
    /// The content of the hard link.
    linked: u64,
}

/// The distance of seeds, so that no two files have the same content.
pub(crate) const NEXT: u64 = 16;

impl Scene {
    pub(crate) fn new(kind: Kind, size: usize) -> Self {
        let directory = dir();
        let scene = Self { directory, kind, size, seed: NEXT, linked: NEXT };
        if kind == Kind::New {
            return scene;
        }
        let model = scene.model();
        std::fs::create_dir_all(model.join("sub")).expect("directories");
        set_mode(&model, 0o750);
        match kind {
            Kind::File => symlink("model/file", scene.root().join("link")).expect("a link"),
            _ => symlink("model", scene.root().join("link")).expect("a link"),
        }
        if kind != Kind::Whole {
            file(&model, "foreign", b"foreign");
            file(&model, "sub/foreign", b"foreign");
        }
        for (number, (name, share)) in (0..).zip(kind.parts()) {
            let mut bytes = vec![0; size / 8 * share];
            content(scene.seed + number, 0, &mut bytes);
            set_mode(&file(&model, name, &bytes), 0o640);
        }
        scene.link();
        scene
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn model(&self) -> PathBuf {
        self.root().join("model")
    }

    /// Returns the seed of the next content.
    pub(crate) fn next(&self) -> u64 {
        self.seed + NEXT
    }

    /// Prepares a write: adds a hard link to one of the files.
    pub(crate) fn prepare(&mut self) {
        if self.kind == Kind::New {
            let _ = std::fs::remove_dir_all(self.model());
            return;
        }
        let _ = std::fs::remove_file(self.root().join("other"));
        self.linked = self.seed;
        self.link();
    }

    fn link(&self) {
        let (name, _) = self.kind.parts()[0];
        let other = self.root().join("other");
        std::fs::hard_link(self.model().join(name), other).expect("a hard link");
    }

    /// Reads the files directly: each is entirely old or entirely new.
    pub(crate) fn look(&self) -> State {
        if self.kind == Kind::New && !self.model().exists() {
            return State::Old;
        }
        let mut found = Vec::new();
        for (number, (name, share)) in (0..).zip(self.kind.parts()) {
            let (path, len) = (self.model().join(name), self.size / 8 * share);
            found.push(match has(&path, self.next() + number, len) {
                true => State::New,
                false if has(&path, self.seed + number, len) => State::Old,
                false => panic!("{:?}: `{}` is torn", self.kind, path.display()),
            });
        }
        let first = found[0];
        if found.iter().all(|state| *state == first) { first } else { State::Mix }
    }

    /// Returns whether all files have the content of `seed`.
    pub(crate) fn is_all(&self, seed: u64) -> bool {
        let is = |(number, (name, share)): (u64, &(&str, usize))| {
            has(&self.model().join(name), seed + number, self.size / 8 * share)
        };
        (0..).zip(self.kind.parts()).all(is)
    }

    /// Returns how many files cannot be opened because a write must be finished first.
    pub(crate) fn refused(&self) -> usize {
        if !self.model().exists() {
            return 0;
        }
        let dir = Dir::open(self.model(), Links::Confined, false).expect("a directory");
        let is_refused = |name: &str| {
            let by_dir = match dir.open_file(name) {
                Err(Error::Interrupted { .. }) => true,
                opened => opened.expect("a file").is_none(),
            };
            let by_path = match SourceFile::open(self.model().join(name), false) {
                Err(Error::Interrupted { .. }) => true,
                opened => opened.map(|_| false).expect("a file"),
            };
            // By path, only redo logs beside the file apply.
            assert!(by_dir == by_path || (by_dir && name.contains('/')), "{name}");
            by_dir
        };
        self.kind.parts().iter().filter(|(name, _)| is_refused(name)).count()
    }

    /// Checks that unrelated files are unchanged.
    pub(crate) fn check_surroundings(&self) {
        let (root, model, kind) = (self.root(), self.model(), self.kind);
        if kind == Kind::New {
            return;
        }
        let link = std::fs::read_link(root.join("link")).expect("still a link");
        assert_eq!(link, Path::new(if kind == Kind::File { "model/file" } else { "model" }));
        let len = self.size / 8 * kind.parts()[0].1;
        assert!(has(&root.join("other"), self.linked, len), "the hard link has changed");
        for (name, _) in kind.parts() {
            assert_eq!(mode(&model.join(name)), 0o640, "{kind:?}: {name}");
        }
        assert_eq!(mode(&model), 0o750, "{kind:?}");
        if kind != Kind::Whole {
            assert_eq!(read(&model.join("foreign")), b"foreign");
            assert_eq!(read(&model.join("sub/foreign")), b"foreign");
            SourceFile::open(model.join("foreign"), false).expect("nothing to do with the write");
        }
    }

    /// Returns the leftovers.
    pub(crate) fn left_over(&self) -> Vec<String> {
        let mut names = names(self.root());
        names.retain(|name| name.contains(".lodstone"));
        names
    }

    /// Lets the next operation clean up: a write, or a call of `recover`.
    pub(crate) fn put_right(&mut self, by_writing: bool) {
        if by_writing {
            self.seed += NEXT;
            write(self.kind, self.root(), self.next(), self.size, Progress::default())
                .expect("the next write");
            assert_eq!(self.look(), State::New);
        } else {
            recover(self.root()).expect("recovered");
            if self.model().exists() {
                recover(self.model()).expect("recovered");
            }
            assert_ne!(self.look(), State::Mix);
        }
        assert_eq!(self.refused(), 0);
        assert_eq!(self.left_over(), [""; 0]);
        self.check_surroundings();
        if self.look() == State::New {
            self.seed += NEXT;
        }
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("metadata").mode() & 0o7777
}

//! The one way to publish.
//!
//! 1. Every file is written beside its target under a hidden name of its own (`O_EXCL`), takes
//!    over the mode of the file it will replace, and is fsynced.
//! 2. Nothing is visible until all of them are written: an error, a cancel or a drop removes them
//!    and the directories that were made for them.
//! 3. They are renamed over their targets in the order in which they were written (parameters
//!    first, the program that refers to them last), and their directories are fsynced.
//!
//! A directory that does not exist yet is written under a hidden name and renamed once, so it
//! appears whole. In a directory that exists, each file is replaced atomically.
//! A path that the caller gives may be a symbolic link and keeps being one: what it points to is
//! replaced. Links inside a directory that is written to are replaced by files: they could lead
//! anywhere. Other hard links to a replaced file keep the old content.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::path::Component::CurDir;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{Dir as CapDir, OpenOptions};

use crate::file::kind_of;
use crate::{Error, Output, Progress, Result, check_relative};

/// Files being written, not visible before [`Commit::publish`].
#[derive(Debug)]
pub struct Commit {
    /// The directory that is written to now.
    root: PathBuf,
    dir: CapDir,
    /// Where `root` is renamed to at the end, if the directory is new.
    new_root: Option<PathBuf>,
    staged: Vec<Staged>,
    /// The targets of what is staged.
    names: HashSet<PathBuf>,
    /// Subdirectories that were not there before, outer ones first.
    made: Vec<PathBuf>,
    progress: Progress,
}

#[derive(Debug)]
struct Staged {
    hidden: PathBuf,
    target: PathBuf,
}

impl Commit {
    /// Publishes into the directory `root`, which may not exist yet.
    ///
    /// # Errors
    /// If neither it nor its parent can be opened.
    pub fn directory(root: &Path, progress: Progress) -> Result<Self> {
        if let Ok(existing) = root.canonicalize() {
            return Self::begin(existing, None, progress);
        }
        let name = root.file_name().map(OsString::from).unwrap_or_default();
        let parent = parent_of(root).canonicalize().map_err(Error::io("open", parent_of(root)))?;
        let target = parent.join(&name);
        let hidden = claim(&target, |hidden| std::fs::create_dir(hidden).map(|()| hidden.into()))
            .map_err(Error::io("create the directory", &target))?;
        Self::begin(hidden, Some(target), progress)
    }

    /// Publishes into the directory `root`, which has to exist.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn existing(root: &Path, progress: Progress) -> Result<Self> {
        let root = root.canonicalize().map_err(Error::io("open the directory", root))?;
        Self::begin(root, None, progress)
    }

    /// Publishes one file; gives the commit and the name to [`write`](Self::write) it under.
    ///
    /// # Errors
    /// If its directory cannot be opened or the path names no file.
    pub fn file(path: &Path, progress: Progress) -> Result<(Self, String)> {
        let path = follow(path);
        let refuse = |found| Error::NotAFile { path: path.clone(), found };
        if let Ok(there) = std::fs::symlink_metadata(&path)
            && !there.is_file()
        {
            return Err(refuse(kind_of(&there)));
        }
        let name = path.file_name().ok_or_else(|| refuse("a directory"))?.to_str();
        let name = name.ok_or_else(|| refuse("a name that is not UTF-8"))?;
        let parent = parent_of(&path);
        let root = parent.canonicalize().map_err(Error::io("open the directory", parent))?;
        Ok((Self::begin(root, None, progress)?, name.to_owned()))
    }

    fn begin(root: PathBuf, new_root: Option<PathBuf>, progress: Progress) -> Result<Self> {
        let dir = CapDir::open_ambient_dir(&root, cap_std::ambient_authority())
            .map_err(Error::io("open the directory", &root))?;
        let (staged, names, made) = Default::default();
        Ok(Self { root, dir, new_root, staged, names, made, progress })
    }

    /// Writes the file `name` (relative; subdirectories are made) with `fill`, and fsyncs it.
    ///
    /// # Errors
    /// If the name leads out of the directory, the system fails, or `fill` fails.
    pub fn write<E: From<Error>>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut Output) -> Result<(), E>,
    ) -> Result<(), E> {
        check_relative(name)?;
        // Without `.` and doubled slashes, so that one file has one name.
        let target: PathBuf = Path::new(name).components().filter(|part| *part != CurDir).collect();
        let path = self.root.join(&target);
        if !self.names.insert(target.clone()) {
            return Err(Error::Twice { path }.into());
        }
        if matches!(name.rsplit('/').next(), Some("" | ".")) {
            return Err(Error::NotAFile { path, found: "the name of a directory" }.into());
        }
        // A directory or device would fail only when the other files are published already.
        if let Ok(there) = self.dir.symlink_metadata(&target)
            && !there.is_file()
            && !there.is_symlink()
        {
            let found = "something that is not a file";
            return Err(Error::NotAFile { path, found }.into());
        }
        self.make_parents(&target)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let create = |hidden: &Path| Ok((self.dir.open_with(hidden, &options)?, hidden.into()));
        let (file, hidden) = claim(&target, create).map_err(Error::io("create", &path))?;
        let file = file.into_std();
        self.staged.push(Staged { hidden, target });
        self.keep_mode(&file, name)?;
        let mut output = Output::new(file, path, self.progress.clone());
        fill(&mut output)?;
        Ok(output.finish()?)
    }

    /// Makes everything that was written visible.
    ///
    /// # Errors
    /// If the work was cancelled, or a rename or an fsync fails; files renamed before that stay,
    /// each whole.
    pub fn publish(mut self) -> Result<()> {
        self.progress.advance(0)?;
        let mut directories = BTreeSet::from([self.root.clone()]);
        for Staged { hidden, target } in &self.staged {
            let path = self.root.join(target);
            self.dir.rename(hidden, &self.dir, target).map_err(Error::io("publish", &path))?;
            let ancestors = path.ancestors().skip(1).take_while(|a| a.starts_with(&self.root));
            directories.extend(ancestors.map(Path::to_path_buf));
        }
        directories.iter().try_for_each(|directory| sync_dir(directory))?;
        let new_root = self.new_root.clone();
        if let Some(new_root) = &new_root {
            std::fs::rename(&self.root, new_root).map_err(Error::io("publish", new_root))?;
        }
        // What is published is not dropped.
        (self.staged, self.made, self.new_root) = Default::default();
        new_root.map_or(Ok(()), |new_root| sync_dir(parent_of(&new_root)))
    }

    /// Makes the directories above `target`, and remembers those that were not there.
    fn make_parents(&mut self, target: &Path) -> Result<()> {
        let mut parents: Vec<_> = target.ancestors().skip(1).collect();
        // The last one is the directory itself, without a name.
        parents.pop();
        for parent in parents.into_iter().rev() {
            match self.dir.create_dir(parent) {
                Ok(()) => self.made.push(parent.to_path_buf()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(Error::io("create the directory", self.root.join(parent))(error));
                }
            }
        }
        Ok(())
    }

    fn keep_mode(&self, file: &File, name: &str) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let Ok(old) = self.dir.metadata(name) else { return Ok(()) };
        let mode = cap_std::fs::PermissionsExt::mode(&old.permissions());
        file.set_permissions(Permissions::from_mode(mode))
            .map_err(Error::io("set the mode of", self.root.join(name)))
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        for staged in &self.staged {
            let _ = self.dir.remove_file(&staged.hidden);
        }
        // Fails for those that hold something by now.
        for made in self.made.iter().rev() {
            let _ = self.dir.remove_dir(made);
        }
        if self.new_root.is_some() {
            let _ = std::fs::remove_dir_all(&self.root);
        }
    }
}

fn sync_dir(path: &Path) -> Result<()> {
    let directory = File::open(path).map_err(Error::io("open the directory", path))?;
    directory.sync_all().map_err(Error::io("sync the directory", path))
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// Where the symbolic links at `path` end, so that they stay links; there may be nothing yet.
fn follow(path: &Path) -> PathBuf {
    /// As many as Linux follows.
    const LINKS: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..LINKS {
        let Ok(link) = std::fs::read_link(&path) else { break };
        path = parent_of(&path).join(link);
    }
    path
}

/// Makes something under a hidden name beside `target`. A name may be taken: processes that were
/// killed leave theirs behind, and in a container all of them have the same number.
fn claim<T>(target: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    let name = target.file_name().unwrap_or_default();
    loop {
        match make(&target.with_file_name(hidden_name(name))) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
    }
}

/// Whether a file is one that is being written, or that a killed process left behind.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".lodstone")
}

/// `.NAME.PROCESS-COUNT.lodstone`: hidden, unique to this process, recognisable.
fn hidden_name(name: &OsStr) -> OsString {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // File names are limited to 255 bytes; what matters of a long one is at its start.
    let stem: String = name.to_string_lossy().chars().take(50).collect();
    format!(".{stem}.{}-{count}.lodstone", std::process::id()).into()
}

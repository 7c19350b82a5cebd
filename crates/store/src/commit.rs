//! The one way to publish.
//!
//! 1. Every file is written beside its target under a hidden name of its own (`O_EXCL`), takes
//!    over the mode of the file it will replace, and is fsynced.
//! 2. Nothing is visible until all of them are written: an error, a cancel or a drop removes them.
//! 3. They are renamed over their targets in the order in which they were written (parameters
//!    first, the program that refers to them last), and their directories are fsynced.
//!
//! A directory that does not exist yet is written under a hidden name and renamed once, so it
//! appears whole. In a directory that exists, each file is replaced atomically.
//! A target that is a symbolic link keeps being one: the file it points to is replaced. Other
//! hard links to a replaced file keep the old content.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{Dir as CapDir, OpenOptions};

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
        let hidden = parent.join(hidden_name(&name));
        std::fs::create_dir(&hidden).map_err(Error::io("create the directory", &hidden))?;
        Self::begin(hidden, Some(parent.join(name)), progress)
    }

    /// Publishes one file; gives the commit and the name to [`write`](Self::write) it under.
    ///
    /// # Errors
    /// If its directory cannot be opened or the path names no file.
    pub fn file(path: &Path, progress: Progress) -> Result<(Self, String)> {
        // A symbolic link is followed, so that it stays one.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.filter(|_| !path.is_dir()).ok_or_else(|| Error::NotAFile {
            path: path.clone(),
            found: "a directory or a name that is not UTF-8",
        })?;
        let parent = parent_of(&path);
        let root = parent.canonicalize().map_err(Error::io("open the directory", parent))?;
        Ok((Self::begin(root, None, progress)?, name.to_owned()))
    }

    fn begin(root: PathBuf, new_root: Option<PathBuf>, progress: Progress) -> Result<Self> {
        let dir = CapDir::open_ambient_dir(&root, cap_std::ambient_authority())
            .map_err(Error::io("open the directory", &root))?;
        Ok(Self { root, dir, new_root, staged: Vec::new(), progress })
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
        let target = PathBuf::from(name);
        let hidden = self.hide(&target)?;
        let path = self.root.join(&hidden);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let file = self.dir.open_with(&hidden, &options).map_err(Error::io("create", &path))?;
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
    /// If a rename or an fsync fails; files renamed before that stay, each whole.
    pub fn publish(mut self) -> Result<()> {
        let mut directories = BTreeSet::from([self.root.clone()]);
        for Staged { hidden, target } in std::mem::take(&mut self.staged) {
            let path = self.root.join(&target);
            if let Err(error) = self.dir.rename(&hidden, &self.dir, &target) {
                let _ = self.dir.remove_file(&hidden);
                return Err(Error::io("publish", path)(error));
            }
            let ancestors = path.ancestors().skip(1).take_while(|a| a.starts_with(&self.root));
            directories.extend(ancestors.map(Path::to_path_buf));
        }
        directories.iter().try_for_each(|directory| sync_dir(directory))?;
        if let Some(new_root) = self.new_root.take() {
            std::fs::rename(&self.root, &new_root).map_err(Error::io("publish", &new_root))?;
            sync_dir(parent_of(&new_root))?;
        }
        Ok(())
    }

    /// A free name beside `target`, whose directory exists afterwards.
    fn hide(&self, target: &Path) -> Result<PathBuf> {
        let path = self.root.join(target);
        let parent = target.parent().unwrap_or(Path::new(""));
        if !parent.as_os_str().is_empty() {
            self.dir.create_dir_all(parent).map_err(Error::io("create the directory of", &path))?;
        }
        let name = target.file_name().map(OsString::from).unwrap_or_default();
        Ok(parent.join(hidden_name(&name)))
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

/// `.NAME.PROCESS-COUNT.lodstone`: hidden, unique to this process, recognisable.
fn hidden_name(name: &OsString) -> OsString {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // File names are limited to 255 bytes; what matters of a long one is at its start.
    let stem: String = name.to_string_lossy().chars().take(50).collect();
    format!(".{stem}.{}-{count}.lodstone", std::process::id()).into()
}

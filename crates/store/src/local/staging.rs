//! The hidden directory into which all files are written first.
//!
//! ```text
//! .PROCESS-COUNT.lodstone         in the target directory
//! .NAME.PROCESS-COUNT.lodstone    beside the directory NAME, which it will become or replace
//! ```
//!
//! It contains the files under their target names, including subdirectories. Its writer holds a lock on it for as long
//! as it lives; an unlocked staging directory is a leftover, and the next commit removes it.
//!
//! So leftovers can be told from writes in progress, files can be opened and checked before they are published, and a
//! single rename declares all of them published.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;

use super::clean;
use super::write_dir::{Lock, PAUSE, WriteDir, if_there, is_one_name, rename_new};
use crate::names::{SUFFIX, parent_of};
use crate::{Error, Progress, Result, StepKind};

/// The staging directory of one commit; dropping it removes the directory and its contents, unless it
/// was published.
#[derive(Debug)]
pub(super) struct Staging {
    /// The parent directory.
    pub(super) home: Arc<WriteDir>,
    pub(super) name: String,
    pub(super) place: WriteDir,
    /// Whether it is locked; some file systems do not support locks.
    pub(super) locked: bool,
    /// Whether to keep it on drop.
    pub(super) published: bool,
    /// Descriptors for the removal, which must be possible when the process has no others left.
    pub(super) spare: Vec<WriteDir>,
    progress: Progress,
}

impl Staging {
    /// Creates a staging directory in `home`, with `mode` as restricted by the umask.
    pub(super) fn new(
        home: &Arc<WriteDir>,
        stem: &str,
        mode: u32,
        progress: &Progress,
    ) -> Result<Self> {
        let failed = |error| Error::io("create a file in", &home.path)(error);
        let builder = {
            let mut builder = cap_std::fs::DirBuilder::new();
            cap_std::fs::DirBuilderExt::mode(&mut builder, mode);
            builder
        };
        for _ in 0..MAX_NAMES {
            let name = hidden_name(stem);
            progress.step(StepKind::Stage, &home.path.join(&name))?;
            match home.dir.create_dir_with(&name, &builder) {
                // A leftover of a killed process: in containers, all have the same process ID.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made.map_err(failed)?,
            }
            match enter_new(home, &name) {
                Ok(Some((place, locked))) => {
                    let (home, progress) = (Arc::clone(home), progress.clone());
                    let (published, spare) = (false, Vec::new());
                    let mut staging =
                        Self { home, name, place, locked, published, spare, progress };
                    // From here on, an error removes the directory.
                    for _ in 0..SPARE {
                        let spare = staging.place.below(Path::new("")).map_err(failed)?;
                        staging.spare.push(spare);
                    }
                    return Ok(staging);
                }
                Ok(None) => {}
                Err(error) => {
                    let _ = home.dir.remove_dir(&name);
                    return Err(failed(error));
                }
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    }

    /// Returns the current directory at `path` that contains this staging directory. Another commit may have replaced
    /// the directory, and then moves this one to the new directory; if it was killed before that, it is done here.
    pub(super) fn relocate(&mut self, path: &Path) -> Result<Arc<WriteDir>> {
        /// Maximum number of attempts, while another commit moves the directory: two seconds.
        const MAX_TRIES: usize = 200;
        for attempt in 0..MAX_TRIES {
            let home = Arc::new(WriteDir::open(path)?);
            let is_there = self.place.is_at(&home, &self.name);
            if is_there.map_err(Error::io("open the directory", &self.place.path))? {
                self.home = Arc::clone(&home);
                return Ok(home);
            }
            if let Some(name) = path.file_name().and_then(|name| name.to_str())
                && let Ok(parent) = WriteDir::open(parent_of(path))
            {
                clean::clean(&Arc::new(parent), Some(&stem(name)), &self.progress);
            }
            if attempt > 0 {
                self.progress.advance(0)?;
                sleep(PAUSE);
            }
        }
        let what = "it was replaced by another directory".to_owned();
        Err(Error::Changed { path: path.to_path_buf(), what })
    }

    /// Moves the staging directory to another parent, under a new unique name.
    pub(super) fn move_to(&mut self, home: &Arc<WriteDir>, stem: &str) -> io::Result<()> {
        let name = hide((&self.home, &self.name), home, stem)?;
        self.place.path = home.path.join(&name);
        (self.home, self.name) = (Arc::clone(home), name);
        Ok(())
    }

    /// Syncs the directory entries.
    pub(super) fn sync(&self) -> Result<()> {
        let failed = |error| Error::io("sync the directory", &self.place.path)(error);
        let below = super::write_dir::Below::of(&self.place).map_err(failed)?;
        for directory in below.directories.iter().rev() {
            self.place.below(directory).map_err(failed)?.sync(&self.progress)?;
        }
        self.place.sync(&self.progress)
    }

    /// Removes the directory and its contents; the next commit removes anything that is left.
    pub(super) fn remove(&mut self) {
        self.published = true;
        self.spare.clear();
        clean::remove(&self.home, &self.name, &self.place, &self.progress);
    }

    /// Returns the path of a file until it is published.
    pub(super) fn path(&self, name: &Path) -> PathBuf {
        self.place.path.join(name)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.published {
            self.remove();
        }
    }
}

/// Maximum number of hidden names to try: those of killed processes that cannot be removed remain.
const MAX_NAMES: usize = 10_000;

/// The number of descriptors that the removal of a directory needs.
const SPARE: usize = 2;

/// Opens a new staging directory and locks it, if the file system supports that; returns nothing if another commit
/// has removed it as a leftover before.
fn enter_new(home: &WriteDir, name: &str) -> io::Result<Option<(WriteDir, bool)>> {
    let Some(place) = if_there(home.enter(name))? else { return Ok(None) };
    let locked = match place.lock()? {
        Lock::Held => true,
        Lock::Unknown => false,
        Lock::Busy => return Ok(None),
    };
    Ok((!locked || place.is_at(home, name)?).then_some((place, locked)))
}

/// Renames a directory to a new hidden name in `home`, and returns the name.
pub(super) fn hide(from: (&WriteDir, &str), home: &WriteDir, stem: &str) -> io::Result<String> {
    for _ in 0..MAX_NAMES {
        let name = hidden_name(stem);
        match rename_new(from, (home, &name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            renamed => return renamed.map(|()| name),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Returns a hidden name that is unique to this process.
fn hidden_name(stem: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let dot = if stem.is_empty() { "" } else { "." };
    format!(".{stem}{dot}{}-{count}{SUFFIX}", std::process::id())
}

/// Returns the name of the target beside a staging directory; empty if it is inside its target.
pub(super) fn stem_of(hidden: &str) -> Option<&str> {
    let inner = hidden.strip_prefix('.')?.strip_suffix(SUFFIX)?;
    let (stem, number) = inner.rsplit_once('.').unwrap_or(("", inner));
    let (process, count) = number.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_stem = stem.is_empty() || is_one_name(stem);
    (is_stem && is_number(process) && is_number(count)).then_some(stem)
}

/// Shortens a name, since names are limited to 255 bytes.
pub(super) fn stem(name: &str) -> String {
    name.chars().take(50).collect()
}

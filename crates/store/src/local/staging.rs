//! The hidden directory in which everything is written.
//!
//! ```text
//! .PROCESS-COUNT.lodstone         in the directory that is written to
//! .NAME.PROCESS-COUNT.lodstone    beside the directory NAME, which it will become or replace
//! ```
//!
//! It has the names of the targets, in subdirectories too. Its writer holds a lock on it for as long
//! as it lives; one that nobody holds is left over, and the next commit removes it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;

use super::clean;
use super::place::{Lock, PAUSE, Place, is_one_name, rename_new};
use crate::names::{SUFFIX, parent_of};
use crate::{Error, Progress, Result, StepKind};

/// The staging directory of one commit; removed with all that is in it when it is dropped, unless it
/// was published.
#[derive(Debug)]
pub(super) struct Staging {
    /// What it lies in.
    pub(super) home: Arc<Place>,
    pub(super) name: String,
    pub(super) place: Place,
    /// Whether it is locked; some file systems have no locks.
    pub(super) locked: bool,
    /// Whether it is to be left alone.
    pub(super) published: bool,
    progress: Progress,
}

impl Staging {
    /// Makes one in `home`, with `mode` as far as the process allows.
    pub(super) fn new(
        home: &Arc<Place>,
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
        loop {
            let name = hidden_name(stem);
            progress.step(StepKind::Stage, &home.path.join(&name))?;
            match home.dir.create_dir_with(&name, &builder) {
                // Of a killed process: in a container all have the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made.map_err(failed)?,
            }
            let place = match home.enter(&name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                place => place.map_err(failed)?,
            };
            // Before it was locked, another commit may have taken it for left over.
            let locked = match place.lock() {
                Lock::Held if place.is_at(home, &name) => true,
                Lock::Held | Lock::Busy => continue,
                Lock::Unknown => false,
            };
            let (home, progress) = (Arc::clone(home), progress.clone());
            return Ok(Self { home, name, place, locked, published: false, progress });
        }
    }

    /// The directory at `path`, which it was made in, as it is now: another commit may have put another
    /// one in its place, and moves this to that; if it was killed before it did, that is done here.
    pub(super) fn found_again(&mut self, path: &Path) -> Result<Arc<Place>> {
        /// How often it is looked for what another commit is moving: two seconds.
        const LOOKS: usize = 200;
        for look in 0..LOOKS {
            let home = Arc::new(Place::open(path)?);
            if self.place.is_at(&home, &self.name) {
                self.home = Arc::clone(&home);
                return Ok(home);
            }
            if let Some(name) = path.file_name().and_then(|name| name.to_str())
                && let Ok(parent) = Place::open(parent_of(path))
            {
                clean::clean(&Arc::new(parent), Some(&stem(name)), &self.progress);
            }
            if look > 0 {
                self.progress.advance(0)?;
                sleep(PAUSE);
            }
        }
        let what = "another directory has its place".to_owned();
        Err(Error::Changed { path: path.to_path_buf(), what })
    }

    /// Moves it to another directory, under a name of its own there.
    pub(super) fn move_to(&mut self, home: &Arc<Place>, stem: &str) -> io::Result<()> {
        loop {
            let name = hidden_name(stem);
            match rename_new((&self.home, &self.name), (home, &name)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    self.place.path = home.path.join(&name);
                    (self.home, self.name) = (Arc::clone(home), name);
                    return Ok(());
                }
            }
        }
    }

    /// Waits until the disk has the names in it.
    pub(super) fn sync(&self) -> Result<()> {
        let failed = |error| Error::io("sync the directory", &self.place.path)(error);
        let below = super::place::Below::of(&self.place).map_err(failed)?;
        for directory in below.directories.iter().rev() {
            self.place.below(directory).map_err(failed)?.sync(&self.progress)?;
        }
        self.place.sync(&self.progress)
    }

    /// Removes it with all that is in it; what cannot be removed, the next commit will.
    pub(super) fn remove(&mut self) {
        self.published = true;
        clean::remove(&self.home, &self.name, &self.place, &self.progress);
    }

    /// Where a file is until it is published.
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

/// Hidden, unique to this process, recognisable.
pub(super) fn hidden_name(stem: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let dot = if stem.is_empty() { "" } else { "." };
    format!(".{stem}{dot}{}-{count}{SUFFIX}", std::process::id())
}

/// What the name of a staging directory says is beside it: nothing if it is in it.
pub(super) fn stem_of(hidden: &str) -> Option<&str> {
    let inner = hidden.strip_prefix('.')?.strip_suffix(SUFFIX)?;
    let (stem, number) = inner.rsplit_once('.').unwrap_or(("", inner));
    let (process, count) = number.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_stem = stem.is_empty() || is_one_name(stem);
    (is_stem && is_number(process) && is_number(count)).then_some(stem)
}

/// As much of a name as there is room for: names are limited to 255 bytes.
pub(super) fn stem(name: &str) -> String {
    name.chars().take(50).collect()
}

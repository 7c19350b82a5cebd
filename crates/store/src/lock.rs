//! A lock for who writes into a directory again and again.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::{Errno, retry_on_intr};

use crate::{Error, Result};

/// The file that is locked. It stays: who removed it could remove one that another has locked just now.
const FILE: &str = ".lock.lodstone";

/// A directory that one writer has for itself, for as long as this lives; the system gives it back when its process
/// ends, however it does.
///
/// A [`Commit`](crate::Commit) publishes there all the same: it is a rule among those who ask.
#[derive(Debug)]
pub struct WriterLock {
    directory: PathBuf,
    file: File,
}

impl WriterLock {
    /// Takes the lock of a directory, which has to exist, without waiting. File systems without locks refuse
    /// nobody.
    ///
    /// # Errors
    /// [`Error::Locked`] if another writer has it, in this process or elsewhere; if the directory cannot be
    /// written to.
    pub fn take(directory: &Path) -> Result<Self> {
        let path = directory.join(FILE);
        // A link there could lead anywhere.
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).custom_flags(flags);
        let file = options.open(&path).map_err(Error::io("lock", &path))?;
        match retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)) {
            Err(Errno::WOULDBLOCK) => Err(Error::Locked { path: directory.to_path_buf() }),
            _ => Ok(Self { directory: directory.to_path_buf(), file }),
        }
    }

    /// Fails if it is no longer the lock of what has the name of the directory: that was removed or replaced, so
    /// that another writer may have taken its own.
    ///
    /// # Errors
    /// [`Error::Changed`], or what looking gives.
    pub fn check(&self) -> Result<()> {
        let path = self.directory.join(FILE);
        let there = std::fs::symlink_metadata(&path).map_err(Error::io("inspect", &path))?;
        let own = self.file.metadata().map_err(Error::io("inspect", &path))?;
        if (there.dev(), there.ino()) == (own.dev(), own.ino()) {
            return Ok(());
        }
        let what = "another directory has its place".to_owned();
        Err(Error::Changed { path: self.directory.clone(), what })
    }
}

impl Drop for WriterLock {
    /// Closing it would do, but for children that another thread is about to start: until they run their program
    /// they have open what this process has.
    fn drop(&mut self) {
        let _ = retry_on_intr(|| rustix::fs::flock(&self.file, FlockOperation::NonBlockingUnlock));
    }
}

//! A lock for who writes into a directory again and again.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::{Errno, retry_on_intr};

use crate::store::Held;
use crate::{Error, Result};

/// The file that is locked. It stays: who removed it could remove one that another has locked just now.
const FILE: &str = ".lock.lodstone";

/// The lock file of a directory, locked.
#[derive(Debug)]
pub(super) struct LocalLock {
    directory: PathBuf,
    file: File,
}

impl LocalLock {
    pub(super) fn take(directory: &Path) -> Result<Self> {
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
}

impl Held for LocalLock {
    fn check(&self) -> Result<()> {
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

impl Drop for LocalLock {
    /// Closing it would do, but for children that another thread is about to start: until they run their program
    /// they have open what this process has.
    fn drop(&mut self) {
        let _ = retry_on_intr(|| rustix::fs::flock(&self.file, FlockOperation::NonBlockingUnlock));
    }
}

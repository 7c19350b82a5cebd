//! The advisory lock for long-lived writers of a directory.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::retry_on_intr;

use super::write_dir::{Lock, flock};
use crate::store::Held;
use crate::{Error, Result};

/// The lock file. It is never removed: that could remove a file that another process has just locked.
const FILE: &str = ".lock.lodstone";

/// The locked lock file of a directory.
#[derive(Debug)]
pub(super) struct LocalLock {
    directory: PathBuf,
    file: File,
}

impl LocalLock {
    pub(super) fn take(directory: &Path) -> Result<Self> {
        let path = directory.join(FILE);
        // A symlink could lead anywhere.
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).custom_flags(flags);
        let file = options.open(&path).map_err(Error::io("lock", &path))?;
        let lock = flock(&file, FlockOperation::NonBlockingLockExclusive);
        match lock.map_err(Error::io("lock", &path))? {
            Lock::Busy => Err(Error::Locked { path: directory.to_path_buf() }),
            Lock::Held | Lock::Unknown => Ok(Self { directory: directory.to_path_buf(), file }),
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
        let what = "it was replaced by another directory".to_owned();
        Err(Error::Changed { path: self.directory.clone(), what })
    }
}

impl Drop for LocalLock {
    /// Unlocks explicitly. Closing the file is not enough if another thread has just forked a child: until the child
    /// executes its program, it has the same open files as this process.
    fn drop(&mut self) {
        let _ = retry_on_intr(|| rustix::fs::flock(&self.file, FlockOperation::NonBlockingUnlock));
    }
}

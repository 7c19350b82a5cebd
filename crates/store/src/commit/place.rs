//! An open directory, and the path by which messages call it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use cap_std::fs::Dir as CapDir;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::{Error, Progress, Result, Step};

/// A directory that is written to. What is in it is reached through it, so that neither a link in
/// it nor somebody who moves it leads elsewhere.
#[derive(Debug)]
pub(super) struct Place {
    /// Opened to read, so that it can be locked and synced.
    pub(super) dir: CapDir,
    pub(super) path: PathBuf,
    locked: AtomicBool,
}

/// Whether a directory is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    Held,
    /// Somebody else has it.
    Busy,
    /// The file system has no locks.
    Unknown,
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Place {
    /// Opens a directory that the user named.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let opened = rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty());
        let opened = opened.map_err(|errno| Error::io("open the directory", path)(errno.into()))?;
        Ok(Self::of(opened, path.to_path_buf()))
    }

    /// Opens the directory called `name` in this one; a link is not followed.
    pub(super) fn enter(&self, name: &str) -> io::Result<Self> {
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        let opened = rustix::fs::openat(&self.dir, name, flags, Mode::empty())?;
        Ok(Self::of(opened, self.path.join(name)))
    }

    /// Opens a directory somewhere below this one.
    pub(super) fn below(&self, name: &Path) -> io::Result<Self> {
        if name.as_os_str().is_empty() {
            return Ok(Self::at(self.dir.try_clone()?, self.path.clone()));
        }
        // What cap-std opens it with does for names, and not for syncing.
        let confined = self.dir.open_dir(name)?;
        let opened = rustix::fs::openat(&confined, ".", DIRECTORY, Mode::empty())?;
        Ok(Self::of(opened, self.path.join(name)))
    }

    fn of(opened: OwnedFd, path: PathBuf) -> Self {
        Self::at(CapDir::from_std_file(File::from(opened)), path)
    }

    /// A directory that is open already.
    pub(super) fn at(dir: CapDir, path: PathBuf) -> Self {
        Self { dir, path, locked: AtomicBool::new(false) }
    }

    /// Whether both are one directory: by device and inode.
    pub(super) fn is(&self, other: &Place) -> bool {
        use cap_std::fs::MetadataExt;
        let identity = |place: &Place| {
            let metadata = place.dir.dir_metadata();
            metadata.map(|metadata| (metadata.dev(), metadata.ino()))
        };
        identity(self).is_ok_and(|this| identity(other).is_ok_and(|other| this == other))
    }

    /// Whether it is what is called `name` in `parent`.
    pub(super) fn is_at(&self, parent: &Place, name: &str) -> bool {
        parent.enter(name).is_ok_and(|there| self.is(&there))
    }

    /// Takes the lock, if nobody has it. It is given back when this is dropped.
    pub(super) fn lock(&self) -> Lock {
        self.lock_as(FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes a lock that others may take as well.
    pub(super) fn lock_shared(&self) -> Lock {
        self.lock_as(FlockOperation::NonBlockingLockShared)
    }

    pub(super) fn unlock(&self) {
        self.lock_as(FlockOperation::NonBlockingUnlock);
    }

    fn lock_as(&self, operation: FlockOperation) -> Lock {
        match retry_on_intr(|| rustix::fs::flock(&self.dir, operation)) {
            Ok(()) => {
                self.locked.store(true, Ordering::Relaxed);
                Lock::Held
            }
            Err(Errno::WOULDBLOCK) => Lock::Busy,
            Err(_) => Lock::Unknown,
        }
    }

    /// Waits until the disk has the names in it, where the file system can say so.
    pub(super) fn sync(&self, progress: &Progress) -> Result<()> {
        progress.step(Step::SyncDirectory(&self.path))?;
        match retry_on_intr(|| rustix::fs::fsync(&self.dir)) {
            // File systems that sync no directories.
            Ok(()) | Err(Errno::INVAL | Errno::BADF | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(Error::io("sync the directory", &self.path)(errno.into())),
        }
    }

    /// Makes the directory `name` and those above it; gives the first that was not there.
    pub(super) fn make(&self, name: &Path, progress: &Progress) -> Result<Option<PathBuf>> {
        let mut missing: Vec<_> = name
            .ancestors()
            .take_while(|name| !name.as_os_str().is_empty() && !self.dir.is_dir(name))
            .collect();
        let first = missing.last().map(|name| name.to_path_buf());
        while let Some(name) = missing.pop() {
            let path = self.path.join(name);
            progress.step(Step::MakeDirectory(&path))?;
            match self.dir.create_dir(name) {
                // Somebody else was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(Error::io("create the directory", path))?,
            }
        }
        Ok(first)
    }
}

impl Drop for Place {
    /// Closing it would do, but for children that another thread is about to start: until they run
    /// their program they have open what this process has.
    fn drop(&mut self) {
        if self.locked.load(Ordering::Relaxed) {
            self.unlock();
        }
    }
}

/// Renames what is in one directory, with flags.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn rename_with(
    (from, name): (&Place, &str),
    (to, new_name): (&Place, &str),
    flags: rustix::fs::RenameFlags,
) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(&from.dir, name, &to.dir, new_name, flags)?)
}

/// Renames a directory; what has the new name already is left alone.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(super) fn rename_new(from: (&Place, &str), to: (&Place, &str)) -> io::Result<()> {
    match rename_with(from, to, rustix::fs::RenameFlags::NOREPLACE) {
        // Without flags, a directory that is not empty is left alone too.
        Err(error) if is_unknown(&error) => from.0.dir.rename(from.1, &to.0.dir, to.1),
        renamed => renamed,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(super) fn rename_new(from: (&Place, &str), to: (&Place, &str)) -> io::Result<()> {
    from.0.dir.rename(from.1, &to.0.dir, to.1)
}

/// Lets two directories change places.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(super) fn exchange(from: (&Place, &str), to: (&Place, &str)) -> io::Result<()> {
    rename_with(from, to, rustix::fs::RenameFlags::EXCHANGE)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(super) fn exchange(_: (&Place, &str), _: (&Place, &str)) -> io::Result<()> {
    Err(Errno::NOSYS.into())
}

/// Whether the file system or the kernel does not know a way to rename.
fn is_unknown(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP))
}

/// Everything below a directory, by relative path.
#[derive(Debug, Default)]
pub(super) struct Below {
    /// What is no directory; links among them.
    pub(super) files: Vec<PathBuf>,
    /// Outer ones first.
    pub(super) directories: Vec<PathBuf>,
}

impl Below {
    pub(super) fn of(place: &Place) -> io::Result<Self> {
        let (mut below, mut next) = (Self::default(), 0);
        // Without recursion: a stranger may have made them, as deep as they liked.
        let mut open = Some(PathBuf::new());
        while let Some(directory) = open {
            let entries = match directory.as_os_str().is_empty() {
                true => place.dir.entries()?,
                false => place.dir.read_dir(&directory)?,
            };
            for entry in entries {
                let entry = entry?;
                let name = directory.join(entry.file_name());
                match entry.file_type()?.is_dir() {
                    true => below.directories.push(name),
                    false => below.files.push(name),
                }
            }
            open = below.directories.get(next).cloned();
            next += 1;
        }
        Ok(below)
    }
}

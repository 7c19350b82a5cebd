//! An open directory and its path in messages.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use cap_std::fs::{Dir as CapDir, MetadataExt};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::{Error, Progress, Result, StepKind};

/// A directory that is written to. Its contents are accessed through its descriptor, so that neither a symlink in
/// it nor a rename of it redirects the access.
#[derive(Debug)]
pub(super) struct WriteDir {
    /// Opened for reading, so that it can be locked and synced.
    pub(super) dir: CapDir,
    pub(super) path: PathBuf,
    locked: AtomicBool,
}

/// The result of locking a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    Held,
    /// Another process holds the lock.
    Busy,
    /// The file system has no locks, or none that other machines see.
    Unknown,
}

/// A bounded wait for other processes.
#[derive(Debug, Default)]
pub(super) struct Patience(usize);

/// The interval between attempts.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

impl Patience {
    /// Maximum number of attempts, a minute: publication only renames files that are on disk, but any process can hold
    /// a lock.
    const PAUSES: usize = 6000;

    /// Sleeps while another process publishes into the directory at `path`.
    ///
    /// # Errors
    /// [`Error::Busy`] after the maximum number of attempts.
    pub(super) fn pause(&mut self, path: &Path, progress: &Progress) -> Result<()> {
        if self.0 == Self::PAUSES {
            return Err(Error::Busy { path: path.to_path_buf() });
        }
        self.0 += 1;
        progress.advance(0)?;
        sleep(PAUSE);
        Ok(())
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl WriteDir {
    /// Opens a directory at a path from the user.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let opened = rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty());
        let opened = opened.map_err(|errno| Error::io("open the directory", path)(errno.into()))?;
        Ok(Self::of(opened, path.to_path_buf()))
    }

    /// Opens the directory called `name` in this one without following a symlink.
    pub(super) fn enter(&self, name: &str) -> io::Result<Self> {
        if !is_one_name(name) {
            return Err(Errno::INVAL.into());
        }
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        let opened = rustix::fs::openat(&self.dir, name, flags, Mode::empty())?;
        Ok(Self::of(opened, self.path.join(name)))
    }

    /// Opens a directory at any depth below this one.
    pub(super) fn below(&self, name: &Path) -> io::Result<Self> {
        if name.as_os_str().is_empty() {
            return Ok(Self::at(self.dir.try_clone()?, self.path.clone()));
        }
        // The flags that cap-std opens it with suffice to resolve names, but not to sync.
        let confined = self.dir.open_dir(name)?;
        let opened = rustix::fs::openat(&confined, ".", DIRECTORY, Mode::empty())?;
        Ok(Self::of(opened, self.path.join(name)))
    }

    fn of(opened: OwnedFd, path: PathBuf) -> Self {
        Self::at(CapDir::from_std_file(File::from(opened)), path)
    }

    /// Wraps an open directory.
    pub(super) fn at(dir: CapDir, path: PathBuf) -> Self {
        Self { dir, path, locked: AtomicBool::new(false) }
    }

    /// Returns whether both are the same directory: by device and inode.
    pub(super) fn is(&self, other: &WriteDir) -> io::Result<bool> {
        let identity = |place: &WriteDir| {
            let metadata = place.dir.dir_metadata();
            metadata.map(|metadata| (metadata.dev(), metadata.ino()))
        };
        Ok(identity(self)? == identity(other)?)
    }

    /// Returns whether this directory is the entry `name` of `parent`.
    pub(super) fn is_at(&self, parent: &WriteDir, name: &str) -> io::Result<bool> {
        match parent.enter(name) {
            Err(error) if is_no_directory(&error) => Ok(false),
            there => there.and_then(|there| self.is(&there)),
        }
    }

    /// Takes the exclusive lock without waiting. It is released on drop.
    pub(super) fn lock(&self) -> io::Result<Lock> {
        self.lock_as(FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes a shared lock.
    pub(super) fn lock_shared(&self) -> io::Result<Lock> {
        self.lock_as(FlockOperation::NonBlockingLockShared)
    }

    pub(super) fn unlock(&self) {
        let _ = retry_on_intr(|| rustix::fs::flock(&self.dir, FlockOperation::NonBlockingUnlock));
    }

    fn lock_as(&self, operation: FlockOperation) -> io::Result<Lock> {
        Ok(match flock(&self.dir, operation)? {
            Lock::Held => {
                self.locked.store(true, Ordering::Relaxed);
                if is_local(&self.dir)? { Lock::Held } else { Lock::Unknown }
            }
            other => other,
        })
    }

    /// Syncs the directory entries to disk, where the file system supports it.
    pub(super) fn sync(&self, progress: &Progress) -> Result<()> {
        // Errors of file systems that do not sync directories.
        const UNABLE: [Errno; 5] =
            [Errno::INVAL, Errno::BADF, Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOTSUP];
        progress.step(StepKind::SyncDirectory, &self.path)?;
        match retry_on_intr(|| full_sync(&self.dir)) {
            Err(errno) if !UNABLE.contains(&errno) => {
                Err(Error::io("sync the directory", &self.path)(errno.into()))
            }
            _ => Ok(()),
        }
    }

    /// Creates the directory `name` and its parents; returns the first that did not exist.
    pub(super) fn make(&self, name: &Path, progress: &Progress) -> Result<Option<PathBuf>> {
        let mut missing: Vec<_> = name
            .ancestors()
            .take_while(|name| !name.as_os_str().is_empty() && !self.dir.is_dir(name))
            .collect();
        let first = missing.last().map(|name| name.to_path_buf());
        while let Some(name) = missing.pop() {
            let path = self.path.join(name);
            progress.step(StepKind::MakeDirectory, &path)?;
            match self.dir.create_dir(name) {
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(Error::io("create the directory", path))?,
            }
        }
        Ok(first)
    }
}

impl Drop for WriteDir {
    /// Unlocks explicitly. Closing the directory is not enough if another thread has just forked a child: until
    /// the child executes its program, it has the same open files as this process.
    fn drop(&mut self) {
        if self.locked.load(Ordering::Relaxed) {
            self.unlock();
        }
    }
}

/// Locks an open file or directory without waiting.
pub(super) fn flock(of: impl AsFd, operation: FlockOperation) -> io::Result<Lock> {
    // Errors of file systems without locks, or without locks of directories.
    const UNABLE: [Errno; 6] =
        [Errno::INVAL, Errno::BADF, Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOLCK];
    match retry_on_intr(|| rustix::fs::flock(&of, operation)) {
        Ok(()) => Ok(Lock::Held),
        Err(Errno::WOULDBLOCK) => Ok(Lock::Busy),
        Err(errno) if UNABLE.contains(&errno) => Ok(Lock::Unknown),
        Err(errno) => Err(errno.into()),
    }
}

/// Returns a result, or nothing if the error means that there is no such entry.
pub(super) fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    match result {
        // A name that exceeds the limit of the file system cannot exist.
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidFilename) => {
            Ok(None)
        }
        result => result.map(Some),
    }
}

/// Returns whether the error of [`WriteDir::enter`] means that there is no such directory: nothing, a link or a file.
pub(super) fn is_no_directory(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

/// Renames an entry of one directory to another, with flags.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn rename_with(
    (from, name): (&WriteDir, &str),
    (to, new_name): (&WriteDir, &str),
    flags: rustix::fs::RenameFlags,
) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(&from.dir, name, &to.dir, new_name, flags)?)
}

/// Renames a directory without replacing an existing entry.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(super) fn rename_new(from: (&WriteDir, &str), to: (&WriteDir, &str)) -> io::Result<()> {
    match rename_with(from, to, rustix::fs::RenameFlags::NOREPLACE) {
        // Without flags, a rename does not replace a directory that is not empty.
        Err(error) if is_unknown(&error) => from.0.dir.rename(from.1, &to.0.dir, to.1),
        renamed => renamed,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(super) fn rename_new(from: (&WriteDir, &str), to: (&WriteDir, &str)) -> io::Result<()> {
    from.0.dir.rename(from.1, &to.0.dir, to.1)
}

/// Exchanges two directories atomically.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(super) fn exchange(from: (&WriteDir, &str), to: (&WriteDir, &str)) -> io::Result<()> {
    rename_with(from, to, rustix::fs::RenameFlags::EXCHANGE)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(super) fn exchange(_: (&WriteDir, &str), _: (&WriteDir, &str)) -> io::Result<()> {
    Err(Errno::NOSYS.into())
}

/// Returns whether the error means that the file system or the kernel does not support a kind of rename.
fn is_unknown(error: &io::Error) -> bool {
    const UNKNOWN: [Errno; 4] = [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOTSUP];
    Errno::from_io_error(error).is_some_and(|errno| UNKNOWN.contains(&errno))
}

#[cfg(target_vendor = "apple")]
fn full_sync(dir: &CapDir) -> rustix::io::Result<()> {
    // On this system, `fsync` does not wait for the disk.
    rustix::fs::fcntl_fullfsync(dir)
}

#[cfg(not(target_vendor = "apple"))]
fn full_sync(dir: &CapDir) -> rustix::io::Result<()> {
    rustix::fs::fsync(dir)
}

/// Returns whether locks are visible to all users of the file system: for network file systems without directory
/// locks, the kernel locks only locally, and other machines do not see it.
#[cfg(target_os = "linux")]
fn is_local(dir: &CapDir) -> io::Result<bool> {
    /// Magic numbers from `linux/magic.h`: btrfs, ext, f2fs, bcachefs, overlay, ramfs, tmpfs, XFS, ZFS.
    const LOCAL: [u32; 9] = [
        0x9123_683e,
        0xef53,
        0xf2f5_2010,
        0xca45_1a4e,
        0x794c_7630,
        0x8584_58f6,
        0x0102_1994,
        0x5846_5342,
        0x2fc1_2fc1,
    ];
    let kind = retry_on_intr(|| rustix::fs::fstatfs(dir))?.f_type;
    Ok(u32::try_from(kind).is_ok_and(|kind| LOCAL.contains(&kind)))
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "same signature as on Linux")]
fn is_local(_: &CapDir) -> io::Result<bool> {
    Ok(true)
}

/// Returns whether a name is that of a directory entry, and not `.`, `..` or a path.
pub(super) fn is_one_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name)
}

/// Returns the device and inode of the entry `name` of a directory.
pub(super) fn identity(dir: &CapDir, name: &Path) -> Option<(u64, u64)> {
    let metadata = dir.symlink_metadata(name).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Everything below a directory, by relative path.
#[derive(Debug, Default)]
pub(super) struct Below {
    /// Entries other than directories, including symlinks.
    pub(super) files: Vec<PathBuf>,
    /// Directories, parents before children.
    pub(super) directories: Vec<PathBuf>,
}

impl Below {
    pub(super) fn of(place: &WriteDir) -> io::Result<Self> {
        let mut below = Self::default();
        below.find(place)?;
        Ok(below)
    }

    /// Adds everything below a directory; on an error, what was found before it.
    pub(super) fn find(&mut self, place: &WriteDir) -> io::Result<()> {
        let mut next = self.directories.len();
        // An explicit list instead of recursion: another user may have nested them to any depth.
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
                    true => self.directories.push(name),
                    false => self.files.push(name),
                }
            }
            open = self.directories.get(next).cloned();
            next += 1;
        }
        Ok(())
    }
}

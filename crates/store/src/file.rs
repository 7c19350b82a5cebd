//! Files that are read.
//!
//! A [`SourceFile`] is opened once and remembers what it was (size, time of modification, inode),
//! so that work that reads it for long can ask whether it is still the same before publishing.

use std::collections::HashSet;
use std::fs::{File, Metadata, OpenOptions};
use std::io::ErrorKind;
#[cfg(target_os = "linux")]
use std::io::IoSliceMut;
#[cfg(target_os = "linux")]
use std::num::NonZero;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::checks::SEAL;
use crate::commit::waiting::{check_path, is_expected, is_expected_beside, waiting_entries};
use crate::commit::{attributes, is_hidden};
use crate::memory::Memory;
use crate::{Blob, Checks, Error, Escape, Result};

/// A regular file that is read.
///
/// A model may be thousands of files, and a process may keep fewer descriptors open than that:
/// beyond a quarter of those a file is closed again, and opened for each read after that, when it
/// has to be the one it was.
#[derive(Debug)]
pub struct SourceFile {
    path: PathBuf,
    kept: Option<Kept>,
    identity: Stamp,
    map: Option<OnceLock<Bytes>>,
    checks: Option<Arc<Checks>>,
}

/// A descriptor that counts towards [`most_kept`].
#[derive(Debug)]
struct Kept(File);

/// Files that are kept open at once, of those that are read and of those that are written: a quarter of
/// what this process may.
pub(crate) fn most_kept() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        limit.and_then(|limit| usize::try_from(limit / 4).ok()).unwrap_or(usize::MAX)
    })
}

static OPEN: AtomicUsize = AtomicUsize::new(0);

impl Kept {
    fn new(file: File) -> Option<Self> {
        if OPEN.fetch_add(1, Ordering::Relaxed) < most_kept() {
            return Some(Self(file));
        }
        OPEN.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a file or directory was like at one moment: another one in its place, or another content, has another stamp.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct Stamp {
    len: u64,
    modified: (i64, i64),
    inode: (u64, u64),
}

impl SourceFile {
    /// Opens a regular file; `mmap` says whether its bytes may be answered by a memory map.
    ///
    /// # Errors
    /// If the file cannot be opened, or is a directory, pipe, socket or device;
    /// [`Error::Interrupted`] if a write that would replace it is unfinished.
    pub fn open(path: &Path, mmap: bool) -> Result<Self> {
        check_path(path)?;
        Self::from_std(open(path)?, path, mmap)
    }

    pub(crate) fn from_std(file: File, path: &Path, mmap: bool) -> Result<Self> {
        let metadata = file.metadata().map_err(Error::io("inspect", path))?;
        if !metadata.is_file() {
            return Err(Error::NotAFile { path: path.to_path_buf(), found: kind_of(&metadata) });
        }
        let (path, identity) = (path.to_path_buf(), Stamp::of_metadata(&metadata));
        let (kept, map) = (Kept::new(file), mmap.then(OnceLock::new));
        Ok(Self { path, kept, identity, map, checks: None })
    }

    /// The same file, whose bytes are compared with checksums before they are answered.
    ///
    /// # Errors
    /// [`Error::Resized`] if it has another size.
    pub fn checked(mut self, checks: Arc<Checks>) -> Result<Self> {
        let (sealed, found) = (checks.len(), self.len());
        if sealed != found {
            return Err(Error::Resized { path: self.path, sealed, found });
        }
        self.checks = Some(checks);
        Ok(self)
    }

    /// Whether its bytes are compared with checksums.
    pub fn is_checked(&self) -> bool {
        self.checks.is_some()
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size in bytes when it was opened.
    pub fn len(&self) -> u64 {
        self.identity.len
    }

    /// Whether it had no bytes when it was opened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// If the system fails, the file has become shorter than the range, or its checksums are not
    /// what they should be.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match &self.checks {
            Some(checks) => checks.read(self, offset, buffer),
            None => self.read_plain(offset, buffer),
        }
    }

    /// Compares the `len` bytes from `offset` with their checksums, if it has any and that was not
    /// done before.
    pub(crate) fn check(&self, offset: u64, len: u64) -> Result<()> {
        self.checks.as_ref().map_or(Ok(()), |checks| checks.check(self, offset, len))
    }

    /// How many of the `len` bytes from `offset` are in one part.
    pub(crate) fn at_once(&self, offset: u64, len: u64) -> u64 {
        self.checks.as_ref().map_or(len, |checks| checks.left_of_part(offset).min(len))
    }

    /// Fills `buffer` from `offset` with what is there, whatever its checksums are.
    pub(crate) fn read_plain(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.with(|file| file.read_exact_at(buffer, offset))?.map_err(|error| {
            if error.kind() == ErrorKind::UnexpectedEof {
                let what = format!("it ends before byte {}", offset + buffer.len() as u64);
                return Error::Changed { path: self.path.clone(), what };
            }
            Error::io("read", &self.path)(error)
        })
    }

    /// Fills `buffer` from `offset` unless the bytes would have to come from a disk, as far as the
    /// system tells; says whether it did. A file with checks is read in any case.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub(crate) fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> Result<bool> {
        #[cfg(target_os = "linux")]
        if self.checks.is_none() {
            let read = self.with(|file| {
                let flags = rustix::io::ReadWriteFlags::NOWAIT;
                rustix::io::preadv2(file, &mut [IoSliceMut::new(buffer)], offset, flags)
            })?;
            match read {
                Ok(size) if size == buffer.len() => return Ok(true),
                Ok(_) | Err(rustix::io::Errno::AGAIN) => return Ok(false),
                // File systems that know no such reads.
                Err(_) => {}
            }
        }
        self.read_at(offset, buffer).map(|()| true)
    }

    /// Asks the system to have a stretch of the file in memory soon. What several threads read in turns is no sequence
    /// to the system, which would not read ahead of them.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(unused_variables, reason = "they read as they may")
    )]
    pub(crate) fn fetch(&self, offset: u64, len: usize) {
        #[cfg(target_os = "linux")]
        let _ = self.with(|file| {
            let len = NonZero::new(len as u64);
            rustix::fs::fadvise(file, offset, len, rustix::fs::Advice::WillNeed)
        });
    }

    /// All its bytes. Those that are compared with checksums are read once, in order, on all processors.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at), or if there is not so much memory.
    pub fn read_all(self) -> Result<Bytes> {
        match self.checks.clone() {
            Some(checks) => checks.read_all(&self),
            None => Blob::file(Arc::new(self)).read(),
        }
    }

    /// Calls `work` with the file, opened again if it was not kept open.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&File) -> T) -> Result<T> {
        if let Some(Kept(file)) = &self.kept {
            return Ok(work(file));
        }
        let file = open(&self.path)?;
        self.compare(&file.metadata().map_err(Error::io("inspect", &self.path))?)?;
        Ok(work(&file))
    }

    /// The whole file, mapped once and shared; `None` if mapping was not wanted or failed.
    pub(crate) fn map(&self) -> Option<&Bytes> {
        let cell = self.map.as_ref()?;
        if cell.get().is_none() {
            // SAFETY: the map is read-only and private to this object. Another process that
            // shortens the file can make a later access raise SIGBUS; SECURITY.md says so, and
            // opening without `mmap` avoids it.
            #[expect(unsafe_code, reason = "mapping a file is unsafe by nature")]
            let map = self.with(|file| unsafe { memmap2::Mmap::map(file) }).ok()?.ok()?;
            let _ = cell.set(Bytes::from_owner(map));
        }
        cell.get()
    }

    /// Pages of the file, of which those that are written to become copies; `None` if it may not be
    /// mapped, or is shorter than that.
    pub(crate) fn map_private(&self, offset: u64, len: u64) -> Option<Memory> {
        self.map.as_ref()?;
        let map = |file: &File| {
            let end = file.metadata().ok()?.len();
            let len = usize::try_from(len).ok().filter(|_| offset.checked_add(len) <= Some(end))?;
            // SAFETY: as in `map`; what is written stays in this process.
            #[expect(unsafe_code, reason = "mapping a file is unsafe by nature")]
            unsafe { memmap2::MmapOptions::new().offset(offset).len(len).map_copy(file) }.ok()
        };
        self.with(map).ok()?.map(Memory::of_file)
    }

    /// Fails if the file is not what it was when it was opened. A file that took its place under
    /// the same name is not noticed while this one is kept open.
    ///
    /// # Errors
    /// [`Error::Changed`] that names size, time of modification or identity.
    pub fn check_unchanged(&self) -> Result<()> {
        let metadata = self.with(File::metadata)?;
        self.compare(&metadata.map_err(Error::io("inspect", &self.path))?)
    }

    /// Fails if what is called by its path is not what it was when it was opened.
    ///
    /// # Errors
    /// As [`check_unchanged`](Self::check_unchanged), or if there is nothing any more.
    pub fn check_in_place(&self) -> Result<()> {
        let metadata = std::fs::metadata(&self.path).map_err(Error::io("inspect", &self.path))?;
        self.compare(&metadata)
    }

    /// Fails if the file has another name, too: a hard link, by which a directory can hand out what is
    /// not its own.
    ///
    /// # Errors
    /// [`Error::Escapes`].
    pub fn check_only_name(&self) -> Result<()> {
        let metadata = self.with(File::metadata)?.map_err(Error::io("inspect", &self.path))?;
        if metadata.nlink() > 1 {
            let path = self.path.display().to_string();
            return Err(Error::Escapes { path, why: Escape::HardLink });
        }
        Ok(())
    }

    fn compare(&self, metadata: &Metadata) -> Result<()> {
        let (was, now) = (self.identity, Stamp::of_metadata(metadata));
        let what = if now.len != was.len {
            format!("it had {} bytes and now has {}", was.len, now.len)
        } else if now.modified != was.modified {
            "it was modified".to_owned()
        } else if now.inode != was.inode {
            "another file has its name".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::Changed { path: self.path.clone(), what })
    }

    /// What tells it from every other file there is: device and inode.
    pub fn identity(&self) -> (u64, u64) {
        self.identity.inode
    }
}

fn open(path: &Path) -> Result<File> {
    // O_NONBLOCK: opening a named pipe would otherwise wait for a writer for ever.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path);
    file.map_err(Error::io("open", path))
}

impl Stamp {
    /// That of what is at `path`, symbolic links followed.
    ///
    /// # Errors
    /// If there is nothing, or it may not be looked at.
    pub fn of(path: &Path) -> Result<Self> {
        let metadata = std::fs::metadata(path).map_err(Error::io("inspect", path))?;
        Ok(Self::of_metadata(&metadata))
    }

    fn of_metadata(metadata: &Metadata) -> Self {
        Self {
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            inode: (metadata.dev(), metadata.ino()),
        }
    }
}

pub(crate) fn kind_of(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_symlink() {
        "a symbolic link that leads nowhere"
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Whether there is something at `path` (symbolic links followed), or will be when an interrupted write
/// is finished.
pub fn exists(path: &Path) -> bool {
    path.exists() || is_expected(path)
}

/// Whether there is anything at `path`, a link that leads nowhere too, or will be when an interrupted
/// write into its directory (not one above that) is finished.
///
/// # Errors
/// If that cannot be told.
pub fn is_there(path: &Path) -> Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(is_expected_beside(path))
        }
        Err(error) => Err(Error::io("look for", path)(error)),
    }
}

/// Where the symbolic link at `path` leads to in the end; nothing if there is no link, or it leads
/// nowhere.
pub fn link_target(path: &Path) -> Option<PathBuf> {
    std::fs::read_link(path).ok().and_then(|_| path.canonicalize().ok())
}

/// The directory at `path` and those above it, each with the way from it down to the directory: nearest
/// first, as `path` calls them as long as it does not climb; then the others that it is in without
/// symbolic links, as far as this process may look there. None is there twice.
pub fn directories_above(path: &Path) -> Vec<(PathBuf, PathBuf)> {
    let named = path.components().filter(|part| matches!(part, Component::Normal(_))).count();
    let climbs = |way: &Path| way.components().any(|part| part == Component::ParentDir);
    let mut above: Vec<_> = path.ancestors().take(named + 1).map(|from| way(from, path)).collect();
    above.retain(|(_, way)| !climbs(way));
    let Ok(here) = std::env::current_dir() else { return above };
    let absolute = here.join(path);
    let Ok(real) = absolute.canonicalize() else { return above };
    if real == absolute {
        // The nearest are the same ones.
        above.extend(real.ancestors().skip(named + 1).map(|from| way(from, &real)));
        return above;
    }
    let known: HashSet<PathBuf> =
        above.iter().filter_map(|(from, _)| here.join(from).canonicalize().ok()).collect();
    let others = real.ancestors().filter(|from| !known.contains(*from));
    above.extend(others.map(|from| way(from, &real)));
    above
}

/// The directories whose seals may list the files in the directory at `path`: that [itself and those
/// above](directories_above), but for shared ones above, where models of everybody are.
pub fn seal_directories(path: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut found = directories_above(path);
    // A seal there must not make the models of others unreadable.
    found.retain(|(root, way)| way.as_os_str().is_empty() || !is_shared(root));
    found
}

/// Whether everybody may put something into the directory at `path`, and take away nothing that is
/// another's (the sticky bit).
fn is_shared(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| attributes::is_shared(metadata.mode()))
}

/// A directory above another, and the way between them.
fn way(from: &Path, to: &Path) -> (PathBuf, PathBuf) {
    (from.to_path_buf(), to.strip_prefix(from).unwrap_or(to).to_path_buf())
}

/// Whether `path` is a directory (symbolic links followed).
pub fn is_dir(path: &Path) -> bool {
    path.is_dir()
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name, if it is UTF-8; entries with other names are not listed.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// The entries of a directory, sorted by name; without a seal and files that are being written, with
/// those that an interrupted write has yet to put there.
///
/// # Errors
/// If the directory cannot be read.
pub fn list_dir(path: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(Error::io("list", path))? {
        let entry = entry.map_err(Error::io("list", path))?;
        let is_dir = entry.path().is_dir();
        if let Ok(name) = entry.file_name().into_string() {
            entries.push(Entry { name, is_dir });
        }
    }
    entries.extend(waiting_entries(path));
    entries.retain(|entry| !is_hidden(&entry.name) && entry.name != SEAL);
    entries.sort();
    entries.dedup();
    Ok(entries)
}

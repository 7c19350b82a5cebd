//! Local files that are read.
//!
//! A [`LocalFile`] is opened once and records its size, modification time and inode,
//! so that long operations can check that it is unchanged before they publish.

use std::collections::HashSet;
use std::fs::{File, Metadata, OpenOptions};
use std::io::ErrorKind;
#[cfg(target_os = "linux")]
use std::io::IoSliceMut;
#[cfg(target_os = "linux")]
use std::num::NonZero;
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::attributes;
use super::waiting::check_path;
use crate::memory::Memory;
use crate::{Error, Escape, FileId, ReadRange, Result, Source, Stamp};

/// A regular file of the operating system, open for reading.
///
/// A model may have thousands of files, more than the limit of open descriptors of the process.
/// Beyond a quarter of that limit, a file is closed again and reopened for each read, which checks that it
/// is still the same file.
#[derive(Debug)]
pub struct LocalFile {
    path: PathBuf,
    kept: Option<Kept>,
    stamp: Stamp,
    map: Option<OnceLock<Bytes>>,
}

/// Maximum size of ranges that are read instead of mapped.
const MAX_READ_LEN: u64 = 64 << 10;

/// A descriptor that counts towards [`max_kept`].
#[derive(Debug)]
struct Kept(File);

/// Returns the maximum number of files that are kept open, separately for reading and for writing: a quarter of
/// the limit of this process.
pub(super) fn max_kept() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        limit.and_then(|limit| usize::try_from(limit / 4).ok()).unwrap_or(usize::MAX)
    })
}

static OPEN: AtomicUsize = AtomicUsize::new(0);

impl Kept {
    fn new(file: File) -> Option<Self> {
        if OPEN.fetch_add(1, Ordering::Relaxed) < max_kept() {
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

impl LocalFile {
    /// Opens a regular file; `mmap` allows it to be mapped.
    pub(super) fn open(path: &Path, mmap: bool) -> Result<Self> {
        check_path(path)?;
        Self::from_std(open(path)?, path, mmap)
    }

    pub(super) fn from_std(file: File, path: &Path, mmap: bool) -> Result<Self> {
        let metadata = file.metadata().map_err(Error::io("inspect", path))?;
        if !metadata.is_file() {
            return Err(Error::NotAFile { path: path.to_path_buf(), found: kind_of(&metadata) });
        }
        let (path, stamp) = (path.to_path_buf(), stamp_of(&metadata));
        let (kept, map) = (Kept::new(file), mmap.then(OnceLock::new));
        Ok(Self { path, kept, stamp, map })
    }

    /// Fills `buffer` from `offset` if that needs no disk access; returns whether
    /// it did, or `None` if the system does not support such reads.
    #[cfg(target_os = "linux")]
    pub(crate) fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> Result<Option<bool>> {
        let read = self.with(|file| {
            let flags = rustix::io::ReadWriteFlags::NOWAIT;
            rustix::io::preadv2(file, &mut [IoSliceMut::new(buffer)], offset, flags)
        })?;
        Ok(match read {
            Ok(size) if size == buffer.len() => Some(true),
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Some(false),
            // The file system does not support such reads.
            Err(_) => None,
        })
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "same signature as on Linux")]
    pub(crate) fn read_cached(&self, _offset: u64, _buffer: &mut [u8]) -> Result<Option<bool>> {
        Ok(None)
    }

    /// Calls `work` with the file, reopened if it was not kept open.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&File) -> T) -> Result<T> {
        if let Some(Kept(file)) = &self.kept {
            return Ok(work(file));
        }
        let file = open(&self.path)?;
        self.compare(&file.metadata().map_err(Error::io("inspect", &self.path))?)?;
        Ok(work(&file))
    }

    /// Returns the whole file as a shared mapping; `None` if mapping is not allowed or failed.
    fn map(&self) -> Option<&Bytes> {
        let cell = self.map.as_ref()?;
        if cell.get().is_none() {
            // SAFETY: the map is read-only and private to this object. Another process that
            // shortens the file can make a later access raise SIGBUS; SECURITY.md documents this, and
            // opening without `mmap` avoids it.
            #[expect(unsafe_code, reason = "mapping a file is unsafe by nature")]
            let map = self.with(|file| unsafe { memmap2::Mmap::map(file) }).ok()?.ok()?;
            let _ = cell.set(Bytes::from_owner(map));
        }
        cell.get()
    }

    /// Returns copy-on-write pages of the file; `None` if mapping is not allowed, or the file is shorter than the
    /// range.
    pub(crate) fn map_private(&self, offset: u64, len: u64) -> Option<Memory> {
        self.map.as_ref().filter(|_| len > MAX_READ_LEN)?;
        let map = |file: &File| {
            let end = file.metadata().ok()?.len();
            let len = usize::try_from(len).ok().filter(|_| offset.checked_add(len) <= Some(end))?;
            // SAFETY: as in `map`; writes stay in this process.
            #[expect(unsafe_code, reason = "mapping a file is unsafe by nature")]
            unsafe { memmap2::MmapOptions::new().offset(offset).len(len).map_copy(file) }.ok()
        };
        self.with(map).ok()?.map(Memory::of_file)
    }

    fn compare(&self, metadata: &Metadata) -> Result<()> {
        let (was, now) = (self.stamp, stamp_of(metadata));
        let what = if now.len != was.len {
            format!("it had {} bytes and now has {}", was.len, now.len)
        } else if now.modified != was.modified {
            "it was modified".to_owned()
        } else if now.id != was.id {
            "it was replaced by another file".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::Changed { path: self.path.clone(), what })
    }
}

impl Source for LocalFile {
    fn len(&self) -> u64 {
        self.stamp.len
    }

    fn identity(&self) -> FileId {
        self.stamp.id
    }

    fn read_ranges(&self, ranges: &mut [ReadRange<'_>]) -> Result<()> {
        let read = |file: &File| {
            ranges.iter_mut().try_for_each(|ReadRange { offset, buffer }| {
                let read = file.read_exact_at(buffer, *offset);
                read.map_err(|error| (error, offset.saturating_add(buffer.len() as u64)))
            })
        };
        self.with(read)?.map_err(|(error, end)| {
            if error.kind() == ErrorKind::UnexpectedEof {
                let what = format!("it ends before byte {end}");
                return Error::Changed { path: self.path.clone(), what };
            }
            Error::io("read", &self.path)(error)
        })
    }

    /// The system does not detect reads by several threads as sequential, so it would not read ahead.
    fn prefetch(&self, ranges: &[Range<u64>]) {
        #[cfg(target_os = "linux")]
        let _ = self.with(|file| {
            for range in ranges {
                let len = NonZero::new(range.end - range.start);
                let _ = rustix::fs::fadvise(file, range.start, len, rustix::fs::Advice::WillNeed);
            }
        });
        #[cfg(not(target_os = "linux"))]
        let _ = ranges;
    }

    fn shared(&self, offset: u64, len: u64) -> Option<Bytes> {
        if len <= MAX_READ_LEN {
            return None;
        }
        let end = usize::try_from(offset.checked_add(len)?).ok()?;
        // The map has its own bounds, in case the file has become shorter since.
        let map = self.map().filter(|map| end <= map.len())?;
        Some(map.slice(usize::try_from(offset).ok()?..end))
    }

    fn check_unchanged(&self) -> Result<()> {
        let metadata = self.with(File::metadata)?;
        self.compare(&metadata.map_err(Error::io("inspect", &self.path))?)
    }

    fn check_in_place(&self) -> Result<()> {
        let metadata = std::fs::metadata(&self.path).map_err(Error::io("inspect", &self.path))?;
        self.compare(&metadata)
    }

    fn check_only_name(&self) -> Result<()> {
        let metadata = self.with(File::metadata)?.map_err(Error::io("inspect", &self.path))?;
        if metadata.nlink() > 1 {
            let path = self.path.display().to_string();
            return Err(Error::Escapes { path, why: Escape::HardLink });
        }
        Ok(())
    }

    fn local(&self) -> Option<&LocalFile> {
        Some(self)
    }
}

fn open(path: &Path) -> Result<File> {
    // O_NONBLOCK: otherwise, opening a named pipe would wait for a writer forever.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path);
    file.map_err(Error::io("open", path))
}

/// Returns the stamp of a file from its metadata.
pub(super) fn stamp_of(metadata: &Metadata) -> Stamp {
    Stamp {
        len: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        id: FileId(metadata.dev(), metadata.ino()),
    }
}

pub(super) fn kind_of(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_symlink() {
        "a dangling symbolic link"
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

/// Returns the directory at `path` and its parents, each with the relative path from it to the directory, nearest
/// first and without duplicates: first the lexical parents, as long as `path` has no `..`, then the other parents of
/// the canonical path, as far as this process has access.
fn directories_above(path: &Path) -> Vec<(PathBuf, PathBuf)> {
    let named = path.components().filter(|part| matches!(part, Component::Normal(_))).count();
    let climbs = |way: &Path| way.components().any(|part| part == Component::ParentDir);
    let mut above: Vec<_> = path.ancestors().take(named + 1).map(|from| way(from, path)).collect();
    above.retain(|(_, way)| !climbs(way));
    let Ok(here) = std::env::current_dir() else { return above };
    let absolute = here.join(path);
    let Ok(real) = absolute.canonicalize() else { return above };
    if real == absolute {
        // The nearest ones are the same.
        above.extend(real.ancestors().skip(named + 1).map(|from| way(from, &real)));
        return above;
    }
    let known: HashSet<PathBuf> =
        above.iter().filter_map(|(from, _)| here.join(from).canonicalize().ok()).collect();
    let others = real.ancestors().filter(|from| !known.contains(*from));
    above.extend(others.map(|from| way(from, &real)));
    above
}

/// Returns the directories whose seals may list the files in the directory at `path`: the directory [itself and its
/// parents](directories_above), except for parents with the sticky bit, which are shared with other users.
pub(super) fn seal_directories(path: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut found = directories_above(path);
    // A seal in a shared directory must not make the models of other users unreadable.
    found.retain(|(root, way)| way.as_os_str().is_empty() || !is_shared(root));
    found
}

/// Returns whether the directory at `path` has the sticky bit: users may create files, but not replace or remove
/// those of others.
fn is_shared(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| attributes::is_shared(metadata.mode()))
}

/// Returns a parent directory with the relative path from it to `to`.
fn way(from: &Path, to: &Path) -> (PathBuf, PathBuf) {
    (from.to_path_buf(), to.strip_prefix(from).unwrap_or(to).to_path_buf())
}

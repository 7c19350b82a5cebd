//! Files of the operating system that are read.
//!
//! A [`LocalFile`] is opened once and remembers what it was (size, time of modification, inode),
//! so that long work can check that it is still the same before publishing.

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

/// A regular file of the operating system that is read.
///
/// A model may be thousands of files, and a process may keep fewer descriptors open than that:
/// beyond a quarter of those a file is closed again, and opened for each read after that, when it
/// has to be the one it was.
#[derive(Debug)]
pub struct LocalFile {
    path: PathBuf,
    kept: Option<Kept>,
    stamp: Stamp,
    map: Option<OnceLock<Bytes>>,
}

/// Ranges up to this size are read rather than mapped.
const READ_RATHER_THAN_MAP: u64 = 64 << 10;

/// A descriptor that counts towards [`most_kept`].
#[derive(Debug)]
struct Kept(File);

/// Files that are kept open at once, of those that are read and of those that are written: a quarter of
/// what this process may.
pub(super) fn most_kept() -> usize {
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

impl LocalFile {
    /// Opens a regular file; `mmap` says whether it may be mapped.
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

    /// Fills `buffer` from `offset` unless the bytes would have to come from a disk; returns whether
    /// it did, or nothing where the system cannot tell.
    #[cfg(target_os = "linux")]
    pub(crate) fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> Result<Option<bool>> {
        let read = self.with(|file| {
            let flags = rustix::io::ReadWriteFlags::NOWAIT;
            rustix::io::preadv2(file, &mut [IoSliceMut::new(buffer)], offset, flags)
        })?;
        Ok(match read {
            Ok(size) if size == buffer.len() => Some(true),
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Some(false),
            // File systems that know no such reads.
            Err(_) => None,
        })
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as where it is known")]
    pub(crate) fn read_cached(&self, _offset: u64, _buffer: &mut [u8]) -> Result<Option<bool>> {
        Ok(None)
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
    fn map(&self) -> Option<&Bytes> {
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
        self.map.as_ref().filter(|_| len > READ_RATHER_THAN_MAP)?;
        let map = |file: &File| {
            let end = file.metadata().ok()?.len();
            let len = usize::try_from(len).ok().filter(|_| offset.checked_add(len) <= Some(end))?;
            // SAFETY: as in `map`; what is written stays in this process.
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
            "another file has its name".to_owned()
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

    /// What several threads read in turns is no sequence to the system, which would not read ahead of them.
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
        if len <= READ_RATHER_THAN_MAP {
            return None;
        }
        let end = usize::try_from(offset.checked_add(len)?).ok()?;
        // A file that has grown shorter since is caught by the bounds of the map.
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
    // O_NONBLOCK: opening a named pipe would otherwise wait for a writer for ever.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path);
    file.map_err(Error::io("open", path))
}

/// What a file is by what the system reports of it.
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

/// The directory at `path` and those above it, each with the way from it down to the directory: nearest
/// first, as `path` calls them as long as it does not climb; then the others that it is in without
/// symbolic links, as far as this process may look there. None is there twice.
fn directories_above(path: &Path) -> Vec<(PathBuf, PathBuf)> {
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
pub(super) fn seal_directories(path: &Path) -> Vec<(PathBuf, PathBuf)> {
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

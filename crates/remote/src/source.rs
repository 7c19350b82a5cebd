//! Open files: an object at the version at which it was opened, and a file that is not published yet.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use lodstone_store::{Blob, Error, FileId, ReadRange, Result, Source};

use crate::Fault;
use crate::backend::Answer;
use crate::store::{HEAD, Object, RemoteStore};

/// Maximum distance of ranges that are requested together: transferring it takes no longer than a request.
const MAX_GAP: u64 = 1 << 20;

/// Maximum size of a request.
const MAX_REQUEST: u64 = 8 << 20;

/// Maximum number of requests of a read that run at the same time.
const PARALLEL: usize = 4;

/// Maximum size of a sequential read-ahead of headers.
const MAX_AHEAD: u64 = 1 << 20;

/// Maximum size of a read-ahead in an announced range: two requests at the same time.
const ANNOUNCED: u64 = 16 << 20;

/// An object, open for reading. Every range has `If-Match` with its entity tag, or is compared with its size and time.
#[derive(Debug)]
pub(crate) struct RemoteFile {
    store: RemoteStore,
    key: String,
    path: PathBuf,
    object: Object,
    ahead: Mutex<Ahead>,
    /// The range that is read in order.
    announced: Mutex<Range<u64>>,
}

/// How far small reads read ahead.
#[derive(Debug)]
struct Ahead {
    /// The end of the last read.
    end: u64,
    len: u64,
}

impl RemoteFile {
    pub(crate) fn new(store: RemoteStore, key: String, path: PathBuf, object: Object) -> Self {
        let ahead = Mutex::new(Ahead { end: HEAD, len: HEAD });
        Self { store, key, path, object, ahead, announced: Mutex::new(0..0) }
    }

    /// Extends a small read: headers are followed by headers.
    fn extend(&self, range: Range<u64>) -> Range<u64> {
        let announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if announced.start <= range.start && range.end <= announced.end {
            let end = range.end.max(range.start.saturating_add(ANNOUNCED).min(announced.end));
            // An announced range that is smaller than the head of a file is followed by others.
            if end - range.start >= HEAD {
                return range.start..end;
            }
        }
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let size = range.end - range.start;
        if size >= HEAD {
            // Elements that are read in pieces: each request is twice as long as the one before.
            let len = if range.start == ahead.end { 2 * ahead.len } else { size };
            let len = len.clamp(size, MAX_REQUEST.max(size));
            let end = range.start.saturating_add(len).min(self.len());
            *ahead = Ahead { end, len };
            return range.start..end;
        }
        let follows = range.start.checked_sub(ahead.end).is_some_and(|hop| hop <= HEAD);
        let len = if follows { (2 * ahead.len).clamp(HEAD, MAX_AHEAD) } else { HEAD };
        // The end of an archive is read backwards.
        let start =
            range.start.min(self.len().saturating_sub(HEAD).max(range.start.saturating_sub(HEAD)));
        let end = range.end.max(start.saturating_add(len)).min(self.len());
        *ahead = Ahead { end, len };
        start..end
    }

    /// Requests ranges, at most [`PARALLEL`] at a time, and calls `found` with each part.
    fn fetch(
        &self,
        ranges: &[Range<u64>],
        mut found: impl FnMut(u64, &Bytes),
    ) -> Result<(), Fault> {
        for batch in ranges.chunks(PARALLEL) {
            let (batch, key) = (batch.to_vec(), self.key.clone());
            let version = self.object.version.clone();
            let answers = self.store.call(|shared| async move {
                let (shared, key, version) = (&shared, &key, &version);
                let get = |range: Range<u64>| shared.backend.get(key, range, Some(version));
                let mut answers = stream::iter(batch.into_iter().map(get)).buffered(PARALLEL);
                let mut parts: Vec<Answer> = Vec::new();
                while let Some(answer) = answers.next().await {
                    parts.push(answer?);
                }
                Ok(parts)
            })?;
            for Answer { start, bytes, .. } in answers {
                found(start, &bytes);
                self.store.cache().insert(self.object.id, start, bytes);
            }
        }
        Ok(())
    }
}

impl Source for RemoteFile {
    fn len(&self) -> u64 {
        self.object.version.size
    }

    fn identity(&self) -> FileId {
        self.object.id
    }

    fn read_ranges(&self, ranges: &mut [ReadRange<'_>]) -> Result<()> {
        let mut missing = Vec::new();
        for ReadRange { offset, buffer } in &mut *ranges {
            let end = offset.saturating_add(buffer.len() as u64);
            if end > self.len() {
                let what = format!("it ends before byte {end}");
                return Err(Error::Changed { path: self.path.clone(), what });
            }
            let copy = |start: u64, bytes: &[u8]| copy(buffer, *offset, start, bytes);
            missing.extend(self.store.cache().read(self.object.id, &(*offset..end), copy));
        }
        if missing.is_empty() {
            return Ok(());
        }
        if let [one] = missing.as_slice() {
            let extended = self.extend(one.clone());
            // Another thread may have read some of it meanwhile.
            missing = self.store.cache().read(self.object.id, &extended, |start, bytes| {
                for ReadRange { offset, buffer } in &mut *ranges {
                    copy(buffer, *offset, start, bytes);
                }
            });
        }
        let fetched = self.fetch(&requests(missing), |start, bytes| {
            for ReadRange { offset, buffer } in &mut *ranges {
                copy(buffer, *offset, start, bytes);
            }
        });
        fetched.map_err(|fault| fault.at("read", &self.path))
    }

    fn announce(&self, range: Range<u64>) {
        *self.announced.lock().unwrap_or_else(PoisonError::into_inner) = range;
    }

    fn shared(&self, offset: u64, len: u64) -> Option<Bytes> {
        self.store.cache().shared(self.object.id, &(offset..offset.checked_add(len)?))
    }

    fn check_unchanged(&self) -> Result<()> {
        // Every response was compared with the version that was opened.
        Ok(())
    }

    fn check_in_place(&self) -> Result<()> {
        let known = self.object.version.clone();
        // Not with `If-Match`, so that the difference can be named.
        let now = self.store.fetch(&self.key, 0..1, None);
        let compared = now.and_then(|now| known.expect(&now.version));
        compared.map_err(|fault| fault.at("inspect", &self.path))
    }
}

/// Copies the part of `bytes`, at `start`, that is in `buffer`, at `offset`.
fn copy(buffer: &mut [u8], offset: u64, start: u64, bytes: &[u8]) {
    let begin = offset.max(start);
    let end = (offset + buffer.len() as u64).min(start + bytes.len() as u64);
    if begin >= end {
        return;
    }
    let at = |position: u64, base: u64| usize::try_from(position - base).unwrap_or(usize::MAX);
    let from = bytes.get(at(begin, start)..at(end, start));
    let to = buffer.get_mut(at(begin, offset)..at(end, offset));
    if let (Some(from), Some(to)) = (from, to) {
        to.copy_from_slice(from);
    }
}

/// Joins ranges that are close to each other, and splits long ones.
fn requests(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(MAX_GAP) => {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    let split = |range: Range<u64>| {
        let size = usize::try_from(MAX_REQUEST).unwrap_or(usize::MAX);
        range.clone().step_by(size).map(move |start| start..range.end.min(start + MAX_REQUEST))
    };
    joined.into_iter().flat_map(split).collect()
}

/// A file that is not published yet: its contents are those that were written.
#[derive(Debug)]
pub(crate) struct StagedFile {
    path: PathBuf,
    contents: Blob,
}

impl StagedFile {
    pub(crate) fn new(path: &Path, contents: Blob) -> Self {
        Self { path: path.to_path_buf(), contents }
    }
}

impl Source for StagedFile {
    fn len(&self) -> u64 {
        self.contents.len()
    }

    fn identity(&self) -> FileId {
        // Unique while it is staged: staging directories are numbered.
        let mut hasher = std::collections::hash_map::DefaultHasher::new();
        std::hash::Hash::hash(&self.path, &mut hasher);
        FileId(std::hash::Hasher::finish(&hasher), u64::MAX)
    }

    fn read_ranges(&self, ranges: &mut [ReadRange<'_>]) -> Result<()> {
        for ReadRange { offset, buffer } in ranges {
            self.contents.read_at(*offset, buffer).map_err(|error| match error {
                Error::OutOfRange { end, .. } => {
                    let what = format!("it ends before byte {end}");
                    Error::Changed { path: self.path.clone(), what }
                }
                error => error,
            })?;
        }
        Ok(())
    }

    fn check_unchanged(&self) -> Result<()> {
        self.contents.check_unchanged()
    }

    fn check_in_place(&self) -> Result<()> {
        Ok(())
    }
}

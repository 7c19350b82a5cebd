//! Files that are stored as chunks, which other files share.
//!
//! ```text
//! run/step-100/weights.chunks     the table of the file `weights`: its chunks, in order
//!     step-200/weights.chunks
//!     chunks/3f/3f2a..            the bytes of a chunk, by their BLAKE3 hash
//! ```
//!
//! The chunks are beside the directory of the table. Readers open the file by its own name; a table is used if there is no
//! such file. Chunks are never changed, so equal ones are stored once, however many tables refer to them.

use std::collections::{HashSet, VecDeque};
use std::path::Component;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::checks::PIECE;
use crate::store::Sink;
use crate::{
    CheckedJson, Commit, Dir, Error, FileId, Links, Location, Progress, ReadRange, Result, Schema,
    Source, SourceFile, WriterLock, internal,
};

/// The name of the directory of chunks, beside the directories of tables.
pub const CHUNKS: &str = "chunks";

/// The suffix of tables.
pub(crate) const SUFFIX: &str = ".chunks";

/// Maximum size of a chunk in bytes.
const MAX_CHUNK: u64 = PIECE;

/// Maximum number of chunks of a file that are open at a time.
const MAX_OPEN: usize = 32;

/// Maximum number of files of a directory in which tables are searched for.
const MAX_FILES: usize = 1_000_000;

const TABLE: CheckedJson = CheckedJson {
    kind: "table of chunks",
    name: SUFFIX,
    max_len: 128 << 20,
    before: "\"self\": \"",
    after: "\"}\n",
};

#[derive(Serialize, Deserialize)]
struct Table {
    schema: Schema<1>,
    hash: String,
    size: u64,
    /// The hash and the size of each chunk.
    chunks: Vec<(String, u64)>,
}

/// The algorithm of the hashes.
const HASH: &str = "BLAKE3";

/// A file that is assembled from chunks.
#[derive(Debug)]
struct Chunked {
    table: Box<dyn Source>,
    root: Location,
    /// The offset of each chunk in the file, its hash, and its size.
    chunks: Vec<(u64, String, u64)>,
    len: u64,
    opened: Mutex<VecDeque<(usize, Arc<dyn Source>)>>,
}

/// Opens the file whose table is `table`; `file` is its own location.
///
/// # Errors
/// Fails if the table cannot be used.
pub(crate) fn open(table: Box<dyn Source>, file: &Location) -> Result<Box<dyn Source>> {
    let place = file.append(SUFFIX);
    let read = SourceFile::new(place.clone(), table);
    let Table { hash, size, chunks, .. } = TABLE.read_file(&read, &place)?;
    let odd = |what: String| TABLE.contradiction_in(&place, what);
    if hash != HASH {
        return Err(odd(format!("expected hashes of {HASH}, not `{hash}`")));
    }
    let (mut placed, mut len) = (Vec::with_capacity(chunks.len()), 0_u64);
    for (hash, size) in chunks {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if hash.len() != 64 || !hash.bytes().all(is_digit) || !(1..=MAX_CHUNK).contains(&size) {
            return Err(odd(format!("a chunk `{hash}` of {size} bytes")));
        }
        placed.push((len, hash, size));
        len += size;
    }
    if len != size {
        return Err(odd(format!("chunks of {len} bytes in a file of {size}")));
    }
    let (table, root) = (read.into_source(), beside(&file.directory()));
    Ok(Box::new(Chunked { table, root, chunks: placed, len, opened: Mutex::default() }))
}

/// Returns the directory of chunks beside a directory.
fn beside(directory: &Location) -> Location {
    let directory = directory.link_target().unwrap_or_else(|| directory.clone());
    match directory.path().components().next_back() {
        Some(Component::Normal(_)) => directory.directory().join(CHUNKS),
        _ => directory.join("..").join(CHUNKS),
    }
}

/// Returns the location of a chunk.
fn place_of(root: &Location, hash: &str) -> Location {
    root.join(hash.get(..2).unwrap_or_default()).join(hash)
}

impl Chunked {
    fn chunk(&self, number: usize) -> Result<Arc<dyn Source>> {
        let opened = || self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let found = |opened: &MutexGuard<'_, VecDeque<(usize, Arc<dyn Source>)>>| {
            opened.iter().find(|(known, _)| *known == number).map(|(_, chunk)| Arc::clone(chunk))
        };
        if let Some(chunk) = found(&opened()) {
            return Ok(chunk);
        }
        let chunk = self.chunks.get(number).ok_or_else(|| internal("no such chunk"))?;
        let (_, hash, size) = chunk;
        let place = place_of(&self.root, hash);
        let chunk: Arc<dyn Source> = place.store().open(place.path(), false)?.into();
        if chunk.len() != *size {
            let (sealed, found) = (*size, chunk.len());
            return Err(Error::Resized { path: place.to_path_buf(), sealed, found });
        }
        let mut opened = opened();
        opened.push_back((number, Arc::clone(&chunk)));
        if opened.len() > MAX_OPEN {
            opened.pop_front();
        }
        Ok(chunk)
    }
}

impl Source for Chunked {
    fn len(&self) -> u64 {
        self.len
    }

    fn identity(&self) -> FileId {
        // That of the table, which is another file.
        let FileId(one, two) = self.table.identity();
        FileId(one, !two)
    }

    fn read_ranges(&self, ranges: &mut [ReadRange<'_>]) -> Result<()> {
        for range in ranges {
            let (mut at, mut rest) = (range.offset, &mut *range.buffer);
            while !rest.is_empty() {
                let number = self.chunks.partition_point(|(start, _, size)| start + size <= at);
                let Some((start, _, size)) = self.chunks.get(number) else {
                    let origin = self.root.path().display().to_string();
                    let end = at + rest.len() as u64;
                    return Err(Error::OutOfRange { origin, start: at, end, len: self.len });
                };
                let left = usize::try_from(start + size - at).unwrap_or(usize::MAX);
                let (now, later) = rest.split_at_mut(left.min(rest.len()));
                let (offset, len) = (at - start, now.len() as u64);
                let chunk = self.chunk(number)?;
                chunk.read_ranges(&mut [ReadRange { offset, buffer: now }])?;
                at += len;
                rest = later;
            }
        }
        Ok(())
    }

    fn check_unchanged(&self) -> Result<()> {
        self.table.check_unchanged()
    }

    fn check_in_place(&self) -> Result<()> {
        self.table.check_in_place()
    }

    fn check_only_name(&self) -> Result<()> {
        self.table.check_only_name()
    }
}

/// Cuts what is written into chunks, and stores those that are new.
#[derive(Debug)]
pub(crate) struct Chunker {
    commit: Commit,
    root: Location,
    buffer: Vec<u8>,
    chunks: Vec<(String, u64)>,
    /// Hashes that this file has already.
    known: HashSet<String>,
    size: u64,
}

/// The sink of a file in chunks; the chunker outlives it.
#[derive(Debug)]
pub(crate) struct ChunkSink(pub(crate) Arc<Mutex<Chunker>>);

impl Chunker {
    /// Begins a file; `root` is the directory of chunks.
    pub(crate) fn new(root: &Location, progress: Progress) -> Result<Self> {
        let commit = Commit::existing(root, progress)?;
        let (buffer, chunks, known) = (Vec::new(), Vec::new(), HashSet::new());
        Ok(Self { commit, root: root.clone(), buffer, chunks, known, size: 0 })
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = usize::try_from(MAX_CHUNK).unwrap_or(usize::MAX) - self.buffer.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(now);
            self.size += now.len() as u64;
            if now.len() == room {
                self.cut()?;
            }
            bytes = later;
        }
        Ok(())
    }

    /// Ends a chunk.
    fn cut(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let (hash, size) = (blake3::hash(&self.buffer).to_hex().to_string(), self.buffer.len());
        let place = place_of(&self.root, &hash);
        // A chunk of another size is damaged, and is replaced.
        let is_stored = || place.stamp().is_ok_and(|stamp| stamp.len == size as u64);
        if self.known.insert(hash.clone()) && !is_stored() {
            let name = format!("{}/{hash}", hash.get(..2).unwrap_or_default());
            self.commit.write::<Error>(&name, |out| out.put(&self.buffer))?;
        }
        self.chunks.push((hash, size as u64));
        self.buffer.clear();
        Ok(())
    }

    /// Publishes the new chunks, and then writes the table to `commit`.
    pub(crate) fn finish(self, name: &str, commit: &mut Commit) -> Result<()> {
        self.commit.publish()?;
        let (schema, hash) = (Schema, HASH.to_owned());
        let table = Table { schema, hash, size: self.size, chunks: self.chunks };
        commit.write(&format!("{name}{SUFFIX}"), |out| TABLE.write(out, &table))
    }
}

impl ChunkSink {
    fn with<T>(&self, work: impl FnOnce(&mut Chunker) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sink for ChunkSink {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.with(|chunker| chunker.put(bytes))
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.with(|chunker| {
            let start = chunker.size - chunker.buffer.len() as u64;
            let within = offset.checked_sub(start).and_then(|at| usize::try_from(at).ok());
            let range = within.and_then(|at| chunker.buffer.get_mut(at..)?.get_mut(..bytes.len()));
            range
                .ok_or_else(|| internal("a chunk was stored before it was changed"))?
                .copy_from_slice(bytes);
            Ok(())
        })
    }

    fn only_appends(&self) -> bool {
        true
    }

    fn boundary(&mut self) -> Result<()> {
        self.with(Chunker::cut)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.with(Chunker::cut)
    }
}

/// The chunks that [`prune_chunks`] removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrunedChunks {
    /// The number of chunks.
    pub count: usize,
    /// Their size in bytes.
    pub nbytes: u64,
}

/// Removes the chunks beside the directories in `directory` to which no table in one of them refers.
///
/// # Errors
/// [`Error::Locked`] while a checkpoint with chunks is being saved; fails if a table cannot be used, since the chunks to which
/// it refers are unknown. Nothing is removed then.
pub fn prune_chunks(directory: impl Into<Location>, progress: &Progress) -> Result<PrunedChunks> {
    let directory = directory.into().or_here();
    let root = directory.join(CHUNKS);
    let mut pruned = PrunedChunks::default();
    if !root.is_dir() {
        return Ok(pruned);
    }
    let lock = WriterLock::take(&root)?;
    let mut used = HashSet::new();
    for entry in directory.list()?.iter().filter(|entry| entry.is_dir && entry.name != CHUNKS) {
        let below = Dir::open(directory.join(&entry.name), Links::Confined, false)?;
        for name in below.files(MAX_FILES)?.iter().filter(|name| name.ends_with(SUFFIX)) {
            progress.advance(0)?;
            let place = below.location().join(name);
            let table: Table = TABLE.read_file(&SourceFile::open(&place, false)?, &place)?;
            used.extend(table.chunks.into_iter().map(|(hash, _)| hash));
        }
    }
    lock.check()?;
    for folder in root.list()?.iter().filter(|entry| entry.is_dir) {
        let folder = root.join(&folder.name);
        for entry in folder.list()?.iter().filter(|entry| !entry.is_dir) {
            if !used.contains(&entry.name) {
                let chunk = folder.join(&entry.name);
                let len = chunk.stamp()?.len;
                chunk.remove_file(progress)?;
                pruned.count += 1;
                pruned.nbytes += len;
            }
        }
    }
    Ok(pruned)
}

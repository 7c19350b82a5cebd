//! Files in chunks, which several files can share.
//!
//! ```text
//! run/step-100/weights.chunks     the table of the file `weights`: its chunks, in order
//!     step-200/weights.chunks
//!     chunks/3f/3f2a..            the bytes of a chunk, by their BLAKE3 hash
//! ```
//!
//! The chunks are beside the directory of the table. Readers open the file by its own name; a table is used if there is no
//! such file. Chunks are never changed, so equal ones are stored once, however many tables refer to them.
//!
//! A [`Dir`](crate::Dir) opens such a file by its name.

use std::collections::{HashSet, VecDeque};
use std::path::Component;
use std::sync::{Arc, Mutex, PoisonError};

use blake3::{Hash, Hasher};
use serde::{Deserialize, Serialize};

use crate::checks::PIECE;
use crate::store::Sink;
use crate::{
    Blob, CheckedJson, Commit, Dir, Error, FileId, Folder, Links, Location, Output, Progress,
    ReadRange, Result, Schema, Source, SourceFile, WriterLock, internal,
};

/// The name of the directory of chunks, beside the directories of tables.
const CHUNKS: &str = "chunks";

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
    chunks: Vec<Entry>,
}

/// The hash and the size of a chunk.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "(String, u64)", into = "(String, u64)")]
struct Entry {
    hash: Hash,
    size: u64,
}

impl TryFrom<(String, u64)> for Entry {
    type Error = String;

    fn try_from((hash, size): (String, u64)) -> Result<Self, String> {
        let known = Hash::from_hex(&hash).ok().filter(|known| known.to_hex().as_str() == hash);
        match known.filter(|_| (1..=MAX_CHUNK).contains(&size)) {
            Some(hash) => Ok(Self { hash, size }),
            None => Err(format!("a chunk `{hash}` of {size} bytes")),
        }
    }
}

impl From<Entry> for (String, u64) {
    fn from(Entry { hash, size }: Entry) -> Self {
        (hash.to_hex().to_string(), size)
    }
}

/// The algorithm of the hashes.
const HASH: &str = "BLAKE3";

/// A file that is assembled from chunks.
#[derive(Debug)]
struct Chunked {
    table: Box<dyn Source>,
    root: Location,
    /// The offset of each chunk in the file.
    chunks: Vec<(u64, Entry)>,
    len: u64,
    opened: Mutex<Opened>,
}

/// The directory of chunks, and those that were opened last.
#[derive(Debug, Default)]
struct Opened {
    folder: Option<Box<dyn Folder>>,
    chunks: VecDeque<(usize, Arc<dyn Source>)>,
}

/// Opens the file whose table is `table`; `file` is its own location.
///
/// # Errors
/// Fails if the table cannot be used.
pub(crate) fn open(table: Box<dyn Source>, file: &Location) -> Result<Box<dyn Source>> {
    Ok(Box::new(Chunked::new(table, file)?))
}

/// Fails unless all chunks of a table are there, with their sizes. `file` is the location of the file.
///
/// # Errors
/// The errors of reading the table, or of opening a chunk.
pub(crate) fn check(file: &Location) -> Result<()> {
    let place = file.append(SUFFIX);
    let chunked = Chunked::new(place.store().open(place.path(), false)?, file)?;
    (0..chunked.chunks.len()).try_for_each(|number| chunked.chunk(number).map(drop))
}

/// Returns the directory of the chunks of files in a directory: `chunks` beside it.
pub fn chunks_beside(directory: &Location) -> Location {
    let directory = directory.link_target().unwrap_or_else(|| directory.clone());
    match directory.path().components().next_back() {
        Some(Component::Normal(_)) => directory.directory().join(CHUNKS),
        _ => directory.join("..").join(CHUNKS),
    }
}

/// Returns the name of a chunk in the directory of chunks.
fn name_of(hash: &Hash) -> String {
    let hash = hash.to_hex();
    format!("{}/{hash}", hash.get(..2).unwrap_or_default())
}

impl Chunked {
    fn new(table: Box<dyn Source>, file: &Location) -> Result<Self> {
        let place = file.append(SUFFIX);
        let read = SourceFile::new(place.clone(), table);
        let Table { hash, size, chunks, .. } = TABLE.read_file(&read, &place)?;
        let odd = |what: String| TABLE.contradiction_in(&place, what);
        if hash != HASH {
            return Err(odd(format!("expected hashes of {HASH}, not `{hash}`")));
        }
        let mut len = 0_u64;
        let place_of = |entry: Entry| {
            let start = len;
            len = len.saturating_add(entry.size);
            (start, entry)
        };
        let chunks = chunks.into_iter().map(place_of).collect();
        if len != size {
            return Err(odd(format!("chunks of {len} bytes in a file of {size}")));
        }
        let (table, root) = (read.into_source(), chunks_beside(&file.directory()));
        Ok(Self { table, root, chunks, len, opened: Mutex::default() })
    }

    fn chunk(&self, number: usize) -> Result<Arc<dyn Source>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let found = opened.chunks.iter().find(|(known, _)| *known == number);
        if let Some((_, chunk)) = found {
            return Ok(Arc::clone(chunk));
        }
        let (_, Entry { hash, size }) =
            self.chunks.get(number).ok_or_else(|| internal("no such chunk"))?;
        let (name, Opened { folder, chunks }) = (name_of(hash), &mut *opened);
        // Links that lead out of the directory are refused.
        let folder = match folder {
            Some(folder) => folder,
            None => {
                folder.insert(self.root.store().folder(self.root.path(), Links::Confined, false)?)
            }
        };
        let path = || self.root.join(&name).to_path_buf();
        let missing = || Error::io("open", path())(std::io::ErrorKind::NotFound.into());
        let chunk: Arc<dyn Source> = folder.open(&name)?.ok_or_else(missing)?.into();
        if chunk.len() != *size {
            return Err(Error::Resized { path: path(), sealed: *size, found: chunk.len() });
        }
        chunks.push_back((number, Arc::clone(&chunk)));
        if chunks.len() > MAX_OPEN {
            chunks.pop_front();
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
                let number = self.chunks.partition_point(|(start, chunk)| start + chunk.size <= at);
                let Some((start, Entry { size, .. })) = self.chunks.get(number) else {
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
    /// The bytes of the current chunk.
    buffer: Vec<u8>,
    chunks: Vec<Entry>,
    /// Hashes that this file has already.
    known: HashSet<Hash>,
    size: u64,
}

/// The sink of a file in chunks; the chunker outlives it.
#[derive(Debug)]
pub(crate) struct ChunkSink(pub(crate) Arc<Mutex<Chunker>>);

impl Chunker {
    /// Begins a file; `root` is the directory of chunks.
    pub(crate) fn new(root: Location) -> Result<Self> {
        // The bytes are counted, and the work is cancelled, where they are written to the file.
        let commit = Commit::existing(&root, Progress::default())?;
        let (buffer, chunks) = (Vec::new(), Vec::new());
        Ok(Self { commit, root, buffer, chunks, known: HashSet::new(), size: 0 })
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

    /// Ends the chunk of the buffer.
    fn cut(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            let buffer = std::mem::take(&mut self.buffer);
            self.keep(blake3::hash(&buffer), buffer.len() as u64, |out| out.put(&buffer))?;
            self.buffer = buffer;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Appends a chunk, and stores it with `fill` unless it is stored already.
    fn keep(
        &mut self,
        hash: Hash,
        size: u64,
        fill: impl FnOnce(&mut Output) -> Result<()>,
    ) -> Result<()> {
        let name = name_of(&hash);
        // A chunk of another size is damaged, and is replaced.
        let is_stored = || self.root.join(&name).stamp().is_ok_and(|stamp| stamp.len == size);
        if !self.known.contains(&hash) && !is_stored() {
            self.commit.write(&name, fill)?;
        }
        self.known.insert(hash);
        self.chunks.push(Entry { hash, size });
        Ok(())
    }

    /// Appends a piece as a chunk. Most pieces are stored already, so they are hashed where they are, without a copy.
    fn share(&mut self, piece: &Blob, seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.cut()?;
        let mut hasher = Hasher::new();
        piece.for_each_chunk::<Error>(|bytes| {
            seen(bytes);
            hasher.update(bytes);
            Ok(())
        })?;
        let hash = hasher.finalize();
        self.size += piece.len();
        self.keep(hash, piece.len(), |out| {
            hasher.reset();
            piece.for_each_chunk::<Error>(|bytes| {
                hasher.update(bytes);
                out.put(bytes)
            })?;
            match hasher.finalize() == hash {
                true => Ok(()),
                false => Err(Error::Unsteady),
            }
        })
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

    fn share(&mut self, piece: &Blob, seen: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.with(|chunker| chunker.share(piece, seen))?;
        Ok(true)
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
/// [`Error::Locked`] while a checkpoint with chunks is being saved; fails if an entry of the directory or a table cannot be read,
/// or is a link to a directory, since the chunks that it uses are unknown. Nothing is removed then.
pub fn prune_chunks(directory: impl Into<Location>, progress: &Progress) -> Result<PrunedChunks> {
    let directory = directory.into().or_here();
    let root = directory.join(CHUNKS);
    let mut pruned = PrunedChunks::default();
    if !root.is_there()? {
        return Ok(pruned);
    }
    let refuse = |path: &Location, found| Err(Error::NotAFile { path: path.to_path_buf(), found });
    if root.link_target().is_some() {
        return refuse(&root, "a link, through which other checkpoints may use the chunks");
    }
    let lock = WriterLock::take(&root)?;
    root.recover()?;
    let listing = Dir::open(&directory, Links::Confined, false)?.everything(MAX_FILES)?;
    if let Some((name, found)) = listing.others.first() {
        return refuse(&directory.join(name), found);
    }
    let (mut used, mut stored) = (HashSet::new(), Vec::new());
    for name in &listing.files {
        match name.strip_prefix(CHUNKS).and_then(|name| name.strip_prefix('/')) {
            Some(name) => {
                let hash = name.get(3..).and_then(|hash| Hash::from_hex(hash).ok());
                stored.extend(hash.filter(|hash| name_of(hash) == name));
            }
            None if name.ends_with(SUFFIX) && name.contains('/') => {
                progress.advance(0)?;
                let place = directory.join(name);
                let table: Table = TABLE.read_file(&SourceFile::open(&place, false)?, &place)?;
                used.extend(table.chunks.into_iter().map(|chunk| chunk.hash));
            }
            None => {}
        }
    }
    lock.check()?;
    for hash in stored.iter().filter(|hash| !used.contains(hash)) {
        let chunk = root.join(name_of(hash));
        let len = chunk.stamp()?.len;
        chunk.remove_file(progress)?;
        pruned.count += 1;
        pruned.nbytes += len;
    }
    Ok(pruned)
}

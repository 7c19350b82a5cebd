//! Checksums of files, and their verification.
//!
//! A file is divided into parts (a tensor, or the bytes between tensors). A part is checked in pieces of at most
//! [`PIECE`] bytes, which messages call chunks. A file with [checks](crate::SourceFile::checked) returns no byte of a
//! piece before it has verified the checksum of that piece.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};

use crate::blob::{CHUNK, to_usize};
use crate::memory::Memory;
use crate::{Blob, CheckedJson, Error, Progress, Result, SourceFile, parallel};

/// Maximum bytes per checksum.
pub const PIECE: u64 = 16 << 20;

/// Size of a read whose bytes are still in the second-level cache of a core when they are checksummed.
const NEAR: usize = 256 << 10;

/// The name of the file with the checksums of the other files of a directory. It is not part of any model, and
/// listings omit it.
pub const SEAL: &str = "lodstone.seal";

/// The format of seal files.
///
/// A part of a file takes 200 bytes and the name of a tensor, so 128 MiB hold half a million tensors; the largest models
/// have a third of that. Reading a seal takes up to five times its size in memory, and keeping it three times.
pub const SEAL_FILE: CheckedJson = CheckedJson {
    kind: "seal",
    name: SEAL,
    max_len: 128 << 20,
    before: "\"self\": \"",
    after: "\"}\n",
};

/// Returns the checksum of bytes: CRC-64/NVME, which detects every single-bit change and every burst of up to 64 bits,
/// and misses one in 2⁶⁴ of all other changes.
pub fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(ALGORITHM, bytes)
}

/// An incremental [`checksum`].
#[derive(Debug)]
pub struct Checksum(Digest);

impl Default for Checksum {
    fn default() -> Self {
        Self(Digest::new(ALGORITHM))
    }
}

impl Checksum {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the checksum of all bytes so far.
    pub fn value(&self) -> u64 {
        self.0.finalize()
    }
}

const ALGORITHM: CrcAlgorithm = CrcAlgorithm::Crc64Nvme;

/// Returns the CRC-32 of all bytes of a blob, as zip archives use it.
///
/// # Errors
/// Fails if reading fails.
pub fn crc32_of(blob: &Blob) -> Result<u32> {
    let mut digest = Digest::new(CrcAlgorithm::Crc32IsoHdlc);
    blob.for_each_chunk::<Error>(|chunk| {
        digest.update(chunk);
        Ok(())
    })?;
    // The value has 32 bits.
    Ok(u32::try_from(digest.finalize()).unwrap_or(0))
}

/// A contiguous part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The tensor whose elements the part holds; `None` for bytes between tensors.
    pub tensor: Option<String>,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
    /// The checksum of each piece.
    pub checksums: Vec<u64>,
}

/// A piece with a checksum mismatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The tensor of the piece, if any.
    pub tensor: Option<String>,
    /// The index of the piece in its part, from 0.
    pub piece: usize,
    /// The number of pieces of the part.
    pub pieces: usize,
    /// The offset of the piece in the file, in bytes.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
}

/// The parts of a file, and which pieces have been verified.
#[derive(Debug)]
pub struct Checks {
    parts: Vec<Part>,
    /// For each part, the index of its first piece.
    first: Vec<usize>,
    verified: Vec<AtomicBool>,
    len: u64,
}

impl Part {
    /// Computes the parts of a file from its current contents. `stretches` are the lengths of the parts in bytes, from
    /// the start of the file to its end, each with the name of its tensor, if any.
    ///
    /// # Errors
    /// Fails if reading fails or the work is cancelled.
    pub fn all_of(
        file: &Blob,
        stretches: Vec<(u64, Option<String>)>,
        progress: &Progress,
    ) -> Result<Vec<Self>> {
        let (mut parts, mut offset) = (Vec::with_capacity(stretches.len()), 0);
        for (len, tensor) in stretches {
            parts.push(Self { tensor, offset, len, checksums: Vec::new() });
            offset += len;
        }
        let pieces: Vec<_> = parts.iter().flat_map(|part| pieces(part.offset, part.len)).collect();
        let read = |offset, buffer: &mut [u8]| {
            progress.advance(buffer.len() as u64)?;
            file.read_at(offset, buffer)
        };
        let source = ByteSource { read: &read, fetch: &|offset, len| file.fetch(offset, len) };
        let mut checksums = checksums(&pieces, &source, &mut [])?.into_iter();
        for part in &mut parts {
            let count = to_usize(part.len.div_ceil(PIECE));
            part.checksums = checksums.by_ref().take(count).collect();
        }
        Ok(parts)
    }
}

/// A range of a file under one checksum.
#[derive(Clone, Copy, Debug)]
struct Piece {
    offset: u64,
    len: u64,
}

/// Returns the pieces of the `len` bytes at `offset`.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = Piece> {
    let starts = (0..len.div_ceil(PIECE)).map(|piece| piece * PIECE);
    starts.map(move |start| Piece { offset: offset + start, len: PIECE.min(len - start) })
}

/// The number of chunks to prefetch.
const PREFETCH_CHUNKS: usize = 32;

/// Access to the bytes to be checksummed.
struct ByteSource<'a> {
    read: &'a (dyn Fn(u64, &mut [u8]) -> Result<()> + Sync),
    /// Hints that the system should prefetch bytes.
    fetch: &'a (dyn Fn(u64, usize) + Sync),
}

/// Returns the checksums of `pieces`, in order, combined from those of chunks. The bytes are stored in `memory`, which
/// has room for all pieces or is empty.
fn checksums(pieces: &[Piece], source: &ByteSource<'_>, memory: &mut [u8]) -> Result<Vec<u64>> {
    let (chunks, shares) = chunks(pieces);
    let mut of_shares = vec![0; shares.len()];
    let (mut work, mut left, mut rest) = (Vec::new(), shares.as_slice(), &mut *of_shares);
    let mut room = memory;
    for (number, chunk) in chunks.iter().enumerate() {
        let (shares, later) = left.split_at(chunk.shares);
        let (checksums, of_later) = rest.split_at_mut(chunk.shares);
        let (here, room_of_later) = room.split_at_mut(chunk.len.min(room.len()));
        // Chunks are started in order: the first prefetches those after it, and each other one a further chunk. A
        // single chunk is read directly.
        let first = if number == 0 { 1 } else { number + PREFETCH_CHUNKS };
        let end = chunks.len().min(number + PREFETCH_CHUNKS + 1);
        let soon = chunks.get(first..end).unwrap_or_default();
        work.push((chunk, shares, checksums, here, soon));
        (left, rest, room) = (later, of_later, room_of_later);
    }
    parallel::for_each(work, Vec::new, |buffer, (chunk, shares, checksums, here, soon)| {
        soon.iter().for_each(|soon| (source.fetch)(soon.offset, soon.len));
        let bytes = match here.is_empty() {
            true => {
                buffer.resize(chunk.len, 0);
                buffer.as_mut_slice()
            }
            false => here,
        };
        (source.read)(chunk.offset, bytes)?;
        let mut rest = &*bytes;
        for (share, of_share) in shares.iter().zip(checksums) {
            let (now, later) = rest.split_at(share.len);
            *of_share = checksum(now);
            rest = later;
        }
        Ok(())
    })?;
    // The checksum of no bytes.
    let mut checksums = vec![0; pieces.len()];
    for (share, of_share) in shares.iter().zip(of_shares) {
        if let Some(checksum) = checksums.get_mut(share.piece) {
            *checksum = combine(*checksum, of_share, share.len as u64);
        }
    }
    Ok(checksums)
}

/// A range that is read at once, and the number of pieces that overlap it.
struct Chunk {
    offset: u64,
    len: usize,
    shares: usize,
}

/// The bytes of a chunk that belong to one piece.
struct Share {
    piece: usize,
    len: usize,
}

/// Divides pieces into chunks that fit the cache of a processor; small consecutive pieces share a chunk.
fn chunks(pieces: &[Piece]) -> (Vec<Chunk>, Vec<Share>) {
    let (mut chunks, mut shares) = (Vec::<Chunk>::new(), Vec::new());
    for (piece, Piece { offset, len }) in pieces.iter().enumerate() {
        let (mut offset, mut left) = (*offset, *len);
        while left > 0 {
            let follows =
                |chunk: &&mut Chunk| chunk.len < CHUNK && chunk.offset + chunk.len as u64 == offset;
            let len = match chunks.last_mut().filter(follows) {
                Some(chunk) => {
                    let len = to_usize(left).min(CHUNK - chunk.len);
                    chunk.len += len;
                    chunk.shares += 1;
                    len
                }
                None => {
                    let len = to_usize(left).min(CHUNK);
                    chunks.push(Chunk { offset, len, shares: 1 });
                    len
                }
            };
            shares.push(Share { piece, len });
            offset += len as u64;
            left -= len as u64;
        }
    }
    (chunks, shares)
}

/// Combines the checksum of the first bytes with that of the following `len` bytes: the first, multiplied by x to the
/// power of `8 * len`, plus the second, modulo the polynomial (as in zlib's `crc32_combine`; the function of our library
/// takes longer than the checksum itself).
fn combine(first: u64, last: u64, mut len: u64) -> u64 {
    if first == 0 {
        return last;
    }
    let (mut power, mut square) = (ONE, ONE >> 8);
    while len > 0 {
        if len & 1 == 1 {
            power = product(power, square);
        }
        square = product(square, square);
        len >>= 1;
    }
    product(first, power) ^ last
}

/// The polynomial 1, whose only coefficient is the highest bit, as in all reflected CRCs.
const ONE: u64 = 1 << 63;

/// The polynomial of CRC-64/NVME.
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

/// Multiplies two polynomials modulo that of the checksum.
fn product(a: u64, mut b: u64) -> u64 {
    let mut product = 0;
    for bit in (0..64).rev() {
        if a >> bit & 1 == 1 {
            product ^= b;
        }
        b = (b >> 1) ^ if b & 1 == 1 { POLYNOMIAL } else { 0 };
    }
    product
}

impl Checks {
    /// Creates the checks of a file; `None` unless the parts cover the whole file without gaps, each with a
    /// checksum per piece.
    pub fn new(parts: Vec<Part>) -> Option<Self> {
        let (mut len, mut first, mut pieces) = (0_u64, Vec::with_capacity(parts.len()), 0_usize);
        for part in &parts {
            let fits = part.offset == len && part.len > 0;
            let count = usize::try_from(part.len.div_ceil(PIECE)).ok()?;
            if !fits || part.checksums.len() != count {
                return None;
            }
            first.push(pieces);
            len = len.checked_add(part.len)?;
            pieces = pieces.checked_add(count)?;
        }
        let verified = std::iter::repeat_with(AtomicBool::default).take(pieces).collect();
        Some(Self { parts, first, verified, len })
    }

    /// Returns the size of the file in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the file is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of pieces.
    pub fn pieces(&self) -> usize {
        self.verified.len()
    }

    /// Returns the parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the number of bytes from `offset` to the end of its part.
    pub(crate) fn left_of_part(&self, offset: u64) -> u64 {
        let part = self.parts.partition_point(|part| part.offset + part.len <= offset);
        self.parts.get(part).map_or(0, |part| part.offset + part.len - offset)
    }

    /// Returns the offset of the piece that byte `offset` is in.
    pub(crate) fn begin_of_piece(&self, offset: u64) -> u64 {
        self.places(offset, 1).next().map_or(offset, |place| place.piece.offset)
    }

    /// Verifies those of the `len` bytes at `offset` that have not been verified yet.
    ///
    /// # Errors
    /// [`Error::Damaged`] for the first mismatch, or the error of the read.
    pub(crate) fn check(&self, file: &SourceFile, offset: u64, len: u64) -> Result<()> {
        self.verify(file, &self.unverified(offset, len), &mut [])
    }

    /// Reads and verifies pieces; their bytes are stored in `memory`, unless it is empty.
    fn verify(
        &self,
        file: &SourceFile,
        places: &[CheckedPiece<'_>],
        memory: &mut [u8],
    ) -> Result<()> {
        let read = |at, buffer: &mut [u8]| file.read_plain(at, buffer);
        let source = ByteSource { read: &read, fetch: &|at, len| file.prefetch(at, len as u64) };
        let checksums = checksums(&pieces_in(places), &source, memory)?;
        let mut verified = places.iter().zip(checksums);
        verified.try_for_each(|(place, checksum)| self.verify_piece(file, place, checksum))
    }

    /// Reads all bytes of the file and verifies each, including those verified before.
    ///
    /// # Errors
    /// [`Error::Damaged`] for the first mismatch, the error of the read, or an error if memory is insufficient.
    pub(crate) fn read_all(&self, file: &SourceFile) -> Result<Bytes> {
        let mut memory = Memory::zeroed(self.len)?;
        self.verify(file, &self.places(0, self.len).collect::<Vec<_>>(), &mut memory)?;
        Ok(memory.freeze())
    }

    /// Fills `buffer` with verified bytes at `offset`. Pieces that lie inside the buffer are read only once.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check).
    pub(crate) fn read(&self, file: &SourceFile, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset + buffer.len() as u64;
        let (mut rest, mut at) = (buffer, offset);
        let mut next = |until: u64| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(to_usize(until - at));
            let start = std::mem::replace(&mut at, until);
            rest = later;
            (start, now)
        };
        for place in self.unverified(offset, end - offset) {
            let Piece { offset: begin, len } = place.piece;
            let (start, verified) = next(begin.max(offset));
            file.read_plain(start, verified)?;
            let (start, now) = next((begin + len).min(end));
            if now.len() as u64 == len {
                let mut digest = Digest::new(ALGORITHM);
                for (number, chunk) in now.chunks_mut(NEAR).enumerate() {
                    file.read_plain(start + (number * NEAR) as u64, chunk)?;
                    digest.update(chunk);
                }
                self.verify_piece(file, &place, digest.finalize())?;
            } else {
                self.check(file, begin, len)?;
                file.read_plain(start, now)?;
            }
        }
        let (start, verified) = next(end);
        file.read_plain(start, verified)
    }

    /// Verifies the whole file, and returns all mismatches.
    ///
    /// # Errors
    /// Fails if reading fails or the work is cancelled.
    pub fn damages(&self, file: &SourceFile, progress: &Progress) -> Result<Vec<Damage>> {
        let unverified = self.unverified(0, self.len);
        let read = |at, buffer: &mut [u8]| {
            progress.advance(buffer.len() as u64)?;
            file.read_plain(at, buffer)
        };
        let source = ByteSource { read: &read, fetch: &|at, len| file.prefetch(at, len as u64) };
        let checksums = checksums(&pieces_in(&unverified), &source, &mut [])?;
        let found = unverified.iter().zip(checksums);
        Ok(found.filter_map(|(place, checksum)| self.compare(place, checksum)).collect())
    }

    /// Returns the unverified pieces that overlap the `len` bytes at `offset`.
    fn unverified(&self, offset: u64, len: u64) -> Vec<CheckedPiece<'_>> {
        self.places(offset, len).filter(|place| !place.verified.load(Ordering::Relaxed)).collect()
    }

    /// Returns the pieces that overlap the `len` bytes at `offset`.
    fn places(&self, offset: u64, len: u64) -> impl Iterator<Item = CheckedPiece<'_>> {
        let end = offset.saturating_add(len);
        let begin = self.parts.partition_point(|part| part.offset + part.len <= offset);
        // Slices, rather than `skip`: there may be millions of parts.
        let (parts, first) = (self.parts.get(begin..), self.first.get(begin..));
        let parts = parts.unwrap_or_default().iter().zip(first.unwrap_or_default());
        parts.take_while(move |(part, _)| part.offset < end).flat_map(move |(part, first)| {
            // Pieces before the range have equal sizes and can be skipped at once.
            let passed = to_usize(offset.saturating_sub(part.offset) / PIECE);
            let verified = self.verified.get(first + passed..).unwrap_or_default();
            let pieces = pieces(part.offset, part.len).enumerate().skip(passed);
            let inside = pieces.take_while(move |(_, piece)| piece.offset < end).zip(verified);
            inside.map(move |((number, piece), verified)| CheckedPiece {
                part,
                number,
                piece,
                verified,
            })
        })
    }

    /// Marks a piece as verified, or fails if its checksum does not match.
    fn verify_piece(
        &self,
        file: &SourceFile,
        place: &CheckedPiece<'_>,
        checksum: u64,
    ) -> Result<()> {
        let path = || file.path().to_path_buf();
        self.compare(place, checksum)
            .map_or(Ok(()), |damage| Err(Error::Damaged { path: path(), damage: Box::new(damage) }))
    }

    /// Returns the mismatch if `checksum` is not that of the piece; marks the piece as verified otherwise.
    fn compare(&self, place: &CheckedPiece<'_>, checksum: u64) -> Option<Damage> {
        let CheckedPiece { part, number, piece, verified } = place;
        if part.checksums.get(*number) == Some(&checksum) {
            verified.store(true, Ordering::Relaxed);
            return None;
        }
        let (tensor, pieces) = (part.tensor.clone(), part.checksums.len());
        Some(Damage { tensor, piece: *number, pieces, offset: piece.offset, len: piece.len })
    }
}

/// A piece of a part, and whether it has been verified.
struct CheckedPiece<'a> {
    part: &'a Part,
    number: usize,
    piece: Piece,
    verified: &'a AtomicBool,
}

fn pieces_in(places: &[CheckedPiece<'_>]) -> Vec<Piece> {
    places.iter().map(|place| place.piece).collect()
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (start, end) = (self.offset, self.offset + self.len);
        let (chunk, chunks) = (self.piece + 1, self.pieces);
        match &self.tensor {
            Some(tensor) => write!(f, "tensor `{tensor}`, chunk {chunk} of {chunks}")?,
            None => write!(f, "outside of tensors")?,
        }
        write!(f, " (bytes {start}..{end})")
    }
}

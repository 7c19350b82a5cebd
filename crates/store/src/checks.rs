//! What a file should be, by checksums, and whether it is.
//!
//! A file is cut into parts (a tensor, or what stands between tensors), which are checked by
//! pieces of at most [`PIECE`] bytes. A file that [has checks](crate::SourceFile::checked) answers
//! no byte of a piece before the checksum of that piece was compared.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};

use crate::blob::{CHUNK, to_usize};
use crate::memory::Memory;
use crate::{Blob, CheckedJson, Error, Progress, Result, SourceFile, parallel};

/// Most bytes under one checksum.
pub const PIECE: u64 = 16 << 20;

/// The name of the file that says what the other files of a directory should be. It is part of no
/// model: no listing has it.
pub const SEAL: &str = "lodstone.seal";

/// The file of a seal.
///
/// A part of a file takes 200 bytes and the name of a tensor, so 128 MiB are half a million tensors; the largest models
/// have a third of that. Reading a seal takes up to five times its size in memory, and keeping it three times.
pub const SEAL_FILE: CheckedJson = CheckedJson {
    kind: "seal",
    name: SEAL,
    max_len: 128 << 20,
    before: "\"self\": \"",
    after: "\"}\n",
};

/// The checksum of bytes: CRC-64/NVME, which finds every change of a single bit, every burst of up
/// to 64 bits, and misses one in 2⁶⁴ of all others.
pub fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(ALGORITHM, bytes)
}

/// The [`checksum`] of bytes that come one after the other.
#[derive(Debug)]
pub struct Checksum(Digest);

impl Default for Checksum {
    fn default() -> Self {
        Self(Digest::new(ALGORITHM))
    }
}

impl Checksum {
    /// Takes in more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// That of all so far.
    pub fn value(&self) -> u64 {
        self.0.finalize()
    }
}

const ALGORITHM: CrcAlgorithm = CrcAlgorithm::Crc64Nvme;

/// The CRC-32 of all bytes of a blob, as zip archives have it.
///
/// # Errors
/// What reading gives.
pub fn crc32_of(blob: &Blob) -> Result<u32> {
    let mut digest = Digest::new(CrcAlgorithm::Crc32IsoHdlc);
    blob.for_each_chunk::<Error>(|chunk| {
        digest.update(chunk);
        Ok(())
    })?;
    // It has 32 bits.
    Ok(u32::try_from(digest.finalize()).unwrap_or(0))
}

/// A stretch of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The tensor whose elements it is; nothing for what stands between tensors.
    pub tensor: Option<String>,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub len: u64,
    /// The checksum of each piece.
    pub checksums: Vec<u64>,
}

/// A piece that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The tensor that it belongs to, if to any.
    pub tensor: Option<String>,
    /// Which piece of the part it is, counted from 0.
    pub piece: usize,
    /// How many pieces the part has.
    pub pieces: usize,
    /// Where the piece begins in the file, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub len: u64,
}

/// The parts of one file, and which pieces of them were found to be right.
#[derive(Debug)]
pub struct Checks {
    parts: Vec<Part>,
    /// For each part, the number of its first piece.
    first: Vec<usize>,
    right: Vec<AtomicBool>,
    len: u64,
}

impl Part {
    /// The parts that a file has as it is now: stretches of these lengths in bytes, end to end from
    /// its beginning, each of the tensor of that name or of none.
    ///
    /// # Errors
    /// What reading gives, or if the work was cancelled.
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
        let source = Stretch { read: &read, fetch: &|offset, len| file.fetch(offset, len) };
        let mut checksums = checksums(&pieces, &source, &mut [])?.into_iter();
        for part in &mut parts {
            let count = to_usize(part.len.div_ceil(PIECE));
            part.checksums = checksums.by_ref().take(count).collect();
        }
        Ok(parts)
    }
}

/// A stretch of a file under one checksum.
#[derive(Clone, Copy, Debug)]
struct Piece {
    offset: u64,
    len: u64,
}

/// The pieces of the `len` bytes from `offset`.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = Piece> {
    let starts = (0..len.div_ceil(PIECE)).map(|piece| piece * PIECE);
    starts.map(move |start| Piece { offset: offset + start, len: PIECE.min(len - start) })
}

/// How many chunks the system fetches before they are read.
const AHEAD: usize = 32;

/// What checksums are computed of.
struct Stretch<'a> {
    read: &'a (dyn Fn(u64, &mut [u8]) -> Result<()> + Sync),
    /// Asks the system to have bytes in memory soon.
    fetch: &'a (dyn Fn(u64, usize) + Sync),
}

/// The checksums of pieces, in their order: those of chunks, put together. The bytes are left in `memory`, as much as
/// there is of it: all pieces or nothing.
fn checksums(pieces: &[Piece], source: &Stretch<'_>, memory: &mut [u8]) -> Result<Vec<u64>> {
    let (chunks, shares) = chunks(pieces);
    let mut of_shares = vec![0; shares.len()];
    let (mut work, mut left, mut rest) = (Vec::new(), shares.as_slice(), &mut *of_shares);
    let mut room = memory;
    for (number, chunk) in chunks.iter().enumerate() {
        let (shares, later) = left.split_at(chunk.shares);
        let (checksums, of_later) = rest.split_at_mut(chunk.shares);
        let (here, room_of_later) = room.split_at_mut(chunk.len.min(room.len()));
        // They are begun in order: the first has those behind it fetched, each other one a chunk more. One alone is
        // read at once.
        let first = if number == 0 { 1 } else { number + AHEAD };
        let end = chunks.len().min(number + AHEAD + 1);
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
    // That of nothing, so far.
    let mut checksums = vec![0; pieces.len()];
    for (share, of_share) in shares.iter().zip(of_shares) {
        if let Some(checksum) = checksums.get_mut(share.piece) {
            *checksum = joined(*checksum, of_share, share.len as u64);
        }
    }
    Ok(checksums)
}

/// What is read at once, and how many pieces have a share of it.
struct Chunk {
    offset: u64,
    len: usize,
    shares: usize,
}

/// Bytes of a chunk that belong to one piece.
struct Share {
    piece: usize,
    len: usize,
}

/// Pieces cut into chunks that stay in the cache of a processor; small ones that follow each other
/// share one.
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

/// The checksum of bytes by that of their beginning and that of their last `len`: the first,
/// multiplied with x to the power of `8 * len`, plus the second, modulo the polynomial (as in zlib's
/// `crc32_combine`; that of our library takes longer than the checksum itself).
fn joined(first: u64, last: u64, mut len: u64) -> u64 {
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

/// The polynomial 1, whose only coefficient is the highest bit, as in all checksums of this kind.
const ONE: u64 = 1 << 63;

/// The polynomial of CRC-64/NVME.
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

/// The product of two polynomials modulo that of the checksum.
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
    /// The checks of a file; nothing unless the parts are the whole file, end to end, each with a
    /// checksum a piece.
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
        let right = std::iter::repeat_with(AtomicBool::default).take(pieces).collect();
        Some(Self { parts, first, right, len })
    }

    /// Size of the file in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file should have no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many pieces there are.
    pub fn pieces(&self) -> usize {
        self.right.len()
    }

    /// The parts, end to end.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// How many bytes there are from `offset` to the end of its part.
    pub(crate) fn left_of_part(&self, offset: u64) -> u64 {
        let part = self.parts.partition_point(|part| part.offset + part.len <= offset);
        self.parts.get(part).map_or(0, |part| part.offset + part.len - offset)
    }

    /// Compares what has not been compared of the `len` bytes from `offset`.
    ///
    /// # Errors
    /// [`Error::Damaged`] for the first piece that is not what it was, or what reading gives.
    pub(crate) fn check(&self, file: &SourceFile, offset: u64, len: u64) -> Result<()> {
        self.prove_all(file, &self.unproven(offset, len), &mut [])
    }

    /// Reads places, and compares them; the bytes are left in `memory`, if there is any.
    fn prove_all(&self, file: &SourceFile, places: &[Place<'_>], memory: &mut [u8]) -> Result<()> {
        let read = |at, buffer: &mut [u8]| file.read_plain(at, buffer);
        let source = Stretch { read: &read, fetch: &|at, len| file.prefetch(at, len as u64) };
        let checksums = checksums(&pieces_in(places), &source, memory)?;
        let mut proven = places.iter().zip(checksums);
        proven.try_for_each(|(place, checksum)| self.prove(file, place, checksum))
    }

    /// All bytes of the file, each of which is compared, whatever was compared before.
    ///
    /// # Errors
    /// [`Error::Damaged`] for the first piece that is not what it was, what reading gives, or if there is not so much
    /// memory.
    pub(crate) fn read_all(&self, file: &SourceFile) -> Result<Bytes> {
        let (mut memory, begin) = Memory::aligned(self.len)?;
        let end = begin + to_usize(self.len);
        if let Some(memory) = memory.get_mut(begin..end) {
            self.prove_all(file, &self.places(0, self.len).collect::<Vec<_>>(), memory)?;
        }
        Ok(memory.freeze().slice(begin..end))
    }

    /// Fills `buffer` from `offset` with what the checksums say that it should be: pieces that it
    /// has the room for are read once.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(crate) fn read(&self, file: &SourceFile, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset + buffer.len() as u64;
        let (mut rest, mut at) = (buffer, offset);
        let mut next = |until: u64| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(to_usize(until - at));
            let start = std::mem::replace(&mut at, until);
            rest = later;
            (start, now)
        };
        for place in self.unproven(offset, end - offset) {
            let Piece { offset: begin, len } = place.piece;
            let (start, proven) = next(begin.max(offset));
            file.read_plain(start, proven)?;
            let (start, now) = next((begin + len).min(end));
            if now.len() as u64 == len {
                let mut digest = Digest::new(ALGORITHM);
                for (number, chunk) in now.chunks_mut(CHUNK).enumerate() {
                    file.read_plain(start + (number * CHUNK) as u64, chunk)?;
                    digest.update(chunk);
                }
                self.prove(file, &place, digest.finalize())?;
            } else {
                self.check(file, begin, len)?;
                file.read_plain(start, now)?;
            }
        }
        let (start, proven) = next(end);
        file.read_plain(start, proven)
    }

    /// Compares the whole file, and gives everything that is not what it was.
    ///
    /// # Errors
    /// What reading gives, or if the work was cancelled.
    pub fn damages(&self, file: &SourceFile, progress: &Progress) -> Result<Vec<Damage>> {
        let unproven = self.unproven(0, self.len);
        let read = |at, buffer: &mut [u8]| {
            progress.advance(buffer.len() as u64)?;
            file.read_plain(at, buffer)
        };
        let source = Stretch { read: &read, fetch: &|at, len| file.prefetch(at, len as u64) };
        let checksums = checksums(&pieces_in(&unproven), &source, &mut [])?;
        let found = unproven.iter().zip(checksums);
        Ok(found.filter_map(|(place, checksum)| self.compare(place, checksum)).collect())
    }

    /// The pieces that have bytes among the `len` from `offset` and were not found to be right yet.
    fn unproven(&self, offset: u64, len: u64) -> Vec<Place<'_>> {
        self.places(offset, len).filter(|place| !place.right.load(Ordering::Relaxed)).collect()
    }

    /// The pieces that have bytes among the `len` from `offset`.
    fn places(&self, offset: u64, len: u64) -> impl Iterator<Item = Place<'_>> {
        let end = offset.saturating_add(len);
        let begin = self.parts.partition_point(|part| part.offset + part.len <= offset);
        // Slices, rather than `skip`: there may be millions of parts.
        let (parts, first) = (self.parts.get(begin..), self.first.get(begin..));
        let parts = parts.unwrap_or_default().iter().zip(first.unwrap_or_default());
        parts.take_while(move |(part, _)| part.offset < end).flat_map(move |(part, first)| {
            // Pieces before the range are of equal size and can be passed over at once.
            let passed = to_usize(offset.saturating_sub(part.offset) / PIECE);
            let right = self.right.get(first + passed..).unwrap_or_default();
            let pieces = pieces(part.offset, part.len).enumerate().skip(passed);
            let inside = pieces.take_while(move |(_, piece)| piece.offset < end).zip(right);
            inside.map(move |((number, piece), right)| Place { part, number, piece, right })
        })
    }

    /// Remembers that a piece is right, or fails if it is not.
    fn prove(&self, file: &SourceFile, place: &Place<'_>, checksum: u64) -> Result<()> {
        let path = || file.path().to_path_buf();
        self.compare(place, checksum)
            .map_or(Ok(()), |damage| Err(Error::Damaged { path: path(), damage: Box::new(damage) }))
    }

    /// What is wrong with a piece that has this checksum; one that is right is remembered.
    fn compare(&self, place: &Place<'_>, checksum: u64) -> Option<Damage> {
        let Place { part, number, piece, right } = place;
        if part.checksums.get(*number) == Some(&checksum) {
            right.store(true, Ordering::Relaxed);
            return None;
        }
        let (tensor, pieces) = (part.tensor.clone(), part.checksums.len());
        Some(Damage { tensor, piece: *number, pieces, offset: piece.offset, len: piece.len })
    }
}

/// A piece of a part, and whether it was found to be right.
struct Place<'a> {
    part: &'a Part,
    number: usize,
    piece: Piece,
    right: &'a AtomicBool,
}

fn pieces_in(places: &[Place<'_>]) -> Vec<Piece> {
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

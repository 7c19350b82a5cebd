//! What a file should be, by checksums, and whether it is.
//!
//! A file is cut into parts (a tensor, or what stands between tensors), which are checked by
//! pieces of at most [`PIECE`] bytes. A file that [has checks](crate::SourceFile::checked) answers
//! no byte of a piece before the checksum of that piece was compared.

use std::sync::atomic::{AtomicBool, Ordering};

use crc_fast::{CrcAlgorithm, Digest};

use crate::blob::{CHUNK, read_ahead, to_usize};
use crate::{Blob, Error, Progress, Result, SourceFile, parallel};

/// Most bytes under one checksum.
pub const PIECE: u64 = 16 << 20;

/// The name of the file that says what the other files of a directory should be. It is part of no
/// model: no listing has it.
pub const SEAL: &str = "lodstone.seal";

/// The checksum of bytes: CRC-64/NVME, which finds every change of a single bit, every burst of up
/// to 64 bits, and misses one in 2⁶⁴ of all others.
pub fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

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
        let pieces = parts.iter().flat_map(|part| pieces(part.offset, part.len)).collect();
        let read = |offset, buffer: &mut [u8]| {
            progress.advance(buffer.len() as u64)?;
            file.read_at(offset, buffer)
        };
        let ahead = |offset, len| file.will_need(offset, len);
        let mut checksums = checksums(pieces, &read, &ahead)?.into_iter();
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

/// The checksums of pieces, in their order. They are computed side by side; pieces that follow each
/// other are read together, in chunks that stay in the cache of a processor. `ahead` is told what
/// will be read.
fn checksums(
    pieces: Vec<Piece>,
    read: &(dyn Fn(u64, &mut [u8]) -> Result<()> + Sync),
    ahead: &(dyn Fn(u64, u64) + Sync),
) -> Result<Vec<u64>> {
    let mut checksums = vec![0; pieces.len()];
    let (mut stretches, mut pieces, mut rest) = (Vec::new(), pieces.as_slice(), &mut *checksums);
    while !pieces.is_empty() {
        let (now, later) = pieces.split_at(together(pieces));
        let (of_now, of_later) = rest.split_at_mut(now.len());
        stretches.push((stretches.len(), now, of_now));
        (pieces, rest) = (later, of_later);
    }
    parallel::for_each(stretches, Vec::new, |buffer, (number, pieces, checksums)| {
        let mut unread: u64 = pieces.iter().map(|piece| piece.len).sum();
        let mut offset = pieces.first().map_or(0, |piece| piece.offset);
        read_ahead(number, (offset, unread), ahead);
        let mut pieces = pieces.iter().zip(checksums);
        let mut begin = || pieces.next().map(|(piece, sum)| (piece.len, new_digest(), sum));
        let mut current = begin();
        while unread > 0 {
            let size = CHUNK.min(usize::try_from(unread).unwrap_or(CHUNK));
            buffer.resize(size, 0);
            read(offset, buffer)?;
            offset += size as u64;
            unread -= size as u64;
            let mut chunk = buffer.as_slice();
            while let Some((left, digest, checksum)) =
                current.as_mut().filter(|_| !chunk.is_empty())
            {
                let now = chunk.len().min(usize::try_from(*left).unwrap_or(CHUNK));
                let (now, later) = chunk.split_at(now);
                digest.update(now);
                *left -= now.len() as u64;
                chunk = later;
                if *left == 0 {
                    **checksum = digest.finalize();
                    current = begin();
                }
            }
        }
        Ok(())
    })?;
    Ok(checksums)
}

fn new_digest() -> Digest {
    Digest::new(CrcAlgorithm::Crc64Nvme)
}

/// How many of the first pieces are one stretch of a file, and no longer than one piece may be.
fn together(pieces: &[Piece]) -> usize {
    let mut len = 0;
    let mut end = pieces.first().map_or(0, |piece| piece.offset);
    let fits = pieces.iter().take_while(|piece| {
        let follows = piece.offset == end;
        end = piece.offset + piece.len;
        len += piece.len;
        follows && len <= PIECE
    });
    fits.count()
}

impl Checks {
    /// The checks of a file; nothing unless the parts are the whole file, end to end, each with a
    /// checksum a piece.
    pub fn new(parts: Vec<Part>) -> Option<Self> {
        let (mut len, mut first, mut pieces) = (0_u64, Vec::new(), 0_usize);
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
        let unproven = self.unproven(offset, len);
        let read = |at, buffer: &mut [u8]| file.read_plain(at, buffer);
        let checksums = checksums(pieces_in(&unproven), &read, &|_, _| {})?;
        let mut proven = unproven.iter().zip(checksums);
        proven.try_for_each(|(place, checksum)| self.prove(file, place, checksum))
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
                let mut digest = new_digest();
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
        let ahead = |offset, len| file.will_need(offset, len);
        let checksums = checksums(pieces_in(&unproven), &read, &ahead)?;
        let found = unproven.iter().zip(checksums);
        Ok(found.filter_map(|(place, checksum)| self.compare(place, checksum)).collect())
    }

    /// The pieces that have bytes among the `len` from `offset` and were not found to be right yet.
    fn unproven(&self, offset: u64, len: u64) -> Vec<Place<'_>> {
        let end = offset.saturating_add(len);
        let begin = self.parts.partition_point(|part| part.offset + part.len <= offset);
        // Slices, rather than `skip`: there may be millions of parts.
        let (parts, first) = (self.parts.get(begin..), self.first.get(begin..));
        let parts = parts.unwrap_or_default().iter().zip(first.unwrap_or_default());
        let mut unproven = Vec::new();
        for (part, first) in parts.take_while(|(part, _)| part.offset < end) {
            // Pieces before the range are of equal size and can be passed over at once.
            let passed = to_usize(offset.saturating_sub(part.offset) / PIECE);
            let right = self.right.get(first + passed..).unwrap_or_default();
            let pieces = pieces(part.offset, part.len).enumerate().skip(passed);
            let inside = pieces.take_while(|(_, piece)| piece.offset < end).zip(right);
            let unknown = inside.filter(|(_, right)| !right.load(Ordering::Relaxed));
            unproven.extend(unknown.map(|((number, piece), right)| Place {
                part,
                number,
                piece,
                right,
            }));
        }
        unproven
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
        let (first, last) = (self.offset, self.offset + self.len.saturating_sub(1));
        let (piece, pieces) = (self.piece + 1, self.pieces);
        match &self.tensor {
            Some(tensor) => write!(f, "tensor `{tensor}`, piece {piece} of {pieces}")?,
            None => write!(f, "what is outside of tensors")?,
        }
        write!(f, ", bytes {first} to {last}")
    }
}

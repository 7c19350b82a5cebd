//! What a file should be, by checksums, and whether it is.
//!
//! A file is cut into parts (a tensor, or what stands between tensors), which are checked by
//! pieces of at most [`PIECE`] bytes. A file that [has checks](crate::SourceFile::checked) answers
//! no byte of a piece before the checksum of that piece was compared.

use std::sync::atomic::{AtomicBool, Ordering};

use crc_fast::{CrcAlgorithm, Digest};

use crate::{Blob, Error, Progress, Result, SourceFile};

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

/// The checksum of all bytes of a blob.
///
/// # Errors
/// What reading gives.
pub fn checksum_of(blob: &Blob) -> Result<u64> {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    blob.for_each_chunk::<Error>(|chunk| {
        digest.update(chunk);
        Ok(())
    })?;
    Ok(digest.finalize())
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
    /// A part of a file as it is now.
    ///
    /// # Errors
    /// What reading gives, or if the work was cancelled.
    pub fn of(
        file: &Blob,
        (offset, len): (u64, u64),
        tensor: Option<String>,
        progress: &Progress,
    ) -> Result<Self> {
        let bytes = file.slice(offset, len)?;
        let piece = |start: u64| {
            let size = PIECE.min(len - start);
            progress.advance(size)?;
            checksum_of(&bytes.slice(start, size)?)
        };
        let checksums = starts(len).map(piece).collect::<Result<_>>()?;
        Ok(Self { tensor, offset, len, checksums })
    }
}

/// Where the pieces of `len` bytes begin.
fn starts(len: u64) -> impl Iterator<Item = u64> {
    (0..len.div_ceil(PIECE)).map(|piece| piece * PIECE)
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
        self.compare(file, offset, len, &mut |damage| {
            Err(Error::Damaged { path: file.path().to_path_buf(), damage: Box::new(damage) })
        })
    }

    /// Compares the whole file, and gives everything that is not what it was.
    ///
    /// # Errors
    /// What reading gives, or if the work was cancelled.
    pub fn damages(&self, file: &SourceFile, progress: &Progress) -> Result<Vec<Damage>> {
        let mut damages = Vec::new();
        for part in &self.parts {
            for start in starts(part.len) {
                let size = PIECE.min(part.len - start);
                progress.advance(size)?;
                self.compare(file, part.offset + start, size, &mut |damage| {
                    damages.push(damage);
                    Ok(())
                })?;
            }
        }
        Ok(damages)
    }

    fn compare(
        &self,
        file: &SourceFile,
        offset: u64,
        len: u64,
        each: &mut dyn FnMut(Damage) -> Result<()>,
    ) -> Result<()> {
        let end = offset.saturating_add(len);
        let begin = self.parts.partition_point(|part| part.offset + part.len <= offset);
        // Slices, rather than `skip`: there may be millions of parts.
        let (parts, first) = (self.parts.get(begin..), self.first.get(begin..));
        let parts = parts.unwrap_or_default().iter().zip(first.unwrap_or_default());
        for (part, first) in parts.take_while(|(part, _)| part.offset < end) {
            let pieces = part.checksums.len();
            let right = self.right.get(*first..).unwrap_or_default();
            let checked = starts(part.len).zip(&part.checksums).zip(right).enumerate();
            // The pieces before the range are of equal size and can be passed over at once.
            let passed = offset.saturating_sub(part.offset) / PIECE;
            for (piece, ((start, checksum), right)) in
                checked.skip(usize::try_from(passed).unwrap_or(usize::MAX))
            {
                let (offset, len) = (part.offset + start, PIECE.min(part.len - start));
                if offset >= end {
                    break;
                }
                if right.load(Ordering::Relaxed) {
                    continue;
                }
                if file.checksum(offset, len)? == *checksum {
                    right.store(true, Ordering::Relaxed);
                    continue;
                }
                let tensor = part.tensor.clone();
                each(Damage { tensor, piece, pieces, offset, len })?;
            }
        }
        Ok(())
    }
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

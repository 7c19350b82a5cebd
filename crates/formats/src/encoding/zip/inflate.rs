//! Deflated bytes, inflated on read.

use std::sync::{Mutex, PoisonError};

use flate2::{Crc, Decompress, FlushDecompress, Status};
use lodstone_store::{Blob, Derive, Result};

use crate::lengths::{at_most, length};

/// The inflated bytes of a deflated member.
///
/// Sequential reads inflate every byte once; a read at an earlier offset starts over. Memory use does not depend
/// on either size.
/// on the size of either side.
pub(super) struct Inflate {
    source: Blob,
    len: u64,
    crc: u32,
    /// The state of the last reader; `None` before the first and after the last byte.
    decoder: Mutex<Option<Decoder>>,
}

struct Decoder {
    state: Decompress,
    crc: Crc,
    /// Bytes of the source that were read but not decoded yet.
    input: Vec<u8>,
    used: usize,
    fetched: u64,
    /// Whether the stream has ended.
    ended: bool,
}

/// The chunk size for reading the source and for skipping output.
const PIECE: u64 = 16 << 10;

impl Inflate {
    /// Creates `len` inflated bytes with the CRC-32 `crc`.
    pub(super) fn new(source: Blob, len: u64, crc: u32) -> Self {
        Self { source, len, crc, decoder: Mutex::default() }
    }

    /// Decodes up to `out.len()` bytes; returns 0 only at the end of the stream.
    fn step(&self, decoder: &mut Decoder, out: &mut [u8]) -> Result<usize> {
        while !decoder.ended {
            if decoder.used == decoder.input.len() && decoder.fetched < self.source.len() {
                let size = PIECE.min(self.source.len() - decoder.fetched);
                decoder.input.resize(length(size)?, 0);
                self.source.read_at(decoder.fetched, &mut decoder.input)?;
                decoder.fetched += size;
                decoder.used = 0;
            }
            let (taken, given) = (decoder.state.total_in(), decoder.state.total_out());
            let (_, input) = decoder.input.split_at(decoder.used);
            let result = decoder.state.decompress(input, out, FlushDecompress::None);
            let status = result.map_err(|error| self.broken(taken, error.to_string()))?;
            decoder.used += length(decoder.state.total_in() - taken)?;
            let size = length(decoder.state.total_out() - given)?;
            decoder.ended = status == Status::StreamEnd;
            if size > 0 {
                decoder.crc.update(out.split_at(size).0);
                return Ok(size);
            }
            let stuck = decoder.state.total_in() == taken && !decoder.ended;
            if stuck && decoder.fetched == self.source.len() {
                return Err(self.broken(taken, "the end of the member".to_owned()));
            }
        }
        Ok(0)
    }

    /// Decodes like [`step`](Self::step), but the end of the stream is an error.
    fn some(&self, decoder: &mut Decoder, out: &mut [u8]) -> Result<usize> {
        match self.step(decoder, out)? {
            0 => {
                let found = format!("{} bytes", decoder.state.total_out());
                Err(self.broken(decoder.state.total_in(), found))
            }
            size => Ok(size),
        }
    }

    /// Checks that the stream ends at its declared size, and verifies its checksum.
    fn finish(&self, decoder: &mut Decoder) -> Result<()> {
        if self.step(decoder, &mut [0])? > 0 {
            return Err(self.broken(decoder.state.total_in(), "more".to_owned()));
        }
        let end = decoder.state.total_in();
        if end < self.source.len() {
            let found = format!("{} bytes left", self.source.len() - end);
            return Err(self.source.malformed(end, "the end of the member", found));
        }
        if decoder.crc.sum() != self.crc {
            let expected = format!("bytes with the CRC-32 {:#010x}", self.crc);
            let found = format!("{:#010x}", decoder.crc.sum());
            return Err(self.source.malformed(0, expected, found));
        }
        Ok(())
    }

    fn broken(&self, at: u64, found: String) -> lodstone_store::Error {
        let expected = format!("a deflate stream of {} bytes", self.len);
        self.source.malformed(at, expected, found)
    }
}

impl Decoder {
    fn new() -> Self {
        let state = Decompress::new(false);
        Self { state, crc: Crc::new(), input: Vec::new(), used: 0, fetched: 0, ended: false }
    }
}

impl Derive for Inflate {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        let mut kept = self.decoder.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out, so that the next reader starts over after an error.
        let mut decoder = kept.take().unwrap_or_else(Decoder::new);
        if decoder.state.total_out() > offset {
            decoder = Decoder::new();
        }
        let mut skipped = vec![0; length(PIECE.min(offset))?];
        while decoder.state.total_out() < offset {
            let size = at_most(offset - decoder.state.total_out(), skipped.len());
            let (piece, _) = skipped.split_at_mut(size);
            self.some(&mut decoder, piece)?;
        }
        let mut rest = buffer;
        while !rest.is_empty() {
            let size = self.some(&mut decoder, rest)?;
            (_, rest) = rest.split_at_mut(size);
        }
        if decoder.state.total_out() == self.len {
            return self.finish(&mut decoder);
        }
        *kept = Some(decoder);
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
}

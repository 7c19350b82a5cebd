//! Tensor elements whose encoding differs from memory: varints of small values, and
//! values in several pieces.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use lodstone_model::DType;
use lodstone_store::{Blob, Derive, Result, internal};

use crate::encoding::protobuf::varint::{TooLong, Varint};
use crate::lengths::{at_most, length};

/// The fields of elements, decoded on read.
///
/// Sequential reads decode every byte once; a read at an earlier offset starts over. Memory use does not depend on
/// the number of elements.
pub(super) struct Typed {
    /// The fields in the message.
    pub(super) fields: Bytes,
    /// The contents of holes in them.
    pub(super) holes: Arc<[Blob]>,
    /// The field number.
    pub(super) number: u32,
    /// The encoded values.
    source: Blob,
    pub(super) encoding: Encoding,
    /// The decoded size of all elements in bytes.
    len: u64,
    /// The state of the last reader: the decoded bytes, and the bytes of the source for them.
    stopped: Mutex<(u64, u64)>,
}

/// The encoding of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// As in memory.
    Fixed,
    /// A varint, of which this many bytes are used.
    Varint(u64),
    /// A varint, of which six bits are used; in memory four values take three bytes.
    SixBits,
}

/// The chunk size for reading the source.
const PIECE: u64 = 16 << 10;

impl Encoding {
    /// Returns the encoding of an element type in a field of `TensorProto`; `None` if the field does not hold the type.
    pub(super) fn of(field: u32, dtype: DType) -> Option<Self> {
        use DType as D;
        let bits = u64::from(dtype.bits()?);
        Some(match (field, dtype) {
            (4, D::Float32 | D::Complex64) | (10, D::Float64 | D::Complex128) => Self::Fixed,
            (5, D::Float6E2M3 | D::Float6E3M2) => Self::SixBits,
            // Each varint holds two or four small values.
            (5, dtype) if bits < 8 && dtype != D::Bool => Self::Varint(1),
            (5, D::Int32 | D::Int16 | D::Int8 | D::Uint16 | D::Uint8 | D::Bool) => {
                Self::Varint(bits / 8)
            }
            (5, D::Float16 | D::BFloat16) => Self::Varint(2),
            (5, dtype) if dtype.is_float() && bits == 8 => Self::Varint(1),
            (7, D::Int64) | (11, D::Uint64 | D::Uint32) => Self::Varint(bits / 8),
            _ => return None,
        })
    }
}

impl Typed {
    /// Creates elements of `len` bytes.
    pub(super) fn new(
        number: u32,
        (fields, holes): (Bytes, Arc<[Blob]>),
        source: Blob,
        encoding: Encoding,
        len: u64,
    ) -> Self {
        Self { fields, holes, number, source, encoding, len, stopped: Mutex::default() }
    }

    /// Returns whether the encoded size can be that of the elements.
    pub(super) fn fits(&self) -> bool {
        match self.encoding {
            Encoding::Fixed => self.source.len() == self.len,
            Encoding::SixBits => {
                // The last byte may be padded by one value or less.
                let count = self.len.saturating_mul(8) / 6;
                count.saturating_sub(1) <= self.source.len()
            }
            Encoding::Varint(size) => {
                let count = self.len / size.max(1);
                count <= self.source.len()
                    && self.source.len() <= count.saturating_mul(Varint::MAX_LEN)
            }
        }
    }

    /// Returns the size of the encoded values in bytes.
    pub(super) fn encoded(&self) -> u64 {
        self.source.len()
    }

    fn broken(&self, at: u64, found: &str) -> lodstone_store::Error {
        self.source.malformed(at, format!("varints of {} bytes of elements", self.len), found)
    }

    /// Decodes all values of six bits, a rare encoding of few values.
    fn six_bits(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let (mut packed, mut bits, mut held) = (Vec::new(), 0u32, 0u32);
        let (mut varint, mut at) = (Varint::default(), 0);
        self.source.for_each_chunk(|chunk| {
            for byte in chunk {
                at += 1;
                let taken =
                    varint.take(*byte).map_err(|TooLong| self.broken(at, "a longer one"))?;
                let Some(value) = taken else { continue };
                let value = u32::try_from(value).ok().filter(|value| *value <= 0x3f);
                bits |= value.ok_or_else(|| self.broken(at, "one of more than six bits"))? << held;
                held += 6;
                while held >= 8 {
                    packed.extend(bits.to_le_bytes().first());
                    (bits, held) = (bits >> 8, held - 8);
                }
            }
            Ok::<(), lodstone_store::Error>(())
        })?;
        packed.extend(bits.to_le_bytes().first().filter(|_| held > 0));
        let part = packed.get(length(offset)?..).and_then(|rest| rest.get(..buffer.len()));
        match part.filter(|_| packed.len() as u64 == self.len) {
            Some(part) => buffer.copy_from_slice(part),
            None => return Err(self.broken(at, "another number of them")),
        }
        Ok(())
    }

    /// Decodes from the state of the last reader to the end of `buffer`, which is at `end`.
    fn decode(&self, size: u64, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let end = offset + buffer.len() as u64;
        // Values are decoded whole, though the range may begin or end inside one.
        let (mut done, mut at) = if stopped.0 <= offset { *stopped } else { (0, 0) };
        *stopped = (0, 0);
        let (mut window, mut start) = (Vec::new(), at);
        let mut varint = Varint::default();
        while done < end {
            if at - start == window.len() as u64 {
                let piece = PIECE.min(self.source.len() - at);
                if piece == 0 {
                    return Err(self.broken(at, "their end"));
                }
                window.resize(length(piece)?, 0);
                self.source.read_at(at, &mut window)?;
                start = at;
            }
            let index = usize::try_from(at - start).ok();
            let byte = index.and_then(|index| window.get(index)).copied();
            let byte = byte.ok_or_else(|| internal("a byte that was read is missing"))?;
            at += 1;
            let Some(value) =
                varint.take(byte).map_err(|TooLong| self.broken(at, "a longer one"))?
            else {
                continue;
            };
            let bytes = value.to_le_bytes();
            for (place, byte) in (done..).zip(bytes.iter().take(at_most(size, bytes.len()))) {
                let index = place.checked_sub(offset).and_then(|index| usize::try_from(index).ok());
                if let Some(slot) = index.and_then(|index| buffer.get_mut(index)) {
                    *slot = *byte;
                }
            }
            if done + size > end {
                // The next reader continues after it.
                return Ok(());
            }
            done += size;
            *stopped = (done, at);
        }
        if done == self.len && at < self.source.len() {
            return Err(self.broken(at, "more"));
        }
        Ok(())
    }
}

impl Derive for Typed {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self.encoding {
            _ if buffer.is_empty() => Ok(()),
            Encoding::Fixed => self.source.read_at(offset, buffer),
            Encoding::Varint(size) => self.decode(size, offset, buffer),
            Encoding::SixBits => self.six_bits(offset, buffer),
        }
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
}

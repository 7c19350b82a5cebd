//! Elements whose encoding differs from memory: with a tag before each, as varints, or of another type.

use std::sync::{Arc, OnceLock};

use half::f16;
use lodstone_model::DType;
use lodstone_store::{Blob, Derive, Error, Result, internal};

use crate::encoding::protobuf::varint::{TooLong, Varint};
use crate::lengths::{at_most, length};

/// A range of encoded values.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) blob: Blob,
    /// Whether a tag of one byte precedes each value.
    pub(super) is_tagged: bool,
}

/// Returns the elements of `float` values, converted to `to`.
pub(super) fn floats(pieces: Vec<Piece>, to: DType) -> Blob {
    let plain = |piece: Piece| match piece.is_tagged {
        true => Blob::derived(Arc::new(Spaced { source: piece.blob })),
        false => piece.blob,
    };
    let source = Blob::concat(pieces.into_iter().map(plain).collect());
    let count = source.len() / 4;
    let (size, convert): (u64, Convert) = match to {
        DType::Float64 => (8, |source, _| {
            let wide = |bytes: &[u8; 4]| f64::from(f32::from_le_bytes(*bytes)).to_le_bytes();
            Ok(source.bytes()?.as_chunks().0.iter().flat_map(wide).collect())
        }),
        DType::Float16 => (2, |source, _| {
            let narrow = |bytes: &[u8; 4]| f16::from_f32(f32::from_le_bytes(*bytes)).to_le_bytes();
            Ok(source.bytes()?.as_chunks().0.iter().flat_map(narrow).collect())
        }),
        _ => return source,
    };
    let len = count * size;
    Blob::derived(Arc::new(Decoded {
        source,
        len,
        is_tagged: false,
        convert,
        done: OnceLock::new(),
    }))
}

/// Returns `count` elements of varints, of which the lowest bytes of each are used: as many as an element of `to` has.
/// Returns `None` if the encoded size cannot be that of the elements.
pub(super) fn integers(pieces: Vec<Piece>, to: DType, count: u64) -> Option<Blob> {
    let is_tagged = pieces.iter().any(|piece| piece.is_tagged);
    if pieces.iter().any(|piece| piece.is_tagged != is_tagged) {
        return None;
    }
    let tag = u64::from(is_tagged);
    let source = Blob::concat(pieces.into_iter().map(|piece| piece.blob).collect());
    let least = count.checked_mul(1 + tag)?;
    let most = count.checked_mul(Varint::MAX_LEN + tag)?;
    if source.len() < least || source.len() > most {
        return None;
    }
    let convert: Convert = match to {
        DType::Bool => |source, tagged| varints::<1>(source, tagged, |value| u64::from(value != 0)),
        _ => match to.bits()? {
            8 => |source, tagged| varints::<1>(source, tagged, |value| value),
            16 => |source, tagged| varints::<2>(source, tagged, |value| value),
            32 => |source, tagged| varints::<4>(source, tagged, |value| value),
            64 => |source, tagged| varints::<8>(source, tagged, |value| value),
            _ => return None,
        },
    };
    let len = count.checked_mul(u64::from(to.bits()? / 8))?;
    let done = OnceLock::new();
    Some(Blob::derived(Arc::new(Decoded { source, len, is_tagged, convert, done })))
}

/// Returns `count` copies of an element.
pub(super) fn repeated(element: Vec<u8>, count: u64) -> Option<Blob> {
    let len = count.checked_mul(element.len() as u64)?;
    Some(Blob::derived(Arc::new(Repeated { element, len })))
}

/// Values of four bytes, each behind a tag of one byte.
struct Spaced {
    source: Blob,
}

/// The chunk size for reading a source; a multiple of the size of a value with its tag.
const PIECE: u64 = 5 << 13;

impl Derive for Spaced {
    fn len(&self) -> u64 {
        self.source.len() / 5 * 4
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut element = offset / 4;
        // The bytes of the first element that precede the range.
        let mut skip = at_most(offset % 4, 4);
        let mut window = Vec::new();
        let mut rest = buffer;
        while !rest.is_empty() {
            let start = element * 5;
            let size = PIECE.min(self.source.len().saturating_sub(start));
            let needed = (rest.len() as u64).div_ceil(4).saturating_add(1).saturating_mul(5);
            let size = size.min(needed);
            if size < 5 {
                return Err(internal("elements end early"));
            }
            window.resize(length(size)?, 0);
            self.source.read_at(start, &mut window)?;
            for value in window.chunks_exact(5) {
                let bytes = value.get(1 + skip..).unwrap_or_default();
                skip = 0;
                let taken = bytes.len().min(rest.len());
                let (now, later) = std::mem::take(&mut rest).split_at_mut(taken);
                now.copy_from_slice(bytes.get(..taken).unwrap_or_default());
                rest = later;
                element += 1;
            }
        }
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
}

/// Decodes all values of a source; the flag is set if tags precede them.
type Convert = fn(&Blob, bool) -> Result<Vec<u8>>;

/// Elements that are decoded as a whole when they are first read: their encoding has no fixed size.
struct Decoded {
    source: Blob,
    /// The size of the elements in bytes.
    len: u64,
    is_tagged: bool,
    convert: Convert,
    done: OnceLock<Vec<u8>>,
}

impl Decoded {
    fn all(&self) -> Result<&[u8]> {
        if let Some(done) = self.done.get() {
            return Ok(done);
        }
        let bytes = (self.convert)(&self.source, self.is_tagged)?;
        if bytes.len() as u64 != self.len {
            let found = format!("{} bytes", bytes.len());
            return Err(self.source.malformed(0, format!("{} bytes of elements", self.len), found));
        }
        Ok(self.done.get_or_init(|| bytes))
    }
}

impl Derive for Decoded {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let all = self.all()?;
        let part = all.get(length(offset)?..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(part.ok_or_else(|| internal("elements end early"))?);
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
}

/// Decodes varints; `map` changes a value, of which the lowest `N` bytes are used.
fn varints<const N: usize>(source: &Blob, is_tagged: bool, map: fn(u64) -> u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let (mut varint, mut at, mut is_tag) = (Varint::default(), 0, is_tagged);
    source.for_each_chunk(|chunk| {
        for byte in chunk {
            at += 1;
            if is_tag {
                is_tag = false;
                continue;
            }
            let taken = varint.take(*byte).map_err(|TooLong| {
                source.malformed(at, "a varint of at most 10 bytes", "a longer one")
            })?;
            if let Some(value) = taken {
                out.extend(map(value).to_le_bytes().iter().take(N));
                is_tag = is_tagged;
            }
        }
        Ok::<(), Error>(())
    })?;
    Ok(out)
}

/// Copies of one element.
struct Repeated {
    element: Vec<u8>,
    len: u64,
}

impl Derive for Repeated {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let size = self.element.len().max(1);
        let skip = at_most(offset % size as u64, size);
        let bytes = self.element.iter().cycle().skip(skip);
        buffer.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = *byte);
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        None
    }
}

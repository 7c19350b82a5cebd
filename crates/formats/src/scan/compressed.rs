//! Files that are compressed as a whole.
//!
//! | method | signature | readers accept further streams |
//! |---|---|---|
//! | gzip | `1f 8b` | yes |
//! | zlib | a window of up to 32 KiB, and a sum of both bytes that is a multiple of 31 | no |
//! | bzip2 | `BZh`, and a digit | yes |
//! | xz | `fd 37 7a 58 5a 00` | yes |
//! | lzma | `5d 00 00` | no |
//! | zstd | `28 b5 2f fd` | yes |
//! | lz4 | `04 22 4d 18` | yes |
//! | 7-zip | `37 7a bc af 27 1c` | not decompressed |
//!
//! Dictionaries beside the data, and frames of zstd and lz4 that are to be skipped, are not supported: they are damage.

use std::io::{self, Read};

use bytes::Bytes;
use bzip2::bufread::BzDecoder;
use flate2::bufread::{GzDecoder, ZlibDecoder};
use lodstone_store::Blob;
use lz4_flex::frame::FrameDecoder as Lz4Decoder;
use lzma_rust2::{LzmaReader, XzReader};
use ruzstd::decoding::StreamingDecoder as ZstdDecoder;

use crate::lengths::at_most;

/// Maximum size of the window of lzma, xz and zstd: that of the highest level of `zstd --ultra`, and twice that of `xz`.
const MAX_WINDOW: u32 = 128 << 20;

/// Maximum memory of a decoder of lzma and xz in KiB: the window, and its tables.
const MAX_DECODER: u32 = (MAX_WINDOW >> 10) + 1024;

/// A compression method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Gzip,
    Zlib,
    Bzip2,
    Xz,
    Lzma,
    Zstd,
    Lz4,
    /// A method that is not supported by the scan.
    Other(&'static str),
}

impl Method {
    /// Returns whether readers decompress several streams in a row.
    fn is_concatenated(self) -> bool {
        matches!(self, Self::Gzip | Self::Bzip2 | Self::Xz | Self::Zstd | Self::Lz4)
    }

    /// Returns whether the signature is so short that other files have it by chance.
    pub(super) fn is_vague(self) -> bool {
        matches!(self, Self::Zlib | Self::Bzip2 | Self::Lzma)
    }
}

/// Returns whether the beginning can be decompressed.
pub(super) fn begins(method: Method, blob: &Blob) -> bool {
    blob.bytes().is_ok_and(|bytes| !inflate(method, &bytes, 1).bytes.is_empty())
}

/// Detects the compression method.
pub(super) fn method(head: &[u8]) -> Option<Method> {
    const STARTS: [(&[u8], Method); 6] = [
        (b"\x1f\x8b", Method::Gzip),
        (b"\xfd7zXZ\0", Method::Xz),
        (b"\x28\xb5\x2f\xfd", Method::Zstd),
        (b"\x04\x22\x4d\x18", Method::Lz4),
        (b"7z\xbc\xaf\x27\x1c", Method::Other("7-zip")),
        // LZMA with a common dictionary size: two more bytes are zero.
        (b"\x5d\0\0", Method::Lzma),
    ];
    if let [0x08 | 0x18 | 0x28 | 0x38 | 0x48 | 0x58 | 0x68 | 0x78, flags, ..] = *head {
        let first = u16::from(head.first().copied().unwrap_or_default());
        if (first * 256 + u16::from(flags)).is_multiple_of(31) {
            return Some(Method::Zlib);
        }
    }
    if let [b'B', b'Z', b'h', b'1'..=b'9', ..] = head {
        return Some(Method::Bzip2);
    }
    let start = STARTS.iter().find(|(start, _)| head.starts_with(start));
    start.map(|(_, method)| *method)
}

/// Returns whether the beginning of data that may be compressed can be decompressed. Longer signatures do not occur by
/// chance, and neither does the beginning of a pickle, which its reader loads before it detects damage; `is_pickle` returns
/// whether there is one.
pub(super) fn is_sound(
    method: Method,
    blob: &Blob,
    is_pickle: impl FnOnce(Vec<u8>) -> bool,
) -> bool {
    const SOME: u64 = 1 << 20;
    if let Method::Other(_) = method {
        return true;
    }
    let Ok(head) = blob.slice(0, blob.len().min(SOME)).and_then(|head| head.read()) else {
        return false;
    };
    let mut bytes = Vec::new();
    let (damage, _) = stream(method, &head, SOME, &mut bytes);
    damage.is_none()
        || bytes.len() as u64 >= SOME
        || match method {
            Method::Gzip | Method::Zlib | Method::Lzma => is_pickle(bytes),
            Method::Bzip2 => !bytes.is_empty(),
            Method::Xz | Method::Zstd | Method::Lz4 | Method::Other(_) => true,
        }
}

/// Returns whether bytes begin with the protocol of a pickle, or with text, as older protocols do.
pub(super) fn may_be_pickle(bytes: &[u8]) -> bool {
    let is_text = |byte: &u8| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\n' | b'\r');
    matches!(bytes, [0x80, 2..=5, ..])
        || bytes.first_chunk::<12>().is_some_and(|first| first.iter().all(is_text))
}

/// Decompressed bytes.
pub(super) struct Inflated {
    /// The bytes that could be decompressed.
    pub(super) bytes: Vec<u8>,
    /// The reason why they are incomplete.
    pub(super) damage: Option<String>,
}

/// Decompresses at most `max` bytes, including concatenated streams.
pub(super) fn inflate(which: Method, compressed: &Bytes, max: u64) -> Inflated {
    let (mut bytes, mut rest) = (Vec::new(), compressed.as_ref());
    loop {
        let left = max.saturating_sub(bytes.len() as u64);
        let (damage, after) = stream(which, rest, left, &mut bytes);
        let is_another = which.is_concatenated() && method(after) == Some(which);
        if damage.is_none() && is_another && after.len() < rest.len() {
            rest = after;
            continue;
        }
        let behind = || {
            let size = after.len();
            (size > 0).then(|| format!("{size} unused bytes after the compressed data"))
        };
        return Inflated { damage: damage.or_else(behind), bytes };
    }
}

/// Decompresses the first stream of some bytes; returns the reason if it is incomplete, and the bytes behind it.
fn stream<'a>(
    method: Method,
    compressed: &'a [u8],
    left: u64,
    bytes: &mut Vec<u8>,
) -> (Option<String>, &'a [u8]) {
    const NOTHING: &[u8] = &[];
    let damaged = |error: &dyn std::fmt::Display| (Some(damage(error)), NOTHING);
    match method {
        Method::Gzip => {
            let mut decoder = GzDecoder::new(compressed);
            (some(&mut decoder, left, bytes), decoder.into_inner())
        }
        Method::Zlib => {
            let mut decoder = ZlibDecoder::new(compressed);
            (some(&mut decoder, left, bytes), decoder.into_inner())
        }
        Method::Bzip2 => {
            let mut decoder = BzDecoder::new(compressed);
            (some(&mut decoder, left, bytes), decoder.into_inner())
        }
        Method::Xz => {
            let mut decoder = XzReader::new_mem_limit(compressed, false, MAX_DECODER);
            (some(&mut decoder, left, bytes), decoder.into_inner())
        }
        Method::Lzma => match LzmaReader::new_mem_limit(compressed, MAX_DECODER, None) {
            Ok(mut decoder) => {
                // A stream with a size may have an end mark, too.
                decoder.set_relaxed_end_condition(false);
                // Bytes before damage count: a loader acts on them before it detects the damage.
                decoder.set_defer_errors(true);
                let why = some(&mut decoder, left, bytes);
                let (rest, buffered) = decoder.into_parts();
                let used = compressed.len().saturating_sub(rest.len() + buffered.len());
                (why, compressed.get(used..).unwrap_or(rest))
            }
            Err(error) => damaged(&error),
        },
        Method::Zstd => {
            match ZstdDecoder::new_with_max_window_size(compressed, u64::from(MAX_WINDOW)) {
                Ok(mut decoder) => (some(&mut decoder, left, bytes), decoder.into_inner()),
                Err(error) => damaged(&error),
            }
        }
        Method::Lz4 => {
            let mut decoder = Lz4Decoder::new(compressed);
            let why = some(&mut decoder, left, bytes);
            let after = decoder.into_inner();
            let is_cut = || !has_end_mark(compressed, after.len());
            (why.or_else(|| is_cut().then(|| damage(&"it is truncated"))), after)
        }
        Method::Other(how) => damaged(&how),
    }
}

/// Returns whether a frame of lz4, before the last `after` bytes, has a mark at its end: without one, the decoder returns what is
/// there.
fn has_end_mark(compressed: &[u8], after: usize) -> bool {
    /// The flag of a checksum of all bytes, which follows the mark.
    const CHECKSUM: u8 = 4;
    let Some(flags) = compressed.get(4) else { return false };
    let behind = if flags & CHECKSUM == 0 { 4 } else { 8 };
    let end = compressed.len().saturating_sub(after);
    let mark = end.checked_sub(behind).and_then(|start| compressed.get(start..)?.get(..4));
    mark.is_some_and(|mark| mark == [0; 4])
}

/// Decompresses a stream; returns the reason if it is incomplete.
fn some(decoder: &mut impl Read, left: u64, bytes: &mut Vec<u8>) -> Option<String> {
    // One byte beyond the limit reveals whether there are more.
    let before = bytes.len() as u64;
    match decoder.take(left.saturating_add(1)).read_to_end(bytes) {
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
            Some(format!("its window exceeds the scan limit: {error}"))
        }
        Err(error) => Some(damage(&error)),
        Ok(_) if bytes.len() as u64 - before > left => {
            bytes.truncate(at_most(before + left, bytes.len()));
            Some(format!("it exceeds the scan limit of {left} bytes"))
        }
        Ok(_) => None,
    }
}

fn damage(why: &dyn std::fmt::Display) -> String {
    format!("it is damaged: {why}")
}

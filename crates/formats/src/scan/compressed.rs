//! Files that are compressed as a whole.

use std::io::Read;

use bytes::Bytes;
use flate2::bufread::{GzDecoder, ZlibDecoder};
use lodstone_store::Blob;

/// A compression method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Gzip,
    Zlib,
    /// A method that is not supported by the scan.
    Other(&'static str),
}

/// Detects the compression method.
pub(super) fn method(head: &[u8]) -> Option<Method> {
    const STARTS: [(&[u8], &str); 5] = [
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\x04\x22\x4d\x18", "lz4"),
        (b"7z\xbc\xaf\x27\x1c", "7-zip"),
    ];
    if head.starts_with(b"\x1f\x8b") {
        return Some(Method::Gzip);
    }
    if let [0x08 | 0x18 | 0x28 | 0x38 | 0x48 | 0x58 | 0x68 | 0x78, flags, ..] = *head {
        let first = u16::from(head.first().copied().unwrap_or_default());
        if (first * 256 + u16::from(flags)).is_multiple_of(31) {
            return Some(Method::Zlib);
        }
    }
    // LZMA with a common dictionary size: two more bytes are zero.
    if let [0x5d, 0, 0, ..] = head {
        return Some(Method::Other("lzma"));
    }
    let start = STARTS.iter().find(|(start, _)| head.starts_with(start));
    start.map(|(_, how)| Method::Other(how))
}

/// Returns whether the beginning of data that may be compressed can be decompressed. Longer signatures do not occur by chance.
pub(super) fn is_sound(method: Method, blob: &Blob) -> bool {
    const SOME: u64 = 1 << 20;
    if let Method::Other(_) = method {
        return true;
    }
    let Ok(head) = blob.slice(0, blob.len().min(SOME)).and_then(|head| head.read()) else {
        return false;
    };
    let mut bytes = Vec::new();
    let (damage, _) = stream(method, &head, SOME, &mut bytes);
    damage.is_none() || bytes.len() as u64 >= SOME
}

/// Decompressed bytes.
pub(super) struct Inflated {
    /// The bytes that could be decompressed.
    pub(super) bytes: Vec<u8>,
    /// The reason why they are incomplete.
    pub(super) damage: Option<String>,
}

/// Decompresses at most `max` bytes, including concatenated gzip streams.
pub(super) fn inflate(method: Method, compressed: &Bytes, max: u64) -> Inflated {
    let (mut bytes, mut rest) = (Vec::new(), compressed.as_ref());
    loop {
        let left = max.saturating_sub(bytes.len() as u64);
        let (damage, after) = stream(method, rest, left, &mut bytes);
        let is_another = method == Method::Gzip && after.starts_with(b"\x1f\x8b");
        if damage.is_none() && is_another {
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
    match method {
        Method::Gzip => {
            let mut decoder = GzDecoder::new(compressed);
            (some(&mut decoder, left, bytes), decoder.into_inner())
        }
        _ => {
            let mut decoder = ZlibDecoder::new(compressed);
            (some(&mut decoder, left, bytes), decoder.into_inner())
        }
    }
}

/// Decompresses a stream; returns the reason if it is incomplete.
fn some(decoder: &mut impl Read, left: u64, bytes: &mut Vec<u8>) -> Option<String> {
    // One byte beyond the limit reveals whether there are more.
    let before = bytes.len() as u64;
    match decoder.take(left.saturating_add(1)).read_to_end(bytes) {
        Err(error) => Some(format!("it is damaged: {error}")),
        Ok(_) if bytes.len() as u64 - before > left => {
            bytes.truncate(usize::try_from(before + left).unwrap_or(usize::MAX));
            Some(format!("it exceeds the scan limit of {left} bytes"))
        }
        Ok(_) => None,
    }
}

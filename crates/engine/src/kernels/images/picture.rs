//! An image file whose header was read, and the errors of the decoders.

use std::fmt::Display;

/// An image file whose header was read. Its pixels are not decoded yet.
pub(super) struct Picture<'a> {
    pub(super) width: u32,
    pub(super) height: u32,
    /// The number of bytes of the samples, before they are converted to RGB.
    pub(super) size: u64,
    /// The bytes that the decoder allocates at most at the same time, with the result.
    pub(super) memory: u64,
    /// Returns the pixels: [height, width, 3].
    pub(super) pixels: Box<dyn FnOnce() -> Result<Vec<u8>, Failure> + 'a>,
}

/// The reason why an image file is not decoded.
#[derive(Debug)]
pub(super) enum Failure {
    /// The file is damaged or of another kind.
    Wrong(String),
    /// The file exceeds a limit.
    Limit(String),
}

impl Failure {
    pub(super) fn wrong(reason: impl Display) -> Self {
        Self::Wrong(reason.to_string())
    }

    pub(super) fn limit(reason: impl Display) -> Self {
        Self::Limit(reason.to_string())
    }

    /// Returns the error of a file that is shorter than its header implies.
    pub(super) fn end() -> Self {
        Self::wrong("unexpected end of file")
    }
}

/// Opens an image file of the format that its first bytes identify. A decoder rejects files that would take more than `most`
/// bytes.
pub(super) fn open(bytes: &[u8], most: u64) -> Result<Picture<'_>, Failure> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => super::png::open(bytes, most),
        [0xff, 0xd8, 0xff, ..] => super::jpeg::open(bytes),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => {
            super::webp::open(bytes)
        }
        [b'M', b'M', 0, b'*', ..] | [b'I', b'I', b'*', 0, ..] => super::tiff::open(bytes, most),
        [b'B', b'M', ..] => super::bmp::open(bytes),
        [b'P', b'1'..=b'7', ..] => super::pnm::open(bytes),
        _ => {
            Err(Failure::wrong("expected BMP, JPEG, PNG, PNM, TIFF or WebP, found another format"))
        }
    }
}

/// Returns the number of pixels.
pub(super) fn count(width: u32, height: u32) -> u64 {
    u64::from(width) * u64::from(height)
}

/// Returns the number of bytes of the pixels as RGB, as a length of a list.
pub(super) fn rgb_len(width: u32, height: u32) -> Result<usize, Failure> {
    let len = count(width, height).checked_mul(3).and_then(|len| usize::try_from(len).ok());
    len.ok_or_else(|| Failure::limit(format!("{width} x {height} pixels are too many")))
}

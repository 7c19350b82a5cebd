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

/// Returns the number of pixels.
pub(super) fn count(width: u32, height: u32) -> u64 {
    u64::from(width) * u64::from(height)
}

/// Returns a limit of a decoder in bytes: on a machine with less address space, everything is less.
pub(super) fn limit(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Returns the number of bytes of the pixels as RGB, as a length of a list.
pub(super) fn rgb_len(width: u32, height: u32) -> Result<usize, Failure> {
    let len = count(width, height).checked_mul(3).and_then(|len| usize::try_from(len).ok());
    len.ok_or_else(|| Failure::limit(format!("{width} x {height} pixels are too many")))
}

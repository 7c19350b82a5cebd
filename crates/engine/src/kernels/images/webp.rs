//! WebP files: lossy and lossless. Of animations, the first frame.

use std::io::Cursor;

use image_webp::{DecodingError, WebPDecoder};

use super::picture::{Failure, Picture, count};
use super::samples::drop_alpha;

pub(super) fn open(bytes: &[u8]) -> Result<Picture<'_>, Failure> {
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(failure)?;
    let (width, height) = decoder.dimensions();
    let has_alpha = decoder.has_alpha();
    let size = count(width, height).saturating_mul(if has_alpha { 4 } else { 3 });
    let pixels = count(width, height);
    // The pixels; the canvas of an animation and its frame, or pixels with alpha, and transforms; planes of a lossy image.
    let beside = if has_alpha || decoder.is_animated() { 12 } else { 6 };
    let memory = size + beside * pixels + 2 * largest_frame(bytes.get(12..).unwrap_or_default());
    let pixels = Box::new(move || {
        let mut pixels = vec![0; usize::try_from(size).map_err(Failure::limit)?];
        decoder.read_image(&mut pixels).map_err(failure)?;
        Ok(if has_alpha { drop_alpha(pixels) } else { pixels })
    });
    Ok(Picture { width, height, size, memory, pixels })
}

fn failure(error: DecodingError) -> Failure {
    match error {
        DecodingError::MemoryLimitExceeded => Failure::limit(error),
        other => Failure::wrong(other),
    }
}

/// Returns the number of pixels of the largest lossy image in chunks, in whole blocks. The decoder allocates by these dims
/// before it compares them with those of the file.
fn largest_frame(bytes: &[u8]) -> u64 {
    let all = chunks(bytes).flat_map(|(kind, content)| {
        // The chunks of a frame follow its place and duration.
        let frame = if kind == b"ANMF" { content.get(16..) } else { None };
        std::iter::once((kind, content)).chain(frame.into_iter().flat_map(chunks))
    });
    let pixels = all.filter(|(kind, _)| *kind == b"VP8 ").map(|(_, content)| match content {
        [_, _, _, _, _, _, width_0, width_1, height_0, height_1, ..] => {
            let side = |bytes| u64::from(u16::from_le_bytes(bytes) & 0x3fff).next_multiple_of(16);
            side([*width_0, *width_1]) * side([*height_0, *height_1])
        }
        _ => 0,
    });
    pixels.fold(0, u64::max)
}

/// Returns the names and contents of chunks. Contents that the file cuts off end there.
fn chunks(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (kind, after) = bytes.split_first_chunk::<4>()?;
        let (size, after) = after.split_first_chunk::<4>()?;
        let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
        let (content, rest) = after.split_at_checked(size).unwrap_or((after, &[]));
        // Chunks begin at even offsets.
        bytes = rest.get(size % 2..).unwrap_or_default();
        Some((kind, content))
    })
}

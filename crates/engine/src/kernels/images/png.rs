//! PNG files. Of animations, the default image.

use std::io::Cursor;

use png::{BitDepth, Decoder, DecodingError, InterlaceInfo, Limits, Reader, Transformations};

use super::picture::{Failure, Picture, count, limit, rgb_len};
use super::samples::{narrow, to_rgb};

/// The bytes of the decoder's buffers that do not grow with rows: decompressed data that wait for a row, and their window.
const BUFFERS: u64 = 320 << 10;

pub(super) fn open(bytes: &[u8], most: u64) -> Result<Picture<'_>, Failure> {
    let limits = Limits { bytes: limit(most) };
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), limits);
    // They can be compressed, and take much more memory than the file.
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(Transformations::EXPAND);
    let reader = decoder.read_info().map_err(failure)?;
    let (width, height) = reader.info().size();
    let (colour, depth) = reader.output_color_type();
    let bytes_per_sample = if depth == BitDepth::Sixteen { 2 } else { 1 };
    let bytes_per_pixel =
        u64::try_from(colour.samples() * bytes_per_sample).map_err(Failure::wrong)?;
    let size = count(width, height).saturating_mul(bytes_per_pixel);
    // Beside the pixels: rows before and after filters, those of which the buffer is moved, and their conversion.
    let rows = u64::from(width).saturating_mul(10 * bytes_per_pixel + 3);
    let memory = count(width, height).saturating_mul(3).saturating_add(rows + BUFFERS);
    Ok(Picture { width, height, size, memory, pixels: Box::new(|| decode(reader)) })
}

fn failure(error: DecodingError) -> Failure {
    match error {
        DecodingError::LimitsExceeded => Failure::limit(error),
        other => Failure::wrong(other),
    }
}

fn decode(mut reader: Reader<Cursor<&[u8]>>) -> Result<Vec<u8>, Failure> {
    let (width, height) = reader.info().size();
    let mut rgb = vec![0; rgb_len(width, height)?];
    let rgb_stride = rgb_len(width, 1)?;
    let (colour, depth) = reader.output_color_type();
    let channels = colour.samples();
    let too_large = || Failure::limit(DecodingError::LimitsExceeded);
    let mut row = vec![0; reader.output_line_size(width).ok_or_else(too_large)?];
    let mut pass = Vec::new();
    let mut done = 0;
    while let Some(interlace) = reader.read_row(&mut row).map_err(failure)? {
        let target = match interlace {
            InterlaceInfo::Null(_) => {
                let target = rgb.get_mut(done..).and_then(|rest| rest.get_mut(..rgb_stride));
                done += rgb_stride;
                target.ok_or_else(|| Failure::wrong("a row exceeds the image"))?
            }
            InterlaceInfo::Adam7(_) => {
                pass.resize(rgb_stride, 0);
                &mut pass
            }
        };
        if depth == BitDepth::Sixteen {
            to_rgb(row.as_chunks::<2>().0, channels, |two| narrow(u16::from_be_bytes(two)), target);
        } else {
            to_rgb(&row, channels, |byte| byte, target);
        }
        if let InterlaceInfo::Adam7(info) = interlace {
            png::expand_interlaced_row(&mut rgb, rgb_stride, &pass, &info, 24);
        }
    }
    Ok(rgb)
}

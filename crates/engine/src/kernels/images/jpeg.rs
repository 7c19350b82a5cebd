//! JPEG files: baseline and progressive; grey, YCbCr, RGB, CMYK and YCCK.

use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::picture::{Failure, Picture, rgb_len};
use super::samples::spread_grey;

pub(super) fn open(bytes: &[u8]) -> Result<Picture<'_>, Failure> {
    // The kernel checks the dims. Damaged data are decoded up to the damage.
    let options = DecoderOptions::default()
        .set_strict_mode(false)
        .set_max_width(usize::MAX)
        .set_max_height(usize::MAX);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(failure)?;
    let info = decoder.info().ok_or_else(|| Failure::wrong("there is no header"))?;
    let is_grey = decoder.input_colorspace() == Some(ColorSpace::Luma);
    if is_grey {
        decoder.set_options(options.jpeg_set_out_colorspace(ColorSpace::Luma));
    }
    let (width, height) = (u32::from(info.width), u32::from(info.height));
    let pixels = u64::from(info.width) * u64::from(info.height);
    // Coefficients of all components, of two bytes, in blocks of up to 32 by 32 pixels; and the rows of blocks.
    let padded = |side: u16| u64::from(side).next_multiple_of(32);
    let coefficients = padded(info.width) * padded(info.height) * 2 * u64::from(info.components);
    let rows = padded(info.width) * 32 * 2 * 2 * u64::from(info.components);
    let size = pixels * if is_grey { 1 } else { 3 };
    let memory = pixels * 3 + coefficients + rows;
    let pixels = Box::new(move || {
        let mut rgb = vec![0; rgb_len(width, height)?];
        decoder.decode_into(&mut rgb).map_err(failure)?;
        if is_grey {
            spread_grey(&mut rgb);
        }
        Ok(rgb)
    });
    Ok(Picture { width, height, size, memory, pixels })
}

fn failure(error: DecodeErrors) -> Failure {
    match error {
        DecodeErrors::LargeDimensions(_) => Failure::limit(error),
        other => Failure::wrong(other),
    }
}

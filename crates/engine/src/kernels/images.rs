//! Decoding of image files: BMP, JPEG, PNG, PNM, TIFF and WebP.
//!
//! JPEG files do not define their pixels to the last bit: other decoders may return values that differ by a few steps.

use std::io::Cursor;

use burn_backend::{DType as BurnType, TensorData};
use image::{ImageDecoder, ImageReader, Limits};
use lodstone_schema::Finding;

use super::tensor::bounded;
use super::{Call, Made, Run, one};
use crate::budget::probe;
use crate::item::Item;

pub(super) fn kernel(kind: &str) -> Option<Run> {
    Some(match kind {
        "ImageDecoder" => decode,
        _ => return None,
    })
}

/// The maximum number of bytes that a decoder may allocate.
const MAX_BYTES: u64 = 1 << 30;

/// Returns the pixels of an image file: [height, width, channels].
fn decode(call: &Call<'_>) -> Made {
    let wrong =
        |error: image::ImageError| Finding::from(format!("cannot decode the image: {error}"));
    let x = call.input(0)?;
    if x.kind()? != BurnType::U8 {
        return Err(Finding::from(format!("expected bytes, found {}", x.dtype()?)).about_input(0));
    }
    let bytes: Vec<u8> = x.clone().into_data()?.iter::<u8>().collect();
    let format = call.text("pixel_format").unwrap_or_else(|| "RGB".to_owned());
    let mut reader = ImageReader::new(Cursor::new(bytes));
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_BYTES);
    reader.limits(limits);
    let reader = reader.with_guessed_format().map_err(|error| wrong(error.into()))?;
    let decoder = reader.into_decoder().map_err(wrong)?;
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    bounded(&[height, width, 4])?;
    let size = decoder.total_bytes();
    if size > MAX_BYTES {
        return Err(format!("the image has {size} bytes, more than {MAX_BYTES}").into());
    }
    probe(size)?;
    let pixels = image::DynamicImage::from_decoder(decoder).map_err(wrong)?.into_rgb8().into_raw();
    let colours = pixels.as_chunks::<3>().0;
    let (made, channels): (Vec<u8>, usize) = match format.as_str() {
        "RGB" => (pixels, 3),
        "BGR" => (colours.iter().flat_map(|[red, green, blue]| [*blue, *green, *red]).collect(), 3),
        "Grayscale" => (colours.iter().map(luma).collect(), 1),
        other => return Err(format!("pixel format `{other}` is not supported").into()),
    };
    one(Item::from_data(TensorData::new(made, [height, width, channels])))
}

/// Returns the brightness of a pixel, by ITU-R 601.
fn luma([red, green, blue]: &[u8; 3]) -> u8 {
    let [red, green, blue] = [red, green, blue].map(|part| u32::from(*part));
    ((19_595 * red + 38_470 * green + 7_471 * blue + 32_768) >> 16).to_le_bytes()[0]
}

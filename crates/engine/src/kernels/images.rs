//! Decoding of image files: BMP, JPEG, PNG, PNM, TIFF and WebP.
//!
//! JPEG files do not define their pixels to the last bit: other decoders may return values that differ by a few steps.

use std::io::Cursor;

use burn_backend::{DType as BurnType, TensorData};
use image::{ColorType, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};
use lodstone_schema::{Code, Finding};

use super::tensor::bounded;
use super::{Call, Made, Run, one};
use crate::item::Item;

pub(super) fn kernel(kind: &str) -> Option<Run> {
    Some(match kind {
        "ImageDecoder" => decode,
        _ => return None,
    })
}

/// The maximum number of bytes that a decoder may allocate.
const MAX_BYTES: u64 = 1 << 30;

/// Returns the memory that a decoder works in beside the pixels, as a multiple of them: coefficients of progressive JPEG
/// files, transformed and previous images of WebP, compressed parts of TIFF.
fn working(format: Option<ImageFormat>) -> u64 {
    match format {
        Some(ImageFormat::Jpeg) => 4,
        Some(ImageFormat::WebP) => 3,
        Some(ImageFormat::Tiff) => 1,
        _ => 0,
    }
}

/// Returns the pixels of an image file: [height, width, channels].
fn decode(call: &Call<'_>) -> Made {
    let wrong = |error: ImageError| {
        let is_limit = matches!(error, ImageError::Limits(_));
        let wrong = format!("cannot decode the image: {error}");
        if is_limit { Finding::new(Code::Limit, wrong) } else { Finding::from(wrong) }
    };
    let x = call.input(0)?;
    if x.kind()? != BurnType::U8 {
        return Err(Finding::from(format!("expected bytes, found {}", x.dtype()?)).about_input(0));
    }
    // A copy of a file that is not stored in order, and that of a decoder.
    let _file = call.workspace(&x.shape(), 2)?;
    let data = x.clone().into_data()?;
    let bytes = data.as_slice::<u8>().map_err(|error| error.to_string())?;
    let format = call.text("pixel_format").unwrap_or_else(|| "RGB".to_owned());
    let mut reader = ImageReader::new(Cursor::new(bytes));
    let mut limits = Limits::default();
    limits.max_alloc = Some(call.memory.left().min(MAX_BYTES));
    reader.limits(limits);
    let reader = reader.with_guessed_format().map_err(|error| wrong(error.into()))?;
    let file_format = reader.format();
    let decoder = reader.into_decoder().map_err(wrong)?;
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    bounded(&[height, width, 4])?;
    let size = decoder.total_bytes();
    if size > MAX_BYTES {
        let wrong = format!("the image has {size} bytes, more than {MAX_BYTES}");
        return Err(Finding::new(Code::Limit, wrong));
    }
    // The decoder works beside the pixels; they are converted to another list, and that to the result.
    let colours = (width as u64).saturating_mul(height as u64).saturating_mul(3);
    let is_converted = decoder.color_type() != ColorType::Rgb8;
    let beside = size.saturating_mul(working(file_format)).max(u64::from(is_converted) * colours);
    let most = size.saturating_add(beside).max(colours.saturating_mul(2));
    let _pixels = call.memory.reserve(most)?;
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

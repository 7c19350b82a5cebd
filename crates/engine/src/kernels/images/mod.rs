//! Decoding of image files: BMP, JPEG, PNG, PNM, TIFF and WebP.
//!
//! | module | content |
//! |---|---|
//! | `picture` | the header of a file, errors |
//! | `bmp`, `jpeg`, `png`, `pnm`, `tiff`, `webp` | one format each: dims and memory, then pixels |
//! | `samples` | conversion of samples to 8-bit RGB |
//!
//! JPEG files do not define their pixels to the last bit: other decoders may return values that differ by a few steps.

mod bmp;
mod jpeg;
mod picture;
mod png;
mod pnm;
mod samples;
mod tiff;
mod webp;

use lodstone_model::DType;
use lodstone_schema::{Code, Finding};

use self::picture::{Failure, Picture};
use crate::call::{Call, Outputs, one};
use crate::dims::bounded;
use crate::operator::Operator;
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[Operator::dense("ImageDecoder", decode)];

/// The maximum number of bytes of samples.
const MAX_BYTES: u64 = 1 << 30;

/// Returns the pixels of an image file: [height, width, channels].
fn decode(call: &Call<'_>) -> Outputs {
    let wrong = |failure| match failure {
        Failure::Wrong(reason) => Finding::from(format!("cannot decode the image: {reason}")),
        Failure::Limit(reason) => {
            Finding::new(Code::Limit, format!("cannot decode the image: {reason}"))
        }
    };
    let x = call.input(0)?;
    if x.dtype() != DType::Uint8 {
        return Err(Finding::from(format!("expected bytes, found {}", x.dtype())).about_input(0));
    }
    // A copy of a file that is not stored in order, and parts of it that decoders copy.
    let _file = call.workspace(&x.shape(), 2)?;
    let bytes = x.bytes()?;
    let format = call.text("pixel_format").unwrap_or_else(|| "RGB".to_owned());
    let picture = open(&bytes, call.memory.left().min(MAX_BYTES)).map_err(wrong)?;
    let Picture { width, height, size, memory, pixels } = picture;
    let [height, width] = [height, width].map(|side| side as usize);
    bounded(&[height, width, 4])?;
    if size > MAX_BYTES {
        let wrong = format!("the image has {size} bytes, more than {MAX_BYTES}");
        return Err(Finding::new(Code::Limit, wrong));
    }
    let _pixels = call.memory.reserve(memory)?;
    let mut pixels = pixels().map_err(wrong)?;
    let channels = match format.as_str() {
        "RGB" => 3,
        "BGR" => {
            pixels.as_chunks_mut::<3>().0.iter_mut().for_each(|pixel| pixel.reverse());
            3
        }
        "Grayscale" => {
            pixels = samples::to_grey(pixels);
            1
        }
        other => return Err(format!("pixel format `{other}` is not supported").into()),
    };
    one(Dense::from_vec(pixels, [height, width, channels])?)
}

/// Opens an image file of the format that its first bytes identify. A decoder rejects files that would take more than `most`
/// bytes.
fn open(bytes: &[u8], most: u64) -> Result<Picture<'_>, Failure> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => png::open(bytes, most),
        [0xff, 0xd8, 0xff, ..] => jpeg::open(bytes),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => webp::open(bytes),
        [b'M', b'M', 0, b'*', ..] | [b'I', b'I', b'*', 0, ..] => tiff::open(bytes, most),
        [b'B', b'M', ..] => bmp::open(bytes),
        [b'P', b'1'..=b'7', ..] => pnm::open(bytes),
        _ => {
            Err(Failure::wrong("expected BMP, JPEG, PNG, PNM, TIFF or WebP, found another format"))
        }
    }
}

//! TIFF files: black and white, grey, RGB and CMYK of 8 or 16 bits, RGB in floats; of several images, the first.

use std::io::Cursor;

use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::{SampleFormat, Tag};
use tiff::{ColorType, TiffError};

use super::picture::{Failure, Picture, count, limit, rgb_len};
use super::samples::{from_bits, narrow, narrow_float, to_rgb};

/// The compression of parts that are JPEG files.
const JPEG: u16 = 7;

/// The tags that the decoder reads: dims, bits, compression, colours, strips, samples, planes, the predictor, tiles, and tables
/// of JPEG. Others stay in the file.
const READ: [u16; 19] =
    [256, 257, 258, 259, 262, 273, 277, 278, 279, 284, 317, 322, 323, 324, 325, 338, 339, 347, 530];

/// The bytes that the decoder takes for each value of a tag: a variant with a list, and a number.
const BYTES_PER_VALUE: u64 = 48;

/// The samples of a pixel.
#[derive(Clone, Copy)]
enum Layout {
    /// Bits, 1 for white; each row has whole bytes.
    Bits,
    /// Cyan, magenta, yellow and black, in 8 or 16 bits.
    Cmyk,
    /// Grey or RGB, perhaps with alpha.
    Channels(usize),
}

pub(super) fn open(bytes: &[u8], most: u64) -> Result<Picture<'_>, Failure> {
    let tags = memory_of_tags(bytes)?;
    if tags > most {
        return Err(Failure::limit(TiffError::LimitsExceeded));
    }
    let mut decoder = Decoder::new(Cursor::new(bytes)).map_err(failure)?;
    let (width, height) = decoder.dimensions().map_err(failure)?;
    let colour = decoder.colortype().map_err(failure)?;
    let (layout, bytes_per_pixel) = match colour {
        ColorType::Gray(1) => (Layout::Bits, 1),
        ColorType::Gray(8) => (Layout::Channels(1), 1),
        ColorType::Gray(16) => (Layout::Channels(1), 2),
        ColorType::GrayA(8) => (Layout::Channels(2), 2),
        ColorType::GrayA(16) => (Layout::Channels(2), 4),
        ColorType::RGB(8) => (Layout::Channels(3), 3),
        ColorType::RGB(16) => (Layout::Channels(3), 6),
        ColorType::RGB(32) => (Layout::Channels(3), 12),
        ColorType::RGBA(8) => (Layout::Channels(4), 4),
        ColorType::RGBA(16) => (Layout::Channels(4), 8),
        ColorType::RGBA(32) => (Layout::Channels(4), 16),
        ColorType::CMYK(8) => (Layout::Cmyk, 4),
        ColorType::CMYK(16) => (Layout::Cmyk, 8),
        other => return Err(Failure::wrong(format!("pixels of `{other:?}` are not supported"))),
    };
    let is_float = matches!(colour, ColorType::RGB(32) | ColorType::RGBA(32));
    let expected = if is_float { SampleFormat::IEEEFP } else { SampleFormat::Uint };
    let formats = decoder.find_tag_unsigned_vec::<u16>(Tag::SampleFormat).map_err(failure)?;
    // Without the tag, samples are unsigned integers.
    let formats = formats.unwrap_or_else(|| vec![SampleFormat::Uint.to_u16()]);
    if let Some(other) = formats.iter().find(|format| **format != expected.to_u16()) {
        let wrong = format!("sample format `{other}` of `{colour:?}` is not supported");
        return Err(Failure::wrong(wrong));
    }
    let compression = decoder.find_tag_unsigned::<u16>(Tag::Compression).map_err(failure)?;
    let parts = if compression == Some(JPEG) { memory_of_jpeg(bytes) } else { 0 };
    let size = count(width, height).saturating_mul(bytes_per_pixel);
    let mut limits = Limits::default();
    limits.decoding_buffer_size = limit(size.min(most));
    limits.intermediate_buffer_size = limit(most.saturating_sub(size));
    limits.ifd_value_size = limits.intermediate_buffer_size;
    let mut decoder = decoder.with_limits(limits);
    // The samples, compressed parts of them, and the result.
    let memory = size.saturating_mul(2).saturating_add(count(width, height).saturating_mul(3));
    let memory = memory.saturating_add(parts).saturating_add(tags);
    let pixels = Box::new(move || {
        let mut samples = DecodingResult::U8(Vec::new());
        let stored = decoder.read_image_to_buffer(&mut samples).map_err(failure)?;
        if samples.as_buffer(0).as_bytes().len() < stored.complete_len {
            return Err(Failure::limit(TiffError::LimitsExceeded));
        }
        let plane = stored.plane_stride.filter(|_| stored.planes > 1).map(usize::from);
        let mut rgb = Vec::new();
        if !matches!((&samples, layout, plane), (DecodingResult::U8(_), Layout::Channels(3), None))
        {
            rgb.resize(rgb_len(width, height)?, 0);
        }
        match (samples, layout, plane) {
            (DecodingResult::U8(samples), Layout::Channels(3), None) => rgb = samples,
            (DecodingResult::U8(samples), Layout::Channels(channels), _) => {
                fill(&mut rgb, &samples, channels, plane, |byte| byte)?;
            }
            (DecodingResult::U16(samples), Layout::Channels(channels), _) => {
                fill(&mut rgb, &samples, channels, plane, narrow)?;
            }
            (DecodingResult::F32(samples), Layout::Channels(channels), _) => {
                fill(&mut rgb, &samples, channels, plane, narrow_float)?;
            }
            (DecodingResult::U8(samples), Layout::Bits, None) => {
                fill_bits(&mut rgb, &samples, width)?;
            }
            (DecodingResult::U8(samples), Layout::Cmyk, None) => {
                let pixels = rgb.as_chunks_mut::<3>().0.iter_mut().zip(samples.as_chunks::<4>().0);
                pixels
                    .for_each(|(rgb, cmyk)| *rgb = from_cmyk(cmyk.map(f32::from), 255.0).map(low));
            }
            (DecodingResult::U16(samples), Layout::Cmyk, None) => {
                let pixels = rgb.as_chunks_mut::<3>().0.iter_mut().zip(samples.as_chunks::<4>().0);
                pixels.for_each(|(rgb, cmyk)| {
                    *rgb = from_cmyk(cmyk.map(f32::from), 65_535.0).map(narrow);
                });
            }
            _ => return Err(Failure::wrong(format!("planes of `{colour:?}` are not supported"))),
        }
        if rgb.len() != rgb_len(width, height)? {
            return Err(Failure::wrong("the samples are not those of all pixels"));
        }
        Ok(rgb)
    });
    Ok(Picture { width, height, size, memory, pixels })
}

/// Returns the memory for the first directory of a file. The decoder allocates it by the number of values that a tag has,
/// even if the file ends before them: such files are rejected.
fn memory_of_tags(bytes: &[u8]) -> Result<u64, Failure> {
    let is_big_endian = bytes.starts_with(b"MM");
    let short = |bytes: &[u8]| {
        let two = *bytes.first_chunk()?;
        Some(if is_big_endian { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) })
    };
    let long = |bytes: &[u8]| {
        let four = *bytes.first_chunk()?;
        Some(if is_big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
    };
    let begin = bytes.get(4..).and_then(long).and_then(|begin| usize::try_from(begin).ok());
    let directory = begin.and_then(|begin| bytes.get(begin..));
    let Some((directory, count)) = directory.and_then(|bytes| Some((bytes, short(bytes)?))) else {
        return Err(Failure::end());
    };
    let entries = directory.get(2..).unwrap_or_default().as_chunks::<12>().0;
    let mut memory = 0;
    for entry in entries.iter().take(usize::from(count)) {
        let (tag, kind) = (short(entry), entry.get(2..).and_then(short));
        let values = entry.get(4..).and_then(long).zip(entry.get(8..).and_then(long));
        let Some(((tag, kind), (values, begin))) = tag.zip(kind).zip(values) else { continue };
        memory += BYTES_PER_VALUE;
        if !READ.contains(&tag) {
            continue;
        }
        let width = match kind {
            1 | 2 | 6 | 7 => 1,
            3 | 8 => 2,
            4 | 9 | 11 | 13 => 4,
            5 | 10 | 12 | 16..=18 => 8,
            // The decoder skips unknown types.
            _ => continue,
        };
        let len = u64::from(values) * width;
        if len > 4 && u64::from(begin) + len > bytes.len() as u64 {
            return Err(Failure::end());
        }
        memory += u64::from(values) * BYTES_PER_VALUE;
    }
    Ok(memory)
}

/// Returns the memory in which the largest JPEG file among the parts of a file is decoded: its header defines the dims,
/// whatever those of the part are.
fn memory_of_jpeg(bytes: &[u8]) -> u64 {
    let frame = |bytes: &[u8]| match bytes {
        [0xff, 0xc0..=0xc2, _, _, 8, high_0, high_1, wide_0, wide_1, components @ 1..=4] => {
            let [height, width] = [[*high_0, *high_1], [*wide_0, *wide_1]]
                .map(|side| u64::from(u16::from_be_bytes(side)));
            // Samples, and coefficients of two bytes in blocks of up to 32 by 32.
            height.next_multiple_of(32) * width.next_multiple_of(32) * u64::from(*components) * 3
        }
        _ => 0,
    };
    bytes.windows(10).map(frame).fold(0, u64::max)
}

fn failure(error: TiffError) -> Failure {
    match error {
        TiffError::LimitsExceeded => Failure::limit(error),
        other => Failure::wrong(other),
    }
}

/// Sets pixels from samples of the same pixel, or planes of the given number of bytes, next to each other.
fn fill<T: Copy>(
    rgb: &mut [u8],
    samples: &[T],
    channels: usize,
    plane: Option<usize>,
    byte: impl Fn(T) -> u8,
) -> Result<(), Failure> {
    let Some(plane) = plane else {
        to_rgb(samples, channels, byte, rgb);
        return Ok(());
    };
    for place in 0..3 {
        // Grey is the first plane of one or two.
        let number = if channels < 3 { 0 } else { place };
        let mut planes = samples.chunks_exact((plane / size_of::<T>()).max(1));
        let samples = planes.nth(number).ok_or_else(|| Failure::wrong("a plane is missing"))?;
        let parts = rgb.iter_mut().skip(place).step_by(3);
        parts.zip(samples).for_each(|(part, sample)| *part = byte(*sample));
    }
    Ok(())
}

/// Sets pixels from bits.
fn fill_bits(rgb: &mut [u8], bits: &[u8], width: u32) -> Result<(), Failure> {
    let width = usize::try_from(width).map_err(Failure::wrong)?.max(1);
    let rows = rgb.chunks_exact_mut(3 * width).zip(bits.chunks_exact(width.div_ceil(8)));
    rows.for_each(|(row, bits)| from_bits(bits, [0, 255], row));
    Ok(())
}

/// Returns a pixel as RGB, without colour management: samples up to `most`, rounded down.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to `most`")]
fn from_cmyk([cyan, magenta, yellow, black]: [f32; 4], most: f32) -> [u16; 3] {
    let light = 1.0 - black / most;
    [cyan, magenta, yellow].map(|ink| ((most - ink) * light) as u16)
}

fn low(sample: u16) -> u8 {
    let [low, _] = sample.to_le_bytes();
    low
}

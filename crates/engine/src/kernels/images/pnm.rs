//! Netpbm's formats: PBM, PGM and PPM as text or bytes, and PAM.
//!
//! | magic | content |
//! |---|---|
//! | `P1`, `P4` | black and white: width and height, then a digit or a bit for each pixel, 1 for black |
//! | `P2`, `P5` | grey: width, height and the maximum, then samples |
//! | `P3`, `P6` | RGB, as grey |
//! | `P7` | lines of names and values up to `ENDHDR`, then samples |
//!
//! Binary samples have two bytes, the higher first, if the maximum exceeds 255. The source of truth is Netpbm's
//! documentation. Comments are allowed in headers, not among the samples.

use super::picture::{Failure, Picture, count, rgb_len};
use super::samples::{from_bits, narrow};

struct Header {
    width: u32,
    height: u32,
    channels: u32,
    most: u16,
    samples: Samples,
}

/// The representation of samples.
#[derive(Clone, Copy)]
enum Samples {
    /// One digit each, 1 for black.
    Digits,
    /// Numbers as text.
    Text,
    /// Bits, 1 for black; each row has whole bytes.
    Bits,
    /// Bytes of 0 and 1, 1 for white.
    Flags,
    Bytes,
    /// Two bytes each.
    Wide,
}

pub(super) fn open(bytes: &[u8]) -> Result<Picture<'_>, Failure> {
    let (header, raster) = read_header(bytes)?;
    let (width, height) = (header.width, header.height);
    let pixels = count(width, height);
    let width_of_sample = if header.most > 255 { 2 } else { 1 };
    let size = pixels.saturating_mul(u64::from(header.channels) * width_of_sample);
    let pixels = pixels.saturating_mul(3);
    let decode = Box::new(move || decode(raster, &header));
    Ok(Picture { width, height, size, memory: pixels, pixels: decode })
}

fn read_header(bytes: &[u8]) -> Result<(Header, &[u8]), Failure> {
    let (magic, mut rest) = bytes.split_at_checked(2).ok_or_else(Failure::end)?;
    let (channels, samples) = match magic {
        b"P1" => (1, Samples::Digits),
        b"P2" => (1, Samples::Text),
        b"P3" => (3, Samples::Text),
        b"P4" => (1, Samples::Bits),
        b"P5" => (1, Samples::Bytes),
        b"P6" => (3, Samples::Bytes),
        _ => return read_lines(rest),
    };
    let (width, height) = (number(&mut rest)?, number(&mut rest)?);
    let most = match samples {
        Samples::Digits | Samples::Bits => 1,
        _ => number(&mut rest)?,
    };
    let (most, samples) = checked(most, samples)?;
    Ok((Header { width, height, channels, most, samples }, rest))
}

/// Returns the maximum of samples, and how binary ones of this maximum are stored.
fn checked(most: u32, samples: Samples) -> Result<(u16, Samples), Failure> {
    match u16::try_from(most) {
        Ok(most @ 1..) => Ok(match samples {
            Samples::Bytes if most > 255 => (most, Samples::Wide),
            other => (most, other),
        }),
        _ => Err(Failure::wrong(format!("expected a maximum of 1 to 65535, found {most}"))),
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x0b | 0x0c | b'\r' | b' ')
}

/// Reads a number, comments and white space before it, and one byte of white space after it. A comment includes the end of
/// its line.
fn number(rest: &mut &[u8]) -> Result<u32, Failure> {
    let mut value: Option<u32> = None;
    let mut is_comment = false;
    while let Some((byte, after)) = rest.split_first() {
        *rest = after;
        match *byte {
            b'\n' | b'\r' if is_comment => is_comment = false,
            _ if is_comment => {}
            b'#' => is_comment = true,
            space if is_space(space) => {
                if let Some(value) = value {
                    return Ok(value);
                }
            }
            digit => add_digit(&mut value, digit)?,
        }
    }
    value.ok_or_else(Failure::end)
}

fn add_digit(value: &mut Option<u32>, digit: u8) -> Result<(), Failure> {
    if !digit.is_ascii_digit() {
        let wrong = format!("expected a digit, found `{}`", digit.escape_ascii());
        return Err(Failure::wrong(wrong));
    }
    let value = value.get_or_insert(0);
    let more = value.checked_mul(10).and_then(|value| value.checked_add(u32::from(digit - b'0')));
    *value = more.ok_or_else(|| Failure::wrong("a number is too large"))?;
    Ok(())
}

/// Reads the header of a PAM file, after the magic.
fn read_lines(rest: &[u8]) -> Result<(Header, &[u8]), Failure> {
    let mut rest = rest.strip_prefix(b"\n").ok_or_else(|| Failure::wrong("expected lines"))?;
    let (mut width, mut height, mut depth, mut most) = (None, None, None, None);
    let mut kind: Option<String> = None;
    loop {
        let mut parts = rest.splitn(2, |byte| *byte == b'\n');
        let line = parts.next().filter(|line| !line.is_empty()).ok_or_else(Failure::end)?;
        // Nothing follows the last line of a file that ends without a line feed.
        rest = parts.next().unwrap_or_default();
        let line = str::from_utf8(line).map_err(Failure::wrong)?;
        if line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_at(line.find(char::is_whitespace).unwrap_or(line.len()));
        let value = value.trim();
        let field = match name {
            "ENDHDR" => break,
            "WIDTH" => &mut width,
            "HEIGHT" => &mut height,
            "DEPTH" => &mut depth,
            "MAXVAL" => &mut most,
            "TUPLTYPE" => {
                match &mut kind {
                    None => kind = Some(value.to_owned()),
                    Some(kind) => {
                        kind.push(' ');
                        kind.push_str(value);
                    }
                }
                continue;
            }
            other => return Err(Failure::wrong(format!("unknown field `{other:.20}`"))),
        };
        let value: u32 = value.parse().map_err(|error| {
            Failure::wrong(format!("expected a number for `{name}`, found `{value:.20}`: {error}"))
        })?;
        if field.replace(value).is_some() {
            return Err(Failure::wrong(format!("`{name}` occurs twice")));
        }
    }
    let (Some(width), Some(height), Some(channels), Some(most)) = (width, height, depth, most)
    else {
        return Err(Failure::wrong("expected `WIDTH`, `HEIGHT`, `DEPTH` and `MAXVAL`"));
    };
    let (expected, samples) = match kind.as_deref() {
        None => (channels, Samples::Bytes),
        Some("BLACKANDWHITE") => (1, Samples::Flags),
        Some("BLACKANDWHITE_ALPHA") => (2, Samples::Flags),
        Some("GRAYSCALE") => (1, Samples::Bytes),
        Some("GRAYSCALE_ALPHA") => (2, Samples::Bytes),
        Some("RGB") => (3, Samples::Bytes),
        Some("RGB_ALPHA") => (4, Samples::Bytes),
        Some(other) => {
            return Err(Failure::wrong(format!("tuple type `{other:.40}` is not supported")));
        }
    };
    let (most, samples) = checked(most, samples)?;
    let is_flags = matches!(samples, Samples::Flags);
    if channels != expected || !(1..=4).contains(&channels) || (is_flags && most != 1) {
        // A tuple type that is not there implies nothing.
        let kind = kind.unwrap_or_default();
        let wrong = format!("tuple type `{kind}` cannot have depth {channels} and maximum {most}");
        return Err(Failure::wrong(wrong));
    }
    Ok((Header { width, height, channels, most, samples }, rest))
}

fn decode(mut raster: &[u8], header: &Header) -> Result<Vec<u8>, Failure> {
    let mut rgb = vec![0; rgb_len(header.width, header.height)?];
    let most = header.most;
    match header.samples {
        Samples::Bits => {
            let width = usize::try_from(header.width).map_err(Failure::wrong)?;
            let rows = rgb.chunks_exact_mut(3 * width.max(1));
            for row in rows {
                let (bits, rest) =
                    raster.split_at_checked(width.div_ceil(8)).ok_or_else(Failure::end)?;
                raster = rest;
                from_bits(bits, [255, 0], row);
            }
        }
        Samples::Digits => {
            let mut digits = raster.iter().filter(|byte| !is_space(**byte));
            each_pixel(&mut rgb, 1, || match digits.next() {
                Some(b'0') => Ok(255),
                Some(b'1') => Ok(0),
                Some(other) => {
                    let wrong = format!("expected 0 or 1, found `{}`", other.escape_ascii());
                    Err(Failure::wrong(wrong))
                }
                None => Err(Failure::end()),
            })?;
        }
        Samples::Text => each_pixel(&mut rgb, header.channels, || text(&mut raster, most))?,
        Samples::Flags => each_pixel(&mut rgb, header.channels, || match byte(&mut raster)? {
            0 => Ok(0),
            1 => Ok(255),
            other => Err(Failure::wrong(format!("expected 0 or 1, found {other}"))),
        })?,
        Samples::Bytes => {
            each_pixel(&mut rgb, header.channels, || Ok(scaled(byte(&mut raster)?.into(), most)))?
        }
        Samples::Wide => each_pixel(&mut rgb, header.channels, || {
            Ok(scaled(u16::from_be_bytes([byte(&mut raster)?, byte(&mut raster)?]), most))
        })?,
    }
    Ok(rgb)
}

/// Sets pixels from their samples: alpha is read and dropped.
fn each_pixel(
    rgb: &mut [u8],
    channels: u32,
    mut sample: impl FnMut() -> Result<u8, Failure>,
) -> Result<(), Failure> {
    for pixel in rgb.as_chunks_mut::<3>().0 {
        let first = sample()?;
        *pixel = match channels {
            1 | 2 => [first; 3],
            _ => [first, sample()?, sample()?],
        };
        if channels == 2 || channels == 4 {
            sample()?;
        }
    }
    Ok(())
}

fn byte(raster: &mut &[u8]) -> Result<u8, Failure> {
    let (byte, rest) = raster.split_first().ok_or_else(Failure::end)?;
    *raster = rest;
    Ok(*byte)
}

/// Reads a sample as text.
fn text(raster: &mut &[u8], most: u16) -> Result<u8, Failure> {
    let mut value = None;
    while let Some((byte, rest)) = raster.split_first() {
        *raster = rest;
        match (is_space(*byte), value) {
            (true, None) => {}
            (true, Some(_)) => break,
            (false, _) => add_digit(&mut value, *byte)?,
        }
    }
    let value = value.ok_or_else(Failure::end)?;
    // What exceeds the maximum is white, if it fits into the bytes of a binary sample.
    let limit = if most > 255 { u32::from(u16::MAX) } else { 255 };
    let within = u16::try_from(value).ok().filter(|_| value <= limit);
    within.map(|value| scaled(value, most)).ok_or_else(|| {
        Failure::wrong(format!("expected a sample of at most {limit}, found {value}"))
    })
}

/// Returns a sample of 8 bits for one up to a maximum. Larger ones are white.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
fn scaled(sample: u16, most: u16) -> u8 {
    let (sample, limit) = (f32::from(sample), f32::from(most));
    if most > 255 {
        narrow((sample * (65_535.0 / limit)).round() as u16)
    } else {
        (sample * (255.0 / limit)).round() as u8
    }
}

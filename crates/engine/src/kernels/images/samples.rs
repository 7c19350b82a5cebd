//! Conversion of samples to 8-bit RGB.
//!
//! Grey becomes three equal samples, alpha is dropped, and wider samples are rounded to the nearest of 8 bits. Colour profiles
//! are not applied.

/// Converts pixels of one to four samples: grey, grey and alpha, RGB, or RGB and alpha.
pub(super) fn to_rgb<T: Copy>(
    samples: &[T],
    channels: usize,
    byte: impl Fn(T) -> u8,
    rgb: &mut [u8],
) {
    let rgb = rgb.as_chunks_mut::<3>().0.iter_mut();
    match channels {
        1 => rgb.zip(samples).for_each(|(rgb, grey)| *rgb = [byte(*grey); 3]),
        2 => {
            let pixels = rgb.zip(samples.as_chunks::<2>().0);
            pixels.for_each(|(rgb, [grey, _])| *rgb = [byte(*grey); 3]);
        }
        3 => {
            let pixels = rgb.zip(samples.as_chunks::<3>().0);
            pixels.for_each(|(rgb, pixel)| *rgb = pixel.map(&byte));
        }
        _ => {
            let pixels = rgb.zip(samples.as_chunks::<4>().0);
            pixels.for_each(|(rgb, [red, green, blue, _])| {
                *rgb = [*red, *green, *blue].map(&byte);
            });
        }
    }
}

/// Converts a row of bits to the colours of 0 and of 1.
pub(super) fn from_bits(bits: &[u8], colours: [u8; 2], row: &mut [u8]) {
    let [zero, one] = colours;
    for (pixels, byte) in row.as_chunks_mut::<3>().0.chunks_mut(8).zip(bits) {
        for (bit, pixel) in pixels.iter_mut().enumerate() {
            *pixel = [if byte << bit & 0x80 == 0 { zero } else { one }; 3];
        }
    }
}

/// Repeats each sample of the first third of a list three times, in place.
pub(super) fn spread_grey(bytes: &mut [u8]) {
    for pixel in (0..bytes.len() / 3).rev() {
        if let Some(grey) = bytes.get(pixel).copied()
            && let Some(rgb) = bytes.get_mut(3 * pixel..3 * pixel + 3)
        {
            rgb.fill(grey);
        }
    }
}

/// Drops each fourth sample, in place.
pub(super) fn drop_alpha(mut bytes: Vec<u8>) -> Vec<u8> {
    let pixels = bytes.len() / 4;
    for pixel in 1..pixels {
        bytes.copy_within(4 * pixel..4 * pixel + 3, 3 * pixel);
    }
    bytes.truncate(3 * pixels);
    bytes.shrink_to_fit();
    bytes
}

/// Replaces RGB by its brightness, in place.
pub(super) fn to_grey(mut rgb: Vec<u8>) -> Vec<u8> {
    let pixels = rgb.len() / 3;
    for pixel in 0..pixels {
        if let Some(colour) = rgb.get(3 * pixel..).and_then(|rest| rest.first_chunk())
            && let grey = luma(*colour)
            && let Some(target) = rgb.get_mut(pixel)
        {
            *target = grey;
        }
    }
    rgb.truncate(pixels);
    rgb.shrink_to_fit();
    rgb
}

/// Returns the brightness of a pixel, by ITU-R 601.
fn luma(rgb: [u8; 3]) -> u8 {
    let [red, green, blue] = rgb.map(u32::from);
    let [_, _, brightness, _] =
        (19_595 * red + 38_470 * green + 7_471 * blue + 32_768).to_le_bytes();
    brightness
}

/// Returns the nearest sample of 8 bits.
pub(super) fn narrow(sample: u16) -> u8 {
    let [byte, ..] = ((u32::from(sample) + 128) / 257).to_le_bytes();
    byte
}

/// Returns the nearest sample of 8 bits for one from 0 to 1. NaN is white, as in web browsers.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255")]
pub(super) fn narrow_float(sample: f32) -> u8 {
    let sample = if sample.is_nan() { 1.0 } else { sample.clamp(0.0, 1.0) };
    (sample * 255.0).round() as u8
}

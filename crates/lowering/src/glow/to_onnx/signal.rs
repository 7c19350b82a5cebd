//! Audio: spectrograms and MFCC.

use lodstone_model::DType;

use super::node::{Node, Outcome, Rule};
use crate::onnx::int;

pub(super) const RULES: &[(&str, Rule)] = &[("AudioSpectrogram", spectrogram), ("MFCC", mfcc)];

/// The spectrum of each window, padded to the next power of two. (The inputs after the window are precomputed tables,
/// which no runtime needs.)
fn spectrogram(n: &mut Node<'_>) -> Outcome {
    let (size, stride) = (n.int("WindowSize")?, n.int("WindowStride")?);
    let [count, _] = n.out_ranked::<2>(0)?;
    let length = u64::try_from(size).ok().and_then(u64::checked_next_power_of_two);
    let length = length.and_then(|length| i64::try_from(length).ok());
    let length =
        length.ok_or_else(|| format!("expected a window size of at least 1, found {size}"))?;
    let (sound, window) = (n.real(0)?, n.real(1)?);
    let sound = n.reshape(&sound, &[-1])?;
    let first = n.range(count)?;
    let first = n.reshape(&first, &[count, 1])?;
    let step = n.long(stride);
    let first = n.mul(&first, &step)?;
    let within = n.range(size)?;
    let within = n.reshape(&within, &[1, size])?;
    let place = n.add(&first, &within)?;
    let windows = n.gather(&sound, &place, 0)?;
    let window = n.reshape(&window, &[size])?;
    let windows = n.mul(&windows, &window)?;
    let windows = n.reshape(&windows, &[count, size, 1])?;
    let (length, axis) = (n.long(length), n.long(-2));
    let spectrum = n.call("DFT", &[&windows, &length, &axis], [int("onesided", 1)])?;
    let mut power = n.reduce("ReduceSumSquare", &spectrum, &[2], false)?;
    if !n.flag("MagnitudeSquared")? {
        power = n.call("Sqrt", &[&power], [])?;
    }
    n.put(0, &power)
}

/// The logarithm of the energy in each band, and its cosine transform. The weights of all bands are concatenated; the
/// ranges hold the first and the last frequency bin of each.
fn mfcc(n: &mut Node<'_>) -> Outcome {
    let [_, frequencies] = n.ranked::<2>(0)?;
    let bands = n.int("FilterBankCount")?;
    let (power, weights, ranges) = (n.real(0)?, n.real(1)?, n.raw(2)?);
    let transform = n.real(3)?;
    let ranges = n.cast(&ranges, DType::Int64)?;
    let ranges = n.reshape(&ranges, &[bands, 2])?;
    let (first, last) = (n.slice(&ranges, 1, 0, 1)?, n.slice(&ranges, 1, 1, 2)?);
    let one = n.long(1);
    let lengths = n.sub(&last, &first)?;
    let lengths = n.add(&lengths, &one)?;
    let axis = n.long(0);
    let starts = n.call("CumSum", &[&lengths, &axis], [int("exclusive", 1)])?;
    let frequency = n.range(frequencies)?;
    let frequency = n.reshape(&frequency, &[1, frequencies])?;
    let behind = n.call("GreaterOrEqual", &[&frequency, &first], [])?;
    let before = n.call("LessOrEqual", &[&frequency, &last], [])?;
    let inside = n.call("And", &[&behind, &before], [])?;
    let place = n.sub(&frequency, &first)?;
    let place = n.add(&place, &starts)?;
    let place = n.choose(&inside, &place, &axis)?;
    let found = n.gather(&weights, &place, 0)?;
    let zero = n.number(DType::Float32, 0.0)?;
    let matrix = n.choose(&inside, &found, &zero)?;
    let matrix = n.transpose(&matrix, &[1, 0])?;
    let magnitude = n.call("Sqrt", &[&power], [])?;
    let bands = n.call("MatMul", &[&magnitude, &matrix], [])?;
    let silent = n.call("Equal", &[&bands, &zero], [])?;
    let least = n.number(DType::Float32, f64::from(f32::MIN_POSITIVE))?;
    let bands = n.choose(&silent, &least, &bands)?;
    let bands = n.call("Log", &[&bands], [])?;
    let transform = n.transpose(&transform, &[1, 0])?;
    let value = n.call("MatMul", &[&bands, &transform], [])?;
    n.put(0, &value)
}

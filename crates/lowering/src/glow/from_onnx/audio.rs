//! Audio operators of Glow's loader, whose tables follow from their attributes.
//!
//! Source of truth: the tables in files that Glow wrote.

use std::f64::consts::PI;

use lodstone_schema::glow::ElemKind;
use lodstone_schema::numbers::length;

use super::graph::{MemberValue, Value};
use super::op::{Cx, Fault, Outcome, Rule, narrow, one};

pub(super) const RULES: &[(&str, Rule)] =
    &[("AudioSpectrogram", spectrogram), ("MFCC", coefficients)];

/// The maximum length of a window, and the maximum numbers of bins and bands, whose tables are stored.
const LONGEST: usize = 1 << 16;

fn size(cx: &Cx<'_>, name: &str) -> Result<usize, Fault> {
    let number = cx.int(name, 0)?;
    let size = usize::try_from(number).ok().filter(|size| (1..=LONGEST).contains(size));
    size.ok_or_else(|| format!("expected at most {LONGEST} as `{name}`, found {number}").into())
}

#[expect(clippy::cast_precision_loss, reason = "numbers of samples are small")]
fn real(number: usize) -> f64 {
    number as f64
}

fn floats(
    cx: &mut Cx<'_>,
    name: &str,
    shape: Vec<i64>,
    numbers: impl Iterator<Item = f64>,
) -> Result<Value, Fault> {
    let bytes = numbers.flat_map(|number| narrow(number).to_le_bytes()).collect();
    let name = format!("{}_{name}", cx.base);
    Ok(cx.graph.constant_of(&name, ElemKind::Float, shape, bytes)?)
}

fn integers(cx: &mut Cx<'_>, name: &str, numbers: &[usize]) -> Result<Value, Fault> {
    let narrow: Result<Vec<i32>, _> = numbers.iter().map(|n| i32::try_from(*n)).collect();
    let narrow = narrow.map_err(|_| "a table is too long")?;
    let bytes = narrow.iter().flat_map(|number| number.to_le_bytes()).collect();
    let name = format!("{}_{name}", cx.base);
    Ok(cx.graph.constant_of(&name, ElemKind::Int32I, vec![length(numbers.len())], bytes)?)
}

/// Returns the real and imaginary parts of roots of unity: `exp(-2 pi i k / period)`.
fn roots(count: usize, period: usize) -> impl Iterator<Item = (f64, f64)> {
    (0..count).map(move |k| {
        let angle = -2.0 * PI * real(k) / real(period);
        (angle.cos(), angle.sin())
    })
}

fn spectrogram(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let (window, stride) = (size(cx, "window_size")?, size(cx, "stride")?);
    let squared = cx.flag("magnitude_squared", true)?;
    let samples = cx.shape(value).last().copied().ok_or("expected a row of samples")?;
    let count = super::graph::count(&cx.shape(value))?;
    if samples != count || samples < length(window) {
        return Err(format!("expected one row of at least {window} samples").into());
    }
    let windows = (samples - length(window)) / length(stride) + 1;
    // The transform has the size of a power of two, and half that many complex values.
    let period = window.next_power_of_two();
    let half = period / 2;
    let hann = (0..window).map(|n| 0.5 - 0.5 * (2.0 * PI * real(n) / real(window)).cos());
    let hann = floats(cx, "Window", vec![length(window)], hann)?;
    let twiddle = roots(half, half).flat_map(|(re, im)| [re, im]);
    let twiddle = floats(cx, "TwiddleFactors", vec![length(half * 2)], twiddle)?;
    let bits = half.max(1).ilog2();
    let reversed = |n: usize| (0..bits).fold(0, |all, bit| all << 1 | n >> bit & 1);
    let order: Vec<usize> = (0..half).map(reversed).collect();
    let order = integers(cx, "BitReverseIndices", &order)?;
    let quarter = half / 2;
    let apart = roots(quarter, period).flat_map(|(re, im)| [0.5 * (1.0 + im), -0.5 * re]);
    let apart = floats(cx, "ComplexToRealWeights", vec![length(quarter * 2)], apart)?;
    let of = cx.shaped(value, vec![windows, length(half + 1)]);
    let members = vec![
        ("WindowSize", MemberValue::Int(length(window))),
        ("WindowStride", MemberValue::Int(length(stride))),
        ("MagnitudeSquared", MemberValue::Int(squared.into())),
    ];
    let inputs = [value, hann, twiddle, order, apart];
    one(cx.node("AudioSpectrogram", "", &inputs, members, of)?)
}

/// Converts a frequency to the mel scale.
fn mel(frequency: f64) -> f64 {
    1127.0 * (frequency / 700.0).ln_1p()
}

fn coefficients(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let [rows, bins] = *cx.shape(value) else {
        return Err("expected a spectrogram of rank 2".into());
    };
    let rate = cx.float("sample_rate", 0.0)?;
    let (lowest, highest) =
        (cx.float("lower_frequency_limit", 0.0)?, cx.float("upper_frequency_limit", 0.0)?);
    let bands = size(cx, "filterbank_channel_count")?;
    let count = size(cx, "dct_coefficient_count")?;
    let bins = usize::try_from(bins).ok().filter(|bins| (2..=LONGEST).contains(bins));
    let bins = bins.ok_or("expected a spectrogram of 2 to 65536 bins")?;
    if count > bands || bands.saturating_mul(count) > LONGEST {
        return Err(format!("{count} coefficients of {bands} bands are not supported").into());
    }
    let pitches = [rate, lowest, highest].map(f64::from);
    let (ranges, weights) = triangles(bins, bands, pitches)?;
    let weights_len = length(weights.len());
    let weights = floats(cx, "MelWeights", vec![weights_len], weights.into_iter())?;
    let ranges = integers(cx, "MelRanges", &ranges)?;
    let scale = f64::from(narrow((2.0 / real(bands)).sqrt()));
    let angle = move |k: usize, n: usize| real(k) * (real(n) + 0.5) * PI / real(bands);
    let cosines = (0..count).flat_map(move |k| (0..bands).map(move |n| scale * angle(k, n).cos()));
    let shape = vec![length(count), length(bands)];
    let cosines = floats(cx, "DCTMat", shape, cosines)?;
    let of = cx.shaped(value, vec![rows, length(count)]);
    let members = vec![
        ("SampleRate", MemberValue::Float(rate)),
        ("LowerFrequency", MemberValue::Float(lowest)),
        ("UpperFrequency", MemberValue::Float(highest)),
        ("FilterBankCount", MemberValue::Int(length(bands))),
        ("NumCoefficients", MemberValue::Int(length(count))),
    ];
    one(cx.node("MFCC", "", &[value, weights, ranges, cosines], members, of)?)
}

/// Returns the first and last bin of each band, and the triangular weights of its bins.
fn triangles(
    bins: usize,
    bands: usize,
    [rate, lowest, highest]: [f64; 3],
) -> Result<(Vec<usize>, Vec<f64>), Fault> {
    let fits = rate > 0.0 && lowest >= 0.0 && highest > lowest && highest <= rate / 2.0;
    if !fits {
        return Err("expected frequencies that rise up to half of the sampling rate".into());
    }
    let step = rate / 2.0 / real(bins - 1);
    let (low, high) = (mel(lowest), mel(highest));
    let middle = |band: usize| low + (high - low) * real(band) / real(bands + 1);
    // Bins up to half a bin above the lowest frequency are skipped.
    let skipped = (1..bins).take_while(|bin| real(*bin) <= 0.5 + lowest / step).count() + 1;
    let (mut ranges, mut weights) = (Vec::new(), Vec::new());
    for band in 0..bands {
        let (left, top, right) = (middle(band), middle(band + 1), middle(band + 2));
        let of_bin = |bin: usize| {
            let pitch = mel(real(bin) * step);
            let weight = match pitch < top {
                true => (pitch - left) / (top - left),
                false => (right - pitch) / (right - top),
            };
            (bin, weight)
        };
        // A bin whose weight rounds to zero does not belong to the band.
        let inside: Vec<(usize, f64)> =
            (skipped..bins).map(of_bin).filter(|(_, weight)| *weight > 1e-9).collect();
        let (Some((first, _)), Some((last, _))) = (inside.first(), inside.last()) else {
            return Err(format!("band {band} is narrower than a bin").into());
        };
        ranges.extend([*first, *last]);
        weights.extend(inside.iter().map(|(_, weight)| *weight));
        if weights.len() > LONGEST {
            return Err("the bands are too wide".into());
        }
    }
    Ok((ranges, weights))
}

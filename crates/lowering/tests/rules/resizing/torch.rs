//! PyTorch 2.15: `aten/src/ATen/native/UpSample.h` and `cpu/UpSampleKernel.cpp`.

use lodstone_model::{AttributeValue, Tensor};

use super::{Draw, Random, Single, Taps, applied, cubic, image, linear, nearest};

pub(super) const DRAWS: &[(&str, Draw)] = &[
    ("nearest", |random| drawn(random, "nearest")),
    ("exact", |random| drawn(random, "exact")),
    ("linear", |random| drawn(random, "linear")),
    ("cubic", |random| drawn(random, "cubic")),
    ("linear_aa", |random| drawn(random, "linear_aa")),
    ("cubic_aa", |random| drawn(random, "cubic_aa")),
];

fn drawn(random: &mut Random, mode: &'static str) -> Option<(Single, Tensor)> {
    let spatial = match mode {
        "cubic" | "cubic_aa" | "linear_aa" => 2,
        _ => random.size(1, 3),
    };
    let dims = image(random, spatial);
    let x = random.tensor(&dims);
    let has_corners = mode != "nearest" && mode != "exact";
    let corners = has_corners && random.flag();
    let name = match (mode, spatial) {
        ("nearest", _) => format!("upsample_nearest{spatial}d"),
        ("exact", _) => format!("_upsample_nearest_exact{spatial}d"),
        ("linear", 1) => "upsample_linear1d".to_owned(),
        ("linear", 2) => "upsample_bilinear2d".to_owned(),
        ("linear", _) => "upsample_trilinear3d".to_owned(),
        ("cubic", _) => "upsample_bicubic2d".to_owned(),
        ("linear_aa", _) => "_upsample_bilinear2d_aa".to_owned(),
        _ => "_upsample_bicubic2d_aa".to_owned(),
    };
    // Sizes, scales, sizes with scales, sizes with the scale of one axis.
    let by = random.size(0, 3);
    let mut attributes = Vec::new();
    let mut scales: Vec<Option<f64>> = vec![None; spatial];
    let mut sizes: Vec<usize> = (0..spatial)
        .map(|axis| if random.size(0, 4) == 0 { dims[axis + 2] } else { random.size(1, 14) })
        .collect();
    for axis in 0..spatial {
        if by == 1 || by == 2 || by == 3 && axis == spatial - 1 {
            let scale = random.real(0.2, 3.2);
            scales[axis] = Some(scale);
            sizes[axis] = (dims[axis + 2] as f64 * scale) as usize;
        }
    }
    if sizes.contains(&0) {
        return None;
    }
    let longs = AttributeValue::Longs(sizes.iter().map(|size| *size as i64).collect());
    let is_list = by < 2;
    match by {
        0 => attributes.push(("output_size", longs)),
        1 => {
            let scales = scales.iter().copied().flatten().collect();
            attributes.push(("scale_factors", AttributeValue::Doubles(scales)));
        }
        _ => {
            attributes.push(("output_size", longs));
            let names = match spatial {
                1 => &["scales"][..],
                _ => &["scales_d", "scales_h", "scales_w"][3 - spatial..],
            };
            let given = names.iter().zip(&scales).filter_map(|(name, it)| Some((*name, (*it)?)));
            attributes.extend(given.map(|(name, scale)| (name, AttributeValue::Double(scale))));
        }
    }
    if has_corners {
        attributes.push(("align_corners", AttributeValue::Bool(corners)));
    }
    let line = |axis: usize| {
        let (from, to) = (dims[axis + 2], sizes[axis]);
        let scaled = match scales[axis] {
            Some(scale) => (1.0 / scale) as f32,
            None => from as f32 / to as f32,
        };
        let ratio = match corners {
            true if to == 1 => 0.0,
            true => (from as f32 - 1.0) / (to as f32 - 1.0),
            false => scaled,
        };
        let place = move |at: usize| match corners {
            true => f64::from(ratio) * at as f64,
            false => f64::from(ratio) * (at as f64 + 0.5) - 0.5,
        };
        match mode {
            "nearest" if spatial == 2 && from == to => nearest(from, to, |at| at),
            "nearest" if spatial == 2 && 2 * from == to => nearest(from, to, |at| at / 2),
            "nearest" => nearest(from, to, |at| (ratio * at as f32) as usize),
            "exact" => nearest(from, to, |at| (ratio * (at as f32 + 0.5)) as usize),
            "linear" | "linear_aa" | "cubic_aa" if from == to => nearest(from, to, |at| at),
            "linear" => linear(from, to, place),
            "cubic" => cubic(from, to, place),
            _ => smooth(from, to, f64::from(ratio), mode == "cubic_aa"),
        }
    };
    let expected = applied(&x, &(0..spatial).map(line).collect::<Vec<_>>());
    let (slot, overload) = if is_list { ("input", ".vec") } else { ("self", "") };
    let (kind, is_dynamic) = (format!("aten::{name}{overload}"), random.size(0, 3) == 0);
    // The shares of elements in results whose corners are aligned are constants.
    let is_dynamic = is_dynamic && !(corners && mode.ends_with("_aa"));
    let inputs = vec![(slot, x)];
    Some((Single { kind, inputs, attributes, outputs: vec![""], is_dynamic }, expected))
}

/// `_compute_indices_min_size_weights_aa`.
fn smooth(from: usize, to: usize, ratio: f64, is_cubic: bool) -> Taps {
    let reach = if is_cubic { 2.0 } else { 1.0 } * ratio.max(1.0);
    let weight = |x: f64| {
        let x = x.abs() / ratio.max(1.0);
        match is_cubic {
            false => (1.0 - x).max(0.0),
            true if x < 1.0 => ((-0.5 + 2.0) * x - (-0.5 + 3.0)) * x * x + 1.0,
            true if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5,
            true => 0.0,
        }
    };
    let taps = |at: usize| {
        let center = ratio * (at as f64 + 0.5);
        let first = (center - reach + 0.5).max(0.0) as usize;
        let end = ((center + reach + 0.5) as usize).min(from);
        let weights: Vec<f64> =
            (first..end).map(|place| weight(place as f64 - center + 0.5)).collect();
        let sum: f64 = weights.iter().sum();
        (first..end).zip(weights).map(|(place, weight)| (place, weight / sum)).collect()
    };
    (0..to).map(taps).collect()
}

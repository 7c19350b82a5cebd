//! Resizing with random attributes, compared with the formulas of the frameworks' kernels.

use libtest_mimic::Trial;
use lodstone_model::{AttributeValue, Tensor};

use super::random::Random;
use super::recorded;
use super::single::{PADDLE, Run, Single, floats, ints, list, random_trial, text};

/// Returns an operator, and its expected result; `None` if the framework rejects it.
type Draw = fn(&mut Random) -> Option<(Single, Tensor)>;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |dialect: &str, name: &str, run: Run, draw: Draw| {
        random_trial(&format!("{dialect}::resizing::{name}"), run, move |random| {
            draw(random).map(|(single, expected)| (single, vec![expected]))
        })
    };
    vec![
        trial("paddle", "nearest", PADDLE, |r| paddle(r, "nearest")),
        trial("paddle", "linear", PADDLE, |r| paddle(r, "linear")),
        trial("paddle", "cubic", PADDLE, |r| paddle(r, "cubic")),
        trial("mxnet", "bilinear_resize", Single::mxnet, bilinear_resize),
        trial("mxnet", "up_sampling", Single::mxnet, up_sampling),
        trial("mxnet", "crop", Single::mxnet, crop),
        trial("mxnet", "spatial_transformer", Single::mxnet, spatial_transformer),
        trial("mxnet", "grid_generator", Single::mxnet, grid_generator),
        trial("torch", "nearest", Single::torch, |r| torch(r, "nearest")),
        trial("torch", "exact", Single::torch, |r| torch(r, "exact")),
        trial("torch", "linear", Single::torch, |r| torch(r, "linear")),
        trial("torch", "cubic", Single::torch, |r| torch(r, "cubic")),
        trial("torch", "linear_aa", Single::torch, |r| torch(r, "linear_aa")),
        trial("torch", "cubic_aa", Single::torch, |r| torch(r, "cubic_aa")),
    ]
}

/// The elements of a line that make up each element of the result, with their weights.
type Taps = Vec<Vec<(usize, f64)>>;

/// Applies taps along the axes from the third on.
fn applied(x: &Tensor, lines: &[Taps]) -> Tensor {
    let dims: Vec<usize> = x.shape.iter().map(|dim| *dim as usize).collect();
    let mut elements = recorded::elements(x);
    let mut sizes = dims;
    for (axis, taps) in (2..).zip(lines) {
        let (before, dim) = (sizes[..axis].iter().product::<usize>(), sizes[axis]);
        let after: usize = sizes[axis + 1..].iter().product();
        let mut next = Vec::new();
        for front in 0..before {
            for places in taps {
                for back in 0..after {
                    let at = |place: usize| elements[(front * dim + place) * after + back];
                    next.push(places.iter().map(|(place, weight)| weight * at(*place)).sum());
                }
            }
        }
        (elements, sizes[axis]) = (next, taps.len());
    }
    list(&elements, &sizes)
}

fn nearest(from: usize, to: usize, place: impl Fn(usize) -> usize) -> Taps {
    (0..to).map(|at| vec![(place(at).min(from - 1), 1.0)]).collect()
}

fn linear(from: usize, to: usize, place: impl Fn(usize) -> f64) -> Taps {
    let taps = |at: usize| {
        let place = place(at).max(0.0);
        let first = (place.floor() as usize).min(from - 1);
        let share = (place - first as f64).min(1.0);
        vec![(first, 1.0 - share), ((first + 1).min(from - 1), share)]
    };
    (0..to).map(taps).collect()
}

fn cubic(from: usize, to: usize, place: impl Fn(usize) -> f64) -> Taps {
    let near = |x: f64| ((-0.75 + 2.0) * x - (-0.75 + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((-0.75 * x + 5.0 * 0.75) * x - 8.0 * 0.75) * x + 4.0 * 0.75;
    let taps = |at: usize| {
        let place = place(at);
        let (first, t) = (place.floor(), place - place.floor());
        let weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
        let index = |step: usize| (first - 1.0 + step as f64).clamp(0.0, from as f64 - 1.0);
        (0..4).map(|step| (index(step) as usize, weights[step])).collect()
    };
    (0..to).map(taps).collect()
}

/// Returns dims of images, with few elements.
fn image(random: &mut Random, spatial: usize) -> Vec<usize> {
    let most = [0, 40, 16, 5][spatial];
    let mut dims = vec![random.size(1, 2), random.size(1, 2)];
    dims.extend(
        (0..spatial).map(|_| if random.size(0, 5) == 0 { 1 } else { random.size(1, most) }),
    );
    dims
}

/// `phi/kernels/cpu/interpolate_kernel.cc` of 2.6.2.
fn paddle(random: &mut Random, mode: &'static str) -> Option<(Single, Tensor)> {
    let is_first = mode != "cubic" && random.size(0, 3) == 0;
    let spatial = if mode == "linear" && !is_first { random.size(1, 3) } else { 2 };
    let dims = image(random, spatial);
    let x = random.tensor(&dims);
    let (corners, align_mode) = (random.flag(), random.size(0, 1));
    let name = match (mode, spatial) {
        ("linear", 1) => "linear",
        ("linear", 2) => "bilinear",
        ("linear", _) => "trilinear",
        ("cubic", _) => "bicubic",
        _ => "nearest",
    };
    let mut attributes = vec![
        ("interp_method", text(name)),
        ("align_corners", AttributeValue::Bool(corners)),
        ("align_mode", AttributeValue::Int(align_mode as i32)),
    ];
    let mut inputs = vec![("X", x.clone())];
    let mut scales = Vec::new();
    let by = random.size(0, 3);
    let mut sizes: Vec<usize> = (0..spatial)
        .map(|axis| if random.size(0, 4) == 0 { dims[axis + 2] } else { random.size(1, 14) })
        .collect();
    if by >= 2 {
        let one = random.real(0.2, 3.2) as f32;
        let is_one = is_first || by == 3 && random.flag();
        scales = (0..spatial)
            .map(|_| if is_one { one } else { random.real(0.2, 3.2) as f32 })
            .collect::<Vec<f32>>();
        sizes =
            dims[2..].iter().zip(&scales).map(|(dim, it)| (*dim as f32 * it) as usize).collect();
        match (by, is_first) {
            (3, _) => {
                let given = if is_one { &scales[..1] } else { &scales[..] };
                inputs.push(("Scale", floats(given, &[given.len()])));
            }
            (_, true) => attributes.push(("scale", AttributeValue::Float(one))),
            _ => attributes.push(("scale", AttributeValue::Floats(scales.clone()))),
        }
    } else if by == 1 {
        let sizes: Vec<i32> = sizes.iter().map(|size| *size as i32).collect();
        match random.flag() && !is_first {
            true => inputs.push(("OutSize", ints(&sizes))),
            false => inputs.extend(sizes.iter().map(|size| ("SizeTensor", ints(&[*size])))),
        }
    } else {
        let names = &["out_d", "out_h", "out_w"][3 - spatial..];
        let sizes = names.iter().zip(&sizes);
        attributes.extend(sizes.map(|(name, it)| (*name, AttributeValue::Int(*it as i32))));
    }
    if sizes.contains(&0) {
        return None;
    }
    let line = |axis: usize| {
        let (from, to) = (dims[axis + 2], sizes[axis]);
        let ratio = match scales.get(axis).filter(|_| !is_first) {
            _ if to == 1 => 0.0,
            _ if corners => (from as f32 - 1.0) / (to as f32 - 1.0),
            Some(scale) => (1.0 / f64::from(*scale)) as f32,
            None => from as f32 / to as f32,
        };
        let half = move |at: usize| f64::from(ratio) * (at as f64 + 0.5) - 0.5;
        let plain = move |at: usize| f64::from(ratio) * at as f64;
        match mode {
            "nearest" if corners => nearest(from, to, |at| (ratio * at as f32 + 0.5) as usize),
            "nearest" => nearest(from, to, |at| (ratio * at as f32) as usize),
            "linear" if !corners && align_mode == 0 => linear(from, to, half),
            "linear" => linear(from, to, plain),
            _ if corners => cubic(from, to, plain),
            _ => cubic(from, to, half),
        }
    };
    let is_dynamic = random.size(0, 3) == 0;
    // `Resize`, to which given sizes and unknown dims are left, divides where the kernel multiplies by the inverse: places at
    // the edge of an element may differ.
    let is_edge = |axis: usize| {
        let (from, to) = (dims[axis + 2], sizes[axis]);
        let given = scales.get(axis).filter(|_| !is_first).copied();
        let scale = given.unwrap_or(to as f32 / from as f32);
        let place = |at: usize| match corners && to > 1 {
            true => at as f32 * (from as f32 - 1.0) / (to as f32 - 1.0) + 0.5,
            false => at as f32 / scale,
        };
        line(axis) != nearest(from, to, |at| place(at) as usize)
    };
    let is_left = corners || is_dynamic || by == 1 || by == 3;
    if mode == "nearest" && is_left && (0..spatial).any(is_edge) {
        return None;
    }
    let expected = match sizes == dims[2..] {
        true => x,
        false => applied(&x, &(0..spatial).map(line).collect::<Vec<_>>()),
    };
    let version = if is_first { "" } else { "_v2" };
    let kind = format!("{name}_interp{version}");
    Some((Single { kind, inputs, attributes, outputs: vec!["Out"], is_dynamic }, expected))
}

/// `src/operator/contrib/bilinear_resize-inl.h` of MXNet 1.9.1.
fn bilinear_resize(random: &mut Random) -> Option<(Single, Tensor)> {
    let dims = image(random, 2);
    let x = random.tensor(&dims);
    let modes = [
        "size",
        "size",
        "odd_scale",
        "like",
        "to_even_down",
        "to_even_up",
        "to_odd_down",
        "to_odd_up",
    ];
    let mode = random.pick(&modes);
    let aligns = random.flag();
    let scales = [random.real(0.2, 3.2) as f32, random.real(0.2, 3.2) as f32];
    let is_scaled = mode == "odd_scale" || mode == "size" && random.flag();
    let given = [random.size(1, 14), random.size(1, 14)];
    let mut inputs = vec![("", x.clone())];
    let mut attributes = vec![("mode", text(mode)), ("align_corners", text(aligns))];
    if is_scaled {
        attributes.extend([("scale_height", text(scales[0])), ("scale_width", text(scales[1]))]);
    } else if mode == "size" {
        attributes.extend([("height", text(given[0])), ("width", text(given[1]))]);
    }
    if mode == "like" {
        inputs.push(("", random.tensor(&[1, 1, given[0], given[1]])));
    }
    let size = |axis: usize| {
        let (dim, scale) = (dims[axis + 2], scales[axis]);
        match mode {
            "size" if is_scaled => (scale * dim as f32) as usize,
            "odd_scale" if dim % 2 == 0 => (scale * dim as f32) as usize,
            "odd_scale" => (scale * (dim - 1) as f32) as usize + 1,
            "to_even_down" => dim / 2 * 2,
            "to_even_up" => dim.div_ceil(2) * 2,
            "to_odd_down" => dim - usize::from(dim % 2 == 0),
            "to_odd_up" => dim + usize::from(dim % 2 == 0),
            _ => given[axis],
        }
    };
    let sizes = [size(0), size(1)];
    if sizes.contains(&0) {
        return None;
    }
    let line = |axis: usize| {
        let (from, to) = (dims[axis + 2] as f32, sizes[axis] as f32);
        let ratio = match aligns {
            _ if to <= 1.0 => 0.0,
            true => (from - 1.0) / (to - 1.0),
            false => from / to,
        };
        let place = move |at: usize| match aligns {
            true => f64::from(ratio) * at as f64,
            false => f64::from(ratio) * (at as f64 + 0.5) - 0.5,
        };
        linear(dims[axis + 2], sizes[axis], place)
    };
    let expected = match sizes == dims[2..] {
        true => x,
        false => applied(&x, &[line(0), line(1)]),
    };
    let kind = "_contrib_BilinearResize2D".to_owned();
    let is_dynamic = random.size(0, 3) == 0;
    Some((Single { kind, inputs, attributes, outputs: vec!["output"], is_dynamic }, expected))
}

/// `src/operator/nn/upsampling-inl.h`: each input gets the dims of the first one, times the scale.
fn up_sampling(random: &mut Random) -> Option<(Single, Tensor)> {
    let dims = image(random, 2);
    let scale = random.size(1, 4);
    let factors: Vec<usize> = (1..=4)
        .filter(|it| (dims[2] * scale).is_multiple_of(*it) && (dims[3] * scale).is_multiple_of(*it))
        .collect();
    let count = random.size(1, 3);
    let sums = random.flag();
    let (mut inputs, mut results) = (Vec::new(), Vec::new());
    for index in 0..count {
        let factor = if index == 0 { scale } else { random.pick(&factors) };
        let x =
            random.tensor(&[dims[0], dims[1], dims[2] * scale / factor, dims[3] * scale / factor]);
        let line = |dim: usize| nearest(dim, dim * factor, |at| at / factor);
        results
            .push(applied(&x, &[line(dims[2] * scale / factor), line(dims[3] * scale / factor)]));
        inputs.push(("", x));
    }
    let (size, images) = (dims[1] * dims[2] * dims[3] * scale * scale, dims[0]);
    let parts: Vec<Vec<f64>> = results.iter().map(recorded::elements).collect();
    let mut elements = Vec::new();
    for image in 0..images {
        match sums {
            true => elements.extend(
                (image * size..(image + 1) * size)
                    .map(|at| parts.iter().map(|part| part[at] as f32).sum::<f32>()),
            ),
            false => elements.extend(parts.iter().flat_map(|part| {
                part[image * size..(image + 1) * size].iter().map(|it| *it as f32)
            })),
        }
    }
    let channels = if sums { dims[1] } else { dims[1] * count };
    let expected = floats(&elements, &[dims[0], channels, dims[2] * scale, dims[3] * scale]);
    let attributes = vec![
        ("scale", text(scale)),
        ("sample_type", text("nearest")),
        ("multi_input_mode", text(if sums { "sum" } else { "concat" })),
        ("num_args", text(count)),
    ];
    let is_dynamic = random.size(0, 3) == 0;
    let kind = "UpSampling".to_owned();
    Some((Single { kind, inputs, attributes, outputs: vec!["output"], is_dynamic }, expected))
}

/// `src/operator/crop-inl.h`.
fn crop(random: &mut Random) -> Option<(Single, Tensor)> {
    let dims = image(random, 2);
    let x = random.tensor(&dims);
    let sizes = [random.size(1, dims[2]), random.size(1, dims[3])];
    let offsets = [random.size(0, dims[2] - sizes[0]), random.size(0, dims[3] - sizes[1])];
    let (is_centered, is_like) = (random.flag(), random.flag());
    let mut inputs = vec![("", x.clone())];
    let mut attributes = vec![("center_crop", text(is_centered))];
    match is_like {
        true => inputs.push(("", random.tensor(&[1, 1, sizes[0], sizes[1]]))),
        false => attributes.push(("h_w", text(format!("({}, {})", sizes[0], sizes[1])))),
    }
    attributes.push(("num_args", text(inputs.len())));
    if !is_centered {
        attributes.push(("offset", text(format!("({}, {})", offsets[0], offsets[1]))));
    }
    let line = |axis: usize| {
        let start = match is_centered {
            true => (dims[axis + 2] - sizes[axis]) / 2,
            false => offsets[axis],
        };
        (start..start + sizes[axis]).map(|place| vec![(place, 1.0)]).collect()
    };
    let expected = applied(&x, &[line(0), line(1)]);
    let is_dynamic = random.size(0, 2) == 0;
    let kind = "Crop".to_owned();
    Some((Single { kind, inputs, attributes, outputs: vec!["output"], is_dynamic }, expected))
}

/// `aten/src/ATen/native/UpSample.h` and `cpu/UpSampleKernel.cpp` of PyTorch 2.15.
fn torch(random: &mut Random, mode: &'static str) -> Option<(Single, Tensor)> {
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

/// Returns the coordinates of `count` places from -1 to 1; a single one is -1.
fn line(count: usize) -> Vec<f64> {
    let step = 2.0 / (count.max(2) - 1) as f64;
    (0..count).map(|place| -1.0 + place as f64 * step).collect()
}

/// `src/operator/spatial_transformer-inl.h` and `spatial_transformer.cc`: a bilinear sample at each place of the grid, where
/// everything outside of the image is 0.
fn spatial_transformer(random: &mut Random) -> Option<(Single, Tensor)> {
    let dims = [random.size(1, 2), random.size(1, 3), random.size(1, 5), random.size(1, 5)];
    let is_own = random.flag();
    let [rows, columns] = if is_own { [0, 0] } else { [random.size(1, 5), random.size(1, 5)] };
    let x = random.tensor(&dims);
    let theta = random.tensor(&[dims[0], 6]);
    let (elements, turns) = (recorded::elements(&x), recorded::elements(&theta));
    let [batch, channels, height, width] = dims;
    let (down, across) = if is_own { (height, width) } else { (rows, columns) };
    let mut y = Vec::new();
    for image in 0..batch {
        let turn = &turns[image * 6..][..6];
        for channel in 0..channels {
            let plane = &elements[(image * channels + channel) * height * width..];
            let at = |row: i64, column: i64| {
                let is_inside =
                    (0..height as i64).contains(&row) && (0..width as i64).contains(&column);
                if is_inside { plane[row as usize * width + column as usize] } else { 0.0 }
            };
            for v in line(down) {
                for u in line(across) {
                    let place = |turn: &[f64]| turn[0] * u + turn[1] * v + turn[2];
                    let column = (place(&turn[..3]) + 1.0) * (width as f64 - 1.0) / 2.0;
                    let row = (place(&turn[3..]) + 1.0) * (height as f64 - 1.0) / 2.0;
                    let (left, top) = (column.floor(), row.floor());
                    let (right, bottom) = (column - left, row - top);
                    let (left, top) = (left as i64, top as i64);
                    y.push(
                        ((1.0 - bottom)
                            * ((1.0 - right) * at(top, left) + right * at(top, left + 1))
                            + bottom
                                * ((1.0 - right) * at(top + 1, left)
                                    + right * at(top + 1, left + 1)))
                            as f32,
                    );
                }
            }
        }
    }
    let attributes = vec![
        ("target_shape", text(format!("({rows}, {columns})"))),
        ("transform_type", text("affine")),
        ("sampler_type", text("bilinear")),
    ];
    let inputs = vec![("", x), ("", theta)];
    let (kind, outputs) = ("SpatialTransformer".to_owned(), vec!["output"]);
    let expected = floats(&y, &[batch, channels, down, across]);
    let is_dynamic = random.flag();
    Some((Single { kind, inputs, attributes, outputs, is_dynamic }, expected))
}

/// `src/operator/grid_generator-inl.h`: with `warp`, flows in pixels are added to the grid.
fn grid_generator(random: &mut Random) -> Option<(Single, Tensor)> {
    let (batch, height, width) = (random.size(1, 2), random.size(1, 5), random.size(1, 5));
    let x = random.tensor(&[batch, 2, height, width]);
    let half = |count: usize| (count.max(2) - 1) as f64 / 2.0;
    let flows = recorded::elements(&x);
    let mut y = Vec::new();
    for (number, flow) in flows.iter().enumerate() {
        let (column, row) = (number % width, number / width % height);
        let is_row = number / (width * height) % 2 == 1;
        let (count, place) = if is_row { (height, row) } else { (width, column) };
        y.push((flow / half(count) + line(count)[place]) as f32);
    }
    let expected = floats(&y, &[batch, 2, height, width]);
    let attributes = vec![("transform_type", text("warp"))];
    let (kind, outputs) = ("GridGenerator".to_owned(), vec!["output"]);
    let is_dynamic = random.flag();
    Some((Single { kind, inputs: vec![("", x)], attributes, outputs, is_dynamic }, expected))
}

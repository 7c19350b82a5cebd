//! MXNet 1.9.1.

use lodstone_model::Tensor;

use super::{Draw, Random, Single, applied, floats, image, linear, nearest, recorded, text};

pub(super) const DRAWS: &[(&str, Draw)] = &[
    ("bilinear_resize", bilinear_resize),
    ("up_sampling", up_sampling),
    ("crop", crop),
    ("spatial_transformer", spatial_transformer),
    ("grid_generator", grid_generator),
];

/// `src/operator/contrib/bilinear_resize-inl.h`.
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

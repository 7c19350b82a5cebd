//! Resizing and sampling of images.

use lodstone_model::{DType, Tensor};
use lodstone_store::Blob;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{MAX_PARTS, Node, Outcome, Rule, product, rank, required_dim};
use crate::onnx::windows::bins;
use crate::onnx::{Value, int, ints, text};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BilinearSampler", Rule::One(bilinear_sampler)),
    ("GridGenerator", Rule::One(grid_generator)),
    ("SpatialTransformer", Rule::One(spatial_transformer)),
    ("UpSampling", Rule::One(up_sampling)),
    ("_contrib_AdaptiveAvgPooling2D", Rule::One(adaptive_mean)),
    ("_contrib_BilinearResize2D", Rule::One(bilinear_resize)),
];

impl Node<'_> {
    /// Adds a list of floats with dims.
    pub(super) fn floats(&mut self, values: &[f32], dims: &[u64]) -> Value {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensor = Tensor::dense(DType::Float32, dims.to_vec(), Blob::memory(bytes));
        self.tensor(tensor, "numbers")
    }
}

/// Returns the height and width of images, which must be known.
pub(super) fn image_size(x: &Value) -> Outcome<(i64, i64)> {
    match rank(x)? {
        4 => Ok((required_dim(x, 2)?, required_dim(x, 3)?)),
        rank => Err(format!("expected images of rank 4, found rank {rank}").into()),
    }
}

/// Resizes images linearly.
fn resized(node: &mut Node<'_>, x: &Value, size: (i64, i64), mode: &str) -> Outcome {
    let begin = node.call("Shape", &[x], [int("end", 2)])?;
    let (height, width) = size;
    product(&[height, width])?;
    if height < 1 || width < 1 {
        return Err(format!("expected positive dims, found {height} and {width}").into());
    }
    let end = node.longs(&[height, width]);
    let sizes = node.concat(&[&begin, &end], 0)?;
    let attributes = [text("mode", "linear"), text("coordinate_transformation_mode", mode)];
    let [y] = node.emit_all("Resize", &[Some(x), None, None, Some(&sizes)], attributes)?;
    Ok(y)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "as MXNet computes it"
)]
fn scaled(dim: i64, scale: f64) -> i64 {
    (dim as f64 * scale) as i64
}

fn bilinear_resize(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let modes =
        ["size", "odd_scale", "like", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up"];
    let mode = node.attributes.word("mode", &modes, "size")?;
    let (high, wide) = (node.attributes.int("height", 1)?, node.attributes.int("width", 1)?);
    let tall = node.attributes.float_or_none("scale_height")?;
    let broad = node.attributes.float_or_none("scale_width")?;
    let is_aligned = node.attributes.flag("align_corners", true)?;
    node.at_most(if mode == "like" { 2 } else { 1 })?;
    let coordinates = if is_aligned { "align_corners" } else { "half_pixel" };
    if mode == "size" && tall.is_none() && broad.is_none() {
        return resized(node, &x, (high, wide), coordinates);
    }
    let given = image_size(&x)?;
    let each = |dim: i64, size: i64, scale: Option<f64>| match (mode, scale) {
        ("size", scale) => Ok(scale.map_or(size, |scale| scaled(dim, scale))),
        ("odd_scale", None) => Err("`odd_scale` needs `scale_height` and `scale_width`"),
        ("odd_scale", Some(scale)) if dim % 2 == 0 => Ok(scaled(dim, scale)),
        ("odd_scale", Some(scale)) => Ok(scaled(dim - 1, scale) + 1),
        ("to_even_down", _) => Ok(dim - dim % 2),
        ("to_even_up", _) => Ok(dim + dim % 2),
        ("to_odd_down", _) => Ok(dim - 1 + dim % 2),
        _ => Ok(dim + 1 - dim % 2),
    };
    let size = match mode {
        "like" => image_size(&node.input(1)?)?,
        _ => (each(given.0, high, tall)?, each(given.1, wide, broad)?),
    };
    resized(node, &x, size, coordinates)
}

/// Means of cells that together cover the image, and may overlap.
fn adaptive_mean(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let size = node.attributes.ints("output_size")?;
    let (height, width) = match size.as_slice() {
        [] => (1, 1),
        [size] => (*size, *size),
        [height, width] => (*height, *width),
        _ => return Err(wrong("output_size", "1 or 2 numbers", &format!("{size:?}"))),
    };
    if height < 1 || width < 1 {
        return Err(wrong("output_size", "positive numbers", &format!("{size:?}")));
    }
    if (height, width) == (1, 1) {
        return node.call("GlobalAveragePool", &[&x], []);
    }
    let (rows, columns) = image_size(&x)?;
    if rows % height == 0 && columns % width == 0 && rows > 0 && columns > 0 {
        let cell = [rows / height, columns / width];
        let attributes = [ints("kernel_shape", &cell), ints("strides", &cell)];
        return node.call("AveragePool", &[&x], attributes);
    }
    let left = cells(node, height, rows)?;
    let right = cells(node, width, columns)?;
    let (left, right) = (node.cast(&left, x.dtype())?, node.cast(&right, x.dtype())?);
    let right = node.turned(&right)?;
    let y = node.call("MatMul", &[&left, &x], [])?;
    node.call("MatMul", &[&y, &right], [])
}

/// A matrix whose rows compute the means of cells.
fn cells(node: &mut Node<'_>, count: i64, dim: i64) -> Outcome {
    let all = product(&[count, dim])?;
    if all > MAX_PARTS * 256 || dim < 1 {
        return Err(format!("{count} cells of {dim} elements are too many").into());
    }
    let mut values = Vec::new();
    for cell in bins(count, dim)? {
        #[expect(clippy::cast_precision_loss, reason = "cells are small")]
        let share = 1.0 / (cell.end - cell.start).max(1) as f32;
        values.extend((0..dim).map(|at| if cell.contains(&at) { share } else { 0.0 }));
    }
    Ok(node.floats(&values, &[count.unsigned_abs(), dim.unsigned_abs()]))
}

fn up_sampling(node: &mut Node<'_>) -> Outcome {
    let scale = node.attributes.int("scale", None)?;
    let filters = node.attributes.int("num_filter", 0)?;
    let joint = node.attributes.word("multi_input_mode", &["concat", "sum"], "concat")?;
    if !(1..=1 << 16).contains(&scale) {
        return Err(wrong("scale", "a positive number", &scale.to_string()));
    }
    if node.attributes.required_word("sample_type", &["nearest", "bilinear"])? == "bilinear" {
        return bilinear_up(node, scale, filters);
    }
    let all = node.all()?;
    let first = node.input(0)?;
    let mut scaled = Vec::new();
    for x in &all {
        let own = match all.len() {
            1 => scale,
            _ => {
                let (target, size) =
                    (image_size(&first)?.0.saturating_mul(scale), image_size(x)?.0);
                if size < 1 || target % size != 0 {
                    return Err(format!("a dim of {size} cannot be scaled to {target}").into());
                }
                target / size
            }
        };
        scaled.push(nearest(node, x, own)?);
    }
    let scaled: Vec<&Value> = scaled.iter().collect();
    match (scaled.as_slice(), joint) {
        ([only], _) => Ok((*only).clone()),
        (_, "sum") => node.call("Sum", &scaled, []),
        _ => node.concat(&scaled, 1),
    }
}

fn nearest(node: &mut Node<'_>, x: &Value, scale: i64) -> Outcome {
    if rank(x)? != 4 {
        return Err(format!("expected images of rank 4, found rank {}", rank(x)?).into());
    }
    #[expect(clippy::cast_precision_loss, reason = "the scale is small")]
    let scale = scale as f32;
    let scales = node.singles(&[1.0, 1.0, scale, scale]);
    let attributes = [
        text("mode", "nearest"),
        text("coordinate_transformation_mode", "asymmetric"),
        text("nearest_mode", "floor"),
    ];
    let [y] = node.emit_all("Resize", &[Some(x), None, Some(&scales)], attributes)?;
    Ok(y)
}

/// A deconvolution of each channel with given weights.
fn bilinear_up(node: &mut Node<'_>, scale: i64, filters: i64) -> Outcome {
    let [x, weight] = node.exactly()?;
    if filters < 1 {
        return Err(wrong("num_filter", "a positive number", &filters.to_string()));
    }
    let (kernel, pad) = (2 * scale - scale % 2, scale / 2);
    let attributes = [
        ints("kernel_shape", &[kernel, kernel]),
        ints("strides", &[scale, scale]),
        ints("pads", &[pad; 4]),
        int("group", filters),
    ];
    node.call("ConvTranspose", &[&x, &weight], attributes)
}

/// Samples images at a grid `[batch, height, width, 2]` of (x, y).
pub(super) fn sampled(node: &mut Node<'_>, x: &Value, grid: &Value, padding: &str) -> Outcome {
    let attributes =
        [text("mode", "linear"), text("padding_mode", padding), int("align_corners", 1)];
    node.call("GridSample", &[x, grid], attributes)
}

fn bilinear_sampler(node: &mut Node<'_>) -> Outcome {
    let [x, grid] = node.exactly()?;
    let grid = node.transpose(&grid, &[0, 2, 3, 1])?;
    sampled(node, &x, &grid, "zeros")
}

/// Returns coordinates from -1 to 1 in rows and columns: `[3, height * width]`, with ones as the last row.
fn coordinates(node: &mut Node<'_>, height: i64, width: i64) -> Outcome {
    if product(&[height, width])? > MAX_PARTS * 256 || height < 1 || width < 1 {
        return Err(format!("a grid of {height} times {width} is not supported").into());
    }
    #[expect(clippy::cast_precision_loss, reason = "grids are small")]
    let at = |place: i64, count: i64| -1.0 + place as f32 * (2.0 / (count - 1).max(1) as f32);
    let (mut xs, mut ys) = (Vec::new(), Vec::new());
    for row in 0..height {
        for column in 0..width {
            xs.push(at(column, width));
            ys.push(at(row, height));
        }
    }
    let ones = vec![1.0; xs.len()];
    let count = xs.len() as u64;
    Ok(node.floats(&[xs, ys, ones].concat(), &[3, count]))
}

/// The grid of an affine transformation: `[batch, 2, height * width]`.
fn affine(node: &mut Node<'_>, theta: &Value, (height, width): (i64, i64)) -> Outcome {
    let theta = node.recoded(theta, &[-1, 2, 3])?;
    let points = coordinates(node, height, width)?;
    node.call("MatMul", &[&theta, &points], [])
}

fn target(node: &Node<'_>) -> Outcome<(i64, i64)> {
    let shape = node.attributes.ints("target_shape")?;
    match shape.as_slice() {
        [height, width] => Ok((*height, *width)),
        _ => Err(wrong("target_shape", "two dims", &format!("{shape:?}"))),
    }
}

fn grid_generator(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    if node.attributes.required_word("transform_type", &["affine", "warp"])? == "affine" {
        let (height, width) = target(node)?;
        let grid = affine(node, &x, (height, width))?;
        return node.recoded(&grid, &[0, 0, -4, height, width]);
    }
    node.attributes.ignore(&["target_shape"]);
    let (height, width) = image_size(&x)?;
    let points = coordinates(node, height, width)?;
    let points = node.slice(&points, 0, 0, 2)?;
    let points = node.reshape(&points, &[2, height, width])?;
    #[expect(clippy::cast_precision_loss, reason = "grids are small")]
    let half = |dim: i64| (dim - 1).max(1) as f32 / 2.0;
    let halves = node.floats(&[half(width), half(height)], &[2, 1, 1]);
    let moved = node.div(&x, &halves)?;
    node.add(&moved, &points)
}

fn spatial_transformer(node: &mut Node<'_>) -> Outcome {
    let [x, theta] = node.exactly()?;
    node.attributes.required_word("transform_type", &["affine"])?;
    node.attributes.required_word("sampler_type", &["bilinear"])?;
    let (height, width) = target(node)?;
    let size = if (height, width) == (0, 0) { image_size(&x)? } else { (height, width) };
    let grid = affine(node, &theta, size)?;
    let grid = node.transpose(&grid, &[0, 2, 1])?;
    let grid = node.recoded(&grid, &[0, -4, size.0, size.1, 0])?;
    sampled(node, &x, &grid, "zeros")
}

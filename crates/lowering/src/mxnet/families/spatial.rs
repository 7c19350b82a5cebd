//! Resizing and sampling of images.

use lodstone_model::{DType, Tensor};
use lodstone_schema::Finding;
use lodstone_store::Blob;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{MAX_PARTS, Node, Outcome, Rule, product, rank, required_dim};
use crate::onnx::adaptive::Pooled;
use crate::onnx::resizing::{Extent, Filter, Places, Resize, Rounding};
use crate::onnx::{Precision, Size, Value, int, ints, text};

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

/// Returns an image, whose dims may be unknown.
fn image(node: &Node<'_>, index: usize) -> Outcome {
    let x = node.input(index)?;
    match rank(&x)? {
        4 => Ok(x),
        rank => Err(format!("expected images of rank 4, found rank {rank}").into()),
    }
}

/// Resizes images linearly.
fn resized(node: &mut Node<'_>, x: &Value, sizes: &[Size; 2], is_aligned: bool) -> Outcome {
    let known = sizes.each_ref().map(Size::known);
    let places = match known {
        _ if is_aligned => Places::AlignCorners,
        [Some(height), Some(width)] if height != 1 && width != 1 => Places::HalfPixel,
        _ => Places::HalfPixelUnlessSingle,
    };
    let known: Vec<i64> = known.into_iter().flatten().collect();
    product(&known)?;
    if known.iter().any(|size| *size < 1) {
        return Err(format!("expected positive dims, found {known:?}").into());
    }
    node.resize_to(x, Resize::new(Filter::Linear, places), sizes)
}

/// The size that `BilinearResize2D` gives a dim.
#[derive(Clone, Copy)]
enum Resized {
    To(i64),
    By(f64),
    /// An odd dim stays one.
    OddBy(f64),
    /// The dim, plus one of the numbers: for even and odd dims.
    Moved {
        even: i64,
        odd: i64,
    },
}

impl Resized {
    fn size(self, node: &mut Node<'_>, x: &Value, axis: i64) -> Outcome<Size> {
        if let Self::To(size) = self {
            return Ok(Size::Known(size));
        }
        let dim = node.size_of(x, axis)?;
        if let Self::By(scale) = self {
            return node.scaled(&dim, scale, Precision::Single);
        }
        let rest = node.rest_of(&dim, 2)?;
        match self {
            Self::OddBy(scale) => {
                let even = node.difference_of(&dim, &rest)?;
                let even = node.scaled(&even, scale, Precision::Single)?;
                node.sum_of(&even, &rest)
            }
            Self::Moved { even, odd } => {
                let change = node.product_of(&rest, &Size::Known(odd - even))?;
                let moved = node.sum_of(&dim, &Size::Known(even))?;
                node.sum_of(&moved, &change)
            }
            Self::To(_) | Self::By(_) => Err(Finding::internal("the size needs no rest")),
        }
    }
}

fn bilinear_resize(node: &mut Node<'_>) -> Outcome {
    let x = image(node, 0)?;
    let modes =
        ["size", "odd_scale", "like", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up"];
    let mode = node.attributes.word("mode", &modes, "size")?;
    let sizes = [node.attributes.int("height", 1)?, node.attributes.int("width", 1)?];
    let scales = [
        node.attributes.float_or_none("scale_height")?,
        node.attributes.float_or_none("scale_width")?,
    ];
    let is_aligned = node.attributes.flag("align_corners", true)?;
    node.at_most(if mode == "like" { 2 } else { 1 })?;
    if mode == "like" {
        let like = image(node, 1)?;
        let sizes = [node.size_of(&like, 2)?, node.size_of(&like, 3)?];
        return resized(node, &x, &sizes, is_aligned);
    }
    let each = |size: i64, scale: Option<f64>| match (mode, scale) {
        ("size", None) => Ok(Resized::To(size)),
        ("size", Some(scale)) => Ok(Resized::By(scale)),
        ("odd_scale", None) => Err("`odd_scale` needs `scale_height` and `scale_width`"),
        ("odd_scale", Some(scale)) => Ok(Resized::OddBy(scale)),
        ("to_even_down", _) => Ok(Resized::Moved { even: 0, odd: -1 }),
        ("to_even_up", _) => Ok(Resized::Moved { even: 0, odd: 1 }),
        ("to_odd_down", _) => Ok(Resized::Moved { even: -1, odd: 0 }),
        _ => Ok(Resized::Moved { even: 1, odd: 0 }),
    };
    let [height, width] = sizes;
    let [tall, broad] = scales;
    let height = each(height, tall)?.size(node, &x, 2)?;
    let width = each(width, broad)?.size(node, &x, 3)?;
    resized(node, &x, &[height, width], is_aligned)
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
    node.adaptive_pool(&x, &[Size::Known(height), Size::Known(width)], Pooled::Mean)
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
    let first = image(node, 0)?;
    let count = node.count();
    let mut scaled = Vec::new();
    for index in 0..count {
        let x = image(node, index)?;
        scaled.push(match (first.size(2)?, x.size(2)?) {
            _ if count == 1 => repeated(node, &x, scale)?,
            (Some(target), Some(size)) => {
                let target = target.saturating_mul(scale);
                if size < 1 || target % size != 0 {
                    return Err(format!("a dim of {size} cannot be scaled to {target}").into());
                }
                repeated(node, &x, target / size)?
            }
            _ => {
                let mut sizes = Vec::new();
                for axis in 2..4 {
                    let dim = node.size_of(&first, axis)?;
                    sizes.push(node.product_of(&dim, &Size::Known(scale))?);
                }
                node.resize_to(&x, REPEATED, &sizes)?
            }
        });
    }
    let scaled: Vec<&Value> = scaled.iter().collect();
    match (scaled.as_slice(), joint) {
        ([only], _) => Ok((*only).clone()),
        (_, "sum") => node.call("Sum", &scaled, []),
        _ => node.concat(&scaled, 1),
    }
}

const REPEATED: Resize = Resize::new(Filter::Nearest(Rounding::Down), Places::Asymmetric);

/// Repeats each element in both directions.
fn repeated(node: &mut Node<'_>, x: &Value, scale: i64) -> Outcome {
    #[expect(clippy::cast_precision_loss, reason = "the scale is small")]
    let scale = scale as f32;
    let scales = node.singles(&[1.0, 1.0, scale, scale]);
    node.resize(x, REPEATED, &[], Extent::Scales(&scales))
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
fn coordinates(node: &mut Node<'_>, sizes: &[Size; 2]) -> Outcome {
    let [Size::Known(height), Size::Known(width)] = *sizes else {
        return computed_coordinates(node, sizes);
    };
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

/// Returns the number of steps along an axis, at least 1, as a float.
fn steps(node: &mut Node<'_>, size: &Size) -> Outcome {
    let (size, one) = (node.scalar_of(size)?, node.long(1));
    let steps = node.plus(&size, -1.0)?;
    let steps = node.call("Max", &[&steps, &one], [])?;
    node.cast(&steps, DType::Float32)
}

/// Computes coordinates of which the number is not known.
fn computed_coordinates(node: &mut Node<'_>, sizes: &[Size; 2]) -> Outcome {
    let dims = node.list_of(sizes)?;
    let mut parts = Vec::new();
    for (size, is_column) in sizes.iter().zip([true, false]) {
        let steps = steps(node, size)?;
        let two = node.number(DType::Float32, 2.0)?;
        let step = node.div(&two, &steps)?;
        let count = node.scalar_of(size)?;
        let places = node.counting(&count, DType::Float32)?;
        let places = node.mul(&places, &step)?;
        let places = node.plus(&places, -1.0)?;
        let places = if is_column { node.unsqueeze(&places, &[1])? } else { places };
        parts.push(node.call("Expand", &[&places, &dims], [])?);
    }
    let ones = node.filled_as(DType::Float32, 1.0, &dims)?;
    let [rows, columns] = &parts[..] else { return Err(Finding::internal("a line was lost")) };
    let mut flat = Vec::new();
    for part in [columns, rows, &ones] {
        flat.push(node.reshape(part, &[1, -1])?);
    }
    node.concat(&flat.iter().collect::<Vec<_>>(), 0)
}

/// The grid of an affine transformation: `[batch, 2, height * width]`.
fn affine(node: &mut Node<'_>, theta: &Value, sizes: &[Size; 2]) -> Outcome {
    let theta = node.recoded(theta, &[-1, 2, 3])?;
    let points = coordinates(node, sizes)?;
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
        let grid = affine(node, &x, &[height, width].map(Size::Known))?;
        return node.recoded(&grid, &[0, 0, -4, height, width]);
    }
    node.attributes.ignore(&["target_shape"]);
    let x = image(node, 0)?;
    let sizes = [node.size_of(&x, 2)?, node.size_of(&x, 3)?];
    let points = coordinates(node, &sizes)?;
    let points = node.slice(&points, 0, 0, 2)?;
    let [height, width] = sizes;
    let (points, halves) = match (&height, &width) {
        (Size::Known(height), Size::Known(width)) => {
            #[expect(clippy::cast_precision_loss, reason = "grids are small")]
            let half = |dim: i64| (dim - 1).max(1) as f32 / 2.0;
            let points = node.reshape(&points, &[2, *height, *width])?;
            (points, node.floats(&[half(*width), half(*height)], &[2, 1, 1]))
        }
        _ => {
            let (across, down) = (steps(node, &width)?, steps(node, &height)?);
            let [across, down] = [node.reshape(&across, &[1])?, node.reshape(&down, &[1])?];
            let steps = node.concat(&[&across, &down], 0)?;
            let halves = node.times(&steps, 0.5)?;
            let dims = node.list_of(&[Size::Known(2), height, width])?;
            let points = node.call("Reshape", &[&points, &dims], [])?;
            (points, node.reshape(&halves, &[2, 1, 1])?)
        }
    };
    let moved = node.div(&x, &halves)?;
    node.add(&moved, &points)
}

fn spatial_transformer(node: &mut Node<'_>) -> Outcome {
    let [x, theta] = node.exactly()?;
    node.attributes.required_word("transform_type", &["affine"])?;
    node.attributes.required_word("sampler_type", &["bilinear"])?;
    let (height, width) = target(node)?;
    let sizes = match (height, width) {
        (0, 0) => {
            let x = image(node, 0)?;
            [node.size_of(&x, 2)?, node.size_of(&x, 3)?]
        }
        (height, width) => [height, width].map(Size::Known),
    };
    let grid = affine(node, &theta, &sizes)?;
    let grid = node.transpose(&grid, &[0, 2, 1])?;
    let grid = match &sizes {
        [Size::Known(height), Size::Known(width)] => {
            node.recoded(&grid, &[0, -4, *height, *width, 0])?
        }
        [height, width] => {
            // The batch is that of the transformations.
            let dims = [Size::Known(-1), height.clone(), width.clone(), Size::Known(2)];
            let dims = node.list_of(&dims)?;
            node.call("Reshape", &[&grid, &dims], [])?
        }
    };
    sampled(node, &x, &grid, "zeros")
}

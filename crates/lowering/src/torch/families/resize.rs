//! Resizing of images, and sampling at places.

use lodstone_model::{DType, Dim};
use lodstone_schema::Finding;
use lodstone_schema::numbers::length;
use lodstone_schema::onnx::infer::scaled_size;

use crate::onnx::windows::{Pads, Rounding, Windows};
use crate::onnx::{Value, float, int, ints, text};
use crate::torch::arguments::{Size, wrong};
use crate::torch::node::{Node, Outcome, Rule, dim_of, rank, rank_of, required_dim};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::_upsample_bicubic2d_aa", Rule::One(|node| resized(node, &CUBIC_AA))),
    ("aten::_upsample_bilinear2d_aa", Rule::One(|node| resized(node, &LINEAR_AA))),
    ("aten::_upsample_nearest_exact1d", Rule::One(|node| resized(node, &EXACT))),
    ("aten::_upsample_nearest_exact2d", Rule::One(|node| resized(node, &EXACT))),
    ("aten::_upsample_nearest_exact3d", Rule::One(|node| resized(node, &EXACT))),
    ("aten::affine_grid_generator", Rule::One(affine_grid)),
    ("aten::col2im", Rule::One(col2im)),
    ("aten::grid_sampler", Rule::One(grid_sample)),
    ("aten::grid_sampler_2d", Rule::One(grid_sample)),
    ("aten::grid_sampler_3d", Rule::One(grid_sample)),
    ("aten::im2col", Rule::One(im2col)),
    ("aten::upsample_bicubic2d", Rule::One(|node| resized(node, &CUBIC))),
    ("aten::upsample_bilinear2d", Rule::One(|node| resized(node, &LINEAR))),
    ("aten::upsample_linear1d", Rule::One(|node| resized(node, &LINEAR))),
    ("aten::upsample_nearest1d", Rule::One(|node| resized(node, &NEAREST))),
    ("aten::upsample_nearest2d", Rule::One(|node| resized(node, &NEAREST))),
    ("aten::upsample_nearest3d", Rule::One(|node| resized(node, &NEAREST))),
    ("aten::upsample_trilinear3d", Rule::One(|node| resized(node, &LINEAR))),
];

/// A way to resize.
struct Mode {
    mode: &'static str,
    coordinates: &'static str,
    nearest: &'static str,
    antialias: bool,
}

const NEAREST: Mode =
    Mode { mode: "nearest", coordinates: "asymmetric", nearest: "floor", antialias: false };
const EXACT: Mode = Mode {
    mode: "nearest",
    coordinates: "half_pixel",
    nearest: "round_prefer_ceil",
    antialias: false,
};
const LINEAR: Mode =
    Mode { mode: "linear", coordinates: "half_pixel", nearest: "", antialias: false };
const CUBIC: Mode =
    Mode { mode: "cubic", coordinates: "half_pixel", nearest: "", antialias: false };
const LINEAR_AA: Mode = Mode { antialias: true, ..LINEAR };
const CUBIC_AA: Mode = Mode { antialias: true, ..CUBIC };

/// Returns the scales of the spatial dims, if they are given: they map coordinates, rather than the ratio of dims.
fn scales(node: &Node<'_>, count: usize) -> Outcome<Option<Vec<f64>>> {
    if node.arguments.overload() == "vec" {
        return node.arguments.floats("scale_factors");
    }
    let names: &[&str] = match count {
        1 => &["scales"],
        2 => &["scales_h", "scales_w"],
        _ => &["scales_d", "scales_h", "scales_w"],
    };
    let all = names.iter().map(|name| node.arguments.optional_float(name));
    Ok(all.collect::<Outcome<Vec<_>>>()?.into_iter().collect())
}

fn resized(node: &mut Node<'_>, mode: &Mode) -> Outcome {
    let name = if node.arguments.has("input") { "input" } else { "self" };
    let x = node.tensor(name)?;
    let count = match rank_of(&x)?.count() {
        rank @ 3..=5 => rank - 2,
        rank => return Err(format!("expected images of rank 3 to 5, found {rank}").into()),
    };
    let aligns = node.arguments.has("align_corners") && node.arguments.flag("align_corners")?;
    let scales = scales(node, count)?;
    let sizes = node.arguments.optional_sizes("output_size")?;
    let sizes = match (sizes, &scales) {
        (Some(sizes), _) => sizes,
        (None, Some(scales)) => {
            let mut sizes = Vec::new();
            for (axis, scale) in (2..).zip(scales) {
                sizes.push(scaled(node, &x, axis, *scale)?);
            }
            sizes
        }
        (None, None) => return Err("expected sizes or scales".into()),
    };
    if sizes.len() != count {
        return Err(wrong("output_size", &format!("{count} sizes"), &sizes.len().to_string()));
    }
    let scales = scales.map(|scales| effective(&x, mode, &scales, &sizes));
    if mode.mode == "nearest"
        && let Some(y) = picked(node, &x, mode, &sizes, scales.as_deref())?
    {
        return Ok(y);
    }
    let axes: Vec<i64> = (2..).take(count).collect();
    let mut attributes = vec![text("mode", mode.mode), ints("axes", &axes)];
    let coordinates = if aligns { "align_corners" } else { mode.coordinates };
    attributes.push(text("coordinate_transformation_mode", coordinates));
    if !mode.nearest.is_empty() {
        attributes.push(text("nearest_mode", mode.nearest));
    }
    if mode.mode == "cubic" {
        attributes.push(float("cubic_coeff_a", if mode.antialias { -0.5 } else { -0.75 }));
    }
    if mode.antialias {
        // The weights of what is outside of the image are left out.
        attributes.extend([int("antialias", 1), int("exclude_outside", 1)]);
    }
    let wide = if x.dtype().is_float() { x.dtype() } else { DType::Float32 };
    let source = node.cast(&x, wide)?;
    // Given scales differ from the ratio of dims if those were rounded.
    let differ = scales.as_ref().filter(|scales| !aligns && !fits(&x, scales, &sizes));
    let [y] = match differ {
        Some(scales) => {
            let scales = node.singles(&singles(&x, scales, &sizes)?);
            node.emit_all("Resize", &[Some(&source), None, Some(&scales)], attributes)?
        }
        None => {
            let sizes = node.list_of(&sizes)?;
            node.emit_all("Resize", &[Some(&source), None, None, Some(&sizes)], attributes)?
        }
    };
    node.cast(&y, x.dtype())
}

/// Returns the scales that PyTorch computes with: a dim that keeps its size is copied, whatever its scale, except by cubic and exact
/// modes and nearest ones of one and three dims; nearest elements of images are repeated if their number is doubled.
fn effective(x: &Value, mode: &Mode, scales: &[f64], sizes: &[Size]) -> Vec<f64> {
    let is_image_of_nearest = mode.nearest == "floor" && sizes.len() == 2;
    let copies = mode.mode == "linear" || mode.antialias || is_image_of_nearest;
    let one = |(axis, (scale, size)): (i64, (&f64, &Size))| match (dim_of(x, axis), size) {
        (Some(dim), Size::Known(size)) if copies && *size == dim => 1.0,
        (Some(dim), Size::Known(size)) if is_image_of_nearest && *size == 2 * dim => 2.0,
        _ => *scale,
    };
    (2..).zip(scales.iter().zip(sizes)).map(one).collect()
}

/// Picks the nearest elements by index, as PyTorch rounds them; `None` if dims are unknown, or are multiplied by integers,
/// which need no rounding.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "as PyTorch")]
fn picked(
    node: &mut Node<'_>,
    x: &Value,
    mode: &Mode,
    sizes: &[Size],
    scales: Option<&[f64]>,
) -> Outcome<Option<Value>> {
    let mut all = Vec::new();
    for (index, (axis, size)) in (2..).zip(sizes).enumerate() {
        let (Some(dim), Size::Known(size)) = (dim_of(x, axis), size) else { return Ok(None) };
        if !(1..=1 << 16).contains(size) || dim < 1 {
            return Ok(None);
        }
        let given = scales.and_then(|scales| scales.get(index)).filter(|scale| **scale > 0.0);
        let step = match given {
            Some(scale) => (1.0 / scale) as f32,
            None => dim as f32 / *size as f32,
        };
        let offset = if mode.nearest == "floor" { 0.0 } else { 0.5 };
        let place = |at: i64| (((at as f32 + offset) * step).floor() as i64).min(dim - 1);
        all.push((axis, dim, (0..*size).map(place).collect::<Vec<i64>>()));
    }
    let is_whole = |(_, dim, places): &(i64, i64, Vec<i64>)| {
        let factor = length(places.len()) / dim;
        (0..).zip(places).all(|(at, place)| factor > 0 && *place == at / factor)
    };
    if all.iter().all(is_whole) {
        return Ok(None);
    }
    let mut y = x.clone();
    for (axis, dim, places) in all {
        if places.iter().copied().eq(0..dim) {
            continue;
        }
        let places = node.longs(&places);
        y = node.gather(&y, &places, axis)?;
    }
    Ok(Some(y))
}

/// Whether scales are the ratios of dims.
#[expect(clippy::cast_precision_loss, reason = "dims are small")]
fn fits(x: &Value, scales: &[f64], sizes: &[Size]) -> bool {
    (2..).zip(scales.iter().zip(sizes)).all(|(axis, (scale, size))| match (dim_of(x, axis), size) {
        (Some(dim), Size::Known(size)) => dim as f64 * scale == *size as f64,
        // Dims that are multiplied by an integer fit.
        _ => scale.fract() == 0.0,
    })
}

/// Returns scales in single precision by which ONNX computes the same sizes. PyTorch multiplies in double precision: where the
/// nearest scale gives another size, that of a neighbour fits (100 times 0.29 is 28.999...).
#[expect(clippy::cast_possible_truncation, reason = "scales of ONNX are in single precision")]
fn singles(x: &Value, scales: &[f64], sizes: &[Size]) -> Outcome<Vec<f32>> {
    let dims = x.shape()?.get(2..).unwrap_or_default();
    let single = |(dim, (scale, size)): (&Dim, (&f64, &Size))| {
        let nearest = *scale as f32;
        let (Dim::Known(dim), Size::Known(size)) = (dim, size) else { return Ok(nearest) };
        let gives = |scale: &f32| scaled_size(*dim, f64::from(*scale)) as i64 == *size;
        let found = [nearest, nearest.next_up(), nearest.next_down()].into_iter().find(gives);
        found.ok_or_else(|| Finding::from(format!("{dim} times {scale} is not the size {size}")))
    };
    dims.iter().zip(scales.iter().zip(sizes)).map(single).collect()
}

/// Returns a dim times a scale, rounded down.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "dims are small")]
fn scaled(node: &mut Node<'_>, x: &Value, axis: i64, scale: f64) -> Outcome<Size> {
    if let Some(dim) = dim_of(x, axis) {
        return Ok(Size::Known((dim as f64 * scale).floor() as i64));
    }
    let size = node.extent_as(x, axis, DType::Float64)?;
    let product = node.times(&size, scale)?;
    let floor = node.call("Floor", &[&product], [])?;
    node.cast(&floor, DType::Int64).map(Size::Value)
}

fn grid_sample(node: &mut Node<'_>) -> Outcome {
    let (x, grid) = (node.tensor("input")?, node.tensor("grid")?);
    let mode = node.arguments.int("interpolation_mode")?;
    let padding = node.arguments.int("padding_mode")?;
    let aligns = node.arguments.flag("align_corners")?;
    let pick = |names: [&'static str; 3], index: i64, name: &str| {
        let found = usize::try_from(index).ok().and_then(|index| names.get(index).copied());
        found.ok_or_else(|| wrong(name, "0 to 2", &index.to_string()))
    };
    let mode = pick(["linear", "nearest", "cubic"], mode, "interpolation_mode")?;
    let padding = pick(["zeros", "border", "reflection"], padding, "padding_mode")?;
    let attributes = [
        text("mode", mode),
        text("padding_mode", padding),
        int("align_corners", i64::from(aligns)),
    ];
    node.call("GridSample", &[&x, &grid], attributes)
}

fn affine_grid(node: &mut Node<'_>) -> Outcome {
    let theta = node.tensor("theta")?;
    let sizes = node.arguments.sizes("size")?;
    let aligns = node.arguments.flag("align_corners")?;
    let sizes = node.list_of(&sizes)?;
    node.call("AffineGrid", &[&theta, &sizes], [int("align_corners", i64::from(aligns))])
}

/// Returns the windows of images.
fn windows(node: &Node<'_>) -> Outcome<Windows> {
    let each = |name: &str, least: i64| {
        let numbers = node.arguments.each(name, 2, None)?;
        match numbers.iter().all(|number| (least..=1 << 12).contains(number)) {
            true => Ok(numbers),
            false => Err(Finding::from("the windows must have positive sizes")),
        }
    };
    let (kernel, dilation) = (each("kernel_size", 1)?, each("dilation", 1)?);
    let (padding, stride) = (each("padding", 0)?, each("stride", 1)?);
    Windows::new(&kernel, &stride, &dilation, &Pads::both(&padding))
}

/// Windows as columns: `[n, c, h, w]` to `[n, c * kh * kw, places]`.
fn im2col(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let windows = windows(node)?;
    let is_single = rank(&x)? == 3;
    let x = if is_single { node.unsqueeze(&x, &[0])? } else { x };
    let (channels, height, width) =
        (required_dim(&x, 1)?, required_dim(&x, 2)?, required_dim(&x, 3)?);
    let counts = windows.counts(&[height, width], Rounding::Down)?;
    let ([kh, kw], [rows, columns]) = (pair(&windows.kernel())?, pair(&counts)?);
    if rows.saturating_mul(columns).saturating_mul(kh * kw) > 1 << 24 {
        return Err(format!("the image has {rows} by {columns} windows").into());
    }
    let pads = node.longs(&windows.pads().of_images());
    let mut picked = node.call("Pad", &[&x, &pads], [])?;
    // [kh * rows] and [kw * columns]
    let bare = windows.bare();
    let places = bare.iter().zip(counts).map(|(window, count)| {
        let of_tap = |tap| (0..count).map(move |number| window.place(number, tap));
        node.longs(&(0..window.kernel()).flat_map(of_tap).collect::<Vec<i64>>())
    });
    for (axis, places) in (2..).zip(places.collect::<Vec<_>>()) {
        picked = node.gather(&picked, &places, axis)?;
    }
    let parts = node.reshape(&picked, &[-1, channels, kh, rows, kw, columns])?;
    let turned = node.transpose(&parts, &[0, 1, 2, 4, 3, 5])?;
    let y = node.reshape(&turned, &[-1, channels * kh * kw, rows * columns])?;
    if !is_single {
        return Ok(y);
    }
    let axes = node.longs(&[0]);
    node.call("Squeeze", &[&y, &axes], [])
}

fn col2im(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let windows = windows(node)?;
    let output = node.arguments.ints("output_size")?;
    let is_single = rank(&x)? == 2;
    let x = if is_single { node.unsqueeze(&x, &[0])? } else { x };
    let (output, kernel) = (node.longs(&output), node.longs(&windows.kernel()));
    let attributes = [
        ints("dilations", &windows.dilations()),
        windows.pads().attribute(),
        ints("strides", &windows.strides()),
    ];
    let y = node.call("Col2Im", &[&x, &output, &kernel], attributes)?;
    if !is_single {
        return Ok(y);
    }
    let axes = node.longs(&[0]);
    node.call("Squeeze", &[&y, &axes], [])
}

fn pair(values: &[i64]) -> Outcome<[i64; 2]> {
    values.try_into().map_err(|_| Finding::internal("a number was lost"))
}

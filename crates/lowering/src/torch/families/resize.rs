//! Resizing of images, and sampling at places.

use lodstone_model::DType;
use lodstone_schema::{Code, Finding};

use super::conv::batched;
use crate::onnx::resizing::{Extent, Filter, Picks, Places, Repeats, Resize, Rounding, Scale};
use crate::onnx::windows::{Pads, Windows};
use crate::onnx::{Precision, Value, int, known_sizes, text};
use crate::torch::arguments::{Size, wrong};
use crate::torch::node::{Node, Outcome, Rule, dim_of};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::_upsample_bicubic2d_aa", Rule::One(|node| resized(node, CUBIC_AA))),
    ("aten::_upsample_bilinear2d_aa", Rule::One(|node| resized(node, LINEAR_AA))),
    ("aten::_upsample_nearest_exact1d", Rule::One(|node| resized(node, EXACT))),
    ("aten::_upsample_nearest_exact2d", Rule::One(|node| resized(node, EXACT))),
    ("aten::_upsample_nearest_exact3d", Rule::One(|node| resized(node, EXACT))),
    ("aten::affine_grid_generator", Rule::One(affine_grid)),
    ("aten::col2im", Rule::One(col2im)),
    ("aten::grid_sampler", Rule::One(grid_sample)),
    ("aten::grid_sampler_2d", Rule::One(grid_sample)),
    ("aten::grid_sampler_3d", Rule::One(grid_sample)),
    ("aten::im2col", Rule::One(im2col)),
    ("aten::upsample_bicubic2d", Rule::One(|node| resized(node, CUBIC))),
    ("aten::upsample_bilinear2d", Rule::One(|node| resized(node, LINEAR))),
    ("aten::upsample_linear1d", Rule::One(|node| resized(node, LINEAR))),
    ("aten::upsample_nearest1d", Rule::One(|node| resized(node, NEAREST))),
    ("aten::upsample_nearest2d", Rule::One(|node| resized(node, NEAREST))),
    ("aten::upsample_nearest3d", Rule::One(|node| resized(node, NEAREST))),
    ("aten::upsample_trilinear3d", Rule::One(|node| resized(node, LINEAR))),
];

const NEAREST: Resize = Resize::new(Filter::Nearest(Rounding::Down), Places::Asymmetric);
const EXACT: Resize = Resize::new(Filter::Nearest(Rounding::HalfUp), Places::HalfPixel);
const LINEAR: Resize = Resize::new(Filter::Linear, Places::HalfPixel);
const CUBIC: Resize = Resize::new(Filter::Cubic, Places::HalfPixel);
const LINEAR_AA: Resize = Resize { antialias: true, ..LINEAR };
const CUBIC_AA: Resize = Resize { antialias: true, ..CUBIC };

/// Returns the given scales of the spatial dims: they map coordinates, rather than the ratio of dims.
fn scales(node: &Node<'_>, count: usize) -> Outcome<Vec<Option<f64>>> {
    if node.arguments.overload() == "vec" {
        return match node.arguments.floats("scale_factors")? {
            None => Ok(vec![None; count]),
            Some(all) if all.len() == count => Ok(all.into_iter().map(Some).collect()),
            Some(all) => {
                Err(wrong("scale_factors", &format!("{count} numbers"), &format!("{all:?}")))
            }
        };
    }
    let names: &[&str] = match count {
        1 => &["scales"],
        2 => &["scales_h", "scales_w"],
        _ => &["scales_d", "scales_h", "scales_w"],
    };
    names.iter().map(|name| node.arguments.optional_float(name)).collect()
}

/// The sizes of the spatial dims, and the scales that map coordinates.
struct Target {
    sizes: Vec<Size>,
    scales: Vec<Option<f64>>,
}

impl Target {
    fn of(node: &mut Node<'_>, x: &Value, count: usize) -> Outcome<Self> {
        let scales = scales(node, count)?;
        if let Some(sizes) = node.arguments.optional_sizes("output_size")? {
            return match sizes.len() == count {
                true => Ok(Self { sizes, scales }),
                false => {
                    let found = sizes.len().to_string();
                    Err(wrong("output_size", &format!("{count} sizes"), &found))
                }
            };
        }
        let mut sizes = Vec::new();
        for (axis, scale) in (2..).zip(&scales) {
            let scale = scale.ok_or("expected sizes or scales")?;
            let dim = node.size_of(x, axis)?;
            sizes.push(node.scaled(&dim, scale, Precision::Double)?);
        }
        Ok(Self { sizes, scales })
    }

    /// Returns the axes with their sizes and scales.
    fn axes(&self) -> impl Iterator<Item = (i64, &Size, Option<f64>)> {
        (2..).zip(self.sizes.iter().zip(&self.scales)).map(|(axis, (size, it))| (axis, size, *it))
    }
}

fn resized(node: &mut Node<'_>, how: Resize) -> Outcome {
    let name = if node.arguments.has("input") { "input" } else { "self" };
    let x = node.tensor(name)?;
    let count = match x.rank()?.count() {
        rank @ 3..=5 => rank - 2,
        rank => return Err(format!("expected images of rank 3 to 5, found {rank}").into()),
    };
    let aligns = node.arguments.has("align_corners") && node.arguments.flag("align_corners")?;
    let target = Target::of(node, &x, count)?;
    if matches!(how.filter, Filter::Nearest(_)) {
        let offset = if how.places == Places::HalfPixel { 0.5 } else { 0.0 };
        let repeats = if offset == 0.0 && count == 2 { Repeats::IfTwice } else { Repeats::Never };
        let scales = target.scales.iter().map(|scale| scale.map_or(Scale::Absent, Scale::Known));
        let scales: Vec<Scale> = scales.collect();
        let picks = Picks::Down { offset, repeats };
        if let Some(y) = node.picked(&x, picks, &target.sizes, &scales)? {
            return Ok(y);
        }
    }
    let wide = if x.dtype().is_float() { x.dtype() } else { DType::Float32 };
    let source = node.cast(&x, wide)?;
    let y = match aligns {
        true if how.antialias => {
            let sizes = known_sizes(&target.sizes).and_then(|sizes| sizes.try_into().ok());
            let unknown = || Finding::new(Code::UnknownDims, "the sizes must be known");
            node.smoothed(&source, how, sizes.ok_or_else(unknown)?)?
        }
        true => {
            let how = Resize { places: Places::AlignCorners, ..how };
            by_sizes(node, &source, how, target.axes())?
        }
        // Given scales differ from the ratio of dims if those were rounded.
        false if target.axes().any(|(axis, size, it)| !fits(&x, axis, size, it)) => {
            let (given, others): (Vec<_>, Vec<_>) =
                target.axes().partition(|(.., scale)| scale.is_some());
            let y = by_scales(node, &source, how, &given, count)?;
            if others.is_empty() { y } else { by_sizes(node, &y, how, others.into_iter())? }
        }
        false => by_sizes(node, &source, how, target.axes())?,
    };
    node.cast(&y, x.dtype())
}

type Axis<'t> = (i64, &'t Size, Option<f64>);

fn by_sizes<'t>(
    node: &mut Node<'_>,
    x: &Value,
    how: Resize,
    axes: impl Iterator<Item = Axis<'t>>,
) -> Outcome {
    let (axes, sizes): (Vec<i64>, Vec<Size>) =
        axes.map(|(axis, size, _)| (axis, size.clone())).unzip();
    let sizes = node.list_of(&sizes)?;
    node.resize(x, how, &axes, Extent::Sizes(&sizes))
}

fn by_scales(
    node: &mut Node<'_>,
    x: &Value,
    how: Resize,
    given: &[Axis<'_>],
    count: usize,
) -> Outcome {
    let axes: Vec<i64> = given.iter().map(|(axis, ..)| *axis).collect();
    let (mut scales, mut kept) = (Vec::new(), Vec::new());
    for (axis, size, scale) in given {
        let scale = scale.ok_or_else(|| Finding::internal("an axis without a scale has one"))?;
        let scale = effective(x, how, count, (*axis, size, scale));
        scales.push(single(x, *axis, size, scale)?);
        let is_known = dim_of(x, *axis).is_some() && size.known().is_some();
        // By other scales, no dim of at least 2 keeps its size.
        if how.copies() && !is_known && scale > 1.0 && scale < 1.5 {
            let (dim, size) = (node.extent(x, *axis)?, node.scalar_of(size)?);
            kept.push((*axis, node.call("Equal", &[&dim, &size], [])?));
        }
    }
    let mut scales = node.singles(&scales);
    for (axis, is_kept) in kept {
        let is_axis: Vec<i64> = axes.iter().map(|other| i64::from(*other == axis)).collect();
        let is_axis = node.longs(&is_axis);
        let is_axis = node.cast(&is_axis, DType::Bool)?;
        let is_kept = node.call("And", &[&is_axis, &is_kept], [])?;
        let one = node.number(DType::Float32, 1.0)?;
        scales = node.choose(&is_kept, &one, &scales)?;
    }
    node.resize(x, how, &axes, Extent::Scales(&scales))
}

/// Returns the scale that PyTorch computes with: some dims are copied or repeated, whatever their scale.
fn effective(x: &Value, how: Resize, count: usize, (axis, size, scale): (i64, &Size, f64)) -> f64 {
    let repeats = how.filter == NEAREST.filter && count == 2;
    match (dim_of(x, axis), size) {
        (Some(dim), Size::Known(size)) if (repeats || how.copies()) && *size == dim => 1.0,
        (Some(dim), Size::Known(size)) if repeats && dim.checked_mul(2) == Some(*size) => 2.0,
        _ => scale,
    }
}

/// Whether a scale is the ratio of dims.
#[expect(clippy::cast_precision_loss, reason = "dims are small")]
fn fits(x: &Value, axis: i64, size: &Size, scale: Option<f64>) -> bool {
    let Some(scale) = scale else { return true };
    match (dim_of(x, axis), size) {
        (Some(dim), Size::Known(size)) => dim as f64 * scale == *size as f64,
        // Dims that are multiplied by an integer fit.
        _ => scale.fract() == 0.0,
    }
}

/// Returns a scale in single precision by which ONNX computes the same size. PyTorch multiplies in double precision: where the
/// nearest scale gives another size, that of a neighbour fits (100 times 0.29 is 28.999...).
#[expect(clippy::cast_possible_truncation, reason = "scales of ONNX are in single precision")]
fn single(x: &Value, axis: i64, size: &Size, scale: f64) -> Outcome<f32> {
    let nearest = scale as f32;
    let (Some(dim), Size::Known(size)) = (dim_of(x, axis), size) else { return Ok(nearest) };
    let gives =
        |scale: &f32| Precision::Single.scaled(dim, f64::from(*scale)).is_ok_and(|it| it == *size);
    let found = [nearest, nearest.next_up(), nearest.next_down()].into_iter().find(gives);
    found.ok_or_else(|| Finding::from(format!("{dim} times {scale} is not the size {size}")))
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

fn im2col(node: &mut Node<'_>) -> Outcome {
    let (x, windows) = (node.tensor("self")?, windows(node)?);
    let [y] = batched(node, &x, 2, |node, x| node.columns(x, &windows).map(|y| [y]))?;
    Ok(y)
}

fn col2im(node: &mut Node<'_>) -> Outcome {
    let (x, windows) = (node.tensor("self")?, windows(node)?);
    let size = node.arguments.ints("output_size")?;
    let [y] = batched(node, &x, 1, |node, x| node.summed_columns(x, &size, &windows).map(|y| [y]))?;
    Ok(y)
}

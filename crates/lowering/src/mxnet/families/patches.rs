//! Comparison and sampling of patches: correlation and deformable convolution.

use lodstone_schema::numbers::length;

use super::conv::{dilated, groups};
use super::spatial::{image_size, sampled};
use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, product, required_dim};
use crate::onnx::layout::Layout;
use crate::onnx::windows::Windows;
use crate::onnx::{Value, int, ints, text};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Correlation", Rule::One(correlation)),
    ("_contrib_DeformableConvolution", Rule::One(|node| deformable(node, false))),
    ("_contrib_ModulatedDeformableConvolution", Rule::One(|node| deformable(node, true))),
    ("_npx_deformable_convolution", Rule::One(|node| deformable(node, false))),
    ("_npx_modulated_deformable_convolution", Rule::One(|node| deformable(node, true))),
    ("col2im", Rule::One(columns_to_image)),
    ("im2col", Rule::One(image_to_columns)),
];

/// The maximum number of displacements: each becomes operators.
const MAX_DISPLACEMENTS: i64 = 1 << 12;

/// The mean product (or difference) of patches with displaced patches of another image; a channel for each
/// displacement.
fn correlation(node: &mut Node<'_>) -> Outcome {
    let [x, y] = node.exactly()?;
    let number = |name: &str, default: i64, least: i64| {
        let number = node.attributes.int(name, default)?;
        match (least..=1 << 16).contains(&number) {
            true => Ok::<i64, lodstone_schema::Finding>(number),
            false => Err(wrong(name, "a small number", &number.to_string())),
        }
    };
    let (kernel, reach) = (number("kernel_size", 1, 1)?, number("max_displacement", 1, 0)?);
    let (outer, inner) = (number("stride1", 1, 1)?, number("stride2", 1, 1)?);
    let pad = number("pad_size", 0, 0)?;
    let multiplies = node.attributes.flag("is_multiply", true)?;
    let (height, width) = image_size(&x)?;
    if image_size(&y)? != (height, width) {
        return Err("expected two images of one size".into());
    }
    let border = 2 * (reach + (kernel - 1) / 2);
    let windows = |dim: i64| (dim + 2 * pad - border + outer - 1) / outer;
    let (rows, columns) = (windows(height), windows(width));
    let radius = reach / inner;
    let count = 2 * radius + 1;
    if rows < 1 || columns < 1 || count * count > MAX_DISPLACEMENTS {
        return Err(format!(
            "{rows} times {columns} patches with {count}² displacements are not supported"
        )
        .into());
    }
    let pads = node.longs(&[0, 0, pad, pad, 0, 0, pad, pad]);
    let x = node.call("Pad", &[&x, &pads], [text("mode", "constant")])?;
    let y = node.call("Pad", &[&y, &pads], [text("mode", "constant")])?;
    let lengths = [(rows - 1) * outer + kernel, (columns - 1) * outer + kernel];
    let area = |node: &mut Node<'_>, of: &Value, top: i64, left: i64| {
        node.slices(of, &[2, 3], &[top, left], &[top + lengths[0], left + lengths[1]])
    };
    let own = area(node, &x, reach, reach)?;
    let mut channels = Vec::new();
    for place in 0..count * count {
        let down = (place / count - radius) * inner;
        let right = (place % count - radius) * inner;
        let other = area(node, &y, reach + down, reach + right)?;
        let both = if multiplies {
            node.mul(&own, &other)?
        } else {
            let difference = node.sub(&own, &other)?;
            node.call("Abs", &[&difference], [])?
        };
        channels.push(node.reduce("ReduceMean", &both, &[1], true)?);
    }
    let all = node.concat(&channels.iter().collect::<Vec<_>>(), 1)?;
    let attributes = [ints("kernel_shape", &[kernel; 2]), ints("strides", &[outer; 2])];
    node.call("AveragePool", &[&all], attributes)
}

/// The windows of a deformable convolution.
struct Taps {
    windows: Windows,
    /// The number of taps.
    count: i64,
    /// The groups of channels with offsets of their own.
    groups: i64,
}

impl Taps {
    fn of(node: &Node<'_>) -> Outcome<Self> {
        let kernel = node.kernel()?;
        let windows = dilated(node)?;
        let count = windows.size()?;
        if kernel.len() != 2 || count > 1 << 12 {
            return Err(wrong("kernel", "two small numbers", &format!("{kernel:?}")));
        }
        Ok(Self { windows, count, groups: groups(node, "num_deformable_group")? })
    }

    /// Returns the rows (axis 0) or columns (axis 1) of all taps without offsets: `[taps, height, width]`.
    fn places(&self, node: &mut Node<'_>, axis: usize, rows: i64, columns: i64) -> Outcome {
        let all = self.count.saturating_mul(rows).saturating_mul(columns);
        if all > 1 << 24 {
            return Err(format!("{all} taps are too many").into());
        }
        let (window, wide) = (self.windows.along(axis)?, self.windows.along(1)?.kernel());
        let mut places = Vec::new();
        for tap in 0..self.count {
            let tap = if axis == 0 { tap / wide } else { tap % wide };
            for row in 0..rows {
                for column in 0..columns {
                    let number = if axis == 0 { row } else { column };
                    #[expect(clippy::cast_precision_loss, reason = "images are small")]
                    places.push(window.place(number, tap) as f32);
                }
            }
        }
        let dims = [self.count, rows, columns].map(i64::unsigned_abs);
        Ok(node.floats(&places, &dims))
    }
}

/// Samples every tap of the kernel at its offset, and convolves the samples. Without a mask, a tap counts inside the image
/// only, and next to the last row or column it has their values.
fn deformable(node: &mut Node<'_>, is_modulated: bool) -> Outcome {
    let (x, offsets) = (node.input(0)?, node.input(1)?);
    let first = if is_modulated { 3 } else { 2 };
    let mask = if is_modulated { Some(node.input(2)?) } else { None };
    let (weight, bias) = (node.input(first)?, node.bias(first + 1, false)?);
    let taps = Taps::of(node)?;
    let groups = groups(node, "num_group")?;
    let filters = node.attributes.int("num_filter", None)?;
    node.attributes.ignore(&["im2col_step"]);
    if node.layout(Some(2))? == Layout::Last || required_dim(&weight, 0)? != filters {
        return Err(format!("expected {filters} filters in the layout NCHW").into());
    }
    let (height, width) = image_size(&x)?;
    let (rows, columns) = image_size(&offsets)?;
    let (channels, count) = (required_dim(&x, 1)?, taps.count);
    let wanted = product(&[taps.groups, count, 2])?;
    if channels % taps.groups != 0 || required_dim(&offsets, 1)? != wanted {
        return Err(format!("expected {wanted} offsets").into());
    }
    // [batch * groups, taps, 2, rows, columns]
    let offsets = node.reshape_to(&offsets, &[-1, count, 2, rows, columns])?;
    let mut inside: Option<Value> = None;
    let mut grid = Vec::new();
    for (axis, dim) in [(0, height), (1, width)] {
        let place = taps.places(node, axis, rows, columns)?;
        let part = node.long(length(axis));
        let offset = node.gather(&offsets, &part, 2)?;
        let place = node.add(&offset, &place)?;
        #[expect(clippy::cast_precision_loss, reason = "images are small")]
        let (zero, end) =
            (node.number(place.dtype(), 0.0)?, node.number(place.dtype(), dim as f64)?);
        let is_after = node.call("GreaterOrEqual", &[&place, &zero], [])?;
        let is_before = node.call("Less", &[&place, &end], [])?;
        let is_inside = node.call("And", &[&is_after, &is_before], [])?;
        inside = Some(match inside {
            Some(other) => node.call("And", &[&other, &is_inside], [])?,
            None => is_inside,
        });
        #[expect(clippy::cast_precision_loss, reason = "images are small")]
        let scale = 2.0 / (dim - 1).max(1) as f64;
        let scaled = node.times(&place, scale)?;
        grid.push(node.plus(&scaled, -1.0)?);
    }
    let [down, right] = grid.as_slice() else { return Err("a coordinate was lost".into()) };
    let grid = node.stacked(&[right, down])?;
    let grid = node.reshape_to(&grid, &[-1, count * rows, columns, 2])?;
    let images = node.reshape_to(&x, &[-1, channels / taps.groups, height, width])?;
    // With a mask, neighbours outside of the image are 0.
    let beyond = if is_modulated { "zeros" } else { "border" };
    let samples = sampled(node, &images, &grid, beyond)?;
    let samples = node.reshape_to(&samples, &[-1, channels / taps.groups, count, rows, columns])?;
    let weights = match mask {
        Some(mask) => node.reshape_to(&mask, &[-1, count, rows, columns])?,
        None => {
            let inside = inside.ok_or("a coordinate was lost")?;
            node.cast(&inside, x.dtype())?
        }
    };
    let weights = node.unsqueeze(&weights, &[1])?;
    let samples = node.mul(&samples, &weights)?;
    let samples = node.reshape_to(&samples, &[-1, channels * count, rows, columns])?;
    let weight = node.reshape_to(&weight, &[filters, -1, 1, 1])?;
    node.convolve("Conv", [&samples, &weight], bias.as_ref(), [int("group", groups)])
}

/// Returns the patches of an image: `[batch, channels * taps, patches]`.
fn image_to_columns(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let windows = dilated(node)?;
    node.columns(&x, &windows)
}

/// Adds patches to the image that they come from.
fn columns_to_image(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let windows = dilated(node)?;
    let size = node.each("output_size", windows.rank(), 1, 1)?;
    product(&size)?;
    node.summed_columns(&x, &size, &windows)
}

impl Node<'_> {
    /// Reshapes to dims, one of which may be -1.
    pub(super) fn reshape_to(&mut self, x: &Value, dims: &[i64]) -> Outcome {
        let dims = self.longs(dims);
        self.call("Reshape", &[x, &dims], [])
    }
}

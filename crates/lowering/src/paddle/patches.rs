//! Operators on images that move channels, frames or patches, or sample at given offsets.

use lodstone_model::DType;
use lodstone_schema::numbers::{known, length};
use lodstone_schema::places::at;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::layout::Layout;
use crate::onnx::windows::{Pads, Windows, spatial_dims};
use crate::onnx::{Precision, Size, Value, int, ints};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("affine_grid", affine_grid),
    ("deformable_conv", deformable_conv),
    ("deformable_conv_v1", deformable_conv),
    ("fold", fold),
    ("im2sequence", image_to_sequence),
    ("shuffle_channel", shuffle_channels),
    ("temporal_shift", temporal_shift),
    ("unfold", unfold),
];

impl Operator<'_> {
    /// Returns dims that begin and end with given ones, with those of a value from `axis` on between them.
    fn dims_after(&mut self, begin: &[i64], value: &Value, axis: usize) -> Outcome<Value> {
        let rest = value.shape()?.iter().skip(axis);
        match rest.map(known).collect::<Outcome<Option<Vec<i64>>>>()? {
            Some(rest) => Ok(self.longs(&[begin, &rest].concat())),
            None => {
                let rest = self.call("Shape", &[value], [int("start", length(axis))])?;
                let begin = self.longs(begin);
                self.concat(&[&begin, &rest], 0)
            }
        }
    }

    /// Pads with zeros: a pair of begin and end for each dim.
    fn zero_padded(&mut self, x: &Value, around: &[[i64; 2]]) -> Outcome<Value> {
        if around.iter().flatten().all(|pad| *pad == 0) {
            return Ok(x.clone());
        }
        let begins = around.iter().map(|[begin, _]| *begin);
        let pads: Vec<i64> = begins.chain(around.iter().map(|[_, end]| *end)).collect();
        let pads = self.longs(&pads);
        self.call("Pad", &[x, &pads], [])
    }
}

/// Convolves elements at offsets from their places; with `Mask`, they also have weights.
fn deformable_conv(op: &mut Operator<'_>) -> Outcome {
    let (x, filter, offset) = (op.input("Input")?, op.input("Filter")?, op.input("Offset")?);
    let mask = op.optional("Mask")?;
    let [strides, dilations] = [op.each("strides", 2)?, op.each("dilations", 2)?];
    let paddings = op.each("paddings", 2)?;
    let attributes = [
        ints("strides", &strides),
        Pads::both(&paddings).attribute(),
        ints("dilations", &dilations),
        int("group", op.int("groups")?.max(1)),
        int("offset_group", op.int("deformable_groups")?.max(1)),
    ];
    let inputs = [Some(&x), Some(&filter), Some(&offset), None, mask.as_ref()];
    let count = if mask.is_some() { 5 } else { 3 };
    let inputs = inputs.get(..count).unwrap_or_default();
    let [y] = op.emit_all("DeformConv", inputs, attributes)?;
    op.put("Output", &y)
}

/// Transposes groups of channels and the channels of a group.
fn shuffle_channels(op: &mut Operator<'_>) -> Outcome {
    let (x, groups) = (op.input("X")?, op.int("group")?);
    let wrong = |channels: i64| groups < 1 || channels % groups != 0;
    let grouped = match x.size(1)? {
        Some(channels) if wrong(channels) => {
            let what = format!("expected a divisor of {channels} as `group`, found {groups}");
            return Err(what.into());
        }
        None if groups < 1 => {
            return Err(format!("expected a positive number as `group`, found {groups}").into());
        }
        Some(channels) => {
            let dims = op.longs(&[0, groups, channels / groups, -1]);
            op.call("Reshape", &[&x, &dims], [])?
        }
        None => {
            // All sizes are computed, so that channels that `group` does not divide are refused.
            let mut sizes = op.sizes_of(&x)?;
            let channels = sizes.get(1).ok_or("expected channels")?;
            let each = op.quotient_of(channels, groups)?;
            sizes.splice(1..2, [Size::Known(groups), each]);
            op.reshape_to(&x, &sizes)?
        }
    };
    let rest = 3..grouped.rank()?.number();
    let order: Vec<i64> = [0, 2, 1].into_iter().chain(rest).collect();
    let turned = op.transpose(&grouped, &order)?;
    let y = op.reshape_as(&turned, &x)?;
    op.put("Out", &y)
}

/// Returns some frames and channels of clips `[batch, frames, channels, ..]`.
fn channels_of(
    op: &mut Operator<'_>,
    clips: &Value,
    [frame, end]: [i64; 2],
    [first, last]: [&Size; 2],
) -> Outcome<Value> {
    let starts = op.list_of(&[Size::Known(frame), first.clone()])?;
    let ends = op.list_of(&[Size::Known(end), last.clone()])?;
    let axes = op.longs(&[1, 2]);
    op.call("Slice", &[clips, &starts, &ends, &axes], [])
}

/// Moves a share of the channels to the next frame, and as many to the previous one.
fn temporal_shift(op: &mut Operator<'_>) -> Outcome {
    let (x, frames, ratio) = (op.input("X")?, op.int("seg_num")?, op.float("shift_ratio")?);
    let layout = match op.attribute("data_format") {
        Some(_) => op.layout("data_format")?,
        None => Layout::First,
    };
    if frames < 1 || !(0.0..=0.5).contains(&ratio) {
        return Err(format!(
            "expected at least 1 as `seg_num` and at most 0.5 as `shift_ratio`, found {frames} and {ratio}"
        )
        .into());
    }
    let x = op.channels_first(&x, layout)?;
    let channels = op.size_of(&x, 1)?;
    let back = op.scaled(&channels, ratio.into(), Precision::Single)?;
    let forth = op.scaled(&channels, (2.0 * ratio).into(), Precision::Single)?;
    // [batch, frames, channels, height, width]
    let dims = op.dims_after(&[-1, frames], &x, 1)?;
    let clips = op.call("Reshape", &[&x, &dims], [])?;
    let mut parts = Vec::new();
    // Of unknown channels, a part may have none.
    let has = |first: &Size, end: &Size| match (first, end) {
        (Size::Known(first), Size::Known(end)) => first < end,
        (Size::Value(_), _) | (_, Size::Value(_)) => true,
    };
    let none = Size::Known(0);
    if has(&none, &back) {
        let part = channels_of(op, &clips, [0, -1], [&none, &back])?;
        parts.push(op.zero_padded(&part, &[[0, 0], [1, 0], [0, 0], [0, 0], [0, 0]])?);
    }
    if has(&back, &forth) {
        let part = channels_of(op, &clips, [1, i64::MAX], [&back, &forth])?;
        parts.push(op.zero_padded(&part, &[[0, 0], [0, 1], [0, 0], [0, 0], [0, 0]])?);
    }
    if has(&forth, &channels) {
        let (start, end, axes) = (op.list_of(&[forth])?, op.longs(&[i64::MAX]), op.longs(&[2]));
        parts.push(op.call("Slice", &[&clips, &start, &end, &axes], [])?);
    }
    let all = op.concat(&parts.iter().collect::<Vec<_>>(), 2)?;
    let y = op.reshape_as(&all, &x)?;
    let y = op.in_layout(&y, layout)?;
    op.put("Out", &y)
}

/// Returns `count` evenly spaced positions from -1 to 1: of the corners, or of the centers of pixels.
fn positions(op: &mut Operator<'_>, count: &Value, corners: bool, dtype: DType) -> Outcome<Value> {
    let numbers = op.counting(count, dtype)?;
    let count = op.cast(count, dtype)?;
    let twice = op.times(&numbers, 2.0)?;
    let places = if corners {
        let one = op.number(dtype, 1.0)?;
        let steps = op.sub(&count, &one)?;
        let steps = op.call("Max", &[&steps, &one], [])?;
        op.div(&twice, &steps)?
    } else {
        let middle = op.plus(&twice, 1.0)?;
        op.div(&middle, &count)?
    };
    op.plus(&places, -1.0)
}

/// Transforms a regular grid by a matrix for each image.
fn affine_grid(op: &mut Operator<'_>) -> Outcome {
    let theta = op.input("Theta")?;
    let corners = op.attribute("align_corners").is_none() || op.flag("align_corners")?;
    let dims = op.numbers("", "OutputShape", "output_shape")?;
    if dims.known_dims() != Some(vec![4]) {
        return Err("expected 4 dims, those of images".into());
    }
    let dtype = theta.dtype();
    let mut line = |axis: usize| {
        let count = match dims.info().ints() {
            Some(known) => op.long(at(&known, axis)?),
            None => {
                let count = op.slice(&dims, 0, length(axis), length(axis) + 1)?;
                op.reshape(&count, &[])?
            }
        };
        positions(op, &count, corners, dtype)
    };
    let (rows, columns) = (line(2)?, line(3)?);
    let spatial = op.slice(&dims, 0, 2, 4)?;
    let one = op.longs(&[1]);
    let plane = op.concat(&[&spatial, &one], 0)?;
    let (rows, columns) = (op.unsqueeze(&rows, &[1, 2])?, op.unsqueeze(&columns, &[0, 2])?);
    let (x, y) =
        (op.call("Expand", &[&columns, &plane], [])?, op.call("Expand", &[&rows, &plane], [])?);
    let ones = op.filled_by(dtype, 1.0, &plane)?;
    let points = op.concat(&[&x, &y, &ones], 2)?;
    // [1, height * width, 3] by [batch, 3, 2]
    let points = op.reshape(&points, &[1, -1, 3])?;
    let matrices = op.transpose(&theta, &[0, 2, 1])?;
    let grid = op.call("MatMul", &[&points, &matrices], [])?;
    let (minus, two) = (op.longs(&[-1]), op.longs(&[2]));
    let dims = op.concat(&[&minus, &spatial, &two], 0)?;
    let y = op.call("Reshape", &[&grid, &dims], [])?;
    op.put("Output", &y)
}

/// Lists the patches of images, row by row.
fn image_to_sequence(op: &mut Operator<'_>) -> Outcome {
    if op.optional("Y")?.is_some() {
        return Err("images of different sizes (`Y`) are not supported".into());
    }
    let (x, size, strides) = (op.input("X")?, op.each("kernels", 2)?, op.each("strides", 2)?);
    let [top, left, bottom, right_pad] = op.each("paddings", 4)?[..] else {
        return Err("expected 4 `paddings`".into());
    };
    let pads = Pads { begins: vec![top, left], ends: vec![bottom, right_pad] };
    let windows = Windows::of_pool(&size, &strides, &pads)?;
    // [batch, elements of a patch, patches]
    let columns = op.columns(&x, &windows)?;
    let patches = op.transpose(&columns, &[0, 2, 1])?;
    let elements = op.size_of(&patches, 2)?;
    let y = op.reshape_to(&patches, &[Size::Known(-1), elements])?;
    op.put("Out", &y)?;
    // Each image is a sequence.
    let (images, patches) = (op.extent(&patches, 0)?, op.extent(&patches, 1)?);
    let one = op.long(1);
    let images = op.add(&images, &one)?;
    let zero = op.long(0);
    let numbers = op.call("Range", &[&zero, &images, &one], [])?;
    let offsets = op.mul(&numbers, &patches)?;
    op.put_offsets("Out", &[offsets]);
    Ok(())
}

/// Adds up the columns of windows as images: the inverse of `unfold`.
fn fold(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let (image, windows) = (op.each("output_sizes", 2)?, columns(op)?);
    let y = op.summed_columns(&x, &image, &windows)?;
    op.put("Y", &y)
}

/// Lists the elements under each window.
pub(super) fn unfold(op: &mut Operator<'_>) -> Outcome {
    let (x, windows) = (op.input("X")?, columns(op)?);
    // A window that exceeds the image by less than a stride is one.
    let windows = match spatial_dims(&x) {
        Some(dims) => windows.extended(&dims)?,
        None => windows,
    };
    let y = op.columns(&x, &windows)?;
    op.put("Y", &y)
}

/// Returns the windows of columns.
fn columns(op: &Operator<'_>) -> Outcome<Windows> {
    let [size, strides, dilations] =
        [op.each("kernel_sizes", 2)?, op.each("strides", 2)?, op.each("dilations", 2)?];
    let paddings = op.ints("paddings")?;
    let pads = match paddings.len() {
        2 => Pads::both(&paddings),
        _ => Pads::listed(&paddings)?,
    };
    Windows::new(&size, &strides, &dilations, &pads)
}

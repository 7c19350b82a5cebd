//! Convolutions: Glow's have channels last, so that what goes in and comes out is transposed.

use lodstone_schema::glow::{ElemKind, Type};

use super::graph::{Said, Value};
use super::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[("Conv", conv), ("ConvTranspose", conv_transpose)];

/// What a window does: a number for each spatial axis, but for pads, which are before and after.
pub(super) struct Window {
    pub(super) kernel: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) dilations: Vec<i64>,
    pub(super) pads: Vec<i64>,
}

const LARGEST: i64 = u32::MAX as i64;

/// The window of an operator over `image` extents; `kernel` is what it has if no attribute says it.
pub(super) fn window(
    cx: &Cx<'_>,
    image: &[i64],
    kernel: Option<Vec<i64>>,
) -> Result<Window, Fault> {
    let axes = image.len();
    let said = cx.longs("kernel_shape")?;
    if let (Some(said), Some(kernel)) = (&said, &kernel)
        && said != kernel
    {
        return Err(format!("expected a kernel of {kernel:?}, found {said:?}").into());
    }
    let kernel = said.or(kernel).ok_or("expected `kernel_shape`")?;
    let ones = || vec![1; axes];
    let strides = cx.longs("strides")?.unwrap_or_else(ones);
    let dilations = cx.longs("dilations")?.unwrap_or_else(ones);
    let pads = cx.longs("pads")?;
    let auto = cx.text("auto_pad", "NOTSET")?;
    for (name, numbers) in [("kernel", &kernel), ("strides", &strides), ("dilations", &dilations)] {
        if numbers.len() != axes || numbers.iter().any(|n| !(1..=LARGEST).contains(n)) {
            return Err(
                format!("expected {axes} positive numbers as {name}, found {numbers:?}").into()
            );
        }
    }
    let zeros = vec![0; axes * 2];
    let pads = match auto.as_str() {
        // What is said in numbers counts, as in Glow.
        "NOTSET" | "" => pads.unwrap_or(zeros),
        "VALID" => zeros,
        "SAME_UPPER" | "SAME_LOWER" => {
            let is_upper = auto == "SAME_UPPER";
            same(image, &kernel, &strides, &dilations, is_upper)?
        }
        other => return Err(format!("expected a way to pad as `auto_pad`, found `{other}`").into()),
    };
    if pads.len() != axes * 2 || pads.iter().any(|pad| !(0..=LARGEST).contains(pad)) {
        return Err(
            format!("expected {} numbers from 0 on as pads, found {pads:?}", axes * 2).into()
        );
    }
    Ok(Window { kernel, strides, dilations, pads })
}

/// As much as lets each step give an element.
fn same(
    image: &[i64],
    kernel: &[i64],
    strides: &[i64],
    dilations: &[i64],
    is_upper: bool,
) -> Result<Vec<i64>, Fault> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let axes = image.iter().zip(kernel).zip(strides.iter().zip(dilations));
    for ((extent, kernel), (stride, dilation)) in axes {
        let reach = (kernel - 1).checked_mul(*dilation).and_then(|reach| reach.checked_add(1));
        let steps = extent.saturating_add(stride - 1) / stride;
        let total = reach
            .and_then(|reach| (steps - 1).checked_mul(*stride)?.checked_add(reach))
            .ok_or("the window is too large")?;
        let total = (total - extent).max(0);
        let (small, large) = (total / 2, total - total / 2);
        before.push(if is_upper { small } else { large });
        after.push(if is_upper { large } else { small });
    }
    before.append(&mut after);
    Ok(before)
}

/// An order of extents and its name, and those back.
type Orders = (Vec<usize>, &'static str, Vec<usize>, &'static str);

/// Orders of extents that bring channels to the end and back, and what Glow calls them.
pub(super) fn orders(axes: usize) -> Result<Orders, Fault> {
    match axes {
        2 => Ok((vec![0, 2, 3, 1], "NHWC", vec![0, 3, 1, 2], "NCHW")),
        3 => Ok((vec![0, 2, 3, 4, 1], "NTHWC", vec![0, 4, 1, 2, 3], "NCTHW")),
        _ => Err(format!("expected images of 1 to 3 axes, found {axes}").into()),
    }
}

/// Batch, channels, and the extents of the image.
pub(super) fn parts(shape: &[i64]) -> Result<(i64, i64, &[i64]), Fault> {
    match shape {
        [batch, channels, image @ ..] if !image.is_empty() => Ok((*batch, *channels, image)),
        _ => Err(format!("expected a batch of images, found {shape:?}").into()),
    }
}

/// A batch of images with channels last.
pub(super) fn with_channels_last(batch: i64, image: &[i64], channels: i64) -> Vec<i64> {
    let mut shape = vec![batch];
    shape.extend(image);
    shape.push(channels);
    shape
}

/// A row of numbers as an image of one row.
pub(super) fn as_image(cx: &mut Cx<'_>, value: Value, suffix: &str) -> Result<Value, Fault> {
    match *cx.shape(value) {
        [batch, channels, width] => cx.reshape_always(value, &[batch, channels, 1, width], suffix),
        _ => Ok(value),
    }
}

impl Window {
    /// The window over an image of one row.
    pub(super) fn over_image(mut self) -> Self {
        if let [before, after] = *self.pads {
            self.kernel.insert(0, 1);
            self.strides.insert(0, 1);
            self.dilations.insert(0, 1);
            self.pads = vec![0, before, 0, after];
        }
        self
    }
}

/// What comes out with channels last, as ONNX has it; `rank` is how many extents that has.
pub(super) fn channels_first(cx: &mut Cx<'_>, value: Value, rank: usize) -> Result<Value, Fault> {
    let shape = cx.shape(value);
    if let ([batch, 1, width, channels], 3) = (shape.as_slice(), rank) {
        let row = cx.reshape_always(value, &[*batch, *width, *channels], "reshape")?;
        return cx.transpose(row, &[0, 2, 1], "*", "out");
    }
    let (_, _, back, layout) = orders(shape.len() - 2)?;
    cx.transpose(value, &back, layout, "out")
}

pub(super) fn conv(cx: &mut Cx<'_>) -> Outcome {
    let (value, filter) = (cx.input(0)?, cx.input(1)?);
    let rank = cx.rank(value);
    let (shape, filters) = (cx.shape(value), cx.shape(filter));
    let (batch, _, image) = parts(&shape)?;
    let (depth, _, kernel) = parts(&filters)?;
    let bias = bias(cx, value, depth)?;
    let window = window(cx, image, Some(kernel.to_vec()))?.over_image();
    let group = cx.int("group", 1)?;
    let result = cx.shape_out(0)?;
    let (_, _, image) = parts(&result)?;
    let mut image = image.to_vec();
    if rank == 3 {
        image.insert(0, 1);
    }
    let (forth, layout, ..) = orders(image.len())?;
    if image.len() == 3 && window.dilations.iter().any(|dilation| *dilation != 1) {
        return Err(format!(
            "Glow has no steps inside a window of three axes: {:?}",
            window.dilations
        )
        .into());
    }
    let value = as_image(cx, value, "expanddims")?;
    let filter = as_image(cx, filter, "filter_expanddims")?;
    let filter = cx.transpose(filter, &forth, layout, "filter")?;
    let value = cx.transpose(value, &forth, layout, "in")?;
    let of = cx.shaped(value, with_channels_last(batch, &image, depth));
    let pads = match image.len() {
        // Of three axes Glow says before and after axis by axis.
        3 => interleaved(&window.pads),
        _ => window.pads,
    };
    let mut members = vec![
        ("Kernels", Said::Ints(window.kernel)),
        ("Strides", Said::Ints(window.strides)),
        ("Pads", Said::Ints(pads)),
        ("Group", Said::Int(group)),
    ];
    let kind = match image.len() {
        3 => "Convolution3D",
        _ => {
            members.extend([
                ("Dilation", Said::Ints(window.dilations)),
                ("Layout", Said::Text("NHWC".to_owned())),
                ("FusedActivation", Said::Text("NONE".to_owned())),
                ("FusedActivationArgs", Said::Floats(Vec::new())),
            ]);
            "Convolution"
        }
    };
    let result = cx.node(kind, "", &[value, filter, bias], members, of)?;
    one(channels_first(cx, result, rank)?)
}

/// What is before and after, axis by axis.
fn interleaved(pads: &[i64]) -> Vec<i64> {
    let (before, after) = pads.split_at(pads.len() / 2);
    before.iter().zip(after).flat_map(|(before, after)| [*before, *after]).collect()
}

/// Most zeros of a bias that are written down.
const MOST_ZEROS: i64 = 1 << 16;

/// The bias, which Glow always has.
fn bias(cx: &mut Cx<'_>, like: Value, depth: i64) -> Result<Value, Fault> {
    match cx.optional(2)? {
        Some(bias) if cx.shape(bias) == [depth] => Ok(bias),
        Some(bias) => {
            Err(format!("expected a bias of {depth} numbers, found {:?}", cx.shape(bias)).into())
        }
        None => {
            let of = Type { quantization: None, ..cx.shaped(like, vec![depth]) };
            match usize::try_from(depth) {
                Ok(count) if of.kind == ElemKind::Float && depth <= MOST_ZEROS => {
                    let name = format!("{}_bias", cx.base);
                    Ok(cx.graph.constant_of(&name, of.kind, of.shape, vec![0; count * 4])?)
                }
                _ => cx.splat(0.0, of, "bias"),
            }
        }
    }
}

fn conv_transpose(cx: &mut Cx<'_>) -> Outcome {
    let (value, filter) = (cx.input(0)?, cx.input(1)?);
    let shape = cx.shape(value);
    let filters = cx.shape(filter);
    let (batch, _, image) = parts(&shape)?;
    let (_, depth, kernel) = parts(&filters)?;
    if image.len() != 2 {
        return Err(format!("expected an image of two axes, found {}", image.len()).into());
    }
    let group = cx.int("group", 1)?;
    let result = cx.shape_out(0)?;
    let (_, channels, large) = parts(&result)?;
    if depth.checked_mul(group) != Some(channels) {
        return Err(format!("{depth} filters of {group} groups do not give {channels}").into());
    }
    let bias = bias(cx, value, channels)?;
    let kernels = cx.longs("kernel_shape")?.unwrap_or_else(|| kernel.to_vec());
    let ones = || vec![1; image.len()];
    let strides = cx.longs("strides")?.unwrap_or_else(ones);
    let dilations = cx.longs("dilations")?.unwrap_or_else(ones);
    let pads = cut(cx, image, large, &kernels, &strides, &dilations)?;
    let filter = cx.transpose(filter, &[1, 2, 3, 0], "NHWC", "filter")?;
    let value = cx.transpose(value, &[0, 2, 3, 1], "NHWC", "in")?;
    let of = cx.shaped(value, with_channels_last(batch, large, channels));
    let members = vec![
        ("Kernels", Said::Ints(kernels)),
        ("Strides", Said::Ints(strides)),
        ("Pads", Said::Ints(pads)),
        ("Group", Said::Int(group)),
        ("Dilation", Said::Ints(dilations)),
    ];
    let result = cx.node("ConvTranspose", "", &[value, filter, bias], members, of)?;
    one(cx.transpose(result, &[0, 3, 1, 2], "NCHW", "out")?)
}

/// What is cut off before and after, so that what is left is of the size that ONNX says. What is added
/// there at the end is as much less cut off.
fn cut(
    cx: &Cx<'_>,
    image: &[i64],
    large: &[i64],
    kernel: &[i64],
    strides: &[i64],
    dilations: &[i64],
) -> Result<Vec<i64>, Fault> {
    let axes = image.len();
    let auto = cx.text("auto_pad", "NOTSET")?;
    let said = cx.longs("pads")?.unwrap_or_else(|| vec![0; axes * 2]);
    let added = cx.longs("output_padding")?.unwrap_or_else(|| vec![0; axes]);
    let follows = cx.op.attribute("output_shape").is_some() || auto.starts_with("SAME");
    if [kernel.len(), strides.len(), dilations.len(), added.len(), large.len()] != [axes; 5]
        || said.len() != axes * 2
    {
        return Err("expected a number for each axis of the image".into());
    }
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let windows = kernel.iter().zip(strides).zip(dilations);
    let extents = image.iter().zip(large).zip(added.iter().zip(&said));
    for (((kernel, stride), dilation), ((from, to), (added, said))) in windows.zip(extents) {
        let reach = (kernel - 1).checked_mul(*dilation).and_then(|reach| reach.checked_add(1));
        let whole = (from - 1).checked_mul(*stride).zip(reach).and_then(|(a, b)| a.checked_add(b));
        let total =
            whole.and_then(|whole| whole.checked_sub(*to)).ok_or("the window is too large")?;
        let with_added = total.saturating_add(*added).max(0);
        let first = match (follows, auto.as_str()) {
            (true, "SAME_UPPER") => with_added / 2,
            (true, _) => with_added - with_added / 2,
            (false, "VALID") => 0,
            (false, _) => *said,
        };
        let last = total - first;
        if first < 0 || last < 0 {
            return Err(format!(
                "Glow adds nothing to {to} elements, of which {total} are cut off"
            )
            .into());
        }
        before.push(first);
        after.push(last);
    }
    before.append(&mut after);
    Ok(before)
}

//! Convolutions: Glow's have the channels last, so inputs and outputs are transposed.

use lodstone_schema::glow::{ElemKind, Type};

use super::graph::{MemberValue, Value};
use super::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[("Conv", conv), ("ConvTranspose", conv_transpose)];

/// A window: one value for each spatial axis, except pads, which are all begins and then all ends.
pub(super) struct Window {
    pub(super) kernel: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) dilations: Vec<i64>,
    pub(super) pads: Vec<i64>,
}

const LARGEST: i64 = u32::MAX as i64;

/// Reads the window of an operator over `image` dims; `kernel` is the default of `kernel_shape`.
pub(super) fn window(
    cx: &Cx<'_>,
    image: &[i64],
    kernel: Option<Vec<i64>>,
) -> Result<Window, Fault> {
    let axes = image.len();
    let given = cx.longs("kernel_shape")?;
    if let (Some(given), Some(kernel)) = (&given, &kernel)
        && given != kernel
    {
        return Err(format!("expected a kernel of {kernel:?}, found {given:?}").into());
    }
    let kernel = given.or(kernel).ok_or("expected `kernel_shape`")?;
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
        // Explicit pads apply only without `auto_pad`, as in Glow.
        "NOTSET" | "" => pads.unwrap_or(zeros),
        "VALID" => zeros,
        "SAME_UPPER" | "SAME_LOWER" => {
            let is_upper = auto == "SAME_UPPER";
            same(image, &kernel, &strides, &dilations, is_upper)?
        }
        other => return Err(format!("unknown `auto_pad` mode `{other}`").into()),
    };
    if pads.len() != axes * 2 || pads.iter().any(|pad| !(0..=LARGEST).contains(pad)) {
        return Err(format!("expected {} pads of at least 0, found {pads:?}", axes * 2).into());
    }
    Ok(Window { kernel, strides, dilations, pads })
}

/// Returns the pads with which each step gives an element.
fn same(
    image: &[i64],
    kernel: &[i64],
    strides: &[i64],
    dilations: &[i64],
    is_upper: bool,
) -> Result<Vec<i64>, Fault> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let axes = image.iter().zip(kernel).zip(strides.iter().zip(dilations));
    for ((dim, kernel), (stride, dilation)) in axes {
        let reach = (kernel - 1).checked_mul(*dilation).and_then(|reach| reach.checked_add(1));
        let steps = dim.saturating_add(stride - 1) / stride;
        let total = reach
            .and_then(|reach| (steps - 1).checked_mul(*stride)?.checked_add(reach))
            .ok_or("the window is too large")?;
        let total = (total - dim).max(0);
        let (small, large) = (total / 2, total - total / 2);
        before.push(if is_upper { small } else { large });
        after.push(if is_upper { large } else { small });
    }
    before.append(&mut after);
    Ok(before)
}

/// A permutation of dims and the name of its layout, then the same for the inverse.
type Orders = (Vec<usize>, &'static str, Vec<usize>, &'static str);

/// Returns the permutations that move channels to the end and back, and Glow's names of the layouts.
pub(super) fn orders(axes: usize) -> Result<Orders, Fault> {
    match axes {
        2 => Ok((vec![0, 2, 3, 1], "NHWC", vec![0, 3, 1, 2], "NCHW")),
        3 => Ok((vec![0, 2, 3, 4, 1], "NTHWC", vec![0, 4, 1, 2, 3], "NCTHW")),
        _ => Err(format!("expected images of 1 to 3 spatial dims, found {axes}").into()),
    }
}

/// Splits a shape into batch, channels, and the dims of the image.
pub(super) fn parts(shape: &[i64]) -> Result<(i64, i64, &[i64]), Fault> {
    match shape {
        [batch, channels, image @ ..] if !image.is_empty() => Ok((*batch, *channels, image)),
        _ => Err(format!("expected a batch of images, found {shape:?}").into()),
    }
}

/// Returns the shape of a batch of images with channels last.
pub(super) fn with_channels_last(batch: i64, image: &[i64], channels: i64) -> Vec<i64> {
    let mut shape = vec![batch];
    shape.extend(image);
    shape.push(channels);
    shape
}

/// Reshapes a 1-D image to a 2-D image of one row.
pub(super) fn as_image(cx: &mut Cx<'_>, value: Value, suffix: &str) -> Result<Value, Fault> {
    match *cx.shape(value) {
        [batch, channels, width] => cx.reshape_always(value, &[batch, channels, 1, width], suffix),
        _ => Ok(value),
    }
}

impl Window {
    /// Returns the window over an image of one row.
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

/// Transposes a result with channels last to ONNX's layout; `rank` is the rank in ONNX.
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
        return Err(
            format!("Glow has no dilations for 3 spatial dims: {:?}", window.dilations).into()
        );
    }
    let value = as_image(cx, value, "expanddims")?;
    let filter = as_image(cx, filter, "filter_expanddims")?;
    let filter = cx.transpose(filter, &forth, layout, "filter")?;
    let value = cx.transpose(value, &forth, layout, "in")?;
    let of = cx.shaped(value, with_channels_last(batch, &image, depth));
    let pads = match image.len() {
        // For 3 dims, Glow's pads are pairs of begin and end for each axis.
        3 => interleaved(&window.pads),
        _ => window.pads,
    };
    let mut members = vec![
        ("Kernels", MemberValue::Ints(window.kernel)),
        ("Strides", MemberValue::Ints(window.strides)),
        ("Pads", MemberValue::Ints(pads)),
        ("Group", MemberValue::Int(group)),
    ];
    let kind = match image.len() {
        3 => "Convolution3D",
        _ => {
            members.extend([
                ("Dilation", MemberValue::Ints(window.dilations)),
                ("Layout", MemberValue::Text("NHWC".to_owned())),
                ("FusedActivation", MemberValue::Text("NONE".to_owned())),
                ("FusedActivationArgs", MemberValue::Floats(Vec::new())),
            ]);
            "Convolution"
        }
    };
    let result = cx.node(kind, "", &[value, filter, bias], members, of)?;
    one(channels_first(cx, result, rank)?)
}

/// Interleaves begins and ends for each axis.
fn interleaved(pads: &[i64]) -> Vec<i64> {
    let (before, after) = pads.split_at(pads.len() / 2);
    before.iter().zip(after).flat_map(|(before, after)| [*before, *after]).collect()
}

/// The maximum number of zeros of a bias that are stored.
const MAX_ZEROS: i64 = 1 << 16;

/// Returns the bias, which Glow always requires.
fn bias(cx: &mut Cx<'_>, like: Value, depth: i64) -> Result<Value, Fault> {
    match cx.optional(2)? {
        Some(bias) if cx.shape(bias) == [depth] => Ok(bias),
        Some(bias) => {
            Err(format!("expected a bias of {depth} elements, found {:?}", cx.shape(bias)).into())
        }
        None => {
            let of = Type { quantization: None, ..cx.shaped(like, vec![depth]) };
            match usize::try_from(depth) {
                Ok(count) if of.kind == ElemKind::Float && depth <= MAX_ZEROS => {
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
        return Err(format!("expected an image of 2 spatial dims, found {}", image.len()).into());
    }
    let group = cx.int("group", 1)?;
    let result = cx.shape_out(0)?;
    let (_, channels, large) = parts(&result)?;
    if depth.checked_mul(group) != Some(channels) {
        return Err(format!(
            "{depth} filters in each of {group} groups do not give {channels} channels"
        )
        .into());
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
        ("Kernels", MemberValue::Ints(kernels)),
        ("Strides", MemberValue::Ints(strides)),
        ("Pads", MemberValue::Ints(pads)),
        ("Group", MemberValue::Int(group)),
        ("Dilation", MemberValue::Ints(dilations)),
    ];
    let result = cx.node("ConvTranspose", "", &[value, filter, bias], members, of)?;
    one(cx.transpose(result, &[0, 3, 1, 2], "NCHW", "out")?)
}

/// Returns the pads to remove at the begin and the end so that the result has ONNX's size. `output_padding` reduces what
/// is removed at the end.
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
    let given = cx.longs("pads")?.unwrap_or_else(|| vec![0; axes * 2]);
    let added = cx.longs("output_padding")?.unwrap_or_else(|| vec![0; axes]);
    let follows = cx.op.attribute("output_shape").is_some() || auto.starts_with("SAME");
    if [kernel.len(), strides.len(), dilations.len(), added.len(), large.len()] != [axes; 5]
        || given.len() != axes * 2
    {
        return Err("expected one value for each spatial axis".into());
    }
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let windows = kernel.iter().zip(strides).zip(dilations);
    let dims = image.iter().zip(large).zip(added.iter().zip(&given));
    for (((kernel, stride), dilation), ((from, to), (added, given))) in windows.zip(dims) {
        let reach = (kernel - 1).checked_mul(*dilation).and_then(|reach| reach.checked_add(1));
        let whole = (from - 1).checked_mul(*stride).zip(reach).and_then(|(a, b)| a.checked_add(b));
        let total =
            whole.and_then(|whole| whole.checked_sub(*to)).ok_or("the window is too large")?;
        let with_added = total.saturating_add(*added).max(0);
        let first = match (follows, auto.as_str()) {
            (true, "SAME_UPPER") => with_added / 2,
            (true, _) => with_added - with_added / 2,
            (false, "VALID") => 0,
            (false, _) => *given,
        };
        let last = total - first;
        if first < 0 || last < 0 {
            return Err(format!(
                "expected pads of at least 0 for an output of {to} elements, found {first} and {last}"
            )
            .into());
        }
        before.push(first);
        after.push(last);
    }
    before.append(&mut after);
    Ok(before)
}

//! Convolutions.

use lodstone_model::{AttributeValue, DType};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::ValueInfo;

use super::node::{Blob, Node, Outcome, Rule, expect_dim, rank, required_dim};
use crate::onnx::layout::Layout;
use crate::onnx::legacy_pads::LegacyPad;
use crate::onnx::quantization::Scale;
use crate::onnx::windows::{Padding, Pads, Windows, spatial_axes, spatial_dims};
use crate::onnx::{Value, int, ints};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Conv", Rule::One(|node| conv(node, false))),
    ("ConvRelu", Rule::One(|node| conv(node, true))),
    ("ConvTranspose", Rule::One(transpose)),
    ("Int8Conv", Rule::Quantized(|node| quantized(node, false))),
    ("Int8ConvRelu", Rule::Quantized(|node| quantized(node, true))),
];

/// The window of an operator as its arguments declare it.
pub(super) struct Geometry {
    /// `None` if it is that of the filter.
    pub(super) kernel: Option<Vec<i64>>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    pads: Pads,
    pub(super) legacy: Option<LegacyPad>,
}

impl Geometry {
    /// Reads the window over images of `count` spatial dims.
    pub(super) fn of(node: &Node<'_>, count: usize) -> Outcome<Self> {
        let kernel = numbers(node, "kernel", count, 0)?;
        let is_open = kernel.iter().all(|kernel| *kernel == 0);
        Ok(Self {
            kernel: (!is_open).then_some(kernel),
            strides: numbers(node, "stride", count, 1)?,
            dilations: numbers(node, "dilation", count, 1)?,
            pads: pads(node, count)?,
            legacy: LegacyPad::of(node.int("legacy_pad", 0)?)?,
        })
    }

    /// Returns the windows of a kernel, before `legacy_pad` is applied.
    pub(super) fn windows(&self, kernel: &[i64]) -> Outcome<Windows> {
        if self.pads.list().iter().any(|pad| *pad < 0) {
            let found = self.pads.list();
            return Err(format!("expected pads of at least 0, found {found:?}").into());
        }
        Windows::new(kernel, &self.strides, &self.dilations, &self.pads)
    }
}

/// Applies `legacy_pad` to windows over an image; returns the windows with the padding that ONNX declares.
pub(super) fn placed(
    windows: Windows,
    legacy: Option<LegacyPad>,
    x: &Value,
) -> Outcome<(Windows, Padding)> {
    let dims = spatial_dims(x);
    let Some(legacy) = legacy else {
        let pads = windows.pads();
        return Ok((windows, Padding::Explicit(pads)));
    };
    // If no stride is larger than the kernel, there is always something to pad.
    let is_padded = windows.iter().all(|window| window.kernel() >= window.stride());
    if dims.is_none() && legacy == LegacyPad::Same && is_padded {
        legacy.check(&windows)?;
        return Ok((windows, Padding::Same));
    }
    let windows = legacy.applied(&windows, dims.as_deref())?;
    let pads = windows.pads();
    Ok((windows, Padding::Explicit(pads)))
}

/// Fails if windows do not fit an image of known dims.
pub(super) fn check_fit(windows: &Windows, x: &Value) -> Outcome<()> {
    spatial_dims(x).map_or(Ok(()), |dims| windows.check_fit(&dims))
}

/// Reads a number for each spatial dim: `NAME` of images, or `NAME_h` and `NAME_w`, or `NAMEs`.
fn numbers(node: &Node<'_>, name: &str, count: usize, default: i64) -> Outcome<Vec<i64>> {
    let least = i64::from(!matches!(name, "kernel" | "adj"));
    let check =
        |numbers: Vec<i64>| match numbers.iter().all(|it| (least..=u32::MAX.into()).contains(it)) {
            true => Ok(numbers),
            false => Err(Finding::from(format!(
                "expected numbers of at least {least} as `{name}`, found {numbers:?}"
            ))),
        };
    if node.has(name) {
        return check(vec![node.int(name, default)?; count]);
    }
    let (height, width) = (format!("{name}_h"), format!("{name}_w"));
    if count == 2 && node.has(&height) && node.has(&width) {
        return check(vec![node.int(&height, default)?, node.int(&width, default)?]);
    }
    let all = format!("{name}s");
    match node.op.attribute(&all) {
        None | Some(AttributeValue::None) => Ok(vec![default; count]),
        Some(AttributeValue::Longs(numbers)) if numbers.len() == count => check(numbers.clone()),
        Some(AttributeValue::Longs(numbers)) => {
            Err(format!("expected {count} numbers as `{all}`, found {numbers:?}").into())
        }
        Some(_) => Err(format!("expected integers as `{all}`").into()),
    }
}

/// Reads padding: `pad`, all of `pad_t`, `pad_l`, `pad_b`, `pad_r`, or `pads`.
pub(super) fn pads(node: &Node<'_>, count: usize) -> Outcome<Pads> {
    const SIDES: [&str; 4] = ["pad_t", "pad_l", "pad_b", "pad_r"];
    if node.has("pad") {
        return Ok(Pads::both(&vec![node.int("pad", 0)?; count]));
    }
    // Sides count only if there are all of them.
    if count == 2 && SIDES.into_iter().all(|side| node.has(side)) {
        let sides = SIDES.into_iter().map(|side| node.int(side, 0));
        return Pads::listed(&sides.collect::<Outcome<Vec<_>>>()?);
    }
    match node.op.attribute("pads") {
        None | Some(AttributeValue::None) => Ok(Pads::none(count)),
        Some(AttributeValue::Longs(numbers)) if numbers.len() == 2 * count => Pads::listed(numbers),
        Some(AttributeValue::Longs(numbers)) => {
            Err(format!("expected {} numbers as `pads`, found {numbers:?}", 2 * count).into())
        }
        Some(_) => Err("expected integers as `pads`".into()),
    }
}

/// Returns the dims of a filter behind the first one, which must be known.
fn filter_dims(filter: &Value) -> Outcome<Vec<i64>> {
    (1..rank(filter)?).map(|axis| required_dim(filter, axis)).collect()
}

/// Whether the channels of a filter are its last dim. Filters have the order of the image. Glow's loader reads those of
/// floats with the channels first in any case, as some nets of its tests have them: if they fit in no other way.
fn is_last(node: &Node<'_>, kernel: Option<&Vec<i64>>, filter: &Value) -> Outcome<bool> {
    if node.layout()? == Layout::First {
        return Ok(false);
    }
    let (dims, Some(kernel)) = (filter_dims(filter)?, kernel) else { return Ok(true) };
    let count = kernel.len();
    let is_fit = dims.get(..count) == Some(kernel.as_slice());
    Ok(is_fit || dims.get(1..) != Some(kernel.as_slice()))
}

/// A filter with its channels at the front, and the windows that have its size.
struct Filters {
    value: Value,
    windows: Windows,
    group: i64,
    legacy: Option<LegacyPad>,
}

/// Reads the windows of a filter over images, and moves its channels to the front.
fn filters(node: &mut Node<'_>, x: &Value, filter: &Value) -> Outcome<Filters> {
    let of = Geometry::of(node, spatial_axes(x)?)?;
    let value = match is_last(node, of.kernel.as_ref(), filter)? {
        true => node.channels_to_front(filter)?,
        false => filter.clone(),
    };
    let (windows, group) = windows_of(node, &of, &value)?;
    Ok(Filters { value, windows, group, legacy: of.legacy })
}

/// Returns the window of a filter whose channels are at the front, and the number of groups.
fn windows_of(node: &Node<'_>, of: &Geometry, filter: &Value) -> Outcome<(Windows, i64)> {
    let spatial = filter_dims(filter)?.into_iter().skip(1).collect::<Vec<_>>();
    let kernel = of.kernel.as_ref().unwrap_or(&spatial);
    if *kernel != spatial {
        return Err(format!("expected a kernel of {spatial:?}, found {kernel:?}").into());
    }
    let group = node.int("group", 1)?;
    if group < 1 {
        return Err(format!("expected a `group` of at least 1, found {group}").into());
    }
    Ok((of.windows(kernel)?, group))
}

/// Convolves images whose channels are at the front by a filter that has the order of the arguments.
fn convolved(node: &mut Node<'_>, x: &Value, filter: &Value, bias: Option<&Value>) -> Outcome {
    let Filters { value: filter, windows, group, legacy } = filters(node, x, filter)?;
    let inner = required_dim(&filter, 1)?;
    let depth = filter.size(0)?;
    let channels = inner.checked_mul(group).ok_or("the filter is too large")?;
    let is_odd = depth.is_some_and(|depth| depth % group != 0);
    if x.size(1)?.is_some_and(|found| found != channels) || is_odd {
        let found = x.size(1)?.map_or("unknown".to_owned(), |found| found.to_string());
        return Err(format!(
            "a filter of {inner} channels and {group} groups does not match {found} channels"
        )
        .into());
    }
    check_bias(bias, depth)?;
    let (windows, padding) = placed(windows, legacy, x)?;
    check_fit(&windows, x)?;
    let attributes = [
        ints("kernel_shape", &windows.kernel()),
        ints("strides", &windows.strides()),
        ints("dilations", &windows.dilations()),
        padding.attribute(),
        int("group", group),
    ];
    node.convolve("Conv", [x, &filter], bias, attributes)
}

fn check_bias(bias: Option<&Value>, depth: Option<i64>) -> Outcome<()> {
    match (bias, depth) {
        (Some(bias), Some(depth)) => expect_dim(bias, 0, depth, "a bias"),
        _ => Ok(()),
    }
}

fn relu(node: &mut Node<'_>, y: Value, is_relu: bool) -> Outcome {
    if is_relu { node.call("Relu", &[&y], []) } else { Ok(y) }
}

fn conv(node: &mut Node<'_>, is_relu: bool) -> Outcome {
    let [x, filter] = node.first()?;
    let bias = node.optional(2)?;
    let y = node.on_images(&x, |node, x| convolved(node, x, &filter, bias.as_ref()))?;
    relu(node, y, is_relu)
}

/// Convolves the numbers of integers.
fn quantized(node: &mut Node<'_>, is_relu: bool) -> Outcome<Blob> {
    let (outer, inner) = (node.grid_of(0)?, node.grid_of(1)?);
    let x = node.real(0)?;
    let by_channel = node.int("group", 1)? > 1 && node.flag("quantize_groupwise", false)?;
    let (filter, scale) = match by_channel {
        true => {
            let scales = beside(node, "loaded_scales")?;
            (by_channels(node, &scales)?, Some(scales))
        }
        false => (node.real(1)?, None),
    };
    let bias = match (node.inputs.get(2).cloned(), scale) {
        (None, _) => None,
        // The scale of each channel is that of the image times that of the filter.
        (Some(Blob { value, .. }), Some(scales)) if value.dtype() != DType::Float32 => {
            let steps = node.cast(&value, DType::Float32)?;
            let scales = node.times(&scales, outer.scale.into())?;
            Some(node.numbers_of(&steps, None, Scale::MultiplyBy(&scales))?)
        }
        (Some(bias), _) => Some(node.bias(bias, outer.scale * inner.scale)?),
    };
    let y = node.on_images(&x, |node, x| convolved(node, x, &filter, bias.as_ref()))?;
    let y = relu(node, y, is_relu)?;
    node.on_grid(&y)
}

/// Returns the weight that lies beside the filter: `NAME_loaded_scales`, with an element for each channel.
fn beside(node: &Node<'_>, what: &str) -> Outcome {
    let filter = node.op.input("").get(1).map_or("", String::as_str);
    let name = format!("{filter}_{what}");
    let found = node.parameters.get(name.as_str());
    let tensor = found.ok_or_else(|| format!("expected the weight `{name}`, found none"))?;
    let value = Value::new(&name, ValueInfo::of(tensor));
    if let Some(depth) = node.raw(1)?.value.size(0)? {
        expect_dim(&value, 0, depth, &format!("the weight `{name}`"))?;
    }
    Ok(value)
}

/// Returns the numbers of a filter that has a scale and an offset for each channel.
fn by_channels(node: &mut Node<'_>, scales: &Value) -> Outcome {
    let (filter, offsets) = (node.raw(1)?.value, beside(node, "loaded_offsets")?);
    node.dequantized_rows(&filter, scales, &offsets)
}

fn transpose(node: &mut Node<'_>) -> Outcome {
    let [x, filter] = node.first()?;
    let bias = node.optional(2)?;
    node.on_images(&x, |node, x| transposed(node, x, &filter, bias.as_ref()))
}

fn transposed(node: &mut Node<'_>, x: &Value, filter: &Value, bias: Option<&Value>) -> Outcome {
    let Filters { value: filter, windows, group, legacy } = filters(node, x, filter)?;
    match legacy {
        None => {}
        Some(LegacyPad::Caffe) => {
            return Err("Caffe2 has no `legacy_pad` 3 for `ConvTranspose`".into());
        }
        Some(legacy) => legacy.check(&windows)?,
    }
    if windows.dilations().iter().any(|dilation| *dilation != 1) {
        return Err("Caffe2 has no dilations for `ConvTranspose`".into());
    }
    if let (Some(found), Some(channels)) = (filter.size(0)?, x.size(1)?)
        && found != channels
    {
        return Err(
            format!("a filter of {found} channels does not match {channels} channels").into()
        );
    }
    let depth = required_dim(&filter, 1)?.checked_mul(group);
    check_bias(bias, depth)?;
    let more = numbers(node, "adj", windows.rank(), 0)?;
    if let Some(dims) = spatial_dims(x) {
        let sizes = windows.transposed(&dims)?;
        if sizes.iter().zip(&more).any(|(size, more)| size + more <= 0) {
            return Err("the pads remove the whole result".into());
        }
    }
    let attributes = [
        ints("kernel_shape", &windows.kernel()),
        ints("strides", &windows.strides()),
        windows.pads().attribute(),
        ints("output_padding", &more),
        int("group", group),
    ];
    node.convolve("ConvTranspose", [x, &filter], bias, attributes)
}

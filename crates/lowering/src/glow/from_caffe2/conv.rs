//! Convolutions: Glow's have the channels last, so operands and results are transposed.

use lodstone_model::AttributeValue;
use lodstone_schema::Finding;
use lodstone_schema::glow::{ElemKind, Type};

use super::rules::{channels_first, channels_last, image, is_nhwc, of_kind, quantized, transposed};
use crate::glow::elements::floats_of;
use crate::glow::from_onnx::graph::{MemberValue, Source, Value};
use crate::glow::from_onnx::known::value_of;
use crate::glow::from_onnx::op::{Cx, Fault, Outcome, Rule, one};
use crate::onnx::legacy_pads::LegacyPad;
use crate::onnx::windows::{Pads, Rounding, Windows};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Conv", |cx| conv(cx, false)),
    ("ConvRelu", |cx| conv(cx, true)),
    ("ConvTranspose", transpose),
    ("Int8Conv", |cx| quantized_conv(cx, false)),
    ("Int8ConvRelu", |cx| quantized_conv(cx, true)),
];

/// A window: height and width, except pads: top, left, bottom, right.
pub(super) struct Geometry {
    pub(super) kernels: [i64; 2],
    pub(super) strides: [i64; 2],
    pub(super) pads: [i64; 4],
    pub(super) dilations: [i64; 2],
}

/// The largest number of a window: nodes hold them in 32 bits.
const LARGEST: i64 = u32::MAX as i64;

impl Geometry {
    /// Reads the window of an operator; a kernel that is not given is 0.
    pub(super) fn of(cx: &Cx<'_>) -> Result<Self, Fault> {
        let window = Self {
            kernels: pair(cx, "kernel", 0)?,
            strides: pair(cx, "stride", 1)?,
            pads: pads(cx)?,
            dilations: pair(cx, "dilation", 1)?,
        };
        for (name, numbers, least) in [
            ("kernel", &window.kernels[..], 0),
            ("stride", &window.strides[..], 1),
            ("pads", &window.pads[..], 0),
            ("dilation", &window.dilations[..], 1),
        ] {
            if numbers.iter().any(|number| !(least..=LARGEST).contains(number)) {
                return Err(format!(
                    "expected numbers from {least} to {LARGEST} as {name}, found {numbers:?}"
                )
                .into());
            }
        }
        Ok(window)
    }

    /// Applies `legacy_pad` to a window over an image: 1 no pads, 2 those with which each step has a result, 3 as in Caffe
    /// (1), which rounds the number of steps up.
    pub(super) fn pad_as_before(&mut self, cx: &Cx<'_>, image: [i64; 2]) -> Result<(), Fault> {
        let Some(mode) = legacy_pad(cx)? else { return Ok(()) };
        if self.kernels.contains(&0) {
            return Err("expected a `kernel` of at least 1".into());
        }
        let pads = mode.applied(&self.windows()?, Some(&image))?.pads().list();
        self.pads = pads.try_into().map_err(|_| "a pad was lost")?;
        Ok(())
    }

    /// Returns the height and width of the result over an image.
    pub(super) fn result(&self, image: [i64; 2]) -> Result<[i64; 2], Fault> {
        let window = (self.kernels, self.pads);
        let misfit = || format!("the window {window:?} does not fit an image of {image:?}");
        let windows = self.windows()?;
        for (window, size) in windows.over(&image)? {
            if !window.fits(size)? {
                return Err(misfit().into());
            }
        }
        let counts = windows.counts(&image, Rounding::Down)?;
        Ok(counts.try_into().map_err(|_| misfit())?)
    }

    fn windows(&self) -> Result<Windows, Finding> {
        Windows::new(&self.kernels, &self.strides, &self.dilations, &Pads::listed(&self.pads)?)
    }

    /// Returns the members that hold it.
    pub(super) fn members(&self) -> Vec<(&'static str, MemberValue)> {
        vec![
            ("Kernels", MemberValue::Ints(self.kernels.to_vec())),
            ("Strides", MemberValue::Ints(self.strides.to_vec())),
            ("Pads", MemberValue::Ints(self.pads.to_vec())),
        ]
    }
}

/// Reads `legacy_pad`.
fn legacy_pad(cx: &Cx<'_>) -> Result<Option<LegacyPad>, Fault> {
    Ok(LegacyPad::of(cx.int("legacy_pad", 0)?)?)
}

/// Reads a number for height and width: `NAME`, or `NAME_h` and `NAME_w`, or `NAMEs`.
fn pair(cx: &Cx<'_>, name: &str, default: i64) -> Result<[i64; 2], Fault> {
    let has = |name: &str| cx.op.attribute(name).is_some();
    if has(name) {
        return Ok([cx.int(name, default)?; 2]);
    }
    let (height, width) = (format!("{name}_h"), format!("{name}_w"));
    if has(&height) && has(&width) {
        return Ok([cx.int(&height, default)?, cx.int(&width, default)?]);
    }
    let all = format!("{name}s");
    match cx.op.attribute(&all) {
        None | Some(AttributeValue::None) => Ok([default; 2]),
        Some(AttributeValue::Longs(numbers)) => match **numbers {
            [height, width] => Ok([height, width]),
            _ => Err(format!("expected 2 numbers as `{all}`, found {numbers:?}").into()),
        },
        Some(_) => Err(format!("expected integers as `{all}`").into()),
    }
}

pub(super) fn pads(cx: &Cx<'_>) -> Result<[i64; 4], Fault> {
    let has = |name: &str| cx.op.attribute(name).is_some();
    if has("pad") {
        return Ok([cx.int("pad", 0)?; 4]);
    }
    // Sides count only if there are all of them.
    const SIDES: [&str; 4] = ["pad_t", "pad_l", "pad_b", "pad_r"];
    if SIDES.into_iter().all(has) {
        let [top, left, bottom, right] = SIDES.map(|side| cx.int(side, 0));
        return Ok([top?, left?, bottom?, right?]);
    }
    match cx.op.attribute("pads") {
        None | Some(AttributeValue::None) => Ok([0; 4]),
        Some(AttributeValue::Longs(numbers)) => match **numbers {
            [top, left, bottom, right] => Ok([top, left, bottom, right]),
            _ => Err(format!("expected 4 numbers as `pads`, found {numbers:?}").into()),
        },
        Some(_) => Err("expected integers as `pads`".into()),
    }
}

/// The operands of a convolution, with channels last.
struct Operands {
    value: Value,
    filter: Value,
    depth: i64,
    window: Geometry,
    group: i64,
    is_nhwc: bool,
}

/// Reads the operands; the filter is transposed to output channels, height, width, input channels.
fn operands(cx: &mut Cx<'_>, is_transposed: bool) -> Result<Operands, Fault> {
    let is_nhwc = is_nhwc(cx)?;
    let (value, filter) = (cx.input(0)?, cx.input(1)?);
    let mut window = Geometry::of(cx)?;
    let group = cx.int("group", 1)?;
    if group < 1 {
        return Err(format!("expected a `group` of at least 1, found {group}").into());
    }
    let [_, second, third, last] = image(cx, filter)?;
    // Filters have the order of the image. Glow's loader reads those of floats with the channels first in any case, as some
    // nets of its tests have them: if they fit in no other way.
    let is_fit = window.kernels == [0; 2] || window.kernels == [second, third];
    let is_last = is_nhwc && (is_fit || window.kernels != [third, last]);
    let filter = match (is_last, is_transposed) {
        (true, false) => filter,
        (false, false) => transposed(cx, filter, &[0, 2, 3, 1], "filter_NHWC")?,
        (true, true) => transposed(cx, filter, &[3, 1, 2, 0], "filter_NHWC")?,
        (false, true) => transposed(cx, filter, &[1, 2, 3, 0], "filter_NHWC")?,
    };
    let [depth, height, width, _] = image(cx, filter)?;
    if window.kernels == [0; 2] {
        window.kernels = [height, width];
    }
    if window.kernels != [height, width] {
        let found = window.kernels;
        return Err(format!("expected a kernel of {:?}, found {found:?}", [height, width]).into());
    }
    let value = if is_nhwc { value } else { channels_last(cx, value)? };
    image(cx, value)?;
    Ok(Operands { value, filter, depth, window, group, is_nhwc })
}

/// Checks that channels match the filter.
fn check_channels(cx: &Cx<'_>, of: &Operands) -> Result<(), Fault> {
    let [.., channels] = image(cx, of.value)?;
    let [.., inner] = image(cx, of.filter)?;
    let is_fit = inner.checked_mul(of.group) == Some(channels) && of.depth % of.group == 0;
    match is_fit {
        true => Ok(()),
        false => Err(format!(
            "a filter of {inner} channels and {} groups does not match {channels} channels",
            of.group
        )
        .into()),
    }
}

/// Returns the bias, or zeros.
fn bias(cx: &mut Cx<'_>, of: Type, suffix: &str) -> Result<Value, Fault> {
    match cx.optional(2)? {
        Some(bias) if cx.shape(bias) == of.shape => Ok(bias),
        Some(bias) => {
            let found = cx.shape(bias);
            Err(format!("expected a bias of {:?}, found {found:?}", of.shape).into())
        }
        None => cx.splat(0.0, of, suffix),
    }
}

fn members(of: &Operands) -> Vec<(&'static str, MemberValue)> {
    let mut members = of.window.members();
    members.extend([
        ("Group", MemberValue::Int(of.group)),
        ("Dilation", MemberValue::Ints(of.window.dilations.to_vec())),
        ("Layout", MemberValue::Text("NHWC".to_owned())),
        ("FusedActivation", MemberValue::Text("NONE".to_owned())),
        ("FusedActivationArgs", MemberValue::Floats(Vec::new())),
    ]);
    members
}

/// Adds the activation and restores the layout.
fn finished(cx: &mut Cx<'_>, mut value: Value, is_relu: bool, is_nhwc: bool) -> Outcome {
    if is_relu {
        let of = cx.type_of(value);
        value = cx.node("Relu", "relu", &[value], Vec::new(), of)?;
    }
    one(if is_nhwc { value } else { channels_first(cx, value)? })
}

fn conv(cx: &mut Cx<'_>, is_relu: bool) -> Outcome {
    let mut of = operands(cx, false)?;
    check_channels(cx, &of)?;
    let [batch, height, width, _] = image(cx, of.value)?;
    of.window.pad_as_before(cx, [height, width])?;
    let [rows, columns] = of.window.result([height, width])?;
    let bias = bias(cx, of_kind(ElemKind::Float, vec![of.depth]), "bias")?;
    let result = of_kind(ElemKind::Float, vec![batch, rows, columns, of.depth]);
    for (name, value) in [("image", of.value), ("filter", of.filter), ("bias", bias)] {
        let found = cx.type_of(value).kind;
        if found != ElemKind::Float {
            return Err(format!("expected floats as {name}, found {}", found.name()).into());
        }
    }
    let value = cx.node("Convolution", "", &[of.value, of.filter, bias], members(&of), result)?;
    finished(cx, value, is_relu, of.is_nhwc)
}

fn quantized_conv(cx: &mut Cx<'_>, is_relu: bool) -> Outcome {
    let mut of = operands(cx, false)?;
    check_channels(cx, &of)?;
    let scales = [of.value, of.filter].map(|value| cx.type_of(value).quantization);
    let [Some((outer, _)), Some((inner, _))] = scales else {
        return Err("expected quantized operands".into());
    };
    let [batch, height, width, _] = image(cx, of.value)?;
    of.window.pad_as_before(cx, [height, width])?;
    let [rows, columns] = of.window.result([height, width])?;
    let zeros = Type { quantization: Some((1.0, 0)), ..of_kind(ElemKind::Int32Q, vec![of.depth]) };
    let mut bias = bias(cx, zeros.clone(), "conv_bias")?;
    let channels = match of.group > 1 && cx.flag("quantize_groupwise", false)? {
        true => Some((
            beside(cx, "loaded_scales", ElemKind::Float, of.depth)?,
            beside(cx, "loaded_offsets", ElemKind::Int32I, of.depth)?,
        )),
        false => None,
    };
    if channels.is_none() && cx.type_of(bias).kind == ElemKind::Float {
        let of = Type { quantization: Some((outer * inner, 0)), ..zeros };
        bias = cx.node("Quantize", "conv_bias", &[bias], Vec::new(), of)?;
    }
    let result = quantized(cx, vec![batch, rows, columns, of.depth])?;
    let value = match channels {
        None => {
            let inputs = [of.value, of.filter, bias];
            cx.node("Convolution", "", &inputs, members(&of), result)?
        }
        Some((scales, offsets)) => {
            let [bias_scales, bias_offsets] = bias_channels(cx, outer, scales, of.depth)?;
            let inputs = [of.value, of.filter, bias, scales, offsets, bias_scales, bias_offsets];
            let members = members(&of).into_iter().filter(|(name, _)| *name != "Layout").collect();
            cx.node("ChannelwiseQuantizedConvolution", "", &inputs, members, result)?
        }
    };
    finished(cx, value, is_relu, of.is_nhwc)
}

/// Returns the weight that lies beside the filter: `NAME_loaded_scales`, with an element for each channel.
fn beside(cx: &mut Cx<'_>, what: &str, kind: ElemKind, depth: i64) -> Result<Value, Fault> {
    let name = format!("{}_{what}", cx.input_name(1));
    let entry = cx.entries.iter().rposition(|entry| entry.name == name);
    let entry = entry.ok_or_else(|| format!("expected the weight `{name}`, found none"))?;
    let value = value_of(cx.graph, cx.entries, entry)?;
    let of = cx.type_of(value);
    match of.kind == kind && of.shape == [depth] {
        true => Ok(value),
        false => Err(format!("expected {depth} elements of {} as `{name}`", kind.name()).into()),
    }
}

/// Adds the scales and offsets of the bias: the scale of each channel times that of the image, and 0.
fn bias_channels(
    cx: &mut Cx<'_>,
    outer: f32,
    scales: Value,
    depth: i64,
) -> Result<[Value; 2], Fault> {
    let constant = match cx.graph.source(scales) {
        Source::Constant(number) => cx.graph.constants.get(number),
        _ => None,
    };
    let scales = constant.and_then(|constant| floats_of(&constant.tensor));
    let scales = scales.ok_or("expected constant scales")?;
    let bytes = scales.iter().flat_map(|scale| (scale * outer).to_le_bytes()).collect();
    let products = cx.graph.constant_of("biasScales", ElemKind::Float, vec![depth], bytes)?;
    let zeros = vec![0; scales.len() * 4];
    let offsets = cx.graph.constant_of("biasOffsets", ElemKind::Int32I, vec![depth], zeros)?;
    Ok([products, offsets])
}

fn transpose(cx: &mut Cx<'_>) -> Outcome {
    let of = operands(cx, true)?;
    match legacy_pad(cx)? {
        None => {}
        Some(LegacyPad::Caffe) => {
            return Err("Caffe2 has no `legacy_pad` 3 for `ConvTranspose`".into());
        }
        Some(legacy) => legacy.check(&of.window.windows()?)?,
    }
    let [batch, height, width, channels] = image(cx, of.value)?;
    let [.., inner] = image(cx, of.filter)?;
    if inner != channels {
        return Err(
            format!("a filter of {inner} channels does not match {channels} channels").into()
        );
    }
    if of.window.dilations != [1; 2] {
        return Err("Caffe2 has no dilations for `ConvTranspose`".into());
    }
    let [adjust_height, adjust_width] = pair(cx, "adj", 0)?;
    if [adjust_height, adjust_width] != [0; 2] {
        return Err("Glow has no `adj` for `ConvTranspose`".into());
    }
    let depth = of.depth.checked_mul(of.group).ok_or("the shape is too large")?;
    let windows = of.window.windows()?;
    let sizes = windows.transposed(&[height, width])?;
    let (rows, columns) = match sizes.as_slice() {
        [rows, columns] if *rows > 0 && *columns > 0 => (*rows, *columns),
        _ => return Err("the pads remove the whole result".into()),
    };
    let bias = bias(cx, of_kind(ElemKind::Float, vec![depth]), "conv_bias")?;
    let mut members = of.window.members();
    members.extend([
        ("Group", MemberValue::Int(of.group)),
        ("Dilation", MemberValue::Ints(of.window.dilations.to_vec())),
    ]);
    let result = of_kind(ElemKind::Float, vec![batch, rows, columns, depth]);
    let value = cx.node("ConvTranspose", "", &[of.value, of.filter, bias], members, result)?;
    finished(cx, value, false, of.is_nhwc)
}

//! Convolutions.
//!
//! Glow's channels are last: `[batch, height, width, channel]`, and filters `[out, height, width, in]`. ONNX's come after
//! the batch, so inputs and outputs are transposed; every runtime folds the transposition of a constant filter.

use lodstone_model::Attribute;

use super::elementwise::clipped;
use super::linear::{dequantized_bias, dequantized_by_row};
use super::node::{Node, Outcome, Rule};
use crate::onnx::layout::{GLOW, Layout};
use crate::onnx::{Value, float, int, ints};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ChannelwiseQuantizedConvolution", channelwise),
    ("ConvTranspose", transposed),
    ("Convolution", convolution),
    ("Convolution3D", convolution),
];

/// Returns the layout; convolutions without one have the channels last.
pub(super) fn layout(n: &Node<'_>) -> Outcome<Layout> {
    let Some(name) = n.optional_text("Layout")? else { return Ok(Layout::Last) };
    Layout::named(&name, GLOW)
        .ok_or_else(|| format!("expected a known `Layout`, found `{name}`").into())
}

/// Returns kernel size, strides and pads, from the first spatial dim; also dilations, if the kind has them.
fn window(n: &Node<'_>) -> Outcome<Vec<Attribute>> {
    let mut attributes = vec![
        ints("kernel_shape", n.ints("Kernels")?),
        ints("strides", n.ints("Strides")?),
        ints("pads", &pads(n)?),
        int("group", n.int("Group")?),
    ];
    if n.op.attribute("Dilation").is_some() {
        attributes.push(ints("dilations", n.ints("Dilation")?));
    }
    Ok(attributes)
}

/// Returns pads in ONNX's order: all begins, then all ends. For three dims, Glow has pairs for each dim.
pub(super) fn pads(n: &Node<'_>) -> Outcome<Vec<i64>> {
    let pads = n.ints("Pads")?;
    Ok(match *pads {
        [near, far, top, bottom, left, right] => vec![near, top, left, far, bottom, right],
        _ => pads.to_vec(),
    })
}

fn convolution(n: &mut Node<'_>) -> Outcome {
    let dtype = n.computed(0)?;
    let filter = arranged(n, 1)?;
    let filter = n.dequantized(&filter, n.ty(1)?)?;
    let filter = n.cast(&filter, dtype)?;
    let bias = n.added(2, Some([0, 1]))?;
    let bias = n.cast(&bias, dtype)?;
    convolved(n, &filter, &bias)
}

/// Returns an input in ONNX's layout. Quantized inputs are transposed before they are dequantized: runtimes look for
/// `DequantizeLinear` directly before a convolution.
fn arranged(n: &mut Node<'_>, index: usize) -> Outcome<Value> {
    let value = n.raw(index)?;
    let layout = layout(n)?;
    n.channels_first(&value, layout)
}

fn channelwise(n: &mut Node<'_>) -> Outcome {
    let filter = arranged(n, 1)?;
    let (scales, offsets) = (n.raw(3)?, n.raw(4)?);
    let filter = dequantized_by_row(n, &filter, &scales, &offsets)?;
    let bias = if n.ty(2)?.kind.is_quantized() {
        let (bias, scales, offsets) = (n.raw(2)?, n.raw(5)?, n.raw(6)?);
        let of_filter = n.raw(3)?;
        let input = n.ty(0)?;
        dequantized_bias(n, [&bias, &scales, &offsets], input, &of_filter)?
    } else {
        n.raw(2)?
    };
    convolved(n, &filter, &bias)
}

fn convolved(n: &mut Node<'_>, filter: &Value, bias: &Value) -> Outcome {
    let attributes = window(n)?;
    let input = arranged(n, 0)?;
    let input = n.dequantized(&input, n.ty(0)?)?;
    let input = n.cast(&input, filter.dtype())?;
    let inputs = [Some(&input), Some(filter), Some(bias)];
    let [value] = n.emit_all("Conv", &inputs, attributes)?;
    let value = activated(n, &value)?;
    let result = n.out(0)?;
    let value = n.quantized(&value, &result)?;
    let layout = layout(n)?;
    let value = n.in_layout(&value, layout)?;
    n.put_raw(0, &value)
}

/// Applies the fused activation, if there is one.
fn activated(n: &mut Node<'_>, value: &Value) -> Outcome<Value> {
    let Some(activation) = n.optional_text("FusedActivation")? else { return Ok(value.clone()) };
    let numbers = n.floats("FusedActivationArgs")?;
    Ok(match (activation.as_str(), numbers) {
        ("NONE", _) => value.clone(),
        ("RELU", _) => n.call("Relu", &[value], [])?,
        ("TANH", _) => n.call("Tanh", &[value], [])?,
        ("SIGMOID", _) => n.call("Sigmoid", &[value], [])?,
        ("CLIP", [least, most]) => clipped(n, value, *least, *most)?,
        ("LEAKY_RELU", [alpha]) => n.call("LeakyRelu", &[value], [float("alpha", *alpha)])?,
        (other, numbers) => {
            let count = numbers.len();
            let what =
                format!("`FusedActivation` `{other}` with {count} arguments is not supported");
            return Err(what.into());
        }
    })
}

/// Glow's filter is `[out, height, width, in]`, ONNX's `[in, out, height, width]`.
fn transposed(n: &mut Node<'_>) -> Outcome {
    let dtype = n.computed(0)?;
    let (input, filter) = (n.real_as(0, dtype)?, n.real_as(1, dtype)?);
    let bias = n.added(2, Some([0, 1]))?;
    let bias = n.cast(&bias, dtype)?;
    let input = n.channels_to_front(&input)?;
    n.ranked::<4>(1)?;
    let filter = n.transpose(&filter, &[3, 0, 1, 2])?;
    let attributes = window(n)?;
    let inputs = [Some(&input), Some(&filter), Some(&bias)];
    let [value] = n.emit_all("ConvTranspose", &inputs, attributes)?;
    let value = n.channels_to_back(&value)?;
    n.put(0, &value)
}

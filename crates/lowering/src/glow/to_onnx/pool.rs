//! Max and average pooling.

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::node::{Node, Outcome, Rule};
use crate::onnx::adaptive::Pooled;
use crate::onnx::layout::Layout;
use crate::onnx::{Size, Value, int, ints};

pub(super) const RULES: &[(&str, Rule)] =
    &[("AdaptiveAvgPool", adaptive), ("AvgPool", average), ("MaxPool", greatest)];

/// Layouts of pools are integers: `NHWC`, `NCHW`, `NTHWC`, `NCTHW`.
fn layout(n: &Node<'_>) -> Outcome<Layout> {
    match n.int("Layout")? {
        0 | 2 => Ok(Layout::Last),
        1 | 3 => Ok(Layout::First),
        other => Err(format!("expected 0 to 3 as `Layout`, found {other}").into()),
    }
}

fn windows(n: &Node<'_>) -> Outcome<[lodstone_model::Attribute; 3]> {
    Ok([
        ints("kernel_shape", n.ints("Kernels")?),
        ints("strides", n.ints("Strides")?),
        ints("pads", &super::conv::pads(n)?),
    ])
}

fn greatest(n: &mut Node<'_>) -> Outcome {
    let result = n.out(0)?;
    let value = n.raw_like(0, &result)?;
    let layout = layout(n)?;
    let value = n.channels_first(&value, layout)?;
    let wants_places = n.is_read(1);
    let outputs = 1 + usize::from(wants_places);
    let attributes = windows(n)?;
    let outputs = n.emit("MaxPool", &[Some(&value)], attributes, outputs)?;
    let greatest = outputs.first();
    let greatest = greatest.ok_or_else(|| Finding::internal("`MaxPool` has no result"))?;
    let greatest = n.in_layout(greatest, layout)?;
    n.put_raw(0, &greatest)?;
    let Some(places) = outputs.get(1) else { return Ok(()) };
    let places = match layout {
        Layout::First => places.clone(),
        Layout::Last => {
            let places = renumbered(n, places)?;
            n.channels_to_back(&places)?
        }
    };
    n.put(1, &places)
}

/// Converts indices into images with channels first to indices with channels last.
fn renumbered(n: &mut Node<'_>, places: &Value) -> Outcome<Value> {
    let [_, height, width, channels] = n.ranked::<4>(0)?;
    let Some(area) = height.checked_mul(width) else {
        return Err("the dims are too large".into());
    };
    let (area, channels) = (n.long(area), n.long(channels));
    let within = n.call("Mod", &[places, &area], [])?;
    let planes = n.div(places, &area)?;
    let channel = n.call("Mod", &[&planes, &channels], [])?;
    let image = n.div(&planes, &channels)?;
    let image = n.mul(&image, &area)?;
    let pixel = n.add(&image, &within)?;
    let pixel = n.mul(&pixel, &channels)?;
    n.add(&pixel, &channel)
}

fn average(n: &mut Node<'_>) -> Outcome {
    let value = n.raw(0)?;
    let layout = layout(n)?;
    let value = n.channels_first(&value, layout)?;
    let value = n.dequantized(&value, n.ty(0)?)?;
    let [kernels, strides, pads] = windows(n)?;
    let counted = int("count_include_pad", n.int("CountIncludePads")?);
    let value = n.call("AveragePool", &[&value], [kernels, strides, pads, counted])?;
    let result = n.out(0)?;
    let value = n.quantized(&value, &result)?;
    let value = n.in_layout(&value, layout)?;
    n.put_raw(0, &value)
}

/// Windows cover equal parts of a dim, rounded outwards to whole elements.
fn adaptive(n: &mut Node<'_>) -> Outcome {
    let [_, rows, columns, _] = n.out_ranked::<4>(0)?;
    let value = n.real_as(0, DType::Float32)?;
    let value = n.channels_to_front(&value)?;
    let counts = [Size::Known(rows), Size::Known(columns)];
    let value = n.adaptive_pool(&value, &counts, Pooled::Mean)?;
    let value = n.channels_to_back(&value)?;
    n.put(0, &value)
}

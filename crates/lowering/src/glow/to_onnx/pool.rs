//! Max and average pooling.

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::node::{Node, Outcome, Rule};
use crate::onnx::layout::Layout;
use crate::onnx::{Value, int, ints};

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
    let [_, height, width, _] = n.ranked::<4>(0)?;
    let [_, rows, columns, _] = n.out_ranked::<4>(0)?;
    let value = n.real_as(0, DType::Float32)?;
    let value = n.channels_to_front(&value)?;
    let (rows, columns) = (weights(n, rows, height)?, weights(n, columns, width)?);
    let columns = n.transpose(&columns, &[1, 0])?;
    let value = n.call("MatMul", &[&rows, &value], [])?;
    let value = n.call("MatMul", &[&value, &columns], [])?;
    let value = n.channels_to_back(&value)?;
    n.put(0, &value)
}

/// Returns the weight of each of `many` elements in each of `parts` means: computed at run time, because it may be
/// large.
pub(super) fn weights(n: &mut Node<'_>, parts: i64, many: i64) -> Outcome<Value> {
    if parts < 1 {
        return Err("expected at least 1 part, found none".into());
    }
    let (count, all) = (n.long(parts), n.long(many));
    let part = n.range(parts)?;
    let part = n.reshape(&part, &[parts, 1])?;
    let start = n.mul(&part, &all)?;
    // The end is rounded up.
    let end = n.plus(&part, 1.0)?;
    let end = n.mul(&end, &all)?;
    let rest = n.long(parts - 1);
    let end = n.add(&end, &rest)?;
    let (start, end) = (n.div(&start, &count)?, n.div(&end, &count)?);
    let element = n.range(many)?;
    let element = n.reshape(&element, &[1, many])?;
    let behind = n.call("GreaterOrEqual", &[&element, &start], [])?;
    let before = n.call("Less", &[&element, &end], [])?;
    let inside = n.call("And", &[&behind, &before], [])?;
    let inside = n.cast(&inside, DType::Float32)?;
    let size = n.sub(&end, &start)?;
    let size = n.cast(&size, DType::Float32)?;
    n.div(&inside, &size)
}

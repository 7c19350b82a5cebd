//! Pools: the greatest, or the mean, of what is in a window.

use lodstone_model::DType;

use super::conv::{channels_first, channels_last};
use super::node::{Node, Outcome, Rule, no_words};
use crate::onnx::{Value, int, ints};

pub(super) const RULES: &[(&str, Rule)] =
    &[("AdaptiveAvgPool", adaptive), ("AvgPool", average), ("MaxPool", greatest)];

/// Layouts of pools are numbers: `NHWC`, `NCHW`, `NTHWC`, `NCTHW`.
fn is_first(n: &Node<'_>) -> Outcome<bool> {
    Ok(n.int("Layout")? % 2 == 1)
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
    let first = is_first(n)?;
    let value = if first { value } else { channels_first(n, &value)? };
    let wants_places = n.is_read(1);
    let outputs = 1 + usize::from(wants_places);
    let attributes = windows(n)?;
    let outputs = n.emit("MaxPool", &[Some(&value)], attributes, outputs)?;
    if let Some(greatest) = outputs.first() {
        let greatest = if first { greatest.clone() } else { channels_last(n, greatest)? };
        n.put_raw(0, &greatest)?;
    }
    let Some(places) = outputs.get(1) else { return Ok(()) };
    let places = if first {
        places.clone()
    } else {
        let places = renumbered(n, places)?;
        channels_last(n, &places)?
    };
    n.put(1, &places)
}

/// Places of elements that are counted with the channels first, counted with the channels last.
fn renumbered(n: &mut Node<'_>, places: &Value) -> Outcome<Value> {
    let [_, height, width, channels] = n.ranked::<4>(0)?;
    let Some(area) = height.checked_mul(width) else {
        return Err("the extents are too large".to_owned().into());
    };
    let (area, channels) = (n.long(area), n.long(channels));
    let within = n.call("Mod", &[places, &area], [])?;
    let planes = n.div(places, &area)?;
    let channel = n.call("Mod", &[&planes, &channels], [])?;
    let image = n.div(&planes, &channels)?;
    let image = n.mul(&image, &area)?;
    let pixel = n.add(&image, &within)?;
    let pixel = n.mul(&pixel, &channels)?;
    Ok(n.add(&pixel, &channel)?)
}

fn average(n: &mut Node<'_>) -> Outcome {
    let value = n.raw(0)?;
    let first = is_first(n)?;
    let value = if first { value } else { channels_first(n, &value)? };
    let value = n.dequantized(&value, n.ty(0)?)?;
    let [kernels, strides, pads] = windows(n)?;
    let counted = int("count_include_pad", n.int("CountIncludePads")?);
    let value = n.call("AveragePool", &[&value], [kernels, strides, pads, counted])?;
    let result = n.out(0)?;
    let value = n.quantized(&value, &result)?;
    let value = if first { value } else { channels_last(n, &value)? };
    n.put_raw(0, &value)
}

/// Most elements of a matrix of weights that is stored.
const MOST_WEIGHTS: i64 = 1 << 20;

/// Windows that begin and end at the nearest elements around equal parts of an extent.
fn adaptive(n: &mut Node<'_>) -> Outcome {
    let [_, height, width, _] = n.ranked::<4>(0)?;
    let [_, rows, columns, _] = n.out_ranked::<4>(0)?;
    let value = n.real_as(0, DType::Float32)?;
    let value = channels_first(n, &value)?;
    let (rows, columns) = (weights(n, rows, height)?, weights(n, columns, width)?);
    let columns = n.transpose(&columns, &[1, 0])?;
    let value = n.call("MatMul", &[&rows, &value], [])?;
    let value = n.call("MatMul", &[&value, &columns], [])?;
    let value = channels_last(n, &value)?;
    n.put(0, &value)
}

/// How much each of `many` elements counts in each of `parts` means.
pub(super) fn weights(n: &mut Node<'_>, parts: i64, many: i64) -> Outcome<Value> {
    if parts.checked_mul(many).is_none_or(|count| !(1..=MOST_WEIGHTS).contains(&count)) {
        return no_words(format!("windows over {many} elements for {parts} are too many to store"));
    }
    let mut weights = Vec::new();
    for part in 0..parts {
        let (start, end) = (part * many / parts, ((part + 1) * many + parts - 1) / parts);
        let share = i16::try_from(end - start).map_or(0.0, |count| 1.0 / f32::from(count));
        weights.extend((0..many).map(|at| if (start..end).contains(&at) { share } else { 0.0 }));
    }
    let weights = n.singles(&weights);
    Ok(n.reshape(&weights, &[parts, many])?)
}

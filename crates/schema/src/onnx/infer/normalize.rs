//! Normalization and other operators that keep the shape.

use lodstone_model::{DType, Dim};

use super::Rule;
use super::dims::merged;
use super::elementwise::same;
use super::node::{Node, Outcome};
use super::value::UNDEFINED;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BatchNormalization", batch),
    ("CumProd", same),
    ("CumSum", same),
    ("GroupNormalization", same),
    ("Hardmax", softmax),
    ("InstanceNormalization", instance),
    ("LRN", same),
    ("LayerNormalization", layer),
    ("LogSoftmax", softmax),
    ("LpNormalization", last),
    ("MeanVarianceNormalization", same),
    ("RMSNormalization", last),
    ("Softmax", softmax),
];

/// Along one axis, by default the last; up to version 12, over all axes from the second one.
fn softmax(node: &mut Node<'_>) -> Outcome {
    node.at_least(0, 1)?;
    let default = if node.opset < 13 { 1 } else { -1 };
    checked_axis(node, default)
}

fn last(node: &mut Node<'_>) -> Outcome {
    checked_axis(node, -1)
}

fn checked_axis(node: &mut Node<'_>, default: i64) -> Outcome {
    if let Some(shape) = node.shape(0) {
        // The default axis may be out of range.
        let given = node.int_attribute("axis").is_some();
        let axis = node.axis("axis", default, shape.len());
        // Before version 13, the axis separates two groups of dims.
        let end = node.opset < 13
            && node.int_attribute("axis").and_then(|axis| usize::try_from(axis).ok())
                == Some(shape.len());
        if given && !end {
            axis?;
        }
    }
    same(node)
}

/// Statistics have the size of the channel dim.
fn batch(node: &mut Node<'_>) -> Outcome {
    if node.opset >= 14 {
        let (mode, count) = match node.flag("training_mode") {
            true => ("training", 3),
            false => ("inference", 1),
        };
        if node.outputs.len() != count {
            let found = node.outputs.len();
            return Err(format!("expected {count} outputs in {mode}, found {found}").into());
        }
    }
    let mut channels = match node.shape(0) {
        Some([_, channels, ..]) => channels.clone(),
        Some([_]) => Dim::Known(1),
        _ => Dim::Unknown,
    };
    for index in 1..5 {
        // Before version 9, there could be statistics for each position.
        if let Some([dim]) = if node.opset < 9 { node.shape(index) } else { node.ranked(index, 1)? }
        {
            channels = merged(&channels, dim).ok_or_else(|| {
                format!("expected {channels} elements of input {index}, found {dim}")
            })?;
        }
    }
    node.like(0, 0);
    let dtype = |index: usize| match node.dtype(index) {
        UNDEFINED => node.dtype(0),
        dtype => dtype,
    };
    let (mean, variance) = (dtype(3), dtype(4));
    for (index, dtype) in [(1, mean), (2, variance), (3, mean), (4, variance)] {
        node.tensor(index, dtype, Some(vec![channels.clone()]));
    }
    Ok(())
}

fn instance(node: &mut Node<'_>) -> Outcome {
    let input = node.at_least(0, 3)?;
    let mut channels = input.and_then(|shape| shape.get(1)).cloned().unwrap_or(Dim::Unknown);
    for index in 1..3 {
        if let Some([dim]) = node.ranked(index, 1)? {
            channels = merged(&channels, dim).ok_or_else(|| {
                format!("expected {channels} elements of input {index}, found {dim}")
            })?;
        }
    }
    same(node)
}

/// The mean and the deviation have dims of 1 from the axis.
fn layer(node: &mut Node<'_>) -> Outcome {
    node.like(0, 0);
    let shape = match node.shape(0) {
        Some(shape) => {
            let axis = node.axis("axis", -1, shape.len())?;
            let kept = |(place, dim): (usize, &Dim)| match place < axis {
                true => dim.clone(),
                false => Dim::Known(1),
            };
            Some(shape.iter().enumerate().map(kept).collect::<Vec<_>>())
        }
        None => None,
    };
    let stash = match node.dtype_attribute("stash_type")? {
        None => DType::Float32,
        Some(dtype) => dtype,
    };
    node.tensor(1, stash, shape.clone());
    node.tensor(2, stash, shape);
    Ok(())
}

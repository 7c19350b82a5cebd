//! Signal processing: [batch, length, real and imaginary part].

use lodstone_model::{DType, Dim};

use super::Rule;
use super::dims::{Checked, axis_of, mapped, show};
use super::generate::dtype_or;
use super::node::{Node, Outcome};
use super::value::Element;
use crate::Finding;
use crate::places::at_mut;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BlackmanWindow", window),
    ("DFT", transform),
    ("HammingWindow", window),
    ("HannWindow", window),
    ("MelWeightMatrix", mel),
    ("STFT", short_transform),
];

/// Returns the dim of a scalar input; unknown if its value is.
fn scalar(node: &Node<'_>, index: usize) -> Checked<Dim> {
    match node.contents(index) {
        Some([element]) => {
            node.ranked(index, 0)?;
            let dim = element.dim();
            dim.ok_or_else(|| format!("expected a number of at least 0 in input {index}").into())
        }
        _ => Ok(Dim::Unknown),
    }
}

fn window(node: &mut Node<'_>) -> Outcome {
    let dtype = dtype_or(node, "output_datatype", DType::Float32)?;
    let length = scalar(node, 0)?;
    if length == Dim::Known(0) {
        return Err(Finding::from("expected a size of at least 1, found 0").about_input(0));
    }
    node.tensor(0, dtype, Some(vec![length]));
    Ok(())
}

/// Output: [frequencies, bins].
fn mel(node: &mut Node<'_>) -> Outcome {
    let dtype = dtype_or(node, "output_datatype", DType::Float32)?;
    let frequencies = one_sided(&scalar(node, 1)?)?;
    let bins = scalar(node, 0)?;
    node.tensor(0, dtype, Some(vec![frequencies, bins]));
    Ok(())
}

/// Returns the number of values of a transform that do not mirror others.
fn one_sided(length: &Dim) -> Checked<Dim> {
    mapped(length, "frequencies", |length| Some(length / 2 + 1))
}

/// Transforms along an axis, which is an attribute before version 20.
fn transform(node: &mut Node<'_>) -> Outcome {
    let (dtype, onesided, inverse) = (node.dtype(0), node.flag("onesided"), node.flag("inverse"));
    let Some(shape) = node.at_least(0, 2)? else {
        node.tensor(0, dtype, None);
        return Ok(());
    };
    let axis = match (node.int_attribute("axis"), node.contents(2)) {
        (Some(axis), _) => Some(axis),
        (None, Some([Element::Int(axis)])) => Some(*axis),
        (None, _) if node.has(2) => None,
        // The default is the first axis after the batch.
        (None, _) => Some(if node.opset < 20 { 1 } else { -2 }),
    };
    if let Some(Dim::Known(parts)) = shape.last()
        && !matches!(parts, 1 | 2)
    {
        return Err(
            format!("expected real and imaginary parts in the last dim, found {parts}").into()
        );
    }
    // A one-sided transform takes a real signal; its inverse takes a complex one.
    if let (Some(Dim::Known(found)), true) = (shape.last(), onesided) {
        let expected = if inverse { 2 } else { 1 };
        if *found != expected {
            let wrong = format!("expected a last dim of {expected} by `onesided`, found {found}");
            return Err(Finding::from(wrong).about_attribute("onesided"));
        }
    }
    let mut result = shape.to_vec();
    if let Some(parts) = result.last_mut() {
        *parts = Dim::Known(if onesided && inverse { 1 } else { 2 });
    }
    let last = result.len() - 1;
    let Some(axis) = axis else {
        // A full transform has the length of the signal, whatever the axis.
        if onesided || node.has(1) {
            result.iter_mut().take(last).for_each(|dim| *dim = Dim::Unknown);
        }
        node.tensor(0, dtype, Some(result));
        return Ok(());
    };
    let place = axis_of(axis, shape.len())?;
    if place == last {
        return Err(format!("expected an axis other than the last one, found {axis}").into());
    }
    let length = match node.has(1) {
        true => scalar(node, 1)?,
        false => {
            let dim = shape.get(place).cloned().unwrap_or(Dim::Unknown);
            match onesided && inverse {
                true => mapped(&dim, "values", |dim| Some(2 * (dim - 1)))?,
                false => dim,
            }
        }
    };
    *at_mut(&mut result, place)? = if onesided && !inverse { one_sided(&length)? } else { length };
    node.tensor(0, dtype, Some(result));
    Ok(())
}

/// Output: [batch, frames, frequencies, 2].
fn short_transform(node: &mut Node<'_>) -> Outcome {
    let dtype = node.dtype(0);
    // The last dim, of the parts of a number, may be missing.
    let (batch, signal) = match node.shape(0) {
        Some([batch, signal] | [batch, signal, _]) => (batch.clone(), signal.clone()),
        Some(other) => {
            let wrong = format!("expected rank 2 or 3 of input 0, found {}", show(other));
            return Err(Finding::from(wrong).about_input(0));
        }
        None => (Dim::Unknown, Dim::Unknown),
    };
    let mut length = if node.has(3) { scalar(node, 3)? } else { Dim::Unknown };
    node.unify(2, &mut [&mut length])?;
    if !node.has(2) && !node.has(3) {
        length = signal.clone();
    }
    let frames = match (node.int(1), &length) {
        (Some(step), _) if step <= 0 => {
            return Err(format!("expected a step of at least 1, found {step}").into());
        }
        (Some(step), Dim::Known(length)) => mapped(&signal, "frames", |signal| {
            Some((signal - i128::from(*length)).div_euclid(i128::from(step)) + 1)
        })?,
        _ => Dim::Unknown,
    };
    let onesided = node.int_attribute("onesided").is_none_or(|onesided| onesided != 0);
    let frequencies = if onesided { one_sided(&length)? } else { length };
    node.tensor(0, dtype, Some(vec![batch, frames, frequencies, Dim::Known(2)]));
    Ok(())
}

//! Resizing of images.

use lodstone_model::{AttributeValue, Dim};

use super::Rule;
use super::dims::{Checked, axes_of, axis_of, show};
use super::indexing::whole;
use super::node::{Node, Outcome};
use super::reshape::list_of;
use super::value::approximate;
use crate::Finding;
use crate::places::at_mut;

pub(super) const RULES: &[(&str, Rule)] =
    &[("CenterCropPad", crop), ("Resize", resize), ("Upsample", upsample)];

/// Exactly one of scales and sizes is given.
fn resize(node: &mut Node<'_>) -> Outcome {
    let dtype = node.dtype(0);
    let shape = match node.shape(0) {
        Some(shape) => Some(resized(node, shape)?),
        None => None,
    };
    node.tensor(0, dtype, shape);
    Ok(())
}

fn resized(node: &Node<'_>, shape: &[Dim]) -> Checked<Vec<Dim>> {
    let axes = match node.ints_attribute("axes") {
        Some(axes) => {
            axes_of(axes, shape.len())?;
            axes.iter().map(|axis| axis_of(*axis, shape.len())).collect::<Checked<Vec<_>>>()?
        }
        None => (0..shape.len()).collect(),
    };
    let policy = node.text("keep_aspect_ratio_policy").filter(|policy| *policy != b"stretch");
    // Version 10 has no region of interest.
    let (scales, sizes) = if node.opset < 11 { (1, None) } else { (2, Some(3)) };
    let empty = |index: usize| node.shape(index) == Some(&[Dim::Known(0)]);
    if let Some(sizes) = sizes.filter(|index| node.has(*index) && !empty(*index)) {
        if node.has(scales) && !empty(scales) && node.opset >= 13 {
            return Err("expected scales or sizes, found both".into());
        }
        return sized(node, shape, &axes, sizes, policy);
    }
    if !node.has(scales) || empty(scales) {
        return Err("expected scales or sizes, found neither".into());
    }
    if let Some(policy) = policy {
        let policy = String::from_utf8_lossy(policy);
        let wrong = format!("expected sizes for the policy `{policy}`, found scales");
        return Err(Finding::from(wrong).about_attribute("keep_aspect_ratio_policy"));
    }
    let given = counted(node.floats(scales), axes.len(), "scales")?;
    scaled(shape, &axes, given.as_deref())
}

/// Checks the length of a list.
fn counted<T>(numbers: Option<Vec<T>>, count: usize, what: &str) -> Checked<Option<Vec<T>>> {
    match numbers {
        Some(numbers) if numbers.len() != count => {
            Err(format!("expected {count} {what}, found {}", numbers.len()).into())
        }
        numbers => Ok(numbers),
    }
}

/// Scales some dims of a shape.
fn scaled(shape: &[Dim], axes: &[usize], scales: Option<&[f64]>) -> Checked<Vec<Dim>> {
    let mut result = shape.to_vec();
    for (at, axis) in axes.iter().enumerate() {
        let size = at_mut(&mut result, *axis)?;
        *size = match (scales.and_then(|scales| scales.get(at)), &*size) {
            (Some(scale), _) if *scale <= 0.0 => {
                return Err(format!("expected scales above 0, found {scale}").into());
            }
            (Some(scale), dim) if *scale == 1.0 => dim.clone(),
            (Some(scale), Dim::Known(size)) => floor(scaled_size(*size, *scale)),
            _ => Dim::Unknown,
        };
    }
    Ok(result)
}

/// Returns the size of a dim by its scale, in single precision as ONNX Runtime and the frameworks compute it. ONNX's inference uses double
/// precision, in which 30 times 0.7 is less than 21.
#[expect(clippy::cast_precision_loss, reason = "as the runtimes")]
#[expect(clippy::cast_possible_truncation, reason = "the scale was in single precision")]
pub fn scaled_size(dim: u64, scale: f64) -> f64 {
    (dim as f32 * scale as f32).floor().into()
}

fn floor(number: f64) -> Dim {
    let dim = whole(number.floor()).and_then(|dim| u64::try_from(dim).ok());
    dim.map_or(Dim::Unknown, Dim::Known)
}

/// The given size, or the size that keeps the aspect ratio.
fn sized(
    node: &Node<'_>,
    shape: &[Dim],
    axes: &[usize],
    index: usize,
    policy: Option<&[u8]>,
) -> Checked<Vec<Dim>> {
    let sizes = counted(list_of(node, index)?, axes.len(), "sizes")?;
    let mut result = shape.to_vec();
    let smallest = |policy: &[u8]| policy == b"not_larger";
    let ratio = policy.map(|policy| proportion(node, shape, axes, index, smallest(policy)));
    for (at, axis) in axes.iter().enumerate() {
        let dim = at_mut(&mut result, *axis)?;
        let size = sizes.as_ref().and_then(|sizes| sizes.get(at));
        *dim = match (&ratio, size, &*dim) {
            (None, Some(size), _) => size.dim().ok_or("expected sizes of at least 0")?,
            (Some(Some(ratio)), _, Dim::Known(n)) => {
                let n = i64::try_from(*n).map_or(f64::INFINITY, approximate);
                // Halves are rounded up.
                floor(n * ratio + 0.5)
            }
            _ => Dim::Unknown,
        };
    }
    Ok(result)
}

/// Returns the smallest or the largest ratio of sizes to dims.
fn proportion(
    node: &Node<'_>,
    shape: &[Dim],
    axes: &[usize],
    index: usize,
    smallest: bool,
) -> Option<f64> {
    let sizes = node.ints(index)?;
    let mut found: Option<f64> = None;
    for (axis, size) in axes.iter().zip(&sizes) {
        let Some(Dim::Known(dim)) = shape.get(*axis) else { return None };
        let ratio = approximate(*size) / approximate(i64::try_from(*dim).ok()?);
        found = Some(match found {
            None => ratio,
            Some(found) if smallest => found.min(ratio),
            Some(found) => found.max(ratio),
        });
    }
    found
}

/// Scales are attributes before version 9.
fn upsample(node: &mut Node<'_>) -> Outcome {
    let dtype = node.dtype(0);
    let Some(shape) = node.shape(0) else {
        node.tensor(0, dtype, None);
        return Ok(());
    };
    let axes: Vec<_> = (0..shape.len()).collect();
    let sides = (node.float_attribute("height_scale"), node.float_attribute("width_scale"));
    let scales = match (node.attribute("scales"), sides) {
        (Some(AttributeValue::Floats(scales)), _) => {
            Some(scales.iter().copied().map(f64::from).collect())
        }
        (_, (Some(height), Some(width))) => {
            Some(vec![1.0, 1.0, f64::from(height), f64::from(width)])
        }
        _ => node.floats(1),
    };
    let scales = counted(scales, shape.len(), "scales")?;
    let shape = scaled(shape, &axes, scales.as_deref())?;
    node.tensor(0, dtype, Some(shape));
    Ok(())
}

/// Some dims take the given sizes.
fn crop(node: &mut Node<'_>) -> Outcome {
    let dtype = node.dtype(0);
    let shape = match node.shape(0) {
        Some(shape) => {
            let axes = match node.ints_attribute("axes") {
                Some(axes) => {
                    axes_of(axes, shape.len())?;
                    let places = axes.iter().map(|axis| axis_of(*axis, shape.len()));
                    places.collect::<Checked<Vec<_>>>()?
                }
                None => (0..shape.len()).collect(),
            };
            let sizes = super::generate::dims_from(node, 1)?;
            if let Some(sizes) = sizes.as_ref().filter(|sizes| sizes.len() != axes.len()) {
                return Err(format!("expected {} dims, found {}", axes.len(), show(sizes)).into());
            }
            let mut shape = shape.to_vec();
            for (at, axis) in axes.into_iter().enumerate() {
                let size = sizes.as_ref().and_then(|sizes| sizes.get(at)).cloned();
                *at_mut(&mut shape, axis)? = size.unwrap_or(Dim::Unknown);
            }
            Some(shape)
        }
        None => None,
    };
    node.tensor(0, dtype, shape);
    Ok(())
}

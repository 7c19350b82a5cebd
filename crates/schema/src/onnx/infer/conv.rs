//! Convolutions: [batch, channels, spatial..] with weights [filters, channels per group, kernel..].

use lodstone_model::{DType, Dim};

use super::Rule;
use super::dims::{Checked, mapped, merged, show};
use super::node::{Node, Outcome};
use super::pool::{Padding, Window, kernel_shape};
use crate::Finding;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("CausalConvWithState", causal),
    ("Conv", conv),
    ("ConvInteger", conv_integer),
    ("ConvTranspose", transposed),
    ("DeformConv", conv),
    ("QLinearConv", conv_quantized),
];

pub(super) fn conv(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype([0, 1])?;
    let shape = convolved(node, 0, 1)?;
    node.tensor(0, dtype, shape);
    Ok(())
}

fn conv_integer(node: &mut Node<'_>) -> Outcome {
    let shape = convolved(node, 0, 1)?;
    node.tensor(0, DType::Int32, shape);
    Ok(())
}

/// The element type is that of the output's zero point.
fn conv_quantized(node: &mut Node<'_>) -> Outcome {
    let shape = convolved(node, 0, 3)?;
    node.tensor(0, node.dtype(7), shape);
    Ok(())
}

/// Returns the kernel size: `kernel_shape`, or the dims of the weights.
fn kernel(node: &Node<'_>, weights: Option<&[Dim]>, count: usize) -> Checked<Vec<Dim>> {
    let output_shape = kernel_shape(node, count)?;
    let Some([_, _, kernel @ ..]) = weights else {
        return Ok(output_shape.unwrap_or_else(|| vec![Dim::Unknown; count]));
    };
    let Some(output_shape) = output_shape else { return Ok(kernel.to_vec()) };
    let both = output_shape.iter().zip(kernel).map(|(output_shape, dim)| merged(output_shape, dim));
    both.collect::<Option<_>>().ok_or_else(|| {
        let (expected, found) = (show(&output_shape), show(kernel));
        let wrong = format!("expected a kernel of {expected} by `kernel_shape`, found {found}");
        Finding::from(wrong).about_attribute("kernel_shape")
    })
}

/// Returns the shape of weights, which must have the rank of the input, if that is known.
pub(super) fn weights<'a>(
    node: &Node<'a>,
    index: usize,
    input: Option<&[Dim]>,
) -> Checked<Option<&'a [Dim]>> {
    input.map_or(Ok(node.shape(index)), |input| node.ranked(index, input.len()))
}

fn group(node: &Node<'_>) -> Checked<u64> {
    let group = node.int_or("group", 1);
    let known = u64::try_from(group).ok().filter(|group| *group > 0);
    known.ok_or_else(|| format!("expected a `group` of at least 1, found {group}").into())
}

/// Returns the shape of a convolution of an input by weights, which are another one.
pub(super) fn convolved(node: &Node<'_>, input: usize, weight: usize) -> Checked<Option<Vec<Dim>>> {
    let shape = node.at_least(input, 3)?;
    convolved_shape(node, shape, weights(node, weight, shape)?)
}

/// Returns the shape of a convolution of [batch, channels, spatial..] with weights of the same rank.
pub(super) fn convolved_shape(
    node: &Node<'_>,
    shape: Option<&[Dim]>,
    weights: Option<&[Dim]>,
) -> Checked<Option<Vec<Dim>>> {
    let Some(shape) = shape else {
        return Ok(match weights {
            Some([filters, _, kernel @ ..]) => {
                let spatial = kernel.iter().map(|_| Dim::Unknown);
                Some([Dim::Unknown, filters.clone()].into_iter().chain(spatial).collect())
            }
            _ => None,
        });
    };
    let [batch, channels, spatial @ ..] = shape else { return Ok(None) };
    let filters = weights.and_then(|dims| dims.first()).cloned().unwrap_or(Dim::Unknown);
    let (group, each) = (group(node)?, weights.and_then(|dims| dims.get(1)));
    if let (Dim::Known(found), Some(Dim::Known(each))) = (channels, each)
        && each.checked_mul(group) != Some(*found)
    {
        return Err(format!(
            "expected {each} channels for each of {group} groups, found {found} channels"
        )
        .into());
    }
    let window = Window::of(node, kernel(node, weights, spatial.len())?)?;
    let head = [batch.clone(), filters];
    Ok(Some(head.into_iter().chain(window.places(spatial)?).collect()))
}

/// The weights are [channels, filters per group, kernel..].
fn transposed(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype([0, 1])?;
    let shape = match node.at_least(0, 3)? {
        Some(shape) => Some(transposed_shape(node, shape)?),
        None => None,
    };
    node.tensor(0, dtype, shape);
    Ok(())
}

fn transposed_shape(node: &Node<'_>, shape: &[Dim]) -> Checked<Vec<Dim>> {
    let (head, spatial) = shape.split_at(2.min(shape.len()));
    let weights = weights(node, 1, Some(shape))?;
    if let (Some(channels), Some(found)) = (head.get(1), weights.and_then(|dims| dims.first()))
        && merged(channels, found).is_none()
    {
        return Err(format!("expected weights for {channels} channels, found {found}").into());
    }
    let groups = group(node)?;
    if let Some(Dim::Known(channels)) = head.get(1)
        && !channels.is_multiple_of(groups)
    {
        return Err(format!("expected a multiple of {groups} channels, found {channels}").into());
    }
    let group = i128::from(groups);
    let filters = match weights.and_then(|dims| dims.get(1)) {
        Some(each) if group == 1 => each.clone(),
        Some(each) => mapped(each, "filters", |each| each.checked_mul(group))?,
        None => Dim::Unknown,
    };
    let count = spatial.len();
    let window = Window::of(node, kernel(node, weights, count)?)?;
    if node.opset >= 11
        && node.has_attribute("pads")
        && !matches!(node.text("auto_pad"), None | Some(b"NOTSET" | b""))
    {
        let wrong = "expected no `pads` beside `auto_pad`";
        return Err(Finding::from(wrong).about_attribute("pads"));
    }
    let numbers = |name: &str| match node.ints_attribute(name) {
        Some(numbers) if numbers.len() != count => {
            Err(format!("expected {count} `{name}`, found {}", numbers.len()))
        }
        numbers => Ok(numbers),
    };
    let (output_shape, more) = (numbers("output_shape")?, numbers("output_padding")?);
    if let Some(found) = more.and_then(|more| more.iter().find(|padding| **padding < 0)) {
        let wrong = format!("expected `output_padding` of at least 0, found {found}");
        return Err(Finding::from(wrong).about_attribute("output_padding"));
    }
    let mut result = vec![head.first().cloned().unwrap_or(Dim::Unknown), filters];
    // Absent ones are 0.
    let more = more.map_or_else(|| vec![0; count], <[i64]>::to_vec);
    let steps = window.strides.iter().zip(&window.dilations).zip(more);
    for (at, ((dim, size), ((stride, dilation), more))) in
        spatial.iter().zip(&window.kernel).zip(steps).enumerate()
    {
        let stride = i128::from(*stride);
        if let Some(output_shape) = output_shape.and_then(|output_shape| output_shape.get(at)) {
            let n = u64::try_from(*output_shape);
            let n = n.map_err(|_| {
                format!("expected an `output_shape` of at least 0, found {output_shape}")
            })?;
            result.push(Dim::Known(n));
            continue;
        }
        let pads = match &window.padding {
            Padding::Same => {
                result.push(mapped(dim, "a dim", |n| n.checked_mul(stride))?);
                continue;
            }
            Padding::Given(begins, ends) => [begins, ends].map(|pads| pads.get(at).copied()),
        };
        let pads: i128 = pads.iter().flatten().map(|pad| i128::from(*pad)).sum();
        let (more, dilation) = (i128::from(more), i128::from(*dilation));
        let Dim::Known(size) = size else {
            result.push(Dim::Unknown);
            continue;
        };
        let reach = dilation * (i128::from(*size) - 1);
        result.push(mapped(dim, "a dim", |n| {
            Some((n - 1).checked_mul(stride)? + more + reach + 1 - pads)
        })?);
    }
    Ok(result)
}

/// Depthwise over [batch, channels, length]; the state holds the last positions.
fn causal(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype(0..4)?;
    let [mut batch, mut channels, mut length, mut size, mut kept] = [const { Dim::Unknown }; 5];
    node.unify(0, &mut [&mut batch, &mut channels, &mut length])?;
    node.unify(1, &mut [&mut channels, &mut Dim::Known(1), &mut size])?;
    node.unify(2, &mut [&mut channels])?;
    node.unify(3, &mut [&mut batch, &mut channels, &mut kept])?;
    let left = mapped(&size, "positions of the state", |size| Some(size - 1))?;
    let kept = merged(&left, &kept)
        .ok_or_else(|| format!("expected {left} positions of the state, found {kept}"))?;
    node.tensor(0, dtype, Some(vec![batch.clone(), channels.clone(), length]));
    node.tensor(1, dtype, Some(vec![batch, channels, kept]));
    Ok(())
}

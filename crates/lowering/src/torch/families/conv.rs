//! Convolutions.

use lodstone_schema::numbers::length;

use crate::onnx::windows::{Padding, Pads, Windows};
use crate::onnx::{Value, int, ints};
use crate::torch::arguments::wrong;
use crate::torch::node::{BEYOND, Node, Outcome, Rule, rank, required_dim};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::_convolution", Rule::One(general)),
    ("aten::_convolution_mode", Rule::One(plain)),
    ("aten::conv1d", Rule::One(plain)),
    ("aten::conv2d", Rule::One(plain)),
    ("aten::conv3d", Rule::One(plain)),
    ("aten::conv_depthwise3d", Rule::One(depthwise)),
    ("aten::conv_transpose1d", Rule::One(|node| convolved(node, "input", true, None))),
    ("aten::conv_transpose2d", Rule::One(|node| convolved(node, "input", true, None))),
    ("aten::conv_transpose3d", Rule::One(|node| convolved(node, "input", true, None))),
    ("aten::convolution", Rule::One(general)),
];

/// Returns the number of spatial dims of a weight.
fn spatial(weight: &Value) -> Outcome<usize> {
    let rank = weight.rank()?;
    match rank.count() {
        count @ 3..=5 => Ok(count - 2),
        _ => Err(format!("expected a weight of rank 3 to 5, found {rank}").into()),
    }
}

/// Returns the windows of a convolution.
fn windows_of(node: &Node<'_>, weight: &Value) -> Outcome<Windows> {
    let count = spatial(weight)?;
    let each = |name: &str, default: i64, least: i64| {
        let values = node.arguments.each(name, count, Some(default))?;
        match values.iter().all(|value| (least..=BEYOND).contains(value)) {
            true => Ok(values),
            false => Err(wrong(name, &format!("numbers from {least} on"), &format!("{values:?}"))),
        }
    };
    let kernel = (2..).take(count).map(|axis| required_dim(weight, axis));
    let kernel = kernel.collect::<Outcome<Vec<_>>>()?;
    let (stride, dilation) = (each("stride", 1, 1)?, each("dilation", 1, 1)?);
    let is_word = node.arguments.overload() == "padding" || node.name() == "_convolution_mode";
    let padding = match is_word {
        false => Padding::Explicit(Pads::both(&each("padding", 0, 0)?)),
        true => match node.arguments.text("padding")?.as_deref() {
            None | Some("valid") => Padding::Explicit(Pads::none(count)),
            Some("same") => Padding::Same,
            Some(other) => return Err(wrong("padding", "`valid` or `same`", other)),
        },
    };
    match padding {
        Padding::Explicit(pads) => Windows::new(&kernel, &stride, &dilation, &pads),
        // PyTorch permits no other stride than 1 then, so that the dims do not matter.
        Padding::Same => Windows::new(&kernel, &stride, &dilation, &Pads::none(count))?.same(None),
    }
}

fn groups_of(node: &mut Node<'_>) -> Outcome<i64> {
    // Operators without the argument have one group.
    let groups = node.arguments.optional_int("groups")?.unwrap_or(1);
    match groups {
        1..=BEYOND => Ok(groups),
        _ => Err(wrong("groups", "numbers from 1 on", &groups.to_string())),
    }
}

/// Convolves, with or without a batch. The weight of a transposed convolution is `[in, out / groups, ..]`.
fn convolved(node: &mut Node<'_>, slot: &str, is_transposed: bool, groups: Option<i64>) -> Outcome {
    let (x, weight) = (node.tensor(slot)?, node.tensor("weight")?);
    let bias = node.optional("bias")?;
    let windows = windows_of(node, &weight)?;
    let groups = match groups {
        Some(groups) => groups,
        None => groups_of(node)?,
    };
    let mut attributes = vec![
        ints("strides", &windows.strides()),
        windows.pads().attribute(),
        ints("dilations", &windows.dilations()),
        ints("kernel_shape", &windows.kernel()),
    ];
    if is_transposed {
        let more = node.arguments.each("output_padding", windows.rank(), Some(0))?;
        if more.iter().any(|more| !(0..=BEYOND).contains(more)) {
            return Err(wrong("output_padding", "numbers from 0 on", &format!("{more:?}")));
        }
        attributes.push(ints("output_padding", &more));
    }
    attributes.push(int("group", groups));
    let kind = if is_transposed { "ConvTranspose" } else { "Conv" };
    let [y] = batched(node, &x, windows.rank(), |node, x| {
        node.convolve(kind, [x, &weight], bias.as_ref(), attributes).map(|y| [y])
    })?;
    Ok(y)
}

fn plain(node: &mut Node<'_>) -> Outcome {
    let slot = if node.arguments.has("input") { "input" } else { "self" };
    convolved(node, slot, false, None)
}

/// Each channel is a group.
fn depthwise(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let channels = match rank(&x)? {
        4 => required_dim(&x, 0)?,
        5 => required_dim(&x, 1)?,
        found => return Err(format!("expected images of 4 or 5 dims, found {found}").into()),
    };
    convolved(node, "self", false, Some(channels))
}

fn general(node: &mut Node<'_>) -> Outcome {
    let is_transposed = node.arguments.flag("transposed")?;
    if !is_transposed {
        node.arguments.ignore(&["output_padding"]);
    }
    convolved(node, "input", is_transposed, None)
}

/// Applies a function to images `[batch, channels, ..]`; one without a batch gets one for it.
pub(super) fn batched<const N: usize>(
    node: &mut Node<'_>,
    x: &Value,
    spatial: usize,
    act: impl FnOnce(&mut Node<'_>, &Value) -> Outcome<[Value; N]>,
) -> Outcome<[Value; N]> {
    let wanted = length(spatial) + 2;
    match rank(x)? {
        found if found == wanted => act(node, x),
        found if found == wanted - 1 => {
            let one = node.unsqueeze(x, &[0])?;
            let mut results = act(node, &one)?;
            let axes = node.longs(&[0]);
            for result in &mut results {
                *result = node.call("Squeeze", &[&*result, &axes], [])?;
            }
            Ok(results)
        }
        found => Err(format!("expected data of rank {wanted}, found {found}").into()),
    }
}

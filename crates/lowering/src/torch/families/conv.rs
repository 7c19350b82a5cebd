//! Convolutions.

use lodstone_schema::numbers::length;

use crate::onnx::{Value, int, ints};
use crate::torch::arguments::wrong;
use crate::torch::node::{BEYOND, Node, Outcome, Rule, rank, required_dim};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::_convolution", Rule::One(general)),
    ("aten::_convolution_mode", Rule::One(plain)),
    ("aten::conv1d", Rule::One(plain)),
    ("aten::conv2d", Rule::One(plain)),
    ("aten::conv3d", Rule::One(plain)),
    ("aten::conv_depthwise3d", Rule::One(plain)),
    ("aten::conv_transpose1d", Rule::One(transposed)),
    ("aten::conv_transpose2d", Rule::One(transposed)),
    ("aten::conv_transpose3d", Rule::One(transposed)),
    ("aten::convolution", Rule::One(general)),
];

/// The arguments of a convolution, one for each spatial dim.
pub(super) struct Window {
    pub(super) stride: Vec<i64>,
    pub(super) begins: Vec<i64>,
    pub(super) ends: Vec<i64>,
    pub(super) dilation: Vec<i64>,
    pub(super) groups: i64,
}

/// Returns the number of spatial dims of a weight.
fn spatial(weight: &Value) -> Outcome<usize> {
    let count = rank(weight)? - 2;
    match usize::try_from(count) {
        Ok(count @ 1..=3) => Ok(count),
        _ => Err(format!("expected a weight of rank 3 to 5, found {}", rank(weight)?).into()),
    }
}

fn check(name: &str, values: &[i64], least: i64) -> Outcome<()> {
    match values.iter().all(|value| (least..=BEYOND).contains(value)) {
        true => Ok(()),
        false => Err(wrong(name, &format!("numbers from {least} on"), &format!("{values:?}"))),
    }
}

impl Window {
    pub(super) fn check(&self) -> Outcome<()> {
        check("stride", &self.stride, 1)?;
        check("dilation", &self.dilation, 1)?;
        check("padding", &self.begins, 0)?;
        check("padding", &self.ends, 0)?;
        check("groups", &[self.groups], 1)
    }
}

/// Convolves, with or without a batch.
pub(super) fn convolved(
    node: &mut Node<'_>,
    x: &Value,
    weight: &Value,
    bias: Option<&Value>,
    window: &Window,
) -> Outcome {
    window.check()?;
    let count = spatial(weight)?;
    batched(node, x, count, |node, x| {
        let kernel = (2..).take(count).map(|axis| required_dim(weight, axis));
        let kernel = kernel.collect::<Outcome<Vec<_>>>()?;
        let attributes = [
            ints("strides", &window.stride),
            ints("pads", &[&window.begins[..], &window.ends[..]].concat()),
            ints("dilations", &window.dilation),
            ints("kernel_shape", &kernel),
            int("group", window.groups),
        ];
        let operands: Vec<Option<&Value>> = [Some(x), Some(weight), bias].to_vec();
        let operands =
            if bias.is_some() { &operands[..] } else { operands.get(..2).unwrap_or(&[]) };
        let [y] = node.emit_all("Conv", operands, attributes)?;
        Ok(y)
    })
}

/// Applies a function to images `[batch, channels, ..]`; one without a batch gets one for it.
pub(super) fn batched(
    node: &mut Node<'_>,
    x: &Value,
    spatial: usize,
    act: impl FnOnce(&mut Node<'_>, &Value) -> Outcome,
) -> Outcome {
    let wanted = length(spatial) + 2;
    match rank(x)? {
        found if found == wanted => act(node, x),
        found if found == wanted - 1 => {
            let one = node.unsqueeze(x, &[0])?;
            let y = act(node, &one)?;
            let axes = node.longs(&[0]);
            node.call("Squeeze", &[&y, &axes], [])
        }
        found => Err(format!("expected data of rank {wanted}, found {found}").into()),
    }
}

/// Returns the padding of `same`: the kernel's extent less 1 in all, the larger half at the end.
fn same(kernel: &[i64], dilation: &[i64]) -> (Vec<i64>, Vec<i64>) {
    let totals = kernel.iter().zip(dilation).map(|(size, step)| (size - 1).saturating_mul(*step));
    totals.map(|total| (total / 2, total - total / 2)).unzip()
}

fn groups_of(node: &Node<'_>) -> Outcome<i64> {
    // Operators without the argument have one group.
    Ok(node.arguments.optional_int("groups")?.unwrap_or(1))
}

fn plain(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor(if node.arguments.has("input") { "input" } else { "self" })?;
    let weight = node.tensor("weight")?;
    let bias = node.optional("bias")?;
    let count = spatial(&weight)?;
    let stride = node.arguments.each("stride", count, Some(1))?;
    let dilation = node.arguments.each("dilation", count, Some(1))?;
    let groups = groups_of(node)?;
    let is_word = node.arguments.overload() == "padding" || node.name() == "_convolution_mode";
    let (begins, ends) = match is_word {
        false => {
            let pads = node.arguments.each("padding", count, Some(0))?;
            (pads.clone(), pads)
        }
        true => match node.arguments.text("padding")?.as_deref() {
            None | Some("valid") => (vec![0; count], vec![0; count]),
            Some("same") => {
                let kernel = (2..).take(count).map(|axis| required_dim(&weight, axis));
                same(&kernel.collect::<Outcome<Vec<_>>>()?, &dilation)
            }
            Some(other) => return Err(wrong("padding", "`valid` or `same`", other)),
        },
    };
    let window = Window { stride, begins, ends, dilation, groups };
    convolved(node, &x, &weight, bias.as_ref(), &window)
}

/// The transposed convolution: `weight` is `[in, out / groups, ..]`.
pub(super) fn transposed_of(
    node: &mut Node<'_>,
    x: &Value,
    weight: &Value,
    bias: Option<&Value>,
    (window, output_padding): (&Window, &[i64]),
) -> Outcome {
    window.check()?;
    check("output_padding", output_padding, 0)?;
    let count = spatial(weight)?;
    batched(node, x, count, |node, x| {
        let kernel = (2..).take(count).map(|axis| required_dim(weight, axis));
        let attributes = [
            ints("strides", &window.stride),
            ints("pads", &[&window.begins[..], &window.ends[..]].concat()),
            ints("dilations", &window.dilation),
            ints("kernel_shape", &kernel.collect::<Outcome<Vec<_>>>()?),
            ints("output_padding", output_padding),
            int("group", window.groups),
        ];
        let operands: Vec<Option<&Value>> = [Some(x), Some(weight), bias].to_vec();
        let operands =
            if bias.is_some() { &operands[..] } else { operands.get(..2).unwrap_or(&[]) };
        let [y] = node.emit_all("ConvTranspose", operands, attributes)?;
        Ok(y)
    })
}

fn window_of(node: &Node<'_>, count: usize) -> Outcome<(Window, Vec<i64>)> {
    let pads = node.arguments.each("padding", count, Some(0))?;
    let window = Window {
        stride: node.arguments.each("stride", count, Some(1))?,
        begins: pads.clone(),
        ends: pads,
        dilation: node.arguments.each("dilation", count, Some(1))?,
        groups: groups_of(node)?,
    };
    Ok((window, node.arguments.each("output_padding", count, Some(0))?))
}

fn transposed(node: &mut Node<'_>) -> Outcome {
    let (x, weight) = (node.tensor("input")?, node.tensor("weight")?);
    let bias = node.optional("bias")?;
    let (window, output_padding) = window_of(node, spatial(&weight)?)?;
    transposed_of(node, &x, &weight, bias.as_ref(), (&window, &output_padding))
}

fn general(node: &mut Node<'_>) -> Outcome {
    let (x, weight) = (node.tensor("input")?, node.tensor("weight")?);
    let bias = node.optional("bias")?;
    let (window, output_padding) = window_of(node, spatial(&weight)?)?;
    match node.arguments.flag("transposed")? {
        true => transposed_of(node, &x, &weight, bias.as_ref(), (&window, &output_padding)),
        false => convolved(node, &x, &weight, bias.as_ref(), &window),
    }
}

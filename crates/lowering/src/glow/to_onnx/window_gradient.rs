//! Gradients of operators with sliding windows: convolutions and pools.

use lodstone_model::DType;

use super::conv::pads;
use super::node::{Node, Outcome, Rule, no_equivalent};
use crate::onnx::layout::Layout;
use crate::onnx::{Value, int, ints};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("AdaptiveAvgPoolGrad", adaptive),
    ("AvgPoolGrad", average),
    ("Convolution3DGrad", convolution),
    ("ConvolutionGrad", convolution),
    ("MaxPoolGrad", greatest),
];

/// The window of a node.
struct Window {
    kernels: Vec<i64>,
    strides: Vec<i64>,
    pads: Vec<i64>,
    dilations: Vec<i64>,
}

fn window(n: &Node<'_>) -> Outcome<Window> {
    let kernels = n.ints("Kernels")?.to_vec();
    let dilations = match n.op.attribute("Dilation") {
        Some(_) => n.ints("Dilation")?.to_vec(),
        None => vec![1; kernels.len()],
    };
    let (strides, pads) = (n.ints("Strides")?.to_vec(), pads(n)?);
    let dims = kernels.len();
    if [strides.len(), dilations.len()] != [dims; 2] || pads.len() != 2 * dims {
        return Err("kernels, strides, pads and dilations have different numbers of dims"
            .to_owned()
            .into());
    }
    Ok(Window { kernels, strides, pads, dilations })
}

impl Window {
    /// Returns the number of input elements that no window covers, along each dim.
    fn rest(&self, input: &[i64], output: &[i64]) -> Option<Vec<i64>> {
        let (before, behind) = self.pads.split_at_checked(self.kernels.len())?;
        let windows = self.kernels.iter().zip(&self.strides).zip(&self.dilations);
        let dims = input.iter().zip(output).zip(before.iter().zip(behind));
        let rest = windows.zip(dims).map(|(((kernel, stride), dilation), dim)| {
            let ((input, output), (before, behind)) = dim;
            let span = kernel.checked_sub(1)?.checked_mul(*dilation)?.checked_add(1)?;
            let reach = output.checked_sub(1)?.checked_mul(*stride)?.checked_add(span)?;
            input.checked_add(*before)?.checked_add(*behind)?.checked_sub(reach)
        });
        rest.collect()
    }
}

fn convolution(n: &mut Node<'_>) -> Outcome {
    if super::conv::layout(n)? == Layout::First {
        return no_equivalent("Glow only has gradients for channels that are last");
    }
    let window = window(n)?;
    let group = n.int("Group")?;
    let grad = n.real(4)?;
    let grad = n.channels_to_front(&grad)?;
    let (input, filter) = (n.real(0)?, n.real(1)?);
    let (input, filter) = (n.channels_to_front(&input)?, n.channels_to_front(&filter)?);
    let (input_dims, grad_dims) = (input.dims()?, grad.dims()?);
    let spatial = input_dims.get(2..).zip(grad_dims.get(2..));
    let rest = spatial.and_then(|(input, output)| window.rest(input, output));
    let Some(rest) = rest.filter(|rest| rest.iter().all(|rest| *rest >= 0)) else {
        return Err("the windows do not fit the image".into());
    };
    if n.is_read(0) {
        let attributes = [
            ints("kernel_shape", &window.kernels),
            ints("strides", &window.strides),
            ints("pads", &window.pads),
            ints("dilations", &window.dilations),
            ints("output_padding", &rest),
            int("group", group),
        ];
        let of_input = n.call("ConvTranspose", &[&grad, &filter], attributes)?;
        let of_input = n.channels_to_back(&of_input)?;
        n.put(0, &of_input)?;
    }
    if n.is_read(1) {
        if group != 1 {
            return no_equivalent("the gradient of a grouped filter is not supported");
        }
        // With channels and batch swapped, images are convolved with gradients, whose dilations are the strides.
        let order: Vec<i64> = [1, 0].into_iter().chain((2..).take(window.kernels.len())).collect();
        let (images, gradients) = (n.transpose(&input, &order)?, n.transpose(&grad, &order)?);
        // Elements that no window covers are dropped at the end.
        let spatial = window.kernels.len();
        let (before, behind) = window.pads.split_at(spatial);
        let behind = behind.iter().zip(&rest).map(|(pad, rest)| pad - rest);
        let pads: Vec<i64> = before.iter().copied().chain(behind).collect();
        let (images, pads) = cut(n, &images, pads, spatial)?;
        let attributes = [
            ints("strides", &window.dilations),
            ints("pads", &pads),
            ints("dilations", &window.strides),
        ];
        let of_filter = n.call("Conv", &[&images, &gradients], attributes)?;
        let of_filter = n.transpose(&of_filter, &order)?;
        let of_filter = n.channels_to_back(&of_filter)?;
        n.put(1, &of_filter)?;
    }
    if n.is_read(2) {
        let axes: Vec<i64> = [0].into_iter().chain((2..).take(window.kernels.len())).collect();
        let of_bias = n.reduce("ReduceSum", &grad, &axes, false)?;
        n.put(2, &of_bias)?;
    }
    Ok(())
}

/// Negative pads crop the image instead.
fn cut(
    n: &mut Node<'_>,
    images: &Value,
    pads: Vec<i64>,
    dims: usize,
) -> Outcome<(Value, Vec<i64>)> {
    let mut images = images.clone();
    for (axis, pad) in (2i64..).zip(pads.iter().skip(dims)) {
        if *pad < 0 {
            images = n.slice(&images, axis, 0, *pad)?;
        }
    }
    Ok((images, pads.iter().map(|pad| (*pad).max(0)).collect()))
}

/// The gradient of each mean is distributed to all elements of its window.
fn average(n: &mut Node<'_>) -> Outcome {
    if n.int("Layout")? != 0 {
        return no_equivalent("Glow only has gradients for channels that are last");
    }
    let window = window(n)?;
    let [_, height, width, channels] = n.ranked::<4>(0)?;
    let grad = n.real_as(2, DType::Float32)?;
    let grad = n.channels_to_front(&grad)?;
    let kernels = &window.kernels;
    let [rows, columns] = kernels[..] else {
        return Err("expected 2 kernel dims".into());
    };
    let area = if n.flag("CountIncludePads")? {
        let area = n.filled(DType::Float32, 1.0, &[1, 1, rows, columns])?;
        n.reduce("ReduceSum", &area, &[0, 1, 2, 3], true)?
    } else {
        // The number of elements in each window.
        let image = n.filled(DType::Float32, 1.0, &[1, 1, height, width])?;
        let kernel = n.filled(DType::Float32, 1.0, &[1, 1, rows, columns])?;
        let attributes = [ints("strides", &window.strides), ints("pads", &window.pads)];
        n.call("Conv", &[&image, &kernel], attributes)?
    };
    let share = n.div(&grad, &area)?;
    let dims = grad.dims()?;
    let rest = dims.get(2..).and_then(|output| window.rest(&[height, width], output));
    let rest = rest.ok_or("the windows do not fit the image")?;
    let kernel = n.filled(DType::Float32, 1.0, &[channels, 1, rows, columns])?;
    let attributes = [
        ints("kernel_shape", kernels),
        ints("strides", &window.strides),
        ints("pads", &window.pads),
        ints("output_padding", &rest),
        int("group", channels),
    ];
    let value = n.call("ConvTranspose", &[&share, &kernel], attributes)?;
    let value = n.channels_to_back(&value)?;
    n.put(0, &value)
}

/// The gradient of each maximum goes to its position.
fn greatest(n: &mut Node<'_>) -> Outcome {
    let (grad, places) = (n.real(2)?, n.raw(3)?);
    let dims = n.out(0)?.shape;
    let count = dims.iter().try_fold(1i64, |count, dim| count.checked_mul(*dim));
    let count = count.ok_or("the image is too large")?;
    let zeros = n.filled(grad.dtype(), 0.0, &[count])?;
    let (grad, places) = (n.reshape(&grad, &[-1])?, n.reshape(&places, &[-1])?);
    let value = n.put_elements(&zeros, &places, &grad, 0, "add")?;
    let value = n.reshape(&value, &dims)?;
    n.put(0, &value)
}

fn adaptive(n: &mut Node<'_>) -> Outcome {
    let [_, height, width, _] = n.ranked::<4>(0)?;
    let [_, rows, columns, _] = n.ranked::<4>(2)?;
    let grad = n.real_as(2, DType::Float32)?;
    let grad = n.channels_to_front(&grad)?;
    let (rows, columns) = (weights(n, rows, height)?, weights(n, columns, width)?);
    let rows = n.transpose(&rows, &[1, 0])?;
    let value = n.call("MatMul", &[&rows, &grad], [])?;
    let value = n.call("MatMul", &[&value, &columns], [])?;
    let value = n.channels_to_back(&value)?;
    n.put(0, &value)
}

/// Returns the weight of each of `many` elements in each of `parts` means: computed at run time, because it may be
/// large.
fn weights(n: &mut Node<'_>, parts: i64, many: i64) -> Outcome<Value> {
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

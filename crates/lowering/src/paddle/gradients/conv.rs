//! Gradients of convolutions, which are convolutions.
//!
//! | of                     | with respect to the input                     | with respect to the filter                     |
//! |------------------------|-----------------------------------------------|------------------------------------------------|
//! | a convolution          | output gradient, transposed convolution       | input, convolved with the output gradient      |
//! | transposed convolution | output gradient, convolved                    | output gradient, convolved with the input      |

use super::super::conv::{Pads, fitted, same_pads};
use super::super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int, ints};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("conv2d_grad", conv),
    ("conv2d_transpose_grad", conv_transpose),
    ("conv3d_grad", conv),
    ("depthwise_conv2d_grad", conv),
    ("depthwise_conv2d_transpose_grad", conv_transpose),
];

/// The sliding windows of a filter.
struct Windows {
    /// The dims of the filter.
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// The padding at the beginning of each dim, then at the end of each.
    pads: Vec<i64>,
    groups: i64,
}

impl Windows {
    /// Returns the windows over a tensor. With `SAME` padding, there is no dilation.
    fn of(op: &Operator<'_>, x: &Value, filter: &Value) -> Outcome<Self> {
        let (dims, kernel) = (images(x)?, images(filter)?);
        let spatial = kernel.len();
        if dims.len() != spatial {
            return Err(format!("expected {spatial} spatial dims, found {}", dims.len()).into());
        }
        let strides = op.each("strides", spatial)?;
        let (pads, dilations) = match op.pads(spatial)? {
            Pads::Explicit(pads) => (pads, op.each("dilations", spatial)?),
            Pads::Same => (same_pads(&dims, &kernel, &strides)?, vec![1; spatial]),
        };
        let too_large = [&kernel, &strides, &dilations, &pads]
            .into_iter()
            .flatten()
            .any(|size| size.unsigned_abs() > u64::from(u32::MAX >> 1));
        if too_large {
            return Err(format!("windows of {kernel:?} are too large").into());
        }
        Ok(Self { kernel, strides, dilations, pads, groups: op.int("groups")?.max(1) })
    }

    /// Convolves a tensor with a filter.
    fn convolved(&self, op: &mut Operator<'_>, x: &Value, filter: &Value) -> Outcome<Value> {
        let attributes = [
            ints("pads", &self.pads),
            ints("strides", &self.strides),
            ints("dilations", &self.dilations),
            int("group", self.groups),
        ];
        op.call("Conv", &[x, filter], attributes)
    }

    /// Returns the gradient with respect to the input.
    fn by_input(
        &self,
        op: &mut Operator<'_>,
        given: &Value,
        filter: &Value,
        dims: &[i64],
    ) -> Outcome<Value> {
        let attributes = [
            ints("strides", &self.strides),
            ints("dilations", &self.dilations),
            int("group", self.groups),
        ];
        let whole = op.call("ConvTranspose", &[given, filter], attributes)?;
        // Without padding, and with elements that no window covers.
        let begins = self.pads.iter().map(|pad| -pad);
        let begins: Vec<i64> = begins.take(self.kernel.len()).collect();
        let ends = dims.iter().zip(images(&whole)?).zip(&begins);
        let ends: Vec<i64> = ends.map(|((dim, whole), begin)| dim - whole - begin).collect();
        let pads = op.longs(&[&[0, 0], begins.as_slice(), &[0, 0], &ends].concat());
        let zero = op.number(given.dtype(), 0.0)?;
        op.call("Pad", &[&whole, &pads, &zero], [])
    }

    /// Returns the gradient with respect to the filter, for output gradient `given` and input `x`.
    fn by_filter(&self, op: &mut Operator<'_>, x: &Value, given: &Value) -> Outcome<Value> {
        let dims = x.dims()?;
        let [examples, channels, inner @ ..] = dims.as_slice() else {
            return Err("expected batch and channels".into());
        };
        if self.groups > *channels || channels % self.groups != 0 {
            return Err(format!(
                "expected a multiple of {} groups as channels, found {channels}",
                self.groups
            )
            .into());
        }
        let each = channels / self.groups;
        // [channels per group, groups * batch, spatial..]
        let split = op.reshape(x, &[&[*examples, self.groups, each], inner].concat())?;
        let order: Vec<i64> =
            [2, 1, 0].into_iter().chain(3..).take(split.rank()?.count()).collect();
        let turned = op.transpose(&split, &order)?;
        let flat = [&[each, self.groups.saturating_mul(*examples)], inner].concat();
        let turned = op.reshape(&turned, &flat)?;
        // [filters, batch, spatial..]
        let given = swapped(op, given)?;
        let attributes = [
            ints("pads", &self.pads),
            ints("strides", &self.dilations),
            ints("dilations", &self.strides),
            int("group", self.groups),
        ];
        let sums = op.call("Conv", &[&turned, &given], attributes)?;
        let axes: Vec<i64> = (2..).take(self.kernel.len()).collect();
        let sums = match images(&sums)? == self.kernel {
            true => sums,
            // The elements that the last window does not cover.
            false => op.slices(&sums, &axes, &vec![0; axes.len()], &self.kernel)?,
        };
        swapped(op, &sums)
    }
}

/// Returns the spatial dims.
fn images(value: &Value) -> Outcome<Vec<i64>> {
    let dims = value.dims()?;
    let inner = dims.get(2..).map(<[i64]>::to_vec);
    inner.ok_or_else(|| format!("expected batch and channels, found {dims:?}").into())
}

/// Swaps the first two dims.
fn swapped(op: &mut Operator<'_>, value: &Value) -> Outcome<Value> {
    let order: Vec<i64> = [1, 0].into_iter().chain(2..).take(value.rank()?.count()).collect();
    op.transpose(value, &order)
}

/// Returns the input and the output gradient, channels first.
fn both(op: &mut Operator<'_>, last: bool) -> Outcome<(Value, Value)> {
    let (x, given) = (op.input("Input")?, op.gradient("Output")?);
    match last {
        true => Ok((op.channels_to_front(&x)?, op.channels_to_front(&given)?)),
        false => Ok((x, given)),
    }
}

fn put_input(op: &mut Operator<'_>, value: &Value, last: bool) -> Outcome {
    let value = if last { op.channels_to_back(value)? } else { value.clone() };
    op.put_gradient("Input", &value)
}

fn conv(op: &mut Operator<'_>) -> Outcome {
    let (filter, last) = (op.input("Filter")?, op.channels_last("data_format")?);
    let (x, given) = both(op, last)?;
    let mut windows = Windows::of(op, &x, &filter)?;
    let sizes = [windows.strides.as_slice(), &windows.dilations];
    windows.pads = fitted(&windows.pads, &images(&x)?, &windows.kernel, sizes)?;
    if op.wants_gradient("Input") {
        let value = windows.by_input(op, &given, &filter, &images(&x)?)?;
        put_input(op, &value, last)?;
    }
    if op.wants_gradient("Filter") {
        let value = windows.by_filter(op, &x, &given)?;
        op.put_gradient("Filter", &value)?;
    }
    Ok(())
}

fn conv_transpose(op: &mut Operator<'_>) -> Outcome {
    let (filter, last) = (op.input("Filter")?, op.channels_last("data_format")?);
    let (x, given) = both(op, last)?;
    let windows = Windows::of(op, &x, &filter)?;
    if op.wants_gradient("Input") {
        let value = windows.convolved(op, &given, &filter)?;
        let dims = images(&x)?;
        let value = match images(&value)? == dims {
            true => value,
            false => {
                let axes: Vec<i64> = (2..).take(dims.len()).collect();
                op.slices(&value, &axes, &vec![0; axes.len()], &dims)?
            }
        };
        put_input(op, &value, last)?;
    }
    if op.wants_gradient("Filter") {
        let value = windows.by_filter(op, &given, &x)?;
        op.put_gradient("Filter", &value)?;
    }
    Ok(())
}

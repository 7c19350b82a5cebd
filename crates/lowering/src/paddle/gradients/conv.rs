//! Gradients of convolutions, which are convolutions.
//!
//! | of                     | with respect to the input                     | with respect to the filter                     |
//! |------------------------|-----------------------------------------------|------------------------------------------------|
//! | a convolution          | output gradient, transposed convolution       | input, convolved with the output gradient      |
//! | transposed convolution | output gradient, convolved                    | output gradient, convolved with the input      |

use super::super::operator::{Operator, Outcome, Rule};
use crate::onnx::layout::Layout;
use crate::onnx::windows::{Padding, Pads, Windows};
use crate::onnx::{Value, int, ints};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("conv2d_grad", conv),
    ("conv2d_transpose_grad", conv_transpose),
    ("conv3d_grad", conv),
    ("depthwise_conv2d_grad", conv),
    ("depthwise_conv2d_transpose_grad", conv_transpose),
];

/// The sliding windows of a filter.
struct Filters {
    windows: Windows,
    groups: i64,
}

impl Filters {
    /// Returns the windows over a tensor. With `SAME` padding, there is no dilation.
    fn of(op: &Operator<'_>, x: &Value, filter: &Value) -> Outcome<Self> {
        let (dims, kernel) = (images(x)?, images(filter)?);
        let spatial = kernel.len();
        let (strides, padding) = (op.each("strides", spatial)?, op.padding(spatial)?);
        let dilations = match padding {
            Padding::Explicit(_) => op.each("dilations", spatial)?,
            Padding::Same => vec![1; spatial],
        };
        let windows = Windows::padded(&kernel, &strides, &dilations, &padding, Some(&dims))?;
        Ok(Self { windows, groups: op.int("groups")?.max(1) })
    }

    /// Convolves a tensor with a filter.
    fn convolved(&self, op: &mut Operator<'_>, x: &Value, filter: &Value) -> Outcome<Value> {
        let attributes = [
            self.windows.pads().attribute(),
            ints("strides", &self.windows.strides()),
            ints("dilations", &self.windows.dilations()),
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
            ints("strides", &self.windows.strides()),
            ints("dilations", &self.windows.dilations()),
            int("group", self.groups),
        ];
        let whole = op.call("ConvTranspose", &[given, filter], attributes)?;
        // Without padding, and with elements that no window covers.
        let Pads { begins, .. } = self.windows.pads().undone();
        let ends = dims.iter().zip(images(&whole)?).zip(&begins);
        let ends: Vec<i64> = ends.map(|((dim, whole), begin)| dim - whole - begin).collect();
        let pads = Pads { begins, ends };
        let (more, less) = pads.parts();
        let crops = less.begins.iter().zip(images(&whole)?).any(|(begin, whole)| begin + whole < 0);
        match crops {
            // Windows that lie in the padding: ONNX does not crop what it adds.
            true => {
                let wide = op.pad_images(&whole, &more, 0.0)?;
                op.pad_images(&wide, &less, 0.0)
            }
            false => op.pad_images(&whole, &pads, 0.0),
        }
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
            self.windows.pads().attribute(),
            ints("strides", &self.windows.dilations()),
            ints("dilations", &self.windows.strides()),
            int("group", self.groups),
        ];
        let sums = op.call("Conv", &[&turned, &given], attributes)?;
        // Without the elements that the last window does not cover.
        let sums = cropped(op, sums, &self.windows.kernel())?;
        swapped(op, &sums)
    }
}

/// Returns the spatial dims.
fn images(value: &Value) -> Outcome<Vec<i64>> {
    let dims = value.dims()?;
    let inner = dims.get(2..).map(<[i64]>::to_vec);
    inner.ok_or_else(|| format!("expected batch and channels, found {dims:?}").into())
}

/// Returns the first elements of images, as many as the dims say.
fn cropped(op: &mut Operator<'_>, value: Value, dims: &[i64]) -> Outcome<Value> {
    if images(&value)? == dims {
        return Ok(value);
    }
    let axes: Vec<i64> = (2..).take(dims.len()).collect();
    op.slices(&value, &axes, &vec![0; axes.len()], dims)
}

/// Swaps the first two dims.
fn swapped(op: &mut Operator<'_>, value: &Value) -> Outcome<Value> {
    let order: Vec<i64> = [1, 0].into_iter().chain(2..).take(value.rank()?.count()).collect();
    op.transpose(value, &order)
}

/// Returns the input and the output gradient, channels first.
fn both(op: &mut Operator<'_>, layout: Layout) -> Outcome<(Value, Value)> {
    let (x, given) = (op.input("Input")?, op.gradient("Output")?);
    Ok((op.channels_first(&x, layout)?, op.channels_first(&given, layout)?))
}

fn put_input(op: &mut Operator<'_>, value: &Value, layout: Layout) -> Outcome {
    let value = op.in_layout(value, layout)?;
    op.put_gradient("Input", &value)
}

fn conv(op: &mut Operator<'_>) -> Outcome {
    let (filter, layout) = (op.input("Filter")?, op.layout("data_format")?);
    let (x, given) = both(op, layout)?;
    let mut filters = Filters::of(op, &x, &filter)?;
    filters.windows = filters.windows.extended(&images(&x)?)?;
    if op.wants_gradient("Input") {
        let value = filters.by_input(op, &given, &filter, &images(&x)?)?;
        put_input(op, &value, layout)?;
    }
    if op.wants_gradient("Filter") {
        let value = filters.by_filter(op, &x, &given)?;
        op.put_gradient("Filter", &value)?;
    }
    Ok(())
}

fn conv_transpose(op: &mut Operator<'_>) -> Outcome {
    let (filter, layout) = (op.input("Filter")?, op.layout("data_format")?);
    let (x, given) = both(op, layout)?;
    let filters = Filters::of(op, &x, &filter)?;
    if op.wants_gradient("Input") {
        let value = filters.convolved(op, &given, &filter)?;
        let value = cropped(op, value, &images(&x)?)?;
        put_input(op, &value, layout)?;
    }
    if op.wants_gradient("Filter") {
        let value = filters.by_filter(op, &given, &x)?;
        op.put_gradient("Filter", &value)?;
    }
    Ok(())
}

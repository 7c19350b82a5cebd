//! Convolutions.

use lodstone_schema::numbers::known_dims;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int, ints, text};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("conv2d", conv),
    ("conv2d_transpose", conv_transpose),
    ("conv3d", conv),
    ("depthwise_conv2d", conv),
    ("depthwise_conv2d_transpose", conv_transpose),
];

impl Operator<'_> {
    /// Whether an attribute declares that channels are last (`NHWC`).
    pub(super) fn channels_last(&self, attribute: &str) -> Outcome<bool> {
        match self.text(attribute)?.as_str() {
            "NCHW" | "NCDHW" | "NCL" | "NCW" | "AnyLayout" | "ANYLAYOUT" => Ok(false),
            "NHWC" | "NDHWC" | "NLC" | "NWC" => Ok(true),
            other => Err(format!("unknown layout `{other}` as `{attribute}`").into()),
        }
    }

    /// Moves the channels to the front, after the batch.
    pub(super) fn channels_to_front(&mut self, x: &Value) -> Outcome<Value> {
        let order: Vec<i64> = x.rank()?.numbers().collect();
        let (last, rest) = order.split_last().ok_or("expected at least rank 2, found 0")?;
        let (first, middle) = rest.split_first().ok_or("expected at least rank 2, found 1")?;
        let order: Vec<i64> = [&[*first, *last], middle].concat();
        self.transpose(x, &order)
    }

    /// Moves the channels back to the end.
    pub(super) fn channels_to_back(&mut self, x: &Value) -> Outcome<Value> {
        let order: Vec<i64> = x.rank()?.numbers().collect();
        let [first, second, middle @ ..] = order.as_slice() else {
            return Err("expected at least rank 2".into());
        };
        let order: Vec<i64> = [&[*first], middle, &[*second]].concat();
        self.transpose(x, &order)
    }

    /// Returns the padding at the beginning of each spatial dim, then at the ends: ONNX's order.
    ///
    /// `paddings` has one or two values for each dim; `VALID` is no padding.
    pub(super) fn pads(&self, dims: usize) -> Outcome<Pads> {
        Ok(match self.text("padding_algorithm").as_deref().unwrap_or("EXPLICIT") {
            "SAME" => Pads::Same,
            "VALID" => Pads::Explicit(vec![0; 2 * dims]),
            "EXPLICIT" => {
                let given = self.ints("paddings")?;
                let both: Vec<(i64, i64)> = if given.len() == dims {
                    given.iter().map(|pad| (*pad, *pad)).collect()
                } else if given.len() == 2 * dims {
                    given.as_chunks().0.iter().map(|[begin, end]| (*begin, *end)).collect()
                } else {
                    let found = given.len();
                    return Err(format!(
                        "expected {dims} or twice that many paddings, found {found}"
                    )
                    .into());
                };
                let (begins, ends): (Vec<_>, Vec<_>) = both.into_iter().unzip();
                Pads::Explicit([begins, ends].concat())
            }
            other => return Err(format!("unknown padding algorithm `{other}`").into()),
        })
    }

    /// Returns an attribute that is a list with one integer for each of `dims`.
    pub(super) fn each(&self, name: &str, dims: usize) -> Outcome<Vec<i64>> {
        let values = self.ints(name)?;
        match values.len() == dims {
            true => Ok(values),
            false => {
                Err(format!("expected {dims} values as `{name}`, found {}", values.len()).into())
            }
        }
    }
}

/// The padding of a tensor.
pub(super) enum Pads {
    /// At the beginning of each dim, then at the end of each.
    Explicit(Vec<i64>),
    /// Padding with which the result has the dims of the tensor divided by the strides; if odd, one more at the end.
    Same,
}

fn conv(op: &mut Operator<'_>) -> Outcome {
    let (x, filter) = (op.input("Input")?, op.input("Filter")?);
    let spatial = filter.rank()?.count().saturating_sub(2);
    let last = op.channels_last("data_format")?;
    let x = if last { op.channels_to_front(&x)? } else { x };
    let pads = op.pads(spatial)?;
    let dilations = match pads {
        Pads::Same => vec![1; spatial],
        Pads::Explicit(_) => op.each("dilations", spatial)?,
    };
    let strides = op.each("strides", spatial)?;
    let how = match (pads, spatial_dims(&x), spatial_dims(&filter)) {
        (Pads::Same, ..) => text("auto_pad", "SAME_UPPER"),
        (Pads::Explicit(pads), Some(dims), Some(kernel)) => {
            ints("pads", &fitted(&pads, &dims, &kernel, [&strides, &dilations])?)
        }
        (Pads::Explicit(pads), ..) => ints("pads", &pads),
    };
    let strides = ints("strides", &strides);
    let attributes =
        [how, strides, ints("dilations", &dilations), int("group", op.int("groups")?.max(1))];
    let y = match op.optional("Bias")? {
        Some(bias) => op.call("Conv", &[&x, &filter, &bias], attributes)?,
        None => op.call("Conv", &[&x, &filter], attributes)?,
    };
    let y = if last { op.channels_to_back(&y)? } else { y };
    op.put("Output", &y)
}

fn conv_transpose(op: &mut Operator<'_>) -> Outcome {
    let (x, filter) = (op.input("Input")?, op.input("Filter")?);
    let spatial = filter.rank()?.count().saturating_sub(2);
    let last = op.channels_last("data_format")?;
    let x = if last { op.channels_to_front(&x)? } else { x };
    let (strides, dilations) = (op.each("strides", spatial)?, op.each("dilations", spatial)?);
    let kernel = filter.dims()?.split_off(2);
    let (pads, dilations) = match op.pads(spatial)? {
        Pads::Explicit(pads) => (pads, dilations),
        // PaddlePaddle pads the input like for a convolution with stride and without dilation.
        Pads::Same => (same_pads(&x.dims()?.split_off(2), &kernel, &strides)?, vec![1; spatial]),
    };
    let mut more = match op.ints("output_padding")? {
        none if none.is_empty() => vec![0; spatial],
        more => more,
    };
    let wanted = op.ints("output_size")?;
    if !wanted.is_empty() {
        let dims = spatial_dims(&x).ok_or("expected known dims of the images")?;
        let (begins, ends) = pads.split_at(spatial);
        let plain = dims.iter().zip(&kernel).zip(&strides).zip(&dilations).zip(begins).zip(ends);
        let plain = plain.map(|(((((dim, kernel), stride), dilation), begin), end)| {
            let steps = dim.saturating_sub(1).saturating_mul(*stride);
            let reach = dilation.saturating_mul(kernel.saturating_sub(1));
            let size = steps.saturating_add(reach).saturating_add(1);
            size.saturating_sub(*begin).saturating_sub(*end)
        });
        let more_than = |(wanted, plain): (&i64, i64)| wanted.saturating_sub(plain);
        more = wanted.iter().zip(plain).map(more_than).collect();
    }
    let attributes = [
        ints("pads", &pads),
        ints("strides", &strides),
        ints("dilations", &dilations),
        ints("output_padding", &more),
        int("group", op.int("groups")?.max(1)),
    ];
    let y = match op.optional("Bias")? {
        Some(bias) => op.call("ConvTranspose", &[&x, &filter, &bias], attributes)?,
        None => op.call("ConvTranspose", &[&x, &filter], attributes)?,
    };
    let y = if last { op.channels_to_back(&y)? } else { y };
    op.put("Output", &y)
}

/// Returns the spatial dims, if they are known.
pub(super) fn spatial_dims(x: &Value) -> Option<Vec<i64>> {
    known_dims(x.shape().ok()?.get(2..)?)
}

/// Extends pads at the end where a window exceeds the padded dim by less than a stride: PaddlePaddle rounds the number of
/// windows towards 0, and has one there.
pub(super) fn fitted(
    pads: &[i64],
    dims: &[i64],
    kernel: &[i64],
    [strides, dilations]: [&[i64]; 2],
) -> Outcome<Vec<i64>> {
    let mut pads = pads.to_vec();
    let (begins, ends) =
        pads.split_at_mut_checked(dims.len()).ok_or("expected pads at begins and ends")?;
    let windows = dims.iter().zip(kernel).zip(strides.iter().zip(dilations));
    for (((dim, kernel), (stride, dilation)), (begin, end)) in windows.zip(begins.iter().zip(ends))
    {
        let whole = dim.saturating_add(*begin).saturating_add(*end);
        let reach = (kernel - 1).saturating_mul(*dilation).saturating_add(1);
        let lack = reach.saturating_sub(whole);
        if (1..*stride).contains(&lack) {
            *end += lack;
        }
    }
    Ok(pads)
}

/// Returns the pads with which the number of windows is the dim divided by the stride, rounded up.
pub(super) fn same_pads(dims: &[i64], kernel: &[i64], strides: &[i64]) -> Outcome<Vec<i64>> {
    let total = |((dim, kernel), stride): ((&i64, &i64), &i64)| {
        let count = dim.checked_add(stride.checked_sub(1)?)?.checked_div(*stride)?;
        Some((count.checked_sub(1)?.checked_mul(*stride)?.checked_add(*kernel)? - dim).max(0))
    };
    let totals: Option<Vec<i64>> = dims.iter().zip(kernel).zip(strides).map(total).collect();
    let totals = totals.ok_or("expected positive strides")?;
    let begins = totals.iter().map(|total| total / 2);
    Ok(begins.chain(totals.iter().map(|total| total - total / 2)).collect())
}

//! Convolutions.

use lodstone_model::Attribute;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::crops::Crop;
use crate::onnx::layout::{self, Layout};
use crate::onnx::windows::{Padding, Pads, Windows, spatial_axes, spatial_dims};
use crate::onnx::{Value, int, ints};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("conv2d", conv),
    ("conv2d_transpose", conv_transpose),
    ("conv3d", conv),
    ("depthwise_conv2d", conv),
    ("depthwise_conv2d_transpose", conv_transpose),
];

impl Operator<'_> {
    /// Returns the layout that an attribute declares.
    pub(super) fn layout(&self, attribute: &str) -> Outcome<Layout> {
        let name = self.text(attribute)?;
        match name.as_str() {
            "AnyLayout" | "ANYLAYOUT" => Ok(Layout::First),
            name => Layout::named(name, layout::PADDLE)
                .ok_or_else(|| format!("unknown layout `{name}` as `{attribute}`").into()),
        }
    }

    /// Returns the padding of spatial dims. `paddings` has one or two values for each; `VALID` is no padding.
    pub(super) fn padding(&self, dims: usize) -> Outcome<Padding> {
        // Releases before 1.7 do not have the attribute.
        let algorithm = match self.attribute("padding_algorithm") {
            Some(_) => self.text("padding_algorithm")?,
            None => "EXPLICIT".to_owned(),
        };
        Ok(match algorithm.as_str() {
            "SAME" => Padding::Same,
            "VALID" => Padding::Explicit(Pads::none(dims)),
            "EXPLICIT" => {
                let given = self.ints("paddings")?;
                Padding::Explicit(match given.as_chunks() {
                    _ if given.len() == dims => Pads::both(&given),
                    (pairs, []) if pairs.len() == dims => Pads {
                        begins: pairs.iter().map(|[begin, _]| *begin).collect(),
                        ends: pairs.iter().map(|[_, end]| *end).collect(),
                    },
                    _ => {
                        let found = given.len();
                        return Err(format!(
                            "expected {dims} or twice that many paddings, found {found}"
                        )
                        .into());
                    }
                })
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

/// Returns the input, channels first, the filter, and the layout of the input.
fn operands(op: &mut Operator<'_>) -> Outcome<(Value, Value, Layout)> {
    let (x, filter) = (op.input("Input")?, op.input("Filter")?);
    let layout = op.layout("data_format")?;
    let x = op.channels_first(&x, layout)?;
    Ok((x, filter, layout))
}

/// Convolves images with the channels first.
fn convolved(
    op: &mut Operator<'_>,
    kind: &str,
    operands: [&Value; 2],
    attributes: &[Attribute],
) -> Outcome<Value> {
    let (bias, group) = (op.optional("Bias")?, int("group", op.int("groups")?.max(1)));
    let attributes = attributes.iter().cloned().chain([group]);
    op.convolve(kind, operands, bias.as_ref(), attributes)
}

/// Sets the output to images with the channels first.
fn put_images(op: &mut Operator<'_>, y: &Value, layout: Layout) -> Outcome {
    let y = op.in_layout(y, layout)?;
    op.put("Output", &y)
}

fn conv(op: &mut Operator<'_>) -> Outcome {
    let (x, filter, layout) = operands(op)?;
    let spatial = spatial_axes(&filter)?;
    let mut padding = op.padding(spatial)?;
    let dilations = match padding {
        Padding::Same => vec![1; spatial],
        Padding::Explicit(_) => op.each("dilations", spatial)?,
    };
    let strides = op.each("strides", spatial)?;
    if let Padding::Explicit(pads) = &padding
        && let (Some(dims), Some(kernel)) = (spatial_dims(&x), spatial_dims(&filter))
    {
        let windows = Windows::new(&kernel, &strides, &dilations, pads)?;
        padding = Padding::Explicit(windows.extended(&dims)?.pads());
    }
    let attributes =
        [padding.attribute(), ints("strides", &strides), ints("dilations", &dilations)];
    let y = convolved(op, "Conv", [&x, &filter], &attributes)?;
    put_images(op, &y, layout)
}

fn conv_transpose(op: &mut Operator<'_>) -> Outcome {
    let (x, filter, layout) = operands(op)?;
    let spatial = spatial_axes(&filter)?;
    let (strides, dilations) = (op.each("strides", spatial)?, op.each("dilations", spatial)?);
    let kernel = filter.dims()?.split_off(2);
    let (padding, dims) = (op.padding(spatial)?, spatial_dims(&x));
    let mut more = match op.ints("output_padding")? {
        none if none.is_empty() => vec![0; spatial],
        more => more,
    };
    let wanted = match op.ints("output_size")? {
        none if none.is_empty() => None,
        _ => Some(op.each("output_size", spatial)?),
    };
    let depends = wanted.is_some()
        || matches!(padding, Padding::Same) && strides.iter().any(|stride| *stride != 1);
    // What the convolution cuts off of an image without padding, where that depends on unknown dims.
    let mut crop = None;
    // PaddlePaddle pads the input as for a convolution with stride and without dilation.
    let windows = match &dims {
        None if depends => {
            let none = Padding::Explicit(Pads::none(spatial));
            let dilations =
                if matches!(padding, Padding::Same) { vec![1; spatial] } else { dilations };
            let windows = Windows::padded(&kernel, &strides, &dilations, &none, None)?;
            crop = Some(Crop { padding, sizes: wanted.clone() });
            windows
        }
        dims => Windows::padded(&kernel, &strides, &dilations, &padding, dims.as_deref())?,
    };
    if let Some(wanted) = wanted {
        more = match dims {
            Some(dims) => {
                let pairs = wanted.iter().zip(windows.transposed(&dims)?);
                pairs.map(|(wanted, plain)| wanted.saturating_sub(plain)).collect()
            }
            // A size is less than a stride above the smallest one.
            None => strides.iter().map(|stride| stride - 1).collect(),
        };
    }
    let attributes = [
        windows.pads().attribute(),
        ints("strides", &strides),
        ints("dilations", &windows.dilations()),
        ints("output_padding", &more),
    ];
    let y = convolved(op, "ConvTranspose", [&x, &filter], &attributes)?;
    let y = match crop {
        Some(crop) => op.cropped_images(&y, &x, &windows, &crop)?,
        None => y,
    };
    put_images(op, &y, layout)
}

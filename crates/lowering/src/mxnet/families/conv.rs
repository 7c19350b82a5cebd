//! Convolutions.

use lodstone_model::Attribute;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, required_dim};
use crate::onnx::layout::{self, Layout};
use crate::onnx::windows::{Pads, Windows, spatial_dims};
use crate::onnx::{Value, int, ints};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Convolution", Rule::One(convolution)),
    ("Convolution_v1", Rule::One(convolution)),
    ("Deconvolution", Rule::One(deconvolution)),
];

impl Node<'_> {
    /// Returns the layout of images.
    pub(super) fn layout(&self, spatial: Option<usize>) -> Outcome<Layout> {
        let name = match self.attributes.find("layout")? {
            None | Some("None") => return Ok(Layout::First),
            Some(name) => name,
        };
        let layout = Layout::named(name, layout::MXNET)
            .ok_or_else(|| wrong("layout", "a layout of images", name))?;
        match spatial {
            Some(spatial) if name.len() != spatial.saturating_add(2) => {
                Err(wrong("layout", &format!("a layout of {spatial} spatial dims"), name))
            }
            _ => Ok(layout),
        }
    }

    /// Returns a tuple with a number for each spatial dim.
    pub(super) fn each(
        &self,
        name: &str,
        count: usize,
        default: i64,
        least: i64,
    ) -> Outcome<Vec<i64>> {
        let numbers = self.attributes.ints(name)?;
        let numbers = if numbers.is_empty() { vec![default; count] } else { numbers };
        match numbers.len() == count
            && numbers.iter().all(|it| (least..=i64::from(i32::MAX)).contains(it))
        {
            true => Ok(numbers),
            false => {
                let expected = format!("{count} numbers of at least {least}");
                Err(wrong(name, &expected, &format!("{numbers:?}")))
            }
        }
    }

    /// Returns the size of the windows.
    pub(super) fn kernel(&self) -> Outcome<Vec<i64>> {
        let kernel = self.attributes.required_ints("kernel")?;
        let is_valid = |it: &i64| (1..=i64::from(i32::MAX)).contains(it);
        match (1..=3).contains(&kernel.len()) && kernel.iter().all(is_valid) {
            true => Ok(kernel),
            false => Err(wrong("kernel", "1 to 3 positive numbers", &format!("{kernel:?}"))),
        }
    }

    /// Returns the bias at a position; `None` if the operator has none.
    pub(super) fn bias(&self, index: usize, no_bias: bool) -> Outcome<Option<Value>> {
        match self.attributes.flag("no_bias", no_bias)? {
            true => self.at_most(index).map(|()| None),
            false => {
                self.at_most(index.saturating_add(1))?;
                self.input(index).map(Some)
            }
        }
    }
}

/// Returns the windows of a convolution.
pub(super) fn dilated(node: &Node<'_>) -> Outcome<Windows> {
    let kernel = node.kernel()?;
    let count = kernel.len();
    let (strides, dilations) =
        (node.each("stride", count, 1, 1)?, node.each("dilate", count, 1, 1)?);
    Windows::new(&kernel, &strides, &dilations, &Pads::both(&node.each("pad", count, 0, 0)?))
}

/// Returns a number of groups.
pub(super) fn groups(node: &Node<'_>, name: &str) -> Outcome<i64> {
    match node.attributes.int(name, 1)? {
        groups @ 1.. => Ok(groups),
        groups => Err(wrong(name, "a positive number", &groups.to_string())),
    }
}

/// Convolves operands that have the channels first.
fn convolved(
    node: &mut Node<'_>,
    kind: &str,
    (operands, bias): ([&Value; 2], Option<&Value>),
    (windows, groups): (&Windows, i64),
    more: Option<Attribute>,
) -> Outcome {
    let attributes = [
        ints("kernel_shape", &windows.kernel()),
        ints("strides", &windows.strides()),
        ints("dilations", &windows.dilations()),
        windows.pads().attribute(),
        int("group", groups),
    ];
    node.convolve(kind, operands, bias, attributes.into_iter().chain(more))
}

/// Fails if the filters are not those that the attribute `num_filter` counts.
fn check_filters(node: &Node<'_>, weight: &Value, axis: i64, groups: i64) -> Outcome<()> {
    let filters = node.attributes.int("num_filter", None)?;
    let found = required_dim(weight, axis)?.saturating_mul(groups);
    match filters == found {
        true => Ok(()),
        false => Err(format!("expected weights of {filters} filters, found {found}").into()),
    }
}

fn convolution(node: &mut Node<'_>) -> Outcome {
    let (x, weight, bias) = (node.input(0)?, node.input(1)?, node.bias(2, false)?);
    let windows = (&dilated(node)?, groups(node, "num_group")?);
    check_filters(node, &weight, 0, 1)?;
    let layout = node.layout(Some(windows.0.rank()))?;
    let (x, weight) = (node.to_front(&x, layout)?, node.to_front(&weight, layout)?);
    let y = convolved(node, "Conv", ([&x, &weight], bias.as_ref()), windows, None)?;
    node.from_front(&y, layout)
}

fn deconvolution(node: &mut Node<'_>) -> Outcome {
    let (x, weight, bias) = (node.input(0)?, node.input(1)?, node.bias(2, true)?);
    let (mut windows, groups) = (dilated(node)?, groups(node, "num_group")?);
    let count = windows.rank();
    let layout = node.layout(Some(count))?;
    let (x, weight) = (node.to_front(&x, layout)?, node.to_front(&weight, layout)?);
    check_filters(node, &weight, 1, groups)?;
    let target = node.each("target_shape", count, 0, 0)?;
    let mut adjust = ints("output_padding", &node.each("adj", count, 0, 0)?);
    if target.iter().any(|size| *size != 0) {
        adjust = match spatial_dims(&x) {
            Some(dims) => {
                let more;
                (windows, more) = windows.shrunk(&dims, &target)?;
                ints("output_padding", &more)
            }
            // The padding follows from the dims in the runtime, with the larger half at the begin, too.
            None => {
                windows = windows.bare();
                ints("output_shape", &target)
            }
        };
    }
    let adjust = Some(adjust);
    let operands = ([&x, &weight], bias.as_ref());
    let y = convolved(node, "ConvTranspose", operands, (&windows, groups), adjust)?;
    node.from_front(&y, layout)
}

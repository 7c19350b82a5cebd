//! Convolutions.

use lodstone_model::Attribute;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, known_dims, rank_of, required_dim};
use crate::onnx::{Value, int, ints};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Convolution", Rule::One(convolution)),
    ("Convolution_v1", Rule::One(convolution)),
    ("Deconvolution", Rule::One(deconvolution)),
];

/// Layouts with the channels after the batch, and after the spatial dims.
const FIRST: &[&str] = &["NCW", "NCHW", "NCDHW"];
const LAST: &[&str] = &["NWC", "NHWC", "NDHWC"];

impl Node<'_> {
    /// Whether the attribute `layout` has the channels last.
    pub(super) fn channels_last(&self, spatial: Option<usize>) -> Outcome<bool> {
        let layout = match self.attributes.find("layout")? {
            None | Some("None") => return Ok(false),
            Some(layout) => layout,
        };
        let is_last = match layout {
            _ if FIRST.contains(&layout) => false,
            _ if LAST.contains(&layout) => true,
            _ => return Err(wrong("layout", "a layout of images", layout)),
        };
        match spatial {
            Some(spatial) if layout.len() != spatial.saturating_add(2) => {
                Err(wrong("layout", &format!("a layout of {spatial} spatial dims"), layout))
            }
            _ => Ok(is_last),
        }
    }

    /// Moves the last dim to the second place.
    pub(super) fn channels_to_front(&mut self, x: &Value) -> Outcome {
        let rank = rank_of(x)?;
        let last = rank.number() - 1;
        let order: Vec<i64> = [0, last].into_iter().chain(1..last).take(rank.count()).collect();
        self.transpose(x, &order)
    }

    /// Moves the second dim to the last place.
    pub(super) fn channels_to_back(&mut self, x: &Value) -> Outcome {
        let rank = rank_of(x)?;
        let order = [0].into_iter().chain(2..rank.number()).chain([1]);
        self.transpose(x, &order.take(rank.count()).collect::<Vec<i64>>())
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

/// What convolutions have in common.
struct Geometry {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    pads: Vec<i64>,
    groups: i64,
}

impl Geometry {
    fn of(node: &Node<'_>) -> Outcome<Self> {
        let kernel = node.kernel()?;
        let count = kernel.len();
        let groups = node.attributes.int("num_group", 1)?;
        if groups < 1 {
            return Err(wrong("num_group", "a positive number", &groups.to_string()));
        }
        Ok(Self {
            strides: node.each("stride", count, 1, 1)?,
            dilations: node.each("dilate", count, 1, 1)?,
            pads: node.each("pad", count, 0, 0)?,
            kernel,
            groups,
        })
    }

    fn attributes(&self, pads: &[i64]) -> Vec<Attribute> {
        vec![
            ints("kernel_shape", &self.kernel),
            ints("strides", &self.strides),
            ints("dilations", &self.dilations),
            ints("pads", &[pads, pads].concat()),
            int("group", self.groups),
        ]
    }
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
    let (mut x, mut weight, bias) = (node.input(0)?, node.input(1)?, node.bias(2, false)?);
    let geometry = Geometry::of(node)?;
    check_filters(node, &weight, 0, 1)?;
    let is_last = node.channels_last(Some(geometry.kernel.len()))?;
    if is_last {
        x = node.channels_to_front(&x)?;
        weight = node.channels_to_front(&weight)?;
    }
    let inputs = [Some(&x), Some(&weight), bias.as_ref()];
    let inputs = if bias.is_some() { &inputs[..] } else { &inputs[..2] };
    let [y] = node.emit_all("Conv", inputs, geometry.attributes(&geometry.pads))?;
    if is_last { node.channels_to_back(&y) } else { Ok(y) }
}

fn deconvolution(node: &mut Node<'_>) -> Outcome {
    let (mut x, mut weight, bias) = (node.input(0)?, node.input(1)?, node.bias(2, true)?);
    let geometry = Geometry::of(node)?;
    let count = geometry.kernel.len();
    let is_last = node.channels_last(Some(count))?;
    if is_last {
        x = node.channels_to_front(&x)?;
        weight = node.channels_to_front(&weight)?;
    }
    check_filters(node, &weight, 1, geometry.groups)?;
    let target = node.each("target_shape", count, 0, 0)?;
    let adjust = node.each("adj", count, 0, 0)?;
    let (pads, adjust) = match target.iter().any(|size| *size != 0) {
        true => fitted(&geometry, &x, &target)?,
        false => (geometry.pads.clone(), adjust),
    };
    let mut attributes = geometry.attributes(&pads);
    attributes.push(ints("output_padding", &adjust));
    let inputs = [Some(&x), Some(&weight), bias.as_ref()];
    let inputs = if bias.is_some() { &inputs[..] } else { &inputs[..2] };
    let [y] = node.emit_all("ConvTranspose", inputs, attributes)?;
    if is_last { node.channels_to_back(&y) } else { Ok(y) }
}

/// Returns the padding and the additional elements at the ends with which a result has the dims `target`.
fn fitted(geometry: &Geometry, x: &Value, target: &[i64]) -> Outcome<(Vec<i64>, Vec<i64>)> {
    let dims = known_dims(x)?;
    let spatial = dims.get(2..).unwrap_or_default();
    let (mut pads, mut adjust) = (Vec::new(), Vec::new());
    let windows = geometry.kernel.iter().zip(&geometry.dilations).zip(&geometry.strides);
    for (((kernel, dilation), stride), (dim, target)) in windows.zip(spatial.iter().zip(target)) {
        let reach = dilation.saturating_mul(kernel - 1).saturating_add(1);
        let full = stride.saturating_mul(dim - 1).saturating_add(reach);
        let total = full.saturating_sub(*target);
        if total < 0 {
            let found = format!("{target:?}");
            return Err(wrong("target_shape", &format!("at most {full}"), &found));
        }
        adjust.push(total % 2);
        pads.push((total + 1) / 2);
    }
    Ok((pads, adjust))
}

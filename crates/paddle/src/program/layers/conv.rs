//! Convolutions and pooling of images.

use super::{activated, biased};
use crate::program::error::{Result, variable};
use crate::program::initializers::normal;
use crate::program::network::{Network, Parameter, Variable};
use crate::program::operator::Operator;

/// A convolution over images.
#[derive(Clone, Debug)]
pub struct Conv2d {
    /// How many channels the result has.
    pub num_filters: u64,
    /// Height and width of the window.
    pub filter_size: [u64; 2],
    /// How far it goes at once.
    pub stride: [i32; 2],
    /// What is added above and below, left and right.
    pub padding: [i32; 2],
    /// How far elements of the window lie apart.
    pub dilation: [i32; 2],
    /// In how many groups channels are convolved by themselves.
    pub groups: u64,
    /// An activation: the kind of its operator.
    pub act: Option<&'static str>,
    /// The filter.
    pub weight: Parameter,
    /// What is added to each channel; nothing if there is none.
    pub bias: Option<Parameter>,
}

impl Conv2d {
    /// So many channels by a square window.
    pub fn new(num_filters: u64, filter_size: u64) -> Self {
        Self {
            num_filters,
            filter_size: [filter_size; 2],
            stride: [1; 2],
            padding: [0; 2],
            dilation: [1; 2],
            groups: 1,
            act: None,
            weight: Parameter::default(),
            bias: Some(Parameter::default()),
        }
    }
}

/// Convolves images: examples, channels, height, width.
///
/// # Errors
/// If the number of channels is not known, or the groups do not divide it.
pub fn conv2d(net: &mut Network, x: &Variable, layer: &Conv2d) -> Result<Variable> {
    let name = net.name("conv2d");
    let dtype = net.dtype(x)?;
    let shape = net.shape(x)?;
    let Some(channels) = shape.get(1).copied().flatten() else {
        return variable(x.name(), "expected channels of a known number as the second extent");
    };
    let divides = |count: u64| layer.groups != 0 && count.is_multiple_of(layer.groups);
    if !divides(channels) || !divides(layer.num_filters) {
        let what = format!("{channels} channels cannot be convolved in {} groups", layer.groups);
        return variable(x.name(), what);
    }
    let [height, width] = layer.filter_size;
    let filter = [layer.num_filters, channels / layer.groups, height, width];
    // All channels count, whatever the groups.
    #[expect(clippy::cast_precision_loss, reason = "extents of layers are far below 2^53")]
    let otherwise = normal(2.0, channels as f64 * height as f64 * width as f64, 0);
    let weight = net.parameter(&layer.weight, &format!("{name}.w"), dtype, &filter, otherwise)?;
    let conv = Operator::new("conv2d")
        .input("Input", [x])
        .input("Filter", [&weight])
        .attribute("strides", layer.stride.to_vec())
        .attribute("paddings", layer.padding.to_vec())
        .attribute("dilations", layer.dilation.to_vec())
        .attribute("groups", i32::try_from(layer.groups).unwrap_or(i32::MAX));
    let mut y = net.call(&name, "Output", conv)?;
    if let Some(bias) = &layer.bias {
        y = biased(net, &name, &y, bias, layer.num_filters, 1)?;
    }
    activated(net, &name, y, layer.act)
}

/// Which of the elements in a window is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The greatest.
    Max,
    /// Their mean.
    Avg,
}

impl Pooling {
    fn kind(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Avg => "avg",
        }
    }
}

/// Pools images; what is padded does not count for a mean.
///
/// # Errors
/// If they are none.
pub fn pool2d(
    net: &mut Network,
    x: &Variable,
    pooling: Pooling,
    size: [i32; 2],
    stride: [i32; 2],
    padding: [i32; 2],
) -> Result<Variable> {
    let pool = Operator::new("pool2d")
        .input("X", [x])
        .attribute("pooling_type", pooling.kind())
        .attribute("ksize", size.to_vec())
        .attribute("strides", stride.to_vec())
        .attribute("paddings", padding.to_vec())
        .attribute("use_cudnn", true);
    let name = net.name("pool2d");
    net.call(&name, "Out", pool)
}

/// Pools images to a height and width, by windows of about the same size; to 1 and 1, each channel as a whole.
///
/// # Errors
/// If they are none.
pub fn adaptive_pool2d(
    net: &mut Network,
    x: &Variable,
    pooling: Pooling,
    size: [i32; 2],
) -> Result<Variable> {
    let pool = Operator::new("pool2d")
        .input("X", [x])
        .attribute("pooling_type", pooling.kind())
        .attribute("ksize", size.to_vec())
        .attribute("adaptive", true);
    let name = net.name("adaptive_pool2d");
    net.call(&name, "Out", pool)
}

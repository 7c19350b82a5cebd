//! Convolutions and pooling of images.

use super::{activated, biased};
use crate::program::error::{Result, variable};
use crate::program::initializers::normal;
use crate::program::network::{Network, ParamAttr, Variable};
use crate::program::operator::Operator;

/// A 2-D convolution.
#[derive(Clone, Debug)]
pub struct Conv2d {
    /// The number of output channels.
    pub num_filters: u64,
    /// The kernel size: height and width.
    pub filter_size: [u64; 2],
    /// The stride.
    pub stride: [i32; 2],
    /// The padding above and below, left and right.
    pub padding: [i32; 2],
    /// The dilation.
    pub dilation: [i32; 2],
    /// The number of groups of channels.
    pub groups: u64,
    /// The activation: the kind of its operator.
    pub act: Option<&'static str>,
    /// The filter.
    pub weight: ParamAttr,
    /// The bias of each channel, if there is one.
    pub bias: Option<ParamAttr>,
}

impl Conv2d {
    /// Creates a convolution with a square kernel.
    pub fn new(num_filters: u64, filter_size: u64) -> Self {
        Self {
            num_filters,
            filter_size: [filter_size; 2],
            stride: [1; 2],
            padding: [0; 2],
            dilation: [1; 2],
            groups: 1,
            act: None,
            weight: ParamAttr::default(),
            bias: Some(ParamAttr::default()),
        }
    }
}

/// Convolves images: [batch, channels, height, width].
///
/// # Errors
/// If the number of channels is unknown, or not a multiple of the groups.
pub fn conv2d(net: &mut Network, x: &Variable, layer: &Conv2d) -> Result<Variable> {
    let name = net.name("conv2d");
    let dtype = net.dtype(x)?;
    let shape = net.shape(x)?;
    let Some(channels) = shape.get(1).copied().flatten() else {
        return variable(x.name(), "the number of channels, the second dim, must be known");
    };
    let divides = |count: u64| layer.groups != 0 && count.is_multiple_of(layer.groups);
    if !divides(channels) || !divides(layer.num_filters) {
        let what =
            format!("expected a multiple of {} groups as channels, found {channels}", layer.groups);
        return variable(x.name(), what);
    }
    let [height, width] = layer.filter_size;
    let filter = [layer.num_filters, channels / layer.groups, height, width];
    // The fan-in counts all channels, whatever the groups.
    #[expect(clippy::cast_precision_loss, reason = "dims of layers are far below 2^53")]
    let otherwise = normal(2.0, channels as f64 * height as f64 * width as f64, 0);
    let weight = net.parameter(&layer.weight, &format!("{name}.w"), dtype, &filter, otherwise)?;
    let conv = Operator::new("conv2d")
        .input("Input", [x])
        .input("Filter", [&weight])
        .attribute("strides", layer.stride.to_vec())
        .attribute("paddings", layer.padding.to_vec())
        .attribute("dilations", layer.dilation.to_vec())
        .int("groups", layer.groups);
    let mut y = net.call(&name, "Output", conv)?;
    if let Some(bias) = &layer.bias {
        y = biased(net, &name, &y, bias, layer.num_filters, 1)?;
    }
    activated(net, &name, y, layer.act)
}

/// The kind of pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The maximum of each window.
    Max,
    /// The mean of each window.
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

/// Pools images; padding does not count for means.
///
/// # Errors
/// If the input is not a batch of images.
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

/// Pools images to a height and width, by windows of approximately equal size; 1 and 1 reduces each channel.
///
/// # Errors
/// If the input is not a batch of images.
pub fn adaptive_pool2d(
    net: &mut Network,
    x: &Variable,
    pooling: Pooling,
    size: [i32; 2],
) -> Result<Variable> {
    let name = net.name("adaptive_pool2d");
    // In PaddlePaddle 2.6.2, the windows of an adaptive `pool2d` for maxima are others.
    let pool = match pooling {
        Pooling::Max => {
            let mask = Variable::named(&net.name(&format!("{name}.tmp")));
            Operator::new("max_pool2d_with_index").output("Mask", [&mask])
        }
        Pooling::Avg => Operator::new("pool2d").attribute("pooling_type", pooling.kind()),
    };
    let pool = pool.input("X", [x]).attribute("ksize", size.to_vec()).attribute("adaptive", true);
    net.call(&name, "Out", pool)
}

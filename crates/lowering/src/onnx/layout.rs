//! Layouts of images: where the channels are.
//!
//! Rules compute with the channels after the batch, as ONNX does, and transpose what is in another layout.
//!
//! | framework | names | filters with the channels last | by |
//! |---|---|---|---|
//! | PaddlePaddle, `data_format`, `data_layout` | `NCHW`, `NCDHW`, `NCL`, `NCW`, and `AnyLayout`; `NHWC`, `NDHWC`, `NLC`, `NWC` | stay `[filters, channels, ..]` | `common/layout.h`; recorded `conv2d-12`, `conv2d_transpose-5` |
//! | PaddlePaddle, `batch_norm` and `affine_channel` | rows without spatial dims have no layout | | `batch_norm_kernel.cc` |
//! | MXNet, `layout` | `NCW`, `NCHW`, `NCDHW`, and `None`; `NWC`, `NHWC`, `NDHWC` | `[filters, .., channels]`; transposed: `[channels, .., filters]` | `nn/convolution-inl.h` |
//! | Caffe2, `order` | `NCHW`; `NHWC` | `[filters, .., channels]`; transposed: `[channels, .., filters]` | `conv_op_impl.h`, `conv_transpose_op_impl.h`; recorded `conv_nhwc`, `conv_transpose_nhwc` |
//! | Glow, `Layout` | `NCHW`, `NCTHW`; `NHWC`, `NTHWC`, and none | `[filters, .., channels]` | `Nodes.cpp` |

use lodstone_schema::Finding;
use lodstone_schema::numbers::Rank;

use super::{Graph, Value, required};

type Outcome<T = Value> = Result<T, Finding>;

/// The place of the channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// After the batch.
    First,
    /// After the spatial dims.
    Last,
}

/// The spatial dims in names of layouts.
pub(crate) const PADDLE: &[&str] = &["L", "W", "HW", "DHW"];
pub(crate) const MXNET: &[&str] = &["W", "HW", "DHW"];
pub(crate) const CAFFE2: &[&str] = &["HW"];
pub(crate) const GLOW: &[&str] = &["HW", "THW"];

impl Layout {
    /// Returns the layout of a name, a letter for each dim, in which the spatial dims have one of the known names.
    pub(crate) fn named(name: &str, spatial: &[&str]) -> Option<Self> {
        let inner = name.strip_prefix('N')?;
        match (inner.strip_prefix('C'), inner.strip_suffix('C')) {
            (Some(dims), _) if spatial.contains(&dims) => Some(Self::First),
            (_, Some(dims)) if spatial.contains(&dims) => Some(Self::Last),
            _ => None,
        }
    }

    /// Returns the layout of values of a rank: rows have none.
    pub(crate) fn of_rank(self, rank: Rank) -> Self {
        if rank.count() > 2 { self } else { Self::First }
    }

    /// Returns the axis of the channels.
    ///
    /// # Errors
    /// If the value has no such axis.
    pub(crate) fn channels(self, x: &Value) -> Outcome<i64> {
        let axis = if self == Self::First { 1 } else { -1 };
        required::place_in(required::rank(x)?, axis)
    }
}

impl Graph {
    /// Moves the channels of images in a layout after the batch.
    pub(crate) fn channels_first(&mut self, x: &Value, layout: Layout) -> Outcome {
        match layout {
            Layout::First => Ok(x.clone()),
            Layout::Last => self.channels_to_front(x),
        }
    }

    /// Moves the channels of images from after the batch to where a layout has them.
    pub(crate) fn in_layout(&mut self, x: &Value, layout: Layout) -> Outcome {
        match layout {
            Layout::First => Ok(x.clone()),
            Layout::Last => self.channels_to_back(x),
        }
    }

    /// Moves the channels of images after the batch.
    pub(crate) fn channels_to_front(&mut self, x: &Value) -> Outcome {
        let order = axes(x)?;
        match order.as_slice() {
            [batch, inner @ .., channels] => {
                self.transpose(x, &[&[*batch, *channels], inner].concat())
            }
            _ => Err(format!("expected at least rank 2, found {}", order.len()).into()),
        }
    }

    /// Moves the channels of images to the end.
    pub(crate) fn channels_to_back(&mut self, x: &Value) -> Outcome {
        let order = axes(x)?;
        match order.as_slice() {
            [batch, channels, inner @ ..] => {
                self.transpose(x, &[&[*batch], inner, &[*channels]].concat())
            }
            _ => Err(format!("expected at least rank 2, found {}", order.len()).into()),
        }
    }
}

fn axes(x: &Value) -> Outcome<Vec<i64>> {
    Ok(x.rank()?.numbers().collect())
}

//! Kernels for some inputs, and for operators with constant inputs, which are packed when the program is planned.
//!
//! | file | contents |
//! |---|---|
//! | `call.rs` | what fast kernels are and read |
//! | `convolution.rs` | convolutions |
//! | `depthwise.rs` | depthwise convolutions |
//! | `epilogue.rs` | the epilogue of `integers.rs` |
//! | `first_layer.rs` | convolutions of images of few channels, with which networks begin |
//! | `im2col.rs` | windows of images as rows of a matrix |
//! | `images.rs` | images that are enlarged or joined |
//! | `int8.rs` | int8 GEMM: the product of rows of 8-bit integers with a packed matrix |
//! | `integers.rs` | convolutions and products of 8-bit integers |
//! | `matrix.rs` | products with a constant matrix |
//! | `packed.rs` | operators whose constant inputs are packed |
//! | `pool.rs` | pooling |
//! | `quantize.rs` | quantization with one scale |
//! | `quantized.rs` | tensors of 8-bit integers, their scales and zero points |
//! | `recurrent.rs` | LSTM and GRU |
//! | `rows.rs` | softmax and normalization of rows |
//! | `transposed.rs` | transposed convolutions |
//! | `vnni.rs` | the product of `int8.rs` by AVX-512 VNNI |
//! | `winograd.rs` | convolutions of windows of 3 x 3 |

mod call;
pub(crate) mod convolution;
mod depthwise;
mod epilogue;
mod first_layer;
mod im2col;
pub(crate) mod images;
mod int8;
mod integers;
pub(crate) mod matrix;
mod packed;
pub(crate) mod pool;
pub(crate) mod quantize;
mod quantized;
mod recurrent;
pub(crate) mod rows;
mod transposed;
#[cfg(target_arch = "x86_64")]
mod vnni;
mod winograd;

pub(crate) use call::{EpilogueArguments, FastCall, FastKernel};
pub(crate) use convolution::{
    Affine, Convolution, adjacent_strides, dilation, is_dense, is_transposed,
};
pub(crate) use int8::MAX_INNER;
pub(crate) use integers::{IntegerKind, Integers};
pub(crate) use matrix::Matrix;
pub(crate) use packed::{
    Form, Key, PackCache, PackedConstants, PackedOperator, Packing, ShapedOperator,
};
pub(crate) use quantized::needs_general_kernel;
pub(crate) use recurrent::{Cells, Gates, Unrolled};

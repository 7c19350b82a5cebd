//! Kernels for some inputs, and for operators with constant inputs, which are packed when the program is planned.
//!
//! | file | contents |
//! |---|---|
//! | `bytes.rs` | the product of rows of 8-bit integers with a packed matrix |
//! | `call.rs` | what fast kernels are and read |
//! | `codes.rs` | tensors of 8-bit integers, their scales and zero points |
//! | `convolution.rs` | convolutions |
//! | `dot.rs` | the product of `bytes.rs` by AVX-512 VNNI |
//! | `each.rs` | convolutions of each channel |
//! | `finish.rs` | what happens to the sums of `integers.rs` |
//! | `images.rs` | images that are enlarged or joined |
//! | `integers.rs` | convolutions and products of 8-bit integers |
//! | `matrix.rs` | products with a constant matrix |
//! | `packed.rs` | operators whose constant inputs are packed |
//! | `planes.rs` | convolutions of images of few channels |
//! | `pool.rs` | pooling |
//! | `quantize.rs` | quantization with one scale |
//! | `recurrent.rs` | LSTM and GRU |
//! | `rows.rs` | softmax and normalization of rows |
//! | `transposed.rs` | transposed convolutions |
//! | `winograd.rs` | convolutions of windows of 3 x 3 |

mod bytes;
mod call;
mod codes;
pub(crate) mod convolution;
#[cfg(target_arch = "x86_64")]
mod dot;
mod each;
mod finish;
pub(crate) mod images;
mod integers;
pub(crate) mod matrix;
mod packed;
mod planes;
pub(crate) mod pool;
pub(crate) mod quantize;
mod recurrent;
pub(crate) mod rows;
mod transposed;
mod winograd;

pub(crate) use bytes::MAX_INNER;
pub(crate) use call::{EpilogueArguments, FastCall, FastKernel};
pub(crate) use codes::quantizes_unusually;
pub(crate) use convolution::{Affine, Convolution, dilation, is_dense, is_transposed, tiles};
pub(crate) use integers::{IntegerKind, Integers};
pub(crate) use matrix::Matrix;
pub(crate) use packed::{
    Form, Key, PackCache, PackedConstants, PackedOperator, Packing, ShapedOperator,
};
pub(crate) use recurrent::{Cells, Gates, Unrolled};

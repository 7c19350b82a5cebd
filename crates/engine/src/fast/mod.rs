//! Kernels of operators with constant operands, which are packed when the program is planned.
//!
//! | file | contents |
//! |---|---|
//! | `arrange.rs` | images that are enlarged or joined |
//! | `bytes.rs` | the product of rows of 8-bit integers with a packed matrix |
//! | `convolution.rs` | convolutions |
//! | `codes.rs` | tensors of 8-bit integers, their scales and zero points |
//! | `dot.rs` | the product of `bytes.rs` by AVX-512 VNNI |
//! | `each.rs` | convolutions of each channel |
//! | `finish.rs` | what happens to the sums of `integers.rs` |
//! | `integers.rs` | convolutions and products of 8-bit integers |
//! | `matrix.rs` | products with a constant matrix |
//! | `planes.rs` | convolutions of images of few channels |
//! | `pool.rs` | pooling |
//! | `quantize.rs` | quantization with one scale |
//! | `recurrent.rs` | LSTM and GRU |
//! | `rows.rs` | softmax and normalization of rows |
//! | `transposed.rs` | transposed convolutions |
//! | `winograd.rs` | convolutions of windows of 3 x 3 |

mod arrange;
mod bytes;
mod codes;
mod convolution;
#[cfg(target_arch = "x86_64")]
mod dot;
mod each;
mod finish;
mod integers;
mod matrix;
mod planes;
mod pool;
mod quantize;
mod recurrent;
mod rows;
mod transposed;
mod winograd;

pub(crate) use bytes::MAX_INNER;
pub(crate) use codes::quantizes_unusually;
pub(crate) use convolution::{Affine, Convolution, dilation, is_dense, is_transposed, tiles};
pub(crate) use integers::{Integers, Kind};
pub(crate) use matrix::Matrix;
pub(crate) use recurrent::{Cells, Unrolled};

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use lodstone_model::{DType, Op};
use lodstone_schema::Finding;

use crate::budget::{Budget, Charge};
use crate::error::Outcome;
use crate::gemm::Buffers;
use crate::layout;
use crate::layout::{Floats, ordered};
use crate::tensor::{Dense, Order};
use crate::threads::Threads;
use crate::value::Value;

/// A kernel for some tensors, in place of the one for all.
#[derive(Clone, Copy)]
pub(crate) struct Special {
    /// Returns whether inputs may be such tensors, without any work.
    pub(crate) fits: fn(&[Option<&Value>]) -> bool,
    /// Returns the results, or `None` if the other kernel must run.
    pub(crate) run: fn(&Task<'_>) -> Outcome<Option<Vec<Dense>>>,
    /// The number of results.
    pub(crate) results: usize,
}

/// What such a kernel works on.
pub(crate) struct Task<'a> {
    pub(crate) op: &'a Op,
    pub(crate) inputs: &'a [Option<&'a Value>],
    pub(crate) buffers: &'a Buffers,
    pub(crate) budget: &'a Budget,
}

/// Returns the kernel of an operator for some tensors.
pub(crate) fn special(op: &Op) -> Option<Special> {
    let images =
        |inputs: &[Option<&Value>]| layout::images(inputs.first().copied().flatten()).is_some();
    let with_one = |fits, run| Special { fits, run, results: 1 };
    let is_own = matches!(op.domain.as_str(), "" | "ai.onnx");
    Some(match op.kind.as_str() {
        "QLinearAdd" if op.domain == "com.microsoft" => with_one(quantize::fits, quantize::sum),
        "QLinearMul" if op.domain == "com.microsoft" => with_one(quantize::fits, quantize::product),
        _ if !is_own => return None,
        "AveragePool" | "GlobalAveragePool" | "MaxPool" => with_one(images, pool::pool),
        "Concat" => with_one(images, arrange::concat),
        "Conv" | "ConvTranspose" => with_one(convolution::fits, convolution::convolve),
        "DequantizeLinear" => with_one(quantize::fits, quantize::dequantize),
        "DynamicQuantizeLinear" => {
            Special { fits: quantize::fits, run: quantize::quantize_by_range, results: 3 }
        }
        "LayerNormalization" => with_one(rows::fits, rows::layer_normalization),
        "MatMul" => with_one(matrix::fits, matrix::product),
        "QuantizeLinear" => with_one(quantize::fits, quantize::quantize),
        "Resize" => with_one(images, arrange::resize),
        "Softmax" => with_one(rows::fits, rows::softmax),
        _ => return None,
    })
}

/// Returns the results of an operator that has one.
fn one(result: Dense) -> Option<Vec<Dense>> {
    Some(vec![result])
}

/// The packed constants of a program, for all its plans.
#[derive(Debug, Default)]
pub(crate) struct Prepared(Mutex<HashMap<Key, Option<Arc<Kept>>>>);

/// What determines a packed constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The names of the constants, among those of the program.
    pub(crate) constants: Vec<Option<String>>,
    pub(crate) form: Form,
}

/// The attributes of operators that their packed constants depend on. Numbers are bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Convolution {
        is_transposed: bool,
        /// The strides, if windows of that size are next to each other in the result.
        tiles: Option<Vec<i64>>,
        groups: i64,
        /// The dilation of the last dim.
        dilation: i64,
        /// Whether all strides and dilations are 1.
        is_dense: bool,
        /// The epsilon of the normalization, if there is one.
        epsilon: Option<u32>,
    },
    Cells(Unrolled),
    Integers {
        kind: Kind,
        groups: i64,
    },
    Matrix {
        is_turned: bool,
        alpha: u32,
        beta: u32,
    },
}

/// An operator with its packed constants.
#[derive(Debug)]
pub(crate) enum Weighted {
    Cells(Cells),
    Convolution(Convolution),
    Integers(Integers),
    Matrix(Matrix),
}

/// What happens to the results of such an operator before they are in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ending<'a> {
    /// A tensor that is added to them.
    pub(crate) added: Option<&'a Dense>,
    /// Their minimum and maximum.
    pub(crate) limits: Option<[f32; 2]>,
}

impl Ending<'_> {
    /// Returns the elements that are added to results of the given dims.
    fn added(&self, order: Order, dims: &[usize]) -> Outcome<Option<Floats>> {
        match self.added {
            Some(added) if added.dims() != dims => {
                Err(Finding::internal("a result and what is added to it have different dims"))
            }
            added => added.map(|added| ordered(added, order)).transpose(),
        }
    }
}

/// Such an operator for a first input of certain dims.
pub(crate) enum Over<'w> {
    Convolution(convolution::Over<'w>),
    Matrix(matrix::Multiplied<'w>),
}

/// Packed constants, whose size is charged while they exist.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) weighted: Weighted,
    _charge: Charge,
}

impl Weighted {
    fn nbytes(&self) -> u64 {
        match self {
            Self::Cells(it) => it.nbytes(),
            Self::Convolution(it) => it.nbytes(),
            Self::Integers(it) => it.nbytes(),
            Self::Matrix(it) => it.nbytes(),
        }
    }

    /// Returns the operator for a first input of the given dims, and a number of threads.
    ///
    /// # Errors
    /// If they do not fit the constants, or what it computes in does not fit into the budget.
    pub(crate) fn over(
        &self,
        op: &Op,
        dims: &[usize],
        (budget, threads): (&Budget, &Threads),
    ) -> Outcome<Over<'_>> {
        Ok(match self {
            Self::Cells(_) | Self::Integers(_) => {
                return Err(Finding::internal("the operator has several inputs"));
            }
            Self::Convolution(it) => {
                Over::Convolution(it.over(op, dims, budget, threads.count())?)
            }
            Self::Matrix(it) => Over::Matrix(it.over(dims)?),
        })
    }

    /// Computes an operator with several inputs, or returns `None` if the kernel must run instead.
    pub(crate) fn run(&self, task: &Task<'_>) -> Outcome<Option<Vec<Dense>>> {
        match self {
            Self::Cells(it) => it.run(task),
            Self::Integers(it) => it.run(task),
            Self::Convolution(_) | Self::Matrix(_) => Ok(None),
        }
    }
}

impl Over<'_> {
    /// Returns the dims of the result, and the order of its elements.
    pub(crate) fn result(&self) -> (&[usize], Order) {
        match self {
            Self::Convolution(it) => (&it.dims, Order::ChannelsLast),
            Self::Matrix(it) => (&it.dims, Order::RowMajor),
        }
    }

    /// Returns whether the results can end so.
    pub(crate) fn ends(&self, ending: Ending<'_>) -> bool {
        let (dims, order) = self.result();
        let adds = match self {
            Self::Convolution(it) => it.adds(),
            Self::Matrix(_) => true,
        };
        ending.added.is_none_or(|added| {
            adds && added.dtype() == DType::Float32 && added.dims() == dims && order.is_of(added)
        })
    }

    /// Computes the result. `then` is called with the offset of each finished part of it.
    ///
    /// # Errors
    /// If the input is not in single precision.
    pub(crate) fn run(
        self,
        x: &Dense,
        ending: Ending<'_>,
        buffers: &Buffers,
        then: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<Dense> {
        match self {
            Self::Convolution(it) => it.run(x, ending, buffers, then),
            Self::Matrix(it) => it.run(x, ending, buffers, then),
        }
    }
}

impl Prepared {
    /// Returns what was packed for a key, or packs it. Without a key, it is for one plan alone.
    ///
    /// # Errors
    /// If it does not fit into the budget: other kernels would give other bits.
    pub(crate) fn get(
        &self,
        key: Option<Key>,
        make: impl FnOnce() -> Outcome<Option<Weighted>>,
        budget: &Budget,
    ) -> Outcome<Option<Arc<Kept>>> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = key.as_ref().and_then(|key| kept().get(key).cloned()) {
            return Ok(known);
        }
        let made = make()?.map(|weighted| {
            let charge = budget.reserve(weighted.nbytes())?;
            Ok::<_, Finding>(Arc::new(Kept { weighted, _charge: charge }))
        });
        let made = made.transpose()?;
        Ok(match key {
            // Another thread may have packed the same constants.
            Some(key) => kept().entry(key).or_insert(made).clone(),
            None => made,
        })
    }
}

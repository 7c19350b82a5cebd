//! Operators whose constant inputs are packed when a program is planned.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use lodstone_model::{DType, Op};
use lodstone_schema::Finding;

use super::call::{EpilogueArguments, FastCall};
use super::convolution::{Convolution, ShapedConvolution};
use super::integers::{IntegerKind, Integers};
use super::matrix::{Matrix, ShapedMatrix};
use super::recurrent::{Cells, Gates, Unrolled};
use crate::budget::{Budget, Charge};
use crate::error::Outcome;
use crate::gemm::Buffers;
use crate::tensor::{Dense, Order};
use crate::threads::Threads;

/// How the constant inputs of an operator are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// The filter of a convolution.
    Convolution,
    /// The right matrix of a product.
    Matrix,
    /// The weights of recurrent cells.
    Cells(Gates),
    /// Weights of 8-bit integers.
    Integers(IntegerKind),
}

/// The packed constants of a program, for all its plans.
#[derive(Debug, Default)]
pub(crate) struct PackCache(Mutex<HashMap<Key, Option<Arc<PackedConstants>>>>);

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
        adjacent: Option<Vec<i64>>,
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
        kind: IntegerKind,
        is_transposed: bool,
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
pub(crate) enum PackedOperator {
    Cells(Cells),
    Convolution(Convolution),
    Integers(Integers),
    Matrix(Matrix),
}

/// A packed operator for a first input of certain dims.
pub(crate) enum ShapedOperator<'w> {
    Convolution(ShapedConvolution<'w>),
    Matrix(ShapedMatrix<'w>),
}

/// Packed constants, whose size is charged while they exist.
#[derive(Debug)]
pub(crate) struct PackedConstants {
    pub(crate) operator: PackedOperator,
    _charge: Charge,
}

impl PackedOperator {
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
    pub(crate) fn with_dims(
        &self,
        op: &Op,
        dims: &[usize],
        (budget, threads): (&Budget, &Threads),
    ) -> Outcome<ShapedOperator<'_>> {
        Ok(match self {
            Self::Cells(_) | Self::Integers(_) => {
                return Err(Finding::internal("the operator has several inputs"));
            }
            Self::Convolution(it) => {
                ShapedOperator::Convolution(it.with_dims(op, dims, budget, threads.count())?)
            }
            Self::Matrix(it) => ShapedOperator::Matrix(it.with_dims(dims)?),
        })
    }

    /// Computes an operator with several inputs, or returns `None` if the kernel must run instead.
    pub(crate) fn run(&self, call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
        match self {
            Self::Cells(it) => it.run(call),
            Self::Integers(it) => it.run(call),
            Self::Convolution(_) | Self::Matrix(_) => Ok(None),
        }
    }
}

impl ShapedOperator<'_> {
    /// Returns the dims of the result, and the order of its elements.
    pub(crate) fn result(&self) -> (&[usize], Order) {
        match self {
            Self::Convolution(it) => (&it.dims, Order::ChannelsLast),
            Self::Matrix(it) => (&it.dims, Order::RowMajor),
        }
    }

    /// Returns whether the epilogue can be applied.
    pub(crate) fn supports(&self, epilogue: EpilogueArguments<'_>) -> bool {
        let (dims, order) = self.result();
        let supports_residual = match self {
            Self::Convolution(it) => it.supports_residual(),
            Self::Matrix(_) => true,
        };
        epilogue.added.is_none_or(|added| {
            supports_residual
                && added.dtype() == DType::Float32
                && added.dims() == dims
                && order.is_of(added)
        })
    }

    /// Computes the result. `finish_block` is called with the offset of each finished part of it.
    ///
    /// # Errors
    /// If the input is not in single precision.
    pub(crate) fn run(
        self,
        x: &Dense,
        epilogue: EpilogueArguments<'_>,
        buffers: &Buffers,
        finish_block: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<Dense> {
        match self {
            Self::Convolution(it) => it.run(x, epilogue, buffers, finish_block),
            Self::Matrix(it) => it.run(x, epilogue, buffers, finish_block),
        }
    }
}

impl PackCache {
    /// Returns what was packed for a key, or packs it. Without a key, it is for one plan alone.
    ///
    /// # Errors
    /// If it does not fit into the budget: other kernels would give other bits.
    pub(crate) fn get(
        &self,
        key: Option<Key>,
        pack: impl FnOnce() -> Outcome<Option<PackedOperator>>,
        budget: &Budget,
    ) -> Outcome<Option<Arc<PackedConstants>>> {
        let cache = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(packed) = key.as_ref().and_then(|key| cache().get(key).cloned()) {
            return Ok(packed);
        }
        let packed = pack()?.map(|operator| {
            let charge = budget.reserve(operator.nbytes())?;
            Ok::<_, Finding>(Arc::new(PackedConstants { operator, _charge: charge }))
        });
        let packed = packed.transpose()?;
        Ok(match key {
            // Another thread may have packed the same constants.
            Some(key) => cache().entry(key).or_insert(packed).clone(),
            None => packed,
        })
    }
}

//! Arithmetic of tensors with broadcasting, for kernels that consist of several steps.

use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::{BoolStore, DType as BurnType, Scalar};
use burn_flex::{Flex, FlexTensor};

use super::integers::wrapped;
use super::tensor::{aligned, converted};
use crate::item::{Item, Outcome, burn_type};

impl Item {
    /// Adds two tensors.
    pub(super) fn plus(&self, other: &Self) -> Outcome<Self> {
        Ok(match aligned(self, other)? {
            (Self::Float(a), Self::Float(b)) => Self::Float(Flex::float_add(a, b)),
            (a, b) => wrapped(&a, &b, Flex::int_add, i64::wrapping_add)?,
        })
    }

    /// Subtracts a tensor.
    pub(super) fn minus(&self, other: &Self) -> Outcome<Self> {
        Ok(match aligned(self, other)? {
            (Self::Float(a), Self::Float(b)) => Self::Float(Flex::float_sub(a, b)),
            (a, b) => wrapped(&a, &b, Flex::int_sub, i64::wrapping_sub)?,
        })
    }

    /// Multiplies two tensors.
    pub(super) fn times(&self, other: &Self) -> Outcome<Self> {
        Ok(match aligned(self, other)? {
            (Self::Float(a), Self::Float(b)) => Self::Float(Flex::float_mul(a, b)),
            (a, b) => wrapped(&a, &b, Flex::int_mul, i64::wrapping_mul)?,
        })
    }

    /// Divides by a tensor.
    pub(super) fn over(&self, other: &Self) -> Outcome<Self> {
        let (a, b) = aligned(self, other)?;
        Ok(Self::Float(Flex::float_div(a.float()?, b.float()?)))
    }

    /// Multiplies by a scalar.
    pub(super) fn scaled(&self, factor: f64) -> Outcome<Self> {
        self.map(|x| Flex::float_mul_scalar(x, Scalar::Float(factor)))
    }

    /// Adds a scalar.
    pub(super) fn shifted(&self, more: f64) -> Outcome<Self> {
        self.map(|x| Flex::float_add_scalar(x, Scalar::Float(more)))
    }

    /// Applies a function to each element.
    pub(super) fn map(&self, of: impl FnOnce(FlexTensor) -> FlexTensor) -> Outcome<Self> {
        Ok(Self::Float(of(self.float()?)))
    }

    /// Raises each element to a power.
    pub(super) fn power(&self, exponent: f64) -> Outcome<Self> {
        let exponent: Self = Self::filled(exponent, self.kind()?, &self.shape())?;
        Ok(Self::Float(Flex::float_powf(self.float()?, exponent.float()?)))
    }

    /// Returns the mean over axes, which become dims of 1.
    pub(super) fn mean(&self, axes: &[usize]) -> Outcome<Self> {
        Ok(Self::Float(axes.iter().fold(self.float()?, |x, at| Flex::float_mean_dim(x, *at))))
    }

    /// Returns the sum over axes, which become dims of 1.
    pub(super) fn total(&self, axes: &[usize]) -> Outcome<Self> {
        Ok(Self::Float(axes.iter().fold(self.float()?, |x, at| Flex::float_sum_dim(x, *at))))
    }

    /// Returns burn's name of the element type.
    pub(super) fn kind(&self) -> Outcome<BurnType> {
        burn_type(self.dtype()?)
    }

    /// Converts the elements to another type.
    pub(super) fn cast(&self, to: BurnType) -> Outcome<Self> {
        if self.kind()? == to { Ok(self.clone()) } else { converted(self.clone(), to) }
    }

    /// Widens half precision, which is too coarse for long sums, to single precision.
    pub(super) fn widened(&self) -> Outcome<Self> {
        match self.kind()? {
            BurnType::F16 | BurnType::BF16 => self.cast(BurnType::F32),
            _ => Ok(self.clone()),
        }
    }

    /// Returns the element-wise maximum or minimum of both; NaN in either input gives NaN.
    pub(super) fn extreme(&self, other: &Self, greatest: bool) -> Outcome<Self> {
        Ok(match aligned(self, other)? {
            (Self::Float(a), Self::Float(b)) => {
                let better = if greatest { Flex::float_greater } else { Flex::float_lower };
                let takes = better(b.clone(), a.clone(), BoolStore::Native);
                let none = Flex::float_is_nan(b.clone(), BoolStore::Native);
                Self::Float(Flex::float_mask_where(a, Flex::bool_or(takes, none), b))
            }
            (Self::Bool(a), Self::Bool(b)) if greatest => Self::Bool(Flex::bool_or(a, b)),
            (Self::Bool(a), Self::Bool(b)) => Self::Bool(Flex::bool_and(a, b)),
            (a, b) => {
                let (a, b) = (a.int()?, b.int()?);
                let better = if greatest { Flex::int_greater } else { Flex::int_lower };
                let takes = better(b.clone(), a.clone(), BoolStore::Native);
                Self::Int(Flex::int_mask_where(a, takes, b))
            }
        })
    }
}

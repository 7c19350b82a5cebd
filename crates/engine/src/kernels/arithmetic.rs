//! Arithmetic of tensors, for kernels that are made of several steps: extents are laid over each other.

use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::{BoolStore, DType as BurnType, Scalar};
use burn_flex::{Flex, FlexTensor};

use super::integers::wrapped;
use super::tensor::{aligned, converted};
use crate::item::{Item, Outcome, burn_type};

impl Item {
    /// The sum of both.
    pub(super) fn plus(&self, other: &Self) -> Outcome<Self> {
        Ok(match aligned(self, other)? {
            (Self::Float(a), Self::Float(b)) => Self::Float(Flex::float_add(a, b)),
            (a, b) => wrapped(&a, &b, Flex::int_add, i64::wrapping_add)?,
        })
    }

    /// What is left without the other.
    pub(super) fn minus(&self, other: &Self) -> Outcome<Self> {
        Ok(match aligned(self, other)? {
            (Self::Float(a), Self::Float(b)) => Self::Float(Flex::float_sub(a, b)),
            (a, b) => wrapped(&a, &b, Flex::int_sub, i64::wrapping_sub)?,
        })
    }

    /// The product of both.
    pub(super) fn times(&self, other: &Self) -> Outcome<Self> {
        Ok(match aligned(self, other)? {
            (Self::Float(a), Self::Float(b)) => Self::Float(Flex::float_mul(a, b)),
            (a, b) => wrapped(&a, &b, Flex::int_mul, i64::wrapping_mul)?,
        })
    }

    /// Fractions.
    pub(super) fn over(&self, other: &Self) -> Outcome<Self> {
        let (a, b) = aligned(self, other)?;
        Ok(Self::Float(Flex::float_div(a.float()?, b.float()?)))
    }

    /// So many times as much.
    pub(super) fn scaled(&self, factor: f64) -> Outcome<Self> {
        self.map(|x| Flex::float_mul_scalar(x, Scalar::Float(factor)))
    }

    /// So much more.
    pub(super) fn shifted(&self, more: f64) -> Outcome<Self> {
        self.map(|x| Flex::float_add_scalar(x, Scalar::Float(more)))
    }

    /// A function of each number.
    pub(super) fn map(&self, of: impl FnOnce(FlexTensor) -> FlexTensor) -> Outcome<Self> {
        Ok(Self::Float(of(self.float()?)))
    }

    /// Powers of each number.
    pub(super) fn power(&self, exponent: f64) -> Outcome<Self> {
        let exponent: Self = Self::filled(exponent, self.kind()?, &self.shape())?;
        Ok(Self::Float(Flex::float_powf(self.float()?, exponent.float()?)))
    }

    /// The mean over axes, which become extents of 1.
    pub(super) fn mean(&self, axes: &[usize]) -> Outcome<Self> {
        Ok(Self::Float(axes.iter().fold(self.float()?, |x, at| Flex::float_mean_dim(x, *at))))
    }

    /// The sum over axes, which become extents of 1.
    pub(super) fn total(&self, axes: &[usize]) -> Outcome<Self> {
        Ok(Self::Float(axes.iter().fold(self.float()?, |x, at| Flex::float_sum_dim(x, *at))))
    }

    /// What burn calls the type of the elements.
    pub(super) fn kind(&self) -> Outcome<BurnType> {
        burn_type(self.dtype()?)
    }

    /// The same numbers of another type.
    pub(super) fn cast(&self, to: BurnType) -> Outcome<Self> {
        if self.kind()? == to { Ok(self.clone()) } else { converted(self.clone(), to) }
    }

    /// Halves of numbers are too coarse to add many of them: those are computed with in single precision.
    pub(super) fn widened(&self) -> Outcome<Self> {
        match self.kind()? {
            BurnType::F16 | BurnType::BF16 => self.cast(BurnType::F32),
            _ => Ok(self.clone()),
        }
    }

    /// The greater or the less of both; what is no number stays none, from whichever side it comes.
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

//! Arithmetic of tensors, for kernels that are made of several steps: extents are laid over each other.

use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, BoolStore, DType as BurnType, Scalar};

use super::tensor::{aligned, converted};
use crate::item::{Item, Outcome, burn_type};

impl<B: Backend> Item<B> {
    /// The sum of both.
    pub(super) fn plus(&self, other: &Self) -> Outcome<Self> {
        Ok(match aligned(self, other)? {
            (Self::Float(a), Self::Float(b)) => Self::Float(B::float_add(a, b)),
            (a, b) => Self::Int(B::int_add(a.int()?, b.int()?)),
        })
    }

    /// What is left without the other.
    pub(super) fn minus(&self, other: &Self) -> Outcome<Self> {
        Ok(match aligned(self, other)? {
            (Self::Float(a), Self::Float(b)) => Self::Float(B::float_sub(a, b)),
            (a, b) => Self::Int(B::int_sub(a.int()?, b.int()?)),
        })
    }

    /// The product of both.
    pub(super) fn times(&self, other: &Self) -> Outcome<Self> {
        Ok(match aligned(self, other)? {
            (Self::Float(a), Self::Float(b)) => Self::Float(B::float_mul(a, b)),
            (a, b) => Self::Int(B::int_mul(a.int()?, b.int()?)),
        })
    }

    /// Fractions.
    pub(super) fn over(&self, other: &Self) -> Outcome<Self> {
        let (a, b) = aligned(self, other)?;
        Ok(Self::Float(B::float_div(a.float()?, b.float()?)))
    }

    /// So many times as much.
    pub(super) fn scaled(&self, factor: f64) -> Outcome<Self> {
        self.map(|x| B::float_mul_scalar(x, Scalar::Float(factor)))
    }

    /// So much more.
    pub(super) fn shifted(&self, more: f64) -> Outcome<Self> {
        self.map(|x| B::float_add_scalar(x, Scalar::Float(more)))
    }

    /// A function of each number.
    pub(super) fn map(&self, of: impl FnOnce(FloatTensor<B>) -> FloatTensor<B>) -> Outcome<Self> {
        Ok(Self::Float(of(self.float()?)))
    }

    /// The mean over axes, which become extents of 1.
    pub(super) fn mean(&self, axes: &[usize]) -> Outcome<Self> {
        Ok(Self::Float(axes.iter().fold(self.float()?, |x, at| B::float_mean_dim(x, *at))))
    }

    /// The sum over axes, which become extents of 1.
    pub(super) fn total(&self, axes: &[usize]) -> Outcome<Self> {
        Ok(Self::Float(axes.iter().fold(self.float()?, |x, at| B::float_sum_dim(x, *at))))
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
                let better = if greatest { B::float_greater } else { B::float_lower };
                let takes = better(b.clone(), a.clone(), BoolStore::Native);
                let none = B::float_is_nan(b.clone(), BoolStore::Native);
                Self::Float(B::float_mask_where(a, B::bool_or(takes, none), b))
            }
            (Self::Bool(a), Self::Bool(b)) if greatest => Self::Bool(B::bool_or(a, b)),
            (Self::Bool(a), Self::Bool(b)) => Self::Bool(B::bool_and(a, b)),
            (a, b) => {
                let (a, b) = (a.int()?, b.int()?);
                let better = if greatest { B::int_greater } else { B::int_lower };
                let takes = better(b.clone(), a.clone(), BoolStore::Native);
                Self::Int(B::int_mask_where(a, takes, b))
            }
        })
    }
}

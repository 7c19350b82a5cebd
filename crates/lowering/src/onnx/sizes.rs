//! Sizes that are known, or that the program computes.

use std::fmt;

use lodstone_model::DType;
use lodstone_schema::Finding;
use lodstone_schema::numbers::exact;

use super::required::{product, required_dim};
use super::{Graph, Value, int};

type Made<T = Value> = Result<T, Finding>;

/// A size in a list of sizes.
#[derive(Clone, Debug)]
pub(crate) enum Size {
    Known(i64),
    /// A scalar `int64` value.
    Value(Value),
}

/// The precision in which a framework multiplies sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Precision {
    Single,
    Double,
}

impl Size {
    /// Returns the size, if it is known.
    pub(crate) const fn known(&self) -> Option<i64> {
        match self {
            Self::Known(size) => Some(*size),
            Self::Value(_) => None,
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(size) => size.fmt(f),
            Self::Value(value) => write!(f, "`{}`", value.name()),
        }
    }
}

/// Returns all sizes, if they are known.
pub(crate) fn known_sizes(sizes: &[Size]) -> Option<Vec<i64>> {
    sizes.iter().map(Size::known).collect()
}

impl Precision {
    /// Returns a dim times a scale, rounded down.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "as frameworks"
    )]
    pub(crate) fn scaled(self, dim: i64, scale: f64) -> Made<i64> {
        let size = match self {
            Self::Single => f64::from((dim as f32 * scale as f32).floor()),
            Self::Double => (dim as f64 * scale).floor(),
        };
        match size.is_finite() {
            true => exact(size as i128),
            false => Err(format!("expected a finite size, found {dim} times {scale}").into()),
        }
    }

    const fn dtype(self) -> DType {
        match self {
            Self::Single => DType::Float32,
            Self::Double => DType::Float64,
        }
    }
}

impl Graph {
    /// Returns a dim of a value.
    pub(crate) fn size_of(&mut self, value: &Value, axis: i64) -> Made<Size> {
        match value.size(axis)? {
            Some(size) => Ok(Size::Known(size)),
            None => self.extent(value, axis).map(Size::Value),
        }
    }

    /// Returns a size as a scalar.
    pub(crate) fn scalar_of(&mut self, size: &Size) -> Made {
        match size {
            Size::Known(size) => Ok(self.long(*size)),
            Size::Value(value) => self.cast(value, DType::Int64),
        }
    }

    /// Returns a list of sizes as a tensor of shape `[count]`.
    pub(crate) fn list_of(&mut self, sizes: &[Size]) -> Made {
        if let Some(known) = known_sizes(sizes) {
            return Ok(self.longs(&known));
        }
        let mut parts = Vec::new();
        for size in sizes {
            parts.push(match size {
                Size::Known(size) => self.longs(&[*size]),
                Size::Value(value) => {
                    let value = self.cast(value, DType::Int64)?;
                    self.reshape(&value, &[1])?
                }
            });
        }
        self.concat(&parts.iter().collect::<Vec<_>>(), 0)
    }

    /// Returns a size times a scale, rounded down.
    pub(crate) fn scaled(&mut self, size: &Size, scale: f64, precision: Precision) -> Made<Size> {
        let size = match size {
            Size::Known(size) => return precision.scaled(*size, scale).map(Size::Known),
            Size::Value(size) => self.cast(size, precision.dtype())?,
        };
        let product = self.times(&size, scale)?;
        let floor = self.call("Floor", &[&product], [])?;
        self.cast(&floor, DType::Int64).map(Size::Value)
    }

    /// Returns the sum of two sizes.
    pub(crate) fn sum_of(&mut self, left: &Size, right: &Size) -> Made<Size> {
        self.both(left, right, i64::checked_add, "Add")
    }

    /// Returns the difference of two sizes.
    pub(crate) fn difference_of(&mut self, left: &Size, right: &Size) -> Made<Size> {
        self.both(left, right, i64::checked_sub, "Sub")
    }

    /// Returns the product of two sizes.
    pub(crate) fn product_of(&mut self, left: &Size, right: &Size) -> Made<Size> {
        self.both(left, right, i64::checked_mul, "Mul")
    }

    /// Returns the product of all sizes.
    pub(crate) fn product_of_all(&mut self, sizes: &[Size]) -> Made<Size> {
        sizes.iter().try_fold(Size::Known(1), |all, size| self.product_of(&all, size))
    }

    /// Returns a size divided by a positive number, rounded down.
    pub(crate) fn quotient_of(&mut self, size: &Size, by: i64) -> Made<Size> {
        self.both(size, &Size::Known(by), i64::checked_div_euclid, "Div")
    }

    /// Returns the rest of a size, divided by a positive number.
    pub(crate) fn rest_of(&mut self, size: &Size, by: i64) -> Made<Size> {
        self.both(size, &Size::Known(by), i64::checked_rem_euclid, "Mod")
    }

    /// Returns the larger of a size and a number.
    pub(crate) fn at_least(&mut self, size: &Size, least: i64) -> Made<Size> {
        self.both(size, &Size::Known(least), |size, least| Some(size.max(least)), "Max")
    }

    /// Returns the sizes in a list, whose length must be known.
    pub(crate) fn sizes_in(&mut self, list: &Value) -> Made<Vec<Size>> {
        if let Some(known) = list.info().ints() {
            return Ok(known.into_iter().map(Size::Known).collect());
        }
        let mut sizes = Vec::new();
        for place in 0..required_dim(list, 0)? {
            sizes.push(Size::Value(self.gather_scalar(list, place)?));
        }
        Ok(sizes)
    }

    /// Returns all dims of a value.
    pub(crate) fn sizes_of(&mut self, value: &Value) -> Made<Vec<Size>> {
        value.rank()?.numbers().map(|axis| self.size_of(value, axis)).collect()
    }

    /// Reshapes to sizes, of which one may be -1.
    pub(crate) fn reshape_to(&mut self, value: &Value, sizes: &[Size]) -> Made {
        let shape = self.list_of(sizes)?;
        match shape.info().ints() {
            Some(known) => self.reshape(value, &known),
            None => self.call("Reshape", &[value, &shape], [int("allowzero", 1)]),
        }
    }

    /// Creates a tensor of a type and sizes that is filled with `number`.
    pub(crate) fn filled_to(&mut self, dtype: DType, number: f64, sizes: &[Size]) -> Made {
        let sizes = self.list_of(sizes)?;
        self.filled_as(dtype, number, &sizes)
    }

    /// Broadcasts to sizes.
    pub(crate) fn expand_to(&mut self, value: &Value, sizes: &[Size]) -> Made {
        if let Some(known) = known_sizes(sizes) {
            product(&known)?;
            return self.expand(value, &known);
        }
        let shape = self.list_of(sizes)?;
        self.call("Expand", &[value, &shape], [])
    }

    /// Broadcasts to the dims of another value.
    pub(crate) fn expand_as(&mut self, value: &Value, like: &Value) -> Made {
        let sizes = self.sizes_of(like)?;
        self.expand_to(value, &sizes)
    }

    /// Returns the sizes to which values broadcast.
    pub(crate) fn broadcast_sizes(&mut self, values: &[Value]) -> Made<Vec<Size>> {
        let mut all = Vec::new();
        for value in values {
            let own = self.sizes_of(value)?;
            // Aligned at the end; missing sizes are 1.
            let missing = own.len().saturating_sub(all.len());
            all.splice(0..0, vec![Size::Known(1); missing]);
            for (size, own) in all.iter_mut().rev().zip(own.into_iter().rev()) {
                if !matches!(own, Size::Known(1)) && matches!(size, Size::Known(1) | Size::Value(_))
                {
                    *size = own;
                }
            }
        }
        Ok(all)
    }

    fn both(
        &mut self,
        left: &Size,
        right: &Size,
        known: fn(i64, i64) -> Option<i64>,
        kind: &str,
    ) -> Made<Size> {
        if let (Size::Known(left), Size::Known(right)) = (left, right) {
            let size = known(*left, *right);
            return size
                .map(Size::Known)
                .ok_or_else(|| format!("the sizes {left} and {right} are too large").into());
        }
        let (left, right) = (self.scalar_of(left)?, self.scalar_of(right)?);
        self.call(kind, &[&left, &right], []).map(Size::Value)
    }
}

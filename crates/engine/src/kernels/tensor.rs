//! The basic operations on tensors of any class of elements that kernels are built from.

use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::{BoolStore, DType as BurnType, Scalar, Slice, TensorData};
use burn_flex::{Flex, FlexTensor};

use super::{at_mut, count};
use crate::item::{Item, Outcome, burn_type};

/// The maximum number of elements of a tensor that is generated from dims alone.
pub(super) const MAX_ELEMENTS: usize = 1 << 31;

/// Converts a dim, an index or a count to an integer.
pub(super) fn long(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a float to an integer: large values saturate, and NaN becomes 0.
#[expect(clippy::cast_possible_truncation, reason = "it saturates")]
pub(super) fn whole(number: f64) -> i64 {
    number as i64
}

/// Converts a float to a number of elements.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
pub(super) fn elements(number: f64) -> usize {
    number as usize
}

/// Returns the broadcast dims of both.
pub(crate) fn common(a: &[usize], b: &[usize]) -> Outcome<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |shape: &[usize], place: usize| {
        let behind = rank - place;
        shape.len().checked_sub(behind).and_then(|at| shape.get(at)).copied().unwrap_or(1)
    };
    let dim = |place: usize| match (at(a, place), at(b, place)) {
        (one, other) if one == other => Ok(one),
        (1, other) => Ok(other),
        (one, 1) => Ok(one),
        _ => Err(format!("expected shapes that broadcast, found {a:?} and {b:?}").into()),
    };
    let dims: Vec<usize> = (0..rank).map(dim).collect::<Outcome<_>>()?;
    bounded(&dims)?;
    Ok(dims)
}

impl Item {
    /// Reshapes the elements.
    pub(crate) fn reshaped(self, shape: Vec<usize>) -> Self {
        if self.shape() == shape {
            return self;
        }
        match self {
            Self::Float(tensor) => Self::Float(Flex::float_reshape(tensor, shape.into())),
            Self::Int(tensor) => Self::Int(Flex::int_reshape(tensor, shape.into())),
            Self::Bool(tensor) => Self::Bool(Flex::bool_reshape(tensor, shape.into())),
        }
    }

    /// Broadcasts to dims that are known to fit.
    pub(crate) fn expanded(self, shape: &[usize]) -> Self {
        let found = self.shape();
        if found == shape {
            return self;
        }
        let missing = shape.len().saturating_sub(found.len());
        let full = [vec![1; missing], found].concat();
        match self.reshaped(full) {
            Self::Float(tensor) => Self::Float(Flex::float_expand(tensor, shape.to_vec().into())),
            Self::Int(tensor) => Self::Int(Flex::int_expand(tensor, shape.to_vec().into())),
            Self::Bool(tensor) => Self::Bool(Flex::bool_expand(tensor, shape.to_vec().into())),
        }
    }
}

/// Checks that both have the same element type.
pub(super) fn alike(a: &Item, b: &Item) -> Outcome<()> {
    match (a.dtype()?, b.dtype()?) {
        (a, b) if a == b => Ok(()),
        (a, b) => Err(format!("element types {a} and {b} differ").into()),
    }
}

/// Broadcasts both to the dims of the result.
pub(super) fn aligned(a: &Item, b: &Item) -> Outcome<(Item, Item)> {
    alike(a, b)?;
    let shape = common(&a.shape(), &b.shape())?;
    Ok((a.clone().expanded(&shape), b.clone().expanded(&shape)))
}

impl Item {
    /// Fills a tensor with one value.
    pub(super) fn filled(value: f64, dtype: BurnType, shape: &[usize]) -> Outcome<Self> {
        let one = Self::from_data(TensorData::new(vec![value], [1]));
        Ok(converted(one, dtype)?.reshaped(vec![1; shape.len()]).expanded(shape))
    }

    /// Creates a tensor of floats.
    pub(super) fn numbers(values: Vec<f64>, dtype: BurnType, shape: &[usize]) -> Outcome<Self> {
        let list = TensorData::new(values, shape.to_vec());
        converted(Self::from_data(list), dtype)
    }

    /// Creates a tensor of booleans.
    pub(super) fn truths(values: Vec<bool>, shape: &[usize]) -> Self {
        Self::from_data(TensorData::new(values, shape.to_vec()))
    }

    /// Selects elements of an axis by index; all indices must be in range.
    pub(super) fn selected(self, axis: usize, places: &[i64]) -> Outcome<Self> {
        let mut shape = self.shape();
        *at_mut(&mut shape, axis)? = places.len();
        if bounded(&shape)? == 0 {
            return Self::filled(0.0, burn_type(self.dtype()?)?, &shape);
        }
        let list = Self::longs(places).int()?;
        Ok(match self {
            Self::Float(tensor) => Self::Float(Flex::float_select(tensor, axis, list)),
            Self::Int(tensor) => Self::Int(Flex::int_select(tensor, axis, list)),
            // Booleans are cast to numbers here, which some backends would leave as the result.
            Self::Bool(_) => {
                let numbers = converted(self, BurnType::U8)?.int()?;
                let made = Self::Int(Flex::int_select(numbers, axis, list));
                converted(made, BurnType::Bool(BoolStore::Native))?
            }
        })
    }

    /// Gathers elements of each row along an axis by index; all indices must be in range.
    pub(super) fn gathered(self, axis: usize, places: FlexTensor) -> Outcome<Self> {
        Ok(match self {
            Self::Float(tensor) => Self::Float(Flex::float_gather(axis, tensor, places)),
            Self::Int(tensor) => Self::Int(Flex::int_gather(axis, tensor, places)),
            Self::Bool(_) => {
                let numbers = converted(self, BurnType::U8)?.int()?;
                let made = Self::Int(Flex::int_gather(axis, numbers, places));
                converted(made, BurnType::Bool(BoolStore::Native))?
            }
        })
    }

    /// Broadcasts to dims, if it fits.
    pub(super) fn fitted(self, shape: &[usize]) -> Outcome<Self> {
        match common(&self.shape(), shape)? == shape {
            true => Ok(self.expanded(shape)),
            false => Err(format!("{:?} does not broadcast to {shape:?}", self.shape()).into()),
        }
    }

    /// Returns `yes` where `mask` is true, and these elements elsewhere. All have the same dims.
    pub(super) fn masked(self, mask: FlexTensor, yes: &Self) -> Outcome<Self> {
        Ok(match self {
            Self::Float(no) => Self::Float(Flex::float_mask_where(no, mask, yes.float()?)),
            Self::Int(no) => Self::Int(Flex::int_mask_where(no, mask, yes.int()?)),
            Self::Bool(no) => Self::Bool(Flex::bool_mask_where(no, mask, yes.bool()?)),
        })
    }

    /// Returns whether each element is true or not 0, in row-major order.
    pub(crate) fn to_truths(&self) -> Outcome<Vec<bool>> {
        let truths = converted(self.clone(), BurnType::Bool(BoolStore::Native))?;
        Ok(truths.into_data()?.iter::<bool>().collect())
    }

    /// Permutes the dims.
    pub(super) fn permuted(self, order: &[usize]) -> Self {
        match self {
            Self::Float(tensor) => Self::Float(Flex::float_permute(tensor, order)),
            Self::Int(tensor) => Self::Int(Flex::int_permute(tensor, order)),
            Self::Bool(tensor) => Self::Bool(Flex::bool_permute(tensor, order)),
        }
    }

    /// Slices each dim.
    pub(super) fn sliced(self, slices: &[Slice]) -> Self {
        match self {
            Self::Float(tensor) => Self::Float(Flex::float_slice(tensor, slices)),
            Self::Int(tensor) => Self::Int(Flex::int_slice(tensor, slices)),
            Self::Bool(tensor) => Self::Bool(Flex::bool_slice(tensor, slices)),
        }
    }

    /// Slices an axis from `start` to before `end`.
    pub(super) fn narrowed(self, axis: usize, start: usize, end: usize) -> Self {
        let piece = |(place, dim): (usize, usize)| match place == axis {
            true => Slice::new(start.cast_signed(), Some(end.cast_signed()), 1),
            false => Slice::new(0, Some(dim.cast_signed()), 1),
        };
        let slices: Vec<Slice> = self.shape().into_iter().enumerate().map(piece).collect();
        self.sliced(&slices)
    }

    /// Concatenates along an axis.
    pub(super) fn concatenated(items: Vec<Self>, axis: usize) -> Outcome<Self> {
        for pair in items.windows(2) {
            if let [one, other] = pair {
                alike(one, other)?;
            }
        }
        Ok(match items.first() {
            None => return Err("the inputs are missing".into()),
            Some(Self::Float(_)) => {
                let parts = items.iter().map(Self::float).collect::<Outcome<_>>()?;
                Self::Float(Flex::float_cat(parts, axis))
            }
            Some(Self::Int(_)) => {
                let parts = items.iter().map(Self::int).collect::<Outcome<_>>()?;
                Self::Int(Flex::int_cat(parts, axis))
            }
            Some(Self::Bool(_)) => {
                let parts = items.iter().map(Self::bool).collect::<Outcome<_>>()?;
                Self::Bool(Flex::bool_cat(parts, axis))
            }
        })
    }
}

/// Converts integers to dims, if a tensor of them can be created.
pub(super) fn dims_from(dims: &[i64]) -> Outcome<Vec<usize>> {
    let dims: Vec<usize> = dims.iter().map(|dim| count(*dim)).collect::<Outcome<_>>()?;
    bounded(&dims)?;
    Ok(dims)
}

/// Returns the number of elements of dims, if a tensor of them can be created.
pub(super) fn bounded(dims: &[usize]) -> Outcome<usize> {
    // Dims beside a zero are limited too: their products are computed elsewhere.
    let some = dims.iter().filter(|dim| **dim > 0);
    let whole = some.into_iter().try_fold(1_usize, |all, dim| all.checked_mul(*dim));
    match whole.filter(|all| *all <= MAX_ELEMENTS) {
        Some(whole) => Ok(if dims.contains(&0) { 0 } else { whole }),
        None => Err(format!("{dims:?} exceed the limit of {MAX_ELEMENTS} elements").into()),
    }
}

/// Converts elements to another type: they are rounded towards 0, or to the nearest value of the type.
pub(crate) fn converted(item: Item, to: BurnType) -> Outcome<Item> {
    let is_bool = matches!(to, BurnType::Bool(_));
    Ok(match item {
        Item::Float(x) if is_bool => {
            Item::Bool(Flex::float_not_equal_elem(x, Scalar::Float(0.0), BoolStore::Native))
        }
        Item::Int(x) if is_bool => {
            Item::Bool(Flex::int_not_equal_elem(x, Scalar::Int(0), BoolStore::Native))
        }
        Item::Bool(x) if is_bool => Item::Bool(x),
        Item::Float(x) if to.is_float() => Item::Float(Flex::float_cast(x, to.into())),
        Item::Int(x) if to.is_float() => Item::Float(Flex::int_into_float(x, to.into())),
        Item::Bool(x) if to.is_float() => Item::Float(Flex::bool_into_float(x, to.into())),
        Item::Float(x) => Item::Int(Flex::float_into_int(Flex::float_trunc(x), to.into())),
        Item::Int(x) => Item::Int(Flex::int_cast(x, to.into())),
        Item::Bool(x) => Item::Int(Flex::bool_into_int(x, to.into())),
    })
}

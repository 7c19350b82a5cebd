//! Elements in the order that a kernel reads and writes.

use std::ops::{Deref, Range};

use bytes::Bytes;
use lodstone_model::DType;
use lodstone_schema::Finding;
use pulp::bytemuck::{Pod, try_cast_slice};
use smallvec::smallvec;

use super::blocks::Blocks;
use super::dense::Dense;
use super::element::Element;
use crate::budget::probe;
use crate::dims::{Dims, Strides};
use crate::error::Outcome;
use crate::threads::each_chunk;

/// The elements of a tensor in one order: its own, or a copy.
pub(crate) enum Elements<T> {
    /// The bytes of the tensor, and the places of its elements.
    Own(Bytes, Range<usize>),
    Copy(Vec<T>),
}

impl<T: Element> Deref for Elements<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Own(bytes, range) => try_cast_slice(bytes)
                .ok()
                .and_then(|all| all.get(range.clone()))
                .unwrap_or_default(),
            Self::Copy(values) => values,
        }
    }
}

impl<T: Element> Elements<T> {
    /// Returns the elements in a list of their own.
    pub(crate) fn into_vec(self) -> Vec<T> {
        match self {
            Self::Copy(values) => values,
            own => own.to_vec(),
        }
    }
}

/// The order of the elements of a tensor in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As in the dims.
    RowMajor,
    /// Channels innermost.
    ChannelsLast,
}

impl Order {
    /// Returns the strides of a tensor in this order.
    pub(crate) fn strides(self, dims: &[usize]) -> Strides {
        let mut strides: Strides = smallvec![0; dims.len()];
        let mut stride = 1_usize;
        if self == Self::RowMajor {
            for (place, dim) in strides.iter_mut().zip(dims).rev() {
                *place = stride.cast_signed();
                stride = stride.saturating_mul(*dim);
            }
            return strides;
        }
        for at in self.axes(dims.len()).rev() {
            if let (Some(place), Some(dim)) = (strides.get_mut(at), dims.get(at)) {
                *place = stride.cast_signed();
                stride = stride.saturating_mul(*dim);
            }
        }
        strides
    }

    /// Returns the dims, outermost in memory first.
    pub(crate) fn dims(self, dims: &[usize]) -> impl Iterator<Item = usize> {
        self.axes(dims.len()).filter_map(|at| dims.get(at).copied())
    }

    /// Returns the indices of the dims, outermost in memory first.
    pub(crate) fn axes(self, rank: usize) -> impl DoubleEndedIterator<Item = usize> {
        let is_last = self == Self::ChannelsLast && rank > 1;
        let spatial = if is_last { 2..rank } else { 1..rank };
        let channels = if is_last { 1..2 } else { 0..0 };
        (0..rank.min(1)).chain(spatial).chain(channels)
    }

    /// Returns the other order.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::RowMajor => Self::ChannelsLast,
            Self::ChannelsLast => Self::RowMajor,
        }
    }

    /// Returns whether a tensor is stored without gaps in this order. The strides of dims of one element do not matter.
    pub(crate) fn is_of(self, tensor: &Dense) -> bool {
        let (dims, strides) = (tensor.dims(), tensor.strides());
        let mut expected = 1_usize;
        let mut is_next = |(dim, stride): (&usize, &isize)| {
            let is_next = *dim == 1 || *stride == expected.cast_signed();
            expected = expected.saturating_mul(*dim);
            is_next
        };
        match self {
            Self::RowMajor => dims.iter().zip(strides).rev().all(is_next),
            Self::ChannelsLast => self
                .axes(dims.len())
                .rev()
                .all(|at| dims.get(at).zip(strides.get(at)).is_some_and(&mut is_next)),
        }
    }
}

/// Returns the elements of a tensor of a known type in an order, copied if they are stored in another one.
///
/// # Errors
/// If they are of another type.
pub(crate) fn elements<T: Element>(tensor: &Dense, order: Order) -> Outcome<Elements<T>> {
    let whole = tensor.typed::<T>()?;
    let count = tensor.count();
    if count == 0 {
        return Ok(Elements::Copy(Vec::new()));
    }
    if order.is_of(tensor) {
        let range = tensor.offset()..tensor.offset() + count;
        if whole.get(range.clone()).is_none() {
            return Err(Finding::internal("elements are outside of their storage"));
        }
        return Ok(Elements::Own(tensor.aligned().clone(), range));
    }
    probe(tensor.nbytes())?;
    if order.other().is_of(tensor) {
        let from = elements(tensor, order.other())?;
        return exchanged(&from, tensor.dims(), order).map(Elements::Copy);
    }
    let dims = tensor.dims();
    match order {
        Order::RowMajor => Blocks::new(tensor, dims)?.copied().map(Elements::Copy),
        Order::ChannelsLast => {
            let axes: Vec<usize> = order.axes(dims.len()).collect();
            let turned = tensor.permuted(&axes)?;
            Blocks::new(&turned, turned.dims())?.copied().map(Elements::Copy)
        }
    }
}

/// The number of rows and columns of a matrix that are transposed at a time.
const SQUARE: usize = 64;

/// Returns the elements of a tensor of some dims, which are in the other order, in an order.
pub(crate) fn exchanged<T: Pod + Send + Sync>(
    from: &[T],
    dims: &[usize],
    to: Order,
) -> Outcome<Vec<T>> {
    let mut made = vec![T::zeroed(); from.len()];
    let [_, channels, spatial @ ..] = dims else { return Ok(made) };
    let pixels = spatial.iter().product();
    let (rows, columns) = match to {
        Order::RowMajor => (pixels, *channels),
        Order::ChannelsLast => (*channels, pixels),
    };
    let size = (rows * columns).max(1);
    for (from, into) in from.chunks_exact(size).zip(made.chunks_exact_mut(size)) {
        each_chunk(into, SQUARE * rows, |(): &mut (), number, into| {
            // A few rows at a time, so that they stay in the cache.
            for (block, from) in from.chunks(SQUARE * columns).enumerate() {
                for (column, into) in into.chunks_exact_mut(rows).enumerate() {
                    let into = into.get_mut(block * SQUARE..).unwrap_or_default();
                    let from = from.get(number * SQUARE + column..).unwrap_or_default();
                    let pairs = into.iter_mut().zip(from.iter().step_by(columns));
                    pairs.for_each(|(into, from)| *into = *from);
                }
            }
            Ok(())
        })?;
    }
    Ok(made)
}

/// Wraps the bytes of elements in an order.
///
/// # Errors
/// If their number does not match the dims.
pub(crate) fn wrapped(
    bytes: Bytes,
    dims: impl AsRef<[usize]>,
    order: Order,
    dtype: DType,
) -> Outcome<Dense> {
    let dims = Dims::from_slice(dims.as_ref());
    let strides = order.strides(&dims);
    Dense::with_strides(dtype, dims, strides, bytes)
}

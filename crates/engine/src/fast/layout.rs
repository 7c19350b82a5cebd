//! Tensors of images whose channels are innermost.
//!
//! Their dims are those of ONNX (batch, channels, spatial dims); only their strides differ. Kernels that expect another
//! order copy them, as they do with any transposed tensor.

use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::sync::Arc;

use burn_backend::{AllocationProperty, BoolStore, DType as BurnType, Element};
use burn_flex::FlexTensor;
use lodstone_model::DType;
use lodstone_schema::Finding;
use pulp::bytemuck::{Pod, cast_slice};

use super::buffers::Buffer;
use crate::budget::probe;
use crate::dense::Dense;
use crate::item::Outcome;
use crate::threads::each_chunk;
use crate::value::Value;

/// The elements of a tensor in one order: its own, or a copy.
pub(crate) enum Elements<T> {
    Own(FlexTensor, Range<usize>),
    Copy(Vec<T>),
}

/// The elements of a tensor in single precision.
pub(crate) type Floats = Elements<f32>;

/// A number in single precision at any address. A processor reads it as it reads others.
pub(crate) type Raw = [u8; 4];

/// A type of elements.
pub(crate) trait Number: Element + Pod {}

impl<T: Element + Pod> Number for T {}

impl<T: Number> Deref for Elements<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Own(tensor, range) => {
                tensor.storage::<T>().get(range.clone()).unwrap_or_default()
            }
            Self::Copy(values) => values,
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
    pub(crate) fn strides(self, dims: &[usize]) -> Vec<isize> {
        let mut strides = vec![0; dims.len()];
        let mut stride = 1_usize;
        let axes: Vec<usize> = self.axes(dims.len()).collect();
        for at in axes.into_iter().rev() {
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
    pub(crate) fn axes(self, rank: usize) -> impl Iterator<Item = usize> {
        let is_last = self == Self::ChannelsLast && rank > 1;
        let spatial = if is_last { 2..rank } else { 1..rank };
        let channels = if is_last { 1..2 } else { 0..0 };
        (0..rank.min(1)).chain(spatial).chain(channels)
    }

    /// Returns the other order.
    fn other(self) -> Self {
        match self {
            Self::RowMajor => Self::ChannelsLast,
            Self::ChannelsLast => Self::RowMajor,
        }
    }

    /// Returns whether a tensor is stored without gaps in this order. The strides of dims of one element do not matter.
    pub(crate) fn is_of(self, tensor: &Dense) -> bool {
        let expected = self.strides(tensor.dims());
        let sides = tensor.dims().iter().zip(tensor.strides()).zip(&expected);
        sides.into_iter().all(|((dim, found), expected)| *dim == 1 || found == expected)
    }
}

/// Returns whether channels are innermost in memory, which is another order than that of the dims.
pub(crate) fn is_channels_last(tensor: &Dense) -> bool {
    Order::ChannelsLast.is_of(tensor) && !Order::RowMajor.is_of(tensor)
}

/// Returns a value as images of single precision whose channels are innermost, with their dims, if it is that.
pub(crate) fn images(value: Option<&Value>) -> Option<(&Dense, [usize; 4])> {
    let Some(Value::Dense(images)) = value else { return None };
    let dims = images.dims().try_into().ok()?;
    let fits = images.dtype() == DType::Float32 && images.count() > 0 && is_channels_last(images);
    fits.then_some((images, dims))
}

/// Returns the elements of a tensor in an order, copied if they are stored in another one.
///
/// # Errors
/// If they are not in single precision.
pub(crate) fn ordered(tensor: &Dense, order: Order) -> Outcome<Floats> {
    if tensor.dtype() != DType::Float32 {
        return Err(format!("expected float32, found {}", tensor.dtype()).into());
    }
    elements(tensor, order)
}

/// Returns the elements of a tensor of a known type in an order, copied if they are stored in another one.
///
/// # Errors
/// If they are of another type.
pub(crate) fn elements<T: Number>(tensor: &Dense, order: Order) -> Outcome<Elements<T>> {
    let view = tensor.view()?;
    if view.dtype() != T::dtype() {
        return Err(Finding::internal(format!("{:?} as {:?}", view.dtype(), T::dtype())));
    }
    let count = tensor.count();
    if count == 0 {
        return Ok(Elements::Copy(Vec::new()));
    }
    if order.is_of(tensor) {
        let begin = view.layout().start_offset();
        let range = begin..begin + count;
        if view.storage::<T>().get(range.clone()).is_none() {
            return Err(Finding::internal("elements are outside of their storage"));
        }
        return Ok(Elements::Own(view, range));
    }
    probe(tensor.nbytes())?;
    if order.other().is_of(tensor) {
        let from = elements(tensor, order.other())?;
        return exchanged(&from, tensor.dims(), order).map(Elements::Copy);
    }
    let whole = view.to_contiguous();
    match order {
        Order::RowMajor => Ok(Elements::Own(whole, 0..count)),
        Order::ChannelsLast => elements(&Dense::of_view(&whole)?, order),
    }
}

/// Returns the elements of a tensor in single precision in an order, where they are in memory if they are stored so. Unlike
/// [`ordered`], it leaves those of a file at their address.
///
/// # Errors
/// If they are not in single precision.
pub(crate) fn raw(tensor: &Dense, order: Order) -> Outcome<Cow<'_, [Raw]>> {
    if tensor.dtype() != DType::Float32 {
        return Err(format!("expected float32, found {}", tensor.dtype()).into());
    }
    let (stored, _) = tensor.stored().as_chunks();
    let stored = stored.get(..tensor.count());
    let stored = stored.ok_or_else(|| Finding::internal("elements are outside of their storage"));
    if order.is_of(tensor) {
        return stored.map(Cow::Borrowed);
    }
    probe(tensor.nbytes())?;
    if order.other().is_of(tensor) {
        return exchanged(stored?, tensor.dims(), order).map(Cow::Owned);
    }
    Ok(Cow::Owned(cast_slice(&ordered(tensor, order)?).to_vec()))
}

/// The number of rows and columns of a matrix that are transposed at a time.
const SQUARE: usize = 64;

/// Returns the elements of a tensor of some dims, which are in the other order, in an order.
fn exchanged<T: Pod + Send + Sync>(from: &[T], dims: &[usize], to: Order) -> Outcome<Vec<T>> {
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

/// Wraps numbers in an order.
///
/// # Errors
/// If the number of elements does not match the dims.
pub(crate) fn tensor(values: Buffer, dims: Vec<usize>, order: Order) -> Outcome<Dense> {
    let count = values.len();
    let bytes = burn_backend::Bytes::from_shared(values.into(), AllocationProperty::Other);
    wrapped(bytes, count, dims, order, BurnType::F32)
}

/// Wraps numbers that are not in memory for results.
///
/// # Errors
/// If the number of elements does not match the dims.
pub(crate) fn numbers(values: Vec<f32>, dims: Vec<usize>, order: Order) -> Outcome<Dense> {
    let count = values.len();
    wrapped(burn_backend::Bytes::from_elems(values), count, dims, order, BurnType::F32)
}

/// Wraps booleans in an order.
///
/// # Errors
/// If the number of elements does not match the dims.
pub(crate) fn truths(values: Vec<u8>, dims: Vec<usize>, order: Order) -> Outcome<Dense> {
    let (count, dtype) = (values.len(), BurnType::Bool(BoolStore::Native));
    wrapped(burn_backend::Bytes::from_elems(values), count, dims, order, dtype)
}

/// Wraps the bytes of `count` elements in an order.
///
/// # Errors
/// If that number does not match the dims.
pub(crate) fn wrapped(
    bytes: burn_backend::Bytes,
    count: usize,
    dims: Vec<usize>,
    order: Order,
    dtype: BurnType,
) -> Outcome<Dense> {
    if dims.iter().product::<usize>() != count {
        return Err(Finding::internal("a result has the wrong number of elements"));
    }
    let layout = burn_flex::Layout::new(dims.clone().into(), order.strides(&dims), 0);
    Dense::of_view(&FlexTensor::from_arc(Arc::new(bytes), layout, dtype))
}

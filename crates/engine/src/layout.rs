//! Tensors of images whose channels are innermost.
//!
//! Their dims are those of ONNX (batch, channels, spatial dims); only their strides differ. Kernels that expect another
//! order copy them, as they do with any transposed tensor.

use std::borrow::Cow;

use lodstone_model::DType;
use lodstone_schema::Finding;
use pulp::bytemuck::cast_slice;

use crate::budget::probe;
use crate::error::Outcome;
use crate::gemm::{Buffer, Raw};
use crate::tensor::{Dense, Elements, Order, bytes_of, elements, exchanged, wrapped};
use crate::value::Value;

/// The elements of a tensor in single precision.
pub(crate) type Floats = Elements<f32>;

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

/// Wraps numbers in an order.
///
/// # Errors
/// If the number of elements does not match the dims.
pub(crate) fn tensor(values: Buffer, dims: impl AsRef<[usize]>, order: Order) -> Outcome<Dense> {
    wrapped(values.into(), dims, order, DType::Float32)
}

/// Wraps numbers that are not in memory for results.
///
/// # Errors
/// If the number of elements does not match the dims.
pub(crate) fn numbers(values: Vec<f32>, dims: impl AsRef<[usize]>, order: Order) -> Outcome<Dense> {
    wrapped(bytes_of(values), dims, order, DType::Float32)
}

/// Wraps booleans in an order.
///
/// # Errors
/// If the number of elements does not match the dims.
pub(crate) fn truths(values: Vec<u8>, dims: impl AsRef<[usize]>, order: Order) -> Outcome<Dense> {
    wrapped(values.into(), dims, order, DType::Bool)
}

//! Tensors as views of storages: an offset, dims and strides, in elements.
//!
//! A view that is contiguous is a slice of its storage; other views are gathered on read. A view is recorded beside
//! the data of the tensor (its residual), so that tensors that share a storage still share it when they are written.

use std::sync::Arc;

use lodstone_model::{Residual, Tensor};
use lodstone_store::{Blob, Derive, Permuted, Result as StoreResult};
use serde::{Deserialize, Serialize};

use super::element::Element;
use super::strided::{Strided, extent};
use crate::error::Result;
use crate::lengths::{at_most, length};

/// The owner of the residual of a tensor: its view, and the storage.
pub(crate) const OWNER: &str = "torch view";

/// Maximum rank of a tensor: that of PyTorch.
pub(crate) const MAX_RANK: usize = 64;

/// A view of a storage.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) element: &'static Element,
    /// The dims.
    pub(crate) shape: Vec<u64>,
    /// The stride of each dim in elements.
    pub(crate) strides: Vec<u64>,
    /// The index of the first element.
    pub(crate) offset: u64,
    /// The whole storage.
    pub(crate) storage: Blob,
    /// Whether the storage is big-endian.
    pub(crate) is_big: bool,
    /// Whether the imaginary parts are negated on read, or all elements.
    pub(crate) sign: Sign,
}

/// The elements that are negated on read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sign {
    /// `is_conj()`.
    pub(crate) conj: bool,
    /// `is_neg()`.
    pub(crate) neg: bool,
}

/// The record of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recorded {
    /// The name of the element type.
    pub(crate) element: String,
    /// The dims in the model.
    pub(crate) shape: Vec<u64>,
    pub(crate) strides: Vec<u64>,
    pub(crate) offset: u64,
}

impl View {
    /// Creates the contiguous view of a whole storage.
    pub(crate) fn contiguous(element: &'static Element, shape: Vec<u64>, storage: Blob) -> Self {
        let strides = contiguous(&shape);
        Self { element, shape, strides, offset: 0, storage, is_big: false, sign: Sign::default() }
    }

    /// Returns the tensor.
    ///
    /// # Errors
    /// Fails with what was expected if the view exceeds its storage.
    pub(crate) fn tensor(&self) -> Result<Tensor, String> {
        let Self { element, shape, strides, offset, storage, .. } = self;
        let odd =
            |expected: &str| format!("{expected}, not dims {shape:?} and strides {strides:?}");
        if shape.len() != strides.len() || shape.len() > MAX_RANK {
            return Err(odd(&format!("as many strides as dims, at most {MAX_RANK}")));
        }
        let count = shape.iter().try_fold(1_u64, |count, dim| count.checked_mul(*dim));
        let size = count.and_then(|count| count.checked_mul(element.size));
        let (Some(count), Some(size)) = (count, size) else {
            return Err(odd("a size that fits 64 bits"));
        };
        let end = extent(shape, strides)
            .and_then(|extent| extent.checked_add(*offset))
            .and_then(|end| end.checked_mul(element.size));
        if end.is_none_or(|end| end > storage.len()) && count > 0 {
            let found = odd(&format!("a view inside a storage of {} bytes", storage.len()));
            return Err(format!("{found} from element {offset} of {} bytes each", element.size));
        }
        let data = self.data(count, size).map_err(|error| error.to_string())?;
        let mut dims = shape.clone();
        if element.packed > 1 {
            let last = dims.last_mut().ok_or_else(|| odd("a packed tensor with a dim"))?;
            *last = last.checked_mul(element.packed).ok_or_else(|| odd("a size that fits"))?;
        }
        let recorded = Recorded {
            element: element.name.to_owned(),
            shape: dims.clone(),
            strides: strides.clone(),
            offset: *offset,
        };
        let json = serde_json::to_vec(&recorded).map_err(|error| error.to_string())?;
        let residual = Residual::with_holes(OWNER, json.into(), Arc::new([storage.clone()]));
        Ok(Tensor { residual, ..Tensor::dense(element.dtype, dims, data) })
    }

    fn data(&self, count: u64, size: u64) -> Result<Blob> {
        let Self { element, shape, strides, offset, storage, .. } = self;
        if count == 0 {
            return Ok(Blob::default());
        }
        // It is inside the storage, as the caller checked.
        let start = offset.saturating_mul(element.size);
        let swap = Some(element.number).filter(|number| self.is_big && *number > 1);
        let is_signed = self.sign.neg || self.sign.conj && element.is_complex();
        if is_contiguous(shape, strides) && swap.is_none() && !is_signed {
            return Ok(storage.slice(start, size)?);
        }
        let item = length(element.size)?;
        let ordered = if is_contiguous(shape, strides) {
            storage.slice(start, size)?
        } else if let Some((dims, order)) = order(shape, strides)
            && let Some(permuted) = Permuted::new(storage.slice(start, size)?, item, &dims, &order)
        {
            Blob::derived(Arc::new(permuted))
        } else {
            let strided = Strided::new(storage.clone(), element.size, shape, strides, *offset);
            let unchecked = "a view was not checked against its storage";
            Blob::derived(Arc::new(
                strided.ok_or_else(|| crate::error::Error::internal(unchecked))?,
            ))
        };
        let elements = Elements {
            storage: storage.clone(),
            ordered,
            number: length(element.number)?,
            swap: swap.is_some(),
            negate: is_signed.then_some(Negate {
                all: self.sign.neg,
                imaginary: self.sign.conj && element.is_complex(),
                size: item,
            }),
        };
        Ok(Blob::derived(Arc::new(elements)))
    }
}

/// Returns the strides of a contiguous tensor; those of an empty one are as PyTorch counts them.
pub(crate) fn contiguous(shape: &[u64]) -> Vec<u64> {
    let mut stride = 1_u64;
    let mut strides: Vec<u64> = shape
        .iter()
        .rev()
        .map(|dim| {
            let this = stride;
            // PyTorch counts in 64 bits with a sign, which only an empty tensor exceeds.
            stride = stride.saturating_mul((*dim).max(1)).min(i64::MAX.cast_unsigned());
            this
        })
        .collect();
    strides.reverse();
    strides
}

/// Returns whether elements are adjacent, in row-major order.
pub(crate) fn is_contiguous(shape: &[u64], strides: &[u64]) -> bool {
    let mut expected = contiguous(shape).into_iter().zip(strides).zip(shape);
    expected.all(|((expected, stride), dim)| expected == *stride || *dim == 1)
}

/// Returns the dims of a dense tensor in the order of its elements in memory, and for each axis its position in that
/// order; `None` if elements overlap or have gaps between them.
fn order(shape: &[u64], strides: &[u64]) -> Option<(Vec<u64>, Vec<usize>)> {
    let mut axes: Vec<usize> = (0..shape.len()).collect();
    let key = |axis: &usize| {
        let (dim, stride) = (shape.get(*axis).copied(), strides.get(*axis).copied());
        // Dims of 1 have any stride.
        let is_one = dim == Some(1);
        (is_one, std::cmp::Reverse(stride.filter(|_| !is_one)))
    };
    axes.sort_by_key(key);
    let dims: Vec<u64> = axes.iter().filter_map(|axis| shape.get(*axis)).copied().collect();
    let moved: Vec<u64> = axes.iter().filter_map(|axis| strides.get(*axis)).copied().collect();
    if !is_contiguous(&dims, &moved) {
        return None;
    }
    let mut order = vec![0; axes.len()];
    for (position, axis) in axes.iter().enumerate() {
        *order.get_mut(*axis)? = position;
    }
    Some((dims, order))
}

/// The elements of a view that are not a slice of its storage.
pub(crate) struct Elements {
    storage: Blob,
    /// The elements in row-major order, as they are stored.
    ordered: Blob,
    /// The size in bytes of the numbers of an element.
    number: usize,
    swap: bool,
    negate: Option<Negate>,
}

/// The numbers whose sign is reversed.
#[derive(Clone, Copy)]
struct Negate {
    /// All numbers.
    all: bool,
    /// Those in the second half of each element.
    imaginary: bool,
    /// The size of an element in bytes.
    size: usize,
}

impl Elements {
    /// Returns whether the elements are those of a view, without conversion of numbers.
    pub(crate) fn is_plain(&self) -> bool {
        !self.swap && self.negate.is_none()
    }

    /// Converts whole elements.
    fn convert(&self, bytes: &mut [u8]) {
        if self.swap {
            bytes.chunks_exact_mut(self.number).for_each(<[u8]>::reverse);
        }
        let Some(Negate { all, imaginary, size }) = self.negate else { return };
        for element in bytes.chunks_exact_mut(size) {
            for (index, number) in element.chunks_exact_mut(self.number).enumerate() {
                // The sign is the highest bit of the last byte of a little-endian float.
                if all != (imaginary && index == 1)
                    && let Some(last) = number.last_mut()
                {
                    *last ^= 0x80;
                }
            }
        }
    }
}

impl Derive for Elements {
    fn len(&self) -> u64 {
        self.ordered.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StoreResult<()> {
        let item = self.negate.map_or(self.number, |negate| negate.size).max(1);
        let skip = at_most(offset % item as u64, item);
        if self.is_plain() || skip == 0 && buffer.len().is_multiple_of(item) {
            self.ordered.read_at(offset, buffer)?;
            if !self.is_plain() {
                self.convert(buffer);
            }
            return Ok(());
        }
        let mut whole = vec![0; (skip + buffer.len()).next_multiple_of(item)];
        self.ordered.read_at(offset - skip as u64, &mut whole)?;
        self.convert(&mut whole);
        if let Some(from) = whole.get(skip..skip + buffer.len()) {
            buffer.copy_from_slice(from);
        }
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.storage)
    }
}

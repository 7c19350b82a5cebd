//! The bytes of tensors.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use pulp::bytemuck::cast_slice;

use super::element::Element;
use crate::budget::{Charge, probe};
use crate::error::Outcome;

/// The bytes of a tensor, which it may share with others.
#[derive(Clone)]
pub(super) enum Storage {
    Aligned(Bytes),
    Unaligned(Arc<Unaligned>),
}

/// Bytes of a file at an address that is no multiple of the element size.
pub(super) struct Unaligned {
    pub(super) bytes: Bytes,
    /// A copy that was needed.
    pub(super) copy: OnceLock<Bytes>,
    /// The charge for the copy.
    pub(super) charge: OnceLock<Charge>,
}

/// Keeps elements alive for [`Bytes`].
struct Owner<T>(Vec<T>);

impl<T: Element> AsRef<[u8]> for Owner<T> {
    fn as_ref(&self) -> &[u8] {
        cast_slice(&self.0)
    }
}

/// Returns the bytes of elements, without a copy.
pub(crate) fn bytes_of<T: Element>(elements: Vec<T>) -> Bytes {
    Bytes::from_owner(Owner(elements))
}

/// Returns the bytes of elements in single precision, without a copy: as they are in a tensor of a model.
pub fn bytes_of_singles(elements: Vec<f32>) -> Bytes {
    bytes_of(elements)
}

impl Storage {
    pub(super) fn of(bytes: Bytes, size: usize) -> Self {
        match bytes.as_ptr().addr().is_multiple_of(size) {
            true => Self::Aligned(bytes),
            false => Self::Unaligned(Arc::new(Unaligned {
                bytes,
                copy: OnceLock::new(),
                charge: OnceLock::new(),
            })),
        }
    }

    /// Returns the bytes, at any address.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Aligned(bytes) => bytes,
            Self::Unaligned(it) => &it.bytes,
        }
    }

    /// Returns bytes whose address is a multiple of the size of every element.
    pub(super) fn aligned(&self) -> &Bytes {
        match self {
            Self::Aligned(bytes) => bytes,
            Self::Unaligned(it) => it.copy.get_or_init(|| {
                // Words of the largest size. The last one may have room for more bytes.
                let mut words = vec![0_u64; it.bytes.len().div_ceil(size_of::<u64>())];
                let copied: &mut [u8] = pulp::bytemuck::cast_slice_mut(&mut words);
                copied.iter_mut().zip(&it.bytes).for_each(|(into, from)| *into = *from);
                bytes_of(words).slice(..it.bytes.len())
            }),
        }
    }
}

/// Returns room for elements.
///
/// # Errors
/// If the system cannot provide the memory.
pub(crate) fn zeroed<T: Element>(count: usize) -> Outcome<Vec<T>> {
    /// The number of bytes up to which memory that was just freed is cleared: an allocator that is asked for zeroed memory
    /// does not look for it among what the thread has freed.
    const SMALL: usize = 1024;
    let bytes = count.saturating_mul(size_of::<T>());
    if bytes <= SMALL {
        let mut elements = Vec::with_capacity(count);
        elements.resize(count, T::zeroed());
        return Ok(elements);
    }
    probe(bytes as u64)?;
    Ok(vec![T::zeroed(); count])
}

//! Constants with padded rows: the padding between elements is removed on read.

use lodstone_store::{Blob, Derive, Result};

use crate::lengths::at_most;
use crate::registry::ONNX_FAMILIES;

/// Elements with strides.
pub(super) struct Strided {
    /// The bytes, including padding.
    pub(super) source: Blob,
    /// The size of an element in bytes.
    item: u64,
    shape: Vec<u64>,
    /// The stride of each axis, in elements.
    strides: Vec<u64>,
    /// The size of all elements in bytes.
    len: u64,
}

impl Strided {
    /// Creates elements of `shape`, `len` bytes in all, with the strides in the text of the tensor;
    /// `None` if it contains none, or they do not match.
    pub(super) fn new(text: &str, source: &Blob, shape: &[u64], len: u64) -> Option<Self> {
        let strides = ONNX_FAMILIES.iter().find_map(|family| (family.strides)(text))?;
        let strides: Vec<u64> =
            strides.into_iter().map(u64::try_from).collect::<std::result::Result<_, _>>().ok()?;
        let count = shape.iter().try_fold(1u64, |count, dim| count.checked_mul(*dim))?;
        let item = len.checked_div(count).filter(|item| *item > 0)?;
        // Each stride must cover all inner axes, so that elements do not overlap and are in bounds.
        let mut inside = 1u64;
        for (dim, stride) in shape.iter().zip(&strides).rev() {
            if *stride < inside {
                return None;
            }
            inside = stride.checked_mul(*dim)?;
        }
        let fits = strides.len() == shape.len() && inside.checked_mul(item)? == source.len();
        let (source, shape) = (source.clone(), shape.to_vec());
        fits.then_some(Self { source, item, shape, strides, len })
    }
}

impl Derive for Strided {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            // The position of element `at / item`, and the number of contiguous elements after it.
            let (mut number, within) = (at / self.item, at % self.item);
            let (mut place, mut run) = (0, 1);
            for (axis, (dim, stride)) in self.shape.iter().zip(&self.strides).rev().enumerate() {
                let index = number % dim;
                number /= dim;
                place += index * stride;
                if axis == 0 && *stride == 1 {
                    run = dim - index;
                }
            }
            let (now, later) = rest.split_at_mut(at_most(run * self.item - within, rest.len()));
            self.source.read_at(place * self.item + within, now)?;
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
}

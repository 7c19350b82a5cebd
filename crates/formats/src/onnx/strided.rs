//! Constants whose rows are padded: what is between the elements is left out when they are read.

use lodstone_store::{Blob, Derive, Result};

use crate::registry::ONNX_FAMILIES;

/// Elements that are not one behind the other.
pub(super) struct Strided {
    /// With what is between them.
    pub(super) source: Blob,
    /// Size of an element in bytes.
    item: u64,
    shape: Vec<u64>,
    /// How many elements one step along each extent is.
    strides: Vec<u64>,
    /// Size of all elements in bytes.
    len: u64,
}

impl Strided {
    /// Elements of `shape`, `len` bytes in all, in bytes that are laid out as the text of the tensor says;
    /// nothing if it does not, or they are not.
    pub(super) fn new(text: &str, source: &Blob, shape: &[u64], len: u64) -> Option<Self> {
        let strides = ONNX_FAMILIES.iter().find_map(|family| (family.strides)(text))?;
        let strides: Vec<u64> =
            strides.into_iter().map(u64::try_from).collect::<std::result::Result<_, _>>().ok()?;
        let count = shape.iter().try_fold(1u64, |count, extent| count.checked_mul(*extent))?;
        let item = len.checked_div(count).filter(|item| *item > 0)?;
        // Each step is over all that is inside: no element is there twice, and none is outside.
        let mut inside = 1u64;
        for (extent, stride) in shape.iter().zip(&strides).rev() {
            if *stride < inside {
                return None;
            }
            inside = stride.checked_mul(*extent)?;
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
            // Where element number `at / item` is, and how many follow it without a gap.
            let (mut number, within) = (at / self.item, at % self.item);
            let (mut place, mut run) = (0, 1);
            for (axis, (extent, stride)) in self.shape.iter().zip(&self.strides).rev().enumerate() {
                let index = number % extent;
                number /= extent;
                place += index * stride;
                if axis == 0 && *stride == 1 {
                    run = extent - index;
                }
            }
            let left = usize::try_from(run * self.item - within).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at_mut(left.min(rest.len()));
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

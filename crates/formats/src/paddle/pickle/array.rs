//! Converts the elements of tensors back to the original bytes of arrays.

use lodstone_model::DType;
use lodstone_store::Blob;

use super::AS_INTEGERS;
use super::contents::Found;
use crate::encoding::array::elements::Elements;
use crate::encoding::pickle::{Latin1, Spelling, stored};

/// Returns the original encoding of the elements `data` of a tensor, if they are still those of
/// these arrays, or can replace them unchanged.
pub(super) fn written(found: &Found, data: &Blob) -> Option<Vec<Blob>> {
    let mut start = 0;
    let mut pieces = Vec::new();
    for array in &found.parts {
        let size = array.dtype.size_of(&array.shape)?;
        let mut piece = data.slice(start, size).ok()?;
        start += size;
        if !stored(array).is_plain() {
            let elements = piece.derivation::<Elements>()?;
            if elements.stored() != stored(array) {
                return None;
            }
            piece = elements.source().clone();
        }
        if array.data.spelling != Spelling::Plain {
            let text = piece.derivation::<Latin1>()?.source().clone();
            piece = text;
        }
        if piece.len() != array.data.span.len {
            return None;
        }
        pieces.push(piece);
    }
    (start == data.len()).then_some(pieces)
}

/// Returns whether a tensor of type `now` has the bits of an array of type `then`.
pub(super) fn same_bits(now: DType, then: DType) -> bool {
    now == then || AS_INTEGERS.contains(&(now, then))
}

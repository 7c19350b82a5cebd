//! Converts arrays to tensors, and back to their original bytes.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_model::DType;
use lodstone_store::Blob;

use super::AS_INTEGERS;
use super::contents::Found;
use crate::Result;
use crate::encoding::array::elements::{Elements, Stored};
use crate::encoding::pickle::{Array, Latin1, Shapes, Spelling};

/// Strings that have been scanned, by offset: arrays may share them.
#[derive(Default)]
pub(super) struct Decoded(HashMap<u64, Arc<Latin1>>);

impl Decoded {
    /// Returns the elements of an array, row-major and little-endian.
    pub(super) fn elements(&mut self, shapes: &Shapes, array: &Array) -> Result<Blob> {
        let span = array.data.span;
        let raw = shapes.tree.blob().slice(span.start, span.len)?;
        let size = array.dtype.size_of(&array.shape).unwrap_or(0);
        let bytes = if array.data.spelling != Spelling::Plain {
            let text = match self.0.get(&span.start) {
                Some(text) => Arc::clone(text),
                None => {
                    let text = Arc::new(Latin1::new(raw, array.data.spelling)?);
                    self.0.insert(span.start, Arc::clone(&text));
                    text
                }
            };
            Blob::derived(text)
        } else {
            raw
        };
        if bytes.len() != size {
            let expected = format!("{size} bytes, {} of shape {:?}", array.dtype, array.shape);
            let found = format!("{} bytes", bytes.len());
            return Err(shapes.tree.error(array.id, expected, found));
        }
        let stored = stored(array);
        if stored.is_plain() {
            return Ok(bytes);
        }
        let elements = Elements::new(bytes, stored, array.dtype, &array.shape);
        Ok(Blob::derived(Arc::new(elements)))
    }
}

fn stored(array: &Array) -> Stored {
    Stored::new(array.swap, array.fortran, &array.shape)
}

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

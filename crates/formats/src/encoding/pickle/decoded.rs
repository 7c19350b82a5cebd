//! The elements of pickled arrays.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_store::Blob;

use super::array::Array;
use super::shapes::Shapes;
use super::text::{Latin1, Spelling};
use crate::encoding::array::elements::{Elements, Stored};
use crate::error::Result;

/// Strings that have been scanned, by offset: arrays may share them.
#[derive(Default)]
pub(crate) struct Decoded(HashMap<u64, Arc<Latin1>>);

impl Decoded {
    /// Returns the elements of an array, row-major and little-endian.
    pub(crate) fn elements(&mut self, shapes: &Shapes, array: &Array) -> Result<Blob> {
        let span = array.data.span;
        let raw = shapes.tree.blob().slice(span.start, span.len)?;
        let size = array.dtype.size_of(&array.shape).ok_or_else(|| {
            let found = format!("{} of shape {:?}", array.dtype, array.shape);
            shapes.tree.error(array.id, "a size that fits 64 bits", found)
        })?;
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
        let elements = Elements::new(bytes, stored, array.dtype, &array.shape)?;
        Ok(Blob::derived(Arc::new(elements)))
    }
}

/// Returns how the elements of an array are stored.
pub(crate) fn stored(array: &Array) -> Stored {
    Stored::new(array.swap, array.fortran, &array.shape)
}

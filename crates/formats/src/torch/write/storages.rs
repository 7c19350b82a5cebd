//! The storages of tensors. Tensors that were views of one storage keep it, with their strides, as long as their
//! elements are unchanged; others get one of their own.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_model::{DType, Tensor};
use lodstone_store::{Blob, Derive as _, Identity};

use super::super::element::Element;
use super::super::view::{Elements, OWNER, Recorded, contiguous};

/// The storages of a file, in the order of their keys.
#[derive(Default)]
pub(super) struct Storages {
    pub(super) all: Vec<Stored>,
    /// Keys by the location of the bytes.
    by_place: HashMap<(Identity, &'static str), usize>,
}

/// A storage.
pub(super) struct Stored {
    pub(super) element: &'static Element,
    pub(super) blob: Blob,
}

/// A tensor as a view of a storage.
pub(super) struct View {
    /// The key of the storage.
    pub(super) key: usize,
    pub(super) element: &'static Element,
    /// The dims as PyTorch counts them.
    pub(super) shape: Vec<u64>,
    pub(super) strides: Vec<u64>,
    pub(super) offset: u64,
}

impl Storages {
    /// Adds a tensor with dense elements; `None` if PyTorch has no such type.
    pub(super) fn add(&mut self, tensor: &Tensor) -> Option<View> {
        let (element, shape) = torch_type(tensor.dtype, &tensor.shape)?;
        if let Some((element, recorded, storage)) = recorded(tensor) {
            let key = self.key(element, storage);
            let Recorded { strides, offset, .. } = recorded;
            let (_, shape) = shape_of(element, &tensor.shape)?;
            return Some(View { key, element, shape, strides, offset });
        }
        let key = self.key(element, tensor.data.clone());
        let strides = contiguous(&shape);
        Some(View { key, element, shape, strides, offset: 0 })
    }

    fn key(&mut self, element: &'static Element, blob: Blob) -> usize {
        let next = self.all.len();
        // Empty storages are all alike, but are not shared.
        let place = blob.identity().filter(|_| !blob.is_empty());
        let key = match place {
            Some(place) => *self.by_place.entry((place, element.name)).or_insert(next),
            None => next,
        };
        if key == next {
            self.all.push(Stored { element, blob });
        }
        key
    }
}

/// Returns PyTorch's type for a type of the model, and the dims as PyTorch counts them.
pub(super) fn torch_type(dtype: DType, shape: &[u64]) -> Option<(&'static Element, Vec<u64>)> {
    shape_of(Element::of(dtype)?, shape)
}

fn shape_of(element: &'static Element, shape: &[u64]) -> Option<(&'static Element, Vec<u64>)> {
    let mut shape = shape.to_vec();
    if element.packed > 1 {
        let last = shape.last_mut()?;
        if !last.is_multiple_of(element.packed) {
            return None;
        }
        *last /= element.packed;
    }
    Some((element, shape))
}

/// Returns the view that a tensor was read as, and its storage, if its elements are still those of the view.
fn recorded(tensor: &Tensor) -> Option<(&'static Element, Recorded, Blob)> {
    let (json, holes) = tensor.residual.with_holes_of(OWNER)?;
    let recorded: Recorded = serde_json::from_slice(json).ok()?;
    let element = Element::named(&recorded.element)?;
    let storage = Arc::clone(holes).first()?.clone();
    if !storage.len().is_multiple_of(element.size) {
        return None;
    }
    let is_type = element.dtype == tensor.dtype && element.is_exact;
    let (_, shape) = shape_of(element, &tensor.shape)?;
    if !is_type || element.name.starts_with('q') || recorded.strides.len() != shape.len() {
        return None;
    }
    let is_view = match tensor.data.derivation::<Elements>() {
        Some(elements) => {
            elements.is_plain() && elements.source().is_some_and(|source| source.is(&storage))
        }
        None => {
            let start = recorded.offset.checked_mul(element.size)?;
            let slice = storage.slice(start, tensor.data.len());
            let is_plain = super::super::view::is_contiguous(&shape, &recorded.strides);
            tensor.data.is_empty() || is_plain && slice.is_ok_and(|slice| slice.is(&tensor.data))
        }
    };
    // The shape may have been edited, which the strides would not fit.
    let fits = super::super::strided::extent(&shape, &recorded.strides)
        .and_then(|extent| extent.checked_add(recorded.offset))
        .and_then(|end| end.checked_mul(element.size))
        .is_some_and(|end| end <= storage.len() || tensor.data.is_empty());
    let same_shape = recorded.shape == tensor.shape;
    (is_view && fits && same_shape).then_some((element, recorded, storage))
}

//! The tensors in a pickle of PyTorch: their elements are elsewhere, and a persistent id refers to them with their
//! number, `('storage', torch.FloatStorage, '0', 'cpu', 12)`.
//!
//! | file | location of elements |
//! |---|---|
//! | a zip archive with `P/data.pkl` (since 1.6) | the member `P/data/KEY` |
//! | a package of `torch.package`, with `P/.data/extern_modules` | the member `P/.data/KEY.storage` |
//! | five pickles: a magic number, a version, system information, the value, the keys | after them, in the order of the keys: their number as an `i64`, and the elements |
//!
//! Source of truth: `torch/serialization.py` of PyTorch 2.8.

use std::collections::BTreeMap;

use super::element::Element;
use crate::encoding::pickle::{Id, Node, Tree};
use crate::error::Result;

/// Returns the storage of each key; `None` if the pickle has other persistent identifiers.
pub(crate) fn storages(tree: &Tree) -> Option<BTreeMap<String, Storage>> {
    let mut storages = BTreeMap::new();
    for (_, node) in tree.nodes() {
        if let Node::Persistent(id) = node {
            let (key, storage) = storage(tree, *id, false)?;
            // Every tensor that shares a storage refers to it again.
            if *storages.entry(key).or_insert(storage) != storage {
                return None;
            }
        }
    }
    Some(storages)
}

/// Returns the storage of each key, which may have views.
///
/// # Errors
/// Fails if a persistent id is of another form, or if two disagree about a storage.
pub(super) fn roots(tree: &Tree) -> Result<BTreeMap<String, Storage>> {
    let mut storages = BTreeMap::new();
    for (id, node) in tree.nodes() {
        let Node::Persistent(inner) = node else { continue };
        let is_module = match tree.node(*inner) {
            Node::Tuple(items) => {
                items.first().and_then(|kind| tree.short(*kind)).as_deref() == Some("module")
            }
            _ => false,
        };
        if is_module {
            continue;
        }
        let found = storage(tree, *inner, true);
        let odd = || tree.error(id, "a storage that all tensors describe alike", tree.describe(id));
        let (key, storage) = found.ok_or_else(odd)?;
        if *storages.entry(key).or_insert(storage) != storage {
            return Err(odd());
        }
    }
    Ok(storages)
}

/// The elements of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Storage {
    pub(crate) count: u64,
    pub(crate) element_size: u64,
}

impl Storage {
    pub(crate) fn size(self) -> Option<u64> {
        self.count.checked_mul(self.element_size)
    }
}

/// Reads a persistent id, of which `views` may have a view.
fn storage(tree: &Tree, id: Id, views: bool) -> Option<(String, Storage)> {
    let Node::Tuple(items) = tree.node(id) else { return None };
    let ([kind, class, key, _, count] | [kind, class, key, _, count, _]) = items.as_slice() else {
        return None;
    };
    let is_whole = items.get(5).is_none_or(|view| is_none(tree, *view));
    if tree.short(*kind)? != "storage" || !(is_whole || views) {
        return None;
    }
    let (module, class) = tree.global(*class)?;
    let Node::Int(count) = tree.node(*count) else { return None };
    let element_size = element_size(&module, &class)?;
    let storage = Storage { count: u64::try_from(*count).ok()?, element_size };
    // A number in packages.
    let key = match tree.node(*key) {
        Node::Int(number) => u64::try_from(*number).ok()?.to_string(),
        _ => tree.short(*key)?,
    };
    Some((key, storage))
}

fn is_none(tree: &Tree, id: Id) -> bool {
    matches!(tree.node(id), Node::None)
}

fn element_size(module: &str, class: &str) -> Option<u64> {
    Element::of_storage(module, class).map(|element| element.size)
}

/// Returns the keys in a pickle that contains only keys, in order.
pub(crate) fn keys(tree: &Tree) -> Option<Vec<String>> {
    match tree.node(tree.root()) {
        Node::List(keys) => keys.iter().map(|key| tree.short(*key)).collect(),
        _ => None,
    }
}

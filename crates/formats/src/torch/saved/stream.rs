//! Files of `torch.save` before 1.6, without an archive.
//!
//! | part | contents |
//! |---|---|
//! | pickle | the integer `0x1950a86a20f9469cfc6c` |
//! | pickle | the version, 1001 |
//! | pickle | a dict of properties of the machine: its byte order, the sizes of its types |
//! | pickle | the object |
//! | pickle | the keys of the storages, in the order in which they follow |
//! | for each key | the number of elements (`i64`), and the elements |
//!
//! A persistent id is `('storage', class, key, device, number of elements, view)`, where a view is `None`, or `(key,
//! offset, number of elements)` if the storage is a part of another one; or `('module', class, file, source code)`.
//! Elements are little-endian on every machine.

use std::collections::HashMap;

use lodstone_model::Limits;
use lodstone_store::{Blob, Cursor};

use crate::encoding::pickle::{self, Node};
use crate::error::Result;
use crate::torch::element::Element;
use crate::torch::object::{Contents, Objects, Storages, contents};
use crate::torch::outside::is_magic;
use crate::torch::storages::{Storage, keys, roots};

/// The version of the layout.
const VERSION: i64 = 1001;

/// The storages after the pickles, by key.
struct Following(HashMap<String, Blob>);

impl Storages for Following {
    fn storage(&self, key: &str, element: &'static Element, count: u64) -> Result<Blob, String> {
        let found = self.0.get(key);
        let blob = found.ok_or_else(|| format!("a storage `{key}` in the list of keys"))?;
        match count.checked_mul(element.size) {
            Some(size) if size == blob.len() => Ok(blob.clone()),
            _ => Err(format!("a storage `{key}` of {count} elements, not {} bytes", blob.len())),
        }
    }
}

/// Reads a file.
///
/// # Errors
/// Fails if it is damaged.
pub(super) fn read(blob: &Blob, limits: &Limits) -> Result<Contents> {
    let mut at = 0;
    let mut next = || -> Result<pickle::Tree> {
        let tree = pickle::read(blob, at, limits)?;
        at = tree.end();
        Ok(tree)
    };
    let magic = next()?;
    if !is_magic(&magic) {
        let found = magic.describe(magic.root());
        return Err(magic.error(magic.root(), "the magic number of PyTorch", found));
    }
    let version = next()?;
    if !matches!(version.node(version.root()), Node::Int(VERSION)) {
        let found = version.describe(version.root());
        return Err(version.error(version.root(), format!("version {VERSION}"), found));
    }
    next()?;
    let object = next()?;
    let order = next()?;
    let Some(order_of_keys) = keys(&order) else {
        let found = order.describe(order.root());
        return Err(order.error(order.root(), "a list of the keys of storages", found));
    };
    let known = roots(&object)?;
    let mut storages = HashMap::new();
    let mut cursor = Cursor::at(blob, order.end());
    for key in order_of_keys {
        let Some(Storage { element_size, .. }) = known.get(&key).copied() else {
            let expected = format!("a storage `{key}` that the object uses");
            return Err(order.error(order.root(), expected, "none"));
        };
        let start = cursor.position();
        let count = cursor.u64("the number of elements")?;
        let Some(size) = count.checked_mul(element_size) else {
            let expected = format!("the number of elements of the storage `{key}`");
            return Err(cursor.error_at(start, expected, count.to_string()).into());
        };
        let data = cursor.blob(size, &format!("the storage `{key}`"))?;
        if storages.insert(key.clone(), data).is_some() {
            let found = format!("`{key}` again");
            return Err(order.error(order.root(), "unique keys", found));
        }
    }
    if cursor.remaining() > 0 {
        let found = format!("{} bytes more", cursor.remaining());
        return Err(cursor.error("the end of the file after the storages", found).into());
    }
    contents(&Objects::new(object), &Following(storages), limits)
}

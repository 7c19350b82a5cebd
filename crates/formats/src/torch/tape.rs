//! Tape archives, which PyTorch wrote before 0.1.10.
//!
//! | member | contents |
//! |---|---|
//! | `sys_info` | a pickle |
//! | `pickle` | a pickle of the value, in which a persistent id is the key of a tensor or a storage |
//! | `tensors` | a pickle of their number; for each, a pickle `(key, key of the storage, class)`, the number of dims as an `i32`, 4 bytes, dims, strides and the offset as `i64` |
//! | `storages` | a pickle of their number; for each, a pickle `(key, device, class)`, the number of elements as an `i64`, and the elements; a pickle of a list of views |
//!
//! Source of truth: `legacy_load` in `torch/serialization.py` of PyTorch 2.8.

use std::collections::BTreeSet;

use lodstone_store::{Blob, Cursor};

use super::element::Element;
use crate::encoding::pickle::{Id, Node, Tree};
use crate::scan::{Parts, Read};

/// Returns whether an archive has the members of one, and no others.
pub(super) fn is_tape(members: &BTreeSet<&str>) -> bool {
    const REQUIRED: [&str; 3] = ["pickle", "storages", "tensors"];
    REQUIRED.iter().all(|name| members.contains(name))
        && members.iter().all(|name| REQUIRED.contains(name) || *name == "sys_info")
}

/// Returns the elements in a member of such an archive, by name; `None` if the member is not exactly as in the table.
pub(super) fn elements(member: &str, blob: &Blob, read: &mut Read<'_>) -> Option<Parts> {
    let (elements, end) = match member {
        "sys_info" | "pickle" => (Vec::new(), read(0)?.end()),
        "storages" => storages(blob, read)?,
        "tensors" => (Vec::new(), tensors(blob, read)?),
        _ => return None,
    };
    (end == blob.len()).then_some(elements)
}

/// Returns the elements of each storage, and the end of what was read.
fn storages(blob: &Blob, read: &mut Read<'_>) -> Option<(Parts, u64)> {
    let (count, mut at) = count(read)?;
    let mut elements = Vec::new();
    for _ in 0..count {
        let tree = read(at)?;
        let [key, _, class] = triple(&tree)?;
        let (module, class) = tree.global(class)?;
        let element = Element::of_storage(&module, &class)?;
        let mut cursor = Cursor::at(blob, tree.end());
        let count = cursor.u64("a number of elements").ok()?;
        let bytes = cursor.blob(count.checked_mul(element.size)?, "elements").ok()?;
        elements.push((format!("storage {}", tree.describe(key)), bytes));
        at = cursor.position();
    }
    let views = read(at)?;
    let is_list = matches!(views.node(views.root()), Node::List(_));
    is_list.then(|| (elements, views.end()))
}

/// Returns the end of the tensors.
fn tensors(blob: &Blob, read: &mut Read<'_>) -> Option<u64> {
    let (count, mut at) = count(read)?;
    for _ in 0..count {
        let tree = read(at)?;
        triple(&tree)?;
        let mut cursor = Cursor::at(blob, tree.end());
        let rank = u64::try_from(cursor.i32("a number of dims").ok()?).ok()?;
        // Four further bytes, dims, strides and the offset.
        let size = rank.checked_mul(16)?.checked_add(12)?;
        cursor.need(size, "dims and strides").ok()?;
        at = cursor.position().checked_add(size)?;
    }
    Some(at)
}

/// Reads the number of tensors or storages, and its end.
fn count(read: &mut Read<'_>) -> Option<(u64, u64)> {
    let tree = read(0)?;
    match tree.node(tree.root()) {
        Node::Int(count) => Some((u64::try_from(*count).ok()?, tree.end())),
        _ => None,
    }
}

fn triple(tree: &Tree) -> Option<[Id; 3]> {
    match tree.node(tree.root()) {
        Node::Tuple(items) => items.as_slice().try_into().ok(),
        _ => None,
    }
}

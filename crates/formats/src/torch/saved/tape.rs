//! Files of `torch.save` until 0.1.9: tape archives.
//!
//! | member | contents |
//! |---|---|
//! | `sys_info` | a pickle of properties of the machine |
//! | `storages` | a pickle of their number; for each a pickle `(key, device, class)`, the number of elements (`i64`) and the elements; a pickle of views `(key, key of the storage, offset, number of elements)` |
//! | `tensors` | a pickle of their number; for each a pickle `(key, key of the storage, class)`, the rank (`i32`), 4 unused bytes, dims, strides and the offset (`i64` each) |
//! | `pickle` | the object, in which a persistent id is the key of a tensor or a storage, or `(class, file, source code)` |
//!
//! Elements are little-endian. Source of truth: `_legacy_load` in `torch/serialization.py` of PyTorch 2.15.

use std::collections::HashMap;

use lodstone_model::Limits;
use lodstone_store::{Blob, Cursor};

use crate::encoding::pickle::{self, Id, Node, Tree};
use crate::encoding::tar;
use crate::error::{Error, Result};
use crate::torch::element::Element;
use crate::torch::object::{Contents, Objects, Storages, contents};
use crate::torch::view::{MAX_RANK, View};

/// The tensors and storages of an archive, by key.
#[derive(Default)]
struct Numbered(HashMap<String, View>);

impl Storages for Numbered {
    fn storage(&self, key: &str, _: &'static Element, _: u64) -> Result<Blob, String> {
        Err(format!("the number of a tensor, not a storage `{key}`"))
    }

    fn numbered(&self, number: &str) -> Result<View, String> {
        let found = self.0.get(number).cloned();
        found.ok_or_else(|| format!("the number of a tensor or storage, not {number}"))
    }
}

/// Reads an archive.
///
/// # Errors
/// Fails if it is damaged, or ambiguous.
pub(super) fn read(blob: &Blob, limits: &Limits) -> Result<Contents> {
    let found = tar::members(blob, limits)?;
    if let Some(why) = found.ambiguous.or(found.odd) {
        return Err(blob.malformed(0, "a plain tape archive", why).into());
    }
    let member = |name: &str| -> Result<Blob> {
        let is_it = |member: &&(String, Blob)| member.0.trim_start_matches("./") == name;
        let mut members = found.members.iter().filter(is_it);
        match (members.next(), members.next()) {
            (Some((_, data)), None) => Ok(data.clone()),
            (None, _) => Err(blob.malformed(0, format!("a member `{name}`"), "none").into()),
            _ => Err(blob.malformed(0, format!("one member `{name}`"), "several").into()),
        }
    };
    let inside = |name: &'static str| move |error: Error| error.inside(format!("member `{name}`"));
    let mut numbered = Numbered::default();
    storages(&member("storages")?, limits, &mut numbered).map_err(inside("storages"))?;
    tensors(&member("tensors")?, limits, &mut numbered).map_err(inside("tensors"))?;
    let object = pickle::read(&member("pickle")?, 0, limits).map_err(inside("pickle"))?;
    contents(&Objects::new(object), &numbered, limits).map_err(inside("pickle"))
}

fn storages(blob: &Blob, limits: &Limits, numbered: &mut Numbered) -> Result<()> {
    let mut cursor = Cursor::new(blob);
    for _ in 0..count(&mut cursor, blob, limits)? {
        let tree = next(&mut cursor, blob, limits)?;
        let odd = || odd(&tree, "`(key, device, class)` of a storage");
        let Node::Tuple(items) = tree.node(tree.root()) else { return Err(odd()) };
        let [key, _, class] = items.as_slice() else { return Err(odd()) };
        let (module, name) = tree.global(*class).ok_or_else(odd)?;
        let element = Element::of_storage(&module, &name).ok_or_else(odd)?;
        let start = cursor.position();
        let count = cursor.u64("the number of elements")?;
        let Some(size) = count.checked_mul(element.size) else {
            let expected = "the number of elements of a storage";
            return Err(cursor.error_at(start, expected, count.to_string()).into());
        };
        let data = cursor.blob(size, "the elements of a storage")?;
        let view = View::contiguous(element, vec![count], data);
        add(numbered, &tree, *key, view)?;
    }
    let tree = next(&mut cursor, blob, limits)?;
    let odd = || odd(&tree, "a list of `(key, key of the storage, offset, number of elements)`");
    let Node::List(views) = tree.node(tree.root()) else { return Err(odd()) };
    for view in views {
        let Node::Tuple(items) = tree.node(*view) else { return Err(odd()) };
        let [target, root, offset, count] = items.as_slice() else { return Err(odd()) };
        let root = key_of(&tree, *root).and_then(|key| numbered.0.get(&key)).ok_or_else(odd)?;
        let (element, size) = (root.element, root.element.size);
        let bytes = |id: Id| number(&tree, id)?.checked_mul(size);
        let (start, len) = bytes(*offset).zip(bytes(*count)).ok_or_else(odd)?;
        let storage = root.storage.slice(start, len)?;
        add(numbered, &tree, *target, View::contiguous(element, vec![len / size], storage))?;
    }
    end(&cursor)
}

fn tensors(blob: &Blob, limits: &Limits, numbered: &mut Numbered) -> Result<()> {
    let mut cursor = Cursor::new(blob);
    for _ in 0..count(&mut cursor, blob, limits)? {
        let tree = next(&mut cursor, blob, limits)?;
        let odd = || odd(&tree, "`(key, key of the storage, class)` of a tensor");
        let Node::Tuple(items) = tree.node(tree.root()) else { return Err(odd()) };
        let [key, storage, _] = items.as_slice() else { return Err(odd()) };
        let root = key_of(&tree, *storage).and_then(|key| numbered.0.get(&key)).ok_or_else(odd)?;
        let (element, storage) = (root.element, root.storage.clone());
        let start = cursor.position();
        let rank = cursor.i32("the rank")?;
        let rank =
            usize::try_from(rank).ok().filter(|rank| *rank <= MAX_RANK).ok_or_else(|| {
                cursor.error_at(start, format!("a rank from 0 to {MAX_RANK}"), rank.to_string())
            })?;
        cursor.array::<4>("unused bytes")?;
        let mut numbers =
            |what: &str| -> Result<Vec<u64>> { (0..rank).map(|_| Ok(cursor.u64(what)?)).collect() };
        let (shape, strides) = (numbers("a dim")?, numbers("a stride")?);
        let offset = cursor.u64("the offset")?;
        let view =
            View { shape, strides, offset, ..View::contiguous(element, Vec::new(), storage) };
        add(numbered, &tree, *key, view)?;
    }
    end(&cursor)
}

fn add(numbered: &mut Numbered, tree: &Tree, key: Id, view: View) -> Result<()> {
    let name = key_of(tree, key).ok_or_else(|| odd(tree, "an integer as a key"))?;
    match numbered.0.insert(name, view) {
        None => Ok(()),
        Some(_) => Err(odd(tree, "unique keys")),
    }
}

/// Returns the key of a tensor or a storage: an integer, or its digits.
fn key_of(tree: &Tree, id: Id) -> Option<String> {
    match tree.node(id) {
        Node::Int(number) => Some(number.to_string()),
        _ => tree.short(id),
    }
}

fn number(tree: &Tree, id: Id) -> Option<u64> {
    match tree.node(id) {
        Node::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

fn odd(tree: &Tree, expected: &str) -> Error {
    tree.error(tree.root(), expected, tree.describe(tree.root()))
}

/// Reads the pickle at the cursor.
fn next(cursor: &mut Cursor<'_>, blob: &Blob, limits: &Limits) -> Result<Tree> {
    let tree = pickle::read(blob, cursor.position(), limits)?;
    cursor.seek(tree.end());
    Ok(tree)
}

/// Reads the number of records that follow, each of which has several bytes.
fn count(cursor: &mut Cursor<'_>, blob: &Blob, limits: &Limits) -> Result<u64> {
    let tree = next(cursor, blob, limits)?;
    let count = number(&tree, tree.root()).filter(|count| *count <= cursor.remaining());
    count.ok_or_else(|| odd(&tree, "the number of records that follow"))
}

fn end(cursor: &Cursor<'_>) -> Result<()> {
    match cursor.remaining() {
        0 => Ok(()),
        left => Err(cursor.error("the end of the member", format!("{left} bytes more")).into()),
    }
}

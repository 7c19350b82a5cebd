//! Writes the tensors of one process of a distributed run, which are loaded one by one, and their checksums meanwhile.

use std::collections::{BTreeMap, HashSet};

use lodstone_model::DType;
use lodstone_store::{Blob, Checksum, Output, PIECE, Part};

use super::write::{close, entry, json};
use super::{METADATA, NAME, code, size_of};
use crate::error::{Error, Result};
use crate::lengths::at_most;

/// The alignment of the elements of the first tensor in a file, in bytes. The others follow without holes, those with the
/// widest elements first.
const ALIGNMENT: usize = 64;

/// A tensor to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The name.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The dims, outermost first.
    pub shape: Vec<u64>,
}

/// Writes a file of tensors. `load` returns the elements of a tensor by its index, and is called once for each, in the order
/// of the file. Returns the checksums of the file.
///
/// # Errors
/// Fails if the format cannot represent a tensor, elements have another size, or loading or writing fails.
pub fn write_shard<E: From<Error>>(
    out: &mut Output,
    tensors: &[Shard],
    metadata: &BTreeMap<String, String>,
    mut load: impl FnMut(usize) -> Result<Blob, E>,
) -> Result<Vec<Part>, E> {
    let sizes = check(tensors)?;
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    let bits = |index: &usize| tensors.get(*index).and_then(|tensor| tensor.dtype.bits());
    order.sort_by_key(|index| std::cmp::Reverse(bits(index)));
    let placed = || {
        order.iter().filter_map(|index| Some((*index, tensors.get(*index)?, sizes.get(*index)?)))
    };
    let mut header = String::from("{");
    if !metadata.is_empty() {
        header.push_str(&format!("\"{METADATA}\":{},", json(metadata)?));
    }
    let mut begin = 0;
    for (_, Shard { name, dtype, shape }, size) in placed() {
        header.push_str(&entry(name, *dtype, shape, begin, begin + size)?);
        begin += size;
    }
    let header = close(header, ALIGNMENT)?;
    let mut start = (header.len() as u64).to_le_bytes().to_vec();
    start.extend(header);
    let mut parts = Vec::with_capacity(tensors.len() + 1);
    put(out, None, &Blob::memory(start), &mut parts)?;
    for (index, Shard { name, dtype, shape }, size) in placed() {
        let blob = load(index)?;
        if blob.len() != *size {
            let what = format!("the tensor `{name}`: {dtype} {shape:?} in {} bytes", blob.len());
            return Err(Error::Incompatible { format: NAME, what }.into());
        }
        put(out, Some(name.clone()), &blob, &mut parts)?;
    }
    Ok(parts)
}

/// Writes values one after the other, each with a name, and returns the checksums of the file.
///
/// # Errors
/// Fails if writing fails.
pub fn write_items(out: &mut Output, items: &[(String, Blob)]) -> Result<Vec<Part>> {
    let mut parts = Vec::with_capacity(items.len());
    for (name, blob) in items {
        put(out, Some(name.clone()), blob, &mut parts)?;
    }
    Ok(parts)
}

/// Writes a part of a file, with its checksums; nothing if it is empty.
fn put(out: &mut Output, tensor: Option<String>, blob: &Blob, parts: &mut Vec<Part>) -> Result<()> {
    let (offset, len) = (out.position(), blob.len());
    let mut sums = Sums::default();
    out.share(blob, |bytes| sums.update(bytes))?;
    if len > 0 {
        parts.push(Part { tensor, offset, len, checksums: sums.finish() });
    }
    Ok(())
}

/// The checksums of the pieces of a part.
#[derive(Default)]
struct Sums {
    done: Vec<u64>,
    current: Checksum,
    /// Number of bytes of the current piece.
    filled: u64,
}

impl Sums {
    fn update(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(at_most(PIECE - self.filled, rest.len()));
            self.current.update(now);
            self.filled += now.len() as u64;
            if self.filled == PIECE {
                self.done.push(std::mem::take(&mut self.current).value());
                self.filled = 0;
            }
            rest = later;
        }
    }

    fn finish(mut self) -> Vec<u64> {
        if self.filled > 0 {
            self.done.push(self.current.value());
        }
        self.done
    }
}

/// Fails unless the format can represent every tensor; returns their sizes in bytes.
fn check(tensors: &[Shard]) -> Result<Vec<u64>> {
    let mut names = HashSet::new();
    let size = |Shard { name, dtype, shape }: &Shard| {
        let refuse = |what: String| Error::Incompatible { format: NAME, what };
        if name.is_empty() || name == METADATA {
            return Err(refuse(format!("a tensor called `{name}`")));
        }
        if code(*dtype).is_none() {
            return Err(Error::dtype(NAME, name, *dtype));
        }
        let size = size_of(*dtype, shape);
        size.ok_or_else(|| refuse(format!("the tensor `{name}`: {dtype} {shape:?}")))
    };
    for Shard { name, .. } in tensors {
        if !names.insert(name) {
            let what = format!("two tensors called `{name}`");
            return Err(Error::Incompatible { format: NAME, what });
        }
    }
    tensors.iter().map(size).collect()
}

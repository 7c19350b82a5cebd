//! Byte maps of archives, of streams, and of the metadata of distributed checkpoints.

use std::collections::BTreeMap;

use lodstone_model::{Limits, Model};
use lodstone_store::Blob;

use super::archive::{Archive, Kind};
use super::read::{read_blob, read_exported_blob, read_script_blob};
use super::storages::{keys, roots};
use crate::byte_map::{self, Recorded};
use crate::encoding::pickle;
use crate::encoding::zip::{self, Member};
use crate::error::Result;

/// The number of pickles at the beginning of a stream.
const PICKLES: usize = 5;

/// The tensors whose elements begin at an offset: the first of each.
type Starts = BTreeMap<u64, usize>;

/// Reads an archive with a recording cursor. The fields of a storage belong to the first tensor that uses it.
pub(super) fn map(blob: &Blob, limits: &Limits) -> Recorded {
    let starts = starts(&read(blob, limits).unwrap_or_default());
    let tensor = |member: &Member| {
        let (_, start) = member.data.file_range()?;
        first(&starts, start, member.data.len())
    };
    let recorded = byte_map::record(blob, |cursor| {
        let tensors = |members: &[Member]| members.iter().map(tensor).collect();
        zip::map(cursor, blob, limits, tensors, |_, _| Ok(()))
    });
    byte_map::checked(recorded, || read(blob, limits))
}

/// Reads a stream with a recording cursor: the opcodes of its pickles, and the storages behind them.
pub(super) fn map_stream(blob: &Blob, limits: &Limits) -> Recorded {
    let starts = starts(&read_blob(blob, limits).unwrap_or_default());
    let recorded = byte_map::record(blob, |cursor| {
        let mut pickles = Vec::with_capacity(PICKLES);
        for _ in 0..PICKLES {
            let start = cursor.position();
            let tree = pickle::read(blob, start, limits)?;
            let len = tree.end().saturating_sub(start);
            let inside = blob.slice(start, len)?;
            cursor
                .nested(len, "a pickle", |inner| pickle::map(inner, &inside, limits, |_| Ok(())))?;
            pickles.push(tree);
        }
        let [.., object, order] = pickles.as_slice() else { return Ok(()) };
        let known = roots(object)?;
        for key in keys(order).unwrap_or_default() {
            let storage = known.get(&key);
            let size = storage.map(|storage| storage.element_size).ok_or_else(|| {
                cursor.error("a storage that a tensor has", format!("storage `{key}`"))
            })?;
            let count = cursor.u64(&format!("number of elements of storage `{key}`"))?;
            let len = count.saturating_mul(size);
            cursor.set_tensor(first(&starts, cursor.position(), len));
            if len > 0 {
                cursor.blob(len, &format!("elements of storage `{key}`"))?;
            }
            cursor.set_tensor(None);
        }
        Ok(())
    });
    byte_map::checked(recorded, || read_blob(blob, limits))
}

fn starts(model: &Model) -> Starts {
    let mut starts = BTreeMap::new();
    for (index, parameter) in model.parameters.iter().enumerate() {
        for (_, start, _) in parameter.tensor.data.file_ranges().filter(|(.., len)| *len > 0) {
            starts.entry(start).or_insert(index);
        }
    }
    starts
}

/// Returns the first tensor whose elements begin in a range.
fn first(starts: &Starts, start: u64, len: u64) -> Option<usize> {
    starts.range(start..start.saturating_add(len)).map(|(_, index)| *index).min()
}

/// Reads the metadata of a distributed checkpoint with a recording cursor: the opcodes of its pickle.
pub(super) fn map_metadata(blob: &Blob, limits: &Limits) -> Recorded {
    byte_map::record(blob, |cursor| pickle::map(cursor, blob, limits, |_| Ok(())))
}

fn read(blob: &Blob, limits: &Limits) -> Result<Model> {
    match Archive::open(blob, limits)?.kind {
        Kind::Script | Kind::EarlyScript => read_script_blob(blob, limits),
        Kind::Exported | Kind::EarlyExported => read_exported_blob(blob, limits),
        Kind::Saved | Kind::Package => read_blob(blob, limits),
    }
}

//! Byte maps of archives, and of the metadata of distributed checkpoints.

use std::collections::BTreeMap;

use lodstone_model::{Limits, Model};
use lodstone_store::Blob;

use super::archive::{Archive, Kind};
use super::read::{read_blob, read_exported_blob, read_script_blob};
use crate::encoding::pickle;
use crate::encoding::zip::{self, Member};
use crate::{Recorded, Result, byte_map};

/// Reads an archive with a recording cursor. The fields of a storage belong to the first tensor that uses it.
pub(super) fn map(blob: &Blob, limits: &Limits) -> Recorded {
    let model = read(blob, limits).unwrap_or_default();
    let mut starts: BTreeMap<u64, usize> = BTreeMap::new();
    for (index, parameter) in model.parameters.iter().enumerate() {
        for (_, start, _) in parameter.tensor.data.file_ranges().filter(|(.., len)| *len > 0) {
            starts.entry(start).or_insert(index);
        }
    }
    let tensor = |member: &Member| {
        let (_, start) = member.data.file_range()?;
        let end = start.saturating_add(member.data.len());
        starts.range(start..end).map(|(_, index)| *index).min()
    };
    let recorded = byte_map::record(blob, |cursor| {
        let tensors = |members: &[Member]| members.iter().map(tensor).collect();
        zip::map(cursor, blob, limits, tensors, |_, _| Ok(()))
    });
    byte_map::checked(recorded, || read(blob, limits))
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

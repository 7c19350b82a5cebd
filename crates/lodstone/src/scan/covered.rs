//! Files, and members of archives, that hold only tensors of models. Their bytes are numbers, which are never
//! interpreted.

use std::collections::HashMap;
use std::path::PathBuf;

use lodstone_model::Model;
use lodstone_schema::weights;
use lodstone_store::Blob;

use crate::Result;

/// The ranges of files that hold tensors, first and end, in order and disjoint.
#[derive(Debug, Default)]
pub(super) struct Covered(HashMap<PathBuf, Vec<(u64, u64)>>);

impl Covered {
    /// Adds the ranges of a model.
    pub(super) fn add(&mut self, model: &Model) {
        let parameters = weights(model);
        let mut new = HashMap::new();
        for parameter in parameters.iter() {
            for (file, offset, length) in parameter.tensor.data.file_ranges() {
                let ranges = new.entry(file.path()).or_insert_with(Vec::new);
                ranges.push((offset, offset.saturating_add(length)));
            }
        }
        for (path, mut found) in new {
            let ranges = self.0.entry(path.to_path_buf()).or_default();
            found.append(ranges);
            found.sort_unstable();
            for (first, end) in found {
                match ranges.last_mut() {
                    Some(last) if first <= last.1 => last.1 = last.1.max(end),
                    _ => ranges.push((first, end)),
                }
            }
        }
    }

    /// Returns whether bytes of a file consist of tensors with zeros between them.
    ///
    /// # Errors
    /// If reading fails.
    pub(super) fn is_all_of(&self, blob: &Blob) -> Result<bool> {
        let Some((file, first)) = blob.file_range() else { return Ok(false) };
        let Some(ranges) = self.0.get(file.path()) else { return Ok(false) };
        let end = first + blob.len();
        let before = ranges.partition_point(|range| range.1 <= first);
        let inside = ranges.iter().skip(before).copied().take_while(|range| range.0 < end);
        let mut at = first;
        for (start, next) in inside.chain([(end, end)]) {
            if start > at && !is_zero(blob, at - first, start - first)? {
                return Ok(false);
            }
            at = at.max(next);
        }
        Ok(true)
    }
}

fn is_zero(blob: &Blob, start: u64, end: u64) -> Result<bool> {
    let mut is_zero = true;
    let end = end.min(blob.len());
    blob.slice(start, end.saturating_sub(start))?.for_each_chunk(|chunk| {
        is_zero &= chunk.iter().all(|byte| *byte == 0);
        Ok::<_, crate::Error>(())
    })?;
    Ok(is_zero)
}

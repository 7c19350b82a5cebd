//! Files that hold only tensors of models in other files. Their bytes are numbers, which are never interpreted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lodstone_model::Model;
use lodstone_schema::weights;
use lodstone_store::Blob;

use crate::Result;

/// The ranges of files that hold tensors: offset and length.
#[derive(Debug, Default)]
pub(super) struct Covered(HashMap<PathBuf, Vec<(u64, u64)>>);

impl Covered {
    /// Adds the ranges of the model at `path` in other files.
    pub(super) fn add(&mut self, path: &Path, model: &Model) {
        for parameter in weights(model).iter() {
            for (file, offset, length) in parameter.tensor.data.file_ranges() {
                if file.path() != path {
                    let ranges = self.0.entry(file.path().to_path_buf()).or_default();
                    ranges.push((offset, length));
                }
            }
        }
    }

    /// Returns whether a file consists of tensors with zeros between them.
    ///
    /// # Errors
    /// If reading fails.
    pub(super) fn is_all_of(&self, path: &Path, blob: &Blob) -> Result<bool> {
        let Some(ranges) = self.0.get(path) else { return Ok(false) };
        let mut ranges = ranges.clone();
        ranges.sort_unstable();
        let mut at = 0;
        for (start, length) in ranges.into_iter().chain([(blob.len(), 0)]) {
            if start > at && !is_zero(blob, at, start)? {
                return Ok(false);
            }
            at = at.max(start.saturating_add(length));
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

//! Files of `torch.save`.
//!
//! | release | layout | module |
//! |---|---|---|
//! | since 1.6 | a zip archive: `data.pkl`, and `data/KEY` for each storage | `zip` |
//! | 0.1.10 to 1.5 | five pickles, and the storages | `stream` |
//! | until 0.1.9 | a tape archive: `sys_info`, `pickle`, `tensors`, `storages` | `tape` |
//!
//! The old layouts are written by later releases, too, on request.

pub(crate) mod stream;
pub(crate) mod tape;
pub(crate) mod zip;

use lodstone_model::{Limits, Model};
use lodstone_store::Blob;

use super::archive::Archive;
use super::object::Contents;
use super::outside::is_numbered;
use crate::encoding::tar::is_tar;
use crate::error::Result;

/// Reads a file of any layout.
///
/// # Errors
/// Fails if the file is damaged; the error names the tensor and its place.
pub(crate) fn read_blob(blob: &Blob, limits: &Limits) -> Result<Model> {
    let head = blob.head(512)?;
    if is_numbered(&head, blob.len()) {
        return Ok(model(blob, stream::read(blob, limits)?));
    }
    if is_tar(&head) {
        return Ok(model(blob, tape::read(blob, limits)?));
    }
    let archive = Archive::open(blob, limits)?;
    let contents = zip::member(&archive, "data.pkl", "data/", limits)?;
    Ok(Model { checksums: archive.checksums(), ..model(blob, contents) })
}

/// Returns the model of a file.
pub(super) fn model(blob: &Blob, contents: Contents) -> Model {
    let Contents { parameters, metadata, warnings } = contents;
    let (format, files) = (super::NAME.to_owned(), vec![blob.clone()]);
    let mut model = Model { format, parameters, metadata, files, ..Model::default() };
    warnings.into_iter().for_each(|warning| model.report.warn(warning));
    model
}

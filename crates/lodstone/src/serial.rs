//! Checkpoints as models: serials, and directories to which operators of a program have saved.

use lodstone_checkpoint::{LOADER, Serial};
use lodstone_formats::OpenOptions;
use lodstone_model::{Model, Parameter};
use lodstone_store::{Location, Progress};

use crate::Result;
use crate::dialects::saved_checkpoints;

/// The format of checkpoints, which only managers and programs write.
pub(crate) const FORMAT: &str = "checkpoint";

/// Opens the checkpoint in a directory as a model of its tensors; `None` if there is none.
///
/// # Errors
/// If it is damaged.
pub(crate) fn open_checkpoint(dir: &Location, options: &OpenOptions) -> Result<Option<Model>> {
    if let Some(serial) = Serial::at(dir)? {
        return open_serial(&serial).map(Some);
    }
    let saved = saved_checkpoints::open(dir, LOADER, options)?;
    Ok(saved.map(|model| Model { format: FORMAT.to_owned(), ..model }))
}

/// Opens the tensors of a serial. Elements are read on access and then verified against their checksums.
///
/// # Errors
/// If the manifest is invalid, or the files or the loader contradict it.
pub fn open_serial(serial: &Serial) -> Result<Model> {
    let (format, parameters) = (FORMAT.to_owned(), tensors(serial)?);
    Ok(Model { format, parameters, ..Model::default() })
}

#[cfg(feature = "runtime")]
fn tensors(serial: &Serial) -> Result<Vec<Parameter>> {
    Ok(crate::dialects::runtime::checkpoint::tensors(serial)?)
}

#[cfg(not(feature = "runtime"))]
fn tensors(serial: &Serial) -> Result<Vec<Parameter>> {
    Ok(serial.tensors()?)
}

/// Returns all defects of a serial; empty if it is intact. Reads all its bytes.
///
/// # Errors
/// If the manifest is invalid, a file cannot be read, or the work was cancelled.
#[cfg(feature = "runtime")]
pub fn verify_serial(serial: &Serial, progress: &Progress) -> Result<Vec<String>> {
    Ok(crate::dialects::runtime::checkpoint::verify(serial, progress)?)
}

/// Returns all defects of the files of a serial; empty if they are intact. Reads all their bytes.
///
/// # Errors
/// If the manifest is invalid, a file cannot be read, or the work was cancelled.
#[cfg(not(feature = "runtime"))]
pub fn verify_serial(serial: &Serial, progress: &Progress) -> Result<Vec<String>> {
    Ok(serial.verify(progress)?)
}

//! Checkpoint serials, with their program if this build can read it.

use lodstone_checkpoint::Serial;
use lodstone_model::{Model, Parameter};
use lodstone_store::Progress;

use crate::Result;

/// Opens the tensors of a serial. Elements are read on access and then verified against their checksums.
///
/// # Errors
/// If the manifest is invalid, or the files or the loader contradict it.
pub fn open_serial(serial: &Serial) -> Result<Model> {
    let (format, parameters) = ("checkpoint".to_owned(), tensors(serial)?);
    Ok(Model { format, parameters, ..Model::default() })
}

#[cfg(feature = "runtime")]
fn tensors(serial: &Serial) -> Result<Vec<Parameter>> {
    Ok(crate::runtime::checkpoint::tensors(serial)?)
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
    Ok(crate::runtime::checkpoint::verify(serial, progress)?)
}

/// Returns all defects of the files of a serial; empty if they are intact. Reads all their bytes.
///
/// # Errors
/// If the manifest is invalid, a file cannot be read, or the work was cancelled.
#[cfg(not(feature = "runtime"))]
pub fn verify_serial(serial: &Serial, progress: &Progress) -> Result<Vec<String>> {
    Ok(serial.verify(progress)?)
}

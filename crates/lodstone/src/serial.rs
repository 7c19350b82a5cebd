//! Serials of checkpoints, with the program in them if this build can read it.

use lodstone_checkpoint::Serial;
use lodstone_model::{Model, Parameter};
use lodstone_store::Progress;

use crate::Result;

/// Opens the tensors of a serial, whose elements are read on access and compared with their checksums then.
///
/// # Errors
/// If the manifest cannot be used, or the files or the loader contradict it.
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

/// Everything that is wrong with a serial; nothing if it is whole. All its bytes are read.
///
/// # Errors
/// If the manifest cannot be used, a file cannot be read, or the work was cancelled.
#[cfg(feature = "runtime")]
pub fn verify_serial(serial: &Serial, progress: &Progress) -> Result<Vec<String>> {
    Ok(crate::runtime::checkpoint::verify(serial, progress)?)
}

/// Everything that is wrong with the files of a serial; nothing if they are whole. All their bytes are read.
///
/// # Errors
/// If the manifest cannot be used, a file cannot be read, or the work was cancelled.
#[cfg(not(feature = "runtime"))]
pub fn verify_serial(serial: &Serial, progress: &Progress) -> Result<Vec<String>> {
    Ok(serial.verify(progress)?)
}

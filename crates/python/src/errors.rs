//! Conversion of errors to exceptions with the same messages.

use std::io;
use std::path::Path;

use lodstone::checkpoint::Error as CheckpointError;
use lodstone::formats::Error as FormatError;
use lodstone::paddle::checkpoint::Error as RestoreError;
use lodstone::paddle::program::Error as ProgramError;
use lodstone::store::Error as StoreError;
use lodstone::{Error, Model};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::hint;

/// Returns the exception for an error.
pub(crate) fn raise(py: Python<'_>, error: Error) -> PyErr {
    if let Error::Checkpoint(error) = error {
        return raise_checkpoint(py, error);
    }
    let hinted = exception(py, &error).and_then(|raised| match hint::of(&error) {
        Some(hint) => hinted(py, raised, &hint),
        None => Ok(raised),
    });
    hinted.unwrap_or_else(|broken| broken)
}

/// Returns an exception with a hint, which tracebacks show below its message.
fn hinted(py: Python<'_>, raised: PyErr, hint: &str) -> PyResult<PyErr> {
    let value = raised.value(py);
    value.setattr("hint", hint)?;
    value.call_method1("add_note", (format!("hint: {hint}"),))?;
    Ok(raised)
}

/// Returns the exception for an error of storage.
pub(crate) fn raise_store(py: Python<'_>, error: StoreError) -> PyErr {
    raise(py, Error::Format(error.into()))
}

/// Returns the exception for an error of a checkpoint.
pub(crate) fn raise_checkpoint(py: Python<'_>, error: CheckpointError) -> PyErr {
    let message = error.to_string();
    let known = match error {
        CheckpointError::Store(error) => return raise_store(py, error),
        CheckpointError::Format(error) => return raise(py, error.into()),
        CheckpointError::Absent { path, .. } => named(py, "NoModelError", &message, Some(&path)),
        _ => named(py, "UnsupportedError", &message, None),
    };
    known.unwrap_or_else(|broken| broken)
}

/// Returns the exception for a program that cannot be built.
pub(crate) fn raise_program(py: Python<'_>, error: ProgramError) -> PyErr {
    match error {
        ProgramError::Format(error) => raise(py, error.into()),
        error => {
            let message = error.to_string();
            named(py, "ProgramError", &message, None).unwrap_or_else(|broken| broken)
        }
    }
}

/// Returns the exception for a tensor whose elements are in no file.
pub(crate) fn raise_absent(py: Python<'_>, model: Option<&Model>, name: &str) -> PyErr {
    let parts = model.and_then(|model| lodstone::convert::composed(&model.parameters).remove(name));
    let (class, message) = match parts {
        Some(parts) => ("UnsupportedError", consists_of(name, &parts)),
        None if model.is_some_and(lodstone::formats::has_meta) => {
            ("UnsupportedError", format!("`{name}` has no elements: its device was `meta`"))
        }
        None => ("DamagedError", format!("the files do not contain the elements of `{name}`")),
    };
    named(py, class, &message, None).unwrap_or_else(|broken| broken)
}

/// Explains a tensor that only consists of others.
pub(crate) fn consists_of(name: &str, parts: &[&str]) -> String {
    let parts: Vec<_> = parts.iter().map(|part| format!("`{part}`")).collect();
    format!("`{name}` only consists of other tensors: {}", parts.join(", "))
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let message = error.to_string();
    let format = match error {
        Error::Format(format) => format,
        Error::Lossy(losses) => {
            let places = losses.iter().map(|(loss, places)| (loss.name(), places));
            let losses: std::collections::BTreeMap<_, _> = places.collect();
            let value = class(py, "LossyError")?.call1((message,))?;
            value.setattr("losses", losses)?;
            return Ok(PyErr::from_value(value));
        }
        Error::ChangedMeanwhile(path) => return named(py, "LodstoneError", &message, Some(path)),
        Error::Restore(RestoreError::Program(_) | RestoreError::Incomplete { .. }) => {
            return named(py, "ProgramError", &message, None);
        }
        Error::Restore(RestoreError::Run(_)) | Error::Run(_) => {
            return named(py, "RunError", &message, None);
        }
        Error::Restore(_) | Error::NoElements => return named(py, "DamagedError", &message, None),
        Error::Internal(_) => return named(py, "InternalError", &message, None),
        Error::NoSuchIndex { .. } => return named(py, "NoTensorError", &message, None),
        Error::NoSuchTensor { name, similar } | Error::AmbiguousTensor { name, names: similar } => {
            return about(py, "NoTensorError", &message, name, similar);
        }
        Error::NoSuchInput { name, similar, .. } => {
            return about(py, "InputError", &message, name, similar);
        }
        Error::MissingInput(name)
        | Error::UnknownShape(name)
        | Error::InvalidInput { name, .. } => return about(py, "InputError", &message, name, &[]),
        Error::TooManyInputs { .. } | Error::UnpairedInputs { .. } => {
            return named(py, "InputError", &message, None);
        }
        Error::NoSuchOutput { name, similar } => {
            return about(py, "OutputError", &message, name, similar);
        }
        Error::InvalidOutput { name, .. } => return about(py, "OutputError", &message, name, &[]),
        Error::NoMatch { .. } => return named(py, "OptionError", &message, None),
        Error::InvalidOption { option, .. } => {
            let value = class(py, "OptionError")?.call1((message,))?;
            value.setattr("option", hint::keyword(option))?;
            return Ok(PyErr::from_value(value));
        }
        _ => return named(py, "UnsupportedError", &message, None),
    };
    match format.cause() {
        FormatError::Store(error) => store(py, error, &message),
        FormatError::NoModel { path, .. } => named(py, "NoModelError", &message, Some(path)),
        FormatError::Unrecognized { path, .. } | FormatError::Unsupported { path, .. } => {
            named(py, "UnknownFormatError", &message, Some(path))
        }
        FormatError::Mismatch { path, .. }
        | FormatError::Unsealed { path }
        | FormatError::Json { path, .. } => named(py, "DamagedError", &message, Some(path)),
        _ => named(py, "UnsupportedError", &message, None),
    }
}

fn store(py: Python<'_>, error: &StoreError, message: &str) -> PyResult<PyErr> {
    match error {
        // Python maps the `errno` of an `OSError` to a subclass.
        StoreError::Io { source, .. } | StoreError::Memory { source, .. } => {
            let error: PyErr = io::Error::new(source.kind(), message).into();
            error.value(py).setattr("errno", source.raw_os_error())?;
            Ok(error)
        }
        StoreError::NotAFile { path, .. } => named(py, "UnknownFormatError", message, Some(path)),
        StoreError::Malformed { origin: path, .. }
        | StoreError::OutOfRange { origin: path, .. } => {
            named(py, "DamagedError", message, Some(Path::new(path)))
        }
        StoreError::Damaged { path, .. }
        | StoreError::Resized { path, .. }
        | StoreError::Unusable { path, .. } => named(py, "DamagedError", message, Some(path)),
        StoreError::Limit { origin, .. } => {
            named(py, "UnsupportedError", message, Some(Path::new(origin)))
        }
        StoreError::Escapes { path, .. } => {
            named(py, "DamagedError", message, Some(Path::new(path)))
        }
        _ => named(py, "LodstoneError", message, None),
    }
}

fn named(py: Python<'_>, name: &str, message: &str, file: Option<&Path>) -> PyResult<PyErr> {
    let value = class(py, name)?.call1((message,))?;
    if let Some(file) = file {
        value.setattr("file", file)?;
    }
    Ok(PyErr::from_value(value))
}

/// Returns the exception about a name, with the most similar names.
fn about(
    py: Python<'_>,
    kind: &str,
    message: &str,
    name: &str,
    similar: &[String],
) -> PyResult<PyErr> {
    let value = class(py, kind)?.call1((message,))?;
    value.setattr("name", name)?;
    value.setattr("similar", PyTuple::new(py, similar)?)?;
    Ok(PyErr::from_value(value))
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("lodstone._errors")?.getattr(name)
}

//! Conversion of errors to exceptions with the same messages.

use std::io;
use std::path::Path;

use lodstone::checkpoint::Error as CheckpointError;
use lodstone::program::Error as ProgramError;
use lodstone::store::Error as StoreError;
use lodstone::{Error, ErrorKind, Model};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::hint;

/// Returns the exception for an error.
pub(crate) fn raise(py: Python<'_>, error: Error) -> PyErr {
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
    raise(py, Error::Checkpoint(error))
}

/// Returns the exception for a program that cannot be built.
pub(crate) fn raise_program(py: Python<'_>, error: ProgramError) -> PyErr {
    raise(py, Error::Build(error))
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

/// Returns the name of the class for a kind of error.
fn class_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NoModel => "NoModelError",
        ErrorKind::UnknownFormat => "UnknownFormatError",
        ErrorKind::Damaged => "DamagedError",
        ErrorKind::NoTensor => "NoTensorError",
        ErrorKind::Input => "InputError",
        ErrorKind::Output => "OutputError",
        ErrorKind::Option => "OptionError",
        ErrorKind::Program => "ProgramError",
        ErrorKind::Run => "RunError",
        ErrorKind::Lossy => "LossyError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Internal => "InternalError",
        _ => "LodstoneError",
    }
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let message = error.to_string();
    if error.kind() == ErrorKind::System
        && let Some(source) = by_system(error)
    {
        // Python maps the `errno` of an `OSError` to a subclass.
        let error: PyErr = io::Error::new(source.kind(), message).into();
        error.value(py).setattr("errno", source.raw_os_error())?;
        return Ok(error);
    }
    let value = class(py, class_of(error.kind()))?.call1((message,))?;
    let about = |name: &str, similar: &[String]| {
        value.setattr("name", name)?;
        value.setattr("similar", PyTuple::new(py, similar)?)
    };
    match error {
        Error::Lossy(losses) => {
            let places = losses.iter().map(|(loss, places)| (loss.name(), places));
            let losses: std::collections::BTreeMap<_, _> = places.collect();
            value.setattr("losses", losses)?;
        }
        Error::NoSuchTensor { name, similar }
        | Error::AmbiguousTensor { name, names: similar }
        | Error::NoSuchInput { name, similar, .. }
        | Error::NoSuchOutput { name, similar } => about(name, similar)?,
        Error::MissingInput(name)
        | Error::UnknownShape(name)
        | Error::InvalidInput { name, .. }
        | Error::InvalidOutput { name, .. } => about(name, &[])?,
        Error::InvalidOption { option, .. } => value.setattr("option", hint::keyword(option))?,
        _ => {
            if let Some(path) = error.path() {
                value.setattr("file", path)?;
            }
        }
    }
    Ok(PyErr::from_value(value))
}

/// Returns the error of the system behind an error.
fn by_system(error: &Error) -> Option<&io::Error> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error);
        }
        source = error.source();
    }
    None
}

fn named(py: Python<'_>, name: &str, message: &str, file: Option<&Path>) -> PyResult<PyErr> {
    let value = class(py, name)?.call1((message,))?;
    if let Some(file) = file {
        value.setattr("file", file)?;
    }
    Ok(PyErr::from_value(value))
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("lodstone._errors")?.getattr(name)
}

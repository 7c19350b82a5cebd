//! Writes a program.

use bytes::Bytes;
use lodstone_model::{Dialect, Limits, Program};
use lodstone_store::Blob;

use super::read;
use crate::error::{Error, Result};

/// The owner of the residual of a program, which is its text.
pub(super) const OWNER: &str = "paddle pir";

const FORMAT: &str = "a PIR program";

/// Encodes a program that was read from PIR, as its original text.
///
/// # Errors
/// Fails if the program was edited, or is not one of PIR.
pub fn write(program: &Program) -> Result<Bytes> {
    let refuse = |what: String| Err(Error::Incompatible { format: FORMAT, what });
    if program.dialect != Dialect::Pir {
        return refuse(format!("a program of {}", program.dialect.framework()));
    }
    let Some(text) = program.residual.of(OWNER) else {
        return refuse("a program that was not read from one".to_owned());
    };
    let then = read(&Blob::memory(text.clone()), &Limits::none())?;
    // A number that is not one differs from itself, unlike its text.
    match then == *program || format!("{then:?}") == format!("{program:?}") {
        true => Ok(text.clone()),
        false => refuse("an edited program; PIR programs are written unchanged only".to_owned()),
    }
}

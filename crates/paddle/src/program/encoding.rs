//! Programs as bytes.

use lodstone_formats::paddle::program;
use lodstone_model::{Limits, Program};
use lodstone_store::Blob;

use crate::program::error::Result;
use crate::program::files::Form;

/// Encodes a program.
///
/// # Errors
/// If the format cannot represent it.
pub fn encode(program: &Program, form: Form) -> Result<Vec<u8>> {
    Ok(match form {
        Form::Binary => program::write(program)?.into(),
        Form::Text => program::write_text(program)?.into(),
    })
}

/// Decodes a program in either form; `origin` names the bytes in errors.
///
/// # Errors
/// If the bytes are not a program.
pub fn decode(bytes: &[u8], origin: &str) -> Result<Program> {
    let blob = Blob::memory(bytes.to_vec());
    Ok(program::open(&blob, origin, &Limits::default())?)
}

//! The tensors of TorchScript (`torch.jit.save`).
//!
//! Archives since 1.3 are those of `torch.save`, with a program:
//!
//! | member | contents |
//! |---|---|
//! | `data.pkl`, `data/KEY` | the module: instances of classes of the program, with their attributes |
//! | `constants.pkl`, `constants/KEY` | a tuple of constants, which the program calls `CONSTANTS.cN` |
//! | `code/..` | the program |
//! | `extra/..`, `traced_inputs.pkl` | other files, which are not read |
//!
//! The pickle has the opcodes of protocol 2, but a call may have an argument that is not in a tuple: the value of an
//! enum. The state of an instance whose class has `__setstate__` is what its `__getstate__` returned: the packed
//! parameters of quantized modules are tensors in a tuple, whose paths are its indices.
//!
//! Archives until 1.2:
//!
//! | member | contents |
//! |---|---|
//! | `model.json` | modules with their parameters, and the tensors: dims, strides, offset, type, member |
//! | `tensors/N` | the bytes of a storage |
//! | `attributes.pkl` (1.2) | attributes, and buffers |
//! | `code/..` | the functions of each module |
//!
//! Source of truth: `torch/csrc/jit/serialization` of PyTorch 2.15 and 1.3, and files that 1.0 to 2.15 wrote.

mod arranged;
mod early;
mod program;

pub(crate) use program::program;

use lodstone_model::{Limits, Parameter};

use super::archive::{Archive, Kind};
use super::object::Contents;
use super::saved::zip;
use crate::error::Result;

/// Reads the tensors of a module and of its constants.
///
/// # Errors
/// Fails if the archive is damaged.
pub(crate) fn contents(archive: &Archive, limits: &Limits) -> Result<Contents> {
    if archive.kind == Kind::EarlyScript {
        return early::contents(archive, limits);
    }
    let mut contents = zip::member(archive, "data.pkl", "data/", limits)?;
    let constants = zip::member(archive, "constants.pkl", "constants/", limits)?;
    for Parameter { name, tensor } in constants.parameters {
        contents.parameters.push(Parameter { name: constant(&name), tensor });
    }
    for (name, value) in constants.metadata.into_iter().filter(|(_, value)| value != "[]") {
        contents.metadata.insert(constant(&name), value);
    }
    contents.warnings.extend(constants.warnings);
    Ok(contents)
}

/// Returns the name that the program has for the constant with an index, and for its parts.
fn constant(index: &str) -> String {
    format!("CONSTANTS.c{index}")
}

#[cfg(test)]
mod tests;

//! A model: what there is, whoever wrote it.

use std::collections::BTreeMap;

use lodstone_store::Blob;

use crate::{Program, Report, Residual, Tensor};

/// An optional program, parameters by name, and what the files say about themselves.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The format it was read from: `paddle`, `safetensors`.
    pub format: String,
    /// The topology, if the files hold one.
    pub program: Option<Program>,
    /// Tensors in the order of the file.
    pub parameters: Vec<Parameter>,
    /// Free-form facts of the file (safetensors' `__metadata__`).
    pub metadata: BTreeMap<String, String>,
    /// What the format said about the file as a whole beyond this.
    pub residual: Residual,
    /// The files that it was read from, each whole.
    pub files: Vec<Blob>,
    /// Checksums that the files carry for parts of themselves.
    pub checksums: Vec<Checksum>,
    /// What was noticed while reading.
    pub report: Report,
}

/// A tensor and its name; the name is empty where the files do not say one.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The name.
    pub name: String,
    /// The tensor.
    pub tensor: Tensor,
}

/// A checksum that a file carries for a part of itself; reading does not compare it.
#[derive(Clone, Debug)]
pub struct Checksum {
    /// What it is of: "member `w.npy`".
    pub place: String,
    /// The bytes.
    pub data: Blob,
    /// Their CRC-32, by the file.
    pub crc32: u32,
}

impl Model {
    /// The parameter called `name`.
    pub fn parameter(&self, name: &str) -> Option<&Tensor> {
        self.parameters.iter().find(|p| p.name == name).map(|p| &p.tensor)
    }

    /// Size of all tensors in bytes.
    pub fn nbytes(&self) -> u64 {
        self.parameters.iter().map(|parameter| parameter.tensor.nbytes()).sum()
    }
}

//! Code shared by the suites: cases with recorded facts, hashes, scratch directories, a counter of
//! allocated bytes.
#![allow(
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    reason = "tests read files directly, and their numbers are small"
)]
#![allow(dead_code, unreachable_pub, reason = "each suite uses a part")]

pub mod counting;
pub mod damage;
pub mod facts;
pub mod subjects;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lodstone_formats::{Error, FORMATS, OpenOptions, Probe};
use lodstone_model::{Indices, Kind, Model, Tensor};
use lodstone_store::{Blob, Location};
use sha2::{Digest, Sha256};

/// Returns the folder of the PaddlePaddle golden files.
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/paddle")
}

/// Returns the SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a file.
pub fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Opens a file or a directory in the format that is detected.
pub fn open(path: &Path) -> Result<Model, Error> {
    let location = Location::from(path);
    let entries = path.is_dir().then(|| location.list().unwrap());
    let head = if path.is_dir() { Vec::new() } else { bytes(path) };
    let (len, head) = (head.len() as u64, &head[..head.len().min(4096)]);
    let probe = Probe { path: &location, head, len, entries: entries.as_deref() };
    let format = FORMATS.iter().find(|format| (format.detect)(&probe));
    let format = format.unwrap_or_else(|| panic!("{}: no format", path.display()));
    (format.read)(&location, &OpenOptions::default())
}

/// Returns the facts of a tensor as one comparable value.
pub fn facts_of(name: &str, tensor: &Tensor) -> facts::Tensor {
    let mut facts = facts::Tensor {
        name: name.to_owned(),
        kind: tensor.kind.name().to_owned(),
        dtype: tensor.dtype.to_string(),
        shape: tensor.shape.clone(),
        sha256: Some(sha256(&tensor.data.bytes().unwrap())),
        lod: tensor.lod.0.clone(),
        ..facts::Tensor::default()
    };
    match &tensor.kind {
        Kind::SelectedRows { rows, height } => {
            let rows = rows.bytes().unwrap();
            facts.rows = rows.as_chunks().0.iter().map(|row| i64::from_le_bytes(*row)).collect();
            facts.height = Some(*height);
        }
        Kind::Vocabulary { tokens } => {
            // A vocabulary has tokens, but no elements.
            (facts.dtype, facts.shape, facts.sha256) = Default::default();
            facts.tokens = tokens.iter().cloned().collect();
        }
        Kind::Strings { elements } => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (facts.texts, facts.sha256) =
                (elements.iter().map(|element| text(element)).collect(), None);
        }
        Kind::RowSparse { indices } | Kind::Coo { indices, .. } => {
            facts.parts = parts(&[("indices", indices)]);
        }
        Kind::Csr { indptr, indices } => {
            facts.parts = parts(&[("indptr", indptr), ("indices", indices)]);
        }
        Kind::Dense | Kind::Absent => {}
    }
    facts
}

/// Returns the index integers of a tensor, with their types.
fn parts(parts: &[(&str, &Indices)]) -> BTreeMap<String, (String, Vec<i64>)> {
    let list = |indices: &Indices| {
        let mut numbers = Vec::new();
        indices.for_each(|number| numbers.push(number)).unwrap();
        (indices.dtype.to_string(), numbers)
    };
    parts.iter().map(|(name, indices)| ((*name).to_owned(), list(indices))).collect()
}

/// Returns the facts of all tensors of a model.
pub fn facts_of_all(model: &Model) -> Vec<facts::Tensor> {
    model.parameters.iter().map(|p| facts_of(&p.name, &p.tensor)).collect()
}

/// A reproducible sequence of pseudorandom numbers (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Returns the bytes of a file as a blob in memory.
pub fn blob(bytes: &[u8]) -> Blob {
    Blob::memory(bytes.to_vec())
}

/// Returns a protobuf varint.
pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

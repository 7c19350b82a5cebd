//! Digests of results, for a comparison with another build on the same machine (`cargo xtask locks`).
//!
//! Results depend on the CPU, so they cannot be recorded. With `LODSTONE_BITS=FILE`, a test appends a line to the file for
//! each result: a digest of its type, dims, LoD and elements, and its name.

#![expect(clippy::disallowed_types, reason = "appends to a file for another program")]

use std::fs::OpenOptions;
use std::io::Write;

use lodstone_model::Tensor;
use lodstone_store::checksum;

/// The environment variable with the file of digests.
pub(crate) const FILE: &str = "LODSTONE_BITS";

/// Appends the digest of tensors.
pub(crate) fn keep<'t>(what: &str, tensors: impl IntoIterator<Item = &'t Tensor>) {
    let Some(path) = std::env::var_os(FILE) else { return };
    let mut all = Vec::new();
    for tensor in tensors {
        let facts = (tensor.dtype, &tensor.shape, &tensor.lod.0);
        all.extend(format!("{facts:?}").into_bytes());
        for blob in tensor.blobs() {
            all.extend_from_slice(&blob.bytes().unwrap());
        }
    }
    let line = format!("{:016x} {what}\n", checksum(&all));
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.unwrap().write_all(line.as_bytes()).unwrap();
}

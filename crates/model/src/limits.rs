//! Limits on what a reader may allocate, and its cancellation.

use lodstone_store::{Progress, Result};

/// Limits on what a file may make a reader build, far above any real model.
///
/// Lengths and counts are always checked against the bytes available; these limits cover data that is small in a
/// file but large in memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum bytes of a structured file (a program, a header, an index) that is read as a whole.
    pub structure_bytes: u64,
    /// Maximum number of tensors in a model.
    pub tensors: usize,
    /// Maximum number of nodes in a program: blocks, variables, operators, slots, attributes.
    pub nodes: usize,
    /// Maximum nesting depth of messages and values.
    pub depth: usize,
    /// Progress of the reader, through which it can be cancelled.
    pub progress: Progress,
}

crate::with_fields!(Limits {
    with_structure_bytes(structure_bytes: u64),
    with_tensors(tensors: usize),
    with_nodes(nodes: usize),
    with_depth(depth: usize),
    with_progress(progress: Progress),
});

impl Limits {
    /// Returns limits that never apply, for trusted data.
    pub fn none() -> Self {
        let (tensors, nodes, depth) = (usize::MAX, usize::MAX, usize::MAX);
        let progress = Progress::default();
        Self { structure_bytes: u64::MAX, tensors, nodes, depth, progress }
    }

    /// Fails if the reader was cancelled. Readers call it for each field, value or record.
    ///
    /// # Errors
    /// [`lodstone_store::Error::Cancelled`].
    pub fn check_cancelled(&self) -> Result<()> {
        self.progress.advance(0)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // The largest known programs have some hundred MiB; protobuf is limited to 2 GiB.
            structure_bytes: 2 << 30,
            // A model of a trillion parameters in tensors of 1 MiB has a million tensors.
            tensors: 10_000_000,
            nodes: 50_000_000,
            // The limit of protobuf's own parsers.
            depth: 100,
            progress: Progress::default(),
        }
    }
}

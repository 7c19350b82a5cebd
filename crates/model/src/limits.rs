//! How much a reader may take on, and for how long.

use lodstone_store::{Progress, Result};

/// Bounds on what a file may make a reader build, far above any real model.
///
/// Lengths and counts are always checked against the bytes that are there; these bounds are for
/// what is small in a file and large in memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a structured file (a program, a header, an index) that is read as a whole.
    pub structure_bytes: u64,
    /// Tensors in one model.
    pub tensors: usize,
    /// Nodes of a program: blocks, variables, operators, slots, attributes.
    pub nodes: usize,
    /// Nesting of messages and values.
    pub depth: usize,
    /// Stops a reader that takes too long.
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
    /// No bounds, for what is our own.
    pub fn none() -> Self {
        let (tensors, nodes, depth) = (usize::MAX, usize::MAX, usize::MAX);
        let progress = Progress::default();
        Self { structure_bytes: u64::MAX, tensors, nodes, depth, progress }
    }

    /// Fails if the reader is to stop. It asks at each field, value or record.
    ///
    /// # Errors
    /// [`lodstone_store::Error::Cancelled`].
    pub fn go_on(&self) -> Result<()> {
        self.progress.advance(0)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // The largest programs that are known have some hundred MiB; protobuf ends at 2 GiB.
            structure_bytes: 2 << 30,
            // A model of a trillion parameters in tensors of a mebibyte has a million.
            tensors: 10_000_000,
            nodes: 50_000_000,
            // As deep as protobuf's own parsers go.
            depth: 100,
            progress: Progress::default(),
        }
    }
}

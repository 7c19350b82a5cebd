//! How much a reader may take on.

/// Bounds on what a file may make a reader build, far above any real model.
///
/// Lengths and counts are always checked against the bytes that are there; these bounds are for
/// what is small in a file and large in memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a structured file (a program, a header, an index) that is read as a whole.
    pub structure_bytes: u64,
    /// Tensors in one model.
    pub tensors: usize,
    /// Nodes of a program: blocks, variables, operators, slots, attributes.
    pub nodes: usize,
    /// Nesting of messages and values.
    pub depth: usize,
}

impl Limits {
    /// No bounds, for what is our own.
    pub const fn none() -> Self {
        let (tensors, nodes, depth) = (usize::MAX, usize::MAX, usize::MAX);
        Self { structure_bytes: u64::MAX, tensors, nodes, depth }
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
        }
    }
}

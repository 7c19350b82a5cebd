//! Limits on what a reader may allocate, and its cancellation.

use std::num::NonZeroU32;

use lodstone_store::{Ceiling, Progress, Result};

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

    /// Returns limits that are `factor` times as high, but for the depth, for a file that is trusted.
    #[must_use]
    pub fn raised(&self, factor: NonZeroU32) -> Self {
        let factor = factor.get();
        let times =
            |limit: usize| limit.saturating_mul(usize::try_from(factor).unwrap_or(usize::MAX));
        let (tensors, nodes) = (times(self.tensors), times(self.nodes));
        let structure_bytes = self.structure_bytes.saturating_mul(factor.into());
        Self { structure_bytes, tensors, nodes, ..self.clone() }
    }

    /// Describes the limit of tensors for an error; `noun` is what a format calls them.
    pub fn at_most_tensors(&self, noun: &str) -> Ceiling {
        Ceiling::option(format!("at most {} {noun}", self.tensors))
    }

    /// Describes the limit of nodes for an error; `noun` is what a format calls them.
    pub fn at_most_nodes(&self, noun: &str) -> Ceiling {
        Ceiling::option(format!("at most {} {noun}", self.nodes))
    }

    /// Describes the limit of bytes for an error, `what` being "of a program".
    pub fn at_most_bytes(&self, what: &str) -> Ceiling {
        Ceiling::option(format!("at most {} bytes {what}", self.structure_bytes))
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

//! The memory that kernels work in, beside their inputs and results: copies in another type or order, lists of indices,
//! intermediate results.
//!
//! `tests/memory` compares it with an allocator that counts, for each operator. Kernels whose working memory is not
//! proportional to the numbers of elements reserve it themselves ([`Call::workspace`](crate::call::Call::workspace)).

/// The memory that a kernel works in, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Working {
    /// For each element of the inputs.
    inputs: u64,
    /// For each element of the results.
    results: u64,
}

impl Working {
    /// Nothing: the kernel works in its results.
    pub(crate) const NONE: Self = Self::new(0, 0);

    /// Creates the bytes for each element of the inputs and of the results. Results whose dims shape inference does not find
    /// are taken to have the elements of the inputs.
    pub(crate) const fn new(inputs: u64, results: u64) -> Self {
        Self { inputs, results }
    }

    /// Returns the bytes for inputs and results of these numbers of elements.
    pub(crate) fn bytes(self, inputs: u64, results: u64) -> u64 {
        let inputs = self.inputs.saturating_mul(inputs);
        inputs.saturating_add(self.results.saturating_mul(results))
    }
}

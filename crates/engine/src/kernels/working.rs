//! The memory that kernels work in, beside their inputs and results: copies in another type or order, lists of indices,
//! intermediate results.
//!
//! `tests/memory` compares it with an allocator that counts, for each operator. Kernels whose working memory is not
//! proportional to the numbers of elements reserve it themselves ([`Call::workspace`](super::Call::workspace)).

/// The memory that a kernel works in, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Working {
    /// For each element of the inputs.
    inputs: u64,
    /// For each element of the results.
    results: u64,
}

impl Working {
    /// Returns the memory that the kernel of an operator works in.
    pub(crate) fn of(kind: &str) -> Self {
        let found = TABLE.binary_search_by_key(&kind, |(known, ..)| known);
        let row = found.ok().and_then(|at| TABLE.get(at));
        row.map(|(_, inputs, results)| Self { inputs: *inputs, results: *results })
            .unwrap_or_default()
    }

    /// Returns the bytes for inputs and results of these numbers of elements.
    pub(crate) fn bytes(self, inputs: u64, results: u64) -> u64 {
        let inputs = self.inputs.saturating_mul(inputs);
        inputs.saturating_add(self.results.saturating_mul(results))
    }
}

/// The memory of operators by kind, in bytes for each element of the inputs and of the results.
const TABLE: [(&str, u64, u64); 0] = [];

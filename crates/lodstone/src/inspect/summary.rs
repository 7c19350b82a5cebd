//! Totals and counts of a model.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use lodstone_model::Program;
use serde::{Serialize, Serializer};

use super::TensorInfo;

/// Totals and counts of a model.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// The number of tensors.
    pub tensors: usize,
    /// The number of stored elements.
    pub elements: u64,
    /// The size of the stored elements in bytes.
    pub nbytes: u64,
    /// The number of stored elements by element type, the most frequent first.
    #[serde(serialize_with = "as_map")]
    pub dtypes: Vec<(String, u64)>,
    /// The number of operators by kind, the most frequent first.
    #[serde(serialize_with = "as_map")]
    pub operators: Vec<(String, u64)>,
}

impl Summary {
    pub(super) fn of(tensors: &[TensorInfo], program: Option<&Program>) -> Self {
        let ops = program.into_iter().flat_map(|program| program.ops());
        Self {
            tensors: tensors.len(),
            elements: tensors.iter().map(TensorInfo::elements).fold(0, u64::saturating_add),
            nbytes: tensors.iter().map(|tensor| tensor.nbytes).fold(0, u64::saturating_add),
            dtypes: totals(tensors.iter().map(|t| (t.dtype.to_string(), t.elements()))),
            operators: totals(ops.map(|op| (op.kind.as_str(), 1))),
        }
    }
}

/// Returns the sum of the counts of each key, the largest first; equal sums by key.
fn totals<K: Ord + Into<String>>(counts: impl Iterator<Item = (K, u64)>) -> Vec<(String, u64)> {
    let mut sums = BTreeMap::new();
    for (key, count) in counts {
        let sum: &mut u64 = sums.entry(key).or_default();
        *sum = sum.saturating_add(count);
    }
    let mut totals: Vec<_> = sums.into_iter().map(|(key, count)| (key.into(), count)).collect();
    totals.sort_by_key(|(_, count)| Reverse(*count));
    totals
}

fn as_map<S: Serializer>(counts: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.iter().map(|(key, count)| (key, count)))
}

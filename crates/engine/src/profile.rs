//! How long the operators of runs take.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lodstone_store::system::Stopwatch;

/// Measures the operators of runs that hold it in their [`Context`](crate::Context), one run at a time.
#[derive(Debug, Default)]
pub struct Profile(Mutex<Measured>);

#[derive(Debug, Default)]
struct Measured {
    /// By kind and name.
    operators: BTreeMap<(String, String), (u64, Duration)>,
    total: Duration,
}

/// The time that one operator took.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperatorTime {
    /// The kind of the operator; kinds that were computed in one pass are joined by `+`.
    pub kind: String,
    /// The name of the operator, or of its first output if it has none.
    pub name: String,
    /// How many times it ran.
    pub calls: u64,
    /// The time of all calls, without the operators of its subgraphs.
    pub time: Duration,
}

impl Profile {
    fn measured(&self) -> MutexGuard<'_, Measured> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work`, and counts its time for the operator `kind`, `name`, except for the time that operators inside it
    /// count for themselves.
    pub fn measure<T>(&self, kind: &str, name: &str, work: impl FnOnce() -> T) -> T {
        let before = self.measured().total;
        let start = Stopwatch::begin();
        let result = work();
        let elapsed = start.elapsed();
        let mut measured = self.measured();
        let inner = measured.total.saturating_sub(before);
        let own = elapsed.saturating_sub(inner);
        measured.total += own;
        let entry = measured.operators.entry((kind.to_owned(), name.to_owned())).or_default();
        entry.0 += 1;
        entry.1 += own;
        result
    }

    /// The operators that ran, the slowest first.
    pub fn operators(&self) -> Vec<OperatorTime> {
        let measured = self.measured();
        let mut operators: Vec<OperatorTime> = measured
            .operators
            .iter()
            .map(|((kind, name), (calls, time))| OperatorTime {
                kind: kind.clone(),
                name: name.clone(),
                calls: *calls,
                time: *time,
            })
            .collect();
        operators.sort_by_key(|operator| std::cmp::Reverse(operator.time));
        operators
    }
}

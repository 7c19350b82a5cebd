//! What a run may use, and when it stops.

use std::sync::atomic::{AtomicU64, Ordering};

use lodstone_schema::{Code, Finding};
use lodstone_store::Progress;

use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::threads::Threads;

/// What a run may use: memory, threads, and, if they are bounded, steps. A run whose [`Progress`] is cancelled stops
/// before its next operator.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub(crate) budget: &'a Budget,
    pub(crate) threads: &'a Threads,
    steps: Option<&'a Steps>,
    progress: Option<&'a Progress>,
}

impl<'a> Context<'a> {
    /// A run within a budget, on threads, with any number of steps.
    pub fn new(budget: &'a Budget, threads: &'a Threads) -> Self {
        Self { budget, threads, steps: None, progress: None }
    }

    /// The same, with bounded steps.
    #[must_use]
    pub fn with_steps(mut self, steps: &'a Steps) -> Self {
        self.steps = Some(steps);
        self
    }

    /// The same, with a handle that cancels the run.
    #[must_use]
    pub fn with_progress(mut self, progress: &'a Progress) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Takes a step.
    pub(crate) fn step(&self) -> Result<()> {
        if let Some(progress) = self.progress {
            progress.advance(0).map_err(|_| Error::Cancelled)?;
        }
        match self.steps {
            Some(steps) => steps.take().map_err(Error::Program),
            None => Ok(()),
        }
    }
}

/// A bound on the steps of runs. A step is one operator; operators of subgraphs count each time they run.
#[derive(Debug)]
pub struct Steps {
    taken: AtomicU64,
    max: u64,
}

impl Steps {
    /// At most `max` steps.
    pub fn new(max: u64) -> Self {
        Self { taken: AtomicU64::new(0), max }
    }

    /// How many steps were taken.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed).min(self.max)
    }

    fn take(&self) -> std::result::Result<(), Finding> {
        match self.taken.fetch_add(1, Ordering::Relaxed) < self.max {
            true => Ok(()),
            false => {
                let max = self.max;
                Err(Finding::new(Code::Limit, format!("the run exceeds its limit of {max} steps")))
            }
        }
    }
}

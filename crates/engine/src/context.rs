//! The resources of a run, and its cancellation.

use std::sync::atomic::{AtomicU64, Ordering};

use lodstone_schema::{Code, Finding};
use lodstone_store::Progress;

use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::profile::Profile;
use crate::threads::Threads;

/// The resources of a run: memory, threads and optionally a step limit. A run whose [`Progress`] is cancelled stops
/// before its next operator.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub(crate) budget: &'a Budget,
    pub(crate) threads: &'a Threads,
    steps: Option<&'a Steps>,
    progress: Option<&'a Progress>,
    pub(crate) profile: Option<&'a Profile>,
}

impl<'a> Context<'a> {
    /// Creates a context with a budget and threads, without a step limit.
    pub fn new(budget: &'a Budget, threads: &'a Threads) -> Self {
        Self { budget, threads, steps: None, progress: None, profile: None }
    }

    /// Returns this context with a step limit.
    #[must_use]
    pub fn with_steps(mut self, steps: &'a Steps) -> Self {
        self.steps = Some(steps);
        self
    }

    /// Returns this context with a handle that cancels the run.
    #[must_use]
    pub fn with_progress(mut self, progress: &'a Progress) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Returns this context with a profile that measures its operators.
    #[must_use]
    pub fn with_profile(mut self, profile: &'a Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Counts one step.
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

/// A limit on the steps of runs. A step is one operator; operators of subgraphs count each time they run.
#[derive(Debug)]
pub struct Steps {
    taken: AtomicU64,
    max: u64,
}

impl Steps {
    /// Creates a limit of `max` steps.
    pub fn new(max: u64) -> Self {
        Self { taken: AtomicU64::new(0), max }
    }

    /// Returns the number of steps taken.
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

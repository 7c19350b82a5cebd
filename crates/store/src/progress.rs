//! Progress and cancellation of long operations.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{Error, Result, Step, StepKind};

/// A handle shared between a long operation and its observer.
///
/// The operation adds the bytes it has moved; the observer reads them from another thread and may
/// cancel. A cancelled write publishes nothing.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<State>);

#[derive(Default)]
struct State {
    done: AtomicU64,
    cancelled: AtomicBool,
    watcher: Option<Box<Watcher>>,
}

type Watcher = dyn Fn(&Step<'_>) -> Result<()> + Send + Sync;

impl Progress {
    /// Creates a handle that calls `watcher` before every [`Step`] of a write. If it returns an error, the step fails
    /// with that error and is not executed.
    pub fn watched(watcher: impl Fn(&Step<'_>) -> Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(State { watcher: Some(Box::new(watcher)), ..State::default() }))
    }

    /// Adds `bytes` to the progress, and fails if the operation was cancelled.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub fn advance(&self, bytes: u64) -> Result<()> {
        self.0.done.fetch_add(bytes, Ordering::Relaxed);
        if self.0.cancelled.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Returns the number of bytes moved so far.
    pub fn done(&self) -> u64 {
        self.0.done.load(Ordering::Relaxed)
    }

    /// Makes the operation stop at the next chunk.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    /// Announces a step of a write to the watcher before its execution.
    ///
    /// # Errors
    /// The error of the watcher; the step must not be executed then.
    pub fn step(&self, kind: StepKind, path: &Path) -> Result<()> {
        self.0.watcher.as_ref().map_or(Ok(()), |watcher| watcher(&Step { kind, path }))
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (done, cancelled) = (&self.done, &self.cancelled);
        f.debug_struct("State").field("done", done).field("cancelled", cancelled).finish()
    }
}

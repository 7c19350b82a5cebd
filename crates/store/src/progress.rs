//! How far long work has come, and a way to stop it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{Error, Result, Step, StepKind};

/// A handle shared between long work and whoever watches it.
///
/// The work adds the bytes it has moved; the watcher reads them from another thread and may
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
    /// A handle that tells `watcher` every [`Step`] of a write before it is done. An error that it
    /// gives is that of the step, which is then not done.
    pub fn watched(watcher: impl Fn(&Step<'_>) -> Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(State { watcher: Some(Box::new(watcher)), ..State::default() }))
    }

    /// Adds `bytes` to what is done, and fails if the watcher has cancelled.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub fn advance(&self, bytes: u64) -> Result<()> {
        self.0.done.fetch_add(bytes, Ordering::Relaxed);
        if self.0.cancelled.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Bytes moved so far.
    pub fn done(&self) -> u64 {
        self.0.done.load(Ordering::Relaxed)
    }

    /// Asks the work to stop at the next chunk.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    /// Announces a step of a write to the watcher, before it is done.
    ///
    /// # Errors
    /// That of the watcher: then the step is not to be done.
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

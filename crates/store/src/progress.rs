//! How far long work has come, and a way to stop it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A handle shared between long work and whoever watches it.
///
/// The work adds the bytes it has moved; the watcher reads them from another thread and may
/// cancel. A cancelled write publishes nothing.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<State>);

#[derive(Debug, Default)]
struct State {
    done: AtomicU64,
    cancelled: AtomicBool,
}

impl Progress {
    /// Adds `bytes` to what is done, and fails if the watcher has cancelled.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn advance(&self, bytes: u64) -> crate::Result<()> {
        self.0.done.fetch_add(bytes, Ordering::Relaxed);
        if self.0.cancelled.load(Ordering::Relaxed) { Err(crate::Error::Cancelled) } else { Ok(()) }
    }

    /// Bytes moved so far.
    pub fn done(&self) -> u64 {
        self.0.done.load(Ordering::Relaxed)
    }

    /// Asks the work to stop at the next chunk.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }
}

//! The I/O thread: runs requests for callers that block.
//!
//! One thread of the process owns a runtime. A call hands it a future and waits on a channel, so it works on any thread,
//! also on those of a caller's own runtime.

use std::future::Future;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

use crate::{Fault, Interrupt};

/// The time between two looks at the interrupt.
const POLL: Duration = Duration::from_millis(50);

/// Maximum time of a request that cleans up.
const CLEANUP: Duration = Duration::from_secs(15);

/// The runtime of a process; a forked child has no threads of its parent.
#[derive(Clone, Debug)]
pub(crate) struct Runtime {
    handle: Handle,
    process: u32,
}

/// Work that runs on the I/O thread. It is aborted if nobody waits for it.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    result: Receiver<Result<T, Fault>>,
    task: JoinHandle<()>,
}

impl Runtime {
    /// Returns the runtime of this process, and starts its thread if there is none.
    pub(crate) fn get() -> Result<Self, Fault> {
        static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);
        let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = runtime.as_ref().filter(|running| running.is_here()) {
            return Ok(running.clone());
        }
        let started = Self::start()?;
        *runtime = Some(started.clone());
        Ok(started)
    }

    fn start() -> Result<Self, Fault> {
        let failed = |error| Fault::Network(format!("cannot start the I/O thread: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let run = move || runtime.block_on(std::future::pending::<()>());
        thread::Builder::new().name("lodstone-remote".to_owned()).spawn(run).map_err(failed)?;
        Ok(Self { handle, process: std::process::id() })
    }

    fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// Runs a future on the I/O thread and waits for its result.
    ///
    /// # Errors
    /// The error of the future; [`Fault::Cancelled`] if the caller interrupts it.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        interrupt: &Interrupt,
        work: impl Future<Output = Result<T, Fault>> + Send + 'static,
    ) -> Result<T, Fault> {
        self.start_work(work)?.wait(interrupt)
    }

    /// Runs a future on the I/O thread.
    ///
    /// # Errors
    /// Fails in a forked child.
    pub(crate) fn start_work<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Fault>> + Send + 'static,
    ) -> Result<Pending<T>, Fault> {
        if !self.is_here() {
            let what = "this store was opened before the process was forked: open it again";
            return Err(Fault::Network(what.to_owned()));
        }
        let (send, result) = mpsc::channel();
        let task = self.handle.spawn(async move {
            // The caller may have left.
            let _ = send.send(work.await);
        });
        Ok(Pending { result, task })
    }

    /// Runs a future that cleans up, for a bounded time, even if the caller is interrupted.
    pub(crate) fn clean_up(&self, work: impl Future<Output = ()> + Send + 'static) {
        let bounded = async move {
            let _ = tokio::time::timeout(CLEANUP, work).await;
            Ok(())
        };
        // What remains is documented: servers expire unfinished uploads, and locks.
        let _ = self.call(&Interrupt::default(), bounded);
    }

    /// Runs a future on the I/O thread without waiting for it.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if self.is_here() {
            self.handle.spawn(work);
        }
    }
}

impl<T> Pending<T> {
    /// Waits for the result.
    ///
    /// # Errors
    /// The error of the future; [`Fault::Cancelled`] if the caller interrupts it.
    pub(crate) fn wait(self, interrupt: &Interrupt) -> Result<T, Fault> {
        loop {
            match self.result.recv_timeout(POLL) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) if interrupt.is_set() => {
                    return Err(Fault::Cancelled);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Fault::Network("a request ended without a result".to_owned()));
                }
            }
        }
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

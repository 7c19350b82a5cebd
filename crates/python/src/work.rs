//! Long work, with progress and cancellation.

use std::io;
#[cfg(feature = "remote")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use lodstone::Progress;
use lodstone::run::Threads;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The interval between checks for signals and reports of progress.
const PAUSE: Duration = Duration::from_millis(50);

/// The interval between attempts to take a lock.
const RETRY: Duration = Duration::from_micros(200);

/// Whether an exception stops work that has not ended: what waits for a server stops, too.
#[cfg(feature = "remote")]
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

#[cfg(feature = "remote")]
pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Sets whether waiting stops.
fn set_interrupted(is_interrupted: bool) {
    #[cfg(feature = "remote")]
    INTERRUPTED.store(is_interrupted, Ordering::Relaxed);
    #[cfg(not(feature = "remote"))]
    let _ = is_interrupted;
}

/// Runs work without the GIL. Meanwhile, `callback` is called with the number of bytes processed.
///
/// # Errors
/// An exception of `callback` or of a signal handler, which cancels the work; an error if no thread can be started.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    callback: Option<&Py<PyAny>>,
    work: impl FnOnce(&Progress) -> T + Send,
) -> PyResult<T> {
    let progress = Progress::default();
    let (result, stopped) = py.detach(|| {
        thread::scope(|scope| {
            let (ended, end) = channel::<()>();
            let worker = thread::Builder::new().spawn_scoped(scope, || {
                // Dropping the sender reports the end, also after a panic.
                let _ended = ended;
                work(&progress)
            })?;
            let stopped = watch(&end, &progress, callback);
            let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok::<_, io::Error>((result, stopped))
        })
    })?;
    match stopped {
        Some(error) => Err(error),
        None => check(&progress, callback).map(|()| result),
    }
}

/// Runs work on a locked value like [`run`], without a callback, on the threads of an engine: for work that may take less
/// time than starting a thread.
///
/// The calling thread takes the lock: a thread of the pool that waited for it could be the one that holds it, since it
/// runs other work while it waits for a part of its own.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_on<L: Send, T: Send>(
    py: Python<'_>,
    threads: &Threads,
    value: &Mutex<L>,
    work: impl FnOnce(&mut L, &Progress) -> T + Send,
) -> PyResult<T> {
    let progress = Progress::default();
    py.detach(|| {
        let mut locked = lock(value)?;
        let locked = &mut *locked;
        let (ended, end) = channel::<()>();
        let mut stopped = None;
        let work = || {
            let _ended = ended;
            work(locked, &progress)
        };
        let result = threads.run_beside(work, || stopped = watch(&end, &progress, None));
        match stopped {
            Some(error) => Err(error),
            None => result.map_err(|error| PyRuntimeError::new_err(error.to_string())),
        }
    })
}

/// Runs work on a locked value on the calling thread: work that cannot be cancelled, so that nothing needs to look for
/// signals until it has ended.
///
/// # Errors
/// An exception of a signal handler.
pub(crate) fn run_here<L: Send, T: Send>(
    py: Python<'_>,
    value: &Mutex<L>,
    work: impl FnOnce(&mut L) -> T + Send,
) -> PyResult<T> {
    let result = py.detach(|| lock(value).map(|mut locked| work(&mut locked)))?;
    py.check_signals()?;
    Ok(result)
}

/// Waits for a lock, and meanwhile checks for signals.
fn lock<L>(value: &Mutex<L>) -> PyResult<MutexGuard<'_, L>> {
    let mut checked = Instant::now();
    loop {
        match value.try_lock() {
            Ok(locked) => return Ok(locked),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => thread::sleep(RETRY),
        }
        if checked.elapsed() >= PAUSE {
            Python::attach(|py| py.check_signals())?;
            checked = Instant::now();
        }
    }
}

/// Checks for signals, and reports progress, until the work has ended; cancels it at the first exception, and returns
/// that.
fn watch(end: &Receiver<()>, progress: &Progress, callback: Option<&Py<PyAny>>) -> Option<PyErr> {
    let mut stopped = None;
    while end.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
        if stopped.is_none()
            && let Err(error) = check(progress, callback)
        {
            progress.cancel();
            set_interrupted(true);
            stopped = Some(error);
        }
    }
    if stopped.is_some() {
        set_interrupted(false);
    }
    stopped
}

fn check(progress: &Progress, callback: Option<&Py<PyAny>>) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        match callback {
            Some(callback) => callback.call1(py, (progress.done(),)).map(drop),
            None => Ok(()),
        }
    })
}

//! Long work, with progress and cancellation.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use lodstone::Progress;
use pyo3::prelude::*;

/// The interval between checks for signals and reports of progress.
const PAUSE: Duration = Duration::from_millis(50);

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
    let check = |progress: &Progress| {
        Python::attach(|py| {
            py.check_signals()?;
            match callback {
                Some(callback) => callback.call1(py, (progress.done(),)).map(drop),
                None => Ok(()),
            }
        })
    };
    let (result, stopped) = py.detach(|| {
        thread::scope(|scope| {
            let (ended, end) = channel::<()>();
            let worker = thread::Builder::new().spawn_scoped(scope, || {
                // Dropping the sender reports the end, also after a panic.
                let _ended = ended;
                work(&progress)
            })?;
            let mut stopped = None;
            while end.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                if stopped.is_none()
                    && let Err(error) = check(&progress)
                {
                    progress.cancel();
                    stopped = Some(error);
                }
            }
            let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok::<_, io::Error>((result, stopped))
        })
    })?;
    match stopped {
        Some(error) => Err(error),
        None => check(&progress).map(|()| result),
    }
}

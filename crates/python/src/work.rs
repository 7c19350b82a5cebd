//! Work that takes long.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use lodstone::Progress;
use pyo3::prelude::*;

/// How often it is looked for signals, and told how far the work is.
const PAUSE: Duration = Duration::from_millis(50);

/// Does work without the interpreter's lock. While it lasts, `callback` is called with the number of
/// bytes that are done; what it raises, or a signal's handler, cancels the work and is raised here.
///
/// # Errors
/// Those, and that there is no thread to be had.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    callback: Option<&Py<PyAny>>,
    work: impl FnOnce(&Progress) -> T + Send,
) -> PyResult<T> {
    let progress = Progress::default();
    let look = |progress: &Progress| {
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
                // Said by dropping it, by a panic too.
                let _ended = ended;
                work(&progress)
            })?;
            let mut stopped = None;
            while end.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                if stopped.is_none()
                    && let Err(error) = look(&progress)
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
        None => look(&progress).map(|()| result),
    }
}

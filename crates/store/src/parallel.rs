//! Parallel execution on all processors.
//!
//! Checksums are computed of chunks that stay in the caches of the processors and are read in file order, which suits
//! disks, and are then combined into those of pieces.

use std::num::NonZero;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

/// Maximum number of threads: more do not increase memory throughput.
const MAX_THREADS: usize = 8;

/// Returns the number of processors, cached because the query can take longer than an item of work.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

/// Calls `work` for each item, on one thread per processor up to a maximum. Items are started in order, so that a file
/// is read from its beginning to its end; each thread creates a `state` that its calls share.
///
/// # Errors
/// The error of the first item that fails; later items may not have been started.
pub(crate) fn for_each<I, S, E>(
    items: Vec<I>,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, I) -> Result<(), E> + Sync,
) -> Result<(), E>
where
    I: Send,
    E: Send,
{
    let threads = if items.len() < 2 { 1 } else { processors().min(MAX_THREADS).min(items.len()) };
    // The remaining items, and the failure of the lowest index: earlier items were started before it.
    let shared = Mutex::new((items.into_iter().enumerate(), None::<(usize, E)>));
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || {
        let (items, failed) = &mut *lock();
        if failed.is_some() { None } else { items.next() }
    };
    let all = || {
        let mut state = state();
        while let Some((number, item)) = next() {
            if let Err(error) = work(&mut state, item) {
                let (_, failed) = &mut *lock();
                if failed.as_ref().is_none_or(|(first, _)| number < *first) {
                    *failed = Some((number, error));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // If no more threads can be started, the existing ones do all the work.
            if thread::Builder::new().spawn_scoped(scope, all).is_err() {
                break;
            }
        }
        all();
    });
    let (_, failed) = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.map_or(Ok(()), |(_, error)| Err(error))
}

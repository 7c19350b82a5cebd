//! The threads that kernels run on.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use lodstone_schema::Finding;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::item::Outcome;

/// Bytes of stack of a thread.
const STACK: usize = 8 << 20;

/// Bytes up to which a kernel runs on the thread of the caller: handing it over would take longer.
pub(crate) const SMALL: u64 = 1 << 14;

/// A pool of threads for kernels. Results do not depend on how many there are.
///
/// The pool begins with the first kernel that is large enough for it, once in each process: the threads of a process
/// that was forked are not there in the child, which begins its own. rayon's global pool is not used.
#[derive(Clone)]
pub struct Threads(Arc<Inner>);

struct Inner {
    count: usize,
    /// The process that began the pool, and the pool.
    pool: Mutex<Option<(u32, Arc<ThreadPool>)>>,
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Threads({})", self.0.count)
    }
}

impl Default for Threads {
    /// As many as there are processors, shared by all who ask for no others.
    fn default() -> Self {
        static SHARED: LazyLock<Threads> = LazyLock::new(|| {
            let count = std::thread::available_parallelism();
            Threads::new(count.map_or(1, usize::from))
        });
        SHARED.clone()
    }
}

impl Threads {
    /// A pool of so many threads, at least one.
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Inner { count: count.max(1), pool: Mutex::new(None) }))
    }

    /// How many threads there are.
    pub fn count(&self) -> usize {
        self.0.count
    }

    /// Runs work on the pool, and waits for it. Kernels that it runs stay on its thread, or share the work with the
    /// others of the pool.
    ///
    /// # Errors
    /// If the system gives no threads.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Outcome<T> {
        Ok(self.pool()?.install(work))
    }

    /// Runs work that touches so many bytes: on the pool if they are many, where the caller is if they are few.
    ///
    /// # Errors
    /// If the system gives no threads.
    pub(crate) fn run_if<T: Send>(
        &self,
        bytes: u64,
        work: impl FnOnce() -> T + Send,
    ) -> Outcome<T> {
        if bytes <= SMALL { Ok(work()) } else { self.run(work) }
    }

    fn pool(&self) -> Outcome<Arc<ThreadPool>> {
        let mut known = self.0.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if let Some((owner, pool)) = &*known
            && *owner == process
        {
            return Ok(Arc::clone(pool));
        }
        let builder = ThreadPoolBuilder::new().num_threads(self.0.count).stack_size(STACK);
        let pool = builder.thread_name(|number| format!("lodstone-{number}")).build();
        let pool = pool.map_err(|error| Finding::from(format!("there are no threads: {error}")))?;
        let pool = Arc::new(pool);
        // The parent's threads are not here to be ended.
        std::mem::forget(known.replace((process, Arc::clone(&pool))));
        Ok(pool)
    }
}

//! The threads that kernels run on.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lodstone_schema::Finding;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder, Yield};

use crate::item::Outcome;

/// The stack size of a thread in bytes.
const STACK: usize = 8 << 20;

/// The maximum number of bytes for which a kernel runs on the caller's thread: handing it over would take longer.
pub(crate) const SMALL: u64 = 1 << 14;

/// A pool of threads for kernels. Results do not depend on the number of threads.
///
/// The pool starts with the first kernel that is large enough for it, once in each process: threads do not survive a
/// fork, so the child starts its own. rayon's global pool is not used.
#[derive(Clone)]
pub struct Threads(Arc<Inner>);

struct Inner {
    count: usize,
    /// The process that started the pool, and the pool.
    pool: Mutex<Option<(u32, Arc<Pool>)>>,
}

/// The threads of rayon, and what they do between parts of a run.
struct Pool {
    threads: ThreadPool,
    idle: Arc<Idle>,
}

/// Keeps idle threads awake during a run: most kernels take less time than waking one.
#[derive(Default)]
struct Idle {
    /// The number of runs.
    runs: AtomicUsize,
    /// Whether the pool is being dropped.
    is_closed: Mutex<bool>,
    changed: Condvar,
}

/// A run, until it is dropped.
struct Running<'p>(&'p Idle);

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Threads({})", self.0.count)
    }
}

impl Default for Threads {
    /// Returns a pool with one thread per processor, shared by all users of the default.
    fn default() -> Self {
        static SHARED: LazyLock<Threads> = LazyLock::new(|| {
            let count = std::thread::available_parallelism();
            Threads::new(count.map_or(1, usize::from))
        });
        SHARED.clone()
    }
}

impl Threads {
    /// Creates a pool of `count` threads, at least one.
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Inner { count: count.max(1), pool: Mutex::new(None) }))
    }

    /// Returns the number of threads.
    pub fn count(&self) -> usize {
        self.0.count
    }

    /// Runs work on the pool and waits for it. Kernels inside stay on their thread, or share work with the other threads
    /// of the pool.
    ///
    /// # Errors
    /// If the system cannot start threads.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Outcome<T> {
        let pool = self.pool()?;
        let _running = pool.idle.begin();
        Ok(pool.threads.install(work))
    }

    /// Runs work on the pool while the caller's thread does something else, `wait`, which should return when the work has
    /// ended; waits for it and returns its result. Starting a thread for the work would take longer.
    ///
    /// # Errors
    /// If the system cannot start threads.
    pub fn run_beside<T: Send>(
        &self,
        work: impl FnOnce() -> T + Send,
        wait: impl FnOnce(),
    ) -> Outcome<T> {
        let mut result = None;
        let pool = self.pool()?;
        let running = pool.idle.begin();
        pool.threads.in_place_scope(|scope| {
            scope.spawn(|_| {
                // The work may be for the threads of another library, which idle ones would disturb.
                drop(running);
                result = Some(work());
            });
            wait();
        });
        // A panic of the work has resumed at the end of the scope.
        result.ok_or_else(|| Finding::internal("the work on the pool has no result"))
    }

    /// Runs work that touches this many bytes: on the pool if there are many, on the caller's thread if there are few.
    ///
    /// # Errors
    /// If the system cannot start threads.
    pub(crate) fn run_if<T: Send>(
        &self,
        bytes: u64,
        work: impl FnOnce() -> T + Send,
    ) -> Outcome<T> {
        if bytes <= SMALL { Ok(work()) } else { self.run(work) }
    }

    fn pool(&self) -> Outcome<Arc<Pool>> {
        let mut known = self.0.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if let Some((owner, pool)) = &*known
            && *owner == process
        {
            return Ok(Arc::clone(pool));
        }
        let idle = Arc::<Idle>::default();
        let attending = Arc::clone(&idle);
        let builder = ThreadPoolBuilder::new().num_threads(self.0.count).stack_size(STACK);
        let builder = builder.thread_name(|number| format!("lodstone-{number}"));
        let threads = builder.start_handler(move |_| attending.attend()).build();
        let threads =
            threads.map_err(|error| Finding::from(format!("cannot start threads: {error}")))?;
        let pool = Arc::new(Pool { threads, idle });
        // The threads of the parent do not exist here, so they cannot be joined.
        std::mem::forget(known.replace((process, Arc::clone(&pool))));
        Ok(pool)
    }
}

/// The time that an idle thread waits without sleeping.
const AWAKE: Duration = Duration::from_millis(2);

/// The time for which it sleeps then, before it looks for work again.
const NAP: Duration = Duration::from_micros(100);

/// The number of pauses of the processor between two looks for work.
const PAUSES: usize = 16;

/// The number of looks for work after which other processes may have the processor.
const LOOKS: u32 = 32;

impl Idle {
    fn begin(&self) -> Running<'_> {
        if self.runs.fetch_add(1, Ordering::SeqCst) == 0 {
            // A thread that has seen no run waits now, or will see this one.
            drop(self.lock());
            self.changed.notify_one();
        }
        Running(self)
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the work of a thread until the pool is dropped. This is below everything on its stack, so no work waits for it.
    fn attend(&self) {
        loop {
            self.work();
            let waits = |is_closed: &mut bool| !*is_closed && !self.is_running();
            let woken = self.changed.wait_while(self.lock(), waits);
            if *woken.unwrap_or_else(PoisonError::into_inner) {
                return;
            }
            // Each thread wakes the next one: the caller would need longer to wake all.
            self.changed.notify_one();
        }
    }

    /// Does parts of runs until there are no runs.
    fn work(&self) {
        let (mut looks, mut since) = (0_u32, None);
        while self.is_running() {
            if rayon::yield_now() == Some(Yield::Executed) {
                (looks, since) = (0, None);
                continue;
            }
            looks += 1;
            match looks.is_multiple_of(LOOKS) {
                true if since.get_or_insert_with(Instant::now).elapsed() > AWAKE => {
                    thread::sleep(NAP);
                    looks -= 1;
                }
                true => thread::yield_now(),
                false => (0..PAUSES).for_each(|_| std::hint::spin_loop()),
            }
        }
    }

    fn is_running(&self) -> bool {
        self.runs.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.runs.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        *self.idle.lock() = true;
        self.idle.changed.notify_all();
    }
}

/// Calls `work` for each chunk of a number of elements, with scratch space of a thread and the number of the chunk: on all
/// threads of the pool that this is called in. Outside of a pool, where rayon would start one of its own, the chunks are
/// handled one after another.
///
/// # Errors
/// The first error of `work`.
pub(crate) fn each_chunk<T: Default, E: Send>(
    all: &mut [E],
    size: usize,
    work: impl Fn(&mut T, usize, &mut [E]) -> Outcome<()> + Sync,
) -> Outcome<()> {
    let size = size.max(1);
    if rayon::current_thread_index().is_some() {
        let chunks = all.par_chunks_mut(size).enumerate();
        chunks
            .try_for_each_init(T::default, |scratch, (number, chunk)| work(scratch, number, chunk))
    } else {
        let mut scratch = T::default();
        let mut chunks = all.chunks_mut(size).enumerate();
        chunks.try_for_each(|(number, chunk)| work(&mut scratch, number, chunk))
    }
}

/// Returns the number of threads that [`each_chunk`] uses here.
pub(crate) fn sharing() -> usize {
    rayon::current_thread_index().map_or(1, |_| rayon::current_num_threads())
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "tests fail so")]
mod tests {
    use super::*;

    /// Returns the sum of some numbers that all threads of a pool increase, in a run within a run.
    fn summed(threads: &Threads, count: usize) -> usize {
        let work = || {
            let mut all = vec![0; count];
            let increase = |(): &mut (), number: usize, part: &mut [usize]| {
                part.iter_mut().for_each(|it| *it = number);
                Ok(())
            };
            each_chunk(&mut all, 7, increase).map(|()| all.iter().sum())
        };
        threads
            .run(|| threads.run(work))
            .expect("there are threads")
            .expect("summed")
            .expect("done")
    }

    #[test]
    fn several_callers_share_a_pool() {
        for count in 1..5 {
            let threads = Threads::new(count);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for round in 0..50 {
                            assert_eq!(summed(&threads, 700), 7 * 99 * 100 / 2);
                            if round % 20 == 0 {
                                // Until idle threads sleep.
                                thread::sleep(AWAKE * 2);
                            }
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn threads_end_with_their_pool() {
        let threads = Threads::new(3);
        assert_eq!(summed(&threads, 70), 7 * 9 * 10 / 2);
        let idle = Arc::downgrade(&threads.pool().expect("there are threads").idle);
        drop(threads);
        let begun = Instant::now();
        while idle.upgrade().is_some() {
            assert!(begun.elapsed() < Duration::from_mins(1), "threads still wait for work");
            thread::sleep(AWAKE);
        }
    }
}

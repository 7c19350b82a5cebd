//! The threads that kernels run on.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lodstone_schema::Finding;
use lodstone_store::system::{HAS_THREADS, Stopwatch, keep_freed_pages, process, processors};
use rayon::{Scope, ThreadPool, ThreadPoolBuilder, Yield};

use crate::error::Outcome;

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

/// Counts one less when it is dropped.
struct Counted<'c>(&'c AtomicUsize);

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Threads({})", self.0.count)
    }
}

impl Default for Threads {
    /// Returns a pool with one thread per processor, shared by all users of the default.
    fn default() -> Self {
        static SHARED: LazyLock<Threads> = LazyLock::new(|| Threads::new(processors()));
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
        if !HAS_THREADS {
            return Ok(work());
        }
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
        if !HAS_THREADS {
            let result = work();
            wait();
            return Ok(result);
        }
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
        let mut known = locked(&self.0.pool);
        let process = process();
        if let Some((owner, pool)) = &*known
            && *owner == process
        {
            return Ok(Arc::clone(pool));
        }
        keep_freed_pages();
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

/// The time that a thread waits before other processes may have its processor.
const KEEN: Duration = Duration::from_micros(200);

/// The time that an idle thread waits without sleeping.
const AWAKE: Duration = Duration::from_millis(2);

/// The time for which it sleeps then, before it looks for work again.
const NAP: Duration = Duration::from_micros(100);

/// The number of pauses of the processor between two looks for work.
const PAUSES: usize = 16;

/// The number of looks for work after which it looks at the clock.
const LOOKS: u32 = 32;

impl Idle {
    fn begin(&self) -> Counted<'_> {
        let before = self.runs.fetch_add(1, Ordering::SeqCst);
        let run = Counted(&self.runs);
        if before == 0 {
            // A thread that has seen no run waits now, or will see this one.
            drop(locked(&self.is_closed));
            // One for this processor, which is idle soon, and one for another: where a thread alone wakes the next one, the
            // system may let both run on the same processor for milliseconds.
            self.changed.notify_one();
            self.changed.notify_one();
        }
        run
    }

    /// Does the work of a thread until the pool is dropped. This is below everything on its stack, so no work waits for it.
    fn attend(&self) {
        loop {
            self.work();
            let waits = |is_closed: &mut bool| !*is_closed && !self.is_running();
            let woken = self.changed.wait_while(locked(&self.is_closed), waits);
            if *woken.unwrap_or_else(PoisonError::into_inner) {
                return;
            }
            // Each thread wakes another one: the caller would need longer to wake all.
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
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
            looks += 1;
            if looks < LOOKS {
                continue;
            }
            let waited = since.get_or_insert_with(Stopwatch::begin).elapsed();
            if waited > AWAKE {
                thread::sleep(NAP);
            } else if waited > KEEN {
                thread::yield_now();
            } else {
                looks = 0;
            }
        }
    }

    fn is_running(&self) -> bool {
        self.runs.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        *locked(&self.idle.is_closed) = true;
        self.idle.changed.notify_all();
    }
}

/// Calls `work` for each chunk of a number of elements, as [`each`] does.
///
/// # Errors
/// An error of `work`.
pub(crate) fn each_chunk<T: Default, E: Send>(
    all: &mut [E],
    size: usize,
    work: impl Fn(&mut T, usize, &mut [E]) -> Outcome<()> + Sync,
) -> Outcome<()> {
    if (1..=size).contains(&all.len()) {
        return work(&mut T::default(), 0, all);
    }
    each(all.chunks_mut(size.max(1)).collect(), work)
}

/// Calls `work` for each item, with scratch space of a thread and the number of the item: on all threads of the pool that
/// this is called in. Outside of a pool, where rayon would start one of its own, the items are handled one after another.
///
/// Each thread begins with items that are neighbours, in every call with the same part of them, and then takes what others
/// have not begun: nothing waits for a thread that the system does not run.
///
/// # Errors
/// An error of `work`.
pub(crate) fn each<T: Default, I: Send>(
    items: Vec<I>,
    work: impl Fn(&mut T, usize, I) -> Outcome<()> + Sync,
) -> Outcome<()> {
    let count = sharing().min(items.len());
    if count <= 1 {
        let (mut scratch, mut items) = (T::default(), items.into_iter().enumerate());
        return items.try_for_each(|(number, item)| work(&mut scratch, number, item));
    }
    let items: Vec<_> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    share(items.len(), count, &|next| {
        let mut scratch = T::default();
        while let Some(number) = next() {
            let item = items.get(number).and_then(|item| locked(item).take());
            item.map_or(Ok(()), |item| work(&mut scratch, number, item))?;
        }
        Ok(())
    })
}

/// The work of a thread: handles the items whose numbers a function returns, until there are none.
type Help<'w> = dyn Fn(&mut dyn FnMut() -> Option<usize>) -> Outcome<()> + Sync + 'w;

/// Lets a number of threads handle numbered items.
fn share(items: usize, threads: usize, help: &Help<'_>) -> Outcome<()> {
    let size = items.div_ceil(threads);
    let part = |number: usize| Mutex::new(number * size..items.min(number * size + size));
    let parts = (0..threads).map(part).collect();
    let shared = Shared { parts, help, busy: AtomicUsize::new(0), error: Mutex::new(None) };
    rayon::scope(|scope| {
        shared.offer(scope, threads - 1);
        shared.work();
        shared.wait();
    });
    let error = shared.error.into_inner().unwrap_or_else(PoisonError::into_inner);
    error.map_or(Ok(()), Err)
}

/// Work that threads share.
struct Shared<'w> {
    /// The numbers of the items that no thread has begun.
    parts: Vec<Mutex<Range<usize>>>,
    help: &'w Help<'w>,
    /// The number of threads that are at work.
    busy: AtomicUsize,
    error: Mutex<Option<Finding>>,
}

impl Shared<'_> {
    /// Asks a number of threads for help. Each asks half of those that are left.
    fn offer<'s>(&'s self, scope: &Scope<'s>, mut count: usize) {
        while count > 0 {
            let others = (count - 1) / 2;
            count -= others + 1;
            scope.spawn(move |scope| {
                self.offer(scope, others);
                self.work();
            });
        }
    }

    /// Handles items until all are begun.
    fn work(&self) {
        self.busy.fetch_add(1, Ordering::SeqCst);
        let _busy = Counted(&self.busy);
        // Any part is one to begin with.
        let own = rayon::current_thread_index().unwrap_or(0) % self.parts.len();
        let (others, first) = self.parts.split_at(own);
        let mut parts = first.iter().chain(others).enumerate().peekable();
        let mut next = || {
            loop {
                let (distance, part) = parts.peek()?;
                let number = match distance {
                    0 => locked(part).next(),
                    _ => locked(part).next_back(),
                };
                if number.is_some() {
                    return number;
                }
                parts.next();
            }
        };
        if let Err(error) = (self.help)(&mut next) {
            self.parts.iter().for_each(|part| *locked(part) = 0..0);
            locked(&self.error).get_or_insert(error);
        }
    }

    /// Waits for threads that are at work, without sleeping at first: rayon would let other processes run.
    fn wait(&self) {
        let since = Stopwatch::begin();
        while self.busy.load(Ordering::SeqCst) > 0 && since.elapsed() < KEEN {
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
    }
}

/// Locks what is still valid if a holder of the lock has panicked.
fn locked<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of threads that [`each`] uses here.
pub(crate) fn sharing() -> usize {
    if rayon::current_thread_index().is_some() { rayon::current_num_threads() } else { 1 }
}

#[cfg(test)]
#[expect(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail so")]
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

    /// A run that begins while another one ends wakes the threads.
    #[test]
    fn short_runs_of_several_callers_end() {
        let threads = Threads::new(2);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        threads.run(|| ()).expect("there are threads");
                    }
                });
            }
        });
    }

    #[test]
    fn items_are_handled_once_and_errors_end_the_work() {
        let threads = Threads::new(4);
        for count in [0_usize, 1, 3, 4, 5, 99] {
            let handled: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            let work = |(): &mut (), number, item: &AtomicUsize| {
                assert!(std::ptr::eq(item, &raw const handled[number]));
                item.fetch_add(1, Ordering::SeqCst);
                Ok(())
            };
            let all = threads.run(|| each(handled.iter().collect(), work));
            all.expect("there are threads").expect("handled");
            assert!(handled.iter().all(|it| it.load(Ordering::SeqCst) == 1), "{count}");
        }
        let work = |(): &mut (), number, ()| match number {
            70 => Err(Finding::from("the seventieth")),
            _ => Ok(()),
        };
        let failed = threads.run(|| each(vec![(); 100], work)).expect("there are threads");
        let failed = failed.expect_err("failed");
        assert_eq!(failed.message, "the seventieth");
        let panics = || threads.run(|| each(vec![0; 100], |(): &mut (), at, _| panic!("at {at}")));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(summed(&threads, 700), 7 * 99 * 100 / 2, "after a panic");
    }

    #[test]
    fn threads_end_with_their_pool() {
        let threads = Threads::new(3);
        assert_eq!(summed(&threads, 70), 7 * 9 * 10 / 2);
        let idle = Arc::downgrade(&threads.pool().expect("there are threads").idle);
        drop(threads);
        let begun = Stopwatch::begin();
        while idle.upgrade().is_some() {
            assert!(begun.elapsed() < Duration::from_mins(1), "threads still wait for work");
            thread::sleep(AWAKE);
        }
    }
}

//! An allocator that counts the bytes that all threads of the process hold.
#![expect(unsafe_code, reason = "an allocator is unsafe by nature")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) struct Counting;

static HELD: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

/// Waits until no other test runs: what it allocates would count.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the peak of bytes that the process held while `work` ran, beyond those that it held before.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = work();
    (result, u64::try_from(PEAK.load(Ordering::Relaxed) - before).unwrap_or(0))
}

fn count(bytes: isize) {
    let before = HELD.fetch_add(bytes, Ordering::Relaxed);
    PEAK.fetch_max(before + bytes, Ordering::Relaxed);
}

// SAFETY: every call is forwarded to `System` unchanged; the counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        // The system moves the pages of large memory: both sizes are never there at once.
        count(len.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, len) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

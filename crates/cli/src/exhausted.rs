//! The end of the command when memory is exhausted: an error with the exit code of errors, instead of an abort.
//!
//! Large allocations return errors that name their purpose. When a small one fails, the standard library prints its size
//! and aborts; the handler of that signal then ends the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// The allocator of the system, which notes failures.
struct Noted;

#[global_allocator]
static ALLOCATOR: Noted = Noted;

/// Whether an allocation has failed.
static FAILED: AtomicBool = AtomicBool::new(false);

fn note(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() {
        FAILED.store(true, Ordering::Relaxed);
    }
    pointer
}

// SAFETY: every call is forwarded to `System` unchanged.
#[expect(unsafe_code, reason = "an allocator is unsafe by nature")]
unsafe impl GlobalAlloc for Noted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract.
        note(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract.
        note(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        // SAFETY: the caller upholds the contract.
        note(unsafe { System.realloc(pointer, layout, len) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Lets an abort after a failed allocation end the process with an error.
#[cfg(unix)]
pub(crate) fn end_with_an_error() {
    let handler = ended as extern "C" fn(nix::libc::c_int) as nix::libc::sighandler_t;
    // SAFETY: the handler calls only functions that are safe in signal handlers.
    #[expect(unsafe_code, reason = "there is no safe wrapper")]
    unsafe {
        nix::libc::signal(nix::libc::SIGABRT, handler)
    };
}

#[cfg(unix)]
extern "C" fn ended(signal: nix::libc::c_int) {
    const MESSAGE: &[u8] = b"error: the memory that the system or its limits allow is exhausted\n";
    // SAFETY: both calls are safe in signal handlers, and the message lives for ever.
    #[expect(unsafe_code, reason = "calls of the system")]
    unsafe {
        if FAILED.load(Ordering::Relaxed) {
            nix::libc::write(nix::libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
            nix::libc::_exit(2);
        }
        nix::libc::signal(signal, nix::libc::SIG_DFL);
        nix::libc::raise(signal);
    }
}

#[cfg(not(unix))]
pub(crate) fn end_with_an_error() {}

//! A progress bar on a terminal, for work that takes longer than a second.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lodstone::Progress;

use crate::{Failure, console};

/// Cancels the work when the user interrupts the command: it removes its temporary files and exits. A second
/// interrupt exits at once.
pub(crate) fn cancel_on_interrupt(progress: &Progress) -> Result<(), Failure> {
    // `ctrlc` needs a thread that waits for signals; without it they would be caught and lost.
    let Ok(thread) = thread::Builder::new().spawn(|| ()) else {
        console::warning(
            "cannot start a thread that handles interrupts: temporary files of an interrupted write remain \
             until the next write",
        );
        return Ok(());
    };
    let _ = thread.join();
    let (progress, is_cancelled) = (progress.clone(), AtomicBool::new(false));
    Ok(ctrlc::set_handler(move || {
        progress.cancel();
        #[cfg(feature = "remote")]
        crate::remote::interrupt();
        if is_cancelled.swap(true, Ordering::Relaxed) {
            std::process::exit(2);
        }
    })?)
}

/// Runs `work` and shows its progress, as a share of `total` bytes if that is known.
pub(crate) fn show<T>(progress: &Progress, total: Option<u64>, work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let (done, finished) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let watch = move || watch(progress, total, &finished);
        // If no thread can be started, nothing is shown.
        let _ = thread::Builder::new().spawn_scoped(scope, watch);
        let result = work();
        drop(done);
        result
    })
}

fn watch(progress: &Progress, total: Option<u64>, finished: &mpsc::Receiver<()>) {
    let pause = |time| finished.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout);
    if !pause(Duration::from_secs(1)) {
        return;
    }
    let (bar, style) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{bar:40.cyan} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta}",
        ),
        None => (ProgressBar::no_length(), "{binary_bytes}, {binary_bytes_per_sec}"),
    };
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    while pause(Duration::from_millis(100)) {
        bar.set_position(progress.done());
    }
    bar.finish_and_clear();
}

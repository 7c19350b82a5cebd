//! A bar on a terminal, for work that takes longer than a second.

use std::io::IsTerminal;
use std::sync::mpsc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lodstone::Progress;

/// Does `work` and shows how far `progress` has come of `total` bytes.
pub(crate) fn show<T>(progress: &Progress, total: u64, work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let (done, finished) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || watch(progress, total, &finished));
        let result = work();
        drop(done);
        result
    })
}

fn watch(progress: &Progress, total: u64, finished: &mpsc::Receiver<()>) {
    let pause = |time| finished.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout);
    if !pause(Duration::from_secs(1)) {
        return;
    }
    let bar = ProgressBar::new(total);
    let style =
        "{bar:40.cyan} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    while pause(Duration::from_millis(100)) {
        bar.set_position(progress.done());
    }
    bar.finish_and_clear();
}

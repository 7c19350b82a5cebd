//! The child processes: savers that run in this test binary.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use lodstone_checkpoint::{Manager, ManagerOptions, Snapshot};
use lodstone_store::Progress;

use crate::common::bytes;
use crate::common::saver::{BEGUN, SAVED, command, print_line, task};

/// The number of serials to keep.
pub(crate) const KEEP: usize = 2;

/// The sizes of the two tensors that are saved repeatedly.
const SIZES: [usize; 2] = [300_000, 1_000];

/// Runs the task in the environment; does nothing without one.
#[test]
fn the_saver() {
    let Some((what, number, dir)) = task() else { return };
    let dir = dir.as_path();
    match what.as_str() {
        "save" => save(dir, number, u64::MAX, None),
        "once" => save(dir, number, number, None),
        step => save(dir, number, number, Some(step.parse().unwrap())),
    }
}

/// Saves the steps `from` to `to`; if `last` is given, the process is killed in this step of the first save.
fn save(dir: &Path, from: u64, to: u64, last: Option<usize>) {
    let count = AtomicUsize::new(0);
    let begins = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let begun = std::sync::Arc::clone(&begins);
    let progress = Progress::watched(move |_| {
        let counts = begun.load(Ordering::Relaxed);
        if counts && Some(count.fetch_add(1, Ordering::Relaxed)) == last {
            let this = rustix::process::getpid();
            rustix::process::kill_process(this, rustix::process::Signal::KILL).unwrap();
        }
        Ok(())
    });
    let options = ManagerOptions::default().with_keep(Some(KEEP)).with_progress(progress);
    let mut manager = Manager::open(dir, options).unwrap();
    print_line(BEGUN);
    begins.store(true, Ordering::Relaxed);
    for step in from..=to {
        if let Err(error) = manager.save(step, &content(step)) {
            print_line(&format!("{error}"));
            std::process::exit(1);
        }
        print_line(&format!("{SAVED}{step}"));
    }
}

/// Returns the contents of a step.
pub(crate) fn content(step: u64) -> Snapshot {
    let [large, small] = SIZES;
    Snapshot::of_tensors([bytes("large", large, step), bytes("small", small, step)]).unwrap()
}

/// Returns the command of a task.
pub(crate) fn saver(what: &str, number: u64, dir: &Path) -> Command {
    command("child::the_saver", what, number, dir)
}

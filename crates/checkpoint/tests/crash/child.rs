//! Savers as processes of their own: this test binary, told by its environment what to do.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use lodstone_checkpoint::{Manager, ManagerOptions, Snapshot};
use lodstone_store::Progress;

use crate::common::bytes;
use crate::common::saver::{BEGUN, SAVED, command, say, task};

/// Serials that are kept.
pub(crate) const KEEP: usize = 2;

/// Bytes of the two tensors that are saved again and again.
const SIZES: [usize; 2] = [300_000, 1_000];

/// Does what the environment says; without a word there, nothing.
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

/// Saves the steps from one to another; in step number `last` of the first save it is killed.
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
    say(BEGUN);
    begins.store(true, Ordering::Relaxed);
    for step in from..=to {
        if let Err(error) = manager.save(step, &content(step)) {
            say(&format!("{error}"));
            std::process::exit(1);
        }
        say(&format!("{SAVED}{step}"));
    }
}

/// What is saved as a step.
pub(crate) fn content(step: u64) -> Snapshot {
    let [large, small] = SIZES;
    Snapshot::of_tensors([bytes("large", large, step), bytes("small", small, step)]).unwrap()
}

/// The command of a task.
pub(crate) fn saver(what: &str, number: u64, dir: &Path) -> Command {
    command("child::the_saver", what, number, dir)
}

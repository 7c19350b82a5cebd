//! Savers as processes of their own: this test binary, told by its environment what to do.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use lodstone_checkpoint::{Manager, ManagerOptions, Snapshot};
use lodstone_store::Progress;

use crate::common::{Training, bytes};

/// What the child is to do: its task, a number, and a directory.
const TASK: &str = "LODSTONE_TEST_SAVER";

/// What it says when it begins, and of each step that the disk has.
const BEGUN: &str = "begun";
const SAVED: &str = "saved ";

/// Steps of training between two saves, and all of them.
pub(crate) const EVERY: u64 = 4;
pub(crate) const STEPS: u64 = 60;

/// Serials that are kept.
pub(crate) const KEEP: usize = 2;

/// Bytes of the two tensors that are saved again and again.
const SIZES: [usize; 2] = [300_000, 1_000];

/// Does what the environment says; without a word there, nothing.
#[test]
fn the_saver() {
    let Ok(task) = std::env::var(TASK) else { return };
    let words: Vec<&str> = task.splitn(3, ' ').collect();
    let [what, number, dir] = words.as_slice() else { panic!("`{task}`") };
    let (number, dir) = (number.parse().unwrap(), Path::new(*dir));
    match *what {
        "train" => train(dir),
        "save" => save(dir, number, u64::MAX, None),
        "once" => save(dir, number, number, None),
        step => save(dir, number, number, Some(step.parse().unwrap())),
    }
}

/// Trains on from what there is, and saves in the background.
fn train(dir: &Path) {
    let mut manager = crate::common::manager(dir, KEEP);
    let mut training = Training::resume(dir);
    say(BEGUN);
    while training.step < STEPS {
        training.step();
        if training.step.is_multiple_of(EVERY) {
            let before = manager.save_in_background(training.step, training.snapshot());
            if let Some(saved) = before.transpose().unwrap() {
                say(&format!("{SAVED}{}", saved.serial.step));
            }
        }
    }
    manager.wait().unwrap();
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

/// Where the tests read nothing else. Past the buffers: the next instruction may be the last.
fn say(word: &str) {
    std::io::stderr().write_all(format!("{word}\n").as_bytes()).unwrap();
}

/// The command of a task.
pub(crate) fn saver(what: &str, number: u64, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(TASK, format!("{what} {number} {}", dir.display()));
    command.args(["child::the_saver", "--exact", "--test-threads=1"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// A saver that has begun.
pub(crate) struct Saver {
    child: Child,
    said: BufReader<ChildStderr>,
}

/// How a saver ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The last step that it said the disk has.
    pub(crate) saved: Option<u64>,
    /// Whether it had done all, and was not killed.
    pub(crate) done: bool,
}

impl Saver {
    pub(crate) fn begin(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while line.trim() != BEGUN {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "it ended before it began");
        }
        Self { child, said }
    }

    pub(crate) fn kill(mut self) -> Ended {
        self.child.kill().unwrap();
        self.end()
    }

    pub(crate) fn end(mut self) -> Ended {
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        let status = self.child.wait().unwrap();
        // The last line may have been cut off.
        let lines: Vec<&str> = said.split_inclusive('\n').filter(|it| it.ends_with('\n')).collect();
        let steps = lines.iter().filter_map(|line| line.trim().strip_prefix(SAVED)?.parse().ok());
        Ended { saved: steps.max(), done: status.success() }
    }
}

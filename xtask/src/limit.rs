//! Time limits: a task that exceeds its limit is stopped, with every process that it started.

use std::cell::RefCell;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::run::Outcome;

/// The environment variable that marks the processes of a task. Processes inherit it even if they leave the process group
/// or outlive their parent, as the workers of Ray do.
const MARKER: &str = "LODSTONE_TASK";

/// The time between two searches for processes of a stopped task, which may be starting others.
const AGAIN: Duration = Duration::from_millis(200);

/// The limit of a running task.
#[derive(Debug)]
struct Limit {
    /// The value of `MARKER`.
    mark: String,
    is_exceeded: AtomicBool,
}

thread_local! {
    static LIMIT: RefCell<Option<Arc<Limit>>> = const { RefCell::new(None) };
}

/// Runs a task. After `time`, its processes are killed, it cannot start others, and it fails.
pub(crate) fn within(
    name: &str,
    time: Duration,
    task: impl FnOnce() -> Result<(), Outcome>,
) -> Result<(), Outcome> {
    let mark = format!("{name}-{}", std::process::id());
    let limit = Arc::new(Limit { mark, is_exceeded: AtomicBool::new(false) });
    let outcome = thread::scope(|scope| {
        let (running, ended) = channel::<()>();
        let watched = &limit;
        scope.spawn(move || watched.watch(time, &ended));
        LIMIT.set(Some(Arc::clone(&limit)));
        let outcome = task();
        LIMIT.set(None);
        // Ends the watch, as a panic does.
        drop(running);
        outcome
    });
    match limit.is_exceeded.load(Ordering::SeqCst) {
        true => Err(exceeded(time)),
        false => outcome,
    }
}

/// Marks a command as a process of the task that runs in this thread; fails if the task has exceeded its limit.
pub(crate) fn mark(command: &mut Command) -> Result<(), Outcome> {
    let Some(limit) = LIMIT.with_borrow(Clone::clone) else { return Ok(()) };
    if limit.is_exceeded.load(Ordering::SeqCst) {
        return Err(Outcome::Failed("the time is over".to_owned()));
    }
    command.env(MARKER, &limit.mark);
    Ok(())
}

fn exceeded(time: Duration) -> Outcome {
    let budget = match time.as_secs() {
        seconds if seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} s"),
    };
    Outcome::Failed(format!("exceeded its budget of {budget}"))
}

impl Limit {
    fn watch(&self, time: Duration, ended: &Receiver<()>) {
        let mut wait = time;
        while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            self.is_exceeded.store(true, Ordering::SeqCst);
            self.kill();
            wait = AGAIN;
        }
        // The task has ended, and processes that it did not wait for end now.
        while self.is_exceeded.load(Ordering::SeqCst) && self.kill() {
            thread::sleep(AGAIN);
        }
    }

    /// Kills the processes that have the mark now; returns whether there were any.
    fn kill(&self) -> bool {
        let entry = format!("{MARKER}={}", self.mark);
        let is_marked = |environment: &[u8]| {
            environment.split(|byte| *byte == 0).any(|found| found == entry.as_bytes())
        };
        let processes = match fs::read_dir("/proc") {
            Ok(processes) => processes.flatten(),
            Err(error) => {
                eprintln!("cannot stop `{}`: its processes are not listed: {error}", self.mark);
                return false;
            }
        };
        let marked = processes.filter(|process| {
            // A process may have ended, or belong to another user.
            fs::read(process.path().join("environ")).is_ok_and(|found| is_marked(&found))
        });
        let numbers: Vec<_> = marked.map(|process| process.file_name()).collect();
        if numbers.is_empty() {
            return false;
        }
        // A process that has ended meanwhile makes `kill` fail.
        let killed =
            Command::new("kill").arg("-KILL").args(&numbers).stderr(Stdio::null()).status();
        if let Err(error) = &killed {
            eprintln!("cannot stop `{}`: kill: {error}", self.mark);
        }
        killed.is_ok()
    }
}

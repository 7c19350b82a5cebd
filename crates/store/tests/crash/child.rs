//! The writer as a separate process: this test binary, with its task in the environment.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lodstone_store::Progress;

use crate::scene::{Kind, Scene, write};

/// The task of the child: kind, content, size, and the index of the step in which it ends.
const TASK: &str = "LODSTONE_TEST_WRITER";

/// Printed when the child begins and when it is done.
const BEGUN: &str = "begun\n";
const DONE: &str = "done\n";

/// Printed before the first sync.
const SYNC: &str = "Sync\n";

/// Executes the task in the environment, if there is one.
#[test]
fn the_writer() {
    let Ok(task) = std::env::var(TASK) else { return };
    let words: Vec<&str> = task.splitn(5, ' ').collect();
    let [kind, seed, size, last, root] = words.as_slice() else { panic!("`{task}`") };
    let kind = Kind::ALL.into_iter().find(|known| format!("{known:?}") == *kind).expect("a kind");
    let number = |word: &str| word.parse::<usize>().expect("a number");
    let (last, steps) = (number(last), AtomicUsize::new(0));
    let progress = Progress::watched(move |step| {
        say(&format!("{:?}\n", step.kind));
        if steps.fetch_add(1, Ordering::Relaxed) == last {
            let this = rustix::process::getpid();
            rustix::process::kill_process(this, rustix::process::Signal::KILL).expect("killed");
        }
        Ok(())
    });
    say(BEGUN);
    // Gives a tracer time to attach.
    if std::env::var_os(WAIT).is_some() {
        std::io::stdin().read_exact(&mut [0]).expect("a word to go on");
    }
    let seed = seed.parse().expect("a number");
    if let Err(error) = write(kind, Path::new(root), seed, number(size), progress) {
        say(&format!("{error}\n"));
        std::process::exit(1);
    }
    say(DONE);
}

/// If set, the child waits for a byte before it begins.
pub(crate) const WAIT: &str = "LODSTONE_TEST_WAIT";

/// Prints to stderr, unbuffered: the process may be killed at the next instruction.
fn say(word: &str) {
    std::io::stderr().write_all(word.as_bytes()).expect("somebody listens");
}

/// Returns the command that writes the next content of a scene, and ends in step `last`.
pub(crate) fn writer(scene: &Scene, last: usize) -> Command {
    writer_of(scene, scene.next(), last)
}

/// Returns the command of a shell that sets limits and then runs the writer to its end.
pub(crate) fn limited(scene: &Scene, limits: &str) -> Command {
    let writer = writer(scene, usize::MAX);
    let mut command = Command::new("sh");
    command.args(["-c", &format!(r#"{limits}; exec "$@""#), "sh"]);
    command.arg(writer.get_program()).args(writer.get_args());
    command.envs(writer.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// Returns the same command for any content.
pub(crate) fn writer_of(scene: &Scene, seed: u64, last: usize) -> Command {
    let program = std::env::current_exe().expect("this program");
    command(&program, scene, seed, last)
}

/// Returns the same command for a copy of the program that every user may run.
pub(crate) fn program(scene: &Scene) -> Command {
    let program = std::env::current_exe().expect("this program");
    let copy = scene.root().join("program");
    // Copied by another process: children of this one could inherit the open, writable file for a moment.
    let copied = Command::new("cp").arg(program).arg(&copy).status().expect("a child");
    assert!(copied.success());
    command(&copy, scene, scene.next(), usize::MAX)
}

fn command(program: &Path, scene: &Scene, seed: u64, last: usize) -> Command {
    let mut command = Command::new(program);
    let (kind, size) = (scene.kind, scene.size);
    let task = format!("{kind:?} {seed} {size} {last} {}", scene.root().display());
    command.env(TASK, task).args(["child::the_writer", "--exact", "--test-threads=1"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The result of a writer.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The names of the steps that it began, in order.
    pub(crate) steps: Vec<String>,
    /// Whether it was killed before it was done.
    pub(crate) killed: bool,
    /// The total time.
    pub(crate) took: Duration,
    /// The time from the first sync to the end, if it was not killed.
    pub(crate) synced: Duration,
}

impl Ended {
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.steps.iter().map(String::as_str).collect()
    }
}

/// The moment when a writer is killed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kill {
    Never,
    /// In this step, counted from 0, before its execution.
    In(usize),
    /// This long after it began.
    After(Duration),
    /// This long after its first sync.
    AfterSync(Duration),
}

pub(crate) fn run(scene: &Scene, kill: Kill) -> Ended {
    let last = if let Kill::In(step) = kill { step } else { usize::MAX };
    let mut child = writer(scene, last).spawn().expect("a child");
    let mut said = child.stderr.take().expect("what it says");
    let mut heard = Vec::new();
    hear(&mut said, &mut heard, BEGUN);
    let begun = Instant::now();
    match kill {
        Kill::In(_) => {}
        Kill::Never => hear(&mut said, &mut heard, SYNC),
        Kill::After(time) => kill_after(&mut child, time),
        Kill::AfterSync(time) => {
            hear(&mut said, &mut heard, SYNC);
            kill_after(&mut child, time);
        }
    }
    let syncing = Instant::now();
    said.read_to_end(&mut heard).expect("what it says");
    let (took, synced) = (begun.elapsed(), syncing.elapsed());
    let status = child.wait().expect("it ends");
    let heard = String::from_utf8(heard).expect("UTF-8");
    let words = heard.lines().skip_while(|word| *word != BEGUN.trim()).skip(1);
    let steps: Vec<String> = words.map(str::to_owned).collect();
    let done = steps.last().is_some_and(|word| word == DONE.trim());
    let ended = Ended { steps, killed: !done, took, synced };
    assert!(done || status.code().is_none(), "it failed: {ended:?}");
    ended
}

/// Reads until the child prints `word` or ends.
fn hear(from: &mut impl Read, heard: &mut Vec<u8>, word: &str) {
    let mut byte = [0];
    while !heard.ends_with(word.as_bytes()) && from.read(&mut byte).expect("what it says") == 1 {
        heard.extend(byte);
    }
}

fn kill_after(child: &mut Child, time: Duration) {
    std::thread::sleep(time);
    child.kill().expect("killed");
}

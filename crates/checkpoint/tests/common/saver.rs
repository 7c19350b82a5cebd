//! Savers as separate processes: a test of the same binary, with its task in an environment variable.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

/// The task of a saver: an action, a number, and a directory.
const TASK: &str = "LODSTONE_TEST_SAVER";

/// Printed by a saver when it starts, and before the number of each durable step.
pub(crate) const BEGUN: &str = "begun";
pub(crate) const SAVED: &str = "saved ";

/// The number of savers to kill at random; CONTRIBUTING.md explains when to set it.
const KILLS: &str = "LODSTONE_KILLS";

pub(crate) fn kills(usual: u64) -> u64 {
    std::env::var(KILLS).map_or(usual, |number| number.parse().unwrap())
}

/// Returns the next pseudo-random number (xorshift64).
pub(crate) fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Prints a line without buffering, since the process may be killed at any instruction.
pub(crate) fn print_line(word: &str) {
    std::io::stderr().write_all(format!("{word}\n").as_bytes()).unwrap();
}

/// Returns the command that runs a task in `test`, a test of this binary.
pub(crate) fn command(test: &str, what: &str, number: u64, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(TASK, format!("{what} {number} {}", dir.display()));
    command.args([test, "--exact", "--test-threads=1"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Returns the task of this process, its number, and its directory; `None` if it was not started by a test.
pub(crate) fn task() -> Option<(String, u64, PathBuf)> {
    let task = std::env::var(TASK).ok()?;
    let words: Vec<&str> = task.splitn(3, ' ').collect();
    let [what, number, dir] = words.as_slice() else { panic!("`{task}`") };
    Some(((*what).to_owned(), number.parse().unwrap(), PathBuf::from(*dir)))
}

/// A running saver.
pub(crate) struct Saver {
    child: Child,
    output: BufReader<ChildStderr>,
}

/// The end of a saver.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The last step that it reported as durable.
    pub(crate) saved: Option<u64>,
    /// Whether it finished, rather than being killed.
    pub(crate) done: bool,
}

impl Saver {
    pub(crate) fn begin(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while line.trim() != BEGUN {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "it ended before it began");
        }
        Self { child, output }
    }

    pub(crate) fn kill(mut self) -> Ended {
        self.child.kill().unwrap();
        self.end()
    }

    pub(crate) fn end(mut self) -> Ended {
        let mut output = String::new();
        self.output.read_to_string(&mut output).unwrap();
        let status = self.child.wait().unwrap();
        // The last line may be truncated.
        let lines: Vec<&str> =
            output.split_inclusive('\n').filter(|it| it.ends_with('\n')).collect();
        let steps = lines.iter().filter_map(|line| line.trim().strip_prefix(SAVED)?.parse().ok());
        Ended { saved: steps.max(), done: status.success() }
    }
}

//! Savers as processes of their own: a test of the same binary, whose task is in its environment.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

/// The task of a saver: what it does, a number, and a directory.
const TASK: &str = "LODSTONE_TEST_SAVER";

/// What a saver prints when it begins, and before the number of each step that the disk has.
pub(crate) const BEGUN: &str = "begun";
pub(crate) const SAVED: &str = "saved ";

/// How many savers are killed at random; CONTRIBUTING.md says when to set it.
const KILLS: &str = "LODSTONE_KILLS";

pub(crate) fn kills(usual: u64) -> u64 {
    std::env::var(KILLS).map_or(usual, |asked| asked.parse().unwrap())
}

/// The next of numbers that look random and are the same in each run (xorshift64).
pub(crate) fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Where the tests read nothing else. Past the buffers: the next instruction may be the last.
pub(crate) fn say(word: &str) {
    std::io::stderr().write_all(format!("{word}\n").as_bytes()).unwrap();
}

/// The command that runs a task in `test`, a test of this binary.
pub(crate) fn command(test: &str, what: &str, number: u64, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(TASK, format!("{what} {number} {}", dir.display()));
    command.args([test, "--exact", "--test-threads=1"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The task of this process, its number, and its directory; `None` if it is none of those that a test begins.
pub(crate) fn task() -> Option<(String, u64, PathBuf)> {
    let task = std::env::var(TASK).ok()?;
    let words: Vec<&str> = task.splitn(3, ' ').collect();
    let [what, number, dir] = words.as_slice() else { panic!("`{task}`") };
    Some(((*what).to_owned(), number.parse().unwrap(), PathBuf::from(*dir)))
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

//! Running other programs.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::limit;

/// The outcome of a task that did not pass.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A check failed.
    Failed(String),
    /// A requirement is missing.
    CouldNotRun(String),
}

impl Outcome {
    /// Names the outcome.
    pub(crate) fn of(outcome: &Result<(), Self>) -> &'static str {
        match outcome {
            Ok(()) => "passed",
            Err(Self::Failed(_)) => "failed",
            Err(Self::CouldNotRun(_)) => "could not run",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(what) => write!(f, "failed: {what}"),
            Self::CouldNotRun(why) => write!(f, "could not run: {why}"),
        }
    }
}

/// Returns a command of cargo, with the versions of the lock file.
pub(crate) fn locked(command: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([command, "--locked"]);
    cargo
}

/// Runs a command of cargo on the workspace.
pub(crate) fn cargo(command: &str, arguments: &[&str], rest: &[String]) -> Result<(), Outcome> {
    run(locked(command).args(arguments).args(rest).current_dir(root()))
}

/// Builds a part of the workspace with the features of the whole workspace, as the tests.
pub(crate) fn build(what: &[&str]) -> Result<(), Outcome> {
    cargo("build", &[&["--quiet", "--workspace"], what].concat(), &[])
}

/// Runs a command, which must succeed.
pub(crate) fn run(command: &mut Command) -> Result<(), Outcome> {
    let name = command.get_program().to_string_lossy().into_owned();
    let arguments = command.get_args().map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    limit::mark(command)?;
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Outcome::Failed(format!("{name} {arguments}: {status}"))),
        Err(error) => Err(Outcome::CouldNotRun(format!("{name}: {error}"))),
    }
}

/// Returns the standard output of a command that a task needs.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, Outcome> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.stderr(Stdio::inherit()).output() {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(Outcome::CouldNotRun(format!("{name}: {}", output.status))),
        Err(error) => Err(Outcome::CouldNotRun(format!("{name}: {error}"))),
    }
}

/// Returns the root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Returns the target directory.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// Converts an I/O error to an outcome that names the failed action.
pub(crate) fn cannot(what: &'static str) -> impl FnOnce(std::io::Error) -> Outcome {
    move |error| Outcome::CouldNotRun(format!("cannot {what}: {error}"))
}

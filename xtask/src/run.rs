//! Running other programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The outcome of a task that did not pass.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A check failed.
    Failed(String),
    /// A requirement is missing.
    CouldNotRun(String),
}

/// Runs cargo on the workspace.
pub(crate) fn cargo(arguments: &[&str], rest: &[String]) -> Result<(), Outcome> {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).args(rest).current_dir(root());
    run(&mut command)
}

/// Builds a part of the workspace with the features of the whole workspace, as the tests.
pub(crate) fn build(what: &[&str]) -> Result<(), Outcome> {
    cargo(&[&["build", "--quiet", "--workspace"], what].concat(), &[])
}

/// Runs a command, which must succeed.
pub(crate) fn run(command: &mut Command) -> Result<(), Outcome> {
    let name = command.get_program().to_string_lossy().into_owned();
    let arguments = command.get_args().map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Outcome::Failed(format!("{name} {arguments}: {status}"))),
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

//! Running other programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a task ended, if it did not pass.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Something was tried and is wrong.
    Failed(String),
    /// Something that is needed is not there.
    CouldNotRun(String),
}

/// Runs cargo on the workspace.
pub(crate) fn cargo(arguments: &[&str], rest: &[String]) -> Result<(), Outcome> {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).args(rest).current_dir(root());
    run(&mut command)
}

/// Builds something of the workspace, with what the tests of all of it were built with.
pub(crate) fn build(what: &[&str]) -> Result<(), Outcome> {
    cargo(&[&["build", "--quiet", "--workspace"], what].concat(), &[])
}

/// Runs a command that has to succeed.
pub(crate) fn run(command: &mut Command) -> Result<(), Outcome> {
    let name = command.get_program().to_string_lossy().into_owned();
    let arguments = command.get_args().map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Outcome::Failed(format!("{name} {arguments}: {status}"))),
        Err(error) => Err(Outcome::CouldNotRun(format!("{name}: {error}"))),
    }
}

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Where build products go.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// What to say where something that a task needs cannot be done.
pub(crate) fn cannot(what: &'static str) -> impl FnOnce(std::io::Error) -> Outcome {
    move |error| Outcome::CouldNotRun(format!("cannot {what}: {error}"))
}

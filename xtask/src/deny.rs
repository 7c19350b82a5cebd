//! Checks all dependencies with cargo-deny: licences, duplicates and sources; known faults, by the database of advisories.
//!
//! The lists of `deny.toml` may only shrink: an entry that nothing needs any more is an error.

use std::process::Command;

use crate::run::{Outcome, cannot, locked, root, run, target};

/// The version that is installed if there is none in the target directory.
const VERSION: &str = "0.20.2";

/// Runs all checks. Without a network, advisories are those of the last time, if there was one.
pub(crate) fn deny() -> Result<(), Outcome> {
    let tools = target().join("tools");
    let program = tools.join("bin/cargo-deny");
    if !program.exists() {
        let mut install = locked("install");
        install.args(["--quiet", "--version", VERSION, "cargo-deny", "--root"]).arg(&tools);
        run(install.current_dir(root()))?;
    }
    let check = |offline: bool, what: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["--locked", "--all-features"]).args(offline.then_some("--offline"));
        command.args(["check", "-D", "unmatched-skip", "-D", "license-not-encountered"]);
        command.args(what).current_dir(root());
        command
    };
    run(&mut check(false, &["bans", "licenses", "sources"]))?;
    let output = check(false, &["advisories"]).output().map_err(cannot("run cargo-deny"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    if !text.contains("failed to fetch advisory database") {
        return Err(Outcome::Failed(format!("advisories: {text}")));
    }
    run(&mut check(true, &["advisories"])).map_err(|_| {
        let why = "the database of advisories cannot be fetched, and there is no earlier one";
        Outcome::CouldNotRun(format!("advisories: {why}"))
    })?;
    let why = "the database of advisories cannot be fetched; there is nothing in the earlier one";
    Err(Outcome::CouldNotRun(format!("advisories: {why}")))
}

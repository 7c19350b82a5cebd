//! Checks all dependencies with cargo-deny: licences, duplicates and sources; known faults, by the database of advisories.
//!
//! The lists of `deny.toml` may only shrink: an entry that nothing needs any more is an error.

use std::process::Command;

use crate::run::{Outcome, cannot, locked, root, run, target};

/// The version that is installed if there is none in the target directory.
const VERSION: &str = "0.20.2";

/// Runs all checks. Without a network, advisories are those of the last time, if there was one.
pub(crate) fn deny(arguments: &[String]) -> Result<(), Outcome> {
    if !arguments.is_empty() {
        return Err(Outcome::CouldNotRun("usage: cargo xtask deny".to_owned()));
    }
    let tools = target().join("tools");
    let program = tools.join("bin/cargo-deny");
    if !program.exists() {
        let mut install = locked("install");
        install.args(["--quiet", "--version", VERSION, "cargo-deny", "--root"]).arg(&tools);
        run(install.current_dir(root()))?;
    }
    let check = |options: &[&str], what: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["--locked", "--all-features"]).args(options).arg("check");
        command.args(["-D", "unmatched-skip"]).args(what).current_dir(root());
        command
    };
    run(&mut check(&[], &["bans", "licenses", "sources"]))?;
    let advisories = |options: &[&str]| {
        let output = check(options, &["advisories"]).output().map_err(cannot("run cargo-deny"))?;
        match output.status.success() {
            true => Ok(None),
            false => Ok(Some(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    };
    // Its own failure, not a finding.
    let is_missing = |text: &str| text.contains("[ERROR] failed to ");
    let why = "the database of advisories cannot be fetched, and";
    match advisories(&[])? {
        None => return Ok(()),
        Some(text) if !is_missing(&text) => return Err(Outcome::Failed(text)),
        Some(_) => {}
    }
    Err(match advisories(&["--offline"])? {
        None => Outcome::CouldNotRun(format!("{why} an earlier one has none")),
        Some(text) if is_missing(&text) => {
            Outcome::CouldNotRun(format!("{why} there is no earlier one"))
        }
        Some(text) => Outcome::Failed(text),
    })
}

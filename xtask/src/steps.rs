//! Counts the steps of readers.
//!
//! The crates of the workspace are compiled with coverage counters; the test `steps` reads the counters. This program
//! is also the wrapper of the compiler, so that only the crates of the workspace are recompiled, not their
//! dependencies.

use std::process::{Command, ExitCode};

use crate::run::{Outcome, cannot, locked, root, run};

/// The environment variable that makes this program act as the wrapper of the compiler.
const WRAPPER: &str = "XTASK_STEPS";

/// Runs the test that counts steps.
pub(crate) fn steps(rest: &[String]) -> Result<(), Outcome> {
    let this = std::env::current_exe().map_err(cannot("find this program"))?;
    let mut command = locked("test");
    command
        .args(["--package", "lodstone", "--no-default-features", "--test", "steps"])
        .args(rest)
        .current_dir(root())
        .env("RUSTC_WORKSPACE_WRAPPER", this)
        .env(WRAPPER, "1")
        // The counters are read in memory, not written to a file.
        .env("LLVM_PROFILE_FILE", "/dev/null");
    run(&mut command)
}

/// Returns whether this program runs as the wrapper of the compiler.
pub(crate) fn is_compiler() -> bool {
    std::env::var_os(WRAPPER).is_some()
}

/// Runs the compiler with the arguments of cargo, and counters.
pub(crate) fn compile() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(compiler) = arguments.next() else { return ExitCode::from(2) };
    let counting = ["-Cinstrument-coverage", "--cfg", "steps"];
    let compiled = Command::new(compiler).args(arguments).args(counting).status();
    match compiled {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::from(1),
    }
}

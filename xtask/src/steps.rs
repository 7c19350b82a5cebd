//! Counting what readers do.
//!
//! The crates of the workspace are compiled so that each stretch of code counts how often it is run, as for coverage;
//! the test `steps` reads the counters. This program is the compiler's wrapper, by which only these crates are compiled
//! anew, and not what they depend on.

use std::process::{Command, ExitCode};

use crate::run::{Outcome, cannot, root, run};

/// What tells this program that it is run as the wrapper of the compiler.
const WRAPPER: &str = "XTASK_STEPS";

/// Runs the test that counts steps.
pub(crate) fn steps(rest: &[String]) -> Result<(), Outcome> {
    let this = std::env::current_exe().map_err(cannot("find this program"))?;
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["test", "--workspace", "--test", "steps"])
        .args(rest)
        .current_dir(root())
        .env("RUSTC_WORKSPACE_WRAPPER", this)
        .env(WRAPPER, "1")
        // The counters are read, and not written.
        .env("LLVM_PROFILE_FILE", "/dev/null");
    run(&mut command)
}

/// Whether this program is run in place of the compiler.
pub(crate) fn is_compiler() -> bool {
    std::env::var_os(WRAPPER).is_some()
}

/// Compiles what cargo asks for, with counters.
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

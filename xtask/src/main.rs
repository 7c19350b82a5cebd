//! `cargo xtask TASK`.
//!
//! | task | description |
//! |---|---|
//! | `test` | runs all tests, including those of the Python package (only those: `test python`) |
//! | `steps` | counts the steps of reading files, and compares them with those of files twice as large |
//! | `interop` | writes files with `lodstone` and loads them with the real frameworks |
//! | `locks` | compares results and times with another revision |
//! | `deny` | checks licences, duplicates and advisories of all dependencies |
//! | `package` | packages every crate that is published, without compiling it (part of `test`) |
//! | `fuzz` | runs the fuzz targets, or some of them, for a while |
//! | `dist` | builds the files of a release, and checks that they work alone (only that: `dist --check`) |
//! | `bench` | runs the benchmarks, next to physical limits and other libraries |
//!
//! Exit codes: 0 passed, 1 failed, 2 could not run.

#![expect(clippy::print_stderr, reason = "a task reports to its user")]
#![expect(clippy::disallowed_methods, reason = "tasks prepare files for other programs")]
#![expect(clippy::disallowed_types, reason = "tasks lock what other tasks prepare")]

mod bench;
mod deny;
mod disk;
mod dist;
mod fuzz;
mod interop;
mod limit;
mod locks;
mod package;
mod python;
mod run;
mod steps;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use run::{Outcome, cargo};

fn main() -> ExitCode {
    if steps::is_compiler() {
        return steps::compile();
    }
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let outcome = match task.as_str() {
        "test" => test(&rest),
        "steps" => steps::steps(&rest),
        "interop" => interop::interop(&rest),
        "locks" => locks::locks(&rest),
        "deny" => deny::deny(),
        "package" => package::package(),
        "fuzz" => fuzz::fuzz(&rest),
        "dist" => dist::dist(&rest),
        "bench" => bench::bench(&rest),
        _ => Err(Outcome::CouldNotRun(
            "usage: cargo xtask test | steps | interop | locks | deny | package | fuzz | dist | bench"
                .to_owned(),
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(outcome) => {
            eprintln!("{outcome}");
            match outcome {
                Outcome::Failed(_) => ExitCode::from(1),
                Outcome::CouldNotRun(_) => ExitCode::from(2),
            }
        }
    }
}

/// Runs all tests, or those of the Python package. Other arguments are passed on: `cargo xtask test -p lodstone-store`.
fn test(rest: &[String]) -> Result<(), Outcome> {
    match rest {
        [] => {
            cargo("test", &["--workspace"], rest)?;
            steps::steps(&[])?;
            package::package()?;
            python::test_package()
        }
        [only] if only == "python" => python::test_package(),
        _ => cargo("test", &[], rest),
    }
}

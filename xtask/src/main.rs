//! `cargo xtask TASK`; `cargo xtask help` lists the tasks, and `cargo xtask TASK --help` describes one.
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

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task reports to its user")]
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

/// A task: its name, its function, and its source, whose first comment describes it.
type Task = (&'static str, fn(&[String]) -> Result<(), Outcome>, &'static str);

const TASKS: [Task; 9] = [
    ("test", test, include_str!("main.rs")),
    ("steps", steps::steps, include_str!("steps.rs")),
    ("interop", interop::interop, include_str!("interop.rs")),
    ("locks", locks::locks, include_str!("locks.rs")),
    ("deny", deny::deny, include_str!("deny.rs")),
    ("package", package::package, include_str!("package.rs")),
    ("fuzz", fuzz::fuzz, include_str!("fuzz.rs")),
    ("dist", dist::dist, include_str!("dist/mod.rs")),
    ("bench", bench::bench, include_str!("bench.rs")),
];

/// Prints the comment at the start of a source.
fn help(source: &str) -> Result<(), Outcome> {
    for line in source.lines().map_while(|line| line.strip_prefix("//!")) {
        println!("{}", line.trim_start());
    }
    Ok(())
}

fn main() -> ExitCode {
    if steps::is_compiler() {
        return steps::compile();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = arguments.split_first().map_or(("", &[][..]), |(name, rest)| (name, rest));
    let is_help = |argument: &str| ["help", "--help", "-h"].contains(&argument);
    let outcome = match TASKS.iter().find(|(task, ..)| *task == name) {
        Some((.., source)) if rest.iter().any(|argument| is_help(argument)) => help(source),
        Some((_, task, _)) => task(rest),
        None if is_help(name) => help(include_str!("main.rs")),
        None => {
            let names: Vec<_> = TASKS.iter().map(|(task, ..)| *task).collect();
            let usage = format!("usage: cargo xtask help | {}", names.join(" | "));
            Err(Outcome::CouldNotRun(usage))
        }
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
            package::package(&[])?;
            python::test_package()
        }
        [only] if only == "python" => python::test_package(),
        _ => cargo("test", &[], rest),
    }
}

//! The `lodstone` command.
//!
//! Data goes to stdout, everything else to stderr. Exit codes: 0 yes, 1 no, 2 error.

mod args;
mod cat;
mod convert;
mod hint;
mod inspect;
mod progress;
mod say;
mod table;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Arguments, Command};

/// What ends a command early.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Cat(arguments) => cat::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "lodstone", &mut script);
            say::out(&script)
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if say::is_broken_pipe(failure.as_ref()) => ExitCode::SUCCESS,
        Err(failure) => {
            say::error(failure.as_ref());
            ExitCode::from(2)
        }
    }
}

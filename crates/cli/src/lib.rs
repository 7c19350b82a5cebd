//! The `lodstone` command, for whoever else begins it: the Python package does.
//!
//! Data goes to stdout, everything else to stderr. Exit codes: 0 yes, 1 no, 2 unknown or an error.

mod args;
mod cat;
mod checkpoint;
mod convert;
mod diff;
mod hint;
mod inspect;
mod plain;
mod plot;
mod progress;
mod recover;
mod run;
mod say;
mod scan;
mod seal;
mod stores;
mod table;
mod train;
mod verify;

use std::ffi::OsString;

use clap::{CommandFactory, Parser};

use args::{Arguments, Command};

/// What ends a command early.
type Failure = Box<dyn std::error::Error>;

/// What a command answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    /// It cannot be told, and the output says why.
    Unknown,
}

impl From<bool> for Answer {
    fn from(is: bool) -> Self {
        if is { Self::Yes } else { Self::No }
    }
}

/// The answer of a command that asks nothing.
fn yes((): ()) -> Answer {
    Answer::Yes
}

/// Does what the arguments after the name of the command ask for; gives the exit status. Arguments that are
/// none, or ask for help, end the process.
pub fn run(arguments: Vec<OsString>) -> u8 {
    let given = std::iter::once("lodstone".into()).chain(arguments).collect::<Vec<OsString>>();
    let arguments =
        Arguments::try_parse_from(&given).unwrap_or_else(|error| say::usage(&given, &error));
    let result = match arguments.command {
        Command::Inspect(arguments) => inspect::run(&arguments).map(yes),
        Command::Cat(arguments) => cat::run(&arguments).map(yes),
        Command::Convert(arguments) => convert::run(&arguments).map(yes),
        Command::Diff(arguments) => diff::run(&arguments).map(Answer::from),
        Command::Run(arguments) => run::run(&arguments).map(yes),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Seal(arguments) => seal::run(&arguments).map(yes),
        Command::Train(arguments) => train::run(&arguments).map(yes),
        Command::Verify(arguments) => verify::run(&arguments).map(Answer::from),
        Command::Checkpoint(arguments) => checkpoint::run(&arguments),
        Command::Recover(arguments) => recover::run(&arguments).map(yes),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "lodstone", &mut script);
            say::out(&script).map(yes)
        }
    };
    match result {
        Ok(Answer::Yes) => 0,
        Ok(Answer::No) => 1,
        Ok(Answer::Unknown) => 2,
        Err(failure) if say::is_broken_pipe(failure.as_ref()) => 0,
        Err(failure) => {
            say::error(failure.as_ref());
            2
        }
    }
}

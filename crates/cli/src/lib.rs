//! The `lodstone` command as a library, which the Python package also runs.
//!
//! Data goes to stdout, everything else to stderr. Exit codes: 0 success or yes, 1 no, 2 error or unknown.
//!
//! ```
//! let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/test.npz");
//! let status = lodstone_cli::run(["verify", data, "--quiet"].map(Into::into).into());
//! assert_eq!(status, 0, "the file is whole");
//! ```

mod args;
mod cat;
mod checkpoint;
mod compare;
mod console;
mod convert;
mod diff;
mod formats;
mod hint;
mod inspect;
mod man;
mod ops;
mod paths;
mod plain;
#[cfg(feature = "plots")]
mod plot;
mod program;
mod progress;
mod recover;
#[cfg(feature = "remote")]
mod remote;
mod run;
mod sarif;
mod scan;
mod seal;
mod stores;
mod table;
mod train;
mod verify;
mod version;

use std::ffi::OsString;
use std::time::Instant;

use clap::{ArgMatches, CommandFactory, FromArgMatches};

use args::{Arguments, Command};

/// The error of a command.
type Failure = Box<dyn std::error::Error>;

/// The answer of a command, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    Yes,
    /// There is no answer; the output gives the reason.
    Unknown,
    No,
    /// An error, which has been reported.
    Failed,
}

impl From<bool> for Answer {
    fn from(is: bool) -> Self {
        if is { Self::Yes } else { Self::No }
    }
}

/// The answer of a command that succeeded and has no verdict.
fn yes((): ()) -> Answer {
    Answer::Yes
}

/// Returns the description of the command.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the command with the arguments that follow its name, and returns the exit status. Invalid arguments and
/// requests for help exit the process.
pub fn run(arguments: Vec<OsString>) -> u8 {
    if version::is_asked(&arguments) {
        return status(console::out(version::details().as_bytes()).map(yes));
    }
    let given = std::iter::once("lodstone".into()).chain(arguments).collect::<Vec<OsString>>();
    let parsed = command().try_get_matches_from(&given).and_then(|matches| {
        let arguments = Arguments::from_arg_matches(&matches)?;
        Ok((arguments, asks_for_json(&matches)))
    });
    let (arguments, is_json) = parsed.unwrap_or_else(|error| console::usage(&given, &error));
    arguments.global.color.write_global();
    console::set_verbosity(arguments.global.verbosity());
    console::set_json(is_json);
    #[cfg(feature = "remote")]
    remote::configure(&arguments.global);
    let started = Instant::now();
    let result = match arguments.command {
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Cat(arguments) => cat::run(&arguments).map(yes),
        Command::Convert(arguments) => convert::run(&arguments).map(Answer::from),
        Command::Diff(arguments) => diff::run(&arguments).map(Answer::from),
        Command::Run(arguments) => run::run(&arguments).map(yes),
        Command::Compare(arguments) => compare::run(&arguments).map(Answer::from),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Seal(arguments) => seal::run(&arguments).map(yes),
        Command::Train(arguments) => train::run(&arguments).map(yes),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Checkpoint(arguments) => checkpoint::run(&arguments),
        Command::Program(arguments) => program::run(&arguments).map(yes),
        Command::Ops(arguments) => ops::run(&arguments).map(Answer::from),
        Command::Recover(arguments) => recover::run(&arguments).map(yes),
        Command::Formats(arguments) => formats::run(&arguments).map(yes),
        Command::Man { directory } => man::run(&directory).map(yes),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "lodstone", &mut script);
            console::out(&script).map(yes)
        }
    };
    #[cfg(feature = "remote")]
    remote::report();
    console::detail(&format!("took {:.3} s", started.elapsed().as_secs_f64()));
    status(result)
}

/// Returns whether the innermost subcommand has the option `--json`.
fn asks_for_json(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, inner)) => asks_for_json(inner),
        None => matches!(matches.try_get_one("json"), Ok(Some(true))),
    }
}

/// Reports a failure, and returns the exit status.
fn status(result: Result<Answer, Failure>) -> u8 {
    match result {
        Ok(Answer::Yes) => 0,
        Ok(Answer::No) => 1,
        Ok(Answer::Unknown | Answer::Failed) => 2,
        Err(failure) if console::is_broken_pipe(failure.as_ref()) => 0,
        Err(failure) => {
            console::error(failure.as_ref());
            2
        }
    }
}

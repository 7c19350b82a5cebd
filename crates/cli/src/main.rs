//! The `lodstone` command.

mod exhausted;

use std::process::ExitCode;

fn main() -> ExitCode {
    exhausted::end_with_an_error();
    ExitCode::from(lodstone_cli::run(std::env::args_os().skip(1).collect()))
}

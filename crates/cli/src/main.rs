//! The `lodstone` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(lodstone_cli::run(std::env::args_os().skip(1).collect()))
}

//! Writes the manual of the command to a directory: `lodstone.1`, and a page for each subcommand.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> std::io::Result<ExitCode> {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Ok(ExitCode::from(2));
    };
    clap_mangen::generate_to(lodstone_cli::command(), directory)?;
    Ok(ExitCode::SUCCESS)
}

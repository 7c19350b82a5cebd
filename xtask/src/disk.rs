//! Free and used disk.

use std::path::Path;
use std::process::Command;

use crate::run::{Outcome, output};

/// Returns the free disk of a directory, in MiB.
pub(crate) fn free_mib(directory: &Path) -> Result<u64, Outcome> {
    // A header, then a line: file system, blocks of 1 KiB, used, free, share, path.
    let listed = output(Command::new("df").args(["-P", "-k"]).arg(directory))?;
    let listed = String::from_utf8_lossy(&listed);
    let free = listed.lines().nth(1).and_then(|line| line.split_whitespace().nth(3));
    let unknown = || Outcome::CouldNotRun(format!("df: unknown output `{listed}`"));
    Ok(free.and_then(|free| free.parse::<u64>().ok()).ok_or_else(unknown)? / 1024)
}

/// Returns the size of the files of a directory, in MiB.
pub(crate) fn size_mib(directory: &Path) -> Result<u64, Outcome> {
    let listed = output(Command::new("du").args(["-s", "-k"]).arg(directory))?;
    let listed = String::from_utf8_lossy(&listed);
    let size = listed.split_whitespace().next().and_then(|size| size.parse::<u64>().ok());
    let unknown = || Outcome::CouldNotRun(format!("du: unknown output `{listed}`"));
    Ok(size.ok_or_else(unknown)?.div_ceil(1024))
}

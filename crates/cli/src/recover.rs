//! `lodstone recover`.

use std::path::PathBuf;

use clap::Args;
use lodstone::store::Recovery;
use serde::Serialize;

use crate::Failure;
use crate::console::{self, count};
use crate::stores::at;

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone recover models/                       after an interrupted write to models/
  lodstone recover .                             after `convert` to a file in this directory
  lodstone recover models/ --json")]
pub(crate) struct Recover {
    /// Target directory of the interrupted write
    pub(crate) directory: PathBuf,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
}

/// A recovery as JSON.
#[derive(Serialize)]
struct Recovered {
    /// Version of this structure.
    schema: u32,
    /// Files of interrupted writes that were moved to their paths.
    files: usize,
    /// Killed writes whose temporary directories were removed.
    left_over: usize,
}

pub(crate) fn run(arguments: &Recover) -> Result<(), Failure> {
    let recovery = lodstone::recover(at(&arguments.directory)?)?;
    if arguments.json {
        let Recovery { files, left_over, .. } = recovery;
        return console::json(&Recovered { schema: 1, files, left_over });
    }
    let mut done = String::new();
    if recovery.files > 0 {
        let files = count(recovery.files, "file");
        done += &format!("finished an interrupted write: {files}\n");
    }
    if recovery.left_over > 0 {
        let writes = count(recovery.left_over, "interrupted write");
        done += &format!("removed temporary files of {writes}\n");
    }
    if done.is_empty() {
        done += "nothing to recover\n";
    }
    console::summary(&done)
}

//! What can be said of checkpoints on the command line.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::args::formats;

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone checkpoint list run/                  serials, oldest first
  lodstone checkpoint show run/                  what is in the newest
  lodstone checkpoint verify run/                every byte of all of them
  lodstone checkpoint restore run/ weights.safetensors")]
pub(crate) struct Checkpoint {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the serials of a directory
    List(List),
    /// Show what is in one: variables, programs, what the trainer added
    Show(Show),
    /// Say whether they are whole; exit 0 yes, 1 no, 2 could not tell
    Verify(Show),
    /// Remove the oldest; one that is whole always stays
    Prune(Prune),
    /// Write the variables of one to a file, each compared with its checksum
    Restore(Restore),
}

#[derive(Args)]
pub(crate) struct List {
    /// The directory of the serials
    pub(crate) directory: PathBuf,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Show {
    /// The directory of the serials
    pub(crate) directory: PathBuf,
    /// The serial of this step
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Prune {
    /// The directory of the serials
    pub(crate) directory: PathBuf,
    /// How many are kept, the newest
    #[arg(long, value_name = "N")]
    pub(crate) keep: usize,
}

#[derive(Args)]
pub(crate) struct Restore {
    /// The directory of the serials
    pub(crate) directory: PathBuf,
    /// Where to write
    pub(crate) output: PathBuf,
    /// The serial of this step; the newest if not given
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    /// Format to write; by the extension of the output if not given
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub(crate) to: Option<String>,
}

//! The command line of checkpoints, as data.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::args::{Allow, Clobber, formats};

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone checkpoint list run/                  oldest first
  lodstone checkpoint show run/                  the newest
  lodstone checkpoint verify run/                every byte of all checkpoints
  lodstone checkpoint restore run/ weights.safetensors")]
pub(crate) struct Checkpoint {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the checkpoints of a directory
    List(List),
    /// Show the contents of a checkpoint: variables, programs, metadata of the trainer
    Show(Show),
    /// Check every byte of one checkpoint or all; exit 0 whole, 1 damaged, 2 error, or no checksums
    Verify(Show),
    /// Remove the oldest checkpoints; at least one intact checkpoint remains
    Prune(Prune),
    /// Write the variables of a checkpoint to a file, after verifying their checksums
    Restore(Restore),
}

#[derive(Args)]
pub(crate) struct List {
    /// Directory of the checkpoints
    pub(crate) directory: PathBuf,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Show {
    /// Directory of the checkpoints
    pub(crate) directory: PathBuf,
    /// Step of the checkpoint [default: the newest; `verify`: all]
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Prune {
    /// Directory of the checkpoints
    pub(crate) directory: PathBuf,
    /// Keep the N newest checkpoints
    #[arg(long, value_name = "N")]
    pub(crate) keep: usize,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Restore {
    /// Directory of the checkpoints
    pub(crate) directory: PathBuf,
    /// Where to write
    pub(crate) output: PathBuf,
    /// Step of the checkpoint [default: the newest]
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    /// Format to write [default: by the extension of the output]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) allow: Allow,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) clobber: Clobber,
}

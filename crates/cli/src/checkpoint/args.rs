//! The command line of checkpoints, as data.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use lodstone::formats::shard_formats;

use crate::args::options::{Allow, Clobber, Open};
use crate::args::values::formats;

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
    /// Remove the oldest checkpoints, and chunks that none uses; at least one intact checkpoint remains
    Prune(Prune),
    /// Write the variables of a checkpoint to a file, after verifying their checksums
    Restore(Restore),
    /// Write a model in shards: distributed checkpoints, or safetensors with an index
    Reshard(Reshard),
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
    /// Keep the N newest checkpoints [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,
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

#[derive(Args)]
#[command(after_help = "\
Work that was interrupted continues when the command is repeated. A plan is JSON, with the offset and size along each axis:
  {\"w\": [{\"shard\": 0, \"offsets\": [0, 0], \"sizes\": [4, 8]}, {\"shard\": 1, \"offsets\": [4, 0], \"sizes\": [4, 8]}]}

Examples:
  lodstone checkpoint reshard step-100/ two/ --shards 2
  lodstone checkpoint reshard step-100/ hub/ --shards 4 --to safetensors
  lodstone checkpoint reshard step-100/ eight/ --shards 8 --axis '*.down.weight=1'")]
pub(crate) struct Reshard {
    /// Model to divide, of any format
    pub(crate) model: PathBuf,
    /// Directory to write, which does not exist yet
    pub(crate) output: PathBuf,
    /// Number of shards [default: that of the plan]
    #[arg(long, value_name = "N", required_unless_present = "plan")]
    pub(crate) shards: Option<usize>,
    /// Divide the tensors with these names along axis K; may be repeated [default: 0 for all]
    #[arg(long, value_name = "PATTERN=K", value_parser = axis)]
    pub(crate) axis: Vec<(String, usize)>,
    /// File with the chunks of tensors
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Format to write [default: that of the model, or safetensors]
    #[arg(long, value_name = "FORMAT", value_parser = shard_format_names())]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) open: Open,
    #[command(flatten)]
    pub(crate) allow: Allow,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
}

fn shard_format_names() -> PossibleValuesParser {
    PossibleValuesParser::new(shard_formats().map(|format| format.name))
}

/// Parses `PATTERN=K`. A pattern may contain `=`.
fn axis(text: &str) -> Result<(String, usize), String> {
    let found = text.rsplit_once('=').and_then(|(name, axis)| Some((name, axis.parse().ok()?)));
    let (pattern, axis) = found.ok_or("expected PATTERN=K, with the number of an axis from 0")?;
    Ok((pattern.to_owned(), axis))
}

//! `lodstone seal`.

use std::path::PathBuf;

use clap::Args;
use lodstone::Progress;
use lodstone::seal::Sealing;
use serde::Serialize;

use crate::args::options::Whole;
use crate::console::{self, count, plain, size};
use crate::stores::at;
use crate::{Failure, progress};

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone seal resnet50/                        writes resnet50/lodstone.seal
  lodstone seal model.safetensors                writes lodstone.seal beside it
  lodstone seal model.safetensors --replace      after an intended change")]
pub(crate) struct Seal {
    /// A file, a directory, or the prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// Seal the current contents, even if they differ from an existing seal
    #[arg(long)]
    pub(crate) replace: bool,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Whole,
}

/// A seal as JSON.
#[derive(Serialize)]
struct Sealed {
    /// Version of this structure.
    schema: u32,
    /// The paths of the written seals.
    seals: Vec<String>,
    files: usize,
    tensors: usize,
    nbytes: u64,
}

pub(crate) fn run(arguments: &Seal) -> Result<(), Failure> {
    let progress = Progress::default();
    progress::cancel_on_interrupt(&progress)?;
    let (path, options) = (at(&arguments.path)?, arguments.open.options()?);
    let seal = || lodstone::seal(&path, &options, arguments.replace, &progress);
    let Sealing { seals, files, tensors, nbytes } = progress::show(&progress, None, seal)?;
    let seals: Vec<String> = seals.iter().map(|seal| seal.display().to_string()).collect();
    if arguments.json {
        return console::json(&Sealed { schema: 1, seals, files, tensors, nbytes });
    }
    let parts = [count(files, "file"), count(tensors, "tensor"), size(nbytes)];
    let mut done = format!("sealed {}\n", parts.join(", "));
    for seal in &seals {
        done += &format!("wrote {}\n", plain(seal));
    }
    console::summary(&done)
}

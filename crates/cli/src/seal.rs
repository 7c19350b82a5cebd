//! `lodstone seal`.

use lodstone::{Progress, Sealing};
use serde::Serialize;

use crate::args::Seal;
use crate::console::{self, count, plain, size};
use crate::stores::at;
use crate::{Failure, progress};

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

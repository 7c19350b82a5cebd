//! `lodstone verify`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use lodstone::Progress;
use lodstone::verify::Verification;

use crate::args::options::Whole;
use crate::console::{self, count, plain, size};
use crate::paths::{About, each};
use crate::stores::{at, shown};
use crate::{Answer, Failure, progress};

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone verify resnet50/
  lodstone verify model.safetensors --sealed     exit 2 if there is no seal
  lodstone verify models/*                       exit 1 if one of them is damaged
  lodstone verify model.safetensors --json")]
pub(crate) struct Verify {
    /// Models: files, directories, or prefixes that the files of a model share
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Print JSON (schema 1), one document for each model
    #[arg(long)]
    pub(crate) json: bool,
    /// Require a seal: exit 2 if there is none
    #[arg(long)]
    pub(crate) sealed: bool,
    #[command(flatten)]
    pub(crate) open: Whole,
}

/// Checks whether models are intact.
pub(crate) fn run(arguments: &Verify) -> Result<Answer, Failure> {
    let progress = Progress::default();
    progress::cancel_on_interrupt(&progress)?;
    each(&arguments.paths, |path| verify(path, arguments, &progress))
}

fn verify(path: &Path, arguments: &Verify, progress: &Progress) -> Result<Answer, Failure> {
    let (location, options) = (at(path)?, arguments.open.options()?);
    let verify = || lodstone::verify(&location, &options, progress);
    let found = progress::show(progress, None, verify)?;
    if arguments.json {
        console::json(&About::new(path, &found))?;
    } else {
        console::to_stdout(|out| Ok(describe(&found, &shown(path), out)?))?;
        console::warnings(&found.warnings);
    }
    if found.whole && !found.sealed && arguments.sealed {
        let path = shown(path);
        return Err(format!("cannot verify the values of `{path}`: it has no seal").into());
    }
    Ok(found.whole.into())
}

fn describe(found: &Verification, path: &str, out: &mut impl Write) -> io::Result<()> {
    let verdict = match (found.whole, found.findings.is_empty()) {
        (true, true) => "whole",
        (true, false) => "whole, but inconsistent",
        (false, _) => "damaged",
    };
    writeln!(out, "{}: {verdict}", plain(path))?;
    for defect in &found.findings {
        writeln!(out, "  {}", plain(&defect.message))?;
    }
    if let Some(format) = &found.format {
        let parts =
            [count(found.files, "file"), count(found.tensors, "tensor"), size(found.nbytes)];
        writeln!(out, "  {format}: {}", parts.join(", "))?;
    }
    match (found.sealed, found.whole) {
        (true, true) => {
            let chunks = count(found.pieces, "checksum");
            writeln!(out, "  sealed: {chunks} match")
        }
        (true, false) => Ok(()),
        (false, _) => writeln!(out, "  not sealed: structure checked, values not"),
    }
}

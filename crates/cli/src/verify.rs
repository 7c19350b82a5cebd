//! `lodstone verify`.

use std::io::{self, Write};

use lodstone::{Progress, Verification};

use crate::args::Verify;
use crate::say::{self, count, plain, size};
use crate::stores::at;
use crate::{Failure, progress};

/// Says whether the model is whole.
pub(crate) fn run(arguments: &Verify) -> Result<bool, Failure> {
    let progress = Progress::default();
    progress::cancel_when_asked(&progress)?;
    let (path, options) = (at(&arguments.path)?, arguments.open.options()?);
    let verify = || lodstone::verify(&path, &options, &progress);
    let found = progress::show(&progress, None, verify)?;
    if arguments.json {
        say::json(&found)?;
    } else {
        say::to_stdout(|out| Ok(describe(&found, &arguments.path.display().to_string(), out)?))?;
        found.warnings.iter().for_each(|warning| say::warning(warning));
    }
    if found.whole && !found.sealed && arguments.sealed {
        return Err("there is no seal: nothing tells whether the values are what they were".into());
    }
    Ok(found.whole)
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
            writeln!(out, "  sealed: {} are what they were", count(found.pieces, "piece"))
        }
        (true, false) => Ok(()),
        (false, _) => writeln!(out, "  not sealed: the structure is checked, values are not"),
    }
}

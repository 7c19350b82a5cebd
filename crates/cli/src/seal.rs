//! `lodstone seal`.

use lodstone::Progress;

use crate::args::Seal;
use crate::say::{self, count, plain, size};
use crate::stores::at;
use crate::{Failure, progress};

pub(crate) fn run(arguments: &Seal) -> Result<(), Failure> {
    let progress = Progress::default();
    progress::cancel_when_asked(&progress)?;
    let (path, options) = (at(&arguments.path)?, arguments.open.options()?);
    let seal = || lodstone::seal(&path, &options, arguments.replace, &progress);
    let sealing = progress::show(&progress, None, seal)?;
    let parts =
        [count(sealing.files, "file"), count(sealing.tensors, "tensor"), size(sealing.nbytes)];
    let mut done = format!("sealed {}\n", parts.join(", "));
    for seal in &sealing.seals {
        done += &format!("wrote {}\n", plain(&seal.display().to_string()));
    }
    say::out(done.as_bytes())
}

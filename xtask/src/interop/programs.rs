//! Runs Lodstone's programs in PaddlePaddle, and loads the files that either saves in the other.

use std::path::Path;
use std::process::Command;

use super::suite::Suite;
use super::{Work, first_failure};
use crate::run::{Outcome, build, root, run, target};

pub(super) fn programs(suite: &Suite<'_>, python: &Path) -> Result<(), Outcome> {
    first_failure(vec![
        exchanged(suite, python, "write_programs", "paddle_programs.py"),
        exchanged(suite, python, "write_training", "paddle_training.py"),
        exchanged(suite, python, "write_checkpoint", "paddle_checkpoint.py"),
    ])
}

/// Runs an example that writes files, a script that uses them and writes others, and the example again to check those.
fn exchanged(suite: &Suite<'_>, python: &Path, example: &str, script: &str) -> Result<(), Outcome> {
    let work = Work::new(suite, example)?;
    let out = work.directory.display().to_string();
    build(&["--example", example])?;
    let example = target().join("debug/examples").join(example);
    let ours = |more: &[&str]| run(Command::new(&example).arg(&out).args(more).current_dir(root()));
    ours(&[])?;
    let script = root().join("interop").join(script);
    run(Command::new(python).arg("-B").arg(script).arg(&out))?;
    ours(&["check"])
}

//! Programs that are built here run in PaddlePaddle, and what either saves loads in the other.

use std::path::Path;
use std::process::Command;

use super::Work;
use crate::run::{Outcome, cargo, root, run};

pub(super) fn programs(python: &Path) -> Result<(), Outcome> {
    let work = Work::new("programs")?;
    let out = work.directory.display().to_string();
    let example = ["run", "--quiet", "--package", "lodstone", "--example", "write_programs", "--"];
    let ours = |more: &[&str]| cargo(&[&example, [out.as_str()].as_slice(), more].concat(), &[]);
    ours(&[])?;
    let script = root().join("interop/paddle_programs.py");
    run(Command::new(python).arg("-B").arg(script).arg(&out))?;
    ours(&["check"])
}

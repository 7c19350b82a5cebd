//! Calls every operator that has a rule with random attributes, and compares the results with PaddlePaddle's.

use std::path::Path;
use std::process::Command;

use super::{Extent, Work};
use crate::python::environment;
use crate::run::{Outcome, build, root, run, target};

/// The number of calls of each operator, in a sample (two minutes) and in a complete run (half an hour).
const CALLS: [usize; 2] = [30, 600];

pub(super) fn sweep(python: &Path, extent: Extent) -> Result<(), Outcome> {
    let python = environment(python, "interop/requirements-paddle-2.6.2.txt")?;
    let work = Work::new("sweep")?;
    build(&["--example", "run_calls"])?;
    let count = if extent.all { CALLS[1] } else { CALLS[0] };
    let mut command = Command::new(python);
    command.arg("-B").arg(root().join("interop/paddle_sweep.py"));
    command.arg(target().join("debug/examples/run_calls")).arg(&work.directory);
    command.args(["--seed", &extent.seed.to_string(), "--count", &count.to_string()]);
    if extent.all {
        command.arg("--all");
    }
    run(&mut command)
}

//! Calls every operator that has a rule with random attributes, and compares the results with those of PaddlePaddle 2.6.2
//! and 3.3.1.

use std::path::Path;
use std::process::Command;

use super::{Extent, Work};
use crate::python::environment;
use crate::run::{Outcome, build, root, run, target};

/// The number of calls of each operator, in a sample (two minutes) and in a complete run (half an hour).
const CALLS: [usize; 2] = [30, 600];

pub(super) fn sweep(python: &Path, extent: Extent) -> Result<(), Outcome> {
    let newer = environment(python, "interop/requirements-paddle-3.3.1.txt")?;
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
    run(&mut command)?;
    let mut command = Command::new(newer);
    command.arg("-B").arg(root().join("interop/paddle_sweep_newer.py"));
    command.arg(target().join("debug/examples/run_calls")).arg(&work.directory);
    run(command.arg(work.directory.join("newer")))
}

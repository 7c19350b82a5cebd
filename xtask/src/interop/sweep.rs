//! Calls every operator that has a rule with random attributes, and compares the results with those of PaddlePaddle 2.6.2
//! and 3.3.1.

use std::process::Command;

use super::suite::Suite;
use super::{Work, first_failure};
use crate::python::environment;
use crate::run::{Outcome, build, root, run, target};

/// The number of calls of each operator, in a sample (two minutes) and in a complete run (half an hour).
const CALLS: [usize; 2] = [30, 600];

pub(super) fn sweep(suite: &Suite<'_>) -> Result<(), Outcome> {
    let python = |release: &str| {
        environment(suite.python, &format!("interop/requirements-paddle-{release}.txt"))
    };
    build(&["--example", "run_calls"])?;
    let run_calls = target().join("debug/examples/run_calls");
    // The newer release repeats these calls.
    let calls = suite.directory.join("calls");
    let extent = suite.extent;
    let recorded = suite.part("2.6.2", || {
        let work = Work::new(suite, "calls")?;
        let mut command = Command::new(python("2.6.2")?);
        command.arg("-B").arg(root().join("interop/paddle_sweep.py"));
        command.arg(&run_calls).arg(work.directory);
        let count = if extent.all { CALLS[1] } else { CALLS[0] };
        command.args(["--seed", &extent.seed.to_string(), "--count", &count.to_string()]);
        command.args(extent.all.then_some("--all"));
        run(&mut command)
    });
    let repeated = suite.part("3.3.1", || {
        let mut command = Command::new(python("3.3.1")?);
        command.arg("-B").arg(root().join("interop/paddle_sweep_newer.py"));
        run(command.arg(&run_calls).arg(&calls).arg(suite.directory.join("newer")))
    });
    let values = suite.part("values", || {
        let mut command = Command::new(python("2.6.2")?);
        command.arg("-B").arg(root().join("interop/paddle_values.py"));
        command.arg(root().join("crates/schema/data/paddle_values.tsv"));
        run(command.arg(root().join("crates/paddle/tests/golden")))
    });
    first_failure(vec![recorded, repeated, values])
}

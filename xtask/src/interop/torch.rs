//! Exports networks and single operators with PyTorch, and compares what they compute, in a complete run only.

use std::path::Path;
use std::process::Command;

use super::suite::Suite;
use super::{Work, first_failure};
use crate::python::environment;
use crate::run::{Outcome, root, run, target};

pub(super) fn torch(suite: &Suite<'_>) -> Result<(), Outcome> {
    let torch = environment(suite.python, "interop/requirements-torch-2.15.0.txt")?;
    let onnx = environment(suite.python, "interop/requirements-onnx-1.23.2.txt")?;
    let script = |name: &str| root().join("interop").join(name);
    let compare = |folder: &Path| {
        let mut compare = Command::new(&onnx);
        compare.arg("-B").arg(script("torch_exported.py")).arg(target().join("debug/lodstone"));
        run(compare.arg(folder))
    };
    let networks = suite.part("networks", || {
        let work = Work::new(suite, "networks")?;
        let mut build = Command::new(&torch);
        run(build.arg("-B").arg(script("torch_networks.py")).arg(&work.directory))?;
        compare(&work.directory)
    });
    let operators = suite.part("operators", || {
        let work = Work::new(suite, "operators")?;
        let cases = root().join("crates/lowering/tests/golden/torch/make_cases.py");
        run(Command::new(&torch).arg("-B").arg(cases).current_dir(&work.directory))?;
        compare(&work.directory)
    });
    first_failure(vec![networks, operators])
}

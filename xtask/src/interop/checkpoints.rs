//! Checkpoints of several processes, and conversions on several workers, in a complete run only.

use std::path::Path;
use std::process::Command;

use super::{Extent, first_failure};
use crate::python::{environment, install, wheel};
use crate::run::{Outcome, root, run};

/// The tests of the Python package that need PyTorch.
const TESTS: &str = "crates/python/tests/test_torch_checkpoints.py";

/// The scripts, with their requirements files. Of PyTorch, the oldest release that `lodstone.torch.dcp` supports, the
/// newest, and one between.
const SCRIPTS: [(&str, &str); 4] = [
    ("torch_checkpoints.py", "interop/requirements-torch-2.6.0.txt"),
    ("torch_checkpoints.py", "interop/requirements-torch-2.10.0.txt"),
    ("torch_checkpoints.py", "interop/requirements-torch-2.15.0.txt"),
    ("ray_conversion.py", "interop/requirements-ray-2.60.0.txt"),
];

pub(super) fn checkpoints(python: &Path, extent: Extent) -> Result<(), Outcome> {
    if !extent.installs("torch") {
        return Ok(());
    }
    let wheel = wheel(python, &[])?;
    let mut outcomes = Vec::new();
    for (script, requirements) in SCRIPTS {
        let python = environment(python, requirements)?;
        install(&python, &wheel)?;
        if script == "torch_checkpoints.py" {
            let mut tests = Command::new(&python);
            tests.args(["-B", "-m", "pytest", "--quiet", "-p", "no:cacheprovider"]);
            outcomes.push(run(tests.arg(root().join(TESTS))));
        }
        let mut command = Command::new(&python);
        outcomes.push(run(command.arg("-B").arg(root().join("interop").join(script))));
    }
    first_failure(outcomes)
}

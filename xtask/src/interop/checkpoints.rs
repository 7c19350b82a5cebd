//! Checkpoints of several processes, and conversions on several workers, in a complete run only.

use std::path::Path;
use std::process::Command;

use super::{Extent, first_failure};
use crate::python::{environment, install, wheel};
use crate::run::{Outcome, root, run};

/// The scripts, with their requirements files.
const SCRIPTS: [(&str, &str); 2] = [
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
        let mut command = Command::new(&python);
        outcomes.push(run(command.arg("-B").arg(root().join("interop").join(script))));
    }
    first_failure(outcomes)
}

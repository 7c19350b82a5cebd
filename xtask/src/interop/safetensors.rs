//! Runs the tests of safetensors with the Python package in its place.

use std::path::Path;
use std::process::Command;

use super::{Extent, Work, first_failure};
use crate::python::{environment, install, source, wheel};
use crate::run::{Outcome, root, run};

/// The frameworks, with their requirements files.
const FRAMEWORKS: [(&str, &str); 2] = [
    ("torch", "interop/requirements-torch-2.15.0.txt"),
    ("paddle", "interop/requirements-paddle-3.3.1.txt"),
];

pub(super) fn safetensors(python: &Path, extent: Extent) -> Result<(), Outcome> {
    let source = source(python, "interop/requirements-safetensors-source.txt")?;
    let wheel = wheel(python, &[])?;
    let mut outcomes = Vec::new();
    for (framework, requirements) in FRAMEWORKS.iter().filter(|(name, _)| extent.installs(name)) {
        let python = environment(python, requirements)?;
        install(&python, &wheel)?;
        let work = Work::new(&format!("safetensors-{framework}"))?;
        let mut tests = Command::new(python);
        tests.arg("-B").arg(root().join("interop/safetensors_tests.py"));
        outcomes.push(run(tests.arg(&source).arg(work.directory).arg(framework)));
    }
    first_failure(outcomes)
}

//! Runs the tests of safetensors with the Python package in its place.

use super::suite::Suite;
use super::{Work, first_failure};
use crate::python::{environment, source};
use crate::run::{Outcome, root, run};

/// The frameworks, with their requirements files.
const FRAMEWORKS: [(&str, &str); 2] = [
    ("torch", "interop/requirements-torch-2.15.0.txt"),
    ("paddle", "interop/requirements-paddle-3.3.1.txt"),
];

pub(super) fn safetensors(suite: &Suite<'_>) -> Result<(), Outcome> {
    let source = source(suite.python, "interop/requirements-safetensors-source.txt")?;
    let check = |(framework, requirements): &(&str, &str)| {
        suite.part(framework, || {
            let python = environment(suite.python, requirements)?;
            let work = Work::new(suite, framework)?;
            let mut tests = suite.with_package(&python)?;
            tests.arg(root().join("interop/safetensors_tests.py"));
            run(tests.arg(&source).arg(work.directory).arg(framework))
        })
    };
    let frameworks = FRAMEWORKS.iter().filter(|(name, _)| !suite.extent.leaves_out(name));
    first_failure(frameworks.map(check).collect())
}

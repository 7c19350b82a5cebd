//! Checkpoints of several processes, and conversions on several workers, in a complete run only.

use super::first_failure;
use super::suite::Suite;
use crate::python::environment;
use crate::run::{Outcome, root, run};

/// The tests of the Python package that need PyTorch.
const TESTS: &str = "crates/python/tests/test_torch_checkpoints.py";

/// The frameworks with their releases, and the script for each. Of PyTorch, the oldest release that `lodstone.torch.dcp` supports, the
/// newest, and one between.
const SCRIPTS: [(&str, &str); 4] = [
    ("torch-2.6.0", "torch_checkpoints.py"),
    ("torch-2.10.0", "torch_checkpoints.py"),
    ("torch-2.15.0", "torch_checkpoints.py"),
    ("ray-2.60.0", "ray_conversion.py"),
];

pub(super) fn checkpoints(suite: &Suite<'_>) -> Result<(), Outcome> {
    let checked = SCRIPTS.map(|(release, script)| {
        suite.part(release, || {
            let requirements = format!("interop/requirements-{release}.txt");
            let python = environment(suite.python, &requirements)?;
            let mut outcomes = Vec::new();
            if script == "torch_checkpoints.py" {
                let mut tests = suite.with_package(&python)?;
                tests.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]);
                outcomes.push(run(tests.arg(root().join(TESTS))));
            }
            let mut command = suite.with_package(&python)?;
            outcomes.push(run(command.arg(root().join("interop").join(script))));
            first_failure(outcomes)
        })
    });
    first_failure(checked.into())
}

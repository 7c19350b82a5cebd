//! Reads and writes models in an object store, at a server of the S3 protocol on loopback.

use std::process::Command;

use super::Work;
use super::suite::Suite;
use crate::python::environment;
use crate::run::{Outcome, root, run, target};

pub(super) fn objects(suite: &Suite<'_>) -> Result<(), Outcome> {
    let python = environment(suite.python, "interop/requirements-moto-5.2.5.txt")?;
    let work = Work::new(suite, "objects")?;
    let mut script = Command::new(python);
    script.arg("-B").arg(root().join("interop/objects.py"));
    script.arg(target().join("debug/lodstone"));
    script.arg(root().join("crates/formats/tests/golden")).arg(work.directory);
    // The conformance tests, and those of checkpoints and of writers at the same time.
    let tests = ["test", "--locked", "--quiet", "--workspace", "--test", "all", "buckets::"];
    run(script.arg(env!("CARGO")).args(tests).current_dir(root()))
}

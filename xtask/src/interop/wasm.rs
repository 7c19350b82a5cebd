//! Runs the node tests of the engine as WebAssembly.

use std::process::Command;

use super::suite::Suite;
use crate::python::{could_not_run, environment};
use crate::run::{Outcome, locked, root, run, target};

/// What a page in a browser runs.
const WASM: &str = "wasm32-unknown-unknown";

pub(super) fn wasm(suite: &Suite<'_>) -> Result<(), Outcome> {
    let python = environment(suite.python, "interop/requirements-wasmtime-50.0.1.txt")?;
    let mut rustup = Command::new("rustup");
    run(rustup.args(["--quiet", "target", "add", WASM]).current_dir(root()))
        .map_err(could_not_run)?;
    let mut build = locked("build");
    build.args(["--quiet", "--package", "lodstone-engine", "--example", "node_tests"]);
    run(build.args(["--target", WASM]).current_dir(root()))?;
    let mut script = Command::new(python);
    script.arg("-B").arg(root().join("interop/wasm_nodes.py"));
    script.arg(target().join(WASM).join("debug/examples/node_tests.wasm"));
    run(script.arg(root().join("crates/engine/tests/golden/onnx_nodes")))
}

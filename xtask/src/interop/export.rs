//! Exports networks of PaddlePaddle, and single operators, and runs them with ONNX Runtime.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Extent, Work};
use crate::python::environment;
use crate::run::{Outcome, cannot, root, run, target};

/// Builds the networks with PaddlePaddle, and compares what they compute; in a complete run also single operators, which
/// a test writes.
pub(super) fn export(python: &Path, extent: Extent) -> Result<(), Outcome> {
    let paddle = environment(python, "interop/requirements-paddle-2.6.2.txt")?;
    let onnx = environment(python, "interop/requirements-onnx-1.23.2.txt")?;
    let work = Work::new("export")?;
    let [networks, operators] = ["networks", "operators"].map(|name| work.directory.join(name));
    for folder in [&networks, &operators] {
        fs::create_dir_all(folder).map_err(cannot("create the directory"))?;
    }
    let script = |name: &str| root().join("interop").join(name);
    run(Command::new(paddle).arg("-B").arg(script("paddle_networks.py")).arg(&networks))?;
    let mut compare = Command::new(onnx);
    compare.arg("-B").arg(script("paddle_export.py")).arg(target().join("debug/lodstone"));
    compare.arg(&networks);
    if extent.all {
        let mut test = Command::new("cargo");
        test.args(["test", "--quiet", "--workspace", "--test", "paddle_to_onnx"]);
        run(test.env("LODSTONE_EXPORTED", &operators).current_dir(root()))?;
        compare.arg(&operators);
    }
    run(&mut compare)
}

//! Exports networks and single operators with PyTorch, and compares what they compute, in a complete run only.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Extent, Work, first_failure};
use crate::python::environment;
use crate::run::{Outcome, cannot, root, run, target};

pub(super) fn torch(python: &Path, extent: Extent) -> Result<(), Outcome> {
    if !extent.installs("torch") {
        return Ok(());
    }
    let torch = environment(python, "interop/requirements-torch-2.15.0.txt")?;
    let onnx = environment(python, "interop/requirements-onnx-1.23.2.txt")?;
    let work = Work::new("torch")?;
    let [networks, operators] = ["networks", "operators"].map(|name| work.directory.join(name));
    for folder in [&networks, &operators] {
        fs::create_dir_all(folder).map_err(cannot("create the directory"))?;
    }
    let script = |name: &str| root().join("interop").join(name);
    run(Command::new(&torch).arg("-B").arg(script("torch_networks.py")).arg(&networks))?;
    let cases = root().join("crates/lodstone/tests/golden/torch/make_cases.py");
    run(Command::new(&torch).arg("-B").arg(cases).current_dir(&operators))?;
    let compare = |folder: &Path| {
        let mut compare = Command::new(&onnx);
        compare.arg("-B").arg(script("torch_exported.py")).arg(target().join("debug/lodstone"));
        run(compare.arg(folder))
    };
    first_failure(vec![compare(&networks), compare(&operators)])
}

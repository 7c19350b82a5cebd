//! Exports networks of PaddlePaddle 2 and 3 and of MXNet, and single operators, and runs them with ONNX Runtime. Networks of
//! PaddlePaddle 3 are also converted for PaddlePaddle 2.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Extent, Work, first_failure};
use crate::python::environment;
use crate::run::{Outcome, cannot, root, run, target};

/// Builds the networks with their frameworks, and compares what they compute; in a complete run also single operators, which
/// a test writes.
pub(super) fn export(python: &Path, extent: Extent) -> Result<(), Outcome> {
    let releases =
        ["2.6.2", "3.3.1"].map(|release| format!("interop/requirements-paddle-{release}.txt"));
    let [older, newer] = releases.map(|requirements| environment(python, &requirements));
    let (older, newer) = (older?, newer?);
    let mxnet = environment(python, "interop/requirements-mxnet-1.9.1.txt")?;
    let onnx = environment(python, "interop/requirements-onnx-1.23.2.txt")?;
    let work = Work::new("export")?;
    let [networks, pir, symbols, operators] =
        ["networks", "pir", "symbols", "operators"].map(|name| work.directory.join(name));
    for folder in [&networks, &pir, &symbols, &operators] {
        fs::create_dir_all(folder).map_err(cannot("create the directory"))?;
    }
    let script = |name: &str| root().join("interop").join(name);
    for (paddle, networks) in [(&older, &networks), (&newer, &pir)] {
        run(Command::new(paddle).arg("-B").arg(script("paddle_networks.py")).arg(networks))?;
    }
    run(Command::new(mxnet).arg("-B").arg(script("mxnet_networks.py")).arg(&symbols))?;
    let compare = |networks: &Path| {
        let mut compare = Command::new(&onnx);
        compare.arg("-B").arg(script("exported.py")).arg(target().join("debug/lodstone"));
        compare.arg(networks);
        compare
    };
    let mut outcomes = vec![
        run(&mut compare(&pir)),
        run(&mut compare(&symbols)),
        run(Command::new(&older).arg("-B").arg(script("paddle_older.py")).arg(&pir)),
    ];
    let mut compare = compare(&networks);
    if extent.all {
        let mut test = Command::new("cargo");
        test.args(["test", "--quiet", "--workspace", "--test", "all", "paddle_to_onnx::"]);
        run(test.env("LODSTONE_EXPORTED", &operators).current_dir(root()))?;
        compare.arg(&operators);
    }
    outcomes.push(run(&mut compare));
    first_failure(outcomes)
}

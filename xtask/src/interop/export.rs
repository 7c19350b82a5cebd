//! Exports networks of PaddlePaddle 2 and 3, of MXNet and of Caffe2, and single operators, and runs them with ONNX Runtime.
//! Networks of PaddlePaddle 3 are also converted for PaddlePaddle 2.

use std::path::Path;
use std::process::Command;

use super::suite::Suite;
use super::{Work, first_failure};
use crate::python::environment;
use crate::run::{Outcome, locked, root, run, target};

/// Builds the networks with their frameworks, and compares what they compute; in a complete run also single operators, which
/// a test writes. Nets of Caffe2 are golden files with their results; in a complete run all of them.
pub(super) fn export(suite: &Suite<'_>) -> Result<(), Outcome> {
    let [older, newer, mxnet, onnx] =
        ["paddle-2.6.2", "paddle-3.3.1", "mxnet-1.9.1", "onnx-1.23.2"]
            .map(|name| environment(suite.python, &format!("interop/requirements-{name}.txt")));
    let (older, newer, mxnet, onnx) = (older?, newer?, mxnet?, onnx?);
    let script = |python: &Path, name: &str| {
        let mut command = Command::new(python);
        command.arg("-B").arg(root().join("interop").join(name));
        command
    };
    let compare = || {
        let mut compare = script(&onnx, "exported.py");
        compare.arg(target().join("debug/lodstone"));
        compare
    };
    let newer = suite.part("paddle-3.3.1", || {
        let work = Work::new(suite, "pir")?;
        run(script(&newer, "paddle_networks.py").arg(&work.directory))?;
        first_failure(vec![
            run(compare().arg(&work.directory)),
            run(script(&older, "paddle_older.py").arg(&work.directory)),
        ])
    });
    let mxnet = suite.part("mxnet-1.9.1", || {
        let work = Work::new(suite, "symbols")?;
        run(script(&mxnet, "mxnet_networks.py").arg(&work.directory))?;
        run(compare().arg(&work.directory))
    });
    let caffe2 = suite.part("caffe2", || {
        let share = if suite.extent.all { "1" } else { "4" };
        let mut nets = script(&onnx, "caffe2_exported.py");
        nets.arg(target().join("debug/lodstone"));
        nets.arg(root().join("crates/lowering/tests/golden/caffe2"));
        run(nets.args(["--share", share, "--seed", &suite.extent.seed.to_string()]))
    });
    let older = suite.part("paddle-2.6.2", || {
        let work = Work::new(suite, "networks")?;
        run(script(&older, "paddle_networks.py").arg(&work.directory))?;
        let mut compare = compare();
        compare.arg(&work.directory);
        if suite.extent.all {
            let operators = Work::new(suite, "operators")?.directory;
            let mut test = locked("test");
            test.args(["--quiet", "--workspace", "--test", "all", "paddle_to_onnx::"]);
            run(test.env("LODSTONE_EXPORTED", &operators).current_dir(root()))?;
            compare.arg(operators);
        }
        run(&mut compare)
    });
    first_failure(vec![newer, mxnet, caffe2, older])
}

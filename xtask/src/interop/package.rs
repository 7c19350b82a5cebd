//! Compares reading and writing with the Python package and with the frameworks.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::suite::Suite;
use super::{Work, cases_of, first_failure};
use crate::python::environment;
use crate::run::{Outcome, cannot, root, run};

/// MXNet files of 2.x or with scalars, which 1.9.1 does not read.
const NOT_READ: [&str; 4] =
    ["1.9.1/numpy.params", "1.9.1/scalars.params", "2.0.0b1/own.params", "2.0.0b1/numpy.params"];

/// Dicts of tensors that PyTorch saved and loads with `weights_only`.
const SAVED: [&str; 6] =
    ["big-endian.pt", "dtypes.pt", "protocol4.pt", "state.pt", "views-stream.pt", "views.pt"];

/// Dicts with tensors of subclasses, such as `DTensor`.
const SUBCLASSES: [&str; 4] =
    ["dtensor1.pt", "fsdp1_sharded_tensor.pt", "torchao_fp8.pt", "torchao_int8.pt"];

/// The frameworks, with their requirements files, and the golden files that they and the package read.
type Beside = (&'static str, &'static str, fn() -> Result<Vec<(&'static str, PathBuf)>, Outcome>);

const FRAMEWORKS: [Beside; 4] = [
    ("paddle", "interop/requirements-paddle-2.6.2.txt", || {
        // Pickles that Python wrote contain values that `paddle.load` rejects.
        let files = files("paddle_pickle/2.6.2", "pdparams")?.into_iter();
        let is_own = |path: &PathBuf| !path.to_string_lossy().contains("/pickle_p");
        let beside = [("paddle_refusals", "refusals"), ("feeds", "paddle")];
        let beside = beside.map(|(kind, name)| (kind, PathBuf::from(name)));
        Ok(files.filter(is_own).map(|path| ("paddle", path)).chain(beside).collect())
    }),
    ("mxnet", "interop/requirements-mxnet-1.9.1.txt", || {
        let cases = cases_of(&golden("mxnet"))?.into_iter();
        let arrays = cases.filter(|case| case["format"] == "mxnet-params");
        let paths = arrays.filter_map(|case| case["path"].as_str().map(str::to_owned));
        let paths = paths.filter(|path| !NOT_READ.contains(&path.as_str()));
        Ok(paths.map(|path| ("mxnet", golden("mxnet").join(path))).collect())
    }),
    ("onnx", "interop/requirements-onnx-1.23.2.txt", || {
        Ok(files("onnx/types", "onnx")?.into_iter().map(|path| ("onnx", path)).collect())
    }),
    ("torch", "interop/requirements-torch-2.15.0.txt", || {
        let files = files("safetensors", "safetensors")?.into_iter();
        let digits = ("torch", root().join("examples/digits/paddle"));
        let beside = ["modules", "refusals", "slices"].map(|name| (name, PathBuf::from(name)));
        let beside = beside.into_iter().chain([("feeds", PathBuf::from("torch"))]);
        let saved = SAVED.iter().map(|name| ("torch_saved", golden("torch").join(name)));
        let subclasses = root().join("crates/cli/tests/golden/reported/torch/subclasses");
        let subclasses = SUBCLASSES.iter().map(|name| ("subclasses", subclasses.join(name)));
        let beside = beside.chain(saved).chain(subclasses);
        Ok(files.map(|path| ("safetensors", path)).chain([digits]).chain(beside).collect())
    }),
];

/// Loads files with the Python package beside each framework, and runs the backend tests of ONNX.
pub(super) fn package(suite: &Suite<'_>) -> Result<(), Outcome> {
    let installed = FRAMEWORKS.iter().filter(|(name, ..)| !suite.extent.leaves_out(name));
    first_failure(installed.map(|beside| suite.part(beside.0, || compare(suite, beside))).collect())
}

fn compare(suite: &Suite<'_>, (name, requirements, files): &Beside) -> Result<(), Outcome> {
    let python = environment(suite.python, requirements)?;
    let script = |name: &str| {
        let mut command = suite.with_package(&python)?;
        command.arg(root().join("interop").join(name));
        Ok(command)
    };
    let mut work = Work::new(suite, name)?;
    let case = |(load, path)| json!({"load": load, "path": path});
    work.cases = files()?.into_iter().map(case).collect();
    work.expect()?;
    let mut outcomes = vec![run(script("package_load.py")?.arg(&work.directory))];
    if *name == "paddle" {
        outcomes.push(run(&mut script("paddle_built.py")?));
    }
    if *name == "onnx" {
        let share = if suite.extent.all { "1" } else { "10" };
        let mut tests = script("onnx_run.py")?;
        let seed = suite.extent.seed.to_string();
        outcomes.push(run(tests.args(["--share", share, "--seed", &seed])));
    }
    first_failure(outcomes)
}

fn golden(family: &str) -> PathBuf {
    root().join("crates/formats/tests/golden").join(family)
}

/// Returns the golden files of a directory with an extension, sorted.
fn files(family: &str, ending: &str) -> Result<Vec<PathBuf>, Outcome> {
    let entries = fs::read_dir(golden(family)).map_err(cannot("list golden files"))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect();
    paths.sort();
    Ok(paths)
}

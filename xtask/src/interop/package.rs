//! Compares reading and writing with the Python package and with the frameworks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::{Extent, Work, cases_of, first_failure};
use crate::python::{environment, install, wheel};
use crate::run::{Outcome, cannot, root, run};

/// MXNet files of 2.x or with scalars, which 1.9.1 does not read.
const NOT_READ: [&str; 4] =
    ["1.9.1/numpy.params", "1.9.1/scalars.params", "2.0.0b1/own.params", "2.0.0b1/numpy.params"];

/// Dicts of tensors that PyTorch saved and loads with `weights_only`.
const SAVED: [&str; 6] =
    ["big-endian.pt", "dtypes.pt", "protocol4.pt", "state.pt", "views-stream.pt", "views.pt"];

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
        let beside = beside.chain(saved);
        Ok(files.map(|path| ("safetensors", path)).chain([digits]).chain(beside).collect())
    }),
];

/// Loads files with the Python package beside each framework, and runs the backend tests of ONNX.
pub(super) fn package(python: &Path, extent: Extent) -> Result<(), Outcome> {
    let wheel = wheel(python, &[])?;
    let mut outcomes = Vec::new();
    for (name, requirements, files) in FRAMEWORKS.iter().filter(|(name, ..)| extent.installs(name))
    {
        let python = environment(python, requirements)?;
        install(&python, &wheel)?;
        let mut work = Work::new(&format!("package-{name}"))?;
        let case = |(load, path)| json!({"load": load, "path": path});
        work.cases = files()?.into_iter().map(case).collect();
        outcomes.push(work.check(&python, "package_load.py"));
        if *name == "paddle" {
            let built = root().join("interop/paddle_built.py");
            outcomes.push(run(Command::new(&python).arg("-B").arg(built)));
        }
        if *name == "onnx" {
            let share = if extent.all { "1" } else { "10" };
            let mut tests = Command::new(&python);
            tests.arg("-B").arg(root().join("interop/onnx_run.py"));
            outcomes.push(run(tests.args(["--share", share, "--seed", &extent.seed.to_string()])));
        }
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

//! Compares the verification of ONNX models with ONNX's checker, and runs models that Lodstone upgraded or rewrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::suite::Suite;
use super::{Work, cases_of, first_failure};
use crate::python::environment;
use crate::run::{Outcome, build, cannot, locked, root, run, target};

/// Opset versions, and the runtime for each: ONNX Runtime supports versions up to 26.
const RUNTIMES: [(&str, &str); 3] =
    [("21", "onnxruntime"), ("26", "onnxruntime"), ("newest", "reference")];

/// The models that runtimes do not support, with the opset version.
const ABSENT: [(&str, &str); 4] = [
    ("power", "26"),
    ("power", "newest"),
    ("roi_align", "26"),
    // A reverse scan.
    ("scan", "newest"),
];

/// The models of the onnx package that ONNX Runtime does not run, with the reason.
const UNRUN: [(&str, &str); 2] = [
    ("test_gradient_of_", "ONNX Runtime has no operator for gradients"),
    ("test_strnorm_model_monday_", "needs a locale that is not installed everywhere"),
];

/// The conversions of each model of the onnx package: file suffix, arguments of `convert`, and the kind of check.
const WRITTEN: [(&str, &[&str], &str); 4] = [
    ("onnx", &["--opset", "26"], "onnxruntime"),
    ("one.onnx", &["--opset", "26", "--external-data", "one"], "onnxruntime"),
    ("each.onnx", &["--opset", "26", "--external-data", "each"], "onnxruntime"),
    ("onnxtxt", &[], "text"),
];

pub(super) fn onnx(suite: &Suite<'_>) -> Result<(), Outcome> {
    let python = environment(suite.python, "interop/requirements-onnx-1.23.2.txt")?;
    let values = || match suite.extent.all {
        true => suite.part("values", || values_are_known(suite, &python)),
        false => Ok(()),
    };
    first_failure(vec![
        suite.part("inference", || infers(&python)),
        suite.part("checker", || checks_as_onnx(suite, &python)),
        suite.part("mutations", || judges_mutations(suite, &python)),
        suite.part("nodes", || kernels_compute(suite, &python)),
        values(),
        suite.part("models", || {
            let mut work = Work::new(suite, "models")?;
            let verified = work.verify_onnx(&python);
            work.write_onnx()?;
            work.write_glow(&python)?;
            first_failure(vec![verified, work.check(&python, "onnx_load.py")])
        }),
    ])
}

/// Compares ONNX's inference with the recorded one, on all node tests of its package and on invalid models.
fn infers(python: &Path) -> Result<(), Outcome> {
    let script = root().join("crates/formats/tests/golden/onnx_infer/make_corpus.py");
    run(Command::new(python).arg("-B").arg(script).arg("--check"))
}

impl Work {
    /// Verifies all test models of the onnx package, and writes them back: all are valid, and keep their bytes.
    pub(super) fn verify_onnx(&mut self, python: &Path) -> Result<(), Outcome> {
        let script = root().join("interop/onnx_models.py");
        run(Command::new(python).arg(script).arg(&self.directory))?;
        let nodes = fs::read_dir(self.directory.join("nodes")).map_err(cannot("list models"))?;
        let mut count = 0;
        for entry in nodes {
            let path = entry.map_err(cannot("list models"))?.path();
            run(Command::new(lodstone()).arg("verify").arg(&path).stdout(Stdio::null()))?;
            self.convert(&path, "same.onnx", &["--to", "same"])?;
            let read = |path: &Path| fs::read(path).map_err(cannot("read a model"));
            if read(&path)? != read(&self.directory.join("same.onnx"))? {
                let what = format!("{} is written back with different bytes", path.display());
                return Err(Outcome::Failed(what));
            }
            count += 1;
        }
        if count < 1900 {
            return Err(Outcome::Failed(format!(
                "expected 1910 models of operators, found {count}"
            )));
        }
        Ok(())
    }

    /// Upgrades models with old opsets, and those of the onnx package, to newer opsets.
    pub(super) fn write_onnx(&mut self) -> Result<(), Outcome> {
        let golden = root().join("crates/formats/tests/golden/onnx_upgrade");
        for case in cases_of(&golden)? {
            let name = case["name"].as_str().unwrap_or_default();
            for (version, runtime) in RUNTIMES {
                if ABSENT.contains(&(name, version)) {
                    continue;
                }
                let out = format!("{name}-{version}.onnx");
                let input = golden.join(format!("{name}.onnx"));
                self.convert(&input, &out, &["--opset", version])?;
                let (inputs, outputs) = (&case["inputs"], &case["outputs"]);
                self.cases.push(
                    json!({"load": runtime, "path": out, "inputs": inputs, "outputs": outputs}),
                );
            }
        }
        let models = fs::read(self.directory.join("models.json")).map_err(cannot("read models"))?;
        let models: Vec<Value> = serde_json::from_slice(&models)
            .map_err(|error| Outcome::Failed(format!("models.json: {error}")))?;
        for model in models {
            let name = model["name"].as_str().unwrap_or_default();
            if UNRUN.iter().any(|(start, _)| name.starts_with(start)) {
                continue;
            }
            let path = model["path"].as_str().unwrap_or_default();
            for (ending, arguments, load) in WRITTEN {
                let out = format!("{name}.{ending}");
                self.convert(Path::new(path), &out, arguments)?;
                self.cases
                    .push(json!({"load": load, "path": out, "data": model["data"], "of": path}));
            }
        }
        Ok(())
    }
}

/// The ONNX release whose tests are run.
const ONNX: &str = "1.23.2";

/// Compares our checker and inference with ONNX's on the models of its own tests.
fn checks_as_onnx(suite: &Suite<'_>, python: &Path) -> Result<(), Outcome> {
    let (judge, work) = (judge()?, Work::new(suite, "checker")?);
    let tests = source(python)?.join("tests/python");
    let mut script = script(python, "onnx_suite.py");
    run(script.arg(tests).arg(judge).arg(work.directory))
}

/// Compares them on randomly mutated models.
fn judges_mutations(suite: &Suite<'_>, python: &Path) -> Result<(), Outcome> {
    let (judge, work) = (judge()?, Work::new(suite, "mutations")?);
    let count = if suite.extent.all { "20" } else { "2" };
    let mut script = script(python, "onnx_mutations.py");
    script.arg(judge).arg(work.directory);
    run(script.args(["--seed", &suite.extent.seed.to_string(), "--count", count]))
}

fn judge() -> Result<PathBuf, Outcome> {
    build(&["--example", "judge_onnx"])?;
    Ok(target().join("debug/examples/judge_onnx"))
}

fn script(python: &Path, name: &str) -> Command {
    let mut command = Command::new(python);
    command.arg("-B").arg(root().join("interop").join(name));
    command
}

/// Downloads the source distribution of onnx, which contains tests that wheels lack; it is not built.
fn source(python: &Path) -> Result<PathBuf, Outcome> {
    let directory = target().join("interop/onnx_source");
    let (name, unpacked) = (format!("onnx-{ONNX}"), directory.join(format!("onnx-{ONNX}")));
    if unpacked.join("tests/python").is_dir() {
        return Ok(unpacked);
    }
    let could_not = |outcome| match outcome {
        Outcome::Failed(what) | Outcome::CouldNotRun(what) => Outcome::CouldNotRun(what),
    };
    let mut download = Command::new(python);
    download.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "onnx"]);
    download.args(["--retries", "10", "--dest"]).arg(&directory).arg(format!("onnx=={ONNX}"));
    run(&mut download).map_err(could_not)?;
    let mut unpack = Command::new(python);
    unpack.args(["-m", "tarfile", "-e"]).arg(directory.join(format!("{name}.tar.gz")));
    run(unpack.arg(&directory)).map_err(could_not)?;
    Ok(unpacked)
}

/// Tries each value that attributes may have, and others, with ONNX Runtime and Lodstone.
fn values_are_known(suite: &Suite<'_>, python: &Path) -> Result<(), Outcome> {
    let work = Work::new(suite, "values")?;
    let mut script = script(python, "onnx_values.py");
    script.arg(root().join("crates/schema/data"));
    script.arg(root().join("crates/engine/tests/golden/onnx_runtime"));
    run(script.arg(lodstone()).arg(&work.directory))
}

/// Runs all node tests of the onnx package with the engine.
fn kernels_compute(suite: &Suite<'_>, python: &Path) -> Result<(), Outcome> {
    let directory = Work::new(suite, "nodes")?.directory;
    let script = root().join("crates/engine/tests/golden/onnx_nodes/make_onnx_nodes.py");
    run(Command::new(python).arg("-B").arg(script).arg(&directory))?;
    let mut tests = locked("test");
    // The whole workspace, with the features that are already built.
    tests.args(["--quiet", "--workspace", "--test", "all", "all_node_tests"]);
    run(tests.env("LODSTONE_ONNX_NODE_TESTS", &directory).current_dir(root()))
}

fn lodstone() -> PathBuf {
    target().join("debug/lodstone")
}

//! Loads files that `lodstone` wrote with the real frameworks.
//!
//! The expected contents are those that the frameworks recorded with the golden files (`index.json`), never those that
//! `lodstone` reads.

mod checkpoints;
mod export;
mod glow;
mod mxnet;
mod objects;
mod onnx;
mod package;
mod programs;
mod safetensors;
mod sweep;
mod torch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::python::{environment, python_3_11};
use crate::run::{Outcome, build, cannot, root, run, target};

/// The release of each environment, and whether it supports 8-bit floats.
const RELEASES: [(&str, bool); 2] = [("2.6.2", false), ("3.3.1", true)];

/// The extent of long suites.
#[derive(Clone, Copy)]
struct Extent {
    /// Everything, not a sample.
    all: bool,
    /// The seed of random choices.
    seed: u64,
}

impl Extent {
    /// Returns whether a framework is installed: PyTorch takes 5 GB, and only a complete run installs it.
    fn installs(self, framework: &str) -> bool {
        let installs = self.all || framework != "torch";
        if !installs {
            eprintln!("PyTorch is left out, which --all installs");
        }
        installs
    }
}

/// A suite: loads files that we write with the frameworks of a family.
type Suite = fn(&Path, Extent) -> Result<(), Outcome>;

/// The suites. The lists run at the same time, as most scripts use one processor; all suites that install the Python package
/// are in one list.
const SUITES: [&[(&str, Suite)]; 2] = [
    &[("paddle", paddle), ("export", export::export), ("sweep", sweep::sweep), ("mxnet", mxnet)],
    &[
        ("onnx", onnx),
        ("objects", objects::objects),
        ("package", package::package),
        ("safetensors", safetensors::safetensors),
        ("torch", torch::torch),
        ("checkpoints", checkpoints::checkpoints),
    ],
];

/// Runs the named suites, or all, even if some fail. Long suites run a sample with the same seed each time, unless
/// `--all` or `--seed` is passed.
pub(crate) fn interop(arguments: &[String]) -> Result<(), Outcome> {
    let (mut names, mut extent) = (Vec::new(), Extent { all: false, seed: 0 });
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--all" => extent.all = true,
            "--seed" => {
                let seed = arguments.next().and_then(|seed| seed.parse().ok());
                extent.seed = seed.ok_or_else(|| usage("--seed"))?;
            }
            name if suites().any(|suite| suite == name) => names.push(name),
            other => return Err(usage(other)),
        }
    }
    build(&["--bin", "lodstone"])?;
    let python = python_3_11()?;
    let run = &|list: &[(&str, Suite)]| {
        let wanted = |(name, _): &&(&str, Suite)| names.is_empty() || names.contains(name);
        let timed = |(name, suite): &(&str, Suite)| {
            let begun = Instant::now();
            let outcome = suite(&python, extent);
            eprintln!("{name}: {} s", begun.elapsed().as_secs());
            outcome
        };
        first_failure(list.iter().filter(wanted).map(timed).collect())
    };
    thread::scope(|scope| {
        let lists = SUITES.map(|list| scope.spawn(move || run(list)));
        let panicked = |_| Err(Outcome::Failed("a suite panicked".to_owned()));
        first_failure(lists.into_iter().map(|list| list.join().unwrap_or_else(panicked)).collect())
    })
}

/// Returns the names of the suites.
fn suites() -> impl Iterator<Item = &'static str> {
    SUITES.into_iter().flatten().map(|(name, _)| *name)
}

fn usage(found: &str) -> Outcome {
    let names: Vec<_> = suites().map(|suite| format!("[{suite}]")).collect();
    let usage = format!("interop [--all] [--seed NUMBER] {}", names.join(" "));
    Outcome::CouldNotRun(format!("unknown argument `{found}`; usage: {usage}"))
}

/// Returns the first failure.
fn first_failure(outcomes: Vec<Result<(), Outcome>>) -> Result<(), Outcome> {
    outcomes.into_iter().collect()
}

fn paddle(python: &Path, _: Extent) -> Result<(), Outcome> {
    let mut outcomes = Vec::new();
    for (release, eight_bit_floats) in RELEASES {
        let python = environment(python, &format!("interop/requirements-paddle-{release}.txt"))?;
        let mut work = Work::new(release)?;
        work.write_paddle(eight_bit_floats)?;
        work.write_pickles()?;
        outcomes.push(work.check(&python, "paddle_load.py"));
        if release == "2.6.2" {
            outcomes.push(programs::programs(&python));
        }
        if release == "3.3.1" {
            let mut work = Work::new("arrays")?;
            work.write_arrays()?;
            outcomes.push(work.check(&python, "safetensors_load.py"));
        }
    }
    first_failure(outcomes)
}

fn mxnet(python: &Path, _: Extent) -> Result<(), Outcome> {
    let python = environment(python, "interop/requirements-mxnet-1.9.1.txt")?;
    let mut work = Work::new("mxnet")?;
    work.write_mxnet()?;
    work.check(&python, "mxnet_load.py")
}

fn onnx(python: &Path, extent: Extent) -> Result<(), Outcome> {
    let python = environment(python, "interop/requirements-onnx-1.23.2.txt")?;
    let infers = onnx_infers(&python);
    let judges = onnx::judges(&python, extent);
    let computes = onnx::kernels_compute(&python);
    let values = if extent.all { onnx::values_are_known(&python) } else { Ok(()) };
    let mut work = Work::new("onnx")?;
    let verified = work.verify_onnx(&python);
    work.write_onnx()?;
    work.write_glow(&python)?;
    first_failure(vec![
        infers,
        judges,
        computes,
        values,
        verified,
        work.check(&python, "onnx_load.py"),
    ])
}

/// Compares ONNX's inference with the recorded one, on all node tests of its package and on invalid models.
fn onnx_infers(python: &Path) -> Result<(), Outcome> {
    let script = root().join("crates/formats/tests/golden/onnx_infer/make_corpus.py");
    run(Command::new(python).arg("-B").arg(script).arg("--check"))
}

/// Written files, and their expected contents.
struct Work {
    directory: PathBuf,
    cases: Vec<Value>,
}

impl Work {
    fn new(name: &str) -> Result<Self, Outcome> {
        let directory = target().join("interop").join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).map_err(cannot("create the directory"))?;
        Ok(Self { directory, cases: Vec::new() })
    }

    /// Writes every golden case, unchanged and aligned, in the layout that PaddlePaddle reads.
    fn write_paddle(&mut self, eight_bit_floats: bool) -> Result<(), Outcome> {
        for case in golden_cases()? {
            let tensors = case["tensors"].as_array().cloned().unwrap_or_default();
            let has = |key: &str, value: &str| {
                tensors.iter().any(|t| t[key].as_str().is_some_and(|is| is.starts_with(value)))
            };
            // PaddlePaddle's bindings do not expose vocabularies.
            if tensors.is_empty() || has("kind", "vocab") {
                continue;
            }
            if has("dtype", "float8") && !eight_bit_floats {
                continue;
            }
            for align in ["0", "64"] {
                self.write_case(&case, &tensors, align)?;
            }
        }
        self.write_digits()
    }

    /// Writes pickles, unchanged and without one of their tensors, and new pickles of other models.
    fn write_pickles(&mut self) -> Result<(), Outcome> {
        for case in cases_of(&golden().with_file_name("paddle_pickle"))? {
            let path = case["path"].as_str().unwrap_or_default();
            // Pickles that Python wrote contain values that `paddle.load` rejects.
            if path.contains("/pickle_p") {
                continue;
            }
            let tensors = case["tensors"].as_array().cloned().unwrap_or_default();
            let input = golden().with_file_name("paddle_pickle").join(path);
            let name = format!("pickle-{}", path.replace('/', "-"));
            self.convert(&input, &name, &["--to", "same"])?;
            self.cases.push(json!({ "load": "pickle", "path": name, "tensors": tensors }));
            let Some((first, rest)) = tensors.split_first().filter(|(_, rest)| !rest.is_empty())
            else {
                continue;
            };
            let first = first["name"].as_str().unwrap_or_default();
            // In a list, the following tensors move up.
            if path.contains("list.") {
                continue;
            }
            let name = format!("edited-{name}");
            self.convert(&input, &name, &["--to", "same", "--exclude", first])?;
            self.cases.push(json!({ "load": "pickle", "path": name, "tensors": rest }));
        }
        for case in golden_cases()? {
            let path = case["path"].as_str().unwrap_or_default();
            let mut tensors = case["tensors"].as_array().cloned().unwrap_or_default();
            let plain = |tensor: &Value| tensor["kind"] == "dense" && tensor["lod"].is_null();
            let there = case["format"] == "paddle" && case["params"].is_null();
            if !there || !tensors.iter().all(plain) || tensors.is_empty() {
                continue;
            }
            // Pickles store types that they cannot name as bits.
            for tensor in &mut tensors {
                match tensor["dtype"].as_str() {
                    Some("bfloat16") => tensor["dtype"] = json!("uint16"),
                    Some(dtype) if dtype.starts_with("float8") => tensor["dtype"] = json!("int8"),
                    _ => {}
                }
            }
            let name = format!("fresh-{}.pdparams", path.replace('/', "-"));
            self.convert(&golden().join(path), &name, &["--allow", "dtype"])?;
            self.cases.push(json!({ "load": "pickle", "path": name, "tensors": tensors }));
        }
        Ok(())
    }

    fn write_case(&mut self, case: &Value, tensors: &[Value], align: &str) -> Result<(), Outcome> {
        let path = case["path"].as_str().unwrap_or_default();
        let is_inference = case["inputs"].is_array();
        let format = case["format"].as_str().unwrap_or_default();
        let name = format!("{}-{align}", path.replace('/', "-"));
        let mut expect = json!({ "path": name, "tensors": tensors });
        let to = match format {
            "paddle-tensor" | "paddle-tensor-lod-last" => {
                let is_rows = tensors.iter().any(|tensor| tensor["kind"] == "selected_rows");
                expect["load"] = json!(if is_rows { "selected_rows" } else { "tensor" });
                "paddle-tensor"
            }
            "paddle-params" | "paddle-params-sized" | "paddle-pir" => {
                expect["load"] = json!("params");
                "paddle-params"
            }
            "paddle-vars" if is_inference => {
                expect["load"] = json!("inference_model");
                "paddle-vars"
            }
            "paddle-vars" => {
                expect["load"] = json!("vars");
                "paddle-vars"
            }
            "paddle" if is_inference => {
                expect["load"] = json!("inference_model");
                "paddle"
            }
            "paddle" => {
                expect["load"] = json!("params");
                expect["path"] = json!(format!("{name}.pdiparams"));
                expect["program"] = json!(format!("{name}.pdmodel"));
                "paddle"
            }
            // Pickles have no alignment.
            "paddle-save" if align == "0" => {
                expect["load"] = json!("saved");
                "same"
            }
            _ => return Ok(()),
        };
        // An output with an extension is a prefix, not a directory.
        let out = if to == "paddle" || to == "same" { format!("{name}.pdmodel") } else { name };
        let mut arguments = vec!["--to", to, "--align", align, "--allow", "names"];
        let params = case["params"].as_str().map(|params| golden().join(params));
        let params = params.as_ref().map(|params| params.display().to_string());
        if let Some(params) = &params {
            arguments.extend(["--params", params]);
        }
        self.convert(&golden().join(path), &out, &arguments)?;
        self.cases.push(expect);
        Ok(())
    }

    /// Writes the trained example, with the recorded outputs.
    fn write_digits(&mut self) -> Result<(), Outcome> {
        let example = root().join("examples/digits");
        self.convert(&example.join("paddle"), "digits.pdmodel", &["--to", "paddle"])?;
        let test = example.join("test.npz").display().to_string();
        self.cases.push(json!({
            "load": "inference_model", "path": "digits",
            "feeds": test, "feed_keys": {"image": "images"}, "fetch": test, "fetch_keys": ["outputs"],
        }));
        Ok(())
    }

    /// Writes models as safetensors and npz, tensors as npy.
    fn write_arrays(&mut self) -> Result<(), Outcome> {
        for case in golden_cases()? {
            let path = case["path"].as_str().unwrap_or_default();
            let tensors = case["tensors"].as_array().cloned().unwrap_or_default();
            let name = path.replace('/', "-");
            let input = golden().join(path);
            let plain = |tensor: &Value| tensor["kind"] == "dense" && tensor["lod"].is_null();
            if !tensors.iter().all(plain) || tensors.is_empty() || !case["params"].is_null() {
                continue;
            }
            match case["format"].as_str() {
                Some("paddle") => {
                    for kind in ["safetensors", "npz"] {
                        let out = format!("{name}.{kind}");
                        self.convert(&input, &out, &[])?;
                        self.cases.push(json!({ "load": kind, "path": out, "tensors": tensors }));
                    }
                }
                Some("paddle-tensor") => {
                    let dtype = tensors[0]["dtype"].as_str().unwrap_or_default();
                    if dtype != "bfloat16" && !dtype.starts_with("float8") {
                        let out = format!("{name}.npy");
                        self.convert(&input, &out, &[])?;
                        self.cases.push(json!({ "load": "npy", "path": out, "tensors": tensors }));
                    }
                    if !dtype.starts_with("complex128") {
                        let mut tensors = tensors;
                        tensors[0]["name"] = json!("0");
                        let out = format!("{name}.safetensors");
                        self.convert(&input, &out, &[])?;
                        self.cases.push(
                            json!({ "load": "safetensors", "path": out, "tensors": tensors }),
                        );
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn convert(&self, input: &Path, out: &str, arguments: &[&str]) -> Result<(), Outcome> {
        let lodstone = target().join("debug/lodstone");
        let mut command = Command::new(lodstone);
        command.arg("convert").arg(input).arg(self.directory.join(out)).args(arguments);
        // Only arrays are compared; programs are dropped unless the format holds them.
        command.args(["--allow", "program"]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        run(&mut command)
    }

    /// Loads the written files with the framework.
    fn check(&self, python: &Path, script: &str) -> Result<(), Outcome> {
        let expect = json!({ "cases": self.cases });
        fs::write(self.directory.join("expect.json"), expect.to_string())
            .map_err(cannot("write expect.json"))?;
        let mut command = Command::new(python);
        command.arg(root().join("interop").join(script)).arg(&self.directory);
        run(&mut command)
    }
}

fn golden() -> PathBuf {
    root().join("crates/formats/tests/golden/paddle")
}

fn golden_cases() -> Result<Vec<Value>, Outcome> {
    cases_of(&golden())
}

/// Returns the recorded cases of a directory of golden files.
fn cases_of(golden: &Path) -> Result<Vec<Value>, Outcome> {
    let index = fs::read(golden.join("index.json")).map_err(cannot("read index.json"))?;
    let index: Value = serde_json::from_slice(&index)
        .map_err(|error| Outcome::Failed(format!("index.json: {error}")))?;
    Ok(index["cases"].as_array().cloned().unwrap_or_default())
}

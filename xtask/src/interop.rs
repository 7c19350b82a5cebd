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
mod paddle;
mod programs;
pub(crate) mod results;
mod safetensors;
mod scan;
mod suite;
mod sweep;
mod torch;
mod wasm;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use serde_json::{Value, json};

use self::results::{Results, revision};
use self::suite::{Entry, Ran, Shared, Suite};
use crate::python::{environment, python_3_11};
use crate::run::{Outcome, build, cannot, root, run, target};

/// The extent of long suites.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    /// Everything, not a sample.
    pub(crate) all: bool,
    /// The seed of random choices.
    pub(crate) seed: u64,
}

impl Extent {
    /// Returns whether a framework is installed: PyTorch takes 5 GB, and only a complete run installs it, and Ray.
    fn installs(self, framework: &str) -> bool {
        self.all || !["ray", "torch"].contains(&framework)
    }

    /// Returns whether a framework is not installed, and says so.
    fn leaves_out(self, framework: &str) -> bool {
        let leaves_out = !self.installs(framework);
        if leaves_out {
            eprintln!("{framework} is left out, which --all installs");
        }
        leaves_out
    }
}

/// The suites. The lists run at the same time, as most scripts use one processor; all suites with the Python package are in
/// one list. Budgets of time have room for builds, downloads and other work on the machine: samples of `export`, `sweep`,
/// `onnx` and `package` take three to five minutes on two processors, the others less than two.
#[rustfmt::skip]
const SUITES: [&[Entry]; 2] = [
    &[
        Entry { name: "paddle", check: paddle::paddle, sample: Some(30), complete: 30, mib: 2048 },
        Entry { name: "export", check: export::export, sample: Some(30), complete: 60, mib: 4096 },
        Entry { name: "sweep", check: sweep::sweep, sample: Some(30), complete: 180, mib: 8192 },
        Entry { name: "mxnet", check: mxnet::mxnet, sample: Some(15), complete: 15, mib: 1024 },
        Entry { name: "wasm", check: wasm::wasm, sample: Some(15), complete: 15, mib: 256 },
    ],
    &[
        Entry { name: "onnx", check: onnx::onnx, sample: Some(45), complete: 90, mib: 4096 },
        Entry { name: "objects", check: objects::objects, sample: Some(30), complete: 30, mib: 1024 },
        Entry { name: "package", check: package::package, sample: Some(45), complete: 60, mib: 1024 },
        Entry { name: "safetensors", check: safetensors::safetensors, sample: Some(30), complete: 30, mib: 1024 },
        Entry { name: "scan", check: scan::scan, sample: Some(10), complete: 30, mib: 1024 },
        Entry { name: "torch", check: torch::torch, sample: None, complete: 60, mib: 4096 },
        Entry { name: "checkpoints", check: checkpoints::checkpoints, sample: None, complete: 90, mib: 4096 },
    ],
];

/// Runs the named suites, or all, even if some fail. Long suites run a sample with the same seed each time, unless
/// `--all` or `--seed` is passed. `--resume` skips what has passed at this revision with this extent. `--install` runs nothing,
/// and creates the environments: that needs the network more than a processor, so that compilers can run beside it.
pub(crate) fn interop(arguments: &[String]) -> Result<(), Outcome> {
    let (mut names, mut extent) = (Vec::new(), Extent { all: false, seed: 0 });
    let (mut resumes, mut only_installs) = (false, false);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--all" => extent.all = true,
            "--resume" => resumes = true,
            "--install" => only_installs = true,
            "--seed" => {
                let seed = arguments.next().and_then(|seed| seed.parse().ok());
                extent.seed = seed.ok_or_else(|| usage("--seed"))?;
            }
            name if suites().any(|suite| suite.name == name) => names.push(name),
            other => return Err(usage(other)),
        }
    }
    if only_installs {
        return install(extent);
    }
    let directory = target().join("interop");
    fs::create_dir_all(&directory).map_err(cannot("create the directory"))?;
    build(&["--bin", "lodstone"])?;
    let shared = &Shared {
        python: python_3_11()?,
        extent,
        results: Results::read(&directory.join("results.json"), &revision()?, extent, resumes)?,
        package: Mutex::new(None),
    };
    let run = &|list: &'static [Entry]| -> Vec<(&str, Ran)> {
        let wanted = |suite: &&Entry| names.is_empty() || names.contains(&suite.name);
        let ran = |suite: &Entry| {
            let ran = suite.run(shared);
            eprintln!("{}", row(suite.name, &ran));
            (suite.name, ran)
        };
        list.iter().filter(wanted).map(ran).collect()
    };
    let ran: Vec<_> = thread::scope(|scope| {
        let lists = SUITES.map(|list| scope.spawn(move || run(list)));
        let joined = lists.into_iter().map(|list| list.join());
        let resumed =
            joined.map(|list| list.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        resumed.flatten().collect()
    });
    eprintln!();
    for (name, ran) in &ran {
        eprintln!("{}", row(name, ran));
    }
    first_failure(ran.into_iter().map(|(_, ran)| ran.outcome()).collect())
}

/// Creates the environments of all suites.
fn install(extent: Extent) -> Result<(), Outcome> {
    let python = python_3_11()?;
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join("interop")).map_err(cannot("list the suites"))? {
        let entry = entry.map_err(cannot("list the suites"))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort();
    for name in names {
        let pinned = name.strip_prefix("requirements-").and_then(|name| name.split_once('-'));
        // Sources are downloaded, not installed.
        match pinned {
            Some((framework, version)) if version != "source.txt" && extent.installs(framework) => {
                environment(&python, &format!("interop/{name}"))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the row of a suite in the table at the end.
fn row(name: &str, ran: &Ran) -> String {
    format!("{name:12}{}", ran.describe())
}

fn suites() -> impl Iterator<Item = &'static Entry> {
    SUITES.into_iter().flatten()
}

fn usage(found: &str) -> Outcome {
    let names: Vec<_> = suites().map(|suite| format!("[{}]", suite.name)).collect();
    let usage =
        format!("interop [--install] [--all] [--seed NUMBER] [--resume] {}", names.join(" "));
    Outcome::CouldNotRun(format!("unknown argument `{found}`; usage: {usage}"))
}

/// Returns the first failure.
fn first_failure(outcomes: Vec<Result<(), Outcome>>) -> Result<(), Outcome> {
    outcomes.into_iter().collect()
}

/// Written files, and their expected contents.
struct Work {
    directory: PathBuf,
    cases: Vec<Value>,
}

impl Work {
    /// Creates an empty directory in that of a suite.
    fn new(suite: &Suite<'_>, name: &str) -> Result<Self, Outcome> {
        let directory = suite.directory.join(name);
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(cannot("delete the directory"))?;
        }
        fs::create_dir_all(&directory).map_err(cannot("create the directory"))?;
        Ok(Self { directory, cases: Vec::new() })
    }

    fn convert(&self, input: &Path, out: &str, arguments: &[&str]) -> Result<(), Outcome> {
        let lodstone = target().join("debug/lodstone");
        let mut command = Command::new(lodstone);
        command.arg("convert").arg(input).arg(self.directory.join(out)).args(arguments);
        // Only arrays are compared; programs are dropped unless the format holds them.
        command.args(["--allow", "program"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        run(&mut command)
    }

    /// Writes the expected contents.
    fn expect(&self) -> Result<(), Outcome> {
        let expect = json!({ "cases": self.cases });
        fs::write(self.directory.join("expect.json"), expect.to_string())
            .map_err(cannot("write expect.json"))
    }

    /// Loads the written files with the framework.
    fn check(&self, python: &Path, script: &str) -> Result<(), Outcome> {
        self.expect()?;
        let mut command = Command::new(python);
        command.arg(root().join("interop").join(script)).arg(&self.directory);
        run(&mut command)
    }
}

/// Returns the recorded cases of a directory of golden files.
fn cases_of(golden: &Path) -> Result<Vec<Value>, Outcome> {
    let index = fs::read(golden.join("index.json")).map_err(cannot("read index.json"))?;
    let index: Value = serde_json::from_slice(&index)
        .map_err(|error| Outcome::Failed(format!("index.json: {error}")))?;
    Ok(index["cases"].as_array().cloned().unwrap_or_default())
}

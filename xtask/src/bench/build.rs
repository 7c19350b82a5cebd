//! What it costs to build the command, the package and the tests: in a fresh clone, with an empty cache of the registry.
//!
//! Processor time is that of all processes, which other programs change by a tenth; a network is part of the wall time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::dist::STRIP;
use crate::python::{PACKAGE, environment, python_3_11};
use crate::run::{Outcome, cannot, root, run, target};

/// The features of the command without those that open addresses.
const LOCAL: &str = "fourier,images,onnxruntime,plots";

/// A finished build.
struct Built {
    processor: f64,
    wall: f64,
    /// The number of crates that were compiled.
    crates: usize,
}

/// Writes a table of builds; with `--tests` also of a cold `cargo xtask test`, which takes most of an hour.
pub(super) fn build(arguments: &[String]) -> Result<PathBuf, Outcome> {
    let (directory, table) = (target().join("bench-build"), target().join("bench-build.md"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).map_err(cannot("create the directory"))?;
    let clone = directory.join("clone");
    run(Command::new("git").args(["clone", "--quiet"]).arg(root()).arg(&clone))?;
    let mut rows =
        String::from("| | processor time | wall | crates | size |\n|---|---|---|---|---|\n");
    let mut row = |what: &str, built: &Built, size: Option<u64>| {
        let crates = if built.crates == 0 { String::new() } else { built.crates.to_string() };
        let size = size.map(|bytes| format!("{:.1} MB", bytes as f64 / 1e6)).unwrap_or_default();
        rows += &format!(
            "| {what} | {:.0} s | {:.0} s | {crates} | {size} |\n",
            built.processor, built.wall
        );
    };
    let fresh = |name: &str| Fresh::new(&directory.join(name), &clone);
    let command = |fresh: &Fresh| fresh.root.join("installed/bin/lodstone");

    let all = fresh("all")?;
    let built =
        all.cargo(&["install", "--locked", "--path", "crates/cli", "--root"], Some("installed"))?;
    row("`cargo install --locked --path crates/cli`", &built, Some(size(&command(&all))?));
    let local = fresh("local")?;
    let features = [
        "install",
        "--locked",
        "--path",
        "crates/cli",
        "--no-default-features",
        "--features",
        LOCAL,
        "--root",
    ];
    let built = local.cargo(&features, Some("installed"))?;
    row("the same without `remote`", &built, Some(size(&command(&local))?));
    let dist = fresh("dist")?;
    let mut released = Command::new("cargo");
    released.args(["build", "--locked", "--profile", "dist", "--package", "lodstone-cli"]);
    let built = dist.measured(released.current_dir(&dist.clone).env(STRIP.0, STRIP.1))?;
    row(
        "the command that is released",
        &built,
        Some(size(&dist.root.join("target/dist/lodstone"))?),
    );

    let python = environment(&python_3_11()?, PACKAGE)?;
    for (what, profile) in [("the wheel", "release"), ("the wheel that is released", "dist")] {
        let wheel = fresh(&format!("wheel-{profile}"))?;
        let wheels = wheel.root.join("wheels");
        let mut maturin = Command::new(&python);
        maturin
            .args(["-m", "maturin", "build", "--locked", "--profile", profile, "--out"])
            .arg(&wheels);
        maturin.current_dir(clone.join("crates/python"));
        let built = wheel.measured(&mut maturin)?;
        let file = fs::read_dir(&wheels).map_err(cannot("list wheels"))?.flatten().next();
        let file = file.ok_or_else(|| Outcome::Failed("maturin built no wheel".to_owned()))?;
        row(what, &built, Some(size(&file.path())?));
    }
    if arguments.iter().any(|argument| argument == "--tests") {
        let tests = fresh("tests")?;
        row("`cargo xtask test`", &tests.cargo(&["xtask", "test"], None)?, None);
    }
    let lock =
        fs::read_to_string(clone.join("Cargo.lock")).map_err(cannot("read the lock file"))?;
    let packages = lock.lines().filter(|line| *line == "[[package]]").count();
    rows += &format!("\nThe lock file has {packages} packages.\n");
    fs::write(&table, rows).map_err(cannot("write the table"))?;
    fs::remove_dir_all(&directory).map_err(cannot("remove the clone"))?;
    Ok(table)
}

/// Directories without anything that was downloaded or built.
struct Fresh {
    root: PathBuf,
    clone: PathBuf,
}

impl Fresh {
    fn new(root: &Path, clone: &Path) -> Result<Self, Outcome> {
        fs::create_dir_all(root).map_err(cannot("create a directory"))?;
        Ok(Self { root: root.to_path_buf(), clone: clone.to_path_buf() })
    }

    /// Runs cargo; `into` is a directory that its last option asks for.
    fn cargo(&self, arguments: &[&str], into: Option<&str>) -> Result<Built, Outcome> {
        let mut cargo = Command::new("cargo");
        cargo.args(arguments).args(into.map(|name| self.root.join(name))).current_dir(&self.clone);
        self.measured(&mut cargo)
    }

    fn measured(&self, command: &mut Command) -> Result<Built, Outcome> {
        command
            .env("CARGO_HOME", self.root.join("home"))
            .env("CARGO_TARGET_DIR", self.root.join("target"));
        // What cargo sets for this program is not what a user has.
        for name in
            ["CARGO", "CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "RUSTC_WRAPPER", "RUSTUP_TOOLCHAIN"]
        {
            command.env_remove(name);
        }
        let (before, started) = (processor_time()?, Instant::now());
        let output = command.stdout(Stdio::inherit()).stderr(Stdio::piped()).spawn();
        let output = output.and_then(std::process::Child::wait_with_output);
        let output = output.map_err(cannot("run a build"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(Outcome::Failed(format!("{command:?}: {}\n{text}", output.status)));
        }
        let crates =
            text.lines().filter(|line| line.trim_start().starts_with("Compiling ")).count();
        let wall = started.elapsed().as_secs_f64();
        Ok(Built { processor: processor_time()? - before, wall, crates })
    }
}

/// Returns the processor time of all ended processes that this one has started, and those that they have, in seconds.
fn processor_time() -> Result<f64, Outcome> {
    let stat = fs::read_to_string("/proc/self/stat").map_err(cannot("read the processor time"))?;
    // The name, in parentheses, may contain spaces. Then come the third and further fields: 16 and 17 are ticks of 10 ms.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(13).take(2);
    let ticks: Option<Vec<f64>> = fields.map(|field| field.parse().ok()).collect();
    let ticks = ticks.filter(|ticks| ticks.len() == 2);
    let missing = || Outcome::CouldNotRun("the system does not tell the processor time".to_owned());
    Ok(ticks.ok_or_else(missing)?.iter().sum::<f64>() / 100.0)
}

fn size(path: &Path) -> Result<u64, Outcome> {
    Ok(fs::metadata(path).map_err(cannot("read the size of a file"))?.len())
}

//! Fuzzing with libFuzzer, on stable Rust and a C++ compiler.
//!
//! `cargo xtask fuzz [TARGET..] [--seconds N] [--keep]` builds the binary of `fuzz/` with the instrumentation of
//! `cargo fuzz`, and runs each of its targets for 60 seconds (or N), starting with the golden files, the attacks, and inputs of
//! earlier runs. With `--keep`, some of the inputs that reach code which the golden files do not reach are added to the
//! repository, where ordinary tests read them. Findings are written to `target/fuzz/artifacts`, and fail the task.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Outcome, locked, root, run, target};

/// The compiler flags of `cargo fuzz --sanitizer none`: the allocator of the targets counts, and the called code has no
/// `unsafe` that an address sanitizer would check.
const FLAGS: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
];

/// Maximum size of an input in bytes: structure is fuzzed, and short inputs run faster.
const MAX_LEN: u64 = 32 << 10;

/// The separator between the files of an input; see `crates/lodstone/tests/fuzzing/mod.rs`.
const MARK: &[u8] = b"\n--8<--\n";

/// Initial inputs in `crates/formats/tests`: the files of a folder with some extensions, or files that belong together.
enum Seeds {
    Below(&'static str, &'static [&'static str]),
    Together(&'static [&'static str]),
}

use Seeds::{Below, Together};

const PICKLES: &[Seeds] = &[
    Below("golden/paddle_pickle", &["pdparams", "pdopt", "pdtensor", "pkl", "pickle"]),
    Below("golden/paddle", &["pdparams", "pdopt"]),
    Below("hostile/pickle", &["pdparams", "bin", "txt"]),
];

/// The initial inputs of targets beside the golden files of the format of their name.
const SEEDS: &[(&str, &[Seeds])] = &[
    // The inputs that were kept are a seal and its file, and a table and its chunks.
    ("seal", &[]),
    ("chunks", &[]),
    ("paddle-pir-export", &[Below("golden/paddle/pir", &["json"])]),
    (
        "paddle-export",
        &[Below("golden/paddle", &["pdmodel"]), Below("../../lodstone/tests/golden", &["pdmodel"])],
    ),
    ("paddle-pickle", PICKLES),
    ("pickle-scan", PICKLES),
    (
        "safetensors-index",
        &[Together(&[
            "golden/safetensors/sharded/model.safetensors.index.json",
            "golden/safetensors/sharded/model-00001-of-00003.safetensors",
            "golden/safetensors/sharded/model-00002-of-00003.safetensors",
            "golden/safetensors/sharded/model-00003-of-00003.safetensors",
        ])],
    ),
    (
        "onnx-external",
        &[Together(&["golden/onnx/external/one.onnx", "golden/onnx/external/one.data"])],
    ),
    (
        "caffe2",
        &[
            Together(&[
                "../../lowering/tests/golden/caffe2/int8/predict_net.pb",
                "../../lowering/tests/golden/caffe2/int8/init_net.pb",
            ]),
            Together(&[
                "../../lowering/tests/golden/caffe2/layouts/predict_net.pb",
                "../../lowering/tests/golden/caffe2/layouts/init_net.pb",
            ]),
        ],
    ),
    ("caffe2-blob", &[Below("../../lowering/tests/golden/caffe2", &["pb"])]),
    (
        "torch-export",
        &[Below("golden/torch", &["pt2"]), Below("../../lowering/tests/golden/torch", &["pt2"])],
    ),
    (
        "archive",
        &[Below("hostile/archive", &["pt", "npz", "bin", "txt"]), Below("golden/numpy", &["npz"])],
    ),
    (
        "checkpoint",
        &[Together(&[
            "../../checkpoint/tests/golden/serials/step-00000003/manifest.json",
            "../../checkpoint/tests/golden/serials/step-00000003/params",
            "../../checkpoint/tests/golden/serials/step-00000003/loader/__model__",
        ])],
    ),
];

/// A fuzz target of the binary.
struct Target {
    name: String,
    /// The names of the files of an input.
    files: Vec<String>,
}

/// The variable that selects the target of the binary.
const VARIABLE: &str = "LODSTONE_FUZZ_TARGET";

/// Runs the named targets, or all.
pub(crate) fn fuzz(arguments: &[String]) -> Result<(), Outcome> {
    let (mut names, mut seconds, mut keep) = (Vec::new(), 60, false);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--keep" => keep = true,
            "--seconds" => {
                let number = arguments.next().and_then(|number| number.parse::<u64>().ok());
                seconds = number.ok_or_else(usage)?;
            }
            name if name.starts_with('-') => return Err(usage()),
            name => names.push(name.to_owned()),
        }
    }
    let binary = build()?;
    let mut targets = targets(&binary)?;
    let is_known = |name: &&String| targets.iter().any(|target| target.name == **name);
    if let Some(other) = names.iter().find(|name| !is_known(name)) {
        let known: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        let known = known.join(", ");
        return Err(Outcome::CouldNotRun(format!(
            "unknown target `{other}`; the targets are {known}"
        )));
    }
    targets.retain(|target| names.is_empty() || names.contains(&target.name));
    // Inputs are files: in a file system in memory, if there is one.
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let scratch = base.join(format!("lodstone-fuzz-{}", std::process::id()));
    fs::create_dir_all(&scratch).map_err(cannot("make a directory"))?;
    let mut failed = Vec::new();
    for target in &targets {
        let outcome = one(&binary, target, seconds, keep, &scratch);
        match outcome {
            Err(Outcome::Failed(what)) => failed.push(what),
            other => other?,
        }
    }
    fs::remove_dir_all(&scratch).map_err(cannot("remove a directory"))?;
    if failed.is_empty() { Ok(()) } else { Err(Outcome::Failed(failed.join("; "))) }
}

fn usage() -> Outcome {
    Outcome::CouldNotRun("usage: cargo xtask fuzz [TARGET..] [--seconds N] [--keep]".to_owned())
}

/// Returns all targets, sorted by name.
fn targets(binary: &Path) -> Result<Vec<Target>, Outcome> {
    let mut command = Command::new(binary);
    let output = command.env_remove(VARIABLE).output().map_err(cannot("list the targets"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut targets: Vec<Target> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().map(str::to_owned);
            Some(Target { name: words.next()?, files: words.collect() })
        })
        .collect();
    if targets.is_empty() {
        return Err(Outcome::Failed("the fuzzer lists no targets".to_owned()));
    }
    targets.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(targets)
}

/// Builds the binary of all targets; returns its path.
fn build() -> Result<PathBuf, Outcome> {
    let host = host()?;
    let products = target().join("fuzz");
    let mut command = locked("build");
    // With `--target`, the flags do not apply to build scripts and macros.
    command.args(["--release", "--target", &host, "--target-dir"]);
    command.arg(&products).current_dir(root().join("fuzz"));
    command.env("RUSTFLAGS", format!("{} --cfg fuzzing", FLAGS.join(" ")));
    run(&mut command)?;
    Ok(products.join(host).join("release/all"))
}

/// Returns the target triple of this machine.
fn host() -> Result<String, Outcome> {
    let output = Command::new("rustc").arg("-vV").output().map_err(cannot("run rustc"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Outcome::CouldNotRun("rustc names no host".to_owned()))
}

/// Runs one target.
fn one(
    binary: &Path,
    of: &Target,
    seconds: u64,
    keep: bool,
    scratch: &Path,
) -> Result<(), Outcome> {
    let name = &of.name;
    let [corpus, seeds, artifacts] =
        ["corpus", "seeds", "artifacts"].map(|kind| target().join("fuzz").join(kind).join(name));
    let kept = root().join("crates/formats/tests/hostile/fuzz").join(name);
    for directory in [&corpus, &seeds, &artifacts, &kept] {
        fs::create_dir_all(directory).map_err(cannot("make a directory"))?;
    }
    gather(of, &seeds)?;
    let start = |arguments: &[String]| {
        let mut command = Command::new(binary);
        // Temporary files of targets, which may be killed at any time, are removed with the directory.
        command
            .env(VARIABLE, name)
            .env("TMPDIR", scratch)
            .env("RUST_BACKTRACE", "0")
            .args(arguments);
        command.args(["-rss_limit_mb=4096", "-timeout=10", "-print_final_stats=1"]);
        command.arg(format!("-max_len={MAX_LEN}"));
        command.arg(format!("-artifact_prefix={}/", artifacts.display()));
        let dictionary = root().join(format!("fuzz/dictionaries/{name}.dict"));
        if dictionary.is_file() {
            command.arg(format!("-dict={}", dictionary.display()));
        }
        command
    };
    if seconds > 0 {
        let mut command = start(&[format!("-max_total_time={seconds}")]);
        run(command.args([&corpus, &seeds, &kept]))?;
    }
    if keep {
        merge(&start, [&kept, &seeds, &corpus], scratch)?;
    }
    Ok(())
}

/// Keeps a minimal set of short inputs that reach all code which the golden files do not reach, and all former
/// findings.
fn merge(
    start: &dyn Fn(&[String]) -> Command,
    [kept, seeds, corpus]: [&Path; 3],
    scratch: &Path,
) -> Result<(), Outcome> {
    /// The maximum size of a kept input, of all kept inputs, and their maximum number.
    const SHORT: u64 = 6 << 10;
    const BYTES: u64 = 40 << 10;
    const MANY: usize = 100;
    let [merged, short] = ["merged", "short"].map(|name| scratch.join(name));
    for directory in [&merged, &short] {
        fs::create_dir_all(directory).map_err(cannot("make a directory"))?;
    }
    let copy = |from: &Path, to: &Path| fs::copy(from, to).map_err(cannot("copy an input"));
    // Into a directory that already contains the seeds, so that inputs that reach the same code are not kept.
    let mut given = Vec::new();
    for seed in files_in(seeds)? {
        let name = seed.file_name().unwrap_or_default().to_owned();
        copy(&seed, &merged.join(&name))?;
        given.push(name);
    }
    for input in files_in(corpus)?.into_iter().chain(files_in(kept)?) {
        if fs::metadata(&input).is_ok_and(|metadata| metadata.len() <= SHORT) {
            copy(&input, &short.join(input.file_name().unwrap_or_default()))?;
        }
    }
    let fewest = ["-set_cover_merge=1", "-use_counters=0"].map(str::to_owned);
    run(start(&fewest).args([&merged, &short]))?;
    let mut new = files_in(&merged)?;
    new.retain(|file| !given.iter().any(|given| Some(given.as_os_str()) == file.file_name()));
    let size = |file: &PathBuf| fs::metadata(file).map_or(u64::MAX, |metadata| metadata.len());
    new.sort_by_key(size);
    // Some of every length: the shortest inputs are rejected first.
    let (mut left, step) = (BYTES, new.len().div_ceil(MANY).max(1));
    for file in new.iter().step_by(step) {
        let Some(less) = left.checked_sub(size(file)) else { continue };
        left = less;
        copy(file, &kept.join(file.file_name().unwrap_or_default()))?;
    }
    for directory in [&merged, &short] {
        fs::remove_dir_all(directory).map_err(cannot("remove a directory"))?;
    }
    Ok(())
}

/// Returns the golden models of the format that a target has the name of, none if it has that of no format.
fn golden_of(target: &Target, golden: &Path) -> Result<Vec<Vec<u8>>, Outcome> {
    let mut inputs = Vec::new();
    for folder in files_in(golden)? {
        let Ok(index) = fs::read(folder.join("index.json")) else { continue };
        let index: serde_json::Value = serde_json::from_slice(&index)
            .map_err(|error| Outcome::Failed(format!("{}: {error}", folder.display())))?;
        let cases = index["cases"].as_array().into_iter().flatten();
        for case in cases.filter(|case| case["format"] == target.name) {
            let files = case["files"].as_object().into_iter().flatten();
            let files = files.map(|(name, _)| folder.join(name)).collect();
            let Some(files) = in_order(&target.files, files) else { continue };
            let files = files.iter().map(fs::read).collect::<Result<Vec<_>, _>>();
            inputs.push(files.map_err(cannot("read a golden file"))?.join(MARK));
        }
    }
    Ok(inputs)
}

/// Returns the files of a model in the order of the files of a target: those of the same name, of the same extension, or
/// the next ones. `None` if there are more of them.
fn in_order(names: &[String], mut files: Vec<PathBuf>) -> Option<Vec<PathBuf>> {
    let mut ordered = Vec::new();
    for name in names.iter().map(Path::new).take(files.len()) {
        let is_same = |file: &PathBuf| file.file_name() == name.file_name();
        let is_similar = |file: &PathBuf| file.extension() == name.extension();
        let found = files.iter().position(is_same).or_else(|| files.iter().position(is_similar));
        ordered.push(files.remove(found.unwrap_or(0)));
    }
    files.is_empty().then_some(ordered)
}

/// Writes the initial inputs into a directory.
fn gather(target: &Target, into: &Path) -> Result<(), Outcome> {
    let tests = root().join("crates/formats/tests");
    let mut inputs = golden_of(target, &tests.join("golden"))?;
    let seeds = SEEDS.iter().find(|(name, _)| *name == target.name).map(|(_, seeds)| *seeds);
    if seeds.is_none() && inputs.is_empty() {
        return Err(Outcome::Failed(format!("there is no golden file for `{}`", target.name)));
    }
    for seeds in seeds.into_iter().flatten() {
        match seeds {
            Below(folder, endings) => {
                let mut open = vec![tests.join(folder)];
                while let Some(directory) = open.pop() {
                    for path in files_in(&directory)? {
                        let ending = path.extension().and_then(|ending| ending.to_str());
                        if path.is_dir() {
                            open.push(path);
                        } else if ending.is_some_and(|ending| endings.contains(&ending)) {
                            inputs.push(fs::read(&path).map_err(cannot("read a golden file"))?);
                        }
                    }
                }
            }
            Together(files) => {
                let read = |file: &&str| fs::read(tests.join(file));
                let files = files.iter().map(read).collect::<Result<Vec<_>, _>>();
                inputs.push(files.map_err(cannot("read a golden file"))?.join(MARK));
            }
        }
    }
    for (number, input) in inputs.iter().enumerate() {
        // libFuzzer truncates longer inputs, which would not be valid seeds.
        if input.len() as u64 <= MAX_LEN {
            let path = into.join(format!("seed-{number}"));
            fs::write(path, input).map_err(cannot("write a seed"))?;
        }
    }
    Ok(())
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>, Outcome> {
    let entries = fs::read_dir(directory).map_err(cannot("list a directory"))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>();
    paths.map_err(cannot("list a directory"))
}

fn cannot(what: &'static str) -> impl FnOnce(std::io::Error) -> Outcome {
    move |error| Outcome::CouldNotRun(format!("cannot {what}: {error}"))
}

//! Compares results and times with another revision on the same machine: a refactoring must not change them.
//!
//! | lock | compared |
//! |---|---|
//! | `bits` | digests of the results in the tests of `paddle`: operators, models, twenty steps of training |
//! | `verdicts` | what the command says of every golden file: it opens, is whole, runs with the same results, is exported |
//! | `speed` | the time of commands, in turns with `cp`, and the stall of a background save; medians and their ratio |
//!
//! Written bytes do not depend on the machine: a test compares them (`lodstone/tests/locks.rs`). The other revision is
//! built once, in `target/locks`.

mod verdicts;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::run::{Outcome, cannot, locked, root, run, target};

/// The number of times that each command is timed.
const TURNS: usize = 11;

/// The number of runs of the benchmark of the stall, which takes eleven turns itself.
const STALL_TURNS: usize = 3;

/// The maximum ratio of two medians that is not a regression: timings are noisy.
const NEAR: f64 = 1.1;

pub(crate) fn locks(arguments: &[String]) -> Result<(), Outcome> {
    let usage =
        || Outcome::CouldNotRun("usage: locks REVISION [bits] [verdicts] [speed]".to_owned());
    let (revision, names) = arguments.split_first().ok_or_else(usage)?;
    if names.iter().any(|name| !["bits", "verdicts", "speed"].contains(&name.as_str())) {
        return Err(usage());
    }
    let asks = |name: &str| names.is_empty() || names.iter().any(|asked| asked == name);
    let dir = target().join("locks");
    fs::create_dir_all(&dir).map_err(cannot("create the directory"))?;
    let there = Tree { root: checked_out(revision, &dir)?, target: dir.join("target") };
    let here = Tree { root: root().to_path_buf(), target: target() };
    if asks("bits") {
        bits(&there, &here, &dir)?;
    }
    if asks("verdicts") {
        for tree in [&there, &here] {
            run(&mut tree.cargo("build", &["--quiet", "--workspace", "--bin", "lodstone"]))?;
        }
        let [then, now] = [&there, &here].map(|tree| tree.target.join("debug/lodstone"));
        verdicts::verdicts(&then, &now, &dir)?;
    }
    if asks("speed") {
        speed(&there, &here, &dir)?;
    }
    Ok(())
}

/// A working tree and its target directory.
struct Tree {
    root: PathBuf,
    target: PathBuf,
}

impl Tree {
    fn cargo(&self, command: &str, arguments: &[&str]) -> Command {
        let mut command = locked(command);
        command.args(arguments).current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command
    }
}

/// Checks out a revision.
fn checked_out(revision: &str, dir: &Path) -> Result<PathBuf, Outcome> {
    let tree = dir.join("tree");
    if !tree.exists() {
        let mut clone = Command::new("git");
        run(clone.args(["clone", "--quiet", "--no-checkout"]).arg(root()).arg(&tree))?;
    }
    let git = |arguments: &[&str]| run(Command::new("git").arg("-C").arg(&tree).args(arguments));
    git(&["fetch", "--quiet", "origin"])?;
    git(&["checkout", "--quiet", "--detach", revision])?;
    Ok(tree)
}

fn bits(there: &Tree, here: &Tree, dir: &Path) -> Result<(), Outcome> {
    let computed = |tree: &Tree, name: &str| {
        let file = dir.join(name);
        let _ = fs::remove_file(&file);
        // Revisions divide the tests among executables differently.
        let mut tests = tree.cargo("test", &["--quiet", "--package", "lodstone-paddle", "--tests"]);
        run(tests.env("LODSTONE_BITS", &file))?;
        let lines = fs::read_to_string(&file).map_err(cannot("read the digests"))?;
        Ok::<BTreeSet<String>, Outcome>(lines.lines().map(str::to_owned).collect())
    };
    let (then, now) = (computed(there, "then.txt")?, computed(here, "now.txt")?);
    let (lost, new) = (then.difference(&now).count(), now.difference(&then).count());
    eprintln!(
        "bits: {} results then, {} now, {lost} and {new} of them different",
        then.len(),
        now.len()
    );
    for line in then.difference(&now).take(10) {
        eprintln!("  {}", line.chars().take(150).collect::<String>());
    }
    match lost {
        0 => Ok(()),
        _ => Err(Outcome::Failed(format!("{lost} results have different bits"))),
    }
}

fn speed(there: &Tree, here: &Tree, dir: &Path) -> Result<(), Outcome> {
    for tree in [there, here] {
        run(&mut tree.cargo("build", &["--quiet", "--release", "--bin", "lodstone"]))?;
    }
    let program = |tree: &Tree| tree.target.join("release/lodstone").display().to_string();
    let programs = [program(there), program(here)];
    let work = dir.join("work");
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).map_err(cannot("create the directory"))?;
    write_arrays(&work)?;
    let digits = root().join("examples/digits");
    let digits = |name: &str| digits.join(name).display().to_string();
    let (training, data) = (digits("training"), digits("train.npz"));
    let commands: [(&str, &[&str]); 5] = [
        ("open and list 10,000 tensors", &["inspect", "many.safetensors", "--json"]),
        ("convert 1 GiB to safetensors", &["convert", "large.safetensors", "out.safetensors"]),
        ("convert 1 GiB to npz", &["convert", "large.safetensors", "out.npz"]),
        ("verify 1 GiB", &["verify", "large.safetensors"]),
        (
            "train 200 steps",
            &[
                "train",
                &training,
                "--data",
                &data,
                "--steps",
                "200",
                "--batch-size",
                "32",
                "-o",
                "out",
            ],
        ),
    ];
    let copy = ["cp", "large.safetensors", "copy"];
    let mut slower = Vec::new();
    let mut compare = |what: &str, then: f64, now: f64, limit: f64| {
        let ratio = now / then;
        eprintln!("{what:<30} {then:>9.6} {now:>9.6} {ratio:>7.2} {:>8.2}", now / limit);
        if ratio > NEAR {
            slower.push(format!("{what}: {ratio:.2}"));
        }
    };
    eprintln!(
        "{:<30} {:>9} {:>9} {:>7} {:>8}",
        "median seconds", "then", "now", "ratio", "of limit"
    );
    for (what, arguments) in commands {
        if what.starts_with("verify") {
            timed(&work, &programs[0], &["seal", "large.safetensors"])?;
        }
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..TURNS {
            for (times, program) in times.iter_mut().zip(&programs) {
                times.push(timed(&work, program, arguments)?);
            }
            times[2].push(timed(&work, copy[0], &copy[1..])?);
        }
        let [then, now, copied] = times.map(median);
        compare(what, then, now, copied);
    }
    let mut stalls = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..STALL_TURNS {
        for (number, tree) in [there, here].into_iter().enumerate() {
            let (limit, stall) = stall(tree, dir)?;
            stalls[2].push(limit);
            stalls[number].push(stall);
        }
    }
    let [then, now, copied] = stalls.map(median);
    compare("stall of a background save", then, now, copied);
    match slower.as_slice() {
        [] => Ok(()),
        slower => Err(Outcome::Failed(format!("slower than before: {}", slower.join(", ")))),
    }
}

/// Returns the median times of copying 256 MiB in memory and of the stall of a background save of these bytes, measured
/// by the benchmark of a tree.
fn stall(tree: &Tree, dir: &Path) -> Result<(f64, f64), Outcome> {
    let json = dir.join("stall.json");
    let mut bench = tree.cargo("bench", &["--quiet", "--package", "lodstone", "--bench", "io"]);
    bench
        .env("LODSTONE_BENCH_ONLY", "stall of a background save")
        .env("LODSTONE_BENCH_JSON", &json);
    bench.env("LODSTONE_BENCH_TENSORS", "300").env("LODSTONE_BENCH_TURNS", "11");
    run(bench.stdout(Stdio::null()).stderr(Stdio::null()))?;
    let text = fs::read(&json).map_err(cannot("read the stall"))?;
    let rows: Vec<Value> = serde_json::from_slice(&text)
        .map_err(|error| Outcome::Failed(format!("the stall is not JSON: {error}")))?;
    let median_of = |role: &str| {
        let row = rows.iter().find(|row| row["role"] == role);
        let median = row.and_then(|row| row["median"].as_f64());
        median.ok_or_else(|| Outcome::Failed(format!("no median of `{role}` in the stall")))
    };
    Ok((median_of("limit")?, median_of("lodstone")?))
}

/// Writes a file with many tensors, and a large file.
fn write_arrays(dir: &Path) -> Result<(), Outcome> {
    for (name, count, len) in
        [("many.safetensors", 10_000, 64), ("large.safetensors", 64, 16 << 20)]
    {
        let tensors = (0..count).map(|number: usize| {
            let (begin, end) = (number * len, (number + 1) * len);
            format!(r#""layer.{number:05}.weight":{{"dtype":"F32","shape":[{}],"data_offsets":[{begin},{end}]}}"#, len / 4)
        });
        let mut header = format!("{{{}}}", tensors.collect::<Vec<_>>().join(","));
        header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.into_bytes());
        // All pages differ.
        bytes.extend((0..count * len / 8).flat_map(|number| (number as u64).to_le_bytes()));
        fs::write(dir.join(name), bytes).map_err(cannot("write a file"))?;
    }
    Ok(())
}

/// Returns the time of a command in seconds; its output files are removed.
fn timed(dir: &Path, program: &str, arguments: &[&str]) -> Result<f64, Outcome> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null());
    let begin = Instant::now();
    run(&mut command)?;
    let taken = begin.elapsed().as_secs_f64();
    for name in ["out.safetensors", "out.npz", "copy"] {
        let _ = fs::remove_file(dir.join(name));
    }
    let _ = fs::remove_dir_all(dir.join("out"));
    Ok(taken)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

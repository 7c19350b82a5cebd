//! Runs the benchmarks, next to physical limits and other libraries.
//!
//! | option | description |
//! |---|---|
//! | `--mib N,N` | sizes of the models in MiB [default: 1024,4096] |
//! | `--tensors N,N` | numbers of tensors of the models [default: 300,10000] |
//! | `--turns N` | number of measurements of each benchmark [default: 5] |
//! | `--only TEXT` | only benchmarks whose name contains the text |
//! | `--at DIR` | directory of the files, with 5 GiB for each GiB of a model [default: the target directory] |
//! | `--beside NAME,NAME` | other libraries to compare with [default: all, a download of 6 GB] |
//! | `--alone` | without other libraries |
//! | `--pairs` | only the Python package, next to Rust in a separate process; 1 GiB, 21 turns |
//! | `--training` | only training steps, next to PaddlePaddle; 21 turns |
//! | `--export` | only the export of networks to ONNX, next to Paddle2ONNX, p2o, mx2onnx and `torch.onnx.export`, and checkpoints of PyTorch |
//! | `--engine` | only runs of networks, next to ONNX Runtime, tract, rten, PaddlePaddle and MXNet; 15 turns |
//! | `--sharded` | only checkpoints of several processes, next to PyTorch's own storage |
//! | `--build` | only what it costs to build the command and the package, in a fresh clone; with `--tests` also `cargo xtask test` |
//! | `--document` | write the table (and for files, JSON and a plot) to `docs` |

mod build;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::python::{PACKAGE, environment, install, python_3_11, wheel};
use crate::run::{Outcome, cannot, cargo, locked, root, run, target};

/// The other libraries, with their requirements files.
const PEERS: [(&str, &str); 9] = [
    ("lodstone.numpy", TORCH),
    ("lodstone.torch", TORCH),
    ("safetensors", TORCH),
    ("torch", TORCH),
    ("torch.dcp", TORCH),
    ("orbax", "benchmarks/requirements-orbax-0.12.8.txt"),
    ("paddle", PADDLE),
    ("mxnet", MXNET),
    ("onnx", "interop/requirements-onnx-1.23.2.txt"),
];

const TORCH: &str = "interop/requirements-torch-2.15.0.txt";

const PADDLE: &str = "interop/requirements-paddle-2.6.2.txt";

const MXNET: &str = "interop/requirements-mxnet-1.9.1.txt";

/// The kind of benchmark.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measured {
    /// Reading and writing files, next to other libraries.
    Files,
    /// The Python package, next to Rust.
    Pairs,
    /// Training steps.
    Training,
}

impl Measured {
    fn of(arguments: &[String]) -> Self {
        let asks = |name: &str| arguments.iter().any(|argument| argument == name);
        match (asks("--pairs"), asks("--training")) {
            (true, _) => Self::Pairs,
            (_, true) => Self::Training,
            _ => Self::Files,
        }
    }

    /// Returns the directory of its tables, and the marks around them in `docs/benchmarks.md`.
    fn places(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Self::Files => ("bench", ["<!-- tables -->\n", "<!-- end of tables -->\n"]),
            Self::Pairs => ("bench-pairs", ["<!-- pairs -->\n", "<!-- end of pairs -->\n"]),
            Self::Training => {
                ("bench-training", ["<!-- training -->\n", "<!-- end of training -->\n"])
            }
        }
    }
}

/// Benchmarks of files with tables of their own in `docs/benchmarks.md`: the text after `--only`, and the marks.
const PARTS: [(&str, [&str; 2]); 2] = [
    ("checkpoint", ["<!-- checkpoint -->\n", "<!-- end of checkpoint -->\n"]),
    ("background", ["<!-- background -->\n", "<!-- end of background -->\n"]),
];

/// Other converters to ONNX: from PaddlePaddle 2, PaddlePaddle 3, MXNet and PyTorch.
const CONVERTERS: [&str; 4] = [
    "benchmarks/requirements-paddle2onnx-1.2.11.txt",
    "benchmarks/requirements-p2o-0.1.2.txt",
    "benchmarks/requirements-mx2onnx-1.9.1.txt",
    TORCH,
];

/// Exports networks next to other converters.
fn export(arguments: &[String]) -> Result<(), Outcome> {
    cargo("build", &["--quiet", "--profile", "dist", "--bin", "lodstone"], &[])?;
    let written = target().join("bench-export");
    fs::create_dir_all(&written).map_err(cannot("create the directory"))?;
    let table = written.join("bench.md");
    fs::write(&table, "").map_err(cannot("begin the table"))?;
    let only = arguments.iter().skip_while(|argument| *argument != "--only").nth(1);
    let wanted =
        |requirements: &&&str| only.is_none_or(|only| requirements.contains(only.as_str()));
    for requirements in CONVERTERS.iter().filter(wanted) {
        let python = environment(&python_3_11()?, requirements)?;
        let scripts = match *requirements {
            TORCH => &["to_onnx.py", "torch_files.py"][..],
            _ => &["to_onnx.py"],
        };
        for script in scripts {
            let mut command = Command::new(&python);
            command.arg("-B").arg(root().join("benchmarks").join(script));
            run(command.arg(target().join("dist/lodstone")).arg(&written).arg(&table))?;
        }
    }
    match arguments.iter().any(|argument| argument == "--document") {
        true => replace(["<!-- export -->\n", "<!-- end of export -->\n"], &table),
        false => Ok(()),
    }
}

/// Saves and loads checkpoints of several processes next to PyTorch's own storage.
fn sharded(arguments: &[String]) -> Result<(), Outcome> {
    let python = python_3_11()?;
    let torch = environment(&python, TORCH)?;
    install(&torch, &wheel(&python, &["--profile", "dist"])?)?;
    let (written, table) = (target().join("bench-sharded"), target().join("bench-sharded.md"));
    fs::write(&table, "").map_err(cannot("begin the table"))?;
    let turns = arguments.iter().skip_while(|argument| *argument != "--turns").nth(1);
    let mut command = Command::new(torch);
    command.arg("-B").arg(root().join("benchmarks/sharded.py")).arg(written).arg(&table);
    run(command.args(turns))?;
    match arguments.iter().any(|argument| argument == "--document") {
        true => replace(["<!-- sharded -->\n", "<!-- end of sharded -->\n"], &table),
        false => Ok(()),
    }
}

/// Runs networks next to other engines.
fn engine(arguments: &[String]) -> Result<(), Outcome> {
    let python = python_3_11()?;
    let onnx = environment(&python, "interop/requirements-onnx-1.23.2.txt")?;
    install(&onnx, &wheel(&python, &["--profile", "dist"])?)?;
    let (benchmarks, written) = (root().join("benchmarks"), target().join("bench-engine"));
    let built = target().join("engines");
    let mut build = locked("build");
    build.args(["--quiet", "--release", "--target-dir"]).arg(&built);
    run(build.current_dir(benchmarks.join("engines")))?;
    let networks = written.join("networks");
    run(Command::new(&onnx).arg("-B").arg(benchmarks.join("engine_networks.py")).arg(&networks))?;
    let (paddle, mxnet) = (environment(&python, PADDLE)?, environment(&python, MXNET)?);
    let is_ours = |argument: &&String| *argument != "--engine" && *argument != "--document";
    let theirs: Vec<&String> = arguments.iter().filter(is_ours).collect();
    let measure = |script: &str, networks: &Path, other: &Path, table: &Path| {
        let mut command = Command::new(&onnx);
        command.arg("-B").arg(benchmarks.join(script)).arg(networks).arg(other).arg(table);
        run(command.args(&theirs))
    };
    let names = ["bench.md", "predictors.md", "mxnet.md"];
    let [table, predictors, modules] = names.map(|name| written.join(name));
    measure("engine.py", &networks, &built.join("release/engines"), &table)?;
    measure("predictors.py", &written.join("paddle"), &paddle, &predictors)?;
    measure("modules.py", &written.join("mxnet"), &mxnet, &modules)?;
    match arguments.iter().any(|argument| argument == "--document") {
        true => {
            replace(["<!-- engine -->\n", "<!-- end of engine -->\n"], &table)?;
            replace(["<!-- predictors -->\n", "<!-- end of predictors -->\n"], &predictors)?;
            replace(["<!-- modules -->\n", "<!-- end of modules -->\n"], &modules)
        }
        false => Ok(()),
    }
}

pub(crate) fn bench(arguments: &[String]) -> Result<(), Outcome> {
    if arguments.iter().any(|argument| argument == "--engine") {
        return engine(arguments);
    }
    if arguments.iter().any(|argument| argument == "--build") {
        let table = build::build(arguments)?;
        return match arguments.iter().any(|argument| argument == "--document") {
            true => replace(["<!-- build -->\n", "<!-- end of build -->\n"], &table),
            false => Ok(()),
        };
    }
    if arguments.iter().any(|argument| argument == "--export") {
        return export(arguments);
    }
    if arguments.iter().any(|argument| argument == "--sharded") {
        return sharded(arguments);
    }
    let measured = Measured::of(arguments);
    let bench = if measured == Measured::Training { "training" } else { "io" };
    let mut command = locked("bench");
    command.args(["--quiet", "--profile", "dist", "--package", "lodstone", "--bench", bench]);
    command.current_dir(root());
    command.env("LODSTONE_BENCH_MIB", "1024,4096").env("LODSTONE_BENCH_TENSORS", "300,10000");
    let (mut beside, mut document, mut part) = (PEERS.to_vec(), false, None);
    match measured {
        Measured::Files => {}
        Measured::Pairs => {
            beside.retain(|(name, _)| name.starts_with("lodstone."));
            command.env("LODSTONE_BENCH_PAIRED", "1");
            command.env("LODSTONE_BENCH_MIB", "1024").env("LODSTONE_BENCH_TURNS", "21");
        }
        Measured::Training => {
            beside.clear();
            let python = python_3_11()?;
            let package = environment(&python, PACKAGE)?;
            install(&package, &wheel(&python, &["--profile", "dist"])?)?;
            command.env("LODSTONE_BENCH_LODSTONE", package);
            command.env("LODSTONE_BENCH_PADDLE", environment(&python, PADDLE)?);
            command.env("LODSTONE_BENCH_TURNS", "21");
        }
    }
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let variable = match argument.as_str() {
            "--mib" => "LODSTONE_BENCH_MIB",
            "--tensors" => "LODSTONE_BENCH_TENSORS",
            "--turns" => "LODSTONE_BENCH_TURNS",
            "--only" => "LODSTONE_BENCH_ONLY",
            "--at" => "LODSTONE_BENCH_AT",
            "--alone" => {
                beside.clear();
                continue;
            }
            "--beside" => {
                let names: Vec<&str> =
                    arguments.next().map_or(Vec::new(), |names| names.split(',').collect());
                beside.retain(|(name, _)| names.contains(name));
                continue;
            }
            "--pairs" | "--training" => continue,
            "--document" => {
                document = true;
                continue;
            }
            other => {
                let usage = "[--mib N,N] [--tensors N,N] [--turns N] [--only TEXT] [--at DIR] \
                             [--beside NAME,NAME] [--alone] [--pairs] \
                             [--training] [--export] [--engine] [--sharded] [--document]";
                let what = format!("unknown argument `{other}`; usage: bench {usage}");
                return Err(Outcome::CouldNotRun(what));
            }
        };
        let value = arguments.next().map_or("", String::as_str);
        if argument == "--only" && measured == Measured::Files {
            part = PARTS.iter().find(|(only, _)| *only == value);
        }
        command.env(variable, value);
    }
    if !beside.is_empty() {
        let python = python_3_11()?;
        // Our own package is measured like the others, as a release build.
        install(&environment(&python, TORCH)?, &wheel(&python, &["--profile", "dist"])?)?;
        let peer = |(name, requirements)| {
            Ok(format!("{name}={}", environment(&python, requirements)?.display()))
        };
        let peers = beside.into_iter().map(peer).collect::<Result<Vec<_>, Outcome>>()?;
        command.env("LODSTONE_BENCH_PEERS", peers.join(";"));
    }
    let (name, marks) = measured.places();
    let written = target().join(name);
    let (json, tables) = (written.join("bench.json"), written.join("bench.md"));
    fs::create_dir_all(&written).map_err(cannot("create the directory"))?;
    command.env("LODSTONE_BENCH_JSON", &json).env("LODSTONE_BENCH_TABLES", &tables);
    run(&mut command)?;
    if document {
        replace(part.map_or(marks, |(_, marks)| *marks), &tables)?;
        if measured == Measured::Files && part.is_none() {
            plot(&json)?;
        }
    }
    Ok(())
}

/// Replaces the text between two marks of `docs/benchmarks.md` by the contents of a file, unless that is a table without
/// rows: `--only` may have named none of them.
fn replace(marks: [&str; 2], tables: &Path) -> Result<(), Outcome> {
    const HEAD: usize = 2;
    let tables = fs::read_to_string(tables).map_err(cannot("read the tables"))?;
    if tables.lines().count() <= HEAD {
        return Ok(());
    }
    let page = root().join("docs/benchmarks.md");
    let text = fs::read_to_string(&page).map_err(cannot("read docs/benchmarks.md"))?;
    let parts = text.split_once(marks[0]).zip(text.split_once(marks[1]));
    let Some(((before, _), (_, after))) = parts else {
        return Err(Outcome::Failed("docs/benchmarks.md has no marks for tables".to_owned()));
    };
    fs::write(page, [before, marks[0], &tables, "\n", marks[1], after].concat())
        .map_err(cannot("write docs/benchmarks.md"))
}

/// Copies the measurements to `docs`, and plots them.
fn plot(json: &Path) -> Result<(), Outcome> {
    let docs = root().join("docs");
    fs::copy(json, docs.join("benchmarks.json")).map_err(cannot("copy the JSON"))?;
    let mut plot = Command::new(environment(&python_3_11()?, TORCH)?);
    plot.arg(root().join("benchmarks/plot.py"));
    run(plot.arg(docs.join("benchmarks.json")).arg(docs.join("benchmarks.svg")))
}

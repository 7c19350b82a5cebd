//! The benchmarks, beside their physical limits and other libraries.
//!
//! | option | what it does |
//! |---|---|
//! | `--mib N,N` | sizes of the models that are measured; 1024 and 4096 |
//! | `--tensors N,N` | how many tensors they have; 300 and 10000 |
//! | `--turns N` | how often each is measured; 5 |
//! | `--only TEXT` | what is measured alone, by a part of its name |
//! | `--at DIR` | where the files are, 5 GiB for each GiB of a model; on the disk of the build |
//! | `--beside NAME,NAME` | those of the other libraries; all, which are 6 GB to install |
//! | `--alone` | without the other libraries |
//! | `--pairs` | the Python package alone, beside Rust in a process of its own; 1 GiB, 21 turns |
//! | `--training` | steps of training alone, beside PaddlePaddle; 21 turns |
//! | `--document` | writes the table, and that of files with its JSON and its plot, into `docs` |

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::python::{environment, install, python_3_11, wheel};
use crate::run::{Outcome, cannot, root, run, target};

/// The other libraries, and what each of them needs.
const PEERS: [(&str, &str); 9] = [
    ("lodstone.numpy", TORCH),
    ("lodstone.torch", TORCH),
    ("safetensors", TORCH),
    ("torch", TORCH),
    ("torch.dcp", TORCH),
    ("orbax", "benchmarks/requirements-orbax-0.12.8.txt"),
    ("paddle", PADDLE),
    ("mxnet", "interop/requirements-mxnet-1.9.1.txt"),
    ("onnx", "interop/requirements-onnx-1.23.2.txt"),
];

const TORCH: &str = "benchmarks/requirements-torch-2.15.0.txt";

const PADDLE: &str = "interop/requirements-paddle-2.6.2.txt";

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measured {
    /// Files, beside all others that read them.
    Files,
    /// The Python package beside Rust.
    Pairs,
    /// Steps of training.
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

    /// Where its tables are written, and what they are between in `docs/benchmarks.md`.
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

pub(crate) fn bench(arguments: &[String]) -> Result<(), Outcome> {
    let measured = Measured::of(arguments);
    let bench = if measured == Measured::Training { "training" } else { "io" };
    let mut command = Command::new(env!("CARGO"));
    command.args(["bench", "--quiet", "--package", "lodstone", "--bench", bench]);
    command.current_dir(root());
    command.env("LODSTONE_BENCH_MIB", "1024,4096").env("LODSTONE_BENCH_TENSORS", "300,10000");
    let (mut beside, mut document) = (PEERS.to_vec(), false);
    match measured {
        Measured::Files => {}
        Measured::Pairs => {
            beside.retain(|(name, _)| name.starts_with("lodstone."));
            command.env("LODSTONE_BENCH_PAIRED", "1");
            command.env("LODSTONE_BENCH_MIB", "1024").env("LODSTONE_BENCH_TURNS", "21");
        }
        Measured::Training => {
            beside.clear();
            command.env("LODSTONE_BENCH_PADDLE", environment(&python_3_11()?, PADDLE)?);
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
                             [--training] [--document]";
                return Err(Outcome::CouldNotRun(format!("`{other}`? usage: bench {usage}")));
            }
        };
        let value = arguments.next().map_or("", String::as_str);
        command.env(variable, value);
    }
    if !beside.is_empty() {
        let python = python_3_11()?;
        // Our own package is measured beside the others, as it is released.
        install(&environment(&python, TORCH)?, &wheel(&python, &["--release"])?)?;
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
        replace(marks, &tables)?;
        if measured == Measured::Files {
            plot(&json)?;
        }
    }
    Ok(())
}

/// Puts what is in a file between two marks of `docs/benchmarks.md`.
fn replace(marks: [&str; 2], tables: &Path) -> Result<(), Outcome> {
    let tables = fs::read_to_string(tables).map_err(cannot("read the tables"))?;
    let page = root().join("docs/benchmarks.md");
    let text = fs::read_to_string(&page).map_err(cannot("read docs/benchmarks.md"))?;
    let parts = text.split_once(marks[0]).zip(text.split_once(marks[1]));
    let Some(((before, _), (_, after))) = parts else {
        return Err(Outcome::Failed("docs/benchmarks.md has no place for tables".to_owned()));
    };
    fs::write(page, [before, marks[0], &tables, "\n", marks[1], after].concat())
        .map_err(cannot("write docs/benchmarks.md"))
}

/// Puts the numbers, and their plot, into `docs`.
fn plot(json: &Path) -> Result<(), Outcome> {
    let docs = root().join("docs");
    fs::copy(json, docs.join("benchmarks.json")).map_err(cannot("copy the JSON"))?;
    let mut plot = Command::new(environment(&python_3_11()?, TORCH)?);
    plot.arg(root().join("benchmarks/plot.py"));
    run(plot.arg(docs.join("benchmarks.json")).arg(docs.join("benchmarks.svg")))
}

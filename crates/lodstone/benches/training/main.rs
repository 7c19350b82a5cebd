//! Training steps next to the Python package and to PaddlePaddle, which run the same programs from the same variables.
//!
//! Each runs in a process of its own, in turns; the medians are reported, and the median and the
//! quartiles of the ratios within a turn. Run by `cargo xtask bench --training`.

#![allow(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark"
)]

mod networks;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use lodstone::paddle::executor::{Dirs, Executor, Prepared, Scope};
use lodstone::paddle::program::{Form, Placement, SaveOptions, persistables, save, save_program};
use lodstone::{Blob, ConvertOptions, DType, Lod, Model, Parameter, Tensor};

use networks::{Case, cases};

fn main() {
    let turns = std::env::var("LODSTONE_BENCH_TURNS").ok().and_then(|turns| turns.parse().ok());
    let turns: usize = turns.unwrap_or(11);
    let pythons = ["lodstone", "paddle"].map(|library| {
        (library, std::env::var(format!("LODSTONE_BENCH_{}", library.to_uppercase())).ok())
    });
    let mut table = format!(
        "| median of {turns} | lodstone | the same in Python | PaddlePaddle 2.6.2 | Python to Rust | \
         PaddlePaddle to Rust |\n|---|--:|--:|--:|--:|--:|\n"
    );
    let work = tempfile::tempdir().unwrap();
    let only = std::env::var("LODSTONE_BENCH_ONLY").unwrap_or_default();
    for case in cases().unwrap().into_iter().filter(|case| case.name.contains(&only)) {
        let mut ours = Ours::new(&case);
        let dir = work.path().join(case.name);
        ours.write(&case, &dir);
        let mut others = pythons.clone().map(|(library, python)| {
            (python.map(|python| Peer::new(&python, library, &dir, &case)), Vec::new(), Vec::new())
        });
        let mut times = Vec::new();
        for turn in 0..=turns {
            let (seconds, loss) = ours.run(&case);
            // The first turn is a warm-up.
            if turn > 0 {
                times.push(seconds * 1e3);
            }
            for (peer, times, ratios) in &mut others {
                let Some(peer) = peer else { continue };
                let (there, loss_there) = peer.run(case.steps);
                let is_near = (loss - loss_there).abs() <= 0.02 * loss.abs() + 1e-3;
                assert!(
                    is_near || !case.agrees && peer.library == "paddle",
                    "{loss} and {loss_there}"
                );
                if turn > 0 {
                    times.push(there * 1e3);
                    ratios.push(there / seconds);
                }
            }
        }
        table += &format!("| {} | {:.2} ms |", case.name, quartile(&mut times, 2));
        for (_, times, _) in &mut others {
            table += &match times.is_empty() {
                true => " |".to_owned(),
                false => format!(" {:.2} ms |", quartile(times, 2)),
            };
        }
        for (_, _, ratios) in &mut others {
            table += &match ratios.is_empty() {
                true => " |".to_owned(),
                false => {
                    let [low, ratio, high] = [1, 2, 3].map(|quarter| quartile(ratios, quarter));
                    format!(" **{ratio:.2}** ({low:.2} to {high:.2}) |")
                }
            };
        }
        table.push('\n');
    }
    println!("{table}");
    if let Ok(path) = std::env::var("LODSTONE_BENCH_TABLES") {
        std::fs::write(path, table).unwrap();
    }
}

fn quartile(values: &mut [f64], quarter: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) * quarter / 4]
}

/// A program that Lodstone trains.
struct Ours {
    step: Prepared,
    scope: Scope,
}

impl Ours {
    fn new(case: &Case) -> Self {
        let mut scope = Scope::default();
        let network = &case.network;
        Executor::default().run(&network.startup, &mut scope, &[], &[], &Dirs::default()).unwrap();
        Self { step: Prepared::new(&network.main, &[case.loss.name()]).unwrap(), scope }
    }

    /// Seconds per step, and the last loss.
    fn run(&mut self, case: &Case) -> (f64, f64) {
        let (begun, mut loss) = (Instant::now(), f32::NAN);
        for _ in 0..case.steps {
            let found = self.step.run(&mut self.scope, &case.feed, &Dirs::default()).unwrap();
            let bytes = found[0].data.bytes().unwrap();
            loss = f32::from_le_bytes(bytes[..4].try_into().unwrap());
        }
        (begun.elapsed().as_secs_f64() / f64::from(case.steps), f64::from(loss))
    }

    /// Writes the initial state for the other process.
    fn write(&mut self, case: &Case, dir: &Path) {
        let main = &case.network.main;
        let mut saver = main.clone();
        saver.blocks.iter_mut().for_each(|block| block.ops.clear());
        let placement = Placement::Combined("__params__".to_owned());
        let options = SaveOptions::default().with_placement(placement);
        save(&mut saver, &persistables(main, |_| true), "", &options).unwrap();
        std::fs::create_dir_all(dir).unwrap();
        Executor::default().run(&saver, &mut self.scope, &[], &[], &Dirs::one(dir)).unwrap();
        save_program(main, dir, Form::Binary).unwrap();
        let fed = case.feed.iter().flat_map(|(name, tensor)| {
            let lod = tensor.lod.0.iter().map(move |offsets| {
                let bytes: Vec<u8> =
                    offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
                let shape = vec![offsets.len() as u64];
                let tensor = Tensor::dense(DType::Int64, shape, Blob::memory(bytes));
                Parameter { name: format!("{name}.lod"), tensor }
            });
            let mut plain = tensor.clone();
            plain.lod = Lod::default();
            std::iter::once(Parameter { name: (*name).to_owned(), tensor: plain }).chain(lod)
        });
        let feed = Model { parameters: fed.collect(), ..Model::default() };
        lodstone::convert(feed, dir.join("feed.npz"), &ConvertOptions::default()).unwrap();
    }
}

/// The same program in Python, by this or another library.
struct Peer {
    library: &'static str,
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn new(python: &str, library: &'static str, dir: &Path, case: &Case) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchmarks/training.py");
        let mut command = Command::new(python);
        command.arg(script).arg(library).arg(dir).arg(case.loss.name());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let requests = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { library, process, requests, answers }
    }

    fn run(&mut self, steps: u32) -> (f64, f64) {
        writeln!(self.requests, "{steps}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let mut numbers = answer.split_whitespace().map(|number| number.parse::<f64>().unwrap());
        (numbers.next().unwrap() / f64::from(steps), numbers.next().unwrap())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

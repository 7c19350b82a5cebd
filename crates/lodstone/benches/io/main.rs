//! Benchmarks of reading and writing: `cargo xtask bench`.
//!
//! Each operation is done by Lodstone, by the simplest code that moves the same bytes (its limit), and by other
//! libraries, in turns: each once, then each again, starting with a different one, because an operation after a write
//! may have to wait for the disk. Ratios are computed within a turn, and their median is reported, because the speed of
//! a machine changes during the measurement.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "makes its own files")]
#![expect(clippy::print_stderr, reason = "a benchmark says how far it is")]
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

mod checkpoints;
mod limits;
mod pairs;
mod peers;
mod report;
mod systems;

use peers::Peer;
use report::Report;
use systems::{Files, OPERATIONS, Operation};

/// The measured models: size in MiB and number of tensors.
struct Sizes {
    mib: Vec<u64>,
    tensors: Vec<u64>,
    turns: usize,
}

fn main() {
    if std::env::args().any(|argument| argument == pairs::SERVE) {
        return pairs::serve();
    }
    let numbers = |name: &str, usual: &str| -> Vec<u64> {
        let given = std::env::var(name).unwrap_or_else(|_| usual.to_owned());
        given.split(',').map(|number| number.parse().expect("a number")).collect()
    };
    let turns = numbers("LODSTONE_BENCH_TURNS", "5");
    let sizes = Sizes {
        mib: numbers("LODSTONE_BENCH_MIB", "256"),
        tensors: numbers("LODSTONE_BENCH_TENSORS", "300,10000"),
        turns: turns.first().map_or(5, |turns| usize::try_from(*turns).expect("a small number")),
    };
    let paired = std::env::var_os("LODSTONE_BENCH_PAIRED").is_some();
    let all: [&[Operation]; 2] = match paired {
        true => [pairs::OPERATIONS, &[]],
        false => [OPERATIONS, checkpoints::OPERATIONS],
    };
    let operations: Vec<&Operation> = all.into_iter().flatten().collect();
    let (mut peers, tables): (_, fn(&Report) -> String) = match paired {
        true => (vec![Peer::itself()], Report::pairs),
        false => (Vec::new(), Report::tables),
    };
    peers.extend(Peer::all());
    let mut report = Report::default();
    for mib in &sizes.mib {
        for tensors in &sizes.tensors {
            measure((*mib, *tensors), &operations, sizes.turns, &mut peers, &mut report);
            write(&report, &tables(&report));
        }
    }
    print!("{}", tables(&report));
}

fn write(report: &Report, tables: &str) {
    if let Ok(path) = std::env::var("LODSTONE_BENCH_TABLES") {
        std::fs::write(path, tables).expect("written");
    }
    if let Ok(path) = std::env::var("LODSTONE_BENCH_JSON") {
        std::fs::write(path, report.json()).expect("written");
    }
}

fn measure(
    (mib, tensors): (u64, u64),
    operations: &[&Operation],
    turns: usize,
    peers: &mut [Peer],
    report: &mut Report,
) {
    let files = Files::make(mib << 20, tensors, peers);
    let only = std::env::var("LODSTONE_BENCH_ONLY").unwrap_or_default();
    for operation in operations.iter().filter(|operation| operation.name.contains(&only)) {
        eprintln!("{mib} MiB, {tensors} tensors: {}", operation.name);
        let systems = operation.systems(peers);
        let mut times = vec![Vec::new(); systems.len()];
        for turn in 0..turns {
            for place in 0..systems.len() {
                let number = (turn + place) % systems.len();
                times[number].push(systems[number].time(operation, &files, peers));
            }
        }
        report.add(mib, tensors, operation, systems.into_iter().zip(times).collect());
    }
}

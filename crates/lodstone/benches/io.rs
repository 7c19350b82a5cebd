//! How fast bytes move: `cargo xtask bench`.
//!
//! Prints, for a synthetic model, our time beside the time of the plainest thing that moves the
//! same bytes on the same disk in the same run, and the ratio. `LODSTONE_BENCH_MIB` sets the size.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "makes its own files")]
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use lodstone::{ConvertOptions, DiffOptions, Loss, Model, OpenOptions, Progress, Target};

const RUNS: usize = 5;

fn main() {
    let mib: u64 =
        std::env::var("LODSTONE_BENCH_MIB").ok().and_then(|n| n.parse().ok()).unwrap_or(256);
    let directory = tempdir();
    for count in [300, 10_000] {
        let path = directory.join("model.pdiparams");
        write_model(&path, count, mib << 20);
        println!(
            "\n{mib} MiB in {count} tensors, combined Paddle parameters; median of {RUNS} runs"
        );
        println!("{:<46} {:>10} {:>10} {:>7}", "", "ours", "limit", "ratio");

        let open = median(|| drop(lodstone::open(&path).expect("a model")));
        let first_byte = median(|| drop(File::open(&path).expect("a file")));
        row("open and list (limit: open the file)", open, first_byte);

        let options = OpenOptions { mmap: false, ..OpenOptions::default() };
        let ours = median(|| {
            for parameter in lodstone::open_with(&path, &options).expect("a model").parameters {
                std::hint::black_box(parameter.tensor.data.bytes().expect("bytes"));
            }
        });
        row("load every tensor (limit: read the file)", ours, median(|| read(&path)));

        let out = directory.join("out.safetensors");
        let ours = median(|| {
            let options = ConvertOptions { allow: Loss::ALL.to_vec(), ..ConvertOptions::default() };
            lodstone::convert(lodstone::open(&path).expect("a model"), &out, &options).expect("ok");
        });
        row("to safetensors, durable (limit: cp + fsync)", ours, median(|| copy(&path, &out)));

        let ours = median(|| {
            let to = Some(Target::Same);
            let options = ConvertOptions { to, ..ConvertOptions::default() };
            lodstone::convert(lodstone::open(&path).expect("a model"), &out, &options).expect("ok");
        });
        row("write back, durable (limit: cp + fsync)", ours, median(|| copy(&path, &out)));

        let (options, progress) = (OpenOptions::default(), Progress::default());
        let ours = median(|| {
            let found = lodstone::diff(model(&path), &model(&out), &DiffOptions::default());
            assert!(found.expect("compared").same);
        });
        let both = median(|| {
            read(&path);
            read(&out);
        });
        row("diff of equal models (limit: read both)", ours, both);

        let seal = || lodstone::seal(&path, &options, true, &progress).expect("sealed");
        row("seal (limit: read the file)", median(|| drop(seal())), median(|| read(&path)));
        let ours = median(|| {
            assert!(lodstone::verify(&path, &options, &progress).expect("verified").whole);
        });
        row("verify what is sealed (limit: read the file)", ours, median(|| read(&path)));
        fs::remove_file(directory.join("lodstone.seal")).expect("a seal");
    }
    let _ = fs::remove_dir_all(directory);
}

fn model(path: &Path) -> Model {
    lodstone::open(path).expect("a model")
}

fn tempdir() -> std::path::PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-io");
    fs::create_dir_all(&directory).expect("a directory");
    directory
}

/// Float32 tensors of one size, as `save_combine` writes them.
fn write_model(path: &Path, count: u64, bytes: u64) {
    let elements = bytes / count / 4;
    let mut desc = vec![0x08, 0x05, 0x10];
    let mut rest = elements;
    while rest >= 0x80 {
        desc.push(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    desc.push(rest.to_le_bytes()[0]);
    let data: Vec<u8> = (0..elements).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let mut file = std::io::BufWriter::new(File::create(path).expect("a file"));
    for _ in 0..count {
        file.write_all(&[0; 16]).expect("written");
        file.write_all(&desc.len().to_le_bytes()[..4]).expect("written");
        file.write_all(&desc).expect("written");
        file.write_all(&data).expect("written");
    }
    file.into_inner().expect("written").sync_all().expect("synced");
}

fn read(path: &Path) {
    let mut buffer = vec![0; 1 << 20];
    let mut file = File::open(path).expect("a file");
    while file.read(&mut buffer).expect("read") > 0 {}
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_file(to);
    fs::copy(from, to).expect("copied");
    File::open(to).expect("a file").sync_all().expect("synced");
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[RUNS / 2]
}

fn row(what: &str, ours: Duration, limit: Duration) {
    let ratio = limit.as_secs_f64() / ours.as_secs_f64();
    println!("{what:<46} {:>7.1} ms {:>7.1} ms {ratio:>7.2}", millis(ours), millis(limit));
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

//! Runs the checks of the fuzzer on every input that fuzzing kept, including all former findings.
//!
//! `cargo xtask fuzz` finds them; they are in `crates/formats/tests/hostile/fuzz`.
#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]
#![expect(clippy::print_stdout, reason = "says how much was tried")]

mod fuzzing;
#[path = "../../formats/tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fuzzing::{Target, check, targets};
use support::counting::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The maximum time of an input: small files that take longer hang.
const LONGEST: Duration = Duration::from_secs(20);

/// Returns the kept inputs of a target; none if it has not been fuzzed.
fn inputs(target: &Target) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/hostile/fuzz");
    let folder = folder.join(target.name);
    if !folder.exists() {
        return Vec::new();
    }
    let entries = std::fs::read_dir(folder).expect("a folder of inputs");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

#[test]
fn kept_inputs_do_no_harm() {
    for target in targets() {
        let (name, inputs) = (target.name, inputs(&target));
        let (say, hear) = mpsc::channel();
        let count = inputs.len();
        let work = std::thread::spawn(move || {
            for path in inputs {
                let input = std::fs::read(&path).expect("an input");
                // Print the name before the work: if it hangs, this identifies the input.
                say.send(path).expect("somebody hears");
                check(&target, &input);
            }
        });
        let (mut path, mut since) = (PathBuf::new(), Instant::now());
        while !work.is_finished() {
            match hear.recv_timeout(Duration::from_millis(10)) {
                Ok(next) => (path, since) = (next, Instant::now()),
                Err(_) => assert!(since.elapsed() < LONGEST, "{} hangs", path.display()),
            }
        }
        path = hear.try_iter().last().unwrap_or(path);
        assert!(work.join().is_ok(), "{}: the panic is above", path.display());
        println!("{name}: {count} inputs");
    }
}

#[test]
fn every_folder_of_inputs_has_a_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/hostile/fuzz");
    let targets = targets();
    for entry in std::fs::read_dir(folder).expect("the folders of inputs") {
        let name = entry.expect("an entry").file_name();
        assert!(targets.iter().any(|target| name == target.name), "{}", name.display());
    }
}

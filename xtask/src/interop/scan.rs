//! Compares the verdicts of scans with what readers of pickles import.

use std::process::Command;

use super::suite::Suite;
use super::{Work, first_failure};
use crate::python::environment;
use crate::run::{Outcome, root, run, target};

/// The environments, and the readers in each.
const READERS: [(&str, &str, &str); 2] = [
    ("pickles", "interop/requirements-joblib-1.6.0.txt", "c,python,pieces,file,numpy,joblib"),
    ("torch", "interop/requirements-torch-2.15.0.txt", "torch"),
];

pub(super) fn scan(suite: &Suite<'_>) -> Result<(), Outcome> {
    let installed = READERS.iter().filter(|(name, ..)| !suite.extent.leaves_out(name));
    let mut parts: Vec<_> = installed.map(|it| suite.part(it.0, || compare(suite, it))).collect();
    parts.push(suite.part("imports", || {
        let mut script = Command::new(suite.python);
        script.arg("-B").arg(root().join("interop/pickle_compare.py"));
        run(script.arg(suite.extent.seed.to_string()))
    }));
    first_failure(parts)
}

fn compare(
    suite: &Suite<'_>,
    (name, requirements, readers): &(&str, &str, &str),
) -> Result<(), Outcome> {
    let python = environment(suite.python, requirements)?;
    let work = Work::new(suite, name)?;
    let seed = suite.extent.seed.to_string();
    let script = |script: &str, sample: &str, complete: &str| {
        let mut command = Command::new(&python);
        command.args(["-B", "-W", "ignore"]).arg(root().join("interop").join(script));
        command.arg(target().join("debug/lodstone")).arg(&work.directory);
        let count = if suite.extent.all { complete } else { sample };
        command.args(["--readers", readers, "--seed", &seed, "--count", count]);
        command
    };
    let honest = run(&mut script("scan_honest.py", "1000", "8000"));
    let changed = run(&mut script("scan_readers.py", "2000", "20000"));
    first_failure(vec![honest, changed])
}

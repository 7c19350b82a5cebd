//! The Python package next to a Rust process that answers the same requests: both have opened, loaded and saved equally
//! often before, so that neither benefits from work that the other has already done.

use std::fs::File;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::systems::{Operation, list, load, model, save, timed};

/// The argument that makes the benchmark answer requests.
pub(crate) const SERVE: &str = "serve";

/// The requests to both.
pub(crate) const OPERATIONS: &[Operation] = &[
    Operation::asked("open", "open_alone"),
    Operation::asked("open and list", "open"),
    Operation::asked("load into memory", "load"),
    Operation::asked("save from memory, durable", "save"),
];

/// Answers requests like `benchmarks/peer.py`, until there are no more.
pub(crate) fn serve() {
    let mut answers = std::io::stdout();
    writeln!(answers, "{}", json!({ "version": env!("CARGO_PKG_VERSION") })).expect("told");
    for request in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&request.expect("a line")).expect("a request");
        // Freed memory is returned to the system, so that it is not resident.
        let answer = json!({ "seconds": time(&request).as_secs_f64(), "resident": 0 });
        writeln!(answers, "{answer}").expect("answered");
    }
}

fn time(request: &Value) -> Duration {
    let at = |name: &str| Path::new(request[name].as_str().expect("a path"));
    match request["operation"].as_str() {
        Some("open_alone") => timed(|| model(at("path"))),
        Some("open") => timed(|| list(at("path"))),
        Some("load") => load(at("path")),
        // Every peer syncs at the end.
        Some("save") => save(at("path"), at("out")) + timed(|| sync(at("out"))),
        other => panic!("nobody knows how to {other:?}"),
    }
}

fn sync(path: &Path) {
    File::open(path).expect("a file").sync_all().expect("synced");
}

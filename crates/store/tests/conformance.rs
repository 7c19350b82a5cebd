//! The stores of this crate pass the conformance tests.

#![expect(clippy::print_stdout, reason = "names the case that fails")]

use std::path::Path;

use lodstone_conformance::CASES;
use lodstone_store::{Atomicity, Commit, Location, MemoryStore, Progress};

#[test]
fn the_local_file_system_conforms() {
    for case in CASES {
        println!("{}", case.name);
        let dir = tempfile::tempdir().unwrap();
        (case.check)(&Location::from(dir.path()));
    }
}

#[test]
fn memory_conforms() {
    for atomicity in [Atomicity::AtomicSet, Atomicity::AtomicObject] {
        for case in CASES {
            println!("{atomicity:?}: {}", case.name);
            for root in ["", "some/where"] {
                let store = MemoryStore::new(atomicity);
                for made in Path::new(root).ancestors().collect::<Vec<_>>().iter().rev() {
                    let commit = Commit::directory(store.location(made), Progress::default());
                    commit.unwrap().publish().unwrap();
                }
                (case.check)(&store.location(root));
            }
        }
    }
}

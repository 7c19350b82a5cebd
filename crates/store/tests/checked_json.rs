//! JSON files with a checksum of themselves: a file is read as it was written, or rejected.

#![expect(clippy::disallowed_methods, reason = "damages files")]

use std::path::Path;

use lodstone_store::{
    CheckedJson, Commit, Error, Flaw, Location, Progress, Result, Schema, checksum,
};
use serde::{Deserialize, Serialize};

const FILE: CheckedJson = CheckedJson {
    kind: "record",
    name: "record.json",
    max_len: 200,
    before: "  \"self\": \"",
    after: "\"\n}\n",
};

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record<const VERSION: u64> {
    schema: Schema<VERSION>,
    names: Vec<String>,
}

fn write<const VERSION: u64>(dir: &Path, names: &[&str]) -> Result<()> {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let mut commit = Commit::existing(dir, Progress::default())?;
    commit.write::<Error>(FILE.name, |out| {
        FILE.write(out, &Record { schema: Schema::<VERSION>, names })
    })?;
    commit.publish()
}

fn read(dir: &Path) -> Result<Record<1>> {
    FILE.read(&Location::from(dir))
}

fn flaw(result: Result<Record<1>>) -> Flaw {
    match result {
        Err(Error::Unusable { kind: "record", path, flaw }) if path.ends_with(FILE.name) => flaw,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_last_line_is_the_checksum_of_the_others() {
    let dir = tempfile::tempdir().expect("a directory");
    write::<1>(dir.path(), &["a", "b"]).expect("written");
    let text = std::fs::read_to_string(dir.path().join(FILE.name)).expect("text");
    let body = "{\n  \"schema\": 1,\n  \"names\": [\n    \"a\",\n    \"b\"\n  ],\n";
    let sum = checksum(body.as_bytes());
    assert_eq!(text, format!("{body}  \"self\": \"{sum:016x}\"\n}}\n"));
    let names = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(read(dir.path()).expect("read"), Record { schema: Schema, names });
}

#[test]
fn every_flipped_bit_and_every_cut_is_damage() {
    let dir = tempfile::tempdir().expect("a directory");
    write::<1>(dir.path(), &["a"]).expect("written");
    let path = dir.path().join(FILE.name);
    let whole = std::fs::read(&path).expect("a file");
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            std::fs::write(&path, flipped).expect("written");
            assert!(matches!(flaw(read(dir.path())), Flaw::Damaged), "byte {at}, bit {bit}");
        }
        std::fs::write(&path, &whole[..at]).expect("written");
        assert!(matches!(flaw(read(dir.path())), Flaw::Damaged), "the first {at} bytes");
    }
}

#[test]
fn an_unsupported_version_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    write::<2>(dir.path(), &["a"]).expect("written");
    let flaw = flaw(read(dir.path()));
    assert!(flaw.to_string().contains("expected schema 1, found 2"), "{flaw}");
}

#[test]
fn files_over_the_size_limit_are_not_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let long = "x".repeat(300);
    let error = write::<1>(dir.path(), &[&long]).expect_err("too large");
    assert!(matches!(error, Error::Unusable { flaw: Flaw::TooLarge(200), .. }), "{error}");
    assert!(!dir.path().join(FILE.name).exists());
    std::fs::write(dir.path().join(FILE.name), long).expect("written");
    assert!(matches!(read(dir.path()), Err(Error::Limit { .. })));
}

//! Numbers that stand in for absent ones: a list that may only get shorter, each with its reason.
//!
//! `unwrap_or(0)` is right where absent *means* 0. Where a state cannot occur, it is a wrong number that nobody sees: a finding,
//! a checked type (`lodstone_schema::numbers`) or a loop takes its place.

#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::frameworks::add_sources;

/// The crates whose numbers come from files and programs.
const CRATES: [&str; 5] = ["engine", "formats", "lowering", "paddle", "schema"];

/// The number of lines above a default in which a comment explains it.
const NEAR: usize = 4;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Whether a line has a number that stands in for an absent one.
fn has_default(line: &str) -> bool {
    let is_number = |argument: &str| {
        let end = argument.find([',', ')']).unwrap_or(argument.len());
        let number = argument[..end].trim_start_matches('-');
        number.starts_with(|it: char| it.is_ascii_digit())
            || number.ends_with("::MAX")
            || number.ends_with("::MIN")
    };
    let arguments = |call: &str| line.split(call).skip(1).any(is_number);
    let converts = line.contains("try_from(") && line.contains(".unwrap_or(");
    !line.trim_start().starts_with("//")
        && (arguments(".unwrap_or(") || arguments(".map_or(") || converts)
}

#[test]
fn numbers_that_stand_in_for_absent_ones_are_listed_and_explained() {
    let (mut found, mut unexplained) = (BTreeSet::new(), Vec::new());
    for name in CRATES {
        let mut all = Vec::new();
        add_sources(&root().join(name).join("src"), &mut all);
        for path in all {
            let text = fs::read_to_string(&path).expect("a file");
            let lines: Vec<&str> = text.lines().collect();
            let place = path.strip_prefix(root()).expect("a crate").display().to_string();
            for (number, line) in lines.iter().enumerate().filter(|(_, line)| has_default(line)) {
                found.insert(format!("{place}: {}", line.trim()));
                let near = &lines[number.saturating_sub(NEAR)..=number];
                if !near.iter().any(|line| line.contains("// ")) {
                    unexplained.push(format!("{place}:{}: {}", number + 1, line.trim()));
                }
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/defaults.txt");
    let listed = fs::read_to_string(&path).unwrap_or_default();
    let listed: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
    if std::env::var_os("LODSTONE_REWRITE_EXPECTED").is_some() {
        let left: String = listed.intersection(&found).map(|line| format!("{line}\n")).collect();
        fs::write(&path, left).expect("written");
    }
    let more: Vec<_> = found.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(unexplained.is_empty(), "why does absent mean this number? {unexplained:#?}");
    assert!(more.is_empty(), "make these errors, or checked types: {more:#?}");
    assert!(gone.is_empty(), "remove these from {}: {gone:#?}", path.display());
}

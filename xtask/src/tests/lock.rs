//! What is built is what was tested: the versions of the lock file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{locked, root};

/// Subcommands of cargo that resolve dependencies.
const RESOLVING: [&str; 8] = ["bench", "build", "check", "clippy", "doc", "install", "run", "test"];

#[test]
fn every_command_in_documents_and_scripts_uses_the_lock_file() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in texts() {
        // Some cases are no text.
        let text = fs::read(&path).expect("a file");
        let text = String::from_utf8_lossy(&text);
        for (number, line) in text.lines().enumerate() {
            for after in line.split("cargo ").skip(1) {
                let command = after.split([' ', '`']).next().unwrap_or_default();
                if RESOLVING.contains(&command) {
                    count += 1;
                    if !after.contains("--locked") {
                        wrong.push(format!("{}:{}: {line}", path.display(), number + 1));
                    }
                }
            }
        }
    }
    assert!(count > 20, "only {count} commands");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn only_one_function_starts_cargo() {
    let sources = texts().into_iter().filter(|path| path.starts_with(root().join("xtask")));
    let starts = |path: &PathBuf| {
        fs::read_to_string(path)
            .expect("text")
            .contains(concat!("Command::new(env!(\"", "CARGO\"))"))
    };
    let starting: Vec<_> = sources.filter(starts).collect();
    assert_eq!(starting, [root().join("xtask/src/run.rs")]);
}

/// Returns the documents, scripts and sources, without the changelog, which quotes earlier ones.
fn texts() -> Vec<PathBuf> {
    const PLACES: [&str; 8] =
        [".ci", "benchmarks", "crates", "docs", "examples", "fuzz", "interop", "xtask"];
    const ENDINGS: [&str; 5] = ["md", "py", "rs", "sh", "toml"];
    let mut open: Vec<PathBuf> = PLACES.iter().map(|place| root().join(place)).collect();
    let documents = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"];
    let mut found: Vec<PathBuf> = documents.iter().map(|name| root().join(name)).collect();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).expect("a directory").flatten() {
            let path = entry.path();
            let is_script = path.extension().is_none() && path.starts_with(root().join(".ci"));
            let is_text =
                path.extension().is_some_and(|it| ENDINGS.iter().any(|known| it == *known));
            match path.is_dir() {
                true if is_source(&path) => open.push(path),
                false if is_text || is_script => found.push(path),
                _ => {}
            }
        }
    }
    found
}

fn is_source(directory: &Path) -> bool {
    directory.file_name().is_some_and(|name| name != "target" && name != "golden")
}

/// Two versions of one crate are compiled, checked and updated twice: each has a reason in `deny.toml`.
#[test]
fn every_second_version_of_a_crate_that_is_compiled_has_a_reason() {
    let mut cargo = locked("tree");
    cargo.args(["--workspace", "--edges", "normal,build", "--duplicates", "--depth", "0"]);
    let tree = cargo.args(["--prefix", "none"]).current_dir(root()).output().expect("cargo");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).expect("UTF-8");
    let reasons = fs::read_to_string(root().join("deny.toml")).expect("the reasons");
    let mut names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    names.retain(|name| !name.is_empty());
    names.dedup();
    let without = names.iter().filter(|name| !reasons.contains(&format!("\"{name}@")));
    let without: Vec<_> = without.collect();
    assert!(names.len() > 5, "the tree has only {names:?}");
    assert!(without.is_empty(), "no reason for two versions of {without:?}");
}

//! Tells `--version --verbose` the commit, in builds that are optimized for users.

#![expect(clippy::disallowed_methods, reason = "the libraries for it are not built yet")]

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let directory = env!("CARGO_MANIFEST_DIR");
    if let Some(commit) = exported(Path::new(directory)).or_else(|| checked_out(directory)) {
        println!("cargo:rustc-env=LODSTONE_COMMIT={commit}");
    }
    if let Ok(target) = env::var("TARGET") {
        println!("cargo:rustc-env=LODSTONE_TARGET={target}");
    }
}

/// Returns the commit and its date from a file that `git archive` fills in.
fn exported(directory: &Path) -> Option<String> {
    let path = directory.join("commit.txt");
    println!("cargo:rerun-if-changed={}", path.display());
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    // In a checkout, the file has the pattern.
    (!text.is_empty() && !text.contains('$')).then(|| text.to_owned())
}

/// Returns those of a checkout.
fn checked_out(directory: &str) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(["-C", directory]).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // Moves with each commit, and with each checkout.
    println!("cargo:rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    git(&["log", "-1", "--format=%H %cs"])
}

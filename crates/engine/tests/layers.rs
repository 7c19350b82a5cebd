//! The modules of the engine import from the layers below them, and from their own.

#![expect(clippy::expect_used, clippy::panic, reason = "tests fail so")]

use std::path::{Path, PathBuf};

use lodstone_store::{Blob, Location};

/// The modules of the engine, from the ground up.
const LAYERS: &[&[&str]] = &[
    &["curves", "dims", "error", "numerics"],
    &["budget", "profile", "threads"],
    &["context", "simd", "gemm"],
    &["narrow", "tensor"],
    &["value"],
    &["call", "layout"],
    &["geometry"],
    &["fused"],
    &["fast"],
    &["operator"],
    &["kernels"],
    &["evaluate", "quantized"],
    &["control", "plan"],
    &["executable"],
];

fn layer(module: &str) -> usize {
    let found = LAYERS.iter().position(|layer| layer.contains(&module));
    found.unwrap_or_else(|| panic!("`{module}` is in no layer"))
}

/// Returns the source files of a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = Location::from(folder).list().expect("a folder");
    let all = entries.iter().flat_map(|entry| match folder.join(&entry.name) {
        inner if entry.is_dir => sources(&inner),
        file => vec![file],
    });
    all.filter(|file| !file.ends_with("tests.rs") && !file.ends_with("lib.rs")).collect()
}

#[test]
fn modules_import_from_below() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut told = Vec::new();
    for file in sources(&src) {
        let bytes = Blob::open(&file, false).and_then(|blob| blob.read()).expect("a file");
        let text = String::from_utf8_lossy(&bytes);
        let path = file.strip_prefix(&src).expect("in the folder").with_extension("");
        let own = path.iter().next().and_then(|name| name.to_str()).expect("UTF-8");
        let code = text.split("\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        for import in lines.flat_map(|line| line.split("crate::").skip(1)) {
            let end = import.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let module = import.get(..end.unwrap_or(import.len())).unwrap_or_default();
            if module.starts_with(char::is_lowercase) && layer(module) > layer(own) {
                told.push(format!("{}: `{module}`", path.display()));
            }
        }
    }
    assert!(told.is_empty(), "imports from above:\n{}", told.join("\n"));
}

//! `cargo xtask package`: packages every crate that is published, without a network and without compiling anything.
//!
//! Cargo resolves the dependencies of each package against the packages beside it, so a version, a file or a field that is
//! missing is found before a release.

use serde_json::Value;

use crate::run::{Outcome, locked, output, root, run};

pub(crate) fn package(arguments: &[String]) -> Result<(), Outcome> {
    if !arguments.is_empty() {
        return Err(Outcome::CouldNotRun("usage: cargo xtask package".to_owned()));
    }
    let mut metadata = locked("metadata");
    metadata.args(["--offline", "--no-deps", "--format-version", "1"]);
    let json = output(metadata.current_dir(root()))?;
    let json: Value = serde_json::from_slice(&json)
        .map_err(|error| Outcome::CouldNotRun(format!("the metadata of cargo: {error}")))?;
    let mut package = locked("package");
    package.args(["--workspace", "--offline", "--no-verify", "--allow-dirty", "--quiet"]);
    // `publish = false` is an empty list of registries.
    let is_kept = |one: &&Value| one["publish"].as_array().is_some_and(Vec::is_empty);
    let kept = json["packages"].as_array().into_iter().flatten().filter(is_kept);
    for name in kept.filter_map(|one| one["name"].as_str()) {
        package.args(["--exclude", name]);
    }
    run(package.current_dir(root()))
}

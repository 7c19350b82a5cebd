//! `--version --verbose`.

use std::ffi::OsString;
use std::fmt::Write;

/// The features of this build.
const FEATURES: &[(&str, bool)] = &[
    ("fourier", cfg!(feature = "fourier")),
    ("images", cfg!(feature = "images")),
    ("onnxruntime", cfg!(feature = "onnxruntime")),
    ("plots", cfg!(feature = "plots")),
    ("remote", cfg!(feature = "remote")),
];

/// Returns whether arguments ask for the version and its details, and nothing else.
pub(crate) fn is_asked(arguments: &[OsString]) -> bool {
    let is = |argument: &OsString, names: [&str; 2]| names.iter().any(|name| argument == name);
    let is_version = |argument: &&OsString| is(argument, ["--version", "-V"]);
    let is_verbose = |argument: &&OsString| is(argument, ["--verbose", "-v"]);
    let (versions, others): (Vec<_>, Vec<_>) = arguments.iter().partition(is_version);
    !versions.is_empty() && !others.is_empty() && others.iter().all(is_verbose)
}

/// Returns the version, and what a report of a fault needs to know of the build and the machine.
pub(crate) fn details() -> String {
    let commit = option_env!("LODSTONE_COMMIT").unwrap_or("unknown");
    let target = option_env!("LODSTONE_TARGET").unwrap_or("unknown");
    let list = |is_in: bool| {
        let names = FEATURES.iter().filter(|(_, is)| *is == is_in).map(|(name, _)| *name);
        let names: Vec<_> = names.collect();
        if names.is_empty() { "none".to_owned() } else { names.join(" ") }
    };
    let mut text = format!("lodstone {}\n", env!("CARGO_PKG_VERSION"));
    for (name, value) in [
        ("commit", commit),
        ("target", target),
        ("features", &list(true)),
        ("left out", &list(false)),
        ("vectors", lodstone::run::cpu_level()),
        ("numerics", &lodstone::run::NUMERICS.to_string()),
    ] {
        let _ = writeln!(text, "{name:<10} {value}");
    }
    text
}

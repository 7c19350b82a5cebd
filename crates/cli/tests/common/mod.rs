//! Runs the `lodstone` command as a user does.

#![expect(clippy::disallowed_methods, reason = "reads what the command wrote")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The golden models, relative to the working directory of the command.
pub(crate) const GOLDEN: &str = "crates/formats/tests/golden/paddle";

/// A trained model.
pub(crate) const DIGITS: &str = "examples/digits/paddle";

/// Returns the root of the repository: the working directory of the command, so that printed paths are the same
/// everywhere.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Returns the path of a golden file for the command.
pub(crate) fn golden(path: &str) -> String {
    format!("{GOLDEN}/{path}")
}

/// Creates a temporary directory.
pub(crate) fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// Returns the command with a reproducible environment.
pub(crate) fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lodstone"));
    command.args(arguments).current_dir(root());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(name);
    }
    command
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Runs the command.
pub(crate) fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Outcome {
    command(arguments).output().expect("the command runs").into()
}

/// Runs the command, which must succeed; returns the outcome.
pub(crate) fn good<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Outcome {
    let outcome = run(arguments);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(!outcome.err.contains("error:"), "{outcome:?}");
    outcome
}

/// Runs the command, which must fail with an error and no output on stdout; returns the error.
pub(crate) fn bad<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> String {
    let outcome = run(arguments);
    assert_eq!((outcome.code, outcome.out.as_str()), (Some(2), ""), "{outcome:?}");
    assert!(outcome.err.starts_with("error: "), "{outcome:?}");
    outcome.err
}

/// Returns the output of `inspect --json --hash` for a model, and optionally its parameters.
pub(crate) fn facts(path: &str, params: Option<&str>) -> Value {
    let mut arguments = vec!["inspect", path, "--json", "--hash"];
    arguments.extend(params.iter().flat_map(|params| ["--params", params]));
    let mut facts: Value = serde_json::from_str(&good(arguments).out).expect("JSON");
    // The same model is opened by several paths.
    let found = facts.as_object_mut().and_then(|facts| facts.shift_remove("path"));
    assert_eq!(found.as_ref().and_then(Value::as_str), Some(path));
    facts
}

/// Returns the properties of the tensors of a model that do not depend on the format.
pub(crate) fn tensors(path: &Path) -> Value {
    facts(path.to_str().expect("UTF-8"), None)["tensors"].take()
}

/// Returns the recorded cases of the golden files.
pub(crate) fn cases() -> Vec<Value> {
    let index = read(&root().join(golden("index.json")));
    let mut index: Value = serde_json::from_slice(&index).expect("JSON");
    let Value::Array(cases) = index["cases"].take() else { panic!("no cases") };
    assert!(cases.len() > 90, "{} cases", cases.len());
    cases
}

/// Returns a member that is a string.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no `{key}` in {value}"))
}

pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the paths and contents of all files in `dir`, recursively.
pub(crate) fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(OsStr::to_str).expect("UTF-8").to_owned();
        if path.is_dir() {
            let below = self::files(&path);
            files
                .extend(below.into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
        } else {
            files.insert(name, read(&path));
        }
    }
    files
}

/// Writes a safetensors file with tensors `v0`, `v1`... of `each` bytes.
pub(crate) fn large(path: &Path, tensors: usize, each: usize) {
    let entry = |number| {
        let (start, end) = (number * each, (number + 1) * each);
        format!(r#""v{number}":{{"dtype":"U8","shape":[{each}],"data_offsets":[{start},{end}]}}"#)
    };
    let header = format!("{{{}}}", (0..tensors).map(entry).collect::<Vec<_>>().join(","));
    let size = (header.len() as u64).to_le_bytes();
    let bytes = [&size[..], header.as_bytes(), &vec![7; tensors * each]].concat();
    std::fs::write(path, bytes).expect("written");
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares with `tests/expected/NAME`; with `LODSTONE_REWRITE_EXPECTED` set, writes it.
pub(crate) fn expect(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("LODSTONE_REWRITE_EXPECTED").is_some() {
        std::fs::write(&path, found).expect("a file");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "not as in {}; if it should be, set LODSTONE_REWRITE_EXPECTED and look at the difference\n\
         {found}",
        path.display()
    );
}

//! Runs the `lodstone` command as a user would.

#![allow(dead_code, reason = "each test file uses some of it")]
#![expect(clippy::disallowed_methods, reason = "reads what the command wrote")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The golden models, from where the command runs.
pub(crate) const GOLDEN: &str = "crates/formats/tests/golden/paddle";

/// A trained model.
pub(crate) const DIGITS: &str = "examples/digits/paddle";

/// The root of the repository, where the command runs, so that paths in what it says are the same
/// everywhere.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The path of a golden file, for the command.
pub(crate) fn golden(path: &str) -> String {
    format!("{GOLDEN}/{path}")
}

/// A directory that vanishes with the test.
pub(crate) fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// The command, in the same surroundings everywhere.
pub(crate) fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lodstone"));
    command.args(arguments).current_dir(root());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(name);
    }
    command
}

/// What a run said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Runs the command.
pub(crate) fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Said {
    command(arguments).output().expect("the command runs").into()
}

/// Runs the command, which must succeed; gives what it said.
pub(crate) fn good<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Said {
    let said = run(arguments);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(!said.err.contains("error:"), "{said:?}");
    said
}

/// Runs the command, which must fail with an error and nothing on stdout; gives the error.
pub(crate) fn bad<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> String {
    let said = run(arguments);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{said:?}");
    assert!(said.err.starts_with("error: "), "{said:?}");
    said.err
}

/// What `inspect --json --hash` says, for a model and perhaps its parameters.
pub(crate) fn facts(path: &str, params: Option<&str>) -> Value {
    let mut arguments = vec!["inspect", path, "--json", "--hash"];
    arguments.extend(params.iter().flat_map(|params| ["--params", params]));
    let mut facts: Value = serde_json::from_str(&good(arguments).out).expect("JSON");
    // One model has several paths.
    let found = facts.as_object_mut().and_then(|facts| facts.shift_remove("path"));
    assert_eq!(found.as_ref().and_then(Value::as_str), Some(path));
    facts
}

/// The tensors of a model, by what does not depend on the format.
pub(crate) fn tensors(path: &Path) -> Value {
    facts(path.to_str().expect("UTF-8"), None)["tensors"].take()
}

/// What was recorded of the golden files.
pub(crate) fn cases() -> Vec<Value> {
    let index = read(&root().join(golden("index.json")));
    let mut index: Value = serde_json::from_slice(&index).expect("JSON");
    let Value::Array(cases) = index["cases"].take() else { panic!("no cases") };
    assert!(cases.len() > 90, "{} cases", cases.len());
    cases
}

/// A member that is a string.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no `{key}` in {value}"))
}

pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Paths and contents of all files below `dir`.
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

/// A file of safetensors with so many tensors `v0`, `v1`... of so many bytes each.
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

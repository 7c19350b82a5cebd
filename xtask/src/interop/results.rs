//! `results.json`: the outcome of each suite and of each of its parts, with the revision and the extent.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Extent;
use crate::run::{Outcome, cannot, output, root};

/// The results of this run and of earlier ones.
pub(crate) struct Results {
    path: PathBuf,
    revision: String,
    extent: Extent,
    /// Whether what has passed is skipped.
    resumes: bool,
}

impl Results {
    /// Reads the results of earlier runs.
    pub(crate) fn read(
        path: &Path,
        revision: &str,
        extent: Extent,
        resumes: bool,
    ) -> Result<Self, Outcome> {
        let results =
            Self { path: path.to_owned(), revision: revision.to_owned(), extent, resumes };
        results.entries().map(|_| results)
    }

    /// Whether earlier runs are resumed.
    pub(crate) fn resumes(&self) -> bool {
        self.resumes
    }

    /// Returns whether a suite or part has passed at this revision with this extent, and is not run again.
    pub(crate) fn has_passed(&self, name: &str) -> Result<bool, Outcome> {
        let is_same = |entry: &Value| {
            let extent = entry["all"] == self.extent.all && entry["seed"] == self.extent.seed;
            entry["name"] == name && extent && entry["revision"] == self.revision.as_str()
        };
        let has_passed = |entry: &Value| is_same(entry) && entry["outcome"] == "passed";
        Ok(self.resumes && self.entries()?.iter().any(has_passed))
    }

    /// Records the outcome of a suite or part in place of an earlier one: they write to the same directory.
    pub(crate) fn record(
        &self,
        name: &str,
        outcome: &Result<(), Outcome>,
        time: Duration,
    ) -> Result<(), Outcome> {
        let entry = json!({
            "name": name,
            "all": self.extent.all,
            "seed": self.extent.seed,
            "revision": self.revision,
            "outcome": Outcome::of(outcome),
            "seconds": time.as_secs(),
        });
        self.update(|entries| {
            entries.retain(|entry| entry["name"] != name);
            entries.push(entry);
        })
    }

    /// Forgets the parts of a suite.
    pub(crate) fn forget(&self, suite: &str) -> Result<(), Outcome> {
        let is_part = |entry: &Value| {
            let name = entry["name"].as_str().and_then(|name| name.strip_prefix(suite));
            name.is_some_and(|rest| rest.starts_with('/'))
        };
        self.update(|entries| entries.retain(|entry| !is_part(entry)))
    }

    fn entries(&self) -> Result<Vec<Value>, Outcome> {
        match fs::read(&self.path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| {
                Outcome::CouldNotRun(format!("{}: {error}; delete the file", self.path.display()))
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(cannot("read results.json")(error)),
        }
    }

    /// Changes the file. Other suites, also those of another run, change it at the same time, and a run may be killed at any
    /// time.
    fn update(&self, change: impl FnOnce(&mut Vec<Value>)) -> Result<(), Outcome> {
        let lock = File::create(self.path.with_extension("lock"));
        let lock = lock.map_err(cannot("lock results.json"))?;
        lock.lock().map_err(cannot("lock results.json"))?;
        let mut entries = self.entries()?;
        change(&mut entries);
        let lines: Vec<_> = entries.iter().map(Value::to_string).collect();
        let next = self.path.with_extension("json.next");
        fs::write(&next, format!("[\n{}\n]\n", lines.join(",\n")))
            .and_then(|()| fs::rename(&next, &self.path))
            .map_err(cannot("write results.json"))
    }
}

/// Returns the commit, with a digest of the changes that are not committed if there are any.
pub(crate) fn revision() -> Result<String, Outcome> {
    let git = |arguments: &[&str]| output(Command::new("git").args(arguments).current_dir(root()));
    let head = String::from_utf8_lossy(&git(&["rev-parse", "HEAD"])?).trim().to_owned();
    let mut changes = git(&["diff", "--binary", "HEAD"])?;
    let untracked = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    for path in String::from_utf8_lossy(&untracked).split_terminator('\0') {
        // Their contents may be large.
        let metadata = fs::symlink_metadata(root().join(path)).map_err(cannot("list changes"))?;
        let modified = metadata.modified().map_err(cannot("list changes"))?;
        let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        changes.extend(format!("{path}\0{}\0{}\0", metadata.len(), modified.as_nanos()).bytes());
    }
    if changes.is_empty() {
        return Ok(head);
    }
    let digest = Sha256::digest(&changes);
    let digits: Vec<_> = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{head}+{}", digits.concat()))
}

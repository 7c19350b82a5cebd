//! What a scan finds, counted, and kept up to a number.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::path::{Path, PathBuf};

use super::{Danger, DangerKind};

/// Findings that are kept: nobody reads more, and a small file may have millions.
pub(super) const MAX_FINDINGS: usize = 1000;

/// What was found. Adding to it takes the same time however many there are.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The first of them.
    pub(super) kept: Vec<Danger>,
    /// How many there are.
    pub(super) count: usize,
    /// How many of kinds that are not reported.
    pub(super) ignored: usize,
    without: Vec<DangerKind>,
    /// Those of the file at hand, so that each is counted once.
    seen: HashSet<Key>,
    keys: RandomState,
    file: PathBuf,
}

/// What a finding is known by: a hash that nobody can choose.
#[derive(Debug, Eq)]
struct Key(u64);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(test)]
        tests::COMPARED.with(|compared| compared.set(compared.get() + 1));
        self.0 == other.0
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

impl Findings {
    /// No findings, of which some kinds are not reported.
    pub(super) fn without(kinds: Vec<DangerKind>) -> Self {
        Self { without: kinds, ..Self::default() }
    }

    /// Adds a finding, unless it is there.
    pub(super) fn add(
        &mut self,
        kind: DangerKind,
        file: &Path,
        place: &str,
        message: impl Into<String>,
    ) {
        if self.file != file {
            self.seen.clear();
            self.file = file.to_path_buf();
        }
        let message = message.into();
        if !self.seen.insert(Key(self.keys.hash_one((kind, place, &message)))) {
            return;
        }
        if self.without.contains(&kind) {
            self.ignored += 1;
            return;
        }
        self.count += 1;
        if self.kept.len() < MAX_FINDINGS {
            let (file, place) = (file.to_path_buf(), place.to_owned());
            self.kept.push(Danger { kind, file, place, message });
        }
    }
}

#[cfg(test)]
mod tests;

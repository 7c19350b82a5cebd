//! The findings of a scan: counted, and kept up to a limit.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::path::{Path, PathBuf};

use super::{Danger, DangerKind};

/// The maximum number of findings that are kept, since a small file may have millions.
pub(super) const MAX_FINDINGS: usize = 1000;

/// A collection of findings. Adding one takes constant time.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The first findings.
    pub(super) kept: Vec<Danger>,
    /// The number of findings.
    pub(super) count: usize,
    /// The number of findings of ignored kinds.
    pub(super) ignored: usize,
    without: Vec<DangerKind>,
    /// The keys of the findings in the current file, so that each is counted once.
    seen: HashSet<Key>,
    keys: RandomState,
    file: PathBuf,
}

/// The key of a finding: a hash without attacker-chosen collisions.
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
    /// Creates an empty collection that ignores some kinds.
    pub(super) fn without(kinds: Vec<DangerKind>) -> Self {
        Self { without: kinds, ..Self::default() }
    }

    /// Adds a finding, unless it is present.
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

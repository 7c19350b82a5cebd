//! Protection of sealed files: only writers that update the seal may replace them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::checks::{SEAL, SEAL_FILE};
use crate::names::parent_of;
use crate::{Error, Location, Result, Store};

/// The part of a seal that lists its files.
#[derive(Deserialize)]
struct Seal {
    models: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    name: String,
}

/// The files listed by the seals read so far, by path of the seal.
pub(super) struct Sealed<'a> {
    store: &'a Arc<dyn Store>,
    seals: HashMap<PathBuf, HashSet<String>>,
}

impl<'a> Sealed<'a> {
    pub(super) fn new(store: &'a Arc<dyn Store>) -> Self {
        Self { store, seals: HashMap::new() }
    }

    /// Fails if a seal in the directory of the file at `path`, or in a parent of it, lists the file.
    ///
    /// # Errors
    /// [`Error::Sealed`]; [`Error::Unreadable`] if a seal there cannot be read.
    pub(super) fn check(&mut self, path: &Path) -> Result<()> {
        let Some(file) = path.file_name() else { return Ok(()) };
        for (root, way) in self.store.seal_directories(parent_of(path)) {
            let seal = root.join(SEAL);
            // Seals list only UTF-8 names.
            let Some(name) = way.join(file).to_str().map(str::to_owned) else { continue };
            if self.names(&seal)?.contains(&name) {
                return Err(Error::Sealed { path: path.to_path_buf(), seal });
            }
        }
        Ok(())
    }

    /// Returns the names of the files that a seal lists; empty if the seal does not exist.
    fn names(&mut self, seal: &Path) -> Result<&HashSet<String>> {
        if !self.seals.contains_key(seal) {
            let there = Location::new(Arc::clone(self.store), seal);
            let names = if there.is_there()? { read(&there)? } else { HashSet::new() };
            self.seals.insert(seal.to_path_buf(), names);
        }
        Ok(self.seals.entry(seal.to_path_buf()).or_default())
    }
}

fn read(seal: &Location) -> Result<HashSet<String>> {
    let bytes = SEAL_FILE.read_bytes(seal)?;
    let parsed: Seal = serde_json::from_slice(&bytes)
        .map_err(|error| Error::Unreadable { path: seal.to_path_buf(), what: error.to_string() })?;
    Ok(parsed.models.into_iter().flat_map(|model| model.files).map(|file| file.name).collect())
}

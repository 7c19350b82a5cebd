//! Files that seals are of, which only those write over who bring the seal up to date.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::target::parent_of;
use crate::checks::{LARGEST_SEAL, SEAL};
use crate::file::{is_there, seal_directories};
use crate::{Blob, Error, Result};

/// The part of a seal that says what it is of.
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

/// What the seals are of that were read so far, by path.
#[derive(Default)]
pub(super) struct Sealed(HashMap<PathBuf, HashSet<String>>);

impl Sealed {
    /// Fails if a file to be written is listed by a seal in its directory or in one above it.
    ///
    /// # Errors
    /// [`Error::Sealed`]; [`Error::Unreadable`] if a seal there cannot be read.
    pub(super) fn check(&mut self, path: &Path) -> Result<()> {
        let Some(file) = path.file_name() else { return Ok(()) };
        for (root, way) in seal_directories(parent_of(path)) {
            let seal = root.join(SEAL);
            // No seal has names that are not UTF-8.
            let Some(name) = way.join(file).to_str().map(str::to_owned) else { continue };
            if self.names(&seal)?.contains(&name) {
                return Err(Error::Sealed { path: path.to_path_buf(), seal });
            }
        }
        Ok(())
    }

    /// The names of the files that a seal is of; none if it is not there.
    fn names(&mut self, seal: &Path) -> Result<&HashSet<String>> {
        if !self.0.contains_key(seal) {
            let names = if is_there(seal)? { read(seal)? } else { HashSet::new() };
            self.0.insert(seal.to_path_buf(), names);
        }
        Ok(self.0.entry(seal.to_path_buf()).or_default())
    }
}

fn read(seal: &Path) -> Result<HashSet<String>> {
    let blob = Blob::open(seal, false)?;
    if blob.len() > LARGEST_SEAL {
        return Err(blob.over_limit(0, format!("at most {LARGEST_SEAL} bytes of a seal")));
    }
    let bytes = blob.read()?;
    let parsed: Seal = serde_json::from_slice(&bytes)
        .map_err(|error| Error::Unreadable { path: seal.to_path_buf(), what: error.to_string() })?;
    Ok(parsed.models.into_iter().flat_map(|model| model.files).map(|file| file.name).collect())
}

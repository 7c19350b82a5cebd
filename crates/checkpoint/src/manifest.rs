//! The manifest of a serial: `manifest.json`, which says what is in it and proves that it is that.
//!
//! It is JSON, an object of the keys
//!
//! | key | value |
//! |---|---|
//! | `schema` | 1, the version of this table |
//! | `step` | how many steps had been done |
//! | `container` | how variables are in files: `combined`, `each`, `sized`, `safetensors` |
//! | `variables` | all of them, sorted by name: each with `name`, `kind`, `dtype` and `shape` |
//! | `random` | those that are the state of random numbers |
//! | `schedule` | those that learning rates come from |
//! | `programs` | the SHA-256 of the `main` and the `startup` program, if there are any |
//! | `numerics` | what computed: `engine`, `simd` |
//! | `metadata` | what the user added |
//! | `files` | as in a seal: `name`, `size`, and `parts` with their checksums |
//! | `self` | the checksum of all bytes before the line that it is on |

use std::collections::{BTreeMap, HashSet};

use lodstone_formats::SealedFile;
use lodstone_formats::paddle::stream::Expect;
use lodstone_model::Parameter;
use lodstone_store::{Blob, Location, check_relative, checksum, plain};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::container::Container;
use crate::error::{Error, Result};
use crate::loader::LOADER;
use crate::numerics::Numerics;

/// The file of the manifest in the directory of its serial.
pub(crate) const MANIFEST: &str = "manifest.json";

/// The version of the table.
const SCHEMA: u32 = 1;

/// Largest manifest, in bytes: as a seal, it takes 200 for each tensor, and its name.
const LARGEST: u64 = 256 << 20;

/// What a serial contains.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    schema: u32,
    /// How many steps had been done.
    pub step: u64,
    /// How variables are in files.
    pub container: Container,
    /// The variables, sorted by name.
    pub variables: Vec<SavedVariable>,
    /// Names of those that are the state of random numbers.
    pub random: Vec<String>,
    /// Names of those that learning rates come from.
    pub schedule: Vec<String>,
    /// The programs that it was saved from.
    pub programs: Programs,
    /// What computed its numbers.
    pub numerics: Numerics,
    /// What the user added.
    pub metadata: BTreeMap<String, Value>,
    /// The files, and what they should be.
    pub files: Vec<SealedFile>,
}

/// A variable of a serial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedVariable {
    /// Its name.
    pub name: String,
    /// How its elements make it up: `dense`, `selected_rows`, `vocab`.
    pub kind: String,
    /// The type of its elements, as NumPy spells it.
    pub dtype: String,
    /// Its extents, outermost first.
    pub shape: Vec<u64>,
}

/// Programs by the SHA-256 of what is written of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Programs {
    /// That of the main program, if there is one.
    pub main: Option<String>,
    /// That of the startup program, if there is one.
    pub startup: Option<String>,
}

impl SavedVariable {
    pub(crate) fn of(Parameter { name, tensor }: &Parameter) -> Self {
        Self {
            name: name.clone(),
            kind: tensor.kind.name().to_owned(),
            dtype: tensor.dtype.to_string(),
            shape: tensor.shape.clone(),
        }
    }

    /// What its record is, where records do not say it.
    pub(crate) fn expect(&self) -> Expect {
        match self.kind.as_str() {
            "dense" => Expect::Tensor,
            "selected_rows" => Expect::SelectedRows,
            "vocab" => Expect::Vocabulary,
            _ => Expect::Anything,
        }
    }
}

impl Manifest {
    pub(crate) fn new(step: u64, container: Container, numerics: Numerics) -> Self {
        Self {
            schema: SCHEMA,
            step,
            container,
            variables: Vec::new(),
            random: Vec::new(),
            schedule: Vec::new(),
            programs: Programs::default(),
            numerics,
            metadata: BTreeMap::new(),
            files: Vec::new(),
        }
    }

    /// Reads the manifest in a directory.
    ///
    /// # Errors
    /// If it cannot be read, is larger than 256 MiB, of another version, or not what was written.
    pub(crate) fn load(directory: &Location) -> Result<Self> {
        let path = directory.join(MANIFEST);
        let fail = |what: String| Err(Error::Manifest { path: path.to_path_buf(), what });
        let blob = Blob::open(&path, false)?;
        if blob.len() > LARGEST {
            return Err(blob
                .over_limit(0, format!("at most {LARGEST} bytes of a manifest"))
                .into());
        }
        let bytes = blob.read()?;
        let length = last_line(0).len();
        let Some((body, last)) = bytes.split_at_checked(bytes.len().saturating_sub(length)) else {
            return fail("it is damaged".to_owned());
        };
        if last != last_line(checksum(body)).as_bytes() {
            return fail("it is damaged: its own checksum is another".to_owned());
        }
        let schema = serde_json::from_slice::<Version>(&bytes).map(|version| version.schema);
        if schema.as_ref().is_ok_and(|schema| *schema != SCHEMA) {
            return fail("it is of another version than this one".to_owned());
        }
        let manifest: Self = match serde_json::from_slice(&bytes) {
            Ok(manifest) => manifest,
            Err(error) => return fail(error.to_string()),
        };
        let mut names = HashSet::new();
        for SealedFile { name, .. } in &manifest.files {
            check_relative(name)?;
            if plain(name) != *name || !names.insert(name) {
                return fail(format!("it has `{name}` twice, or by another name"));
            }
        }
        if manifest.programs.main.is_some() && !manifest.has_loader() {
            return fail("it was saved from a program, and has no loader".to_owned());
        }
        Ok(manifest)
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> Result<Vec<u8>> {
        let unable = |error: serde_json::Error| Error::Manifest {
            path: MANIFEST.into(),
            what: error.to_string(),
        };
        let mut text = serde_json::to_vec_pretty(self).map_err(unable)?;
        // The last line takes the place of the end of the object.
        text.truncate(text.len().saturating_sub("\n}".len()));
        text.extend_from_slice(b",\n");
        let last = last_line(checksum(&text));
        text.extend_from_slice(last.as_bytes());
        Ok(text)
    }

    /// Whether there is a loader among the files.
    pub(crate) fn has_loader(&self) -> bool {
        self.files.iter().any(|file| is_loader(&file.name))
    }

    /// Size of all files that it knows, in bytes.
    pub fn nbytes(&self) -> u64 {
        self.files.iter().map(|file| file.checks.len()).sum()
    }
}

/// Whether a file is one of the loader.
pub(crate) fn is_loader(name: &str) -> bool {
    name.split('/').next() == Some(LOADER)
}

/// The version alone: what else there is, only that version knows.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

fn last_line(sum: u64) -> String {
    format!("  \"self\": \"{sum:016x}\"\n}}\n")
}

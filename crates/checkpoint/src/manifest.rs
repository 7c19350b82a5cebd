//! The manifest of a serial, `manifest.json`: what the serial contains, with checksums.
//!
//! It is a [`CheckedJson`] object with these keys:
//!
//! | key | value |
//! |---|---|
//! | `schema` | 1, the version of this table |
//! | `step` | the number of steps done |
//! | `container` | the layout of the variables: `combined`, `each`, `sized`, `safetensors` |
//! | `variables` | all variables, sorted by name: each with `name`, `kind`, `dtype` and `shape` |
//! | `random` | names of the variables with the state of random numbers |
//! | `programs` | the SHA-256 of the `main` and the `startup` program, `null` without one |
//! | `numerics` | what computed the values: `engine`, `simd`; `null` if not recorded |
//! | `metadata` | the user's entries |
//! | `data` | the directory of the files below that of the serial, in stores that publish single files; absent elsewhere |
//! | `files` | as in a seal: `name`, `size`, and `parts` with their checksums |
//! | `self` | the checksum of all bytes before its line |

use std::collections::BTreeMap;
use std::fmt;

use lodstone_formats::{SealedFile, check_names};
use lodstone_model::Parameter;
use lodstone_store::{CheckedJson, Location, Schema, check_relative};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::container::Container;
use crate::error::Result;
use crate::snapshot::Snapshot;

/// The manifest file. As in a seal, a tensor takes 200 bytes and its name.
pub(crate) const MANIFEST: CheckedJson = CheckedJson {
    kind: "manifest",
    name: "manifest.json",
    max_len: 256 << 20,
    before: "  \"self\": \"",
    after: "\"\n}\n",
};

/// The directory of the loader in its serial.
pub const LOADER: &str = "loader";

/// The contents of a serial.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    schema: Schema<1>,
    /// The number of steps done.
    pub step: u64,
    /// The layout of the variables.
    pub container: Container,
    /// The variables, sorted by name.
    pub variables: Vec<SavedVariable>,
    /// Names of the variables with the state of random numbers.
    pub random: Vec<String>,
    /// Names of the variables that learning rates are computed from.
    pub schedule: Vec<String>,
    /// The programs that the variables belong to.
    pub programs: Programs,
    /// What computed the values, if it is recorded.
    pub numerics: Option<Numerics>,
    /// The user's entries.
    pub metadata: BTreeMap<String, Value>,
    /// The directory of the files, below that of the serial. Stores that publish single files have one: its name is unique,
    /// so that no other writer has files there, and only this manifest refers to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// The files and their checksums.
    pub files: Vec<SealedFile>,
}

/// A variable of a serial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedVariable {
    /// The name of the variable.
    pub name: String,
    /// The kind of tensor: `dense`, `selected_rows`, `vocab`.
    pub kind: String,
    /// The element type, as NumPy spells it.
    pub dtype: String,
    /// The dims, outermost first.
    pub shape: Vec<u64>,
}

/// Programs, by the SHA-256 of their files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Programs {
    /// The hash of the main program, if there is one.
    pub main: Option<String>,
    /// The hash of the startup program, if there is one.
    pub startup: Option<String>,
}

/// What the last bits of computed values depend on. A run resumed under another engine or processor may differ there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numerics {
    /// The engine and the version of its numerics, such as `lodstone numerics 1`.
    pub engine: String,
    /// The processor's architecture and the widest vectors that the engine uses: `x86_64 avx2`.
    pub simd: String,
}

impl fmt::Display for Numerics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.engine, self.simd)
    }
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
}

impl Manifest {
    /// Creates the manifest of a snapshot, without files.
    pub(crate) fn of(step: u64, container: Container, snapshot: &Snapshot) -> Self {
        let (random, schedule, programs) = match &snapshot.origin {
            Some(it) => (it.random.clone(), it.schedule.clone(), it.programs.clone()),
            None => Default::default(),
        };
        Self {
            schema: Schema,
            step,
            container,
            variables: snapshot.tensors.iter().map(SavedVariable::of).collect(),
            random,
            schedule,
            programs,
            numerics: snapshot.numerics.clone(),
            metadata: snapshot.metadata.clone(),
            data: None,
            files: Vec::new(),
        }
    }

    /// Reads the manifest in a directory.
    ///
    /// # Errors
    /// If it cannot be read or [used](lodstone_store::Error::Unusable), or is larger than 256 MiB.
    pub(crate) fn load(directory: &Location) -> Result<Self> {
        let manifest: Self = MANIFEST.read(directory)?;
        check_names(&manifest.files, &MANIFEST, directory)?;
        if let Some(data) = &manifest.data
            && (data.contains('/') || check_relative(data).is_err())
        {
            let what = format!("`{data}` is not the name of a directory");
            return Err(MANIFEST.contradiction(directory, what).into());
        }
        if manifest.programs.main.is_some() && !manifest.has_loader() {
            let what = "the serial was saved from a program, but has no loader";
            return Err(MANIFEST.contradiction(directory, what).into());
        }
        Ok(manifest)
    }

    /// Whether the serial has a program that restores it.
    pub fn has_loader(&self) -> bool {
        self.files.iter().any(|file| file.name.split('/').next() == Some(LOADER))
    }

    /// Returns the size of all files but the manifest, in bytes.
    pub fn nbytes(&self) -> u64 {
        self.files.iter().map(|file| file.checks.len()).sum()
    }
}

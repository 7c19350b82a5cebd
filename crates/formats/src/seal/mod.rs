//! The seal of the models in a directory: the file `lodstone.seal`, with a checksum for each tensor,
//! or for each 16 MiB of larger ones.
//!
//! It is a JSON object with the keys
//!
//! | key | value |
//! |---|---|
//! | `checksum` | `CRC-64/NVME`, the algorithm of all checksums, which are written as 16 hexadecimal digits |
//! | `piece` | 16777216: maximum bytes per checksum |
//! | `models` | the models, each with its `format` and its `files` |
//! | `self` | the checksum of all bytes before its line, as in every [`CheckedJson`] |
//!
//! A file has a `name` (relative to the directory, `/` between components), a `size` in bytes, and
//! `parts` that cover it without gaps: each with `offset`, `size`, `checksums` (one per piece)
//! and, if it holds the elements of a tensor, the name of that `tensor`.
//!
//! A seal detects damage. It does not authenticate the author: anyone who can change
//! the model can seal it again.
//!
//! There is one seal for each directory, as with `SHA256SUMS`: every path to a model finds it, whatever the files are
//! called, and it is copied with the directory. Checksums cover files, not tensors: headers, padding and programs are
//! the parts between tensors, and no byte is left out. A seal is computed from the staged files, read again from the
//! page cache while the disk writes them, and published with them, so that the two agree at any moment. Files that are
//! written through a symbolic link have their seal beside its target. A model lists the files it was read from, and a
//! blob the ranges of them it comes from: sealing needs no other information about a format.

pub(crate) mod entries;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodstone_model::{Model, Parameter};
use lodstone_schema::weights;
use lodstone_store::{
    Blob, CheckedJson, Checks, Error as StoreError, Flaw, Location, Output, PIECE, Part, Progress,
    SEAL, SEAL_FILE, Schema, check_relative, plain,
};
use serde::de::{SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Result;

/// The state of the models in a directory when they were sealed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seal {
    schema: Schema<1>,
    checksum: String,
    piece: u64,
    /// The models, in the order in which they were sealed.
    pub models: Vec<SealedModel>,
}

/// A sealed model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SealedModel {
    /// The format it was read from.
    pub format: String,
    /// Its files.
    pub files: Vec<SealedFile>,
}

/// A file of a sealed model.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Written")]
pub struct SealedFile {
    /// The name, relative to the directory.
    pub name: String,
    /// The checks of the file.
    pub checks: Arc<Checks>,
}

/// The input form of a [`SealedFile`].
#[derive(Deserialize)]
struct Written {
    name: String,
    size: u64,
    #[serde(deserialize_with = "parts")]
    parts: Vec<Part>,
}

/// The input form of a [`Part`].
#[derive(Deserialize)]
struct Stretch {
    #[serde(default)]
    tensor: Option<String>,
    offset: u64,
    size: u64,
    checksums: Vec<Sum>,
}

/// The output form of a [`SealedFile`].
#[derive(Serialize)]
struct FileText<'a> {
    name: &'a str,
    size: u64,
    parts: Each<'a, Part>,
}

/// The output form of a [`Part`].
#[derive(Serialize)]
struct PartText<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tensor: Option<&'a str>,
    offset: u64,
    size: u64,
    checksums: Each<'a, u64>,
}

/// Serializes elements one by one, so that they need not be copied.
struct Each<'a, T>(&'a [T]);

/// The output form of a checksum: 16 hexadecimal digits.
struct Sum(u64);

const ALGORITHM: &str = "CRC-64/NVME";

impl Default for Seal {
    /// Returns the seal of no models.
    fn default() -> Self {
        let (schema, checksum, models) = (Schema, ALGORITHM.to_owned(), Vec::new());
        Self { schema, checksum, piece: PIECE, models }
    }
}

impl Seal {
    /// Reads the seal of a directory; `None` if it has none.
    ///
    /// # Errors
    /// Fails if the seal cannot be read or [used](StoreError::Unusable), or is larger than 128 MiB.
    pub fn load(directory: &Location) -> Result<Option<Self>> {
        if !directory.join(SEAL).is_there()? {
            return Ok(None);
        }
        let seal: Self = SEAL_FILE.read(directory)?;
        if (seal.checksum.as_str(), seal.piece) != (ALGORITHM, PIECE) {
            let what = format!("expected {ALGORITHM} checksums of {PIECE} bytes each");
            return Err(SEAL_FILE.contradiction(directory, what).into());
        }
        let files = seal.models.iter().flat_map(|model| &model.files);
        check_names(files, &SEAL_FILE, directory)?;
        Ok(Some(seal))
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Fails if writing fails, or the file would exceed the size limit for reading.
    pub fn write(&self, out: &mut Output) -> Result<()> {
        Ok(SEAL_FILE.write(out, self)?)
    }

    /// Returns the sealed file called `name`.
    pub fn file(&self, name: &str) -> Option<&SealedFile> {
        self.models.iter().flat_map(|model| &model.files).find(|file| file.name == name)
    }

    /// Returns the checks of every file, by name.
    pub fn checks(&self) -> HashMap<String, Arc<Checks>> {
        let files = self.models.iter().flat_map(|model| &model.files);
        files.map(|file| (file.name.clone(), Arc::clone(&file.checks))).collect()
    }

    /// Removes and returns the models that have one of these files.
    pub fn remove(&mut self, names: &[String]) -> Vec<SealedModel> {
        let has_one = |model: &SealedModel| model.files.iter().any(|f| names.contains(&f.name));
        let (removed, kept) = std::mem::take(&mut self.models).into_iter().partition(has_one);
        self.models = kept;
        removed
    }

    /// Returns whether these models have a file that the seal lacks.
    pub fn lacks_one_of(&self, models: &[SealedModel]) -> bool {
        let mut files = models.iter().flat_map(|model| &model.files);
        files.any(|file| self.file(&file.name).is_none())
    }
}

/// Checks the names of the files in a seal or manifest of `directory`: they must be unique, normalized, and inside the
/// directory.
///
/// # Errors
/// [`StoreError::Escapes`], or [`StoreError::Unusable`]: of two files with the same name, readers could use
/// different ones.
pub fn check_names<'a>(
    files: impl IntoIterator<Item = &'a SealedFile>,
    kind: &CheckedJson,
    directory: &Location,
) -> Result<(), StoreError> {
    let mut names = HashSet::new();
    for SealedFile { name, .. } in files {
        check_relative(name)?;
        if plain(name) != *name {
            let what = format!("it lists a file under a name that is not normalized: `{name}`");
            return Err(kind.contradiction(directory, what));
        }
        if !names.insert(name) {
            return Err(kind.contradiction(directory, format!("it lists `{name}` twice")));
        }
    }
    Ok(())
}

impl SealedModel {
    /// Seals a model in its current state; all its files are below `root`.
    ///
    /// # Errors
    /// Fails if reading fails or the work is cancelled.
    pub(crate) fn of(model: &Model, root: &Path, progress: &Progress) -> Result<Self> {
        let mut tensors = TensorRanges::of(model);
        let mut files = Vec::<SealedFile>::new();
        for blob in &model.files {
            let path = blob.file_range().map(|(file, _)| file.path());
            let name = path.and_then(|path| path.strip_prefix(root).ok()?.to_str()).map(plain);
            if let Some(name) = name.filter(|name| files.iter().all(|file| file.name != *name)) {
                files.push(SealedFile::of(name, blob, &mut tensors, progress)?);
            }
        }
        Ok(Self { format: model.format.clone(), files })
    }
}

/// The locations of the tensors of a model in its files.
#[derive(Debug)]
pub struct TensorRanges(HashMap<PathBuf, Vec<(u64, u64, String)>>);

impl TensorRanges {
    /// Returns the locations of the tensors of a model.
    pub fn of(model: &Model) -> Self {
        let mut ranges: HashMap<_, Vec<_>> = HashMap::new();
        for (number, Parameter { name, tensor }) in weights(model).iter().enumerate() {
            for (file, offset, len) in tensor.blobs().flat_map(Blob::file_ranges) {
                // Not `entry`, which would copy the path: most tensors are in a known file.
                if !ranges.contains_key(file.path()) {
                    ranges.insert(file.path().to_path_buf(), Vec::new());
                }
                let of_file = ranges.get_mut(file.path());
                of_file.into_iter().for_each(|all| all.push((offset, len, called(name, number))));
            }
        }
        Self(ranges)
    }
}

/// Returns the name of a tensor, or `#3` for an unnamed one.
pub fn called(name: &str, number: usize) -> String {
    if name.is_empty() { format!("#{number}") } else { name.to_owned() }
}

impl SealedFile {
    /// Seals a file in its current state, in parts: the tensors, and the bytes between them.
    ///
    /// # Errors
    /// Fails if reading fails or the work is cancelled.
    pub fn of(
        name: String,
        file: &Blob,
        tensors: &mut TensorRanges,
        progress: &Progress,
    ) -> Result<Self> {
        let path = file.file_range().map(|(file, _)| file.path());
        let tensors = path.and_then(|path| tensors.0.remove(path)).unwrap_or_default();
        Self::with(name, file, tensors, progress)
    }

    /// Seals a file with these tensors in its current state. Each has its offset, its size in bytes and its name.
    ///
    /// # Errors
    /// The errors of [`of`](Self::of).
    pub fn with(
        name: String,
        file: &Blob,
        mut tensors: Vec<(u64, u64, String)>,
        progress: &Progress,
    ) -> Result<Self> {
        tensors.sort_unstable();
        let (mut stretches, mut end) = (Vec::new(), 0);
        let mut stretch = |until: u64, tensor: Option<String>| {
            if until > end {
                stretches.push((until - end, tensor));
                end = until;
            }
        };
        for (offset, len, name) in tensors {
            stretch(offset, None);
            // Shared bytes belong to the first tensor.
            stretch(offset + len, Some(name));
        }
        stretch(file.len(), None);
        let parts = Part::all_of(file, stretches, progress)?;
        let checks = whole(&name, parts);
        let checks = checks.map_err(|what| {
            let (path, flaw) = (name.clone().into(), Flaw::Contradiction(what.to_string()));
            StoreError::Unusable { kind: SEAL_FILE.kind, path, flaw }
        })?;
        Ok(Self { name, checks: Arc::new(checks) })
    }
}

/// The reason why parts do not match a file.
#[derive(Debug, thiserror::Error)]
enum Contradiction {
    #[error("the parts of `{0}` do not cover the whole file")]
    Incomplete(String),
    #[error("the parts of `{name}` are {found} bytes, not {size}")]
    Size { name: String, found: u64, size: u64 },
}

/// Returns the checks of a file with these parts.
fn whole(name: &str, parts: Vec<Part>) -> Result<Checks, Contradiction> {
    Checks::new(parts).ok_or_else(|| Contradiction::Incomplete(name.to_owned()))
}

impl TryFrom<Written> for SealedFile {
    type Error = Contradiction;

    fn try_from(Written { name, size, parts }: Written) -> Result<Self, Contradiction> {
        let checks = whole(&name, parts)?;
        if checks.len() != size {
            return Err(Contradiction::Size { name, found: checks.len(), size });
        }
        Ok(Self { name, checks: Arc::new(checks) })
    }
}

/// Deserializes parts, of which there may be very many, with little excess capacity.
fn parts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Part>, D::Error> {
    struct Parts;

    impl<'de> Visitor<'de> for Parts {
        type Value = Vec<Part>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("parts of a file")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Vec<Part>, A::Error> {
            let mut parts = Vec::new();
            while let Some(Stretch { tensor, offset, size, checksums }) = all.next_element()? {
                let mut checksums: Vec<u64> = checksums.into_iter().map(|Sum(sum)| sum).collect();
                checksums.shrink_to_fit();
                if parts.len() == parts.capacity() {
                    // Grow by a quarter: doubling needs three times the memory for a moment.
                    parts.reserve_exact(parts.len() / 4 + 16);
                }
                parts.push(Part { tensor, offset, len: size, checksums });
            }
            Ok(parts)
        }
    }

    deserializer.deserialize_seq(Parts)
}

impl Serialize for SealedFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { name, checks } = self;
        FileText { name, size: checks.len(), parts: Each(checks.parts()) }.serialize(serializer)
    }
}

impl Serialize for Each<'_, Part> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|Part { tensor, offset, len, checksums }| {
            let (tensor, checksums) = (tensor.as_deref(), Each(checksums.as_slice()));
            PartText { tensor, offset: *offset, size: *len, checksums }
        }))
    }
}

impl Serialize for Each<'_, u64> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().copied().map(Sum))
    }
}

impl Serialize for Sum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Sum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;

        impl Visitor<'_> for Digits {
            type Value = Sum;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("16 hexadecimal digits")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Sum, E> {
                let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                let sum = u64::from_str_radix(text, 16).ok().filter(|_| digits);
                sum.map(Sum).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Digits)
    }
}

//! The seal of the models in a directory: the file `lodstone.seal`, with a checksum for each tensor
//! and for each 16 MiB of it.
//!
//! It is JSON, an object of the keys
//!
//! | key | value |
//! |---|---|
//! | `schema` | 1, the version of this table |
//! | `checksum` | `CRC-64/NVME`, the algorithm of all of them, written as 16 hexadecimal digits |
//! | `piece` | 16777216: most bytes under one checksum |
//! | `models` | the models, each with its `format` and its `files` |
//! | `self` | the checksum of all bytes before its line, as in every [`CheckedJson`] |
//!
//! A file has a `name` (relative to the directory, `/` between parts), a `size` in bytes, and
//! `parts` that make up all of it, end to end: each with `offset`, `size`, `checksums` (one a piece)
//! and, where it is the elements of a tensor, the name of that `tensor`.
//!
//! A seal tells that nothing was damaged. It does not tell who wrote it: somebody who can change
//! the model can seal it again.

pub(crate) mod places;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodstone_model::{Model, Parameter};
use lodstone_store::{
    Blob, CheckedJson, Checks, Error as StoreError, Flaw, Location, Output, PIECE, Part, Progress,
    SEAL, SEAL_FILE, Schema, check_relative, plain,
};
use serde::de::{SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Result;

/// What the models in a directory were when they were sealed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seal {
    schema: Schema<1>,
    checksum: String,
    piece: u64,
    /// The models, in the order in which they were sealed.
    pub models: Vec<SealedModel>,
}

/// A model that was sealed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SealedModel {
    /// The format it was read from.
    pub format: String,
    /// Its files.
    pub files: Vec<SealedFile>,
}

/// A file of a model that was sealed.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Written")]
pub struct SealedFile {
    /// Its name, relative to the directory.
    pub name: String,
    /// What it should be.
    pub checks: Arc<Checks>,
}

/// A [`SealedFile`] as it is read.
#[derive(Deserialize)]
struct Written {
    name: String,
    size: u64,
    #[serde(deserialize_with = "parts")]
    parts: Vec<Part>,
}

/// A [`Part`] as it is read.
#[derive(Deserialize)]
struct Stretch {
    #[serde(default)]
    tensor: Option<String>,
    offset: u64,
    size: u64,
    checksums: Vec<Sum>,
}

/// A [`SealedFile`] as it is written.
#[derive(Serialize)]
struct FileText<'a> {
    name: &'a str,
    size: u64,
    parts: Each<'a, Part>,
}

/// A [`Part`] as it is written.
#[derive(Serialize)]
struct PartText<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tensor: Option<&'a str>,
    offset: u64,
    size: u64,
    checksums: Each<'a, u64>,
}

/// What is written one by one, so that nothing is there twice.
struct Each<'a, T>(&'a [T]);

/// A checksum as it is written: 16 hexadecimal digits.
struct Sum(u64);

const ALGORITHM: &str = "CRC-64/NVME";

impl Default for Seal {
    /// The seal of no models.
    fn default() -> Self {
        let (schema, checksum, models) = (Schema, ALGORITHM.to_owned(), Vec::new());
        Self { schema, checksum, piece: PIECE, models }
    }
}

impl Seal {
    /// Reads the seal of a directory; `None` if it has none.
    ///
    /// # Errors
    /// If it cannot be read or [used](StoreError::Unusable), or is larger than 128 MiB.
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
    /// What writing returns, or if it would be larger than one that is read.
    pub fn write(&self, out: &mut Output) -> Result<()> {
        Ok(SEAL_FILE.write(out, self)?)
    }

    /// The file of that name, if it was sealed.
    pub fn file(&self, name: &str) -> Option<&SealedFile> {
        self.models.iter().flat_map(|model| &model.files).find(|file| file.name == name)
    }

    /// What every file should be, by name.
    pub fn checks(&self) -> HashMap<String, Arc<Checks>> {
        let files = self.models.iter().flat_map(|model| &model.files);
        files.map(|file| (file.name.clone(), Arc::clone(&file.checks))).collect()
    }

    /// Takes out the models that have one of these files, and gives them.
    pub fn remove(&mut self, names: &[String]) -> Vec<SealedModel> {
        let has_one = |model: &SealedModel| model.files.iter().any(|f| names.contains(&f.name));
        let (removed, kept) = std::mem::take(&mut self.models).into_iter().partition(has_one);
        self.models = kept;
        removed
    }

    /// Whether there is a file of these models that it does not have.
    pub fn lacks_one_of(&self, models: &[SealedModel]) -> bool {
        let mut files = models.iter().flat_map(|model| &model.files);
        files.any(|file| self.file(&file.name).is_none())
    }
}

/// Fails unless the files that a seal or manifest in `directory` lists have one name each, which stays in the directory.
///
/// # Errors
/// [`StoreError::Escapes`], or [`StoreError::Unusable`]: of two files of one name, one reader would trust the first, another
/// the second.
pub fn check_names<'a>(
    files: impl IntoIterator<Item = &'a SealedFile>,
    kind: &CheckedJson,
    directory: &Location,
) -> Result<(), StoreError> {
    let mut names = HashSet::new();
    for SealedFile { name, .. } in files {
        check_relative(name)?;
        if plain(name) != *name {
            let what = format!("it lists a file by another name: `{name}`");
            return Err(kind.contradiction(directory, what));
        }
        if !names.insert(name) {
            return Err(kind.contradiction(directory, format!("it has `{name}` twice")));
        }
    }
    Ok(())
}

impl SealedModel {
    /// A model as it is now, whose files are all below `root`.
    ///
    /// # Errors
    /// What reading gives, or if the work was cancelled.
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

/// Where the tensors of a model are in its files.
#[derive(Debug)]
pub struct TensorRanges(HashMap<PathBuf, Vec<(u64, u64, String)>>);

impl TensorRanges {
    /// Those of a model.
    pub fn of(model: &Model) -> Self {
        let mut ranges: HashMap<_, Vec<_>> = HashMap::new();
        for (number, Parameter { name, tensor }) in model.parameters.iter().enumerate() {
            for (file, offset, len) in tensor.blobs().flat_map(Blob::file_ranges) {
                // Not `entry`: most tensors are in a file that is known.
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

/// What a tensor is called where it needs a name: `#3` if it has none.
pub fn called(name: &str, number: usize) -> String {
    if name.is_empty() { format!("#{number}") } else { name.to_owned() }
}

impl SealedFile {
    /// A file as it is now, in parts: the tensors, and what is between them.
    ///
    /// # Errors
    /// What reading gives, or if the work was cancelled.
    pub fn of(
        name: String,
        file: &Blob,
        tensors: &mut TensorRanges,
        progress: &Progress,
    ) -> Result<Self> {
        let path = file.file_range().map(|(file, _)| file.path());
        let mut tensors = path.and_then(|path| tensors.0.remove(path)).unwrap_or_default();
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
            // Tensors may share bytes: those belong to the first.
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

/// Why parts are not those of a file.
#[derive(Debug, thiserror::Error)]
enum Contradiction {
    #[error("the parts of `{0}` are not the whole file")]
    Incomplete(String),
    #[error("the parts of `{name}` are {found} bytes, not {size}")]
    Size { name: String, found: u64, size: u64 },
}

/// The checks of a file whose parts these are.
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

/// Reads parts, of which there may be very many, into little more than they need.
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
                    // By a quarter: to double them needs three times as much meanwhile.
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

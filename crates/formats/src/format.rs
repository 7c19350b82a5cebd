//! What a format is.

use bytes::Bytes;
use lodstone_model::{Model, Residual, Tensor};
use lodstone_store::{Blob, Location, check_unreserved};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Holds, OpenOptions, Result, Staged, WriteOptions, Written};

/// A format: what it looks like, what it holds, how it is read and written.
#[derive(Debug)]
pub struct Format {
    /// Its name, as in `--to NAME`.
    pub name: &'static str,
    /// What it is, in a few words.
    pub title: &'static str,
    /// What it has a place for.
    pub holds: Holds,
    /// Whether it can be [split](WriteOptions::max_shard_size) into files of a size.
    pub splits: bool,
    /// Whether its elements can be [aligned](WriteOptions::align).
    pub aligns: bool,
    /// Whether elements can be [kept in other files](WriteOptions::external_data).
    pub externals: bool,
    /// What the names of its files end in, after a dot, or a dash if it has a dot itself; such a path
    /// asks for this format.
    pub extension: &'static str,
    /// Whether it writes into a directory by itself; of other formats a file in it is written.
    pub into_directory: bool,
    /// How a prefix leads to its files, if they share one.
    pub prefix: Option<Prefix>,
    /// Whether something looks like it.
    pub detect: fn(&Probe<'_>) -> bool,
    /// Opens one record of a file, if its records have no names.
    pub record: Option<OpenRecord>,
    /// Whether it reads a member of an archive that has this name.
    pub reads_member: fn(&str) -> bool,
    /// The name of a tensor without the kind of its variable, which some formats put before it.
    pub variable_of: fn(&str) -> &str,
    /// Opens a model.
    pub read: fn(&Location, &OpenOptions) -> Result<Model>,
    /// Writes a model, without publishing it.
    pub stage: fn(&Model, &Location, &WriteOptions) -> Result<Staged>,
}

/// Opens the tensor with a number, counted from 0, without reading the elements of those before it; `None` if the file
/// is something else.
pub type OpenRecord = fn(&Location, usize, &OpenOptions) -> Result<Option<Tensor>>;

/// Files that are known by what their names have in common.
#[derive(Clone, Copy, Debug)]
pub struct Prefix {
    /// What is added to a prefix, for messages: `.pdmodel`.
    pub endings: &'static [&'static str],
    /// The file that a prefix leads to, if there is one.
    pub find: fn(&Location) -> Option<Location>,
}

/// What is known of a path before a format is chosen.
#[derive(Debug)]
pub struct Probe<'a> {
    /// Where it is.
    pub path: &'a Location,
    /// The first bytes, 4096 at most; empty for a directory.
    pub head: &'a [u8],
    /// Size of the file in bytes.
    pub len: u64,
    /// Names of the entries, if it is a directory.
    pub entries: Option<&'a [lodstone_store::Entry]>,
}

impl Format {
    /// Writes a model.
    ///
    /// # Errors
    /// If the format has no place for it; or what reading and writing give. Then nothing was
    /// written.
    pub fn write(
        &self,
        model: &Model,
        path: impl Into<Location>,
        options: &WriteOptions,
    ) -> Result<Written> {
        let mut path = path.into();
        if path.names_directory() && !self.into_directory {
            path = self.file_in(&path, model, options);
        }
        // What is above it is the user's own.
        check_unreserved(&path.file_name().unwrap_or_default().to_string_lossy())?;
        (self.stage)(model, &path, options)?.publish(self, model, options)
    }

    /// The file in a directory that a model is written to: the one that it was read from, if its format and its files
    /// are [kept](WriteOptions::same), or else `model` with the extension of the format.
    pub(crate) fn file_in(
        &self,
        directory: &Location,
        model: &Model,
        options: &WriteOptions,
    ) -> Location {
        let range = model.files.first().filter(|_| options.same).and_then(Blob::file_range);
        if let Some(name) = range.and_then(|(file, _)| file.path().file_name()) {
            return directory.join(name);
        }
        match self.extension {
            "" => directory.join("model"),
            end if end.contains('.') => directory.join(format!("model-{end}")),
            end => directory.join(format!("model.{end}")),
        }
    }

    /// Whether a path that is written to asks for this format by its name.
    pub fn is_named_by(&self, path: &Location) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let stem = name.strip_suffix(self.extension).filter(|_| !self.extension.is_empty());
        // A dash stands before what has a dot of its own: `x-symbol.json`.
        let dash = self.extension.contains('.');
        stem.is_some_and(|stem| stem.ends_with('.') || (dash && stem.ends_with('-')))
    }
}

/// What `owner` remembers of a model as JSON.
///
/// # Errors
/// If that is not what it remembered, which is a defect.
pub(crate) fn recall<T: DeserializeOwned>(model: &Model, owner: &str) -> Result<Option<T>> {
    let read = |json: &Bytes| serde_json::from_slice(json);
    let recalled = model.residual.of(owner).map(read).transpose();
    recalled.map_err(|_| Error::internal("a layout was remembered as something else"))
}

/// The number of a block as programs have it.
///
/// # Errors
/// If there are more blocks than it can number, which no file has room for.
pub(crate) fn block_number(block: usize) -> Result<i32> {
    i32::try_from(block).map_err(|_| Error::internal("a program has too many blocks"))
}

/// The extents of a tensor as most formats have them.
///
/// # Errors
/// If one is larger.
pub(crate) fn signed_dims(format: &'static str, name: &str, dims: &[u64]) -> Result<Vec<i64>> {
    let signed: Result<_, _> = dims.iter().map(|extent| i64::try_from(*extent)).collect();
    let what = || format!("the tensor `{name}` of shape {dims:?}");
    signed.map_err(|_| Error::Incompatible { format, what: what() })
}

/// Lets `owner` remember something of a model, as JSON.
///
/// # Errors
/// If JSON has no place for it, which is a defect.
pub(crate) fn remember(
    model: &mut Model,
    owner: &'static str,
    what: &impl Serialize,
) -> Result<()> {
    let json = serde_json::to_vec(what).map_err(|_| Error::internal("a layout is no JSON"))?;
    model.residual = Residual::new(owner, json.into());
    Ok(())
}

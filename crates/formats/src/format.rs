//! Descriptions of formats.

use bytes::Bytes;
use lodstone_model::{Limits, Model, Residual, Tensor};
use lodstone_store::{Blob, Location, check_unreserved};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::byte_map::Mapper;
use crate::error::{Error, Result};
use crate::options::{Holds, OpenOptions, WriteOptions};
use crate::scan::Opaque;
use crate::sharding::ShardFormat;
use crate::staged::{Staged, Written};

/// A format: detection, capabilities, reader and writer.
#[derive(Debug)]
pub struct Format {
    /// The name, as in `--to NAME`.
    pub name: &'static str,
    /// A short description.
    pub title: &'static str,
    /// The framework that defines the format, by the name that it is known by.
    pub framework: &'static str,
    /// The framework of its tensors, as metadata of other formats names it.
    pub framework_tag: Option<&'static str>,
    /// What the format can represent.
    pub holds: Holds,
    /// Whether its files are text, of which the first holds the program.
    pub is_text: bool,
    /// The models that the writer accepts, of those that the format can represent.
    pub writes: Writes,
    /// The format for tensors alone, if files of this one have no meaning without a program.
    pub alone: Option<&'static str>,
    /// Whether the format can be [split](WriteOptions::max_shard_size) into files of a maximum size.
    pub splits: bool,
    /// Whether the format supports [aligned](WriteOptions::align) elements.
    pub aligns: bool,
    /// Whether the format can store elements in [separate files](WriteOptions::external_data).
    pub externals: bool,
    /// The extension of its files, after a dot, or after a dash if the extension itself contains a dot. An output path
    /// with this extension selects the format.
    pub extension: &'static str,
    /// Other extensions that its files have elsewhere. They select the format of an output, too.
    pub other_extensions: &'static [&'static str],
    /// Whether the writer itself writes into a directory; other formats write a file in it.
    pub into_directory: bool,
    /// The lookup of its files by a common prefix, if they share one.
    pub prefix: Option<Prefix>,
    /// Returns whether a path looks like the format.
    pub detect: fn(&Probe<'_>) -> bool,
    /// Opens one record of a file, if the records have no names.
    pub record: Option<OpenRecord>,
    /// Returns whether the format reads the archive member of this name.
    pub reads_member: fn(&str) -> bool,
    /// Strips the prefix that some formats add to a tensor name for the kind of its variable.
    pub variable_of: fn(&str) -> &str,
    /// The byte maps of its files, each with its detection. A file has the first one, in the order of formats, that
    /// detects it.
    pub byte_maps: &'static [&'static Mapper],
    /// The names of the files of a model, unless it is a single file with the extension: tests make such models.
    pub files: &'static [&'static str],
    /// The bounds and the structure of its files, if a model is a single file: tests damage such files at every byte.
    pub structure: Option<Structure>,
    /// The layout in shards, if the format has one.
    pub shards: Option<&'static ShardFormat>,
    /// Returns the parts of a file of the format that other software interprets; scans inspect them by themselves.
    pub(crate) opaque: Option<fn(&Blob, &Limits) -> Option<Opaque>>,
    /// Opens a model.
    pub read: fn(&Location, &OpenOptions) -> Result<Model>,
    /// Stages a model without publishing it.
    pub stage: fn(&Model, &Location, &WriteOptions) -> Result<Staged>,
}

/// The models that a writer accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Models of all formats.
    All,
    /// Models of its own format, which may be edited.
    Own,
    /// Models of its own format that were not edited.
    Unedited,
}

/// The bounds of a reader of single files, and the places where such files have structure.
#[derive(Clone, Copy, Debug)]
pub struct Structure {
    /// The memory that the reader may hold: this many times the bytes of the file ...
    pub memory_factor: usize,
    /// ... plus this many bytes.
    pub memory_constant: usize,
    /// Bytes that have a meaning in the format.
    pub tokens: &'static [u8],
    /// The number of structural bytes at the beginning of a file.
    pub head: usize,
    /// The number of structural bytes at the end of a file.
    pub tail: usize,
}

impl Structure {
    /// Messages, records and headers of binary numbers.
    pub(crate) const BINARY: Self = Self {
        memory_factor: 2,
        memory_constant: 64 << 10,
        // Ends of ranges, and tags.
        tokens: &[0, 1, 8, 0x7f, 0x80, 0xfe, 0xff, 0x0a],
        head: 128,
        tail: 0,
    };

    /// Protobuf's text format.
    pub(crate) const TEXT: Self = Self { tokens: b"0123456789{}[]<>:\"\\#,;-.ef", ..Self::BINARY };

    /// NumPy's arrays, alone or in an archive.
    pub(crate) const ARRAYS: Self = Self {
        memory_factor: 2,
        memory_constant: 768 << 10,
        tokens: b"0123456789(){},:'<>\xff",
        head: 600,
        tail: 600,
    };

    /// Pickles. A value of one byte is a struct.
    pub(crate) const PICKLE: Self = Self {
        memory_factor: 200,
        memory_constant: 1 << 20,
        tokens: b"(.012RbceiohjqrstuX\x80\x81\x85\x86\x87\x8c\x93\x94\x95",
        head: 600,
        tail: 64,
    };
}

/// Opens the tensor at an index, counted from 0, without reading the elements of those before it; `None` if the file
/// does not consist of records.
pub type OpenRecord = fn(&Location, usize, &OpenOptions) -> Result<Option<Tensor>>;

/// The lookup of files by a common prefix.
#[derive(Clone, Copy, Debug)]
pub struct Prefix {
    /// Endings that are appended to a prefix, for messages: `.pdmodel`.
    pub endings: &'static [&'static str],
    /// Finds the file of a prefix.
    pub find: fn(&Location) -> Result<Option<Location>>,
}

/// The properties of a path by which a format is detected.
#[derive(Debug)]
pub struct Probe<'a> {
    /// The location.
    pub path: &'a Location,
    /// The first bytes, at most 4096; empty for a directory.
    pub head: &'a [u8],
    /// Size of the file in bytes.
    pub len: u64,
    /// The entries, if the path is a directory.
    pub entries: Option<&'a [lodstone_store::Entry]>,
}

impl Format {
    /// A format without special properties, which others are based on. It detects, reads and writes nothing.
    pub(crate) const PLAIN: Self = Self {
        name: "",
        title: "",
        framework: "",
        framework_tag: None,
        holds: Holds::NOTHING,
        is_text: false,
        writes: Writes::All,
        alone: None,
        splits: false,
        aligns: false,
        externals: false,
        extension: "",
        other_extensions: &[],
        into_directory: false,
        prefix: None,
        detect: |_| false,
        record: None,
        reads_member: |_| false,
        variable_of: |name| name,
        byte_maps: &[],
        files: &[],
        structure: None,
        shards: None,
        opaque: None,
        read: |_, _| Err(Error::internal("a format has no reader")),
        stage: |_, _, _| Err(Error::internal("a format has no writer")),
    };

    /// Writes a model.
    ///
    /// # Errors
    /// Fails without writing anything if the format cannot represent the model, or if reading or writing
    /// fails.
    pub fn write(
        &self,
        model: &Model,
        path: impl Into<Location>,
        options: &WriteOptions,
    ) -> Result<Written> {
        let mut path = path.into();
        if path.names_directory()? && !self.into_directory {
            path = self.file_in(&path, model, options);
        }
        // The parent directories are the user's choice.
        check_unreserved(&path.file_name().unwrap_or_default().to_string_lossy())?;
        (self.stage)(model, &path, options)?.publish(self, model, options)
    }

    /// Returns the path of the file in a directory that a model is written to: the one that the model was read from, if
    /// its format and files are [kept](WriteOptions::same), or `model` with the extension of the format.
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

    /// Returns whether the name of an output path selects this format.
    pub fn is_selected_by(&self, path: &Location) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let ends = |end: &&str| name.strip_suffix(end).is_some_and(|stem| stem.ends_with('.'));
        self.is_named_by(path) || self.other_extensions.iter().any(ends)
    }

    /// Returns whether a path has the extension of this format.
    pub fn is_named_by(&self, path: &Location) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let stem = name.strip_suffix(self.extension).filter(|_| !self.extension.is_empty());
        // An extension with its own dot follows a dash: `x-symbol.json`.
        let dash = self.extension.contains('.');
        stem.is_some_and(|stem| stem.ends_with('.') || (dash && stem.ends_with('-')))
    }
}

/// Returns what `owner` stored in a model as JSON.
///
/// # Errors
/// Fails if the JSON has another type, which is a defect.
pub(crate) fn recall<T: DeserializeOwned>(model: &Model, owner: &str) -> Result<Option<T>> {
    let read = |json: &Bytes| serde_json::from_slice(json);
    let recalled = model.residual.of(owner).map(read).transpose();
    recalled.map_err(|_| Error::internal("a stored layout has another type"))
}

/// Returns the index of a block in the type that programs use.
///
/// # Errors
/// Fails if the index overflows, which no file is large enough for.
pub(crate) fn block_number(block: usize) -> Result<i32> {
    i32::try_from(block).map_err(|_| Error::internal("a program has too many blocks"))
}

/// Returns the dims of a tensor in the signed type that most formats use.
///
/// # Errors
/// Fails if a dim overflows.
pub(crate) fn signed_dims(format: &'static str, name: &str, dims: &[u64]) -> Result<Vec<i64>> {
    let signed: Result<_, _> = dims.iter().map(|dim| i64::try_from(*dim)).collect();
    let what = || format!("the tensor `{name}` of shape {dims:?}");
    signed.map_err(|_| Error::Incompatible { format, what: what() })
}

/// Stores a value of `owner` in a model, as JSON.
///
/// # Errors
/// Fails if the value cannot be encoded as JSON, which is a defect.
pub(crate) fn remember(
    model: &mut Model,
    owner: &'static str,
    what: &impl Serialize,
) -> Result<()> {
    let json = serde_json::to_vec(what)
        .map_err(|_| Error::internal("a layout cannot be encoded as JSON"))?;
    model.residual = Residual::new(owner, json.into());
    Ok(())
}

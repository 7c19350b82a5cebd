//! Paths to models.

use bytes::Bytes;
use lodstone_formats::{FORMATS, OpenOptions, Probe, check_sealed};
use lodstone_model::Model;
use lodstone_store::{Location, MemoryStore, Recovery};

use crate::Result;

/// Opens a model: a file, a directory, or the prefix that its files share.
///
/// The format is found by content. Tensors are not read.
///
/// # Errors
/// If there is no model at `path`, no format knows it, or it is damaged; if it is sealed, and not all of
/// its files are.
pub fn open(path: impl Into<Location>) -> Result<Model> {
    open_with(path, &OpenOptions::default())
}

/// Opens a model with options.
///
/// # Errors
/// As [`open`].
pub fn open_with(path: impl Into<Location>, options: &OpenOptions) -> Result<Model> {
    let path = path.into();
    let mut model = open_files(&path, options)?;
    check_sealed(&path, &mut model, options)?;
    Ok(model)
}

/// Opens a model that is one file in memory; tensors share its bytes.
///
/// A model of several files opens from a [`MemoryStore`] that holds them.
///
/// # Errors
/// As [`open`]; messages call the file `memory`.
pub fn open_bytes(bytes: impl Into<Bytes>) -> Result<Model> {
    open_bytes_with(bytes, &OpenOptions::default())
}

/// Opens a model in memory with options.
///
/// # Errors
/// As [`open_bytes`].
pub fn open_bytes_with(bytes: impl Into<Bytes>, options: &OpenOptions) -> Result<Model> {
    const NAME: &str = "memory";
    let store = MemoryStore::default();
    store.insert(NAME, bytes).map_err(lodstone_formats::Error::from)?;
    open_with(store.location(NAME), options)
}

/// Opens a model of which some files may be sealed, and others not.
pub(crate) fn open_files(path: &Location, options: &OpenOptions) -> Result<Model> {
    if !path.exists() {
        return open_prefix(path, options);
    }
    let (mut head, mut len, mut entries) = (Vec::new(), 0, None);
    if path.is_dir() {
        entries = Some(path.list()?);
    } else {
        let blob = options.file(path)?;
        len = blob.len();
        head = blob.head(4096)?;
    }
    let probe = Probe { path, head: &head, len, entries: entries.as_deref() };
    let mut formats = FORMATS.iter().filter(|format| (format.detect)(&probe));
    let Some(format) = formats.next() else {
        return Err(unrecognized(path, &head, entries.is_some()).into());
    };
    let mut model = (format.read)(path, options)?;
    if entries.is_some()
        && let Some(other) = formats.next()
    {
        let (this, other) = (format.name, other.name);
        model.report.warn(format!("the directory holds a {other} model too; {this} was opened"));
    }
    Ok(model)
}

/// Finishes a write into a directory that was interrupted, and removes what killed processes have left in it
/// and beside it.
///
/// # Errors
/// If the directory cannot be opened, or a file cannot be put in its place.
pub fn recover(directory: impl Into<Location>) -> lodstone_store::Result<Recovery> {
    directory.into().recover()
}

/// Opens the model whose files share the beginning `prefix` of their names.
fn open_prefix(prefix: &Location, options: &OpenOptions) -> Result<Model> {
    let prefixes = || FORMATS.iter().filter_map(|format| Some((format, format.prefix.as_ref()?)));
    let mut found = prefixes().filter(|(_, hook)| (hook.find)(prefix).is_some());
    let Some((format, _)) = found.next() else {
        let endings: Vec<_> = prefixes().flat_map(|(_, hook)| hook.endings).copied().collect();
        let endings = endings.join("`, `");
        let why = format!("there is no such file or directory, nor one with `{endings}` added");
        let path = prefix.to_path_buf();
        return Err(lodstone_formats::Error::NoModel { path, why }.into());
    };
    let mut model = (format.read)(prefix, options)?;
    if let Some((other, _)) = found.next() {
        let (this, other) = (format.name, other.name);
        model
            .report
            .warn(format!("there is a {other} model of this prefix too; {this} was opened"));
    }
    Ok(model)
}

fn unrecognized(path: &Location, head: &[u8], is_dir: bool) -> lodstone_formats::Error {
    let path = path.to_path_buf();
    if is_dir {
        let why = "no file in the directory is one of a model".to_owned();
        return lodstone_formats::Error::NoModel { path, why };
    }
    let found = match head.first_chunk::<16>() {
        Some(start) => format!("`{}`", start.escape_ascii()),
        None if head.is_empty() => "nothing: it is empty".to_owned(),
        None => format!("`{}`", head.escape_ascii()),
    };
    lodstone_formats::Error::Unrecognized { path, found }
}

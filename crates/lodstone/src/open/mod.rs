//! Opening models by path.

mod tensor;

use std::collections::HashMap;

use bytes::Bytes;
use lodstone_checkpoint::{RESHARDING, is_unfinished};
use lodstone_formats::{FORMATS, Format, OpenOptions, Probe, check_sealed, identify, unrecognized};
use lodstone_model::{Model, Parameter, some};
use lodstone_schema::conventions;
use lodstone_store::{Blob, Entry, Location, MemoryStore, Recovery};

use crate::error::no_program_called;
use crate::serial::open_checkpoint;
pub use crate::serial::open_serial;
use crate::{Error, Result};
pub use tensor::{OpenedTensor, only_tensor, tensor_at, tensor_named};

/// Opens a model: a file, a directory, or the prefix that its files share.
///
/// The format is detected by content. Tensors are read on access.
///
/// # Errors
/// Fails if there is no model at `path`, its format is not recognized, or it is damaged, and if the model is sealed,
/// but some of its files are not.
pub fn open(path: impl Into<Location>) -> Result<Model> {
    open_with(path, &OpenOptions::default())
}

/// Opens a model with options.
///
/// # Errors
/// The errors of [`open`].
pub fn open_with(path: impl Into<Location>, options: &OpenOptions) -> Result<Model> {
    let path = path.into();
    let mut model = match open_files(&path, options) {
        Err(error) => open_with_named(&path, options).unwrap_or(Err(error))?,
        Ok(model) => model,
    };
    check_sealed(&path, &model, options)?;
    if let Some(name) = &options.program {
        choose(&mut model, name)?;
    }
    Ok(model)
}

/// Makes a program the only one of a model.
fn choose(model: &mut Model, name: &str) -> Result<()> {
    let Some(program) = model.programs.remove(name) else {
        return Err(no_program_called(model, name));
    };
    model.programs = program.into();
    Ok(())
}

/// Opens a program with parameters of another format, which have names; tensors that the program does not have are
/// ignored. Returns `None` if the parameters are none, are part of the program's own format, or have no names.
fn open_with_named(path: &Location, options: &OpenOptions) -> Option<Result<Model>> {
    let params = options.params.as_ref()?;
    let plain = options.clone().with_params(None);
    let named = open_files(params, &plain).ok()?;
    if named.parameters.is_empty() || named.parameters.iter().any(|one| one.name.is_empty()) {
        return None;
    }
    let mut model = open_files(path, &plain).ok()?;
    let wanted = model.main().map(|program| (conventions(program).parameters)(program))?;
    let mut known: HashMap<String, Parameter> =
        named.parameters.into_iter().map(|one| (one.name.clone(), one)).collect();
    let (mut parameters, mut missing) = (Vec::new(), Vec::new());
    for name in wanted {
        match known.remove(&name) {
            Some(parameter) => parameters.push(parameter),
            None => missing.push(format!("`{name}`")),
        }
    }
    if !missing.is_empty() {
        let what = format!("expected a tensor for each parameter, missing {}", some(missing));
        let path = params.to_path_buf();
        return Some(Err(lodstone_formats::Error::Mismatch { path, what }.into()));
    }
    if !known.is_empty() {
        let (count, path) = (known.len(), params.display());
        let warning = format!("ignored {count} tensors of `{path}` that the program does not have");
        model.report.warn(warning);
    }
    // The program was opened without them.
    model.report.warnings.retain(|warning| !warning.starts_with("parameters of the program"));
    model.parameters = parameters;
    model.files.extend(named.files);
    model.checksums = named.checksums;
    Some(Ok(model))
}

/// Opens a model that is a single file in memory; tensors share its bytes.
///
/// A model of several files opens from a [`MemoryStore`] that holds them.
///
/// # Errors
/// The errors of [`open`]; messages call the file `memory`.
pub fn open_bytes(bytes: impl Into<Bytes>) -> Result<Model> {
    open_bytes_with(bytes, &OpenOptions::default())
}

/// Opens a model in memory with options.
///
/// # Errors
/// The errors of [`open_bytes`].
pub fn open_bytes_with(bytes: impl Into<Bytes>, options: &OpenOptions) -> Result<Model> {
    const NAME: &str = "memory";
    let store = MemoryStore::default();
    store.insert(NAME, bytes).map_err(lodstone_formats::Error::from)?;
    open_with(store.location(NAME), options)
}

/// Opens a model of which only some files may be sealed.
pub(crate) fn open_files(path: &Location, options: &OpenOptions) -> Result<Model> {
    if !path.exists()? {
        return open_prefix(path, options);
    }
    if !path.is_dir()? {
        let file = options.file(path)?;
        let head = file.head(4096)?;
        let probe = Probe { path, head: &head, len: file.len(), entries: None };
        let format = FORMATS.iter().find(|format| (format.detect)(&probe));
        let format = format.ok_or_else(|| unrecognized(&file, &probe))?;
        return Ok((format.read)(path, options)?);
    }
    if let Some(model) = open_checkpoint(path, options)? {
        return Ok(model);
    }
    let entries = path.list()?;
    let is_work = |entry: &Entry| entry.is_dir && entry.name == RESHARDING;
    if entries.iter().any(is_work) && is_unfinished(path)? {
        return Err(lodstone_checkpoint::Error::Unfinished(path.to_path_buf()).into());
    }
    open_directory(path, &entries, options).map_err(|error| match error {
        Error::Format(lodstone_formats::Error::NoModel { path: directory, mut why }) => {
            let inner = models_in_subdirectories(path, &entries, options);
            if !inner.is_empty() {
                why += "; its subdirectories have models, open one of them: ";
                why += &some(inner);
            }
            lodstone_formats::Error::NoModel { path: directory, why }.into()
        }
        error => error,
    })
}

/// Opens the model whose files are in a directory.
fn open_directory(path: &Location, entries: &[Entry], options: &OpenOptions) -> Result<Model> {
    let probe = Probe { path, head: &[], len: 0, entries: Some(entries) };
    let mut formats = FORMATS.iter().filter(|format| (format.detect)(&probe));
    let Some(format) = formats.next() else { return open_only_model_in(path, entries, options) };
    let mut model = (format.read)(path, options)?;
    if let Some(other) = formats.next() {
        let (this, other) = (format.name, other.name);
        let warning =
            format!("the directory also contains a {other} model; opened the {this} model");
        model.report.warn(warning);
    }
    Ok(model)
}

/// Returns the subdirectories that are models, or have files of models, for a message: what cannot be read is none.
fn models_in_subdirectories(
    path: &Location,
    entries: &[Entry],
    options: &OpenOptions,
) -> Vec<String> {
    /// The maximum number of entries of each directory that are looked at.
    const MAX_ENTRIES: usize = 100;
    let is_model = |probe: &Probe<'_>| FORMATS.iter().any(|format| (format.detect)(probe));
    let is_file_of_model = |path: &Location| {
        let Ok(file) = options.file(path) else { return false };
        let Ok(head) = file.head(4096) else { return false };
        is_model(&Probe { path, head: &head, len: file.len(), entries: None })
    };
    let has_model = |entry: &&Entry| {
        let inner = path.join(&entry.name);
        let Ok(entries) = inner.list() else { return false };
        let mut files = entries.iter().filter(|entry| !entry.is_dir).take(MAX_ENTRIES);
        is_model(&Probe { path: &inner, head: &[], len: 0, entries: Some(&entries) })
            || files.any(|file| is_file_of_model(&inner.join(&file.name)))
    };
    let directories = entries.iter().filter(|entry| entry.is_dir).take(MAX_ENTRIES);
    let mut names: Vec<String> =
        directories.filter(has_model).map(|entry| format!("`{}`", entry.name)).collect();
    names.sort();
    names
}

/// Completes an interrupted write into a directory, and removes the temporary files of killed processes
/// in it and beside it.
///
/// # Errors
/// If the directory cannot be opened, or a file cannot be moved into place.
pub fn recover(directory: impl Into<Location>) -> lodstone_store::Result<Recovery> {
    directory.into().recover()
}

/// Opens the model whose files share the name prefix `prefix`.
fn open_prefix(prefix: &Location, options: &OpenOptions) -> Result<Model> {
    let prefixes = || FORMATS.iter().filter_map(|format| Some((format, format.prefix.as_ref()?)));
    let mut found = Vec::new();
    for (format, hook) in prefixes() {
        if (hook.find)(prefix)?.is_some() {
            found.push(format);
        }
    }
    let mut found = found.into_iter();
    let Some(format) = found.next() else {
        let endings: Vec<_> = prefixes().flat_map(|(_, hook)| hook.endings).copied().collect();
        let endings = endings.join("`, `");
        let why = format!("no such file or directory, nor with the suffix `{endings}`");
        let path = prefix.to_path_buf();
        return Err(lodstone_formats::Error::NoModel { path, why }.into());
    };
    let mut model = (format.read)(prefix, options)?;
    if let Some(other) = found.next() {
        let (this, other) = (format.name, other.name);
        let warning = format!("a {other} model has the same prefix; opened the {this} model");
        model.report.warn(warning);
    }
    Ok(model)
}

/// Opens the only model file of a directory. If there are several, only programs count, if there are some, or else files with
/// the extension of their format: the others may be parts of them, or arrays beside them.
fn open_only_model_in(
    directory: &Location,
    entries: &[Entry],
    options: &OpenOptions,
) -> Result<Model> {
    /// The maximum number of files in the directory.
    const MAX_FILES: usize = 10_000;
    let no_model = |why: String| {
        let path = directory.to_path_buf();
        lodstone_formats::Error::NoModel { path, why }
    };
    let files = || entries.iter().filter(|entry| !entry.is_dir).map(|entry| entry.name.as_str());
    if files().count() > MAX_FILES {
        return Err(no_model(format!("it has more than {MAX_FILES} files")).into());
    }
    let (mut found, mut not_read) = (Vec::new(), Vec::new());
    for name in files() {
        let path = directory.join(name);
        let blob = options.file(&path)?;
        let (head, len) = (blob.head(4096)?, blob.len());
        let probe = Probe { path: &path, head: &head, len, entries: None };
        match FORMATS.iter().find(|format| (format.detect)(&probe)) {
            Some(format) => found.push((path.clone(), format)),
            None => not_read.extend(identify(&probe).map(|what| format!("`{name}` is {what}"))),
        }
    }
    let all: Vec<String> =
        found.iter().filter_map(|(path, _)| path.name()).map(str::to_owned).collect();
    let is_named = |path: &Location, format: &Format| format.is_named_by(path);
    if found.iter().any(|(_, format)| format.holds.program.is_some()) {
        found.retain(|(_, format)| format.holds.program.is_some());
    } else if found.iter().any(|(path, format)| is_named(path, format)) {
        found.retain(|(path, format)| is_named(path, format));
    }
    match found.as_slice() {
        [(path, _)] => {
            let mut model = open_files(path, options)?;
            let name = path.name().unwrap_or_default();
            let is_part = |other: &String| {
                let files = model.files.iter().flat_map(Blob::file_ranges);
                files.into_iter().any(|(file, ..)| file.location().name() == Some(other))
            };
            let others = all.iter().filter(|other| *other != name && !is_part(other));
            let others: Vec<String> = others.map(|other| format!("`{other}`")).collect();
            if !others.is_empty() {
                let others = some(others);
                let warning =
                    format!("the directory holds other files: {others}; `{name}` was opened");
                model.report.warn(warning);
            }
            Ok(model)
        }
        [] if not_read.is_empty() => {
            Err(no_model("no file in the directory is a model".to_owned()).into())
        }
        [] => Err(no_model(format!("{}, and reading it is not supported", some(&not_read))).into()),
        several => {
            let names = several.iter().filter_map(|(path, _)| path.name());
            let names = some(names.map(|name| format!("`{name}`")));
            Err(no_model(format!("the directory has several models, open one by path: {names}"))
                .into())
        }
    }
}

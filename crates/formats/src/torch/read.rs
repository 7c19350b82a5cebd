//! Opens files of PyTorch.

use lodstone_model::{Limits, Model};
use lodstone_store::{Blob, Location};

use super::archive::{Archive, Kind};
use super::object::Contents;
use super::{EXPORTED_NAME, SCRIPT_NAME, distributed, exported, package, saved, script};
use crate::encoding::zip::Member;
use crate::error::{Error, Result};
use crate::options::OpenOptions;

/// The program in archives until 2.7.
const EARLY_PROGRAM: &str = "serialized_exported_program.json";

/// Opens a file of `torch.save`, an index of shards, or a directory that holds one.
pub(super) fn read_saved(path: &Location, options: &OpenOptions) -> Result<Model> {
    if path.is_dir()? {
        let entries = path.list()?;
        let name = super::detect::index_of(&entries).ok_or_else(|| {
            let why = "expected one index of shards (`pytorch_model.bin.index.json`)".to_owned();
            Error::NoModel { path: path.to_path_buf(), why }
        })?;
        return distributed::read_index(&path.join(name), true, options);
    }
    let is_index =
        path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(distributed::INDEX));
    if is_index {
        return distributed::read_index(path, false, options);
    }
    read_blob(&options.file(path)?, &options.limits)
}

/// Opens a program of TorchScript.
pub(super) fn read_script(path: &Location, options: &OpenOptions) -> Result<Model> {
    read_script_blob(&options.file(path)?, &options.limits)
}

/// Opens an exported program.
pub(super) fn read_exported(path: &Location, options: &OpenOptions) -> Result<Model> {
    read_exported_blob(&options.file(path)?, &options.limits)
}

/// Reads a file of `torch.save`, of any release.
///
/// # Errors
/// Fails if the file is damaged; the error names the tensor or value, and the place.
pub fn read_blob(blob: &Blob, limits: &Limits) -> Result<Model> {
    saved::read_blob(blob, limits)
}

/// Reads the tensors of a program of TorchScript.
///
/// # Errors
/// The errors of [`read_blob`].
pub fn read_script_blob(blob: &Blob, limits: &Limits) -> Result<Model> {
    let archive = Archive::open(blob, limits)?;
    if !matches!(archive.kind, Kind::Script | Kind::EarlyScript) {
        return Err(blob.malformed(0, "a program of TorchScript", "another archive").into());
    }
    let contents = script::contents(&archive, limits)?;
    let mut model = model(&archive, SCRIPT_NAME, contents);
    match script::program(&archive, &model.parameters, limits)? {
        Ok(methods) => {
            model.programs = methods.programs;
            methods.notes.into_iter().for_each(|note| model.report.warn(note));
        }
        Err(what) => model.report.warn(format!("the program is not read: {what}")),
    }
    Ok(model)
}

/// Reads the weights and constants of exported programs.
///
/// # Errors
/// The errors of [`read_blob`].
pub fn read_exported_blob(blob: &Blob, limits: &Limits) -> Result<Model> {
    let archive = Archive::open(blob, limits)?;
    if !matches!(archive.kind, Kind::Exported | Kind::EarlyExported) {
        return Err(blob.malformed(0, "an exported program", "another archive").into());
    }
    let mut model = model(&archive, EXPORTED_NAME, Contents::default());
    package::parameters(&archive, limits, saved::read_blob, &mut model)?;
    let program = |(name, member): (&str, &Member)| match archive.kind {
        Kind::EarlyExported => {
            (name == EARLY_PROGRAM).then(|| ("model".to_owned(), member.clone()))
        }
        _ => {
            let name = name.strip_prefix("models/")?.strip_suffix(".json")?;
            Some((name.to_owned(), member.clone()))
        }
    };
    let members: Vec<(String, Member)> = archive.named().filter_map(program).collect();
    let mut programs = Vec::new();
    for (name, member) in members {
        programs.push((name, archive.bytes(&member)?));
    }
    exported::attach(&programs, limits, &mut model)?;
    Ok(model)
}

fn model(archive: &Archive, format: &str, contents: Contents) -> Model {
    let (format, checksums) = (format.to_owned(), archive.checksums());
    Model { format, checksums, ..saved::model(&archive.blob, contents) }
}

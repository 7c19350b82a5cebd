//! Writes files as they were.

use lodstone_model::{Limits, Model, Tensor};
use lodstone_store::{Blob, Location, Permuted};

use crate::error::{Error, Result};
use crate::options::WriteOptions;
use crate::staged::Staged;
use crate::torch::distributed;
use crate::torch::view::{Elements, OWNER};
use crate::torch::{
    EXECUTORCH_NAME, EXPORTED_NAME, NAME, SCRIPT_NAME, read_blob, read_executorch_blob,
    read_exported_blob, read_script_blob,
};

/// Writes the files of an unedited model.
///
/// # Errors
/// Fails if the model was not read from this format, or was edited.
pub(in crate::torch) fn write(
    format: &'static str,
    model: &Model,
    path: &Location,
    options: &WriteOptions,
) -> Result<Staged> {
    match unedited(format, model)? {
        Some(files) => files.write(path, options),
        None => {
            let what = "an edited model, or one of another format: its files are written back \
                        unchanged only";
            Err(Error::Incompatible { format, what: what.to_owned() })
        }
    }
}

/// The files of an unedited model.
pub(super) struct Files {
    files: Vec<Blob>,
    /// The names of the files in the directory of the model, and whether that was opened itself.
    names: Option<(Vec<String>, bool)>,
}

impl Files {
    /// Writes the files: one at `path`, several into a directory.
    pub(super) fn write(self, path: &Location, options: &WriteOptions) -> Result<Staged> {
        let Some((names, directory)) = self.names else {
            let file = self.files.first().cloned().unwrap_or_default();
            return Staged::file(path, options, |out| out.copy(&file));
        };
        let root = if directory { path.clone() } else { path.directory() };
        let mut staged = Staged::directory(&root, options)?;
        // The first file refers to the others, and is written last.
        for (name, file) in names.iter().zip(&self.files).rev() {
            staged.write(name, |out| out.copy(file))?;
        }
        let main = names.into_iter().next().unwrap_or_default();
        Ok(if directory { staged } else { staged.opened_by(main) })
    }
}

/// Returns the files of a model, if they still hold what the model does.
///
/// # Errors
/// Fails if reading fails.
pub(super) fn unedited(format: &str, model: &Model) -> Result<Option<Files>> {
    if model.format != format {
        return Ok(None);
    }
    let limits = Limits::none();
    let names = distributed::Layout::of(model)?;
    let then = match (&names, model.files.as_slice()) {
        (Some(layout), _) => layout.read_again(model, &limits),
        (None, [file]) => match format {
            NAME => read_blob(file, &limits),
            SCRIPT_NAME => read_script_blob(file, &limits),
            EXPORTED_NAME => read_exported_blob(file, &limits),
            EXECUTORCH_NAME => read_executorch_blob(file, &limits),
            _ => return Ok(None),
        },
        (None, _) => return Ok(None),
    };
    let Ok(then) = then else { return Ok(None) };
    let mut same = then.metadata == model.metadata
        && then.parameters.len() == model.parameters.len()
        && then.programs == model.programs;
    for (then, now) in then.parameters.iter().zip(&model.parameters) {
        same = same && then.name == now.name && is_same(&then.tensor, &now.tensor)?;
    }
    let names = names.map(|layout| (layout.names, layout.directory));
    Ok(same.then(|| Files { files: model.files.clone(), names }))
}

/// Returns whether two tensors are equal. Those that are the same view of a file, as almost all are, are not read.
fn is_same(then: &Tensor, now: &Tensor) -> Result<bool> {
    let kinds = std::mem::discriminant(&then.kind) == std::mem::discriminant(&now.kind);
    let views = then.residual.of(OWNER) == now.residual.of(OWNER);
    let types = (then.dtype, &then.shape, &then.lod) == (now.dtype, &now.shape, &now.lod);
    if !kinds || !types || then.blobs().count() != now.blobs().count() {
        return Ok(false);
    }
    for (then, now) in then.blobs().zip(now.blobs()) {
        let is_view = || views && source(then).zip(source(now)).is_some_and(|(a, b)| a.is(b));
        if !then.is(now) && !is_view() && !then.is_equal(now)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the bytes that the elements of a view are computed from.
fn source(blob: &Blob) -> Option<&Blob> {
    use lodstone_store::Derive as _;
    let of_view = blob.derivation::<Elements>().and_then(|elements| elements.source());
    of_view.or_else(|| blob.derivation::<Permuted>().and_then(|permuted| permuted.source()))
}

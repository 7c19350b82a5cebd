//! Reads tensors and metadata. Elements are not read, except for a scan of those that are
//! encoded as strings.

use lodstone_model::{Limits, Model, Parameter, Residual, some};
use lodstone_store::{Blob, Location};

use super::contents::{Contents, Elements, contents};
use super::{NAME, builds};
use crate::encoding::pickle::{self, Kept, Shapes, Span};
use crate::error::Result;
use crate::options::OpenOptions;

/// Opens the states of an optimizer.
///
/// # Errors
/// The errors of [`read_blob`].
pub(super) fn read(path: &Location, options: &OpenOptions) -> Result<Model> {
    read_blob(&options.file(path)?, &options.limits)
}

/// Reads the states of an optimizer, up to the last byte.
///
/// # Errors
/// Fails if the file is not a pickle of states, or contains anything but arrays, plain values and MXNet's own
/// optimizers; the error names the object and its offset.
pub fn read_blob(blob: &Blob, limits: &Limits) -> Result<Model> {
    let (shapes, contents) = look(blob, limits, Elements::Whole)?;
    if shapes.tree.end() != blob.len() {
        let found = format!("{} bytes more", blob.len() - shapes.tree.end());
        let expected = "the end of the file after the pickle";
        return Err(blob.malformed(shapes.tree.end(), expected, found).into());
    }
    let arrays = contents.arrays.values().flatten();
    let elements: Vec<Span> = arrays.map(|array| array.hole).collect();
    let kept = Kept::new(blob, &elements, limits)?;
    let (format, files) = (NAME.to_owned(), vec![blob.clone()]);
    let mut model = Model { format, files, ..Model::default() };
    model.residual = Residual::new(NAME, kept.encode());
    // Values may be shared, but their total size is bounded by the file size.
    let mut left = blob.len().saturating_mul(64).saturating_add(1 << 20);
    for (path, id) in &contents.tensors {
        let Some(Some(array)) = contents.arrays.get(id) else { continue };
        let Some(less) = left.checked_sub(array.tensor.nbytes()) else {
            let expected = "arrays that are not shared excessively";
            let found = "many times the stored bytes";
            return Err(blob.malformed(0, expected, found).into());
        };
        left = less;
        model.parameters.push(Parameter { name: path.clone(), tensor: array.tensor.clone() });
    }
    if !contents.clashes.is_empty() {
        let paths = some(&contents.clashes);
        let what = "values with the same path, of which one is shown";
        model.report.warn(format!("{what}: {paths}"));
    }
    model.metadata = contents.metadata;
    Ok(model)
}

/// Returns a pickle and its contents.
pub(super) fn look(blob: &Blob, limits: &Limits, elements: Elements) -> Result<(Shapes, Contents)> {
    let shapes = Shapes::check(pickle::read(blob, 0, limits)?, builds)?;
    let contents = contents(&shapes, limits, elements)?;
    Ok((shapes, contents))
}

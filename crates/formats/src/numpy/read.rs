//! Reads tensors without their elements.

use std::path::Path;
use std::sync::Arc;

use lodstone_model::{Limits, Model, Parameter, Residual, Tensor};
use lodstone_store::{Blob, Cursor, Location};

use super::header::{Header, encode};
use super::{NPY, NPZ, RESIDUAL, SUFFIX};
use crate::byte_map::{self, Recorded};
use crate::encoding::array::elements::Elements;
use crate::encoding::zip::{self, Member};
use crate::error::Result;
use crate::options::OpenOptions;

/// Opens an array: a model of one unnamed tensor.
///
/// # Errors
/// The errors of [`read_npy_blob`].
pub fn read_npy(path: &Location, options: &OpenOptions) -> Result<Model> {
    read_npy_blob(&options.file(path)?, &options.limits)
}

/// Opens an archive.
///
/// # Errors
/// The errors of [`read_npz_blob`].
pub fn read_npz(path: &Location, options: &OpenOptions) -> Result<Model> {
    read_npz_blob(&options.file(path)?, &options.limits)
}

/// Reads an array.
///
/// # Errors
/// Fails if the file is not exactly an array, or its elements are not supported.
pub fn read_npy_blob(blob: &Blob, _: &Limits) -> Result<Model> {
    let (start, array) = array(&mut Cursor::new(blob), blob.path())?;
    let data = blob.slice(start, blob.len() - start)?;
    let parameters = vec![Parameter { name: String::new(), tensor: array.tensor(data)? }];
    let (format, files) = (NPY.name.to_owned(), vec![blob.clone()]);
    Ok(Model { format, parameters, files, ..Model::default() })
}

/// Reads an archive of arrays. Of deflated members only the header is inflated.
///
/// # Errors
/// Fails if the archive is invalid or ambiguous, or a member is not a supported array.
pub fn read_npz_blob(blob: &Blob, limits: &Limits) -> Result<Model> {
    let (format, files) = (NPZ.name.to_owned(), vec![blob.clone()]);
    let mut model = Model { format, files, ..Model::default() };
    let origin = blob.path();
    for member in zip::members(blob, limits)? {
        model.checksums.push(member.checksum());
        let Some(name) = member.name.strip_suffix(SUFFIX) else {
            model
                .report
                .warn(format!("skipped `{}`: its name is not that of an array", member.name));
            continue;
        };
        if !member.marked {
            let warning = format!("`{name}` is not marked as UTF-8: NumPy reads the name as cp437");
            model.report.warn(warning);
        }
        let name = name.to_owned();
        let place = format!("member `{}`", member.name);
        let tensor = tensor(&member, origin).map_err(|error| error.inside(place))?;
        model.parameters.push(Parameter { name, tensor });
    }
    Ok(model)
}

/// Returns the array in a member; `origin` names the archive in messages.
pub(crate) fn tensor(member: &Member, origin: &Path) -> Result<Tensor> {
    let (start, array) = array(&mut Cursor::new(&member.whole()), origin)?;
    // From a new blob: the one of the header keeps a decoder, and there may be many members.
    array.tensor(member.whole().slice(start, member.size - start)?)
}

/// An array without its elements.
struct Array {
    header: Header,
    residual: Residual,
}

/// Reads the part before the elements, and checks the size of the rest; also returns the offset of the
/// elements.
fn array(cursor: &mut Cursor<'_>, origin: &Path) -> Result<(u64, Array)> {
    let (header, raw) = Header::read(cursor, origin)?;
    let (start, left) = (cursor.position(), cursor.remaining());
    let (dtype, shape) = (header.dtype, &header.shape);
    let size = dtype.size_of(shape).ok_or_else(|| {
        let found = format!("{dtype} of shape {shape:?}");
        cursor.error_at(start, "a size that fits 64 bits", found)
    })?;
    if left != size {
        let expected = format!("{size} bytes, {dtype} of shape {shape:?}, to the end");
        return Err(cursor.error_at(start, expected, format!("{left} bytes left")).into());
    }
    let canonical = encode(dtype, shape).is_some_and(|canonical| canonical == raw);
    let residual =
        if canonical { Residual::default() } else { Residual::new(RESIDUAL, raw.into()) };
    Ok((start, Array { header, residual }))
}

/// Reads an array with a recording cursor.
pub(super) fn map(blob: &Blob, _: &Limits) -> Recorded {
    byte_map::record(blob, |cursor| {
        cursor.set_tensor(Some(0));
        elements(cursor, blob.path())
    })
}

/// Reads an archive of arrays with a recording cursor.
pub(super) fn map_archive(blob: &Blob, limits: &Limits) -> Recorded {
    let recorded = byte_map::record(blob, |cursor| {
        let tensors = |members: &[Member]| {
            let mut arrays = 0..;
            let number =
                |member: &Member| member.name.ends_with(SUFFIX).then(|| arrays.next()).flatten();
            members.iter().map(number).collect()
        };
        zip::map(cursor, blob, limits, tensors, |name, member| contents(name, member, blob))
    });
    byte_map::checked(recorded, || read_npz_blob(blob, limits))
}

/// Reads the member of an archive, if it is an array.
pub(crate) fn contents(name: &str, member: &mut Cursor<'_>, archive: &Blob) -> Result<()> {
    if name.ends_with(SUFFIX) { elements(member, archive.path()) } else { Ok(()) }
}

/// Reads an array, and skips its elements.
fn elements(cursor: &mut Cursor<'_>, origin: &Path) -> Result<()> {
    let (_, Array { header, .. }) = array(cursor, origin)?;
    let what = format!("elements of {} {:?}", header.dtype, header.shape);
    cursor.blob(cursor.remaining(), &what)?;
    Ok(())
}

impl Array {
    /// Returns the tensor with the elements `data`.
    fn tensor(self, data: Blob) -> Result<Tensor> {
        let Header { dtype, stored, shape } = self.header;
        let data = if stored.is_plain() {
            data
        } else {
            Blob::derived(Arc::new(Elements::new(data, stored, dtype, &shape)?))
        };
        Ok(Tensor { residual: self.residual, ..Tensor::dense(dtype, shape, data) })
    }
}

//! Writes tensors as NumPy does.

use std::collections::HashSet;

use lodstone_model::{Kind, Model, Parameter, Tensor};
use lodstone_store::{Blob, Location};

use super::header::{Header, encode};
use super::{MAX_RANK, NPY, NPZ, RESIDUAL, SUFFIX};
use crate::encoding::array::elements::Elements;
use crate::encoding::zip::Writer;
use crate::error::{Error, Result};
use crate::options::WriteOptions;
use crate::staged::Staged;

/// Writes the single tensor of a model.
///
/// # Errors
/// Fails unless there is exactly one tensor, which the format can represent, or if reading or writing
/// fails.
pub(super) fn write_npy(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    let [parameter] = model.parameters.as_slice() else {
        let what = format!("{} tensors instead of one", model.parameters.len());
        return Err(Error::Incompatible { format: NPY.name, what });
    };
    let parts = parts(NPY.name, parameter)?;
    Staged::file(path, options, |out| parts.iter().try_for_each(|part| out.copy(part)))
}

/// Writes all tensors of a model.
///
/// # Errors
/// Fails if names are not unique or not valid for members, if the format cannot represent a tensor, or
/// if reading or writing fails.
pub(super) fn write_npz(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    let mut names = HashSet::new();
    for Parameter { name, .. } in &model.parameters {
        let refuse = |what| Err(Error::Incompatible { format: NPZ.name, what });
        if !names.insert(name) {
            return refuse(format!("two tensors called `{name}`"));
        }
        // Python's `zipfile`, and therefore NumPy, truncates a name there.
        if name.contains('\0') {
            return refuse(format!("the name {name:?}, which has a zero byte"));
        }
    }
    let tensors =
        model.parameters.iter().map(|parameter| Ok((parameter, parts("npz", parameter)?)));
    let tensors = tensors.collect::<Result<Vec<_>>>()?;
    Staged::file(path, options, |out| {
        let mut writer = Writer::default();
        for (parameter, parts) in &tensors {
            writer.add(out, &format!("{}{SUFFIX}", parameter.name), parts)?;
        }
        writer.finish(out)
    })
}

/// Returns the part before the elements of an array, and the elements.
pub(crate) fn parts(
    format: &'static str,
    Parameter { name, tensor }: &Parameter,
) -> Result<[Blob; 2]> {
    let refuse = |what: String| Err(Error::Incompatible { format, what });
    if !matches!(tensor.kind, Kind::Dense) {
        return refuse(format!("the {} tensor `{name}`", tensor.kind.name()));
    }
    if !tensor.lod.is_empty() {
        return refuse(format!("the LoD of the tensor `{name}`"));
    }
    let (dtype, shape) = (tensor.dtype, &tensor.shape);
    if shape.len() > MAX_RANK {
        let found = shape.len();
        return refuse(format!("the {found} dims of the tensor `{name}`, more than {MAX_RANK}"));
    }
    let header = encode(dtype, shape).ok_or_else(|| Error::dtype(format, name, dtype))?;
    if dtype.size_of(shape) != Some(tensor.data.len()) {
        let len = tensor.data.len();
        return refuse(format!("the tensor `{name}`: {dtype} {shape:?} in {len} bytes"));
    }
    Ok(as_it_was(tensor).unwrap_or_else(|| [Blob::memory(header), tensor.data.clone()]))
}

/// Returns the array that the tensor was read from, if it is unchanged.
pub(crate) fn as_it_was(tensor: &Tensor) -> Option<[Blob; 2]> {
    let raw = tensor.residual.of(RESIDUAL)?;
    let header = Header::decode(raw).ok()?;
    if header.dtype != tensor.dtype || header.shape != tensor.shape {
        return None;
    }
    let data = if header.stored.is_plain() {
        tensor.data.clone()
    } else {
        // Replaced elements have another source.
        let elements = tensor.data.derivation::<Elements>()?;
        (elements.stored() == header.stored).then(|| elements.source().clone())?
    };
    Some([Blob::memory(raw.clone()), data])
}

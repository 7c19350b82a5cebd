//! Writes the archive of a dict of tensors, as `torch.save` does.

use std::collections::HashSet;
use std::sync::Arc;

use lodstone_model::{DType, Indices, Kind, Model, Parameter, Tensor};
use lodstone_store::{Blob, Location, Output, Permuted};

use super::back::unedited;
use super::pickled::Pickle;
use super::storages::{Storages, torch_type};
use crate::encoding::zip::Writer;
use crate::error::{Error, Result};
use crate::options::WriteOptions;
use crate::staged::Staged;
use crate::torch::NAME;
use crate::torch::view::{MAX_RANK, contiguous};

/// The alignment of the bytes of members.
const ALIGNMENT: u64 = 64;

/// The version of the archive.
const VERSION: &str = "3\n";

/// Writes an unedited file as it was, and any other model as a dict of tensors.
///
/// # Errors
/// Fails if the format cannot represent a tensor, or if reading or writing fails.
pub(in crate::torch) fn write(
    model: &Model,
    path: &Location,
    options: &WriteOptions,
) -> Result<Staged> {
    if let Some(files) = unedited(NAME, model)?
        && (options.same || model.files.len() == 1)
    {
        return files.write(path, options);
    }
    let (pickle, storages) = pickle(model)?;
    let stem = path.stem().unwrap_or("archive").to_owned();
    let stem = if stem.is_empty() || stem.contains('/') { "archive".to_owned() } else { stem };
    Staged::file(path, options, |out| put(out, &stem, pickle, &storages))
}

/// Returns the pickle of a model, and its storages.
fn pickle(model: &Model) -> Result<(Vec<u8>, Storages)> {
    let (mut pickle, mut storages) = (Pickle::default(), Storages::default());
    let mut names = HashSet::new();
    pickle.begin();
    for Parameter { name, tensor } in &model.parameters {
        let refuse = |what: String| Error::Incompatible { format: NAME, what };
        if !names.insert(name) {
            return Err(refuse(format!("two tensors called `{name}`")));
        }
        if u32::try_from(name.len()).is_err() {
            return Err(refuse(format!("a name of {} bytes", name.len())));
        }
        if name.is_empty() {
            return Err(refuse("a tensor without a name".to_owned()));
        }
        check(NAME, name, tensor)?;
        pickle.text(name);
        put_tensor(&mut pickle, &mut storages, name, tensor)?;
    }
    let texts = model.metadata.iter().flat_map(|(key, value)| [key, value]);
    if let Some(text) = texts.into_iter().find(|text| u32::try_from(text.len()).is_err()) {
        let what = format!("metadata of {} bytes", text.len());
        return Err(Error::Incompatible { format: NAME, what });
    }
    Ok((pickle.end(&model.metadata), storages))
}

/// Fails unless the format can represent a tensor.
pub(in crate::torch) fn check(format: &'static str, name: &str, tensor: &Tensor) -> Result<()> {
    let refuse = |what: String| Err(Error::Incompatible { format, what });
    if !tensor.lod.is_empty() {
        return refuse(format!("the LoD of the tensor `{name}`"));
    }
    if tensor.shape.len() > MAX_RANK {
        return refuse(format!("the {} dims of the tensor `{name}`", tensor.shape.len()));
    }
    if tensor.shape.iter().any(|dim| i64::try_from(*dim).is_err()) {
        return refuse(format!("the tensor `{name}` of shape {:?}", tensor.shape));
    }
    // PyTorch's strides are products of the dims, in which one of 0 counts as 1.
    let is_whole = matches!(tensor.kind, Kind::Dense | Kind::Absent);
    let count = tensor.shape.iter().try_fold(1_u64, |count, dim| count.checked_mul((*dim).max(1)));
    let item = tensor.dtype.bits().map(|bits| u64::from(bits).div_ceil(8));
    if is_whole && count.zip(item).and_then(|(count, item)| count.checked_mul(item)).is_none() {
        return refuse(format!("the tensor `{name}` of shape {:?}", tensor.shape));
    }
    if !matches!(tensor.kind, Kind::Dense | Kind::Coo { .. } | Kind::Csr { .. } | Kind::Absent) {
        return refuse(format!("the {} tensor `{name}`", tensor.kind.name()));
    }
    let stored = tensor.stored_shape();
    if !matches!(tensor.kind, Kind::Absent)
        && tensor.dtype.size_of(&stored) != Some(tensor.data.len())
    {
        let (dtype, shape, len) = (tensor.dtype, &tensor.shape, tensor.data.len());
        return refuse(format!("the tensor `{name}`: {dtype} {shape:?} in {len} bytes"));
    }
    if let Some(broken) = tensor.broken_indices()? {
        return refuse(format!("the indices of the tensor `{name}`: {broken}"));
    }
    Ok(())
}

fn put_tensor(
    pickle: &mut Pickle,
    storages: &mut Storages,
    name: &str,
    tensor: &Tensor,
) -> Result<()> {
    let no_type = || Error::dtype(NAME, name, tensor.dtype);
    let mut add = |tensor: &Tensor| storages.add(tensor).ok_or_else(no_type);
    match &tensor.kind {
        Kind::Coo { indices, linear } => {
            let rank = tensor.shape.len() as u64;
            if *linear && rank != 1 || rank == 0 {
                let what = format!("the linear indices of the tensor `{name}`");
                return Err(Error::Incompatible { format: NAME, what });
            }
            let count = indices.count() / rank;
            // PyTorch stores the indices by dim, as int64.
            let by_element = indices.widened()?;
            let by_dim = Permuted::new(by_element.clone(), 8, &[count, rank], &[1, 0]);
            let data = match by_dim {
                Some(permuted) if rank > 1 => Blob::derived(Arc::new(permuted)),
                _ => by_element,
            };
            let parts = [
                add(&Tensor::dense(DType::Int64, vec![rank, count], data))?,
                add(&Tensor::dense(tensor.dtype, vec![count], tensor.data.clone()))?,
            ];
            pickle.sparse("torch.sparse_coo", &parts, &tensor.shape, storages);
        }
        Kind::Csr { indptr, indices } => {
            let list = |of: &Indices| Tensor::dense(of.dtype, vec![of.count()], of.data.clone());
            let count = indices.count();
            let mut offsets = list(indptr);
            if indptr.count() == 0 {
                // A matrix without elements may have no offsets; PyTorch's has one for each row.
                let what = format!("the offsets of the tensor `{name}` of {:?}", tensor.shape);
                let rows = tensor.shape.first().and_then(|rows| rows.checked_add(1));
                let rows = rows.ok_or(Error::Incompatible { format: NAME, what })?;
                let size = DType::Int64.size_of(&[rows]).filter(|size| *size <= MAX_ZEROS);
                let size = size.and_then(|size| usize::try_from(size).ok());
                let what = format!("the {rows} rows of the empty tensor `{name}`");
                let size = size.ok_or(Error::Incompatible { format: NAME, what })?;
                offsets = Tensor::dense(DType::Int64, vec![rows], Blob::memory(vec![0; size]));
            }
            let parts = [
                add(&offsets)?,
                add(&list(indices))?,
                add(&Tensor::dense(tensor.dtype, vec![count], tensor.data.clone()))?,
            ];
            pickle.sparse("torch.sparse_csr", &parts, &tensor.shape, storages);
        }
        Kind::Absent => {
            let (element, shape) = torch_type(tensor.dtype, &tensor.shape).ok_or_else(no_type)?;
            pickle.meta(element, &shape, &contiguous(&shape));
        }
        _ => {
            let view = add(tensor)?;
            pickle.tensor(&view, storages);
        }
    }
    Ok(())
}

/// Writes one dense tensor that was [checked](check).
pub(in crate::torch) fn put_item(out: &mut Output, name: &str, tensor: &Tensor) -> Result<()> {
    let (mut pickle, mut storages) = (Pickle::default(), Storages::default());
    pickle.protocol();
    put_tensor(&mut pickle, &mut storages, name, tensor)?;
    put(out, "archive", pickle.stop(), &storages)
}

/// Maximum bytes of offsets that a matrix without elements gets.
const MAX_ZEROS: u64 = 64 << 20;

fn put(out: &mut Output, stem: &str, pickle: Vec<u8>, storages: &Storages) -> Result<()> {
    let mut writer = Writer::aligned(ALIGNMENT, out.position());
    let alignment = ALIGNMENT.to_string();
    let mut add = |writer: &mut Writer, name: &str, blob: Blob| {
        writer.add(out, &format!("{stem}/{name}"), &[blob])
    };
    add(&mut writer, "data.pkl", Blob::memory(pickle))?;
    add(&mut writer, ".format_version", Blob::memory(&b"1"[..]))?;
    add(&mut writer, ".storage_alignment", Blob::memory(alignment.into_bytes()))?;
    add(&mut writer, "byteorder", Blob::memory(&b"little"[..]))?;
    for (key, stored) in storages.all.iter().enumerate() {
        add(&mut writer, &format!("data/{key}"), stored.blob.clone())?;
    }
    add(&mut writer, "version", Blob::memory(VERSION.as_bytes()))?;
    writer.finish(out)
}

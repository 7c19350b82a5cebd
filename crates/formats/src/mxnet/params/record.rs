//! A record in MXNet's own format: the part before its elements, read and written.

use lodstone_model::{DType, Indices, Kind, Residual, Tensor};
use lodstone_schema::mxnet::{dtype_of, type_flag};
use lodstone_store::{Blob, Cursor};

use super::bools::{normalized, stored};
use super::scalar::{Rest, is_scalar};
use crate::error::{Error, Result};

/// The owner of the residual of a tensor: the bytes before its elements.
pub(super) const RESIDUAL: &str = "mxnet record";

/// Maximum rank of an array; MXNet's own limit is 32, but older releases had none.
const MAX_RANK: i64 = 64;

/// The version of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    V0,
    V1,
    V2,
    V3,
}

/// The devices of arrays: the code and the name of each type.
pub(super) const DEVICES: [(i32, &str); 4] =
    [(1, "cpu"), (2, "gpu"), (3, "cpu_pinned"), (5, "cpu_shared")];

/// The device of an array when it was saved: its type and its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    kind: i32,
    number: i32,
}

const MAGICS: [(u32, Version); 3] =
    [(0xf993_fac8, Version::V1), (0xf993_fac9, Version::V2), (0xf993_faca, Version::V3)];

/// The part before the elements.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) version: Version,
    dtype: DType,
    shape: Vec<u64>,
    /// The type and length of each index array; empty for a dense array.
    indices: Vec<(DType, u64)>,
}

/// Reads an array; `None` if it was never filled.
///
/// # Errors
/// Fails if the record is not one that MXNet writes, or is truncated.
pub(super) fn read(cursor: &mut Cursor<'_>, rest: Rest) -> Result<Option<Tensor>> {
    let start = cursor.position();
    let Some((head, _)) = Head::read(cursor, rest)? else { return Ok(None) };
    let end = cursor.position();
    let (dtype, shape) = (head.dtype, &head.shape);
    let stored = head.stored_shape();
    let size = |cursor: &Cursor<'_>, dtype: DType, shape: &[u64]| {
        dtype.size_of(shape).ok_or_else(|| {
            let found = format!("{dtype} of shape {shape:?}");
            cursor.error_at(start, "a size that fits 64 bits", found)
        })
    };
    let nbytes = size(cursor, dtype, &stored)?;
    let data = cursor.blob(nbytes, &format!("elements of {dtype} {stored:?}"))?;
    let mut arrays = Vec::new();
    for (dtype, count) in &head.indices {
        let nbytes = size(cursor, *dtype, &[*count])?;
        let data = cursor.blob(nbytes, &format!("indices of {dtype} [{count}]"))?;
        arrays.push(Indices { dtype: *dtype, data });
    }
    let mut tensor = Tensor::dense(dtype, shape.clone(), normalized(dtype, data));
    let mut arrays = arrays.into_iter();
    tensor.kind = match (arrays.next(), arrays.next()) {
        (Some(indices), None) => Kind::RowSparse { indices },
        (Some(indptr), Some(indices)) => Kind::Csr { indptr: Box::new(indptr), indices },
        _ => Kind::Dense,
    };
    let raw = cursor.again(start, end, "a record")?;
    tensor.residual = Residual::new(RESIDUAL, raw.into());
    Ok(Some(tensor))
}

/// Reads a separate record, as in pickles; also returns the size of the part before its
/// elements. `None` if the array was never filled.
///
/// # Errors
/// The errors of [`read`].
pub(crate) fn read_alone(cursor: &mut Cursor<'_>) -> Result<Option<(Tensor, u64)>> {
    let tensor = read(cursor, Rest::Nothing)?;
    let Some(tensor) = tensor else { return Ok(None) };
    let head = tensor.residual.of(RESIDUAL);
    let head = head.ok_or_else(|| Error::internal("an array has no head"))?.len() as u64;
    Ok(Some((tensor, head)))
}

/// Reads a record that is not part of a list with a recording cursor, if it begins with a magic.
pub(crate) fn map_alone(cursor: &mut Cursor<'_>) -> Result<()> {
    let magic = cursor.u32("a record")?;
    cursor.seek(0);
    if MAGICS.iter().any(|(known, _)| *known == magic) {
        read(cursor, Rest::Nothing)?;
    }
    Ok(())
}

/// Returns the stored bytes of a tensor: the elements, then the index arrays.
pub(crate) fn stored_blobs(tensor: &Tensor) -> Vec<Blob> {
    tensor.blobs().map(|blob| stored(blob).clone()).collect()
}

/// Replaces the blobs that [`stored_blobs`] returns.
pub(crate) fn replace_stored(tensor: &mut Tensor, blobs: Vec<Blob>) {
    let mut blobs = blobs.into_iter();
    if let Some(data) = blobs.next() {
        tensor.data = normalized(tensor.dtype, data);
    }
    let indices = match &mut tensor.kind {
        Kind::RowSparse { indices } => vec![indices],
        Kind::Csr { indptr, indices } => vec![indptr, indices],
        _ => Vec::new(),
    };
    indices.into_iter().zip(blobs).for_each(|(indices, blob)| indices.data = blob);
}

/// Returns whether the records of two tensors are equal except for their elements.
pub(crate) fn same_head(tensor: &Tensor, other: &Tensor) -> bool {
    let (now, then) = (as_it_was(tensor), as_it_was(other));
    now.is_some() && now == then
}

/// Encodes the part before the elements in a record of version V2 or V3; `None` if MXNet has no
/// code for a type.
pub(super) fn encode(tensor: &Tensor, version: Version) -> Option<Vec<u8>> {
    /// A device that every array can be on: `cpu(0)`.
    const DEVICE: [i32; 2] = [1, 0];
    let (magic, _) = MAGICS.iter().find(|(_, known)| *known == version)?;
    let head = Head::of(tensor, version);
    let storage = i32::try_from(head.indices.len()).ok()?;
    let mut bytes = magic.to_le_bytes().to_vec();
    bytes.extend(storage.to_le_bytes());
    if storage > 0 {
        bytes.extend(dims_from(&head.stored_shape())?);
    }
    bytes.extend(dims_from(&head.shape)?);
    bytes.extend(DEVICE.map(i32::to_le_bytes).as_flattened());
    bytes.extend(type_flag(head.dtype)?.to_le_bytes());
    for (dtype, count) in &head.indices {
        bytes.extend(type_flag(*dtype)?.to_le_bytes());
        bytes.extend(dims_from(&[*count])?);
    }
    Some(bytes)
}

fn dims_from(shape: &[u64]) -> Option<Vec<u8>> {
    let mut bytes = i32::try_from(shape.len()).ok()?.to_le_bytes().to_vec();
    for dim in shape {
        bytes.extend(i64::try_from(*dim).ok()?.to_le_bytes());
    }
    Some(bytes)
}

/// Returns the original part before the elements, with its version, if it still describes
/// the tensor.
pub(super) fn as_it_was(tensor: &Tensor) -> Option<(Version, &[u8])> {
    let raw = tensor.residual.of(RESIDUAL)?;
    let blob = Blob::memory(raw.clone());
    let mut cursor = Cursor::new(&blob);
    let (head, _) = Head::read(&mut cursor, Rest::Nothing).ok()??;
    let same = cursor.remaining() == 0 && head == Head::of(tensor, head.version);
    same.then_some((head.version, raw))
}

/// Returns the device that held an array when it was saved: `cpu(0)`.
pub(crate) fn context(tensor: &Tensor) -> Option<String> {
    let blob = Blob::memory(tensor.residual.of(RESIDUAL)?.clone());
    let (_, device) = Head::read(&mut Cursor::new(&blob), Rest::Nothing).ok()??;
    Some(format!("{}({})", device_name(device.kind), device.number))
}

fn device_name(kind: i32) -> &'static str {
    DEVICES.iter().find(|(known, _)| *known == kind).map_or("unknown device", |(_, name)| name)
}

impl Head {
    fn of(tensor: &Tensor, version: Version) -> Self {
        let number = |indices: &Indices| (indices.dtype, indices.count());
        let indices = match &tensor.kind {
            Kind::RowSparse { indices } => vec![number(indices)],
            Kind::Csr { indptr, indices } => vec![number(indptr), number(indices)],
            _ => Vec::new(),
        };
        Self { version, dtype: tensor.dtype, shape: tensor.shape.clone(), indices }
    }

    /// Returns the dims of the values.
    fn stored_shape(&self) -> Vec<u64> {
        match self.indices.as_slice() {
            [] => self.shape.clone(),
            [(_, rows)] => {
                let rest = self.shape.iter().skip(1).copied();
                std::iter::once(*rows).chain(rest).collect()
            }
            [.., (_, count)] => vec![*count],
        }
    }

    fn read(cursor: &mut Cursor<'_>, rest: Rest) -> Result<Option<(Self, Device)>> {
        let start = cursor.position();
        let first = cursor.u32("a record")?;
        let version = MAGICS.iter().find(|(magic, _)| *magic == first).map(|(_, v)| *v);
        let Some(version) = version else {
            cursor.seek(start);
            return Self::read_v0(cursor);
        };
        cursor.label(start, "the magic", || format!("{first:#x} ({version:?})"));
        let mut storage = 0;
        let mut stored = None;
        if version >= Version::V2 {
            let at = cursor.position();
            storage = cursor.i32("the storage type")?;
            let (known, expected) = match version {
                Version::V3 => (storage == 0, "storage type 0 (dense)"),
                _ => {
                    (matches!(storage, 0..=2), "storage type 0 (dense), 1 (row-sparse) or 2 (CSR)")
                }
            };
            if !known {
                return Err(cursor.error_at(at, expected, storage.to_string()).into());
            }
            let name = match storage {
                0 => "dense",
                1 => "row_sparse",
                _ => "csr",
            };
            cursor.explain(|| name.to_owned());
            if storage > 0 {
                stored = Some((cursor.position(), shape(cursor, version)?.unwrap_or_default()));
            }
        }
        let at = cursor.position();
        let Some(shape) = shape(cursor, version)? else { return Ok(None) };
        if shape.is_empty() {
            let scalar = match version {
                Version::V3 => true,
                Version::V2 => storage == 0 && is_scalar(cursor, rest)?,
                _ => false,
            };
            if !scalar {
                return Ok(None);
            }
        }
        let (device, dtype) = device_and_type(cursor)?;
        let mut indices = Vec::new();
        for _ in 0..storage {
            indices.push(index_array(cursor)?);
        }
        let head = Self { version, dtype, shape, indices };
        if let Some((place, stored)) = stored {
            head.check(cursor, at, place, &stored)?;
        }
        Ok(Some((head, device)))
    }

    /// Reads the version without a magic: the first integer is the number of dims.
    fn read_v0(cursor: &mut Cursor<'_>) -> Result<Option<(Self, Device)>> {
        let start = cursor.position();
        let count = cursor.u32("a record")?;
        if i64::from(count) > MAX_RANK {
            let expected = format!("the magic of a record, or at most {MAX_RANK} dims");
            return Err(cursor.error_at(start, expected, format!("{count:#x}")).into());
        }
        if count == 0 {
            return Ok(None);
        }
        cursor.label(start, "the number of dims", || count.to_string());
        cursor.need(u64::from(count) * 4, "dims")?;
        let mut shape = Vec::new();
        for _ in 0..count {
            shape.push(u64::from(cursor.u32("a dim")?));
        }
        let (device, dtype) = device_and_type(cursor)?;
        Ok(Some((Self { version: Version::V0, dtype, shape, indices: Vec::new() }, device)))
    }

    /// Checks the consistency of the dims of a sparse array; those of its values are at offset `place`.
    fn check(&self, cursor: &Cursor<'_>, at: u64, place: u64, stored: &[u64]) -> Result<()> {
        if self.indices.len() == 2 && self.shape.len() != 2 {
            let found = format!("shape {:?}", self.shape);
            return Err(cursor.error_at(at, "two dims of a CSR matrix", found).into());
        }
        let expected = self.stored_shape();
        // Arrays that were still being computed when they were saved have empty dims.
        let unfinished = stored.is_empty() || stored.contains(&0);
        if !unfinished && stored != expected {
            let expected = format!("values of shape {expected:?}, according to the indices");
            return Err(cursor.error_at(place, expected, format!("{stored:?}")).into());
        }
        Ok(())
    }
}

/// Reads dims of 64 bits; `None` if they are unknown.
fn shape(cursor: &mut Cursor<'_>, version: Version) -> Result<Option<Vec<u64>>> {
    let start = cursor.position();
    let count = cursor.i32("the number of dims")?;
    if version == Version::V3 && count == -1 {
        return Ok(None);
    }
    let Ok(size) = u64::try_from(count) else {
        return Err(cursor.error_at(start, "a number of dims", count.to_string()).into());
    };
    cursor.need(size * 8, "dims")?;
    if i64::from(count) > MAX_RANK {
        return Err(cursor.over_limit_at(start, format!("0 to {MAX_RANK} dims")).into());
    }
    let (mut shape, mut unknown) = (Vec::new(), false);
    for _ in 0..size {
        let at = cursor.position();
        let dim = cursor.i64("a dim")?;
        unknown |= version == Version::V3 && dim == -1;
        match u64::try_from(dim) {
            Ok(dim) => shape.push(dim),
            Err(_) if unknown => {}
            Err(_) => {
                return Err(cursor.error_at(at, "a dim of 0 or more", dim.to_string()).into());
            }
        }
    }
    Ok((!unknown).then_some(shape))
}

/// Reads the device, of any type and number, and the element type.
fn device_and_type(cursor: &mut Cursor<'_>) -> Result<(Device, DType)> {
    let kind = cursor.i32("the type of the device")?;
    cursor.explain(|| device_name(kind).to_owned());
    let device = Device { kind, number: cursor.i32("the number of the device")? };
    let at = cursor.position();
    let flag = cursor.i32("the element type")?;
    let known = dtype_of(flag);
    let dtype =
        known.ok_or_else(|| cursor.error_at(at, "an element type of 0 to 12", flag.to_string()))?;
    cursor.explain(|| dtype.to_string());
    Ok((device, dtype))
}

/// Reads the type and length of an index array.
fn index_array(cursor: &mut Cursor<'_>) -> Result<(DType, u64)> {
    let at = cursor.position();
    let flag = cursor.i32("the type of indices")?;
    let Some(dtype @ (DType::Int32 | DType::Int64)) = dtype_of(flag) else {
        let expected = "indices of type 4 (int32) or 6 (int64)";
        return Err(cursor.error_at(at, expected, flag.to_string()).into());
    };
    cursor.explain(|| dtype.to_string());
    let at = cursor.position();
    let dims = shape(cursor, Version::V2)?.unwrap_or_default();
    match dims.as_slice() {
        [count] => Ok((dtype, *count)),
        other => Err(cursor.error_at(at, "one dim of an index array", format!("{other:?}")).into()),
    }
}

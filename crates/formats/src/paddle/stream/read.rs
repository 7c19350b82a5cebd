//! Reads tensors. Elements are skipped, not read.

use lodstone_model::{Kind, Limits, Lod, Residual, Tensor};
use lodstone_store::{Blob, Cursor};

use super::{DESC, DESCRIPTION, Expect, Layout, MAX_LEVELS, detect};
use crate::byte_map::{self, Recorded};
use crate::encoding::protobuf::wire::{Message, Source};
use crate::error::Result;
use crate::lengths::length;
use crate::paddle::program::types::TensorDesc;

/// Reads all records of a file; `expect` holds the kind of each record, if a program declares it.
///
/// # Errors
/// Fails if no layout matches the whole file; the error is that of the most likely layout.
pub fn read(blob: &Blob, expect: &[Expect], limits: &Limits) -> Result<(Layout, Vec<Tensor>)> {
    if blob.is_empty() {
        return Err(blob.malformed(0, "a record", "an empty file").into());
    }
    try_layouts(blob, |layout| {
        Ok((layout, records(&mut Cursor::new(blob), layout, expect, limits)?))
    })
}

/// Reads the record at `index`, skipping those before it.
///
/// # Errors
/// The errors of [`read`]; fails if there are fewer records.
pub fn read_record(blob: &Blob, index: usize, limits: &Limits) -> Result<Tensor> {
    try_layouts(blob, |layout| nth(blob, layout, index, limits))
}

/// Tries both layouts; if none matches, the error is that of the more likely one.
fn try_layouts<T>(blob: &Blob, read: impl Fn(Layout) -> Result<T>) -> Result<T> {
    let [likely, other] = detect::candidates(blob)?;
    read(likely).or_else(|error| read(other).map_err(|_| error))
}

fn nth(blob: &Blob, layout: Layout, index: usize, limits: &Limits) -> Result<Tensor> {
    let mut cursor = Cursor::new(blob);
    let mut count = 0;
    while cursor.remaining() > 0 {
        let place = |error: crate::error::Error| error.in_record(count);
        if layout.sized && count < index {
            let size = cursor.u64("the size of a record").map_err(|e| place(e.into()))?;
            cursor.blob(size, "a record").map_err(|e| place(e.into()))?;
        } else {
            let tensor = record(&mut cursor, layout, Expect::Anything, limits).map_err(place)?;
            if count == index {
                return Ok(tensor);
            }
        }
        count += 1;
    }
    let found = format!("{count} records");
    Err(cursor.error(format!("a record number {index}, counted from 0"), found).into())
}

/// Reads a file with a recording cursor, in the layout that matches, or the more likely one.
pub(crate) fn map(blob: &Blob, limits: &Limits) -> Recorded {
    let attempt = |layout| byte_map::record(blob, |cursor| records(cursor, layout, &[], limits));
    let [likely, other] = match detect::candidates(blob) {
        Ok(candidates) => candidates,
        Err(error) => return (Vec::new(), Err(error)),
    };
    let (fields, read) = attempt(likely);
    if read.is_ok() {
        return (fields, read);
    }
    match attempt(other) {
        (other, Ok(())) => (other, Ok(())),
        _ => (fields, read),
    }
}

fn records(
    cursor: &mut Cursor<'_>,
    layout: Layout,
    expect: &[Expect],
    limits: &Limits,
) -> Result<Vec<Tensor>> {
    let mut tensors = Vec::new();
    while cursor.remaining() > 0 {
        limits.check_cancelled()?;
        if tensors.len() >= limits.tensors {
            let limit = limits.at_most_tensors("records");
            return Err(cursor.over_limit_at(cursor.position(), limit).into());
        }
        let expect = expect.get(tensors.len()).copied().unwrap_or(Expect::Anything);
        cursor.set_tensor(Some(tensors.len()));
        let tensor = record(cursor, layout, expect, limits)
            .map_err(|error| error.in_record(tensors.len()))?;
        tensors.push(tensor);
    }
    Ok(tensors)
}

fn record(
    cursor: &mut Cursor<'_>,
    layout: Layout,
    expect: Expect,
    limits: &Limits,
) -> Result<Tensor> {
    if !layout.sized {
        return body(cursor, layout, expect, limits);
    }
    let size = cursor.u64("the size of a record")?;
    let start = cursor.position();
    let (tensor, read) = cursor.nested(size, "a record", |record| {
        let tensor = body(record, layout, expect, limits)?;
        Ok::<_, crate::error::Error>((tensor, record.position()))
    })?;
    if read < size {
        let expected = format!("a record of {size} bytes, its declared size");
        let found = format!("one of {read}");
        return Err(cursor.error_at(start, expected, found).into());
    }
    Ok(tensor)
}

/// Reads a record of any kind; leaves the cursor after it.
fn body(
    cursor: &mut Cursor<'_>,
    layout: Layout,
    expect: Expect,
    limits: &Limits,
) -> Result<Tensor> {
    let start = cursor.position();
    match expect {
        Expect::Vocabulary => return vocabulary(cursor, limits),
        Expect::SelectedRows => return selected_rows(cursor, limits),
        Expect::Tensor => return dense(cursor, layout, limits),
        Expect::Anything => {}
    }
    let version = cursor.u32("a record")?;
    cursor.seek(start);
    if version != 0 {
        return vocabulary(cursor, limits);
    }
    let tensor = dense(cursor, layout, limits);
    if tensor.is_ok() || layout.lod_last {
        return tensor;
    }
    cursor.seek(start);
    if let Ok(tensor) = selected_rows(cursor, limits) {
        return Ok(tensor);
    }
    cursor.seek(start);
    if is_empty_vocabulary(cursor).unwrap_or(false) {
        cursor.seek(start);
        return vocabulary(cursor, limits);
    }
    // Again, so that a byte map ends with its error.
    cursor.seek(start);
    dense(cursor, layout, limits)
}

/// Returns whether eight zeros are an empty vocabulary. Most other records begin with zeros too, and
/// truncated ones end with them. If the kind is undeclared, a vocabulary is assumed only if another record follows
/// that cannot be the rest of this one.
fn is_empty_vocabulary(cursor: &mut Cursor<'_>) -> Result<bool> {
    let count = cursor.u64("the number of tokens")?;
    // In a tensor, these would be the upper half of the number of LoD levels, then the version of
    // the tensor part, then the size of the description, which is never 0.
    let next = cursor.u32("a record")?;
    Ok(count == 0 && (next != 0 || (cursor.u32("a record")?, cursor.u32("a record")?) == (0, 0)))
}

fn dense(cursor: &mut Cursor<'_>, layout: Layout, limits: &Limits) -> Result<Tensor> {
    if layout.lod_last {
        let mut tensor = elements(cursor, limits)?;
        tensor.lod = decode(&lod(cursor)?)?;
        return Ok(tensor);
    }
    version(cursor, "the version of the LoD part")?;
    // Not read before the rest matches: the layout may be a wrong guess, once per record.
    let lod = lod(cursor)?;
    let mut tensor = elements(cursor, limits)?;
    tensor.lod = decode(&lod)?;
    Ok(tensor)
}

fn selected_rows(cursor: &mut Cursor<'_>, limits: &Limits) -> Result<Tensor> {
    version(cursor, "the version of selected rows")?;
    let count = cursor.u64("the number of rows")?;
    let size = count
        .checked_mul(8)
        .ok_or_else(|| cursor.error("a number of rows that fits the file", count.to_string()))?;
    let rows = cursor.blob(size, "the row indices")?;
    let height = cursor.i64("the height")?;
    let start = cursor.position();
    let mut tensor = elements(cursor, limits)?;
    if tensor.shape.first() != Some(&count) {
        let expected = format!("values of {count} rows");
        let found = format!("values of shape {:?}", tensor.shape);
        return Err(cursor.error_at(start, expected, found).into());
    }
    tensor.kind = Kind::SelectedRows { rows, height };
    Ok(tensor)
}

/// Reads the tensor part: version, description, elements.
fn elements(cursor: &mut Cursor<'_>, limits: &Limits) -> Result<Tensor> {
    version(cursor, "the version of the tensor part")?;
    let start = cursor.position();
    let signed = cursor.i32("the size of a description")?;
    let size = u64::try_from(signed).ok().filter(|size| DESCRIPTION.contains(size));
    let size = size.ok_or_else(|| {
        let (least, max) = (DESCRIPTION.start(), DESCRIPTION.end());
        let expected = format!("the size of a description, {least} to {max} bytes");
        cursor.error_at(start, expected, signed.to_string())
    })?;
    let start = cursor.position();
    let raw = bytes::Bytes::from(cursor.bytes(size, "a description")?);
    let source = Source::new("a description", limits);
    let desc = TensorDesc::read(&Message::new(&source, raw.clone()))
        .map_err(|error| error.inside(format!("the description at offset {start}")))?;
    let shape = desc.dims.iter().map(|dim| u64::try_from(*dim).ok()).collect::<Option<Vec<_>>>();
    let shape = shape
        .ok_or_else(|| cursor.error_at(start, "dims of 0 or more", format!("{:?}", desc.dims)))?;
    cursor.explain(|| format!("{} {shape:?}", desc.dtype));
    let nbytes = desc.dtype.size_of(&shape).ok_or_else(|| {
        let expected = "a known element type and a size that fits 64 bits";
        cursor.error_at(start, expected, format!("{} of shape {shape:?}", desc.dtype))
    })?;
    let data = cursor.blob(nbytes, &format!("elements of {} {shape:?}", desc.dtype))?;
    let mut tensor = Tensor::dense(desc.dtype, shape, data);
    if desc.write().as_ref() != Some(&raw) {
        tensor.residual = Residual::new(DESC, raw);
    }
    Ok(tensor)
}

/// Returns the levels of a LoD without reading them.
fn lod(cursor: &mut Cursor<'_>) -> Result<Vec<Blob>> {
    let levels = cursor.u64("the number of LoD levels")?;
    if levels > MAX_LEVELS {
        // More levels mean that the bytes are not a tensor, which has two or three.
        let expected = format!("at most {MAX_LEVELS} LoD levels");
        return Err(cursor.error_at(cursor.position() - 8, expected, levels.to_string()).into());
    }
    let mut lod = Vec::new();
    for _ in 0..levels {
        let size = cursor.u64("the size of a LoD level")?;
        if !size.is_multiple_of(8) {
            let expected = "a LoD level of a multiple of 8 bytes";
            return Err(cursor.error_at(cursor.position() - 8, expected, size.to_string()).into());
        }
        lod.push(cursor.blob(size, "a LoD level")?);
    }
    Ok(lod)
}

fn decode(levels: &[Blob]) -> Result<Lod> {
    let level = |blob: &Blob| -> Result<Vec<u64>> {
        let mut offsets = Vec::with_capacity(length(blob.len() / 8)?);
        blob.for_each_chunk::<crate::error::Error>(|piece| {
            offsets.extend(piece.as_chunks().0.iter().copied().map(u64::from_le_bytes));
            Ok(())
        })?;
        Ok(offsets)
    };
    Ok(Lod(levels.iter().map(level).collect::<Result<_>>()?))
}

fn version(cursor: &mut Cursor<'_>, what: &str) -> Result<()> {
    match cursor.u32(what)? {
        0 => Ok(()),
        other => Err(cursor.error_at(cursor.position() - 4, "version 0", other.to_string()).into()),
    }
}

fn vocabulary(cursor: &mut Cursor<'_>, limits: &Limits) -> Result<Tensor> {
    /// The size of an empty token with its id.
    const SMALLEST: u64 = 12;
    let start = cursor.position();
    let count = cursor.u64("the number of tokens")?;
    if count > cursor.remaining() / SMALLEST || count > limits.nodes as u64 {
        let expected = "version 0, or a number of tokens that fits the file";
        return Err(cursor.error_at(start, expected, count.to_string()).into());
    }
    let mut tokens = Vec::new();
    for _ in 0..count {
        let size = cursor.u64("the size of a token")?;
        let at = cursor.position();
        let token = String::from_utf8(cursor.bytes(size, "a token")?)
            .map_err(|_| cursor.error_at(at, "a token in UTF-8", "other bytes"))?;
        tokens.push((token, cursor.i32("the id of a token")?));
    }
    let mut tensor =
        Tensor::dense(lodstone_model::DType::String, vec![count], Blob::memory(Vec::new()));
    tensor.kind = Kind::Vocabulary { tokens };
    Ok(tensor)
}

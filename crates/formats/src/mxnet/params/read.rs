//! Reads tensors without their elements.

use std::collections::HashSet;

use lodstone_model::{Limits, Model, Parameter, Tensor, some};
use lodstone_store::{Blob, Cursor, Location};

use super::detect::MAGIC;
use super::layout::{Layout, Unfilled};
use super::record;
use super::scalar::Rest;
use super::{PARAMS, npz};
use crate::byte_map::{self, Recorded};
use crate::error::Result;
use crate::lengths::length;
use crate::options::OpenOptions;

/// Maximum number of bytes after the names that are kept for a write-back.
const MAX_TRAILING: u64 = 1 << 20;

/// Opens a file of parameters in either format.
///
/// # Errors
/// The errors of [`read_blob`] or of the archive reader.
pub fn read(path: &Location, options: &OpenOptions) -> Result<Model> {
    let blob = options.file(path)?;
    let head = blob.head(4)?;
    if npz::is_archive(&head) {
        return npz::read_npz_blob(&blob, &options.limits);
    }
    read_blob(&blob, &options.limits)
}

/// Reads a list or dict of arrays in MXNet's own format.
///
/// # Errors
/// Fails if the file is not of this format, or is truncated.
pub fn read_blob(blob: &Blob, limits: &Limits) -> Result<Model> {
    read_list(&mut Cursor::new(blob), blob, limits)
}

/// Reads a file with a recording cursor.
pub(super) fn map(blob: &Blob, limits: &Limits) -> Recorded {
    byte_map::record(blob, |cursor| read_list(cursor, blob, limits))
}

fn read_list(cursor: &mut Cursor<'_>, blob: &Blob, limits: &Limits) -> Result<Model> {
    let magic = cursor.u64("the magic of a list of arrays")?;
    cursor.explain(|| format!("{magic:#x}"));
    if magic != MAGIC {
        let (expected, found) = (format!("the magic {MAGIC:#x}"), format!("{magic:#x}"));
        return Err(cursor.error_at(0, expected, found).into());
    }
    let mut layout = Layout { reserved: cursor.u64("the reserved word")?, ..Layout::default() };
    let arrays = arrays(cursor, limits)?;
    let names = names(cursor, &arrays)?;
    let (format, files) = (PARAMS.name.to_owned(), vec![blob.clone()]);
    let mut model = Model { format, files, ..Model::default() };
    layout.named = names.is_some();
    let names = names.unwrap_or_else(|| vec![Vec::new(); arrays.len()]);
    add(&mut model, &mut layout, arrays.into_iter().zip(names));
    warn(&mut model, &layout, cursor.remaining());
    layout.trailing = trailing(cursor)?;
    layout.remember(&mut model)?;
    Ok(model)
}

/// A tensor, or the whole record of an array that was never filled.
enum Array {
    Tensor(Box<Tensor>),
    Unfilled(Vec<u8>),
}

fn arrays(cursor: &mut Cursor<'_>, limits: &Limits) -> Result<Vec<Array>> {
    /// The size of the smallest record, an array of V0 that was never filled.
    const SMALLEST: u64 = 4;
    let at = cursor.position();
    let count = cursor.u64("the number of arrays")?;
    // The number of names takes eight bytes.
    let max = cursor.remaining().saturating_sub(8) / SMALLEST;
    if count > max {
        let expected = format!("at most {max} arrays, which fit the file");
        return Err(cursor.error_at(at, expected, count.to_string()).into());
    }
    if count > limits.tensors as u64 {
        return Err(cursor.over_limit_at(at, limits.at_most_tensors("arrays")).into());
    }
    let (mut arrays, mut filled) = (Vec::new(), 0);
    for number in 0..length(count)? {
        limits.check_cancelled()?;
        let rest = if number as u64 + 1 < count { Rest::Record } else { Rest::Names(count) };
        let start = cursor.position();
        cursor.set_tensor(Some(filled));
        let tensor = record::read(cursor, rest).map_err(|error| error.in_record(number))?;
        cursor.set_tensor(None);
        arrays.push(match tensor {
            Some(tensor) => {
                filled += 1;
                Array::Tensor(Box::new(tensor))
            }
            None => {
                let record = cursor.again(start, cursor.position(), "a record")?;
                cursor.label(start, "an array that was never filled", || {
                    format!("{} bytes", record.len())
                });
                Array::Unfilled(record)
            }
        });
    }
    Ok(arrays)
}

/// Reads the names of arrays; `None` for a list.
fn names(cursor: &mut Cursor<'_>, arrays: &[Array]) -> Result<Option<Vec<Vec<u8>>>> {
    let at = cursor.position();
    let count = cursor.u64("the number of names")?;
    if count == 0 {
        return Ok(None);
    }
    if count != arrays.len() as u64 || count > cursor.remaining() / 8 {
        let expected = format!("no names or {}, one for each array", arrays.len());
        return Err(cursor.error_at(at, expected, count.to_string()).into());
    }
    let (mut names, mut filled) = (Vec::new(), 0..);
    for array in arrays {
        cursor.set_tensor(match array {
            Array::Tensor(_) => filled.next(),
            Array::Unfilled(_) => None,
        });
        let size = cursor.u64("the size of a name")?;
        names.push(cursor.bytes(size, "a name")?);
    }
    cursor.set_tensor(None);
    Ok(Some(names))
}

/// Adds arrays and their names to a model.
fn add(model: &mut Model, layout: &mut Layout, arrays: impl Iterator<Item = (Array, Vec<u8>)>) {
    for (array, name) in arrays {
        let before = model.parameters.len();
        let tensor = match array {
            Array::Tensor(tensor) => *tensor,
            Array::Unfilled(record) => {
                layout.nones.push(Unfilled { before, name, record });
                continue;
            }
        };
        let name = String::from_utf8(name).unwrap_or_else(|error| {
            let raw = error.into_bytes();
            let lossy = String::from_utf8_lossy(&raw).into_owned();
            layout.names.push((before, raw));
            lossy
        });
        model.parameters.push(Parameter { name, tensor });
    }
    layout.tensors = model.parameters.len();
}

fn warn(model: &mut Model, layout: &Layout, left: u64) {
    if !layout.nones.is_empty() {
        let place = |none: &Unfilled| match none.name.as_slice() {
            [] => format!("after {} others", none.before),
            name => format!("`{}`", String::from_utf8_lossy(name)),
        };
        let places = some(layout.nones.iter().map(place));
        model.report.warn(format!("arrays that were never filled are skipped: {places}"));
    }
    if !layout.names.is_empty() {
        let names = layout.names.iter().map(|(_, raw)| format!("`{}`", raw.escape_ascii()));
        model.report.warn(format!("names are not UTF-8: {}", some(names)));
    }
    if layout.named {
        let mut known = HashSet::new();
        let names = model.parameters.iter().map(|parameter| parameter.name.as_str());
        let again = some(names.filter(|name| !known.insert(*name)).map(|n| format!("`{n}`")));
        if !again.is_empty() {
            let warning = format!("duplicate names, of which MXNet uses the last: {again}");
            model.report.warn(warning);
        }
    }
    if left > 0 {
        let lost = if left > MAX_TRAILING { ", nor does a write-back keep" } else { "" };
        let warning = format!("{left} bytes follow the names, which MXNet does not read{lost}");
        model.report.warn(warning);
    }
}

/// Reads the bytes after the names, if there are not too many to keep.
fn trailing(cursor: &mut Cursor<'_>) -> Result<Vec<u8>> {
    let left = cursor.remaining();
    match left {
        1..=MAX_TRAILING => Ok(cursor.bytes(left, "trailing bytes")?),
        _ => Ok(Vec::new()),
    }
}

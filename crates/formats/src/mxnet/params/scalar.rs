//! Distinguishes scalars from arrays that were never filled.
//!
//! A V2 record without dims is either: MXNet up to 1.4 ends it there (*none*), from 1.5 on it continues
//! with device, type and one element, which MXNet itself cannot load (apache/mxnet#15988). So it
//! is a scalar if the following bytes look like the rest of one and like the successor of one. Only the first bytes of
//! later records are inspected, and names only after the last one: whatever the number of
//! such records, the cost is that of reading the file twice.

use lodstone_store::{Cursor, Result};

use lodstone_schema::mxnet::dtype_of;

use super::record::DEVICES;

/// What follows a record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rest {
    /// Another record.
    Record,
    /// The names of this many arrays.
    Names(u64),
    /// The end: the record is known to be a scalar or to end here.
    Nothing,
}

/// Returns whether a record without dims continues; does not move the cursor.
pub(super) fn is_scalar(cursor: &mut Cursor<'_>, rest: Rest) -> Result<bool> {
    let start = cursor.position();
    let scalar = looks_like_body(cursor, rest);
    cursor.seek(start);
    scalar
}

fn looks_like_body(cursor: &mut Cursor<'_>, rest: Rest) -> Result<bool> {
    let start = cursor.position();
    let Some(size) = device_and_type(cursor)? else { return Ok(false) };
    match rest {
        Rest::Nothing => return Ok(true),
        _ if cursor.remaining() < size => return Ok(false),
        _ => cursor.seek(cursor.position() + size),
    }
    let Rest::Names(count) = rest else { return looks_like_record(cursor) };
    match behind_names(cursor, count)? {
        None => Ok(false),
        Some(0) => Ok(true),
        // Empty names match anything, so the interpretation that ends with the file wins.
        Some(_) => {
            cursor.seek(start);
            Ok(behind_names(cursor, count)? != Some(0))
        }
    }
}

/// Returns the size of an element, if a valid device and type follow.
fn device_and_type(cursor: &mut Cursor<'_>) -> Result<Option<u64>> {
    /// More devices than any machine has.
    const MAX_DEVICES: i32 = 4096;
    if cursor.remaining() < 12 {
        return Ok(None);
    }
    let (kind, number) = (cursor.i32("the device")?, cursor.i32("the device")?);
    let dtype = dtype_of(cursor.i32("the element type")?);
    let is_known = DEVICES.iter().any(|(known, _)| *known == kind);
    let device = is_known && (0..MAX_DEVICES).contains(&number);
    let size = dtype.and_then(|dtype| dtype.size_of(&[]));
    Ok(size.filter(|_| device))
}

/// Returns whether the next bytes begin a record of any version.
fn looks_like_record(cursor: &mut Cursor<'_>) -> Result<bool> {
    if cursor.remaining() < 4 {
        return Ok(false);
    }
    match cursor.u32("a record")? {
        0xf993_fac8..=0xf993_faca => Ok(true),
        count @ 1..=32 if cursor.remaining() >= u64::from(count) * 4 => {
            cursor.seek(cursor.position() + u64::from(count) * 4);
            Ok(device_and_type(cursor)?.is_some())
        }
        _ => Ok(false),
    }
}

/// Returns the number of bytes after the names of `count` arrays, if such names follow.
fn behind_names(cursor: &mut Cursor<'_>, count: u64) -> Result<Option<u64>> {
    if cursor.remaining() < 8 {
        return Ok(None);
    }
    let names = cursor.u64("the number of names")?;
    if names != 0 && names != count {
        return Ok(None);
    }
    for _ in 0..names {
        if cursor.remaining() < 8 {
            return Ok(None);
        }
        let size = cursor.u64("the size of a name")?;
        if size > cursor.remaining() {
            return Ok(None);
        }
        cursor.seek(cursor.position() + size);
    }
    Ok(Some(cursor.remaining()))
}

//! Byte maps of archives: the fields of every header, and what the members hold.

use std::collections::{BTreeSet, HashMap};

use lodstone_model::Limits;
use lodstone_store::{Blob, Cursor};

use super::{ELSEWHERE, Member, members};
use crate::error::{Error, Result};

/// The size of a signature.
const SIGNATURE: u64 = 4;

/// The flag of members whose sizes follow their data.
const SIZES_FOLLOW: u16 = 1 << 3;

/// The extra field with sizes of 64 bits.
const ZIP64: u16 = 1;

/// A member according to the directory.
struct Known {
    /// The size of the bytes in the archive.
    size: u64,
    tensor: Option<usize>,
}

/// Reads an archive with a recording cursor. `tensors` returns the tensor that each member of the directory belongs to;
/// `contents` reads the bytes of a stored member, as far as their structure is known.
///
/// # Errors
/// Fails if the archive is damaged, after the fields of what can be read.
pub(crate) fn map(
    cursor: &mut Cursor<'_>,
    blob: &Blob,
    limits: &Limits,
    tensors: impl FnOnce(&[Member]) -> Vec<Option<usize>>,
    contents: impl Fn(&str, &mut Cursor<'_>) -> Result<()>,
) -> Result<()> {
    // A damaged directory leaves local headers readable.
    let (listed, mut error) = match members(blob, limits) {
        Ok(members) => (members, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let known = |(member, tensor): (&Member, Option<usize>)| {
        (member.name.clone(), Known { size: member.data.len(), tensor })
    };
    let known: HashMap<String, Known> = listed.iter().zip(tensors(&listed)).map(known).collect();
    let headers: BTreeSet<u64> = listed.iter().map(|member| member.header).collect();
    // The width of the sizes that follow the data of the last member.
    let mut large = false;
    let mut is_followed = false;
    while cursor.remaining() > 0 {
        limits.check_cancelled()?;
        cursor.set_tensor(None);
        let start = cursor.position();
        let signature = cursor.array("the signature")?;
        cursor.label(start, "the signature", || signature.escape_ascii().to_string());
        match &signature {
            b"PK\x03\x04" => {
                let damage;
                (damage, large, is_followed) = local(cursor, &known, &contents)?;
                error = error.or(damage);
            }
            b"PK\x07\x08" => {
                descriptor(cursor, large)?;
                is_followed = false;
            }
            b"PK\x01\x02" => directory(cursor, &known)?,
            b"PK\x06\x06" => {
                let size = cursor.u64("the size of the record")?;
                cursor.blob(size, "the zip64 end record")?;
            }
            b"PK\x06\x07" => {
                cursor.u32("the disk of the zip64 end record")?;
                cursor.u64("the offset of the zip64 end record")?;
                cursor.u32("the number of disks")?;
            }
            b"PK\x05\x06" => end(cursor)?,
            // The signature of the sizes is optional.
            _ if is_followed => {
                cursor.seek(start);
                descriptor(cursor, large)?;
                is_followed = false;
            }
            other => {
                cursor.seek(start);
                // Deleted members leave bytes that belong to no other.
                if let Some(next) = headers.range(start..).next() {
                    cursor.blob(next - start, "unused bytes")?;
                    continue;
                }
                let found = other.escape_ascii().to_string();
                let unknown = cursor.error("the signature of a zip record", found);
                return Err(error.unwrap_or_else(|| unknown.into()));
            }
        }
    }
    error.map_or(Ok(()), Err)
}

/// Reads a local header and the data behind it; returns the damage of its contents, whether its sizes have 64 bits, and
/// whether they follow.
fn local(
    cursor: &mut Cursor<'_>,
    known: &HashMap<String, Known>,
    contents: impl Fn(&str, &mut Cursor<'_>) -> Result<()>,
) -> Result<(Option<Error>, bool, bool)> {
    let start = cursor.position() - SIGNATURE;
    cursor.u16("the required version")?;
    let head = Head::read(cursor)?;
    let name = text(cursor, head.name, "the name of the member")?;
    let extra = text(cursor, head.extra, "the extra field")?;
    let known = known.get(String::from_utf8_lossy(&name).as_ref());
    let large = head.is_large().then(|| zip64(&extra)).flatten();
    let size = match known {
        Some(known) => known.size,
        None => large.unwrap_or_else(|| head.compressed.into()),
    };
    let tensor = known.and_then(|known| known.tensor);
    cursor.assign(start, tensor);
    cursor.set_tensor(tensor);
    let name = String::from_utf8_lossy(&name).into_owned();
    let what = format!("data of `{name}`");
    let is_followed = head.flags & SIZES_FOLLOW != 0;
    if head.method != 0 {
        cursor.blob(size, &format!("deflated {what}"))?;
        return Ok((None, large.is_some(), is_followed));
    }
    let mut damage = None;
    cursor.nested(size, &what, |inner| {
        // The rest of damaged data is not structured.
        damage = contents(&name, inner).err();
        let rest = inner.remaining();
        if rest > 0 {
            inner.blob(rest, &what)?;
        }
        Ok::<_, Error>(())
    })?;
    let damage = damage.map(|error| error.inside(format!("member `{name}`")));
    Ok((damage, large.is_some(), is_followed))
}

/// The fields that both headers of a member share.
struct Head {
    flags: u16,
    method: u16,
    compressed: u32,
    size: u32,
    name: u16,
    extra: u16,
}

impl Head {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let flags = cursor.u16("the flags")?;
        let method = cursor.u16("the method")?;
        cursor.explain(|| if method == 0 { "stored" } else { "deflated" }.to_owned());
        cursor.u16("the time")?;
        cursor.u16("the date")?;
        cursor.array::<4>("the CRC-32")?;
        let compressed = cursor.u32("the compressed size")?;
        let size = cursor.u32("the size")?;
        let name = cursor.u16("the size of the name")?;
        let extra = cursor.u16("the size of the extra field")?;
        Ok(Self { flags, method, compressed, size, name, extra })
    }

    /// Whether the sizes may be in the extra field.
    fn is_large(&self) -> bool {
        self.compressed == ELSEWHERE || self.size == ELSEWHERE || self.flags & SIZES_FOLLOW != 0
    }
}

/// Returns the compressed size in an extra field, behind the size.
fn zip64(mut extra: &[u8]) -> Option<u64> {
    loop {
        let (kind, rest) = extra.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let fields = rest.get(..u16::from_le_bytes(*size).into())?;
        if u16::from_le_bytes(*kind) == ZIP64 {
            return fields.get(8..)?.first_chunk().map(|size| u64::from_le_bytes(*size));
        }
        extra = rest.get(fields.len()..)?;
    }
}

/// Reads the sizes behind the data of a member.
fn descriptor(cursor: &mut Cursor<'_>, large: bool) -> Result<()> {
    cursor.array::<4>("the CRC-32")?;
    for what in ["the compressed size", "the size"] {
        if large {
            cursor.u64(what)?;
        } else {
            cursor.u32(what)?;
        }
    }
    Ok(())
}

/// Reads an entry of the directory.
fn directory(cursor: &mut Cursor<'_>, known: &HashMap<String, Known>) -> Result<()> {
    let start = cursor.position() - SIGNATURE;
    cursor.u16("the version of the writer")?;
    cursor.u16("the required version")?;
    let head = Head::read(cursor)?;
    let comment = cursor.u16("the size of the comment")?;
    cursor.u16("the disk")?;
    cursor.u16("the internal attributes")?;
    cursor.array::<4>("the external attributes")?;
    cursor.u32("the offset of the local header")?;
    let name = text(cursor, head.name, "the name of the member")?;
    text(cursor, head.extra, "the extra field")?;
    text(cursor, comment, "the comment")?;
    let known = known.get(String::from_utf8_lossy(&name).as_ref());
    cursor.assign(start, known.and_then(|known| known.tensor));
    Ok(())
}

/// Reads the end record.
fn end(cursor: &mut Cursor<'_>) -> Result<()> {
    cursor.u16("the disk")?;
    cursor.u16("the disk of the directory")?;
    cursor.u16("the number of members on the disk")?;
    cursor.u16("the number of members")?;
    cursor.u32("the size of the directory")?;
    cursor.u32("the offset of the directory")?;
    let comment = cursor.u16("the size of the comment")?;
    text(cursor, comment, "the comment")?;
    Ok(())
}

/// Reads bytes that are there if their number is not 0.
fn text(cursor: &mut Cursor<'_>, len: u16, what: &str) -> Result<Vec<u8>> {
    if len == 0 { Ok(Vec::new()) } else { Ok(cursor.bytes(len.into(), what)?) }
}

//! Zip archives of frameworks, with members that are stored, or deflated and inflated on
//! read. Source of truth: APPNOTE.TXT 6.3.10 of PKWARE.

mod inflate;
mod map;

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use flate2::Crc;
use lodstone_model::{Checksum, Limits};
use lodstone_store::{Blob, Cursor, Output};
use rawzip::extra_fields::{ExtraFieldId, ExtraFields};
use rawzip::{CompressionMethod, ReaderAt, ZipArchive, ZipLocator};

use self::inflate::Inflate;
pub(crate) use self::map::map;
use crate::error::{Error, Result};
use crate::lengths::{at_most, length};

/// A member of an archive.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// The offset of the local header.
    pub(crate) header: u64,
    /// The bytes in the archive.
    pub(crate) data: Blob,
    /// Whether the bytes are deflated.
    pub(crate) deflated: bool,
    /// The uncompressed size in bytes.
    pub(crate) size: u64,
    /// The CRC-32 of the uncompressed bytes.
    pub(crate) crc: u32,
    /// Whether the name is marked as UTF-8, or is ASCII.
    pub(crate) marked: bool,
}

impl Member {
    /// Returns the uncompressed bytes.
    pub(crate) fn whole(&self) -> Blob {
        if !self.deflated {
            return self.data.clone();
        }
        let inflate = Inflate::new(self.data.clone(), self.size, self.crc);
        Blob::derived(Arc::new(inflate))
    }

    /// Returns the checksum in the archive.
    pub(crate) fn checksum(&self) -> Checksum {
        let place = format!("member `{}`", self.name);
        Checksum::new(place, self.whole(), self.crc)
    }
}

/// Returns the name of the first member, if `head` is the beginning of an archive that has one.
pub(crate) fn first_name(head: &[u8]) -> Option<&[u8]> {
    // Signature, 22 bytes, size of the name, size of the extra field, name.
    let b"PK\x03\x04" = head.first_chunk()? else { return None };
    let [low, high] = head.get(26..28)?.first_chunk()?;
    let size = usize::from(u16::from_le_bytes([*low, *high]));
    head.get(30..)?.get(..size)
}

/// Size of a buffer for the largest entry of the directory: three fields of 64 KiB.
const ENTRY: usize = 200 << 10;

/// Maximum expansion of a deflated byte: four matches of 258 bytes, in two bits each.
/// Without this limit, a tiny member could declare a size that no machine can allocate.
const RATIO: u64 = 4 * 258;

/// Lists the members of an archive in the order of its directory.
///
/// # Errors
/// Fails if the file is not an archive, or is damaged or inconsistent, or if a member
/// is encrypted or neither stored nor deflated.
pub(crate) fn members(blob: &Blob, limits: &Limits) -> Result<Vec<Member>> {
    survey(blob, limits).map(|survey| survey.members)
}

/// The members and other contents of an archive.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) members: Vec<Member>,
    /// A description of bytes between members or after the archive that belong to none, or of a member that is no file.
    pub(crate) odd: Option<String>,
}

/// Finds the archive at the end of a file, as readers do that search from the end; returns its start according to its
/// end record, or `None` if there is no end record.
///
/// # Errors
/// Fails if reading fails.
pub(crate) fn behind(blob: &Blob) -> Result<Option<u64>> {
    const END: u64 = 22;
    const COMMENT: u64 = 1 << 16;
    const LOCATOR: u64 = 20;
    const LARGE_END: u64 = 56;
    const SIGNATURE: &[u8] = b"PK\x05\x06";
    // Most archives have no comment.
    let mut record = [0; 22];
    let is_last = blob.len() >= END && {
        blob.read_at(blob.len() - END, &mut record)?;
        record.starts_with(SIGNATURE)
    };
    let size = if is_last { END } else { blob.len().min(END + COMMENT) };
    let start = blob.len() - size;
    let mut tail = vec![0; length(size)?];
    blob.read_at(start, &mut tail)?;
    let found = tail.windows(4).rposition(|bytes| bytes == SIGNATURE);
    let Some(at) = found.map(|at| if is_last { 0 } else { at }) else { return Ok(None) };
    let Some(last) = tail.get(at..).and_then(|rest| rest.first_chunk::<22>()) else {
        return Ok(None);
    };
    let number = |at: usize| {
        let bytes = last.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
        u64::from(u32::from_le_bytes(bytes.copied().unwrap_or_default()))
    };
    let end = start + at as u64;
    // The end record of zip64, which is relative to the start of the archive, and its locator.
    let mut locator = [0; 20];
    if let Some(place) = end.checked_sub(LOCATOR) {
        blob.read_at(place, &mut locator)?;
        if let [b'P', b'K', 6, 7, _, _, _, _, offset @ .., _, _, _, _] = locator
            && let Some(record) = place.checked_sub(LARGE_END)
        {
            return Ok(Some(record.saturating_sub(u64::from_le_bytes(offset))));
        }
    }
    // Members, directory, and end record.
    let before = number(12).saturating_add(number(16));
    Ok(Some(end.saturating_sub(before)))
}

/// Lists the members of an archive, and reports what else it contains.
///
/// # Errors
/// The errors of [`members`].
pub(crate) fn survey(blob: &Blob, limits: &Limits) -> Result<Survey> {
    let wrong = |error: rawzip::Error| malformed(blob, 0, "a zip archive", error.to_string());
    let mut buffer = vec![0; ENTRY];
    let located = ZipLocator::new().locate_in_reader(At(blob), &mut buffer, blob.len());
    let archive = located.map_err(|(_, error)| match error.kind() {
        rawzip::ErrorKind::MissingEndOfCentralDirectory => {
            let what = "the directory of the archive at its end";
            malformed(blob, blob.len(), what, "none: the file is incomplete")
        }
        _ => wrong(error),
    })?;
    if archive.end_offset() != blob.len() {
        let found = format!("{} bytes left", blob.len().saturating_sub(archive.end_offset()));
        return Err(malformed(blob, archive.end_offset(), "the end of the file", found));
    }
    let mut local = vec![0; ENTRY];
    let mut members = Vec::new();
    let mut ranges = Vec::new();
    let (mut directory, mut end, mut special) = (None, None, None);
    let mut entries = archive.entries(&mut buffer);
    while let Some(entry) = entries.next_entry().map_err(wrong)? {
        limits.check_cancelled()?;
        if members.len() >= limits.tensors {
            let limit = limits.at_most_tensors("members");
            return Err(blob.over_limit(entry.central_directory_offset(), limit).into());
        }
        let start = entry.local_header_offset();
        let place = entry.central_directory_offset();
        directory.get_or_insert(place);
        let fields = entry.extra_fields().remaining_bytes().len();
        let comment = entry.comment().as_bytes().len();
        end = Some(place + (46 + entry.file_path().as_ref().len() + fields + comment) as u64);
        let raw = entry.file_path().as_ref().to_vec();
        let name = String::from_utf8(raw).map_err(|error| {
            let found = error.as_bytes().escape_ascii().to_string();
            malformed(blob, entry.central_directory_offset(), "a name in UTF-8", found)
        })?;
        let inside = |error: Error| error.inside(format!("member `{name}`"));
        if is_special(entry.external_attributes()) {
            special.get_or_insert_with(|| format!("member `{name}` is a link or a device"));
        }
        let (member, end) = member(&archive, &entry, &name, &mut local).map_err(inside)?;
        ranges.push((start, end));
        members.push(member);
    }
    let odd = special.or(beside(&archive, &members, &ranges)?);
    check_ranges(&archive, ranges)?;
    check_end(&archive, directory.zip(end))?;
    if members.len() as u64 != archive.entries_hint() {
        let expected = format!("{} members, according to the end record", archive.entries_hint());
        let found = members.len().to_string();
        return Err(malformed(blob, archive.directory_offset(), expected, found));
    }
    let mut names = HashSet::new();
    if let Some(member) = members.iter().find(|member| !names.insert(&member.name)) {
        let found = format!("`{}` again", member.name);
        return Err(malformed(blob, archive.directory_offset(), "unique names", found));
    }
    Ok(Survey { members, odd })
}

/// Returns whether the mode of Unix in a member's attributes is that of a link, a device, a pipe or a socket.
fn is_special(attributes: u32) -> bool {
    const KIND: u32 = 0o170_000;
    const FILE: u32 = 0o100_000;
    const DIRECTORY: u32 = 0o040_000;
    !matches!((attributes >> 16) & KIND, 0 | FILE | DIRECTORY)
}

/// Fails if a field has another name for a member, which some readers prefer.
fn check_fields(blob: &Blob, offset: u64, name: &str, fields: ExtraFields<'_>) -> Result<()> {
    for (kind, field) in fields {
        // A version, the checksum of the name in the header, and a name in UTF-8. A shorter field has another name: none.
        let other = field.get(5..).unwrap_or_default();
        if kind == ExtraFieldId::INFO_ZIP_UNICODE_PATH && other != name.as_bytes() {
            let found = format!("`{}` in another field", other.escape_ascii());
            return Err(malformed(blob, offset, format!("the name `{name}`"), found));
        }
    }
    Ok(())
}

/// Describes bytes between members, or in the comment of the archive, that belong to neither. A data descriptor (sizes
/// and checksum) may follow a member, from writers that do not seek back.
fn beside(
    archive: &ZipArchive<At<'_>>,
    members: &[Member],
    ranges: &[(u64, u64)],
) -> Result<Option<String>> {
    let blob = archive.get_ref().0;
    let comment = archive.eocd_offset().saturating_add(22).min(blob.len());
    let comment = blob.slice(comment, blob.len() - comment)?.read()?;
    if !is_text(&comment) {
        return Ok(Some("its comment is not text".to_owned()));
    }
    let mut ends: Vec<_> = ranges.iter().zip(members).collect();
    ends.sort_unstable_by_key(|(range, _)| **range);
    let starts = ends.iter().skip(1).map(|((start, _), _)| *start);
    for (((_, end), member), next) in ends.iter().zip(starts.chain([archive.directory_offset()])) {
        let Some(size) = next.checked_sub(*end).filter(|size| *size > 0) else { continue };
        if !is_descriptor(blob, *end, size, member)? {
            return Ok(Some(format!("{size} unused bytes after member `{}`", member.name)));
        }
    }
    Ok(None)
}

fn is_text(bytes: &[u8]) -> bool {
    let is_plain = |c: char| !c.is_control() || c.is_ascii_whitespace();
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_plain))
}

/// Returns whether the bytes after a member are its data descriptor.
fn is_descriptor(blob: &Blob, at: u64, size: u64, member: &Member) -> Result<bool> {
    if !matches!(size, 12 | 16 | 20 | 24) {
        return Ok(false);
    }
    let bytes = blob.slice(at, size)?.read()?;
    let rest = bytes.strip_prefix(b"PK\x07\x08").unwrap_or(&bytes);
    let Some(sizes) = rest.strip_prefix(&member.crc.to_le_bytes()) else { return Ok(false) };
    let expected = [member.data.len(), member.size];
    let large = expected.map(u64::to_le_bytes);
    let short = expected.map(|size| small(size).to_le_bytes());
    Ok(sizes == large.as_flattened() || sizes == short.as_flattened())
}

/// Reads a member; also returns the end of its bytes.
fn member(
    archive: &ZipArchive<At<'_>>,
    entry: &rawzip::ZipFileHeaderRecord<'_>,
    name: &str,
    buffer: &mut [u8],
) -> Result<(Member, u64)> {
    let blob = archive.get_ref().0;
    let offset = entry.local_header_offset();
    let wrong = |error: rawzip::Error| malformed(blob, offset, "a member", error.to_string());
    if offset >= blob.len() {
        let found = format!("one at {offset}");
        return Err(malformed(
            blob,
            entry.central_directory_offset(),
            "a member inside the file",
            found,
        ));
    }
    let place = archive.get_entry(entry.wayfinder()).map_err(wrong)?;
    let local = place.local_header(buffer).map_err(wrong)?;
    // If local header and directory differ, different readers read different members.
    if local.file_path().as_ref() != name.as_bytes() {
        let found = format!("`{}`", local.file_path().as_ref().escape_ascii());
        return Err(malformed(blob, offset, "the name in the directory", found));
    }
    check_fields(blob, entry.central_directory_offset(), name, entry.extra_fields())?;
    check_fields(blob, offset, name, local.extra_fields())?;
    let method = entry.compression_method();
    if local.compression_method() != method {
        let found = format!("{:?}", local.compression_method());
        return Err(malformed(blob, offset, "the method in the directory", found));
    }
    if entry.flags().is_encrypted() || local.flags().is_encrypted() {
        return Err(malformed(blob, offset, "an unencrypted member", "an encrypted one"));
    }
    let deflated = method == CompressionMethod::DEFLATE;
    if !deflated && method != CompressionMethod::STORE {
        let found = format!("{method:?}");
        return Err(malformed(blob, offset, "a member that is stored or deflated", found));
    }
    let (start, end) = place.compressed_data_range();
    if start > end || end > blob.len() {
        let found = format!("{} bytes left", blob.len().saturating_sub(start));
        return Err(malformed(blob, start, format!("{} bytes", end.saturating_sub(start)), found));
    }
    let data = blob.slice(start, end - start)?;
    let size = entry.uncompressed_size_hint();
    let here = (local.compressed_size_hint(), local.uncompressed_size_hint(), local.crc32());
    // Writers that do not seek back put all three after the data.
    let later = local.flags().has_data_descriptor() && here == (0, 0, 0);
    if here != (data.len(), size, entry.crc32()) && !later {
        let found =
            format!("{} bytes, {} stored, with the CRC-32 {:#010x}", here.1, here.0, here.2);
        return Err(malformed(blob, offset, "the sizes and checksum in the directory", found));
    }
    if !deflated && size != data.len() {
        let expected = format!("{size} bytes, stored");
        return Err(malformed(blob, start, expected, data.len().to_string()));
    }
    if deflated && size > data.len().saturating_mul(RATIO) {
        let expected = format!("a size that {} deflated bytes can have", data.len());
        return Err(malformed(blob, start, expected, size.to_string()));
    }
    let marked = name.is_ascii() || entry.flags().is_utf8();
    let crc = entry.crc32();
    Ok((
        Member {
            name: name.to_owned(),
            header: entry.local_header_offset(),
            data,
            deflated,
            size,
            crc,
            marked,
        },
        end,
    ))
}

/// Checks that the first member is at the start of the file, and none overlaps another or the directory.
/// This stops zip bombs with overlapping members.
fn check_ranges(archive: &ZipArchive<At<'_>>, mut ranges: Vec<(u64, u64)>) -> Result<()> {
    let blob = archive.get_ref().0;
    ranges.sort_unstable();
    if let Some((start, _)) = ranges.first().filter(|(start, _)| *start > 0) {
        let found = format!("the first at {start}");
        return Err(malformed(blob, 0, "a member at the start of the file", found));
    }
    let starts = ranges.iter().skip(1).map(|(start, _)| *start);
    for ((_, end), next) in ranges.iter().zip(starts.chain([archive.directory_offset()])) {
        if *end > next {
            let found = format!("one that ends at {end}");
            return Err(malformed(blob, next, "members that do not overlap", found));
        }
    }
    Ok(())
}

/// Checks that the end records match the directory: readers find it by its size,
/// by its offset, or by both. `directory` is its start and end.
fn check_end(archive: &ZipArchive<At<'_>>, directory: Option<(u64, u64)>) -> Result<()> {
    const CLASSIC: u64 = 22;
    const LOCATOR: u64 = 20;
    const LARGE: u64 = 56;
    let blob = archive.get_ref().0;
    let tail = archive.eocd_offset();
    let mut cursor = Cursor::at(blob, tail.saturating_sub(LOCATOR));
    let mut stop = tail;
    let large = tail >= LOCATOR && cursor.array("a locator")? == *b"PK\x06\x07";
    if large {
        cursor.u32("a disk")?;
        stop = cursor.u64("an offset")?;
    }
    let (start, end) = directory.unwrap_or((stop, stop));
    let wrong =
        |at, expected: String, found: u64| Err(malformed(blob, at, expected, found.to_string()));
    if end != stop {
        return wrong(end, format!("the end of the directory at {stop}"), end);
    }
    let length = end - start;
    let mut entries = Vec::new();
    let record = blob.slice(tail, CLASSIC)?;
    let mut cursor = Cursor::at(&record, 8);
    let counts: [u8; 4] = cursor.array("numbers of members")?;
    if counts[..2] != counts[2..] {
        let found = u64::from(u16::from_le_bytes([counts[0], counts[1]]));
        return wrong(
            tail + 8,
            "the same number of members on this disk as in total".to_owned(),
            found,
        );
    }
    for actual in [length, start] {
        let number = cursor.u32("the directory")?;
        entries.push((
            tail + cursor.position() - 4,
            u64::from(number),
            actual,
            number == ELSEWHERE,
        ));
    }
    if large {
        let record = blob.slice(stop, LARGE)?;
        let mut cursor = Cursor::at(&record, 40);
        for actual in [length, start] {
            let number = cursor.u64("the directory")?;
            entries.push((stop + cursor.position() - 8, number, actual, false));
        }
    }
    match entries
        .into_iter()
        .find(|(_, number, actual, elsewhere)| number != actual && !(large && *elsewhere))
    {
        Some((at, number, actual, _)) => {
            wrong(at, format!("{actual}, size or offset of the directory"), number)
        }
        None => Ok(()),
    }
}

fn malformed(
    blob: &Blob,
    offset: u64,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> Error {
    blob.malformed(offset, expected, found).into()
}

/// Adapts a blob to `rawzip`.
struct At<'a>(&'a Blob);

impl ReaderAt for At<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.0.len().saturating_sub(offset);
        let size = at_most(left, buffer.len());
        let (piece, _) = buffer.split_at_mut(size);
        self.0.read_at(offset.min(self.0.len()), piece).map_err(io::Error::other)?;
        Ok(size)
    }
}

/// A writer of archives of stored members.
///
/// `rawzip`'s own writer changes names (`a//b`, `a/../b`) and writes sizes after the
/// data, where sequential readers do not find them.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    directory: Vec<u8>,
    count: u64,
    /// The alignment of member data; 0 for none.
    align: u64,
    /// The offset of the archive in its file.
    base: u64,
}

/// The value of a 32-bit field whose actual value is in a zip64 field.
const ELSEWHERE: u32 = u32::MAX;

/// The required versions of members with and without zip64.
const VERSIONS: (u16, u16) = (45, 20);

/// The earliest date of the format, 1980-01-01: the same model results in the same bytes.
const DATE: u16 = 1 << 5 | 1;

impl Writer {
    /// Creates an archive with aligned member data, which begins at `base` in its file.
    pub(crate) fn aligned(align: u64, base: u64) -> Self {
        Self { align, base, ..Self::default() }
    }

    /// Appends a member with the concatenated bytes of `parts`.
    pub(crate) fn add(&mut self, out: &mut Output, name: &str, parts: &[Blob]) -> Result<()> {
        let offset = out.position() - self.base;
        let size = parts.iter().map(Blob::len).fold(0, u64::saturating_add);
        let mut crc = Crc::new();
        if out.only_appends() {
            // The header may have left this process before the last byte of the data is read.
            for part in parts {
                part.for_each_chunk(|piece| -> Result<()> {
                    crc.update(piece);
                    Ok(())
                })?;
            }
            out.put(&local_header(name, size, crc.sum(), (offset, self.align))?)?;
            parts.iter().try_for_each(|part| out.copy(part))?;
        } else {
            out.put(&local_header(name, size, 0, (offset, self.align))?)?;
            for part in parts {
                part.for_each_chunk(|piece| {
                    crc.update(piece);
                    out.put(piece)
                })?;
            }
            /// The offset of the checksum in a header.
            const CRC: u64 = 14;
            out.patch(self.base + offset + CRC, &crc.sum().to_le_bytes())?;
        }
        self.directory.extend(directory_entry(name, size, crc.sum(), offset)?);
        self.count += 1;
        Ok(())
    }

    /// Writes the directory and the end records.
    pub(crate) fn finish(self, out: &mut Output) -> Result<()> {
        let (start, size, count) =
            (out.position() - self.base, self.directory.len() as u64, self.count);
        out.put(&self.directory)?;
        let mut end = Vec::new();
        // The marker that it is in the record of zip64.
        let short = u16::try_from(count).unwrap_or(u16::MAX);
        if short == u16::MAX || small(start) == ELSEWHERE || small(size) == ELSEWHERE {
            end.extend(b"PK\x06\x06");
            end.extend(44u64.to_le_bytes());
            end.extend([VERSIONS.0, VERSIONS.0].map(u16::to_le_bytes).as_flattened());
            end.extend([0; 8]);
            end.extend([count, count, size, start].map(u64::to_le_bytes).as_flattened());
            end.extend(b"PK\x06\x07");
            end.extend([0; 4]);
            end.extend((start + size).to_le_bytes());
            end.extend(1u32.to_le_bytes());
        }
        end.extend(b"PK\x05\x06");
        end.extend([0; 4]);
        end.extend([short, short].map(u16::to_le_bytes).as_flattened());
        end.extend([small(size), small(start)].map(u32::to_le_bytes).as_flattened());
        end.extend([0; 2]);
        Ok(out.put(&end)?)
    }
}

/// Returns the part that both headers of a member share, from the required version to the size of
/// the extra field.
fn common(name: &str, size: u64, crc: u32, extra: &[u8], zip64: bool) -> Result<Vec<u8>> {
    /// The flag of UTF-8 names.
    const UTF8: u16 = 1 << 11;
    let length = u16::try_from(name.len()).map_err(|_| Error::Incompatible {
        format: "a zip archive",
        what: format!("a name of {} bytes", name.len()),
    })?;
    let version = if zip64 { VERSIONS.0 } else { VERSIONS.1 };
    let flags = if name.is_ascii() { 0 } else { UTF8 };
    let mut bytes = Vec::new();
    bytes.extend([version, flags, 0, 0, DATE].map(u16::to_le_bytes).as_flattened());
    bytes.extend([crc, small(size), small(size)].map(u32::to_le_bytes).as_flattened());
    let extra = u16::try_from(extra.len());
    let extra = extra.map_err(|_| Error::internal("an extra field is too long"))?;
    bytes.extend([length, extra].map(u16::to_le_bytes).as_flattened());
    Ok(bytes)
}

fn local_header(name: &str, size: u64, crc: u32, (offset, align): (u64, u64)) -> Result<Vec<u8>> {
    // Sizes of a header without its name and its extra field, and of the head of an extra field.
    const HEADER: u64 = 30;
    const EXTRA: u64 = 4;
    let large = small(size) == ELSEWHERE;
    let mut extra = if large { zip64(&[size, size]) } else { Vec::new() };
    if align > 1 {
        // A field that readers ignore pads the header.
        let begin = offset + HEADER + name.len() as u64 + extra.len() as u64 + EXTRA;
        let padding = begin.next_multiple_of(align) - begin;
        let padding = u16::try_from(padding);
        let padding = padding.map_err(|_| Error::internal("an alignment is too large"))?;
        extra.extend(b"FB");
        extra.extend(padding.to_le_bytes());
        extra.extend(vec![b'Z'; padding.into()]);
    }
    let mut bytes = b"PK\x03\x04".to_vec();
    bytes.extend(common(name, size, crc, &extra, large)?);
    bytes.extend(name.as_bytes());
    bytes.extend(extra);
    Ok(bytes)
}

fn directory_entry(name: &str, size: u64, crc: u32, offset: u64) -> Result<Vec<u8>> {
    /// The version-made-by value of Unix.
    const UNIX: u16 = 3 << 8;
    /// A regular file that its owner may write: `-rw-r--r--`.
    const MODE: u32 = 0o100_644 << 16;
    let mut numbers = Vec::new();
    if small(size) == ELSEWHERE {
        numbers.extend([size, size]);
    }
    if small(offset) == ELSEWHERE {
        numbers.push(offset);
    }
    let extra = zip64(&numbers);
    let mut bytes = b"PK\x01\x02".to_vec();
    bytes.extend((UNIX | VERSIONS.0).to_le_bytes());
    bytes.extend(common(name, size, crc, &extra, !numbers.is_empty())?);
    bytes.extend([0; 6]);
    bytes.extend([MODE, small(offset)].map(u32::to_le_bytes).as_flattened());
    bytes.extend(name.as_bytes());
    bytes.extend(extra);
    Ok(bytes)
}

/// Returns an extra field with the values that exceed 32 bits; empty if there are none.
fn zip64(numbers: &[u64]) -> Vec<u8> {
    if numbers.is_empty() {
        return Vec::new();
    }
    let size = numbers.iter().fold(0_u16, |size, _| size + 8);
    let mut extra = [1, size].map(u16::to_le_bytes).as_flattened().to_vec();
    numbers.iter().for_each(|number| extra.extend(number.to_le_bytes()));
    extra
}

/// Returns `number` in 32 bits, or the marker that it is in a zip64 field.
fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(ELSEWHERE)
}

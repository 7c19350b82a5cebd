//! The header of a file, and its segments.

use std::collections::BTreeMap;

use lodstone_model::Parameter;
use lodstone_store::{Blob, Cursor};

use crate::encoding::flatbuffer::{Contents, FlatBuffer, Table};
use crate::error::Result;

/// The identifier of programs.
pub(in crate::torch) const PROGRAM: &[u8; 4] = b"ET12";

/// The identifier of tensors.
pub(in crate::torch) const TENSORS: &[u8; 4] = b"FT01";

/// The beginning of the header of a program, and its size without the size of the segments.
const PROGRAM_HEADER: &[u8; 4] = b"eh00";
const SHORT_HEADER: u32 = 24;

/// The beginning of the header of tensors.
const TENSORS_HEADER: &[u8; 4] = b"FH01";

/// The offset of the header.
const HEADER: u64 = 8;

/// What was expected, and what was found.
pub(super) type Odd = (String, String);

/// The layout of a file.
pub(super) struct Layout {
    pub(super) is_program: bool,
    /// The FlatBuffer, with the header.
    pub(super) buffer: Blob,
    /// The start of the segments; 0 if there are none.
    base: u64,
    /// The size of the header.
    header: u64,
}

/// The segments of a file.
pub(super) struct Segments {
    /// The start and the bytes of each.
    pub(super) all: Vec<(u64, Blob)>,
}

impl Layout {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// Fails if it is no file of ExecuTorch, or if its parts exceed it.
    pub(super) fn read(blob: &Blob) -> Result<Self> {
        let mut cursor = Cursor::new(blob);
        cursor.need(HEADER, "an offset and an identifier")?;
        cursor.seek(4);
        let identifier: [u8; 4] = cursor.array("an identifier")?;
        let is_program = &identifier == PROGRAM;
        if !is_program && &identifier != TENSORS {
            let found = format!("`{}`", identifier.escape_ascii());
            return Err(blob.malformed(4, "`ET12` or `FT01`", found).into());
        }
        let magic = if is_program { PROGRAM_HEADER } else { TENSORS_HEADER };
        if blob.len() < HEADER + 4 || &cursor.array::<4>("the header")? != magic {
            if !is_program {
                return Err(blob.malformed(HEADER, "the header `FH01`", "other bytes").into());
            }
            return Ok(Self { is_program, buffer: blob.clone(), base: 0, header: 0 });
        }
        let size = cursor.u32("the size of the header")?;
        let (end, base) = if is_program {
            let end = cursor.u64("the end of the program")?;
            (end, cursor.u64("the start of the segments")?)
        } else {
            let start = cursor.u64("the padded size of the header")?;
            let len = cursor.u64("the size of the tables")?;
            let base = cursor.u64("the start of the segments")?;
            let end = start.checked_add(len);
            let found = || format!("{start} and {len} bytes");
            let wrong = || blob.malformed(HEADER, "a header and tables that fit 64 bits", found());
            (end.ok_or_else(wrong)?, base)
        };
        let len = blob.len();
        let stored = match is_program && size <= SHORT_HEADER {
            true => None,
            false => Some(cursor.u64("the size of the segments")?),
        };
        if size < SHORT_HEADER
            || !(HEADER + 4..=len).contains(&end)
            || base > len
            || (base != 0 && base < end)
        {
            let expected = format!("tables and then segments in {len} bytes");
            let found = format!("a header of {size} bytes, tables up to {end}, segments at {base}");
            return Err(blob.malformed(HEADER, expected, found).into());
        }
        if let Some(stored) = stored.filter(|_| base != 0)
            && base.checked_add(stored).is_none_or(|end| end > len)
        {
            let expected = format!("segments in the {} bytes from {base} on", len - base);
            return Err(blob.malformed(HEADER, expected, format!("{stored} bytes")).into());
        }
        let buffer = blob.slice(0, end)?;
        Ok(Self { is_program, buffer, base, header: u64::from(size).min(end - HEADER) })
    }

    /// Returns the reader of the tables.
    pub(super) fn reader(&self, records: bool) -> FlatBuffer<'_> {
        let mut reader = FlatBuffer::new(&self.buffer, records);
        let numbers: &[(u64, u64, &str)] = match (self.is_program, self.header) {
            (_, 0) => &[],
            (true, _) => &[
                (8, 4, "header"),
                (12, 4, "size of the header"),
                (16, 8, "end of the program"),
                (24, 8, "start of the segments"),
                (32, 8, "size of the segments"),
            ],
            (false, _) => &[
                (8, 4, "header"),
                (12, 4, "size of the header"),
                (16, 8, "padded size of the header"),
                (24, 8, "size of the tables"),
                (32, 8, "start of the segments"),
                (40, 8, "size of the segments"),
            ],
        };
        for (offset, len, what) in numbers {
            if offset + len <= HEADER + self.header {
                let contents =
                    if *len == 4 && *offset == 8 { Contents::Text } else { Contents::Number };
                reader.record(*offset, *len, what, contents);
            }
        }
        reader
    }

    /// Reads the segments that the field `slot` of the root table lists.
    ///
    /// # Errors
    /// Fails if one exceeds the file.
    pub(super) fn segments(
        &self,
        blob: &Blob,
        reader: &mut FlatBuffer<'_>,
        root: &Table,
        slot: usize,
    ) -> Result<Segments> {
        let mut all = Vec::new();
        for table in reader.tables(root, slot, "a segment")? {
            let offset = reader.number(&table, 0, 8, "the offset of a segment")?;
            let len = reader.number(&table, 1, 8, "the size of a segment")?;
            let start = self.base.checked_add(offset);
            let end = start.and_then(|start| start.checked_add(len));
            let (Some(start), Some(end)) = (start, end) else {
                return Err(self.outside(table.at, offset, len));
            };
            if self.base == 0 || end > blob.len() {
                return Err(self.outside(table.at, offset, len));
            }
            all.push((start, blob.slice(start, len)?));
        }
        Ok(Segments { all })
    }

    fn outside(&self, at: u64, offset: u64, len: u64) -> crate::error::Error {
        let expected = format!("a segment of {len} bytes in the file, from {} on", self.base);
        self.buffer.malformed(at, expected, format!("offset {offset}")).into()
    }
}

impl Segments {
    /// Returns the start and the bytes of a segment.
    ///
    /// # Errors
    /// Fails with what was expected if there is no such segment.
    pub(super) fn get(&self, index: u64) -> Result<(u64, &Blob), Odd> {
        let found = usize::try_from(index).ok().and_then(|index| self.all.get(index));
        let (start, blob) = found.ok_or_else(|| {
            (format!("one of {} segments", self.all.len()), format!("index {index}"))
        })?;
        Ok((*start, blob))
    }
}

/// The contents of a file.
#[derive(Default)]
pub(super) struct Found {
    pub(super) parameters: Vec<Parameter>,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) warnings: Vec<String>,
    /// The parts that only a backend can interpret, with a name and a start.
    pub(super) opaque: Vec<(String, u64, Blob)>,
}

//! The fields of a file, as its reader reads them.

use crate::{Blob, Result};

/// A field of a file: a range of its bytes, and their meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
    /// The index of the tensor that the field belongs to, in file order; `None` for the parts between tensors.
    pub tensor: Option<usize>,
    /// The name.
    pub name: String,
    /// The value, as text; only the beginning of a long one, and the size of data, which are not read.
    pub value: String,
}

impl Field {
    /// Formats bytes as a value: quoted if they are text, in hexadecimal if not, and cut if there are many.
    pub fn show(bytes: &[u8]) -> String {
        let (head, is_cut) = match bytes.get(..MAX_TEXT) {
            Some(head) => (head, bytes.len() > MAX_TEXT),
            None => (bytes, false),
        };
        let rest = if is_cut { "…" } else { "" };
        // A character may be cut at the end of the head.
        let valid = match std::str::from_utf8(head) {
            Ok(text) => Some(text),
            Err(error) if is_cut && error.error_len().is_none() => {
                head.get(..error.valid_up_to()).and_then(|head| std::str::from_utf8(head).ok())
            }
            Err(_) => None,
        };
        match valid.filter(|text| !text.contains(|c: char| c.is_control() && !c.is_whitespace())) {
            Some(text) if !text.is_empty() => format!("\"{text}\"{rest}"),
            _ => {
                let head = bytes.get(..MAX_HEX).unwrap_or(bytes);
                let rest = if head.len() < bytes.len() { " …" } else { "" };
                let hex: Vec<_> = head.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{}{rest}", hex.join(" "))
            }
        }
    }
}

/// Maximum number of recorded fields: those of more than ten thousand tensors, in less than 100 MiB.
const MAX_FIELDS: usize = 250_000;

/// Maximum number of bytes of a text.
const MAX_TEXT: usize = 32;

/// Maximum number of bytes in hexadecimal.
const MAX_HEX: usize = 12;

/// Fields in the order of their offsets.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub(crate) fields: Vec<Field>,
    pub(crate) tensor: Option<usize>,
    /// The offset of the recorded bytes in the file.
    pub(crate) base: u64,
    /// The offset of the first field that was not recorded, because there were too many.
    pub(crate) full_at: Option<u64>,
}

impl Recording {
    /// Adds the field at an offset of the recorded bytes.
    pub(crate) fn add(
        &mut self,
        offset: u64,
        len: u64,
        name: &str,
        value: impl FnOnce() -> String,
    ) {
        let offset = self.base.saturating_add(offset);
        if self.fields.len() == MAX_FIELDS {
            self.full_at.get_or_insert(offset);
        }
        if self.full_at.is_none() {
            let (tensor, name, value) = (self.tensor, without_article(name).to_owned(), value());
            self.fields.push(Field { offset, len, tensor, name, value });
        }
    }

    /// Forgets the fields from `offset` on, which are read again.
    pub(crate) fn rewind(&mut self, offset: u64) {
        let offset = self.base.saturating_add(offset);
        // A field without bytes may precede the one at the same offset.
        let end = self.fields.partition_point(|field| field.offset + field.len <= offset);
        self.fields.truncate(end);
        self.full_at = self.full_at.filter(|at| *at < offset);
    }

    /// Returns the fields, and an error if there were more than can be recorded.
    pub(crate) fn finish(self, blob: &Blob) -> (Vec<Field>, Result<()>) {
        let limit = || format!("at most {MAX_FIELDS} fields in a byte map");
        let error = self.full_at.map(|at| blob.over_limit(at, limit()));
        (self.fields, error.map_or(Ok(()), Err))
    }
}

/// Returns the name of a field without the article that it has in error messages.
fn without_article(name: &str) -> &str {
    let articles = ["the ", "a ", "an "];
    articles.iter().find_map(|article| name.strip_prefix(article)).unwrap_or(name)
}

/// Formats a number of bytes that were not read.
pub(crate) fn size(len: u64) -> String {
    format!("{len} byte{}", if len == 1 { "" } else { "s" })
}

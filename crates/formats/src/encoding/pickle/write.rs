//! Values to bytes: protocol 4, without frames, with minimal size fields.
//!
//! Streaming picklers write large bytes outside of frames; here everything is outside, so that nothing has
//! to be buffered until the size of a frame is known. CPython loads both.

use std::collections::HashMap;

use lodstone_store::{Blob, Output, Result, internal};

/// Begins a pickle.
pub(crate) fn begin(out: &mut Output) -> Result<()> {
    out.put(&[0x80, 4])
}

/// Ends a pickle.
pub(crate) fn end(out: &mut Output) -> Result<()> {
    out.put(b".")
}

/// Writes an opcode without an argument.
pub(crate) fn op(out: &mut Output, code: u8) -> Result<()> {
    out.put(&[code])
}

pub(crate) const MARK: u8 = b'(';
pub(crate) const NONE: u8 = b'N';
pub(crate) const EMPTY_DICT: u8 = b'}';
pub(crate) const EMPTY_LIST: u8 = b']';
pub(crate) const EMPTY_TUPLE: u8 = b')';
pub(crate) const EMPTY_SET: u8 = 0x8f;
pub(crate) const TUPLE: u8 = b't';
pub(crate) const SETITEMS: u8 = b'u';
pub(crate) const APPENDS: u8 = b'e';
pub(crate) const ADDITEMS: u8 = 0x90;
pub(crate) const FROZENSET: u8 = 0x91;
pub(crate) const REDUCE: u8 = b'R';
pub(crate) const NEWOBJ: u8 = 0x81;
pub(crate) const BUILD: u8 = b'b';

pub(crate) fn bool(out: &mut Output, value: bool) -> Result<()> {
    op(out, if value { 0x88 } else { 0x89 })
}

pub(crate) fn int(out: &mut Output, value: i64) -> Result<()> {
    if let Ok(value) = u8::try_from(value) {
        return out.put(&[b'K', value]);
    }
    if let Ok(value) = u16::try_from(value) {
        let [low, high] = value.to_le_bytes();
        return out.put(&[b'M', low, high]);
    }
    if let Ok(value) = i32::try_from(value) {
        op(out, b'J')?;
        return out.put(&value.to_le_bytes());
    }
    long(out, &value.to_le_bytes())
}

/// Writes an integer in two's complement, at most 255 bytes, little-endian.
pub(crate) fn long(out: &mut Output, bytes: &[u8]) -> Result<()> {
    match u8::try_from(bytes.len()) {
        Ok(len) => out.put(&[0x8a, len])?,
        Err(_) => {
            op(out, 0x8b)?;
            let len = u32::try_from(bytes.len());
            let len = len.map_err(|_| internal("an integer is too large for a pickle"))?;
            out.put(&len.to_le_bytes())?;
        }
    }
    out.put(bytes)
}

pub(crate) fn float(out: &mut Output, value: f64) -> Result<()> {
    op(out, b'G')?;
    out.put(&value.to_be_bytes())
}

pub(crate) fn text(out: &mut Output, text: &str) -> Result<()> {
    sized(out, [0x8c, b'X', 0x8d], text.len() as u64)?;
    out.put(text.as_bytes())
}

pub(crate) fn bytes(out: &mut Output, blob: &Blob) -> Result<()> {
    sized(out, [b'C', b'B', 0x8e], blob.len())?;
    out.copy(blob)
}

/// Writes the opcode for a size of one, four or eight bytes, and the size.
fn sized(out: &mut Output, [short, medium, long]: [u8; 3], len: u64) -> Result<()> {
    if let Ok(len) = u8::try_from(len) {
        return out.put(&[short, len]);
    }
    if let Ok(len) = u32::try_from(len) {
        op(out, medium)?;
        return out.put(&len.to_le_bytes());
    }
    op(out, long)?;
    out.put(&len.to_le_bytes())
}

/// Writes an import.
pub(crate) fn global(out: &mut Output, module: &str, name: &str) -> Result<()> {
    text(out, module)?;
    text(out, name)?;
    op(out, 0x93)
}

/// Stores the value on top of the stack in the memo, under the next index.
pub(crate) fn memoize(out: &mut Output) -> Result<()> {
    op(out, 0x94)
}

/// Pushes a value from the memo.
pub(crate) fn get(out: &mut Output, number: u32) -> Result<()> {
    if let Ok(number) = u8::try_from(number) {
        return out.put(&[b'h', number]);
    }
    op(out, b'j')?;
    out.put(&number.to_le_bytes())
}

/// Values that are written once; later ones refer to them.
#[derive(Default)]
pub(crate) struct Memo(HashMap<String, u32>);

impl Memo {
    /// Writes the value `key`, from the memo or by `make`. All `MEMOIZE` opcodes of a pickle are written here, so that the
    /// indices stay in sync.
    pub(crate) fn shared<E: From<lodstone_store::Error>>(
        &mut self,
        out: &mut Output,
        key: &str,
        make: impl FnOnce(&mut Self, &mut Output) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(number) = self.0.get(key) {
            return Ok(get(out, *number)?);
        }
        make(self, out)?;
        memoize(out)?;
        let number = u32::try_from(self.0.len());
        let number = number.map_err(|_| internal("the memo of a pickle is too long"))?;
        self.0.insert(key.to_owned(), number);
        Ok(())
    }

    /// Writes an import.
    pub(crate) fn global(&mut self, out: &mut Output, module: &str, name: &str) -> Result<()> {
        let key = format!("{module} {name}");
        self.shared(out, &key, |_, out| global(out, module, name))
    }

    /// Writes a string that occurs several times.
    pub(crate) fn word(&mut self, out: &mut Output, word: &str) -> Result<()> {
        self.shared(out, &format!("'{word}'"), |_, out| text(out, word))
    }

    /// Writes a dict, whose keys and values `fill` writes.
    pub(crate) fn dict<E: From<lodstone_store::Error>>(
        &mut self,
        out: &mut Output,
        fill: impl FnOnce(&mut Self, &mut Output) -> Result<(), E>,
    ) -> Result<(), E> {
        op(out, EMPTY_DICT)?;
        op(out, MARK)?;
        fill(self, out)?;
        Ok(op(out, SETITEMS)?)
    }

    /// Writes an instance of a class, without its state.
    pub(crate) fn instance(&mut self, out: &mut Output, module: &str, class: &str) -> Result<()> {
        self.global(out, module, class)?;
        op(out, EMPTY_TUPLE)?;
        op(out, NEWOBJ)
    }
}

/// Writes a nonnegative integer.
pub(crate) fn number(out: &mut Output, number: u64) -> Result<()> {
    if let Ok(number) = i64::try_from(number) {
        return int(out, number);
    }
    // A sign bit must follow.
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.push(0);
    long(out, &bytes)
}

/// Writes a tuple of nonnegative integers.
pub(crate) fn tuple(out: &mut Output, numbers: &[u64]) -> Result<()> {
    op(out, MARK)?;
    numbers.iter().try_for_each(|value| number(out, *value))?;
    op(out, TUPLE)
}

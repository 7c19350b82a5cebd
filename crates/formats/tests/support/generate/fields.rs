//! Finds the lengths and dims of a file by walking through it, and replaces them with wrong values.

use super::{Kind, Made};

/// A length, count or dim in a file.
pub struct Field {
    at: usize,
    form: Form,
    kind: Kind,
    what: String,
}

/// The encoding of a number.
#[derive(Clone, Copy)]
enum Form {
    /// This many bytes, little-endian.
    Unsigned(usize),
    Signed(usize),
    /// This many characters.
    Text(usize),
}

/// A wrong value, computed from the correct one and the size of the file.
type Lie = (&'static str, fn(i128, usize) -> i128);

const LIES: [Lie; 9] = [
    ("0", |_, _| 0),
    ("one less", |truth, _| truth - 1),
    ("one more", |truth, _| truth + 1),
    ("the size of the file", |_, size| size as i128),
    ("2^31", |_, _| 1 << 31),
    ("2^32 - 1", |_, _| (1 << 32) - 1),
    ("2^63 - 1", |_, _| (1 << 63) - 1),
    ("2^64 - 1", |_, _| (1 << 64) - 1),
    ("-1", |_, _| -1),
];

/// Repairs a file after a number at a given offset grew by a number of characters.
pub type Mend = fn(&mut Vec<u8>, usize, isize);

/// Returns the file with each of its numbers replaced by each wrong value.
pub fn lies(file: &[u8], fields: &[Field], mend: Mend) -> Vec<Made> {
    let mut made = Vec::new();
    for field in fields {
        let truth = field.read(file);
        let mut told = vec![truth];
        for (name, lie) in LIES {
            let value = lie(truth, file.len());
            let Some(bytes) = field.form.encode(value).filter(|_| !told.contains(&value)) else {
                continue;
            };
            told.push(value);
            let end = field.at + field.form.len();
            let grown = bytes.len().cast_signed() - field.form.len().cast_signed();
            let mut lying = [&file[..field.at], &bytes, &file[end..]].concat();
            mend(&mut lying, field.at, grown);
            made.push(Made {
                kind: field.kind,
                what: format!("{}: {name}", field.what),
                bytes: lying,
            });
        }
    }
    made
}

/// Repairs nothing, for formats without positions that depend on lengths.
pub fn as_it_is(_: &mut Vec<u8>, _: usize, _: isize) {}

impl Field {
    /// Returns whether the name of the field begins with `what`.
    pub fn is(&self, what: &str) -> bool {
        self.what.starts_with(what)
    }

    fn read(&self, file: &[u8]) -> i128 {
        let bytes = &file[self.at..self.at + self.form.len()];
        match self.form {
            Form::Text(_) => std::str::from_utf8(bytes).expect("digits").parse().expect("a number"),
            Form::Unsigned(_) => {
                bytes.iter().rev().fold(0, |number, byte| number << 8 | i128::from(*byte))
            }
            Form::Signed(width) => {
                let bits = 8 * width;
                let all = bytes.iter().rev().fold(0, |n: i128, byte| n << 8 | i128::from(*byte));
                if all >> (bits - 1) == 1 { all - (1 << bits) } else { all }
            }
        }
    }
}

impl Form {
    fn len(self) -> usize {
        let (Self::Unsigned(len) | Self::Signed(len) | Self::Text(len)) = self;
        len
    }

    fn encode(self, value: i128) -> Option<Vec<u8>> {
        let fits = match self {
            Self::Unsigned(width) => (0..1 << (8 * width)).contains(&value),
            Self::Signed(width) => {
                let half = 1i128 << (8 * width - 1);
                (-half..half).contains(&value)
            }
            Self::Text(_) => return Some(value.to_string().into_bytes()),
        };
        fits.then(|| value.to_le_bytes()[..self.len()].to_vec())
    }
}

/// A sequential walk through a file.
struct Walk<'a> {
    file: &'a [u8],
    at: usize,
    fields: Vec<Field>,
}

impl<'a> Walk<'a> {
    fn new(file: &'a [u8]) -> Self {
        Self { file, at: 0, fields: Vec::new() }
    }

    fn skip(&mut self, bytes: usize) -> &'a [u8] {
        let skipped = &self.file[self.at..self.at + bytes];
        self.at += bytes;
        skipped
    }

    fn number(&mut self, form: Form, kind: Kind, what: impl Into<String>) -> usize {
        let field = Field { at: self.at, form, kind, what: what.into() };
        let value = usize::try_from(field.read(self.file)).expect("an honest file");
        self.at += form.len();
        self.fields.push(field);
        value
    }

    fn size(&mut self, width: usize, what: impl Into<String>) -> usize {
        self.number(Form::Unsigned(width), Kind::Length, what)
    }

    /// Reads a number that is not a size.
    fn code(&mut self, width: usize) -> usize {
        let value = self.number(Form::Unsigned(width), Kind::Length, "");
        self.fields.pop();
        value
    }
}

/// Returns the fields of the records of a Paddle tensor stream, which are of these kinds.
/// Every fourth byte of the first `end` bytes as a number of 32 bits, from `start` on.
pub fn words(start: usize, end: usize) -> Vec<Field> {
    let word = |at| Field {
        at,
        form: Form::Unsigned(4),
        kind: Kind::Length,
        what: format!("the number at byte {at}"),
    };
    (start..end).step_by(4).map(word).collect()
}

pub fn stream(file: &[u8], kinds: &[String], lod_last: bool, sized: bool) -> Vec<Field> {
    let mut walk = Walk::new(file);
    for (number, kind) in kinds.iter().enumerate() {
        let of = |what: &str| format!("record {number}, {what}");
        if sized {
            walk.size(8, of("its size"));
        }
        let lod = |walk: &mut Walk<'_>| {
            let levels = walk.size(8, of("number of LoD levels"));
            for level in 0..levels {
                let size = walk.size(8, of(&format!("size of LoD level {level}")));
                walk.skip(size);
            }
        };
        match kind.as_str() {
            "vocab" => {
                let tokens = walk.size(8, of("number of tokens"));
                for token in 0..tokens {
                    let size = walk.size(8, of(&format!("size of token {token}")));
                    walk.skip(size + 4);
                }
                continue;
            }
            "selected_rows" => {
                walk.skip(4);
                let rows = walk.size(8, of("number of rows"));
                walk.skip(8 * rows + 8);
            }
            _ if lod_last => {}
            _ => {
                walk.skip(4);
                lod(&mut walk);
            }
        }
        walk.skip(4);
        let size = walk.number(Form::Signed(4), Kind::Length, of("size of the description"));
        let description = walk.skip(size);
        walk.skip(elements_of(description));
        if lod_last {
            lod(&mut walk);
        }
    }
    assert_eq!(walk.at, file.len(), "records to the end");
    walk.fields
}

/// Returns the size of the elements that a `TensorDesc` describes.
fn elements_of(description: &[u8]) -> usize {
    let (mut at, mut size) = (0, 1);
    while at < description.len() {
        let tag = description[at];
        let (mut value, mut shift) = (0, 0);
        loop {
            at += 1;
            value |= usize::from(description[at] & 0x7f) << shift;
            shift += 7;
            if description[at] & 0x80 == 0 {
                break;
            }
        }
        at += 1;
        size *= match (tag, value) {
            (8, 0 | 20 | 21 | 32 | 33) => 1,
            (8, 1 | 4 | 22) => 2,
            (8, 2 | 5) => 4,
            (8, 3 | 6 | 23) => 8,
            (8, 24) => 16,
            (0x10, dim) => dim,
            other => panic!("{other:?} in a description"),
        };
    }
    size
}

/// Returns the fields of an MXNet list of arrays.
pub fn params(file: &[u8]) -> Vec<Field> {
    let mut walk = Walk::new(file);
    walk.skip(16);
    let arrays = walk.size(8, "number of arrays");
    for array in 0..arrays {
        let of = |what: &str| format!("array {array}, {what}");
        let record = walk.at;
        let magic = walk.code(4);
        let dims = |walk: &mut Walk<'_>, what: &str| {
            let count = walk.number(Form::Signed(4), Kind::Length, of(&format!("rank {what}")));
            let dim = |walk: &mut Walk<'_>| {
                walk.number(Form::Signed(8), Kind::Shape, of(&format!("a dim {what}")))
            };
            (0..count).map(|_| dim(walk)).product::<usize>()
        };
        let (mut storage, mut stored) = (0, 0);
        let all = match magic {
            0xf993_fac8 => dims(&mut walk, "of it"),
            0xf993_fac9 | 0xf993_faca => {
                storage = walk.code(4);
                if storage > 0 {
                    stored = dims(&mut walk, "of its values");
                }
                dims(&mut walk, "of it")
            }
            _ => {
                walk.at -= 4;
                let count = walk.size(4, of("rank"));
                let dim =
                    |walk: &mut Walk<'_>| walk.number(Form::Unsigned(4), Kind::Shape, of("a dim"));
                (0..count).map(|_| dim(&mut walk)).product()
            }
        };
        walk.skip(8);
        let flag = |walk: &mut Walk<'_>| match walk.code(4) {
            0 | 4 | 10 => 4,
            1 | 6 | 11 => 8,
            2 | 8 | 9 | 12 => 2,
            3 | 5 | 7 => 1,
            other => panic!("element type {other}"),
        };
        let item = flag(&mut walk);
        let mut indices = 0;
        for _ in 0..storage {
            let item = flag(&mut walk);
            indices += item * dims(&mut walk, "of its indices");
        }
        walk.skip(item * if storage > 0 { stored } else { all } + indices);
        if all * stored.max(1) == 0 || storage > 0 {
            // An array without elements, or with few of a whole, may have any other dims.
            walk.fields.retain(|field| field.kind != Kind::Shape || field.at < record);
        }
    }
    let names = walk.size(8, "number of names");
    for name in 0..names {
        let size = walk.size(8, format!("size of name {name}"));
        walk.skip(size);
    }
    assert_eq!(walk.at, file.len(), "names to the end");
    walk.fields
}

/// Returns the fields of a zip archive.
pub fn zip(file: &[u8]) -> Vec<Field> {
    let mut walk = Walk::new(file);
    let end = file.len() - 22;
    assert!(file[end..].starts_with(b"PK\x05\x06"), "no comment");
    walk.at = end + 8;
    walk.size(2, "members on this disk");
    let members = walk.size(2, "members");
    walk.size(4, "size of the directory");
    let mut entry = walk.size(4, "offset of the directory");
    walk.size(2, "size of the comment");
    for member in 0..members {
        let of = |what: &str| format!("member {member}, {what}");
        walk.at = entry + 20;
        walk.size(4, of("stored size"));
        walk.size(4, of("size"));
        let name = walk.size(2, of("size of the name"));
        let extra = walk.size(2, of("size of the extra field"));
        let comment = walk.size(2, of("size of the comment"));
        walk.at = entry + 42;
        let local = walk.size(4, of("offset"));
        entry = walk.at + name + extra + comment;
        walk.at = local + 18;
        walk.size(4, of("stored size in its own header"));
        walk.size(4, of("size in its own header"));
        walk.size(2, of("size of the name in its own header"));
        walk.size(2, of("size of the extra field in its own header"));
    }
    walk.fields
}

/// Returns the fields of a NumPy array.
pub fn npy(file: &[u8]) -> Vec<Field> {
    let mut walk = Walk::new(file);
    walk.at = 8;
    let width = if file[6] == 1 { 2 } else { 4 };
    let header = walk.size(width, "size of the header");
    let shape = file.windows(9).position(|window| window == b"'shape': ").expect("a shape");
    walk.fields.extend(numbers(&file[..8 + width + header], shape, |_| "a dim".to_owned()));
    walk.fields
}

/// Keeps the length of the header of an array, by means of the spaces at its end.
pub fn mend_npy(file: &mut Vec<u8>, at: usize, grown: isize) {
    // Numbers before the text need no repair.
    let Some(end) = file.iter().skip(at).position(|byte| *byte == b'\n').filter(|_| at > 12) else {
        return;
    };
    let end = end + at;
    if let Ok(grown) = usize::try_from(grown) {
        let blanks = file.drain(end - grown..end);
        assert!(blanks.eq(std::iter::repeat_n(b' ', grown)), "blanks to be taken");
    } else {
        file.splice(end..end, std::iter::repeat_n(b' ', grown.unsigned_abs()));
    }
}

/// Returns the fields of a safetensors file.
pub fn safetensors(file: &[u8]) -> Vec<Field> {
    let mut walk = Walk::new(file);
    let size = walk.size(8, "size of the header");
    walk.fields.extend(json(&file[..8 + size], 8));
    walk.fields
}

/// Updates the size of the header.
#[expect(clippy::ptr_arg, reason = "the signature of `Mend`")]
pub fn mend_safetensors(file: &mut Vec<u8>, at: usize, grown: isize) {
    if at > 0 {
        let size = u64::from_le_bytes(*file.first_chunk().expect("a size"));
        file[..8].copy_from_slice(&size.wrapping_add_signed(grown as i64).to_le_bytes());
    }
}

/// Returns the numbers of a JSON text, named by the preceding keys and their positions in lists.
pub fn json(file: &[u8], from: usize) -> Vec<Field> {
    let named = |before: &[u8]| {
        // The last string before a colon.
        let colon = before.windows(2).rposition(|pair| pair == b"\":").unwrap_or(0);
        let start = before[..colon].iter().rposition(|byte| *byte == b'"').unwrap_or(0);
        let key = String::from_utf8_lossy(before.get(start + 1..colon).unwrap_or_default());
        match before.iter().rposition(|byte| matches!(byte, b'[' | b']' | b'{' | b'}')) {
            Some(open) if before[open] == b'[' => {
                let place = before[open..].iter().filter(|byte| **byte == b',').count();
                format!("{key}, place {place}")
            }
            _ => key.into_owned(),
        }
    };
    numbers(file, from, named)
}

/// Returns the decimal numbers outside of quotes.
fn numbers(file: &[u8], from: usize, name: impl Fn(&[u8]) -> String) -> Vec<Field> {
    let (mut fields, mut quoted, mut at) = (Vec::new(), None, from);
    while at < file.len() {
        let byte = file[at];
        match quoted {
            Some(_) if byte == b'\\' => at += 1,
            Some(quote) if byte == quote => quoted = None,
            Some(_) => {}
            None if matches!(byte, b'"' | b'\'') => quoted = Some(byte),
            None if byte == b'-' || byte.is_ascii_digit() => {
                let len = file[at..].iter().take_while(|byte| b"-0123456789".contains(byte));
                let len = len.count();
                let what = name(&file[..at]);
                let kind = if what.contains("shape") || what.contains("dim") {
                    Kind::Shape
                } else {
                    Kind::Length
                };
                fields.push(Field { at, form: Form::Text(len), kind, what });
                at += len;
                continue;
            }
            None => {}
        }
        at += 1;
    }
    fields
}

/// Returns the sizes in a pickle.
pub fn pickle(file: &[u8]) -> Vec<Field> {
    let mut walk = Walk::new(file);
    while walk.at < file.len() {
        let at = walk.at;
        let code = walk.skip(1)[0];
        let of = |what: &str| format!("{what} at {at}");
        let width = match code {
            b'U' | b'C' | 0x8a | 0x8c => 1,
            b'T' | b'X' | b'B' | 0x8b => 4,
            0x8d | 0x8e | 0x96 => 8,
            _ => 0,
        };
        match code {
            _ if width > 0 => {
                let size = walk.size(width, of(&format!("size for opcode {code:#04x}")));
                walk.skip(size);
            }
            0x95 => drop(walk.size(8, of("size of a frame"))),
            b'K' | 0x82 | b'q' | b'h' | 0x80 => drop(walk.skip(1)),
            b'M' | 0x83 => drop(walk.skip(2)),
            b'J' | b'r' | b'j' | 0x84 => drop(walk.skip(4)),
            b'G' => drop(walk.skip(8)),
            b'F' | b'I' | b'L' | b'S' | b'V' | b'p' | b'g' | b'P' | b'c' | b'i' => {
                for _ in 0..if matches!(code, b'c' | b'i') { 2 } else { 1 } {
                    let line = file[walk.at..].iter().position(|byte| *byte == b'\n');
                    walk.skip(line.expect("a line") + 1);
                }
            }
            _ => {}
        }
    }
    walk.fields
}

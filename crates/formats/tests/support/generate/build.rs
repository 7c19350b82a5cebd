//! Files built by hand.

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use super::{Kind, Made};
use crate::support::varint;

/// Returns a zip archive of members, deflated or stored.
pub fn zip<'a>(members: impl IntoIterator<Item = (&'a [u8], &'a [u8])>, deflate: bool) -> Vec<u8> {
    let (mut file, mut directory, mut count) = (Vec::new(), Vec::new(), 0u16);
    for (name, bytes) in members {
        let mut crc = Crc::new();
        crc.update(bytes);
        let stored = if deflate { deflated(bytes) } else { bytes.to_vec() };
        let mut common = vec![20, 0, 0, 0, if deflate { 8 } else { 0 }, 0, 0, 0, 33, 0];
        let size = |len: usize| u32::try_from(len).expect("small").to_le_bytes();
        common.extend([crc.sum().to_le_bytes(), size(stored.len()), size(bytes.len())].concat());
        common.extend(u16::try_from(name.len()).expect("short").to_le_bytes());
        common.extend([0, 0]);
        directory.extend([b"PK\x01\x02\x14\x00", &common[..], &[0; 10]].concat());
        directory.extend(size(file.len()));
        directory.extend(name);
        file.extend([b"PK\x03\x04", &common[..], name, &stored].concat());
        count += 1;
    }
    let sizes = [directory.len(), file.len()].map(|n| u32::try_from(n).expect("small"));
    file.extend(directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([count, count].map(u16::to_le_bytes).as_flattened());
    file.extend(sizes.map(u32::to_le_bytes).as_flattened());
    file.extend([0, 0]);
    file
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Returns an array with this header and this many bytes of elements.
pub fn npy(dict: &str, elements: usize) -> Vec<u8> {
    let size = u16::try_from(dict.len()).expect("short").to_le_bytes();
    [b"\x93NUMPY\x01\x00", &size[..], dict.as_bytes(), &vec![0; elements]].concat()
}

/// Returns a safetensors file with this header and this many bytes of elements.
pub fn safetensors(header: &str, elements: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; elements]].concat()
}

/// Returns a length-delimited protobuf field.
pub fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [&varint(number << 3 | 2)[..], &varint(bytes.len() as u64), bytes].concat()
}

/// Returns a varint protobuf field.
pub fn number(number: u64, value: i64) -> Vec<u8> {
    [varint(number << 3), varint(value.cast_unsigned())].concat()
}

/// Returns a record of a Paddle tensor stream without LoD, with these dims and this many bytes of elements.
pub fn tensor(dims: &[i64], elements: usize) -> Vec<u8> {
    let mut description = number(1, 5);
    dims.iter().for_each(|dim| description.extend(number(2, *dim)));
    let size = u32::try_from(description.len()).expect("short").to_le_bytes();
    [&[0; 16][..], &size, &description, &vec![0; elements]].concat()
}

/// Returns a program of one block that declares variables, each a saved tensor.
pub fn program(variables: &[&str]) -> Vec<u8> {
    let variables: Vec<u8> = variables.iter().flat_map(|name| field(3, &variable(name))).collect();
    let block = [number(1, 0), number(2, -1), variables].concat();
    [field(1, &block), field(4, &number(1, 0))].concat()
}

/// Returns a saved variable: a tensor of one float32.
pub fn variable(name: &str) -> Vec<u8> {
    let tensor = field(1, &[number(1, 5), number(2, 1)].concat());
    let kind = [number(1, 7), field(3, &tensor)].concat();
    [field(1, name.as_bytes()), field(2, &kind), number(3, 1)].concat()
}

/// Fields of messages that are messages, with the types of both: of `framework.proto`, and of
/// `onnx.proto` from `model` on.
const MESSAGES: &[(&str, u64, &str)] = &[
    ("program", 1, "block"),
    ("program", 4, "version"),
    ("program", 5, "op_version_map"),
    ("op_version_map", 1, "pair"),
    ("pair", 2, "version"),
    ("block", 3, "var"),
    ("block", 4, "op"),
    ("var", 2, "type"),
    ("type", 2, "tensor"),
    ("type", 3, "lod_tensor"),
    ("type", 4, "lod_tensor"),
    ("lod_tensor", 1, "tensor"),
    ("op", 1, "operand"),
    ("op", 2, "operand"),
    ("op", 4, "attribute"),
    ("model", 7, "graph"),
    ("model", 8, "operator_set"),
    ("model", 14, "entry"),
    ("model", 20, "training"),
    ("model", 25, "function"),
    ("training", 1, "graph"),
    ("training", 2, "graph"),
    ("function", 7, "node"),
    ("graph", 1, "node"),
    ("graph", 5, "tensor_proto"),
    ("graph", 11, "value_info"),
    ("graph", 12, "value_info"),
    ("graph", 15, "sparse_tensor"),
    ("sparse_tensor", 1, "tensor_proto"),
    ("sparse_tensor", 2, "tensor_proto"),
    ("tensor_proto", 13, "entry"),
    ("node", 5, "node_attribute"),
    ("node_attribute", 5, "tensor_proto"),
    ("node_attribute", 6, "graph"),
    ("value_info", 2, "value_type"),
    ("value_type", 1, "tensor_type"),
    ("tensor_type", 2, "shape"),
    ("shape", 1, "dimension"),
];

/// A wrong length, computed from the correct one and the size of the file.
type Lie = (&'static str, fn(u64, u64) -> u64);

/// Returns PaddlePaddle programs in which exactly one length is wrong.
pub fn lying_program(file: &[u8]) -> Vec<Made> {
    lying_message("program", file)
}

/// Returns messages in which exactly one length is wrong.
pub fn lying_message(root: &str, file: &[u8]) -> Vec<Made> {
    let lies: [Lie; 8] = [
        ("0", |_, _| 0),
        ("one less", |truth, _| truth.wrapping_sub(1)),
        ("one more", |truth, _| truth + 1),
        ("the size of the file", |_, size| size),
        ("2^31", |_, _| 1 << 31),
        ("2^32 - 1", |_, _| (1 << 32) - 1),
        ("2^63 - 1", |_, _| (1 << 63) - 1),
        ("2^64 - 1", |_, _| u64::MAX),
    ];
    let mut made = Vec::new();
    let mut rewrite = Rewrite { at: usize::MAX, seen: 0, what: String::new(), lie: |n| n };
    assert_eq!(rewrite.message(root, file), file, "nothing changes");
    // Messages of one type are similar, so a sample of the lengths suffices.
    let step = rewrite.seen.div_ceil(60);
    for at in (0..rewrite.seen).step_by(step) {
        for (name, lie) in lies {
            let size = file.len() as u64;
            let mut rewrite = Rewrite { at, seen: 0, what: String::new(), lie: |n| lie(n, size) };
            let bytes = rewrite.message(root, file);
            if bytes != file {
                let what = format!("size of {}: {name}", rewrite.what);
                made.push(Made { kind: Kind::Length, what, bytes });
            }
        }
    }
    made
}

struct Rewrite<F> {
    /// The index of the wrong length.
    at: usize,
    seen: usize,
    what: String,
    lie: F,
}

impl<F: Fn(u64) -> u64> Rewrite<F> {
    fn message(&mut self, message: &str, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut at = 0;
        let read = |at: &mut usize| {
            let (mut value, mut shift) = (0, 0);
            loop {
                let byte = bytes[*at];
                *at += 1;
                value |= u64::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    return value;
                }
                shift += 7;
            }
        };
        while at < bytes.len() {
            let start = at;
            let tag = read(&mut at);
            let fixed = match tag & 7 {
                0 => {
                    read(&mut at);
                    0
                }
                1 => 8,
                5 => 4,
                _ => {
                    let len = usize::try_from(read(&mut at)).expect("an honest file");
                    let inside = &bytes[at..at + len];
                    at += len;
                    let place = self.seen;
                    self.seen += 1;
                    let inner = MESSAGES
                        .iter()
                        .find(|(outer, number, _)| *outer == message && *number == tag >> 3);
                    let inner = match inner {
                        Some((.., inner)) => self.message(inner, inside),
                        None => inside.to_vec(),
                    };
                    let mut size = inner.len() as u64;
                    if place == self.at {
                        self.what = format!("field {} of a {message} ({place})", tag >> 3);
                        size = (self.lie)(size);
                    }
                    out.extend([varint(tag), varint(size), inner].concat());
                    continue;
                }
            };
            at += fixed;
            out.extend(&bytes[start..at]);
        }
        out
    }
}

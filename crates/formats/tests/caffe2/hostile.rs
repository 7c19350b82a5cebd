//! Hostile Caffe2 nets, blobs and databases.

use crate::generate::Hostile;
use crate::generate::Kind::{Length, Nesting, Shape, Twice};
use crate::generate::build::field;

const NET: &str = "init_net.pb";
const TEXT: &str = "init_net.pbtxt";
const BLOB: &str = "blob.pb";
const DATABASE: &str = "blobs.minidb";

fn argument(name: &str, rest: &[u8]) -> Vec<u8> {
    field(5, &[field(1, name.as_bytes()), rest.to_vec()].concat())
}

/// Returns a net of one fill.
fn fill(dims: &[u64], values: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|dim| [vec![6 << 3], varint(*dim)].concat()).collect();
    let op = [
        field(2, b"w"),
        field(4, b"GivenTensorFill"),
        argument("shape", &dims),
        argument("values", values),
    ];
    field(2, &op.concat())
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push((value & 0x7f).to_le_bytes()[0]);
    bytes
}

/// Returns nets in arguments of operators of nets.
fn nested(depth: usize) -> Vec<u8> {
    let op = |inner: &[u8]| {
        let inside = argument("net", &field(8, inner));
        field(2, &[field(4, b"While"), inside].concat())
    };
    (0..depth).fold(Vec::new(), |inner, _| op(&inner))
}

pub(crate) fn nets() -> Vec<Hostile> {
    let float = [5 << 3 | 5, 0, 0, 0, 0];
    let mut all = Vec::new();
    for dims in [&[2][..], &[1 << 32, 1 << 32], &[u64::MAX >> 1, 2], &[u64::MAX], &[0], &[1 << 40]]
    {
        all.push(match dims {
            // A fill of other dims is no weight.
            [u64::MAX] => Hostile::new(Shape, "a dim below 0", NET, fill(dims, &float))
                .readable("the operator is only a program"),
            _ => Hostile::new(Shape, format!("{dims:?}"), NET, fill(dims, &float)),
        });
    }
    all.push(Hostile::new(Nesting, "nets", NET, nested(400)));
    let whole = fill(&[1], &float);
    all.push(Hostile::new(Length, "cut", NET, whole[..whole.len() - 1].to_vec()));
    let mut long = whole.clone();
    long[1] = 0x7f;
    all.push(Hostile::new(Length, "an operator", NET, long));
    let twice = [whole.clone(), whole].concat();
    all.push(Hostile::new(Twice, "a blob", NET, twice).readable("the last fill counts"));
    all
}

pub(crate) fn texts() -> Vec<Hostile> {
    let text = |shape: &str, values: &str| {
        let args = format!("arg {{ name: \"shape\" {shape} }} arg {{ name: \"values\" {values} }}");
        format!("op {{ output: \"w\" type: \"GivenTensorFill\" {args} }}").into_bytes()
    };
    vec![
        Hostile::new(Shape, "another number", TEXT, text("ints: 2", "floats: 1")),
        Hostile::new(Shape, "huge", TEXT, text("ints: 4294967296 ints: 4294967296", "floats: 1")),
        Hostile::new(Nesting, "nets", TEXT, "op { arg { n { ".repeat(400).into_bytes()),
        Hostile::new(Length, "cut", TEXT, b"op { output: \"w\"".to_vec()),
        Hostile::new(
            Twice,
            "a name",
            TEXT,
            b"name: \"a\" name: \"b\" op { type: \"Free\" }".to_vec(),
        )
        .perhaps("protobuf takes the last one"),
    ]
}

/// Returns a blob of floats.
fn blob(dims: &[u64], elements: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|dim| [vec![1 << 3], varint(*dim)].concat()).collect();
    let tensor = [dims, vec![2 << 3, 1], field(3, elements)].concat();
    [field(1, b"x"), field(2, b"Tensor"), field(3, &tensor)].concat()
}

pub(crate) fn blobs() -> Vec<Hostile> {
    let mut all = Vec::new();
    for dims in [&[2][..], &[1 << 32, 1 << 32], &[u64::MAX], &[0]] {
        all.push(Hostile::new(Shape, format!("{dims:?}"), BLOB, blob(dims, &[0; 4])));
    }
    let whole = blob(&[1], &[0; 4]);
    all.push(Hostile::new(Length, "cut", BLOB, whole[..whole.len() - 1].to_vec()));
    all
}

/// Returns a record of a database.
fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let size = |bytes: &[u8]| i32::try_from(bytes.len()).expect("short").to_le_bytes().to_vec();
    [size(key.as_bytes()), size(value), key.as_bytes().to_vec(), value.to_vec()].concat()
}

pub(crate) fn databases() -> Vec<Hostile> {
    let whole = record("x#%0", &blob(&[1], &[0; 4]));
    let mut all = vec![
        Hostile::new(Shape, "dims", DATABASE, record("x", &blob(&[1 << 32, 1 << 32], &[0; 4]))),
        Hostile::new(Twice, "a blob", DATABASE, [whole.clone(), whole.clone()].concat()),
        Hostile::new(Length, "cut", DATABASE, whole[..whole.len() - 1].to_vec()),
    ];
    for size in [i32::MAX, -1, i32::MIN] {
        for at in [0, 4] {
            let mut bytes = whole.clone();
            bytes[at..at + 4].copy_from_slice(&size.to_le_bytes());
            all.push(Hostile::new(Length, format!("{size} at {at}"), DATABASE, bytes));
        }
    }
    all
}

pub(crate) fn predictors() -> Vec<Hostile> {
    let meta = |net: &[u8]| {
        let nets = field(2, &[field(1, b"PREDICT_NET_TYPE"), field(2, net)].concat());
        let value = [field(1, b"m"), field(2, b"std::string"), field(4, &nets)].concat();
        record("!!META_NET_DEF", &value)
    };
    vec![
        Hostile::new(Nesting, "nets", DATABASE, meta(&nested(400))),
        Hostile::new(Length, "an operator", DATABASE, meta(&[0x12, 0x7f])),
    ]
}

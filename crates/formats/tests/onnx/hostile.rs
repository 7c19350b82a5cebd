//! Hostile ONNX models, binary, as text and in Glow's archive.

use crate::generate::Kind::{Length, Nesting, Path, Shape, Twice};
use crate::generate::build::{field, lying_message, number, zip};
use crate::generate::fields::{self, as_it_is, lies};
use crate::generate::{
    DEEP, Hostile, LINKS, MALFORMED, PATHS, alone, file, long_names, nested, never,
};

const FILE: &str = "model.onnx";

/// Returns a model with the contents of a graph.
fn model(graph: &[u8]) -> Vec<u8> {
    let graph = [field(2, b"g"), graph.to_vec()].concat();
    [number(1, 10), field(7, &graph), field(8, &number(2, 21))].concat()
}

/// Returns a float tensor with these dims, whose message continues with `elements`.
fn tensor(dims: &[i64], elements: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|dim| number(1, *dim)).collect();
    [dims, number(2, 1), field(8, b"w"), elements.to_vec()].concat()
}

fn with_tensor(dims: &[i64], elements: &[u8]) -> Vec<u8> {
    model(&field(5, &tensor(dims, elements)))
}

/// Returns `external_data` with a location.
fn outside(location: &str) -> Vec<u8> {
    let entry = [field(1, b"location"), field(2, location.as_bytes())].concat();
    [field(13, &entry), number(14, 1)].concat()
}

/// Returns nested messages.
fn deep(levels: usize, wrap: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    (0..levels).fold(Vec::new(), |inner, _| wrap(&inner))
}

/// Returns files of one dialect with wrong lengths.
fn lying(golden: &[&str]) -> Vec<Hostile> {
    let mut all = Vec::new();
    for golden in golden {
        let made = lying_message("model", &file(golden));
        all.extend(alone(FILE, made, never).map(|hostile| {
            let shorter = [": one less", ": 0"].iter().any(|lie| hostile.what.ends_with(lie));
            match shorter {
                true => hostile.perhaps("the rest of a string may happen to be a field"),
                false => hostile,
            }
        }));
    }
    all
}

/// Returns single tensors.
pub(crate) fn onnx_tensor() -> Vec<Hostile> {
    const FILE: &str = "x.pb";
    let mut all = Vec::new();
    for golden in ["float32-raw", "int64-typed", "strings", "scalar"] {
        let made = lying_message("tensor_proto", &file(&format!("onnx_tensor/{golden}.pb")));
        all.extend(
            alone(FILE, made, never)
                .map(|hostile| hostile.perhaps("the rest of a string may happen to be a field")),
        );
    }
    let ours = |kind, what: &str, bytes: Vec<u8>| Hostile::new(kind, what, FILE, bytes);
    for dims in [&[1 << 32, 1 << 32][..], &[i64::MAX, i64::MAX], &[i64::MIN], &[-1], &[5]] {
        for (how, elements) in [("raw", field(9, &[0; 16])), ("floats", field(4, &[0; 16]))] {
            all.push(ours(Shape, &format!("{how}, {dims:?}"), tensor(dims, &elements)));
        }
    }
    for (what, bytes) in [
        ("groups", [tensor(&[], &[]), nested("\x2b", DEEP, "\x2c").into_bytes()].concat()),
        ("groups that do not end", [tensor(&[], &[]), vec![0x2b; DEEP]].concat()),
    ] {
        all.push(ours(Nesting, what, bytes));
    }
    let last = "the last of duplicate singular fields is used, as in protobuf";
    let elements = field(9, &[0; 4]).repeat(2);
    all.push(ours(Twice, "elements", tensor(&[1], &elements)).readable(last));
    for (path, why) in PATHS {
        let hostile = ours(Path, path, tensor(&[1], &outside(path)));
        all.push(match *path {
            "" => hostile.refused(MALFORMED, &["the location of external data"]),
            _ => hostile.refused(&["Escapes"], &[why]),
        });
    }
    all
}

pub(crate) fn onnx() -> Vec<Hostile> {
    let mut all = lying(&["onnx/attributes.onnx", "onnx/types/typed.onnx", "onnx/sparse.onnx"]);
    let ours = |kind, what: &str, bytes: Vec<u8>| Hostile::new(kind, what, FILE, bytes);
    for dims in [&[1 << 32, 1 << 32][..], &[i64::MAX, i64::MAX], &[i64::MIN], &[-1], &[5], &[2; 65]]
    {
        for (how, elements) in [("raw", field(9, &[0; 16])), ("floats", field(4, &[0; 16]))] {
            all.push(ours(Shape, &format!("{how}, {dims:?}"), with_tensor(dims, &elements)));
        }
        let beside = ours(Shape, &format!("{dims:?}"), with_tensor(dims, &outside("data")));
        all.push(beside.beside(&[("data", &[0; 16])]));
    }
    let many = with_tensor(&[1; 10_000], &field(9, &[0; 4]));
    all.push(ours(Shape, "many dims", many).readable("all of them are 1"));
    let varints = |elements: &[u8]| {
        let tensor = [number(1, 4), number(2, 7), field(8, b"w"), field(7, elements)].concat();
        model(&field(5, &tensor))
    };
    for (what, elements) in [
        ("too few varints", vec![1; 3]),
        ("too many bytes of varints", vec![1; 41]),
        ("a varint too many", vec![1; 5]),
        ("a varint that does not end", vec![0x80, 0x80, 0x80, 0x80]),
        ("a long varint", [vec![0x80; 11], vec![1; 4]].concat()),
    ] {
        all.push(ours(Length, what, varints(&elements)));
    }
    let node = |inner: &[u8]| field(1, &field(5, &[field(1, b"g"), field(6, inner)].concat()));
    let of_types = |inner: &[u8]| field(4, &field(1, inner));
    let levels = 2000;
    for (what, bytes) in [
        ("graphs", model(&deep(levels, node))),
        ("types", model(&field(11, &field(2, &deep(levels, of_types))))),
        ("groups", [model(&[]), nested("\x2b", DEEP, "\x2c").into_bytes()].concat()),
        ("groups that do not end", [model(&[]), vec![0x2b; DEEP]].concat()),
        ("ends of groups", [model(&[]), vec![0x2c; 4]].concat()),
    ] {
        all.push(ours(Nesting, what, bytes));
    }
    let graph = field(7, &field(2, b"g"));
    let again = [model(&[]), graph].concat();
    all.push(ours(Twice, "a graph", again).refused(MALFORMED, &["one graph"]));
    let elements = field(9, &[0; 4]).repeat(2);
    let last = "the last of duplicate singular fields is used, as in protobuf";
    all.push(ours(Twice, "elements", with_tensor(&[1], &elements)).readable(last));
    let told = "both of two tensors with the same name are read, under that name";
    let both = field(5, &tensor(&[1], &field(9, &[0; 4]))).repeat(2);
    all.push(ours(Twice, "a tensor", model(&both)).readable(told));
    let twice = [outside("data"), outside("data")].concat();
    let place = ours(Twice, "a location", with_tensor(&[1], &twice));
    all.push(place.beside(&[("data", &[0; 4])]).refused(MALFORMED, &["a single"]));
    let at = |location: &str| with_tensor(&[1], &outside(location));
    for (path, why) in PATHS {
        let hostile = ours(Path, path, at(path));
        all.push(match *path {
            "" => hostile.refused(MALFORMED, &["the location of external data"]),
            _ => hostile.refused(&["Escapes"], &[why]),
        });
    }
    for name in long_names() {
        let reason = "a file of that name cannot exist: it is missing, with a warning";
        all.push(ours(Path, "a long name", at(&name)).readable(reason));
    }
    all.push(ours(Path, "a directory", at(".")).refused(&["NotAFile"], &[]));
    for (link, target, name) in LINKS {
        let mut hostile = ours(Path, &format!("{link} to {target}"), at(name));
        hostile.links.push(((*link).to_owned(), (*target).to_owned()));
        all.push(hostile.refused(&["Escapes"], &["a symbolic link"]));
    }
    all
}

pub(crate) fn onnx_text() -> Vec<Hostile> {
    const FILE: &str = "model.onnxtxt";
    let text = |kind, what: &str, graph: &str| {
        let text = format!("ir_version: 10 graph {{ name: \"g\" {graph} }}");
        Hostile::new(kind, what, FILE, text.into_bytes())
    };
    let mut all = Vec::new();
    for value in
        ["18446744073709551616", "-9223372036854775809", "1.5", "1e3", "nan", "--1", "\"1\""]
    {
        let dim = format!("initializer {{ dims: {value} data_type: 1 }}");
        all.push(text(Shape, value, &dim));
        let element = format!("initializer {{ dims: 1 data_type: 7 int64_data: {value} }}");
        all.push(text(Length, value, &element));
    }
    all.push(text(Length, "below zero", "initializer { uint64_data: -1 }"));
    for dims in ["dims: -1", "dims: 4294967296 dims: 4294967296", "dims: 5"] {
        let elements = "raw_data: \"\\000\\000\\000\\000\"";
        all.push(text(Shape, dims, &format!("initializer {{ {dims} data_type: 1 {elements} }}")));
    }
    for open in [
        "node {",
        "node { attribute { g {",
        "input <",
        "node { attribute: [",
        "value_info { type {",
    ] {
        all.push(text(Nesting, open, &open.repeat(DEEP)));
    }
    for (what, twice) in [
        ("a name", "name: \"h\""),
        ("a type", "input { name: \"x\" type { } type { } }"),
        ("elements", "initializer { raw_data: \"\" raw_data: \"\" }"),
    ] {
        all.push(text(Twice, what, twice).refused(MALFORMED, &["once"]));
    }
    for (path, why) in PATHS.iter().filter(|(path, _)| !path.is_empty()) {
        let escaped: String = path.bytes().map(|byte| format!("\\{byte:03o}")).collect();
        let entry = format!("external_data {{ key: \"location\" value: \"{escaped}\" }}");
        let tensor =
            format!("initializer {{ dims: 1 data_type: 1 {entry} data_location: EXTERNAL }}");
        all.push(text(Path, path, &tensor).refused(&["Escapes"], &[why]));
    }
    all
}

/// Returns archives of one dialect, derived from a golden one and built by hand.
fn archives(golden: &str, message: &[u8]) -> Vec<Hostile> {
    const FILE: &str = "model.onnx.zip";
    let honest = file(golden);
    let made = lies(&honest, &fields::zip(&honest), as_it_is);
    let elsewhere = |what: &str| {
        what.ends_with("of the directory: 2^32 - 1").then_some("zip64 has the number elsewhere")
    };
    let mut all: Vec<Hostile> = alone(FILE, made, elsewhere).collect();
    let archive = |kind, what: &str, members: &[(&[u8], &[u8])]| {
        Hostile::new(kind, what, FILE, zip(members.iter().copied(), false))
    };
    let weight = tensor(&[1], &field(9, &[0; 4]));
    for count in
        ["2", "18446744073709551616", "-1", "", "one", "99999999999999999999999999999999999"]
    {
        let members: &[(&[u8], &[u8])] = &[
            (b"main/weights", count.as_bytes()),
            (b"main/weight_0", &weight),
            (b"main/model", message),
        ];
        all.push(archive(Length, count, members));
    }
    let fewer: &[(&[u8], &[u8])] = &[(b"main/weights", b"0\n"), (b"main/weight_0", &weight)];
    all.push(archive(Length, "no model", fewer));
    let large = tensor(&[1 << 32, 1 << 32], &field(9, &[0; 4]));
    let members: &[(&[u8], &[u8])] =
        &[(b"main/weights", b"1\n"), (b"main/weight_0", &large), (b"main/model", message)];
    all.push(archive(Shape, "dims", members));
    let wrap = |inner: &[u8]| field(1, &field(5, &field(6, inner)));
    let nested = [message, &field(7, &deep(2000, wrap))].concat();
    let members: &[(&[u8], &[u8])] = &[(b"main/weights", b"0\n"), (b"main/model", &nested)];
    all.push(archive(Nesting, "graphs", members));
    let members: &[(&[u8], &[u8])] =
        &[(b"main/weights", b"0\n"), (b"main/model", message), (b"main/model", message)];
    all.push(archive(Twice, "a member", members));
    let outside = tensor(&[1], &outside("../secret"));
    let members: &[(&[u8], &[u8])] =
        &[(b"main/weights", b"1\n"), (b"main/weight_0", &outside), (b"main/model", message)];
    all.push(archive(Path, "a location", members).refused(&["Escapes"], &["it contains `..`"]));
    all
}

pub(crate) fn onnx_zip() -> Vec<Hostile> {
    archives("glow/all_elemkinds_constants_std.zip", &model(&[]))
}

/// Returns a Glow model.
fn glow(graph: &[u8]) -> Vec<u8> {
    [field(2, b"GlowONNXModelWriter"), model(graph)].concat()
}

pub(crate) fn onnx_glow() -> Vec<Hostile> {
    let mut all = lying(&["glow/member_types.onnx", "glow/storage_properties.onnx"]);
    let bytes = glow(&field(5, &tensor(&[1 << 32, 1 << 32], &field(9, &[0; 4]))));
    all.push(Hostile::new(Shape, "dims", FILE, bytes));
    let wrap = |inner: &[u8]| field(1, &field(5, &field(6, inner)));
    all.push(Hostile::new(Nesting, "graphs", FILE, glow(&deep(2000, wrap))));
    let again = [glow(&[]), field(7, &[])].concat();
    all.push(Hostile::new(Twice, "a graph", FILE, again));
    let bytes = glow(&field(5, &tensor(&[1], &outside("../secret"))));
    let hostile = Hostile::new(Path, "a location", FILE, bytes);
    all.push(hostile.refused(&["Escapes"], &["it contains `..`"]));
    all
}

pub(crate) fn onnx_glow_text() -> Vec<Hostile> {
    onnx_text()
        .into_iter()
        .map(|mut hostile| {
            let glow = b"producer_name: \"GlowONNXModelWriter\" ";
            hostile.files[0].1.splice(0..0, glow.iter().copied());
            hostile
        })
        .collect()
}

pub(crate) fn onnx_glow_zip() -> Vec<Hostile> {
    archives("glow/dag.zip", &glow(&[]))
}

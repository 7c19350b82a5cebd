//! Hostile files of PyTorch: archives, pickles of tensors, and what is around them.

use crate::generate::Kind::{Length, Nesting, Path, Shape, Twice};
use crate::generate::fields::{self, as_it_is, lies};
use crate::generate::pickle::{pickled, short_frame};
use crate::generate::{Hostile, Made, PATHS, alone, build, file};

/// Returns an archive of `torch.save` with this pickle, and a storage of eight bytes.
fn saved(pickle: &[u8]) -> Vec<u8> {
    build::zip(
        [
            (&b"a/data.pkl"[..], pickle),
            (b"a/byteorder", b"little"),
            (b"a/data/0", &[0; 8]),
            (b"a/version", b"3\n"),
        ],
        false,
    )
}

/// Returns the pickle of a tensor of two floats with other numbers: elements of the storage, offset, dims, strides.
fn tensor(count: &str, offset: &str, shape: &[&str], strides: &[&str]) -> Vec<u8> {
    let list = |numbers: &[&str]| {
        let numbers: String = numbers.iter().map(|number| format!("L{number}L\n")).collect();
        format!("({numbers}t")
    };
    [
        &b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"[..],
        b"X\x01\0\0\x000X\x03\0\0\0cpu",
        format!("L{count}L\ntQL{offset}L\n{}{}", list(shape), list(strides)).as_bytes(),
        b"\x89ccollections\nOrderedDict\n)RtR.",
    ]
    .concat()
}

pub(crate) fn torch() -> Vec<Hostile> {
    const FILE: &str = "model.pt";
    let mut all = Vec::new();
    let honest =
        Hostile::new(Shape, "an honest one", FILE, saved(&tensor("2", "0", &["2"], &["1"])));
    all.push(honest.readable("it is honest"));
    let most = u64::MAX.to_string();
    for (what, count, offset, shape, strides) in [
        ("a storage of another size", "3", "0", &["2"][..], &["1"][..]),
        ("a storage of no size", "-1", "0", &["2"], &["1"]),
        ("an offset after the end", "2", "1", &["2"], &["1"]),
        ("an enormous offset", "2", &most, &["2"], &["1"]),
        ("a negative offset", "2", "-1", &["2"], &["1"]),
        ("more elements than stored", "2", "0", &["3"], &["1"]),
        ("a stride after the end", "2", "0", &["2"], &["2"]),
        ("an enormous stride", "2", "0", &["2"], &[&most]),
        ("a negative stride", "2", "1", &["2"], &["-1"]),
        ("dims that overflow", "2", "0", &["4294967296", "4294967296"], &["0", "0"]),
        ("repeated elements without end", "2", "0", &["1099511627776"], &["0"]),
        ("a negative dim", "2", "0", &["-2"], &["1"]),
        ("dims without strides", "2", "0", &["2", "1"], &["1"]),
        ("65 dims", "2", "0", &["1"; 65], &["1"; 65]),
    ] {
        all.push(Hostile::new(Shape, what, FILE, saved(&tensor(count, offset, shape, strides))));
    }
    let good = tensor("2", "0", &["2"], &["1"]);
    for (what, members) in [
        ("no storage", &[(&b"a/data.pkl"[..], good.as_slice())][..]),
        ("no pickle", &[(b"a/data/0", &[0; 8])]),
        ("a deflated bomb", &[(b"a/data.pkl", &[b'('; 1 << 20])]),
        ("another byte order", &[(b"a/data.pkl", b"\x80\x02N."), (b"a/byteorder", b"middle")]),
        ("bytes after the pickle", &[(b"a/data.pkl", b"\x80\x02N.N.")]),
        ("members in two folders", &[(b"a/data.pkl", b"\x80\x02N."), (b"b/data/0", b"")]),
    ] {
        let deflate = what.starts_with("a deflated");
        let hostile =
            Hostile::new(Length, what, FILE, build::zip(members.iter().copied(), deflate));
        let kinds: &[&str] = if deflate { &["Limit"] } else { &["Malformed"] };
        all.push(hostile.refused(kinds, &[]));
    }
    let twice = [(&b"a/data.pkl"[..], good.as_slice()); 2];
    all.push(Hostile::new(Twice, "two pickles", FILE, build::zip(twice, false)));
    for (kind, what, bytes) in pickled() {
        let hostile = Hostile::new(kind, what.clone(), FILE, saved(&bytes));
        all.push(match what.as_str() {
            "marks" => hostile.readable("the value above them is the result, as in CPython"),
            "states" => hostile.readable("attributes of dicts are not read"),
            "a list in itself" => hostile.readable("the part that contains the value is left out"),
            _ => hostile,
        });
    }
    for (path, _) in PATHS.iter().filter(|(path, _)| !path.is_empty()) {
        let size = u32::try_from(path.len()).expect("short").to_le_bytes();
        let key = [b"X", &size[..], path.as_bytes()].concat();
        let at = good.windows(6).position(|window| window == b"X\x01\0\0\x000").expect("a key");
        let bytes = [&good[..at], &key, &good[at + 6..]].concat();
        all.push(Hostile::new(Path, format!("a storage `{path}`"), FILE, saved(&bytes)));
    }
    for made in lies(&good, &fields::pickle(&good), as_it_is) {
        let made = Made { bytes: saved(&made.bytes), ..made };
        all.extend(alone(FILE, vec![made], short_frame));
    }
    all
}

/// Returns the fields of an archive with wrong values.
fn archive(golden: &str, open: &'static str) -> Vec<Hostile> {
    let honest = file(&format!("torch/{golden}"));
    let made = lies(&honest, &fields::zip(&honest), as_it_is);
    let perhaps = "a header may have other values that do not matter";
    alone(open, made, |_| None).map(|hostile| hostile.perhaps(perhaps)).collect()
}

pub(crate) fn torchscript() -> Vec<Hostile> {
    const FILE: &str = "model.pt";
    let mut all = archive("trace.pt", FILE);
    let script = |pickle: &[u8]| {
        let members = [
            (&b"a/data.pkl"[..], pickle),
            (b"a/constants.pkl", b"\x80\x02)."),
            (b"a/version", b"3\n"),
        ];
        build::zip(members, false)
    };
    for (kind, what, bytes) in pickled() {
        let hostile = Hostile::new(kind, what.clone(), FILE, script(&bytes));
        all.push(match what.as_str() {
            "marks" => hostile.readable("the value above them is the result, as in CPython"),
            "states" => hostile.readable("attributes of dicts are not read"),
            "a list in itself" => hostile.readable("the part that contains the value is left out"),
            _ => hostile,
        });
    }
    let deep = "[".repeat(1000);
    let json = [(&b"a/model.json"[..], deep.as_bytes())];
    all.push(Hostile::new(Nesting, "lists in JSON", FILE, build::zip(json, false)));
    all
}

pub(crate) fn exported() -> Vec<Hostile> {
    const FILE: &str = "model.pt2";
    let mut all = archive("export.pt2", FILE);
    let package = |config: &str| {
        let members = [
            (&b"a/archive_format"[..], &b"pt2"[..]),
            (b"a/data/weights/weight_0", &[0; 8]),
            (b"a/data/weights/m_weights_config.json", config.as_bytes()),
        ];
        build::zip(members, false)
    };
    let entry = |path: &str, size: &str, stride: &str, dtype: &str| {
        format!(
            r#"{{"path_name":"{path}","tensor_meta":{{"dtype":{dtype},"sizes":[{{"as_int":{size}}}],"strides":[{{"as_int":{stride}}}],"storage_offset":{{"as_int":0}}}}}}"#
        )
    };
    let one = |entry: &str| package(&format!(r#"{{"config":{{"w":{entry}}}}}"#));
    let honest = Hostile::new(Shape, "an honest one", FILE, one(&entry("weight_0", "2", "1", "7")));
    all.push(honest.readable("it is honest"));
    for (what, size, stride, dtype) in [
        ("more elements than stored", "3", "1", "7"),
        ("a stride after the end", "2", "9", "7"),
        ("an enormous dim", "18446744073709551615", "1", "7"),
        ("an unknown type", "2", "1", "99"),
    ] {
        let bytes = one(&entry("weight_0", size, stride, dtype));
        all.push(Hostile::new(Shape, what, FILE, bytes));
    }
    let twice = entry("weight_0", "2", "1", "7");
    let twice = package(&format!(r#"{{"config":{{"w":{twice},"w":{twice}}}}}"#));
    all.push(Hostile::new(Twice, "a name", FILE, twice));
    all.push(Hostile::new(Nesting, "lists", FILE, package(&"[".repeat(10_000))));
    for path in ["weight_1", "weight_/../../secret"] {
        let bytes = one(&entry(path, "2", "1", "7"));
        all.push(Hostile::new(Path, path, FILE, bytes));
    }
    all
}

/// Programs and tensors of ExecuTorch with other references, sizes, dims and indices.
pub(crate) fn executorch() -> Vec<Hostile> {
    const PERHAPS: &str = "a number may refer to another table, or not matter";
    let mut all = Vec::new();
    for (golden, open) in [("external.ptd", "model.ptd"), ("channels-last.pte", "model.pte")] {
        let honest = file(&format!("executorch/{golden}"));
        let whole = Hostile::new(Length, format!("an honest {golden}"), open, honest.clone());
        all.push(whole.readable("it is honest"));
        let made = lies(&honest, &fields::words(8, honest.len() / 4 * 4), as_it_is);
        all.extend(alone(open, made, |_| None).map(|hostile| hostile.perhaps(PERHAPS)));
        for (what, at, value) in [
            ("a root outside", 0, u64::from(u32::MAX)),
            ("tables that exceed the file", 16, u64::MAX),
            ("segments outside", if open == "model.pte" { 24 } else { 32 }, u64::MAX),
            ("segments that exceed the file", if open == "model.pte" { 32 } else { 40 }, 1 << 40),
        ] {
            let mut bytes = honest.clone();
            let value = value.to_le_bytes();
            let len = if at == 0 { 4 } else { 8 };
            bytes[at..at + len].copy_from_slice(&value[..len]);
            all.push(Hostile::new(Length, format!("{what}, in {golden}"), open, bytes));
        }
        for cut in [0, 9, honest.len() / 2, honest.len() - 1] {
            let what = format!("{golden} cut at {cut}");
            all.push(Hostile::new(Length, what, open, honest[..cut].to_vec()));
        }
    }
    all
}

//! Hostile files of MXNet: lists of arrays, archives, programs, and both together.

use crate::generate::Kind::{Nesting, Path, Shape, Twice};
use crate::generate::build::{npy as array, zip};
use crate::generate::fields::{self, as_it_is, lies};
use crate::generate::{Answer, DEEP, Hostile, MALFORMED, PATHS, alone, file, nested};
use crate::numpy::hostile::archives;

/// Returns programs with parameters, one of which is hostile.
pub(crate) fn mxnet() -> Vec<Hostile> {
    const SYMBOL: &str = "model-symbol.json";
    const PARAMS: &str = "model-0000.params";
    let [symbol, params] =
        ["symbol.json", "0012.params"].map(|name| file(&format!("mxnet/1.9.1/module/net-{name}")));
    let mut all = Vec::new();
    for hostile in mxnet_params() {
        let Hostile { kind, what, mut files, answer, .. } = hostile;
        let (_, bytes) = files.remove(0);
        let both = Hostile::new(kind, what, PARAMS, bytes).beside(&[(SYMBOL, &symbol)]).directory();
        all.push(match answer {
            Answer::Refused(..) => both,
            // A valid list of arrays does not belong to this program.
            Answer::Readable(_) => both.refused(&["Mismatch"], &["it has none of"]),
            Answer::Perhaps(_) => both.refused(&["Mismatch", "Malformed"], &[]),
        });
    }
    for hostile in mxnet_symbol().into_iter().filter(|h| matches!(h.answer, Answer::Refused(..))) {
        all.push(hostile.beside(&[(PARAMS, &params)]).directory());
    }
    let others = list(&[record(&[1], 4)], &["arg:other"]);
    let other = Hostile::new(Twice, "parameters of another program", PARAMS, others);
    all.push(
        other.beside(&[(SYMBOL, &symbol)]).directory().refused(&["Mismatch"], &["it has none of"]),
    );
    let two = Hostile::new(Twice, "two programs", SYMBOL, symbol.clone());
    let two = two.beside(&[("other-symbol.json", &symbol)]).directory();
    all.push(two.refused(&["NoModel"], &["several"]));
    all
}

pub(crate) fn mxnet_params() -> Vec<Hostile> {
    const FILE: &str = "model.params";
    let mut all = Vec::new();
    for golden in ["0.9.5/dict", "0.11.0/dict", "1.9.1/dict", "1.9.1/sparse", "2.0.0b1/own"] {
        let honest = file(&format!("mxnet/{golden}.params"));
        let made = lies(&honest, &fields::params(&honest), as_it_is);
        let mut sizes = made.iter().filter_map(|made| made.what.strip_prefix("size of name "));
        let last =
            sizes.next_back().and_then(|what| what.split(':').next()).unwrap_or("").to_owned();
        all.extend(
            alone(FILE, made, |what| {
                let of_last = what.strip_prefix("size of name ").and_then(|w| w.split_once(": "));
                match of_last {
                    Some((name, "0" | "one less")) if name == last => {
                        Some("bytes after the names are ignored, by MXNet too, with a warning")
                    }
                    _ if what == "number of names: 0" => {
                        Some("a list without names, with bytes after it")
                    }
                    _ => None,
                }
            })
            .map(|hostile| {
                let none = [": 0", ": one less"].iter().any(|lie| hostile.what.ends_with(lie));
                match none && hostile.what.contains("rank") {
                    true => {
                        hostile.perhaps("without dims: a scalar, or never filled, by what follows")
                    }
                    false => hostile,
                }
            }),
        );
    }
    for dims in [
        &[1 << 32, 1 << 32][..],
        &[i64::MAX, i64::MAX],
        &[i64::MAX, 2],
        &[1 << 62],
        &[-1],
        &[-1, -1],
        &[i64::MIN],
        &[1; 65],
        &[1; 10_000],
    ] {
        let short = &dims[..dims.len().min(4)];
        let bytes = list(&[record(dims, 4)], &["x"]);
        all.push(Hostile::new(Shape, format!("{} dims {short:?}", dims.len()), FILE, bytes));
    }
    let twice = list(&[record(&[1], 4), record(&[1], 4)], &["x", "x"]);
    let last = "MXNet uses the last of duplicate names; a warning reports it";
    all.push(Hostile::new(Twice, "a name", FILE, twice).readable(last));
    for (path, _) in PATHS {
        let bytes = list(&[record(&[1], 4)], &[path]);
        let reason = "names of arrays are not files; where they become files, they are rejected";
        all.push(Hostile::new(Path, *path, FILE, bytes).readable(reason));
    }
    all
}

/// Returns a record of MXNet with these dims and this many bytes of elements.
pub(crate) fn record(dims: &[i64], elements: usize) -> Vec<u8> {
    let mut bytes = 0xf993_fac9_u32.to_le_bytes().to_vec();
    bytes.extend([0; 4]);
    bytes.extend(u32::try_from(dims.len()).expect("few").to_le_bytes());
    dims.iter().for_each(|dim| bytes.extend(dim.to_le_bytes()));
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(vec![0; elements]);
    bytes
}

/// Returns a list of records with names.
fn list(records: &[Vec<u8>], names: &[&str]) -> Vec<u8> {
    let count = |count: usize| (count as u64).to_le_bytes();
    let names = names.iter().flat_map(|name| [&count(name.len())[..], name.as_bytes()].concat());
    let names: Vec<u8> = names.collect();
    let start = [&0x112_u64.to_le_bytes()[..], &[0; 8], &count(records.len())].concat();
    let many = if names.is_empty() { 0 } else { records.len() };
    [start, records.concat(), count(many).to_vec(), names].concat()
}

pub(crate) fn mxnet_npz() -> Vec<Hostile> {
    const FILE: &str = "model.params";
    let mut all = archives(FILE, &["mxnet/2.0.0b1/gluon.params", "mxnet/2.0.0b1/sparse.params"]);
    // The parts of a sparse array, one of which is hostile.
    let list = |dims: &[i64]| {
        let dict =
            format!("{{'descr': '<i8', 'fortran_order': False, 'shape': ({},), }}", dims.len());
        let mut bytes = array(&dict, 0);
        dims.iter().for_each(|dim| bytes.extend(dim.to_le_bytes()));
        bytes
    };
    let values = array("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }", 8);
    let format =
        [&array("{'descr': '|S10', 'fortran_order': False, 'shape': (), }", 0), &b"row_sparse"[..]]
            .concat();
    for (what, indices, shape) in [
        ("a negative dim", list(&[0]), list(&[-1, 2])),
        ("a dim that differs", list(&[0]), list(&[4, 3])),
        ("no dims", list(&[0]), list(&[])),
        ("65 dims", list(&[0]), list(&[1; 65])),
        ("more indices than rows", list(&[0, 1]), list(&[4, 2])),
        ("no indices", list(&[]), list(&[4, 2])),
    ] {
        let parts = [
            (&b"x/data.npy"[..], &values[..]),
            (b"x/indices.npy", &indices),
            (b"x/shape.npy", &shape),
            (b"x/format.npy", &format),
        ];
        all.push(Hostile::new(Shape, what, FILE, zip(parts, false)));
    }
    all
}

pub(crate) fn mxnet_symbol() -> Vec<Hostile> {
    const FILE: &str = "model-symbol.json";
    let mut all = Vec::new();
    for golden in ["1.9.1/foreach", "1.9.1/split", "1.9.1/shared"] {
        let honest = file(&format!("mxnet/{golden}-symbol.json"));
        let mut fields = fields::json(&honest, 0);
        // All versions are valid.
        fields.retain(|field| !field.is("mxnet_version"));
        let mut made = lies(&honest, &fields, as_it_is);
        // A nearby node is a node too.
        let near = ["0", "one less", "one more"];
        made.retain(|made| !near.iter().any(|lie| made.what.ends_with(&format!(": {lie}"))));
        all.extend(
            alone(FILE, made, |what| {
                let (place, lie) = what.split_once(": ")?;
                let fits = matches!(lie, "the size of the file" | "2^31" | "2^32 - 1");
                let counts = matches!(place, "inputs, place 2" | "heads, place 2");
                (counts && fits).then_some("how often a value was changed, in 32 bits")
            })
            .map(|hostile| {
                let outputs =
                    hostile.what.starts_with("node_row_ptr") && hostile.what.ends_with("file");
                match outputs {
                    true => hostile.perhaps("the last of them is the total number of outputs"),
                    false => hostile,
                }
            }),
        );
    }
    let node =
        |kind, what: &str, node: &str| Hostile::new(kind, what, FILE, symbol(node).into_bytes());
    let plain = |rest: &str| format!(r#"{{"op":"relu","name":"y","inputs":[[0,0,0]]{rest}}}"#);
    for shape in ["(-1,)", "(99999999999999999999,)", "(1, 1e9)", "((1,),)"] {
        let text = symbol(&plain(""))
            .replace("\"x\",", &format!("\"x\",\"attrs\":{{\"__shape__\":\"{shape}\"}},"));
        let reason = "a shape from user attributes: invalid dims are unknown";
        all.push(Hostile::new(Shape, shape, FILE, text.into_bytes()).readable(reason));
    }
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = nested(open, DEEP, close);
        for key in ["attrs", "inputs", "subgraphs", "control_deps", "backward_source_id"] {
            let what = format!("{open} in {key}");
            all.push(node(
                Nesting,
                &what,
                &plain(&format!(",\"{key}\":{deep}")).replacen(
                    "inputs",
                    "other",
                    usize::from(key == "inputs"),
                ),
            ));
        }
        all.push(node(
            Nesting,
            &format!("{open} in an attribute"),
            &plain(&format!(",\"attrs\":{{\"a\":{deep}}}")),
        ));
    }
    let inner = symbol(&plain(",\"subgraphs\":[@]"));
    let mut graphs = symbol(&plain(""));
    for _ in 0..200 {
        graphs = inner.replace('@', &graphs);
    }
    all.push(Hostile::new(Nesting, "graphs in graphs", FILE, graphs.into_bytes()));
    for (what, rest) in [
        ("inputs", ",\"inputs\":[]"),
        ("a name", ",\"name\":\"z\""),
        ("an operator", ",\"op\":\"tanh\""),
    ] {
        all.push(node(Twice, what, &plain(rest)).refused(MALFORMED, &["duplicate field"]));
    }
    let twice = symbol(&plain("")).replace("\"arg_nodes\"", "\"nodes\":[],\"arg_nodes\"");
    let twice = Hostile::new(Twice, "nodes", FILE, twice.into_bytes());
    all.push(twice.refused(MALFORMED, &["duplicate field"]));
    let last = "MXNet uses the last of duplicate keys, and so does the reader";
    all.push(
        node(Twice, "an attribute", &plain(",\"attrs\":{\"a\":\"1\",\"a\":\"2\"}")).readable(last),
    );
    let same = "variables of the same name are one, because they are bound by name";
    all.push(node(Twice, "a variable", &plain("").replace("relu", "null")).readable(same));
    for (path, _) in PATHS {
        let name = serde_json::to_string(path).expect("JSON");
        let reason = "names of values are not files; where they become files, they are rejected";
        all.push(node(Path, path, &plain("").replace("\"y\"", &name)).readable(reason));
    }
    all
}

/// Returns an MXNet program around a node.
fn symbol(node: &str) -> String {
    let variable = r#"{"op":"null","name":"x","inputs":[]}"#;
    format!(
        r#"{{"nodes":[{variable},{node}],"arg_nodes":[0],"heads":[[1,0,0]],"attrs":{{"mxnet_version":["int",10901]}}}}"#
    )
}

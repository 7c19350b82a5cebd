//! A function for each format: what is hostile in it.

use lodstone_formats::{OpenOptions, Seal, SealedFile, SealedModel, TensorRanges, numpy};
use lodstone_store::{Progress, checksum};

use super::build::{self, field, lying_program, npy as array, number, program, tensor, zip};
use super::fields::{self, as_it_is, lies, mend_npy, mend_safetensors};
use super::{
    Answer, DEEP, Hostile, Kind, LINKS, MALFORMED, Made, PATHS, alone, file, kinds, long_names,
    nested, never,
};
use crate::support::varint;

use Kind::{Length, Nesting, Path, Shape, Twice};

/// A format, and what is hostile in it.
type Generator = (&'static str, fn() -> Vec<Hostile>);

/// Every format, and the seal.
pub const GENERATORS: &[Generator] = &[
    ("safetensors", safetensors),
    ("mxnet-params", mxnet_params),
    ("mxnet-npz", mxnet_npz),
    ("mxnet", mxnet),
    ("mxnet-symbol", mxnet_symbol),
    ("mxnet-states", mxnet_states),
    ("npz", npz),
    ("npy", npy),
    ("paddle", paddle),
    ("paddle-vars", paddle_vars),
    ("paddle-save", paddle_save),
    ("paddle-params", paddle_params),
    ("paddle-params-sized", paddle_params_sized),
    ("paddle-pickle", paddle_pickle),
    ("paddle-tensor", paddle_tensor),
    ("paddle-tensor-lod-last", paddle_tensor_lod_last),
    ("paddle-program", paddle_program),
    ("paddle-program-text", paddle_program_text),
    ("seal", seal),
];

fn safetensors() -> Vec<Hostile> {
    const FILE: &str = "model.safetensors";
    const INDEX: &str = "model.safetensors.index.json";
    let mut all = Vec::new();
    for golden in ["metadata", "dtypes", "packed", "none"] {
        let honest = file(&format!("safetensors/{golden}.safetensors"));
        let made = lies(&honest, &fields::safetensors(&honest), mend_safetensors);
        all.extend(alone(FILE, made, never));
    }
    let header = |kind, what: &str, header: &str| {
        Hostile::new(kind, what, FILE, build::safetensors(header, 4))
    };
    let shape =
        |shape: &str| format!(r#"{{"x":{{"dtype":"F32","shape":{shape},"data_offsets":[0,4]}}}}"#);
    for extents in [
        "[4294967296,4294967296]",
        "[18446744073709551615,2]",
        "[9223372036854775808,2,1]",
        "[4611686018427387904]",
        "[-1]",
        "[18446744073709551616]",
        "[1.0]",
        "[1e300]",
        "[\"1\"]",
        "[[1]]",
        "{}",
        "null",
    ] {
        all.push(header(Shape, extents, &shape(extents)));
    }
    let many = format!("[1{}]", ",1".repeat(DEEP));
    all.push(header(Shape, "many extents", &shape(&many)));
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = nested(open, DEEP, close);
        all.push(header(Nesting, open, &deep));
        all.push(header(Nesting, "in a tensor", &format!("{{\"x\":{deep}}}")));
        all.push(header(Nesting, "in extents", &shape(&deep)));
        all.push(header(Nesting, "in metadata", &format!(r#"{{"__metadata__":{{"a":{deep}}}}}"#)));
        all.push(header(Nesting, "in an offset", &shape("[1]").replace("[0,4]", &deep)));
    }
    let one = r#""x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
    let again = ["a second time"];
    for (what, text) in [
        ("a tensor", format!("{{{one},{one}}}")),
        (
            "a type",
            shape("[1]").replace("{\"dtype\":\"F32\"", "{\"dtype\":\"F32\",\"dtype\":\"F32\""),
        ),
        ("extents", shape("[1],\"shape\":[1]")),
        ("offsets", shape("[1],\"data_offsets\":[0,4]")),
        ("a fact", format!(r#"{{"__metadata__":{{"a":"","a":""}},{one}}}"#)),
        ("all facts", format!(r#"{{"__metadata__":{{}},"__metadata__":{{}},{one}}}"#)),
        ("a tensor, spelled in another way", format!("{{{one},{}}}", one.replace('x', "\\u0078"))),
    ] {
        all.push(header(Twice, what, &text).refused(MALFORMED, &again));
    }
    let shard = build::safetensors(&format!("{{{one}}}"), 4);
    let index = |kind, what: &str, text: String| {
        let files = [("a.safetensors", &shard[..]), ("b.safetensors", &shard)];
        let hostile = Hostile::new(kind, what, INDEX, text.into_bytes()).beside(&files);
        hostile.refused(&["Json"], &[])
    };
    let deep = nested("[", DEEP, "]");
    all.push(index(Nesting, "in an index", format!(r#"{{"weight_map":{deep}}}"#)));
    let passed = "what is under other keys is passed over";
    let text = format!(r#"{{"metadata":{deep},"weight_map":{{"x":"a.safetensors"}}}}"#);
    all.push(index(Nesting, "where nobody looks", text).readable(passed));
    let entry = r#""x":"a.safetensors""#;
    for (what, text) in [
        ("a tensor of an index", format!(r#"{{"weight_map":{{{entry},{entry}}}}}"#)),
        ("a map", format!(r#"{{"weight_map":{{{entry}}},"weight_map":{{{entry}}}}}"#)),
        ("a key", format!(r#"{{"metadata":{{}},"metadata":{{}},"weight_map":{{{entry}}}}}"#)),
    ] {
        all.push(index(Twice, what, text).refused(&["Json"], &again));
    }
    let map = |name: &str| {
        let name = serde_json::to_string(name).expect("JSON");
        format!(r#"{{"weight_map":{{"x":{name}}}}}"#)
    };
    let second = r#""y":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}"#;
    let both = build::safetensors(&format!("{{{one},{second}}}"), 4);
    for spelled in ["./a.safetensors", ".//a.safetensors"] {
        let text = format!(r#"{{"weight_map":{{{entry},"y":"{spelled}"}}}}"#);
        let once = ["a file that the index names once"];
        let mut hostile = index(Twice, spelled, text).refused(MALFORMED, &once);
        hostile.files[1].1.clone_from(&both);
        all.push(hostile);
    }
    for (path, why) in PATHS {
        all.push(index(Path, path, map(path)).refused(&["Escapes"], &[why]));
    }
    for name in long_names() {
        all.push(index(Path, "a long name", map(&name)).refused(&["NoModel"], &["no such file"]));
    }
    all.push(index(Path, "a directory", map(".")).refused(&["NotAFile"], &[]));
    for (link, target, name) in LINKS {
        let mut hostile = index(Path, &format!("{link} to {target}"), map(name));
        hostile = hostile.refused(&["Escapes"], &["a symbolic link"]);
        hostile.links.push(((*link).to_owned(), (*target).to_owned()));
        all.push(hostile);
    }
    all
}

/// A record of MXNet's, of these extents and so many bytes of elements.
fn record(extents: &[i64], elements: usize) -> Vec<u8> {
    let mut bytes = 0xf993_fac9_u32.to_le_bytes().to_vec();
    bytes.extend([0; 4]);
    bytes.extend(u32::try_from(extents.len()).expect("few").to_le_bytes());
    extents.iter().for_each(|extent| bytes.extend(extent.to_le_bytes()));
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(vec![0; elements]);
    bytes
}

/// A list of records with names.
fn list(records: &[Vec<u8>], names: &[&str]) -> Vec<u8> {
    let count = |count: usize| (count as u64).to_le_bytes();
    let names = names.iter().flat_map(|name| [&count(name.len())[..], name.as_bytes()].concat());
    let names: Vec<u8> = names.collect();
    let start = [&0x112_u64.to_le_bytes()[..], &[0; 8], &count(records.len())].concat();
    let many = if names.is_empty() { 0 } else { records.len() };
    [start, records.concat(), count(many).to_vec(), names].concat()
}

fn mxnet_params() -> Vec<Hostile> {
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
                    Some((name, "0" | "one less")) if name == last => Some(
                        "bytes behind the names are not read, by MXNet neither; a warning says so",
                    ),
                    _ if what == "number of names: 0" => {
                        Some("a list without names, with bytes behind it")
                    }
                    _ => None,
                }
            })
            .map(|hostile| {
                let none = [": 0", ": one less"].iter().any(|lie| hostile.what.ends_with(lie));
                match none && hostile.what.contains("rank") {
                    true => hostile
                        .perhaps("without extents: a scalar, or never filled, by what follows"),
                    false => hostile,
                }
            }),
        );
    }
    for extents in [
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
        let short = &extents[..extents.len().min(4)];
        let bytes = list(&[record(extents, 4)], &["x"]);
        all.push(Hostile::new(Shape, format!("{} extents {short:?}", extents.len()), FILE, bytes));
    }
    let twice = list(&[record(&[1], 4), record(&[1], 4)], &["x", "x"]);
    let last = "MXNet takes the last of one name; a warning says so";
    all.push(Hostile::new(Twice, "a name", FILE, twice).readable(last));
    for (path, _) in PATHS {
        let bytes = list(&[record(&[1], 4)], &[path]);
        let reason = "names of arrays are no files; where they become such, they are refused";
        all.push(Hostile::new(Path, *path, FILE, bytes).readable(reason));
    }
    all
}

/// Archives of arrays, whichever format they are opened as.
fn archives(open: &'static str, goldens: &[&str]) -> Vec<Hostile> {
    let mut all = Vec::new();
    for golden in goldens {
        let honest = file(golden);
        for hostile in alone(open, lies(&honest, &fields::zip(&honest), as_it_is), never) {
            all.push(hostile.refused(&["Malformed", "OutOfRange"], &[]));
        }
    }
    let good = array("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4);
    let member = |kind, what: &str, bytes: &[u8]| {
        [false, true].map(|deflate| {
            let archive = zip([(&b"x.npy"[..], bytes)], deflate);
            let what = format!("{what}, {}", if deflate { "deflated" } else { "stored" });
            Hostile::new(kind, what, open, archive)
        })
    };
    // What is hostile in an array is so in an archive.
    for Hostile { kind, what, files, answer, .. } in npy() {
        for hostile in member(kind, &format!("a member: {what}"), &files[0].1) {
            all.push(Hostile { answer: answer.clone(), ..hostile });
        }
    }
    let inner = zip([(&b"x.npy"[..], &good[..])], true);
    all.extend(member(Nesting, "an archive in an archive", &inner));
    for names in [[&b"x.npy"[..], b"x.npy"], [b"\xff.npy", b"y.npy"]] {
        let archive = zip(names.map(|name| (name, &good[..])), false);
        all.push(Hostile::new(Twice, names[0].escape_ascii().to_string(), open, archive));
    }
    let mut overlapping = zip([(&b"x.npy"[..], &good[..]), (b"y.npy", &good)], false);
    let directory = overlapping.len() - 22 - 2 * (46 + 5);
    overlapping.copy_within(directory..directory + 51, directory + 51);
    all.push(Hostile::new(Twice, "a member by two entries", open, overlapping));
    for (path, _) in PATHS {
        let name = format!("{path}.npy");
        let archive = zip([(name.as_bytes(), &good[..])], false);
        let reason = "names of members are names of tensors: nothing is unpacked, `scan` tells";
        all.push(Hostile::new(Path, *path, open, archive).readable(reason));
    }
    all
}

fn npz() -> Vec<Hostile> {
    archives("model.npz", &["numpy/archive/stored.npz", "numpy/archive/deflated.npz"])
}

fn mxnet_npz() -> Vec<Hostile> {
    const FILE: &str = "model.params";
    let mut all = archives(FILE, &["mxnet/2.0.0b1/gluon.params", "mxnet/2.0.0b1/sparse.params"]);
    // The parts of a sparse array, one of which is hostile.
    let list = |extents: &[i64]| {
        let dict =
            format!("{{'descr': '<i8', 'fortran_order': False, 'shape': ({},), }}", extents.len());
        let mut bytes = array(&dict, 0);
        extents.iter().for_each(|extent| bytes.extend(extent.to_le_bytes()));
        bytes
    };
    let values = array("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }", 8);
    let format =
        [&array("{'descr': '|S10', 'fortran_order': False, 'shape': (), }", 0), &b"row_sparse"[..]]
            .concat();
    for (what, indices, shape) in [
        ("a negative extent", list(&[0]), list(&[-1, 2])),
        ("an extent that differs", list(&[0]), list(&[4, 3])),
        ("no extents", list(&[0]), list(&[])),
        ("65 extents", list(&[0]), list(&[1; 65])),
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

/// Words of an array of NumPy's that break a rule.
fn npy() -> Vec<Hostile> {
    const FILE: &str = "model.npy";
    let mut all = Vec::new();
    for golden in ["dtype/float32", "version/2.0", "version/3.0", "fortran/float64", "shape/scalar"]
    {
        let honest = file(&format!("numpy/{golden}.npy"));
        all.extend(alone(FILE, lies(&honest, &fields::npy(&honest), mend_npy), never));
    }
    let header = |kind, what: &str, rest: &str| {
        let dict = format!("{{'descr': '<f4', 'fortran_order': False, {rest}}}");
        Hostile::new(kind, what, FILE, array(&dict, 4))
    };
    for extents in [
        "(4294967296, 4294967296)",
        "(18446744073709551615, 2)",
        "(18446744073709551616,)",
        "(4611686018427387904,)",
        "(-1,)",
        "(1.0,)",
        "(1e3,)",
        "(0x1,)",
        "(1)",
        "1",
        "[1]",
    ] {
        all.push(header(Shape, extents, &format!("'shape': {extents}, ")));
    }
    let many = format!("'shape': ({}), ", "1,".repeat(20_000));
    all.push(header(Shape, "20,000 extents", &many));
    for open in ["(", "[", "{", "((1,),"] {
        let deep = open.repeat(65_000 / open.len() - 100);
        all.push(header(Nesting, &format!("{open} in a shape"), &format!("'shape': {deep}")));
    }
    let deep =
        format!("{{'descr': {}, 'fortran_order': False, 'shape': (1,), }}", "(".repeat(60_000));
    let structure = Hostile::new(Nesting, "( in a type", FILE, array(&deep, 4));
    all.push(structure.refused(&["Unsupported"], &["structures"]));
    let again = ["each key once"];
    for rest in [
        "'shape': (1,), 'shape': (1,), ",
        "'descr': '<f4', 'shape': (1,), ",
        "'fortran_order': False, 'shape': (1,), ",
    ] {
        all.push(header(Twice, rest, rest).refused(MALFORMED, &again));
    }
    all
}

/// A program of MXNet's around a node.
fn symbol(node: &str) -> String {
    let variable = r#"{"op":"null","name":"x","inputs":[]}"#;
    format!(
        r#"{{"nodes":[{variable},{node}],"arg_nodes":[0],"heads":[[1,0,0]],"attrs":{{"mxnet_version":["int",10901]}}}}"#
    )
}

fn mxnet_symbol() -> Vec<Hostile> {
    const FILE: &str = "model-symbol.json";
    let mut all = Vec::new();
    for golden in ["1.9.1/foreach", "1.9.1/split", "1.9.1/shared"] {
        let honest = file(&format!("mxnet/{golden}-symbol.json"));
        let mut fields = fields::json(&honest, 0);
        // Versions are whatever they are.
        fields.retain(|field| !field.is("mxnet_version"));
        let mut made = lies(&honest, &fields, as_it_is);
        // A node that is near another is one too.
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
                    true => {
                        hostile.perhaps("the last of them is how many outputs there are in all")
                    }
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
        let reason = "a shape that a user noted: what is no number is not known";
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
    let last = "MXNet takes the last of one key, as is done here";
    all.push(
        node(Twice, "an attribute", &plain(",\"attrs\":{\"a\":\"1\",\"a\":\"2\"}")).readable(last),
    );
    let same = "variables of one name are one: they are bound by name";
    all.push(node(Twice, "a variable", &plain("").replace("relu", "null")).readable(same));
    for (path, _) in PATHS {
        let name = serde_json::to_string(path).expect("JSON");
        let reason = "names of values are no files; where they become such, they are refused";
        all.push(node(Path, path, &plain("").replace("\"y\"", &name)).readable(reason));
    }
    all
}

/// A program and parameters, one of which is hostile.
fn mxnet() -> Vec<Hostile> {
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
            // What is a list of arrays is not the one of this program.
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

/// Values of pickles that are hostile in any format: what, and what comes before `STOP`.
fn pickled() -> Vec<(Kind, String, Vec<u8>)> {
    let begin = b"\x80\x02".to_vec();
    let mut all = Vec::new();
    let mut deep = |what: &str, down: &[u8], middle: &[u8], up: &[u8]| {
        let bytes = [&begin, &down.repeat(DEEP), middle, &up.repeat(DEEP), b"."].concat();
        all.push((Nesting, what.to_owned(), bytes));
    };
    deep("lists", b"]", b"N", b"a");
    deep("tuples", b"", b"N", b"\x85");
    deep("pairs", b"", b"N", b"2\x86");
    deep("dicts", b"}K\x00", b"N", b"s");
    deep("sets", b"\x8f(", b"N", b"\x90");
    deep("frozen sets", b"(", b"N", b"\x91");
    deep("marks", b"(", b"N", b"");
    deep("ordered dicts", b"ccollections\nOrderedDict\n)RK\x00", b"N", b"s");
    deep("states", b"ccollections\nOrderedDict\n)R", b"N", b"b");
    let itself = b"\x80\x02]q\x00h\x00a.".to_vec();
    all.push((Nesting, "a list in itself".to_owned(), itself));
    for (what, middle) in [("a text", &b"X\x01\0\0\0a"[..]), ("a number", b"K\x01")] {
        let pair = [middle, b"N"].concat();
        let bytes = [&begin[..], b"}(", &pair, &pair, b"u."].concat();
        all.push((Twice, format!("{what} as a key"), bytes));
    }
    all
}

/// Marks that nothing goes back to.
fn marks(what: &str) -> Option<&'static str> {
    (what == "marks").then_some("the value above them is that of the pickle, for CPython too")
}

/// A frame that ends before the pickle does.
fn short_frame(what: &str) -> Option<&'static str> {
    let short = what.starts_with("size of a frame")
        && matches!(what.split(": ").nth(1), Some("0" | "one less"));
    short.then_some("what follows a frame need not be in one: each opcode lies in it or behind it")
}

/// An array of NumPy's in a pickle, of these extents and so many bytes of elements.
fn pickled_array(extents: &[&str], elements: usize) -> Vec<u8> {
    let extents: String = extents.iter().map(|extent| format!("L{extent}L\n")).collect();
    let size = u8::try_from(elements).expect("few");
    [
        &b"\x80\x02}X\x01\0\0\0xcnumpy.core.multiarray\n_reconstruct\n"[..],
        b"cnumpy\nndarray\nK\0\x85C\x01b\x87R(K\x01(",
        extents.as_bytes(),
        b"tcnumpy\ndtype\nX\x02\0\0\0f4\x89\x88\x87R(K\x03X\x01\0\0\0<",
        b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89C",
        &[size],
        &vec![0; elements],
        b"tbs.",
    ]
    .concat()
}

fn paddle_pickle() -> Vec<Hostile> {
    const FILE: &str = "model.pdparams";
    let mut all = Vec::new();
    for golden in ["2.6.2/adam.pdopt", "2.6.2/dtypes_p4.pdparams", "2.6.2/cut_p2.pdparams"] {
        let honest = file(&format!("paddle_pickle/{golden}"));
        let made = lies(&honest, &fields::pickle(&honest), as_it_is);
        all.extend(alone(FILE, made, short_frame));
    }
    let good = pickled_array(&["1"], 4);
    assert!(good.ends_with(b"s."));
    for extents in [
        &["4294967296", "4294967296"][..],
        &["18446744073709551615", "2"],
        &["9223372036854775807", "9223372036854775807"],
        &["18446744073709551616"],
        &["-1"],
        &["-1", "-1"],
        &["1"; 65],
        &["1"; 10_000],
    ] {
        let what = format!("{} extents {:?}", extents.len(), &extents[..extents.len().min(4)]);
        all.push(Hostile::new(Shape, what, FILE, pickled_array(extents, 4)));
    }
    for made in pickled().into_iter().map(|(kind, what, bytes)| Made { kind, what, bytes }) {
        all.extend(alone(FILE, vec![made], marks));
    }
    for (path, _) in PATHS.iter().filter(|(path, _)| !path.is_empty()) {
        let size = u32::try_from(path.len()).expect("short").to_le_bytes();
        let key = [b"X", &size[..], path.as_bytes()].concat();
        let named = good.windows(6).position(|window| window == b"X\x01\0\0\0x").expect("a key");
        let bytes = [&good[..named], &key, &good[named + 6..]].concat();
        let reason = "keys are no files; where they become such, they are refused";
        all.push(Hostile::new(Path, *path, FILE, bytes).readable(reason));
        // What is stored elsewhere under a name is not looked for.
        let elsewhere = [b"\x80\x02", &key[..], b"Q."].concat();
        all.push(Hostile::new(Path, format!("{path} by a persistent number"), FILE, elsewhere));
    }
    all
}

fn mxnet_states() -> Vec<Hostile> {
    const FILE: &str = "model.states";
    let mut all = Vec::new();
    for golden in ["1.9.1/trainer_adam", "1.9.1/protocol4", "1.9.1/module_adam"] {
        let honest = file(&format!("mxnet_states/{golden}.states"));
        let made = lies(&honest, &fields::pickle(&honest), as_it_is);
        all.extend(alone(FILE, made, short_frame));
    }
    for (kind, what, bytes) in pickled() {
        all.push(Hostile::new(kind, what, FILE, bytes));
    }
    // Records of arrays, each as the bytes of a handle.
    let state = |record: &[u8]| {
        let size = u32::try_from(record.len()).expect("small").to_le_bytes();
        let class = b"}K\x00cmxnet.ndarray.ndarray\nNDArray\n(NtR}X\x06\0\0\0handle";
        [b"\x80\x03", &class[..], b"B", &size, record, b"sbs."].concat()
    };
    let honest = Hostile::new(Shape, "an honest one", FILE, state(&record(&[1], 4)));
    all.push(honest.readable("it is honest"));
    for extents in
        [&[1 << 32, 1 << 32][..], &[i64::MAX, 2], &[-1], &[1 << 62], &[1; 65], &[1; 10_000]]
    {
        let what = format!("{} extents {:?}", extents.len(), &extents[..extents.len().min(4)]);
        all.push(Hostile::new(Shape, what, FILE, state(&record(extents, 4))));
    }
    for (what, bytes) in [("elements less", record(&[2], 4)), ("elements more", record(&[1], 8))] {
        all.push(Hostile::new(Length, what, FILE, state(&bytes)));
    }
    all
}

/// Lies of streams in golden files of Paddle's, under the name of a file.
fn streams(open: &'static str, goldens: &[&str], lod_last: bool, sized: bool) -> Vec<Hostile> {
    let mut all = Vec::new();
    for golden in goldens {
        let path = format!("paddle/{golden}");
        let honest = file(&path);
        let fields = fields::stream(&honest, &kinds(&path), lod_last, sized);
        all.extend(alone(open, lies(&honest, &fields, as_it_is), never));
    }
    all
}

/// Extents of a record that is made by `record`.
fn extents(open: &'static str, record: impl Fn(&[i64], usize) -> Vec<u8>) -> Vec<Hostile> {
    let hostile: [&[i64]; 9] = [
        &[1 << 32, 1 << 32],
        &[i64::MAX, i64::MAX],
        &[i64::MAX, 2],
        &[1 << 62],
        &[-1],
        &[-1, -1],
        &[i64::MIN, 2],
        &[2, 1 << 61, 2],
        &[1; 5000],
    ];
    let made = hostile.map(|extents| {
        let what = format!("{} extents {:?}", extents.len(), &extents[..extents.len().min(4)]);
        Hostile::new(Shape, what, open, record(extents, 4))
    });
    made.into_iter().collect()
}

fn paddle_tensor() -> Vec<Hostile> {
    const FILE: &str = "x.lodtensor";
    let goldens = [
        "2.6.2/lod3.lodtensor",
        "2.6.2/float32.lodtensor",
        "2.6.2/scalar.lodtensor",
        "2.6.2/rows_float64.selectedrows",
        "2.6.2/tokens.vocab",
    ];
    let mut all = streams(FILE, &goldens, false, false);
    all.extend(extents(FILE, tensor));
    let described = |description: &[u8]| {
        let size = u32::try_from(description.len()).expect("short").to_le_bytes();
        [&[0; 16][..], &size, description, &[0; 4]].concat()
    };
    let groups = [number(1, 5), number(2, 1), nested("\x2b", 2000, "\x2c").into_bytes()].concat();
    all.push(Hostile::new(Nesting, "groups in a description", FILE, described(&groups)));
    let twice = [number(1, 6), number(1, 5), number(2, 1)].concat();
    let reason = "protobuf takes the last of a number, and PaddlePaddle is protobuf";
    all.push(Hostile::new(Twice, "an element type", FILE, described(&twice)).readable(reason));
    all
}

fn paddle_tensor_lod_last() -> Vec<Hostile> {
    const FILE: &str = "x.lodtensor";
    let goldens = ["early/lod_last/lod3.lodtensor", "early/lod_last/float32.lodtensor"];
    let mut all = streams(FILE, &goldens, true, false);
    // The number of levels follows the elements.
    all.extend(extents(FILE, |extents, elements| tensor(extents, elements)[12..].to_vec()));
    all
}

fn paddle_params() -> Vec<Hostile> {
    const FILE: &str = "model.pdiparams";
    let goldens = [
        "2.6.2/mixed.combined",
        "2.6.2/tensors_and_vocabulary.combined",
        "2.6.2/vocabularies.combined",
    ];
    let mut all = streams(FILE, &goldens, false, false);
    let honest = tensor(&[1], 4);
    all.extend(extents(FILE, |extents, elements| {
        [honest.clone(), tensor(extents, elements)].concat()
    }));
    all
}

fn paddle_params_sized() -> Vec<Hostile> {
    const FILE: &str = "model.params";
    let goldens = ["early/sized/mixed.combined", "early/sized/lod3.lodtensor"];
    let mut all = streams(FILE, &goldens, false, true);
    let sized = |record: Vec<u8>| [&(record.len() as u64).to_le_bytes()[..], &record].concat();
    let honest = sized(tensor(&[1], 4));
    all.extend(extents(FILE, |extents, elements| {
        [honest.clone(), sized(tensor(extents, elements))].concat()
    }));
    all
}

/// What a shorter name leaves behind may happen to be a field that nobody knows.
fn left_over(hostile: Hostile) -> Hostile {
    let names =
        ["1 of a pair", "1 of a operand", "2 of a operand", "1 of a attribute", "3 of a op"];
    let shorter = [": one less", ": 0"].iter().any(|lie| hostile.what.ends_with(lie));
    match shorter && names.iter().any(|name| hostile.what.contains(name)) {
        true => hostile.perhaps("what is left of a name is a field or none, as its letters are"),
        false => hostile,
    }
}

fn paddle_program() -> Vec<Hostile> {
    const FILE: &str = "model.pdmodel";
    let mut all = Vec::new();
    for golden in ["2.6.2/attributes.pb", "3.3.1/old/net.pdmodel"] {
        let made = lying_program(&file(&format!("paddle/{golden}")));
        all.extend(alone(FILE, made, never).map(left_over));
    }
    let declared = |extents: &[i64]| {
        let mut description = number(1, 5);
        extents.iter().for_each(|extent| description.extend(number(2, *extent)));
        let kind = [number(1, 7), field(3, &field(1, &description))].concat();
        let var = [field(1, b"x"), field(2, &kind)].concat();
        let block = [number(1, 0), number(2, -1), field(3, &var)].concat();
        field(1, &block)
    };
    for extents in [&[1 << 32, 1 << 32][..], &[i64::MAX, i64::MAX], &[i64::MIN], &[1; 10_000]] {
        let what = format!("{} extents {:?}", extents.len(), &extents[..extents.len().min(4)]);
        let reason = "a declaration: no tensor is made of it";
        all.push(Hostile::new(Shape, what, FILE, declared(extents)).readable(reason));
    }
    let honest = program(&["x"]);
    for (what, rest) in [
        ("groups", nested("\x2b", DEEP, "\x2c").into_bytes()),
        ("groups that do not end", vec![0x2b; DEEP]),
        ("ends of groups", vec![0x2c; 4]),
    ] {
        all.push(Hostile::new(Nesting, what, FILE, [honest.clone(), rest].concat()));
    }
    let version = |number: i64| field(4, &build::number(1, number));
    let twice = [honest, version(1)].concat();
    let once = ["once, found it again"];
    all.push(Hostile::new(Twice, "a version", FILE, twice).refused(MALFORMED, &once));
    let block = |rest: &[u8]| field(1, &[&number(1, 0)[..], &number(2, -1), rest].concat());
    let kinds = [field(2, &number(1, 7)), field(2, &number(1, 8))].concat();
    let var = field(3, &[field(1, b"x"), kinds].concat());
    all.push(Hostile::new(Twice, "a type", FILE, block(&var)).refused(MALFORMED, &once));
    let same = "PaddlePaddle takes the last of two variables, too; the bytes say which are there";
    let vars = field(3, &build::variable("x")).repeat(2);
    all.push(Hostile::new(Twice, "a variable", FILE, block(&vars)).readable(same));
    for (path, _) in PATHS {
        let reason = "names are looked for in the directory alone, which is not left";
        all.push(Hostile::new(Path, *path, FILE, program(&[path])).readable(reason));
    }
    all
}

fn paddle_program_text() -> Vec<Hostile> {
    const FILE: &str = "model.pbtxt";
    let text = |kind, what: &str, text: &str| {
        Hostile::new(
            kind,
            what,
            FILE,
            format!("blocks {{ idx: 0 parent_idx: -1 {text} }}").into_bytes(),
        )
    };
    let mut all = Vec::new();
    for value in [
        "2147483648",
        "4294967296",
        "18446744073709551615",
        "99999999999999999999",
        "1e300",
        "nan",
        "0x1ffffffff",
        "--1",
    ] {
        let hostile = text(Length, value, &format!("forward_block_idx: {value}"));
        let fits = matches!(value, "2147483648" | "4294967296" | "0x1ffffffff");
        let reason = "64 bits are taken where PaddlePaddle reads 32, as the binary form has them";
        all.push(if fits { hostile.readable(reason) } else { hostile });
    }
    for value in ["18446744073709551616", "-9223372036854775809", "1.5", "1e3"] {
        let var = format!(
            "vars {{ name: \"x\" type {{ type: LOD_TENSOR lod_tensor {{ tensor {{ data_type: FP32 dims: {value} }} }} }} }}"
        );
        all.push(text(Shape, value, &var));
    }
    for open in ["vars {", "ops {", "vars <", "ops { attrs {", "ops { inputs: [", "vars { type {"] {
        all.push(text(Nesting, open, &open.repeat(DEEP)));
    }
    let once = [];
    for (what, twice) in [
        ("a number", "forward_block_idx: 1 forward_block_idx: 1"),
        ("a message", "vars { name: \"x\" type { type: RAW } type { type: RAW } }"),
        ("a name", "vars { name: \"x\" name: \"y\" type { type: RAW } }"),
    ] {
        all.push(text(Twice, what, twice).refused(MALFORMED, &once));
    }
    for (path, _) in PATHS {
        let escaped: String = path.bytes().map(|byte| format!("\\{byte:03o}")).collect();
        let var =
            format!("vars {{ name: \"{escaped}\" type {{ type: LOD_TENSOR }} persistable: true }}");
        let reason = "names are looked for in the directory alone, which is not left";
        all.push(text(Path, path, &var).readable(reason));
    }
    all
}

fn paddle() -> Vec<Hostile> {
    const PROGRAM: &str = "model.pdmodel";
    const PARAMS: &str = "model.pdiparams";
    let [honest, params] =
        ["pdmodel", "pdiparams"].map(|end| file(&format!("paddle/2.6.2/text/text.{end}")));
    let mut all = Vec::new();
    let dense = vec!["dense".to_owned(); 4];
    let fields = fields::stream(&params, &dense, false, false);
    for hostile in alone(PARAMS, lies(&params, &fields, as_it_is), never) {
        all.push(hostile.beside(&[(PROGRAM, &honest)]).directory());
    }
    for made in lying_program(&honest) {
        let Made { kind, what, bytes, .. } = made;
        let both = Hostile::new(kind, what, PROGRAM, bytes).beside(&[(PARAMS, &params)]);
        all.push(left_over(both.directory()));
    }
    let ours = |program: &[u8], params: &[u8], kind, what: &str| {
        Hostile::new(kind, what, PROGRAM, program.to_vec()).beside(&[(PARAMS, params)]).directory()
    };
    let one = tensor(&[1], 4);
    for (what, count, words) in [
        ("a record less", 1, "it ends before `y`"),
        ("a record more", 3, "it holds 3 tensors, the program declares 2"),
    ] {
        let hostile = ours(&program(&["x", "y"]), &one.repeat(count), Length, what);
        all.push(hostile.refused(&["Mismatch"], &[words]));
    }
    let other = ours(&program(&["x"]), &tensor(&[2], 8), Shape, "other extents than declared");
    all.push(other.refused(&["Mismatch"], &["of shape [1], and is of shape [2]"]));
    for hostile in extents(PARAMS, tensor) {
        all.push(hostile.beside(&[(PROGRAM, &program(&["x"]))]).directory());
    }
    let two = Hostile::new(Twice, "two programs", PROGRAM, program(&["x"]));
    let two = two.beside(&[("other.pdmodel", &program(&["x"]))]);
    // One of the names that are usual would be it.
    let mut two = two.directory().refused(&["NoModel"], &["several programs"]);
    two.files[0].0 = "mine.pdmodel".to_owned();
    all.push(two);
    let again = ours(&program(&["x", "x"]), &one, Twice, "a variable");
    all.push(again.readable("two variables of one name are one, with one record"));
    for (path, _) in PATHS {
        let reason = "records of one file have no files of their own";
        all.push(ours(&program(&[path]), &one, Path, path).readable(reason));
    }
    all
}

fn paddle_vars() -> Vec<Hostile> {
    const PROGRAM: &str = "__model__";
    let one = tensor(&[1], 4);
    let ours = |names: &[&str], kind, what: &str| {
        let hostile = Hostile::new(kind, what, PROGRAM, program(names)).directory();
        hostile.beside(&[("x", &one), ("sub/w", &one)])
    };
    let mut all = Vec::new();
    for hostile in paddle_tensor().into_iter().filter(|h| matches!(h.answer, Answer::Refused(..))) {
        let Hostile { kind, what, mut files, .. } = hostile;
        let (_, bytes) = files.remove(0);
        let mut beside = ours(&["x", "y"], kind, &what);
        beside.files.push(("y".to_owned(), bytes));
        all.push(beside);
    }
    let again = ours(&["x", "x"], Twice, "a variable");
    all.push(again.readable("two variables of one name are one, with one file"));
    let mut two = ours(&["x", "y"], Twice, "two records in a file");
    two.files.push(("y".to_owned(), one.repeat(2)));
    all.push(two.refused(MALFORMED, &["one record", "2 records"]));
    for (path, why) in PATHS {
        all.push(ours(&["x", path], Path, path).refused(&["Escapes"], &[why]));
    }
    for name in long_names() {
        let reason = "a file of that name cannot be there: it is missing, as a warning says";
        all.push(ours(&["x", &name], Path, "a long name").readable(reason));
    }
    all.push(ours(&["x", "sub"], Path, "a directory").refused(&["NotAFile"], &[]));
    for (link, target, name) in LINKS {
        let mut hostile = ours(&["x", name], Path, &format!("{link} to {target}"));
        if *link == "sub" {
            hostile.files.retain(|(name, _)| !name.starts_with("sub/"));
        }
        hostile.links.push(((*link).to_owned(), (*target).to_owned()));
        all.push(hostile.refused(&["Escapes"], &["a symbolic link"]));
    }
    all
}

fn paddle_save() -> Vec<Hostile> {
    const PROGRAM: &str = "lenet.pdmodel";
    let [honest, params, states] = ["pdmodel", "pdparams", "pdopt"]
        .map(|end| file(&format!("paddle/2.6.2/lenet/saved/lenet.{end}")));
    let beside = |name: &'static str, made: Made| {
        let other = if name.ends_with("opt") {
            ("lenet.pdparams", &params[..])
        } else {
            ("lenet.pdopt", &states[..])
        };
        let hostile = Hostile::new(made.kind, made.what, name, made.bytes);
        Hostile { open: PROGRAM, ..hostile.beside(&[(PROGRAM, &honest), other]) }
    };
    let mut all = Vec::new();
    for (name, pickle) in [("lenet.pdparams", &params), ("lenet.pdopt", &states)] {
        // The pickles are alike throughout.
        let mut fields = fields::pickle(pickle);
        fields.truncate(40);
        for made in lies(pickle, &fields, as_it_is) {
            let reason = short_frame(&made.what);
            let hostile = beside(name, made);
            all.push(match reason {
                Some(reason) => hostile.readable(reason),
                None => hostile,
            });
        }
        for (kind, what, bytes) in pickled() {
            let reason = marks(&what);
            let hostile = beside(name, Made { kind, what, bytes });
            all.push(match reason {
                Some(reason) => hostile.readable(reason),
                None => hostile,
            });
        }
        let bytes = pickled_array(&["4294967296", "4294967296"], 4);
        all.push(beside(name, Made { kind: Shape, what: "extents".to_owned(), bytes }));
    }
    let twice = Made { kind: Twice, what: "a tensor in both".to_owned(), bytes: params.clone() };
    let reason = "each pickle is its own dict; the names say that there are two";
    all.push(beside("lenet.pdopt", twice).readable(reason));
    all
}

/// The seal of a directory, with what is hostile in it, opened by the array that it is of.
fn seal() -> Vec<Hostile> {
    const FILE: &str = "model.npy";
    const KINDS: &[&str] = &["Seal", "Resized", "Json", "Escapes", "Damaged"];
    let model = file("numpy/shape/one.npy");
    let path = super::root().join("numpy/shape/one.npy");
    let opened = (numpy::NPY.read)(&path, &OpenOptions::default()).expect("a model");
    let sealed = |name: &str| {
        let (blob, mut tensors) = (&opened.files[0], TensorRanges::of(&opened));
        SealedFile::of(name.to_owned(), blob, &mut tensors, &Progress::default()).expect("read")
    };
    let encoded = |files: Vec<SealedFile>| {
        let mut seal = Seal::default();
        seal.models.push(SealedModel { format: "npy".to_owned(), files });
        seal.encode().expect("JSON")
    };
    let with = |kind, what: &str, seal: &[u8]| {
        let hostile =
            Hostile::new(kind, what, FILE, model.clone()).beside(&[("lodstone.seal", seal)]);
        hostile.refused(KINDS, &[])
    };
    let honest = encoded(vec![sealed(FILE)]);
    let mut all = vec![with(Length, "an honest one", &honest).readable("it is honest")];
    for made in lies(&honest, &fields::json(&honest, 0), mend_seal) {
        all.push(with(made.kind, &made.what, &made.bytes));
    }
    let text = String::from_utf8(honest.clone()).expect("text");
    let edited = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        let mut bytes = text.replacen(from, to, 1).into_bytes();
        mend_seal(&mut bytes, 0, 0);
        bytes
    };
    let deep = nested("[", DEEP, "]");
    for key in ["\"models\": [", "\"files\": [", "\"parts\": [", "\"checksums\": ["] {
        all.push(
            with(Nesting, key, &edited(key, &format!("{key}{deep},"))).refused(&["Json"], &[]),
        );
    }
    for key in
        ["\"schema\": 1,", "\"format\": \"npy\",", "\"name\": \"model.npy\",", "\"offset\": 0,"]
    {
        let twice = edited(key, &format!("{key}{key}"));
        all.push(with(Twice, key, &twice).refused(&["Json"], &["duplicate field"]));
    }
    let twice = encoded(vec![sealed(FILE), sealed(FILE)]);
    all.push(with(Twice, "a file", &twice).refused(&["Seal"], &["twice"]));
    let spelled = encoded(vec![sealed("./model.npy")]);
    all.push(with(Twice, "a file by another name", &spelled).refused(&["Seal"], &["another name"]));
    for (path, why) in PATHS {
        let hostile = with(Path, path, &encoded(vec![sealed(FILE), sealed(path)]));
        all.push(hostile.refused(&["Escapes"], &[why]));
    }
    let mut large = honest;
    large.splice(0..0, varint(7));
    all.push(with(Length, "a byte before it", &large).refused(&["Seal"], &["damaged"]));
    all.push(with(Length, "nothing", b"").refused(&["Seal"], &["damaged"]));
    all
}

/// Gives a seal the checksum of itself.
fn mend_seal(seal: &mut Vec<u8>, _: usize, _: isize) {
    let line = seal.windows(8).rposition(|window| window == b"\"self\": ").expect("a sum");
    seal.truncate(line);
    let sum = checksum(seal);
    seal.extend(format!("\"self\": \"{sum:016x}\"}}\n").bytes());
}

//! Hostile safetensors files, and indexes of shards.

use crate::generate::Kind::{Nesting, Path, Shape, Twice};
use crate::generate::build::{self};
use crate::generate::fields::{self, lies, mend_safetensors};
use crate::generate::{
    DEEP, Hostile, LINKS, MALFORMED, PATHS, alone, file, long_names, nested, never,
};

pub(crate) fn safetensors() -> Vec<Hostile> {
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
    for dims in [
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
        all.push(header(Shape, dims, &shape(dims)));
    }
    let many = format!("[1{}]", ",1".repeat(DEEP));
    all.push(header(Shape, "many dims", &shape(&many)));
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = nested(open, DEEP, close);
        all.push(header(Nesting, open, &deep));
        all.push(header(Nesting, "in a tensor", &format!("{{\"x\":{deep}}}")));
        all.push(header(Nesting, "in dims", &shape(&deep)));
        all.push(header(Nesting, "in metadata", &format!(r#"{{"__metadata__":{{"a":{deep}}}}}"#)));
        all.push(header(Nesting, "in an offset", &shape("[1]").replace("[0,4]", &deep)));
    }
    let one = r#""x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
    let again = [" twice"];
    for (what, text) in [
        ("a tensor", format!("{{{one},{one}}}")),
        (
            "a type",
            shape("[1]").replace("{\"dtype\":\"F32\"", "{\"dtype\":\"F32\",\"dtype\":\"F32\""),
        ),
        ("dims", shape("[1],\"shape\":[1]")),
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
    let passed = "values under other keys are skipped";
    let text = format!(r#"{{"metadata":{deep},"weight_map":{{"x":"a.safetensors"}}}}"#);
    all.push(index(Nesting, "in a skipped value", text).readable(passed));
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
        let once = ["a file that the index lists once"];
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

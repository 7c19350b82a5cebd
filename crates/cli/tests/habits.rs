//! Names, dims and paths are accepted as people write them.

#![expect(clippy::disallowed_methods, reason = "makes its own files")]

use std::fs;

use serde_json::Value;

use crate::common::{DIGITS, bad, dir, facts, good, root, run, text};

const MXNET: &str = "examples/digits/mxnet";

fn names(path: &str) -> Vec<String> {
    let facts = facts(path, None);
    let tensors = facts["tensors"].as_array().expect("tensors");
    tensors.iter().map(|tensor| text(tensor, "name").to_owned()).collect()
}

#[test]
fn usual_names_of_outputs_select_a_format() {
    let dir = dir();
    for (name, format) in [
        ("model.pth", "torch"),
        ("pytorch_model.bin", "torch"),
        ("epoch.ckpt", "torch"),
        ("model.pdopt", "paddle-pickle"),
    ] {
        let out = dir.path().join(name).display().to_string();
        good(["convert", DIGITS, &out, "--weights-only"]);
        assert_eq!(text(&facts(&out, None), "format"), format, "{name}");
    }
}

#[test]
fn tensors_are_renamed_without_a_file() {
    let dir = dir();
    let out = dir.path().join("a.safetensors").display().to_string();
    let rename = ["--rename", "arg:*=*", "--rename", "aux:*=*"];
    good([&["convert", MXNET, &out, "--weights-only"], &rename[..]].concat());
    let renamed = names(&out);
    assert!(!renamed.is_empty());
    assert!(renamed.iter().all(|name| !name.contains(':')), "{renamed:?}");
    assert!(names(MXNET).iter().all(|name| name.contains(':')));

    // A file that exists is a map, whatever its name is.
    let map = dir.path().join("a=b");
    fs::write(&map, "aux:* buffer.*\n").expect("a map");
    let map = map.display().to_string();
    let out = dir.path().join("b.safetensors").display().to_string();
    good(["convert", MXNET, &out, "--weights-only", "--rename", &map, "--rename", "arg:*=*"]);
    assert!(names(&out).iter().any(|name| name.starts_with("buffer.")));

    let wrong = |renames: &[&str]| {
        let mut arguments = vec!["convert", MXNET, &out, "--weights-only"];
        arguments.extend(renames.iter().flat_map(|one| ["--rename", one]));
        bad(arguments)
    };
    assert!(wrong(&["arg:*=*=*"]).contains("more `*` than the old one"));
    assert!(wrong(&["x="]).contains("the new name is empty"));
    assert!(wrong(&["x=a", "x=b"]).contains("the old name has two new names"));
    assert!(wrong(&["no such file"]).contains("no such file"));
}

#[test]
fn variables_are_renamed_only_where_a_checkpoint_is_resumed() {
    let data = "examples/digits/train.npz";
    let arguments = ["train", "examples/digits/training", "--data", data, "--steps", "1"];
    let error = bad(arguments.iter().chain(&["--rename", "a=b"]));
    assert!(error.contains("--resume"), "{error}");
}

#[test]
fn dims_are_separated_by_commas_or_crosses() {
    for shape in ["image:2,1,8,8", "image:2x1x8x8", "image: 2, 1, 8, 8"] {
        let run = good(["run", DIGITS, "--random-inputs", "1", "--input-shape", shape, "--json"]);
        let run: Value = serde_json::from_str(&run.out).expect("JSON");
        assert_eq!(run["tensors"][0]["shape"], serde_json::json!([2, 10]), "{shape}");
    }
    let dir = dir();
    let out = dir.path().join("net.onnx").display().to_string();
    for shape in ["image:?,1,8,8", "image:-1,1,8,8"] {
        good(["convert", DIGITS, &out, "--input-shape", shape]);
        assert_eq!(facts(&out, None)["inputs"][0]["shape"][1], 1, "{shape}");
    }
    // A dim whose symbol is the letter between dims.
    let wrong = run(["convert", DIGITS, &out, "--input-shape", "image:x"]);
    assert!(!wrong.err.contains("expected a name and dims"), "{}", wrong.err);
    for shape in ["image", "image:2,,8", "image:2xx8", "image:two x three", "image:-2,1"] {
        let wrong = run(["run", DIGITS, "--random-inputs", "1", "--input-shape", shape]);
        assert_eq!(wrong.code, Some(2), "{shape}");
        assert!(wrong.err.contains("expected a name and dims"), "{shape}: {}", wrong.err);
    }
}

#[test]
fn short_names_of_element_types_are_accepted() {
    let dir = dir();
    for (short, dtype) in [("fp16", "float16"), ("bf16", "bfloat16"), ("double", "float64")] {
        let out = dir.path().join(short).with_extension("safetensors").display().to_string();
        let allow = ["--allow", "fp16-rounding"];
        let losses = if short == "double" { &allow[..0] } else { &allow[..] };
        good([&["convert", DIGITS, &out, "--weights-only", "--cast", short], losses].concat());
        assert_eq!(text(&facts(&out, None)["tensors"][0], "dtype"), dtype);
    }
    let wrong = run(["convert", DIGITS, "x.npz", "--cast", "int8"]);
    assert!(wrong.err.contains("float16, bfloat16, float32, float64"), "{}", wrong.err);
}

#[test]
fn a_parent_directory_names_the_models_below_it() {
    let error = bad(["inspect", "examples/digits"]);
    assert!(error.contains("open one of them: `mxnet`, `paddle`, `training`"), "{error}");
}

#[test]
fn formats_that_take_no_other_model_are_not_offered() {
    let help = good(["convert", "--help"]).out;
    assert!(help.contains("- safetensors:") && help.contains("- paddle-vars:"), "{help}");
    for format in ["torch-distributed", "torchscript", "torch-exported", "executorch"] {
        assert!(!help.contains(&format!("- {format}:")), "{help}");
        let error = bad(["convert", DIGITS, "out", "--to", format, "--weights-only"]);
        assert!(error.contains(format), "{error}");
    }
}

#[test]
fn an_error_of_a_command_that_prints_json_is_json() {
    let failed = run(["inspect", "no/such/model", "--json"]);
    assert_eq!(failed.code, Some(2));
    assert!(failed.err.starts_with("error: "), "{}", failed.err);
    let document: Value = serde_json::from_str(&failed.out).expect("JSON");
    assert_eq!(document["schema"], 1);
    assert_eq!(document["error"]["kind"], "no-model");
    assert!(text(&document["error"], "message").contains("no/such/model"), "{document}");
    let out = root().join("target/x.nothing").display().to_string();
    let failed = run(["convert", DIGITS, &out, "--json"]);
    let document: Value = serde_json::from_str(&failed.out).expect("JSON");
    assert!(text(&document["error"], "hint").contains("--to FORMAT"), "{document}");
    // Of a checkpoint, too.
    let failed = run(["checkpoint", "show", "no/such/checkpoint", "--json"]);
    let document: Value = serde_json::from_str(&failed.out).expect("JSON");
    assert_eq!(document["error"]["kind"], "no-model", "{document}");
    assert!(text(&document["error"], "hint").contains("checkpoint list"), "{document}");
    // Several paths: a document for each.
    let failed = run(["verify", DIGITS, "no/such/model", "--json"]);
    let documents = serde_json::Deserializer::from_str(&failed.out).into_iter::<Value>();
    let documents: Vec<Value> = documents.collect::<Result<_, _>>().expect("JSON");
    assert_eq!(documents.len(), 2);
    assert!(documents[1]["error"]["message"].is_string(), "{documents:?}");
    assert_eq!(documents[1]["path"], "no/such/model");
}

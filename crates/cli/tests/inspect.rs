//! `lodstone inspect`.

#![expect(clippy::disallowed_methods, reason = "reads and makes files to compare")]

use crate::common;
use std::collections::HashSet;

use crate::common::{
    DIGITS, bad, cases, command, dir, expect, facts, files, golden, good, read, root, run, text,
};
use serde_json::{Value, json};

#[test]
fn the_text_output_is_as_expected() {
    let all: &[&str] = &["--tensors", "--operators"];
    for (name, path, how) in [
        ("digits.txt", DIGITS.to_owned(), all),
        ("summary.txt", DIGITS.to_owned(), &[]),
        ("limited.txt", DIGITS.to_owned(), &["--tensors", "--operators", "--limit", "2"]),
        ("control_flow.txt", golden("2.6.2/control_flow/inference"), all),
        ("sequences.txt", golden("2.6.2/text"), all),
        ("mixed.txt", golden("2.6.2/mixed.combined"), &["--tensors"]),
        ("vocabulary.txt", golden("2.6.2/tensors_and_vocabulary.combined"), &[]),
        ("selected_rows.txt", golden("1.8.5/repeated_rows.selectedrows"), &[]),
        ("pir.txt", golden("3.3.1/pir"), all),
        ("onnx.txt", golden("../onnx/values.onnx"), &[all, &["--limit", "50"]].concat()),
        ("glow.txt", golden("../glow/predicate_multioutput.onnx"), all),
        ("quantized.txt", golden("../glow/all_elemkinds_constants.onnx"), all),
        ("storage.txt", golden("../glow/storage_properties.onnx"), all),
        ("arrays.txt", golden("../mxnet/1.9.1/sparse.params"), &[]),
    ] {
        let outcome = good([&["inspect", path.as_str()], how].concat());
        expect(name, &format!("{}--- stderr\n{}", outcome.out, outcome.err));
    }
}

#[test]
fn graphs_and_layers_are_as_expected() {
    let paddle = DIGITS.to_owned();
    let onnx = golden("../onnx/blocks/loop.onnx");
    let glow = golden("../glow/dag.onnx");
    let odd = golden("../onnx/attributes.onnx");
    for (name, path, how) in [
        ("graph_paddle.txt", &paddle, &["--graph", "text"][..]),
        ("graph_onnx.txt", &onnx, &["--graph", "text"]),
        ("graph_glow.txt", &glow, &["--graph", "text"]),
        ("graph_paddle.dot", &paddle, &["--graph", "dot"]),
        ("graph_onnx.dot", &onnx, &["--graph", "dot"]),
        ("graph_odd.dot", &odd, &["--graph", "dot"]),
        ("graph_paddle.mmd", &paddle, &["--graph", "mermaid"]),
        ("graph_onnx.mmd", &onnx, &["--graph", "mermaid"]),
        ("layers_paddle.txt", &paddle, &["--layers"]),
        ("layers_paddle.json", &paddle, &["--layers", "--json"]),
        ("origins_paddle.txt", &paddle, &["--origins"]),
    ] {
        let outcome = good([&["inspect", path.as_str()], how].concat());
        expect(name, &outcome.out);
    }
    let error = bad(["inspect", &paddle, "--graph", "dot", "--limit", "13"]);
    assert!(
        error.contains("the program has 14 operators, but the limit for graphs is 13"),
        "{error}"
    );
    assert!(error.contains("hint: pass --limit"), "{error}");
    let error = bad(["inspect", &golden("2.6.2/float32.lodtensor"), "--graph", "text"]);
    assert!(error.contains("the model has no program"), "{error}");
}

#[test]
fn json_is_as_expected() {
    let outcome = good(["inspect", &golden("2.6.2/control_flow/inference"), "--json", "--hash"]);
    expect("control_flow.json", &outcome.out);
}

#[test]
fn json_has_the_documented_keys() {
    let mut parts = 0;
    for case in cases() {
        let params = case["params"].as_str().map(golden);
        let json = facts(&golden(text(&case, "path")), params.as_deref());
        assert_eq!(json["schema"], 1);
        let known = [
            "path",
            "schema",
            "format",
            "summary",
            "program",
            "tensors",
            "inputs",
            "outputs",
            "operators",
            "metadata",
            "warnings",
        ];
        let keys: Vec<_> = json.as_object().expect("an object").keys().collect();
        assert!(keys.iter().all(|key| known.contains(&key.as_str())), "{keys:?}");
        assert!(json["format"].is_string());
        for key in ["tensors", "inputs", "outputs", "operators", "warnings"] {
            assert!(json[key].is_array(), "`{key}` of {}", text(&case, "path"));
        }
        for tensor in json["tensors"].as_array().expect("tensors") {
            for key in ["name", "kind", "dtype"] {
                assert!(tensor[key].is_string(), "`{key}` of {tensor}");
            }
            // A vocabulary has tokens, but no elements to hash.
            assert_eq!(tensor["sha256"].is_string(), tensor["kind"] != "vocab", "{tensor}");
            assert!(tensor["shape"].is_array() && tensor["nbytes"].is_u64(), "{tensor}");
            if let Some(members) = tensor["parts"].as_object() {
                assert_eq!(members.keys().collect::<Vec<_>>(), ["data", "rows"]);
                parts += 1;
            }
        }
        for operator in json["operators"].as_array().expect("operators") {
            assert!(operator["block"].is_u64() && operator["type"].is_string(), "{operator}");
            for key in ["inputs", "outputs", "attributes"] {
                assert!(operator[key].is_object(), "`{key}` of {operator}");
            }
        }
    }
    assert!(parts > 3, "{parts} tensors with parts");
}

#[test]
fn json_without_hash_has_no_hashes() {
    let outcome = good(["inspect", &golden("1.8.5/repeated_rows.selectedrows"), "--json"]);
    let json: Value = serde_json::from_str(&outcome.out).expect("JSON");
    assert_eq!(json["tensors"][0]["dtype"], "float32");
    assert!(!outcome.out.contains("sha256"), "{}", outcome.out);
}

/// Compares a member with the recorded one.
fn same(found: &Value, recorded: &Value, key: &str, place: &str) {
    if let Some(recorded) = recorded.get(key) {
        assert_eq!(&found[key], recorded, "`{key}` of {place}");
    }
}

#[test]
fn facts_and_hashes_equal_the_recorded_ones() {
    for case in cases() {
        let path = text(&case, "path");
        let params = case["params"].as_str().map(golden);
        let found = facts(&golden(path), params.as_deref());
        let format = text(&case, "format");
        assert_eq!(found["format"], format, "{path}");
        let tensors = case["tensors"].as_array().expect("tensors");
        assert_eq!(found["tensors"].as_array().map(Vec::len), Some(tensors.len()), "{path}");
        for (index, recorded) in tensors.iter().enumerate() {
            let (found, place) = (&found["tensors"][index], format!("{path}, tensor {index}"));
            for key in ["name", "kind", "dtype", "shape", "nbytes", "sha256", "lod", "height"] {
                same(found, recorded, key, &place);
            }
            let Some(rows) = recorded["rows"].as_array() else { continue };
            let rows: Vec<i64> = rows.iter().filter_map(Value::as_i64).collect();
            let bytes: Vec<u8> = rows.iter().flat_map(|row| row.to_le_bytes()).collect();
            let parts = json!({
                "data": {
                    "dtype": recorded["dtype"],
                    "shape": recorded["shape"],
                    "sha256": recorded["sha256"],
                },
                "rows": {"dtype": "int64", "shape": [rows.len()], "sha256": common::sha256(&bytes)},
            });
            assert_eq!(found["parts"], parts, "{place}");
        }
        if format == "paddle-params" {
            continue;
        }
        for key in ["inputs", "outputs"] {
            let Some(recorded) = case[key].as_array() else { continue };
            let names: Vec<_> = found[key].as_array().into_iter().flatten().collect();
            let names: Vec<_> = names.iter().map(|value| &value["name"]).collect();
            assert_eq!(names, recorded.iter().collect::<Vec<_>>(), "{key} of {path}");
        }
        for (block, recorded) in case["operators"].as_array().into_iter().flatten().enumerate() {
            let operators = found["operators"].as_array().into_iter().flatten();
            let types: Vec<_> =
                operators.filter(|op| op["block"] == block).map(|op| &op["type"]).collect();
            let recorded: Vec<_> = recorded.as_array().into_iter().flatten().collect();
            assert_eq!(types, recorded, "block {block} of {path}");
        }
    }
}

#[test]
fn inputs_and_outputs_have_a_type_and_a_shape() {
    let json = facts(&golden("2.6.2/text"), None);
    let inputs = json!([
        {"name": "words", "dtype": "int64", "shape": [-1, 1], "lod_level": 1},
        {"name": "weights", "dtype": "float32", "shape": [-1, 1], "lod_level": 1},
    ]);
    assert_eq!(json["inputs"], inputs);
    let outputs = json!([
        {"name": "save_infer_model/scale_0.tmp_2", "dtype": "float32", "shape": [-1, 3]},
        {"name": "save_infer_model/scale_1.tmp_0", "dtype": "int64", "shape": [-1]},
    ]);
    assert_eq!(json["outputs"], outputs);
}

#[test]
fn inferred_types_are_shown_if_undeclared() {
    let model = |name: &str| format!("crates/formats/tests/golden/onnx_infer/{name}.onnx");
    let outcome = good(["inspect", &model("undeclared")]);
    assert!(outcome.out.contains("\noutput     y, inferred float32 [?, 12]\n"), "{outcome:?}");
    let outcome = good(["inspect", &model("undeclared"), "--json"]);
    let json: Value = serde_json::from_str(&outcome.out).expect("JSON");
    let inferred = json!({ "dtype": "float32", "shape": [-1, 12] });
    assert_eq!(json["outputs"], json!([{ "name": "y", "inferred": inferred }]));
    // The types of inputs are not inferred.
    assert_eq!(json["inputs"][0].get("inferred"), None);
    // Declared types are not replaced.
    let outcome = good(["inspect", &model("contradictory")]);
    assert!(outcome.out.contains("\noutput     y float32 [4, 5]\n"), "{outcome:?}");
}

#[test]
fn a_model_is_found_by_directory_prefix_and_any_of_its_files() {
    let paths = ["", "/", "/inference", "/inference.pdmodel"].map(|end| format!("{DIGITS}{end}"));
    let all = paths.map(|path| facts(&path, None));
    for other in &all {
        assert_eq!(other, &all[0]);
    }
    let params = facts(&format!("{DIGITS}/inference.pdiparams"), None);
    assert_eq!(params["tensors"], all[0]["tensors"], "named by the program beside it");
}

#[test]
fn a_model_is_found_from_inside_its_directory() {
    for path in [".", "inference", "inference.pdmodel", "./inference"] {
        let outcome = command(["inspect", path]).current_dir(root().join(DIGITS)).output();
        let outcome = common::Outcome::from(outcome.expect("the command runs"));
        assert_eq!(outcome.code, Some(0), "{path}: {outcome:?}");
        assert!(outcome.out.contains("12 tensors"), "{path}: {outcome:?}");
    }
}

#[test]
fn parameters_are_read_from_the_given_path() {
    let program = golden("2.6.2/lenet/train.pb");
    let without_program = facts(&golden("2.6.2/lenet/persistables"), None);
    for (params, format) in [("persistables.combined", "paddle"), ("persistables", "paddle-vars")] {
        let json = facts(&program, Some(&golden(&format!("2.6.2/lenet/{params}"))));
        assert_eq!(json["format"], format);
        let mut tensors = json["tensors"].as_array().expect("tensors").clone();
        // The program records which ones are trained.
        let trained = tensors.iter_mut().filter_map(|it| it.as_object_mut()?.remove("trainable"));
        assert!(trained.count() > 10, "{json}");
        assert_eq!(Value::from(tensors), without_program["tensors"], "{params}");
    }
}

#[test]
fn missing_parameters_of_a_program_are_reported() {
    let outcome = good(["inspect", &golden("2.6.2/lenet/train.pb")]);
    assert!(outcome.out.contains("0 tensors, 0 elements, 0 B"), "{outcome:?}");
    let warning = "warning: parameters of the program were not found: `batch_norm_0.b_0`, ";
    assert!(outcome.err.contains(" and 43 more\n"), "{outcome:?}");
    assert!(outcome.err.contains(warning), "{outcome:?}");
}

#[test]
fn a_model_may_have_more_files_than_a_process_can_open() {
    let dir = dir();
    let tensor = read(&root().join(golden("2.6.2/float32.lodtensor")));
    for number in 0..300 {
        std::fs::write(dir.path().join(format!("v{number:03}")), &tensor).expect("written");
    }
    // Temporary files of a killed process are not variables.
    std::fs::write(dir.path().join(".v000.1-0.lodstone"), "torn").expect("written");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -n 64 && exec \"$0\" inspect \"$1\" --hash --json"]);
    let output = shell.arg(env!("CARGO_BIN_EXE_lodstone")).arg(dir.path()).output().expect("sh");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["tensors"].as_array().map(Vec::len), Some(300));
    assert_eq!(found["warnings"], json!([]));
}

#[test]
fn names_are_escaped_for_the_terminal() {
    let dir = dir();
    let path = dir.path().join("hostile.safetensors");
    let name = "a\\u001b[31m\\u202eb\\nformat   fake\\u009b";
    let entry = r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    let header = format!(r#"{{"__metadata__":{{"k\u001b":"v\n"}},"{name}":{entry}}}"#);
    let header = header.replace("\\\\", "\\");
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[7]].concat();
    std::fs::write(&path, bytes).expect("written");
    let path = path.to_str().expect("UTF-8");
    let outcome = run(["inspect", path]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let missing = run(["cat", path, "b\u{1b}[2J"]);
    for text in [&outcome.out, &outcome.err, &missing.err] {
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(!text.contains('\u{202e}') && !text.contains("\nformat   fake"), "{text:?}");
    }
    assert!(outcome.out.contains("a\\u{1b}[31m\\u{202e}b\\nformat   fake\\u{9b}"), "{outcome:?}");
}

#[test]
fn wide_names_widen_only_their_own_column() {
    let dir = dir();
    let path = dir.path().join("wide.safetensors");
    let mut entries: Vec<String> = (0..2000)
        .map(|i| format!(r#""t{i}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#))
        .collect();
    let name = "n".repeat(1_000_000);
    entries.push(format!(r#""{name}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#));
    let header = format!("{{{}}}", entries.join(","));
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    std::fs::write(&path, bytes).expect("written");
    let path = path.to_str().expect("UTF-8");
    let text = good(["inspect", path, "--tensors"]).out;
    assert!(text.len() < 500_000, "{}", text.len());
    assert!(text.contains("nnn…"));
    assert!(good(["inspect", path, "--json"]).out.contains(&name), "all of it");
}

#[test]
fn warnings_are_on_stderr_or_in_the_json() {
    let path = golden("2.6.2/lenet/train.pb");
    let outcome = good(["inspect", &path]);
    assert!(
        outcome.err.starts_with("warning: ") && !outcome.out.contains("warning"),
        "{outcome:?}"
    );
    let outcome = good(["inspect", &path, "--json"]);
    assert_eq!(outcome.err, "");
    let json: Value = serde_json::from_str(&outcome.out).expect("JSON");
    assert_eq!(json["warnings"].as_array().map(Vec::len), Some(2), "{}", json["warnings"]);
}

#[test]
fn hashes_are_shown_in_the_table() {
    let path = golden("2.6.2/many.combined");
    let outcome = good(["inspect", &path, "--hash"]);
    let json = facts(&path, None);
    for tensor in json["tensors"].as_array().expect("tensors") {
        assert!(outcome.out.contains(text(tensor, "sha256")), "{tensor}");
    }
    assert!(!good(["inspect", &path]).out.contains("sha256"));
}

#[test]
fn mapping_and_reading_give_the_same_output() {
    for path in [DIGITS.to_owned(), golden("2.6.2/mixed.combined")] {
        let mapped = good(["inspect", &path, "--json", "--hash"]);
        let read = good(["inspect", &path, "--json", "--hash", "--no-mmap"]);
        assert_eq!(mapped.out, read.out);
    }
}

#[test]
fn files_that_are_not_models_are_errors() {
    let dir = dir();
    let file = |name: &str, bytes: &[u8]| {
        std::fs::write(dir.path().join(name), bytes).expect("a file");
        dir.path().join(name).display().to_string()
    };
    let directory = dir.path().display().to_string();
    assert!(bad(["inspect", &directory]).contains("no file in the directory is a model"));
    let error = bad(["inspect", &format!("{directory}/missing")]);
    assert!(error.contains("no model at") && error.contains("`.pdmodel`"), "{error}");
    let error = bad(["inspect", &file("empty", b"")]);
    assert!(error.contains("empty` is empty"), "{error}");
    let error = bad(["inspect", &file("text", b"[package]\n")]);
    assert!(error.contains(r"begins with `[package]\n`"), "{error}");
    let error = bad(["inspect", "/dev/null"]);
    assert!(error.contains("expected a regular file at `/dev/null`, found a device"), "{error}");
    let attack = b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R.";
    let error = bad(["inspect", &file("w.pdparams", attack)]);
    assert!(error.contains("`os.system`, which was neither imported nor called"), "{error}");
}

#[test]
fn the_error_for_a_truncated_file_contains_the_offset() {
    let dir = dir();
    for (name, bytes) in files(&root().join(DIGITS)) {
        let bytes = if name.ends_with(".pdiparams") { &bytes[..20_000] } else { &bytes[..] };
        std::fs::write(dir.path().join(name), bytes).expect("a file");
    }
    let error = bad(["inspect".as_ref(), dir.path().as_os_str()]);
    assert!(error.contains("inference.pdiparams` at offset"), "{error}");
    assert!(error.contains("`conv2d_1.w_0`") || error.contains("`fc_0"), "{error}");
    assert!(error.contains("found the end at 20000") || error.contains("left"), "{error}");
    assert!(!error.contains("hint"), "{error}");
}

#[test]
fn the_error_for_parameters_of_another_program_names_the_first_difference() {
    for params in
        ["2.6.2/many.combined", "2.6.2/save_as_fp16.combined", "2.6.2/text/text.pdiparams"]
    {
        let error = bad(["inspect", DIGITS, "--params", &golden(params)]);
        assert!(error.contains("do not fit the program: "), "{error}");
        assert!(error.contains("`batch_norm_0.b_0`"), "{error}");
        assert!(error.contains("hint: pass other parameters with --params PATH"), "{error}");
    }
    let error = bad(["inspect", DIGITS, "--params", "missing"]);
    assert!(error.contains("cannot open `missing`"), "{error}");
}

#[test]
fn a_link_that_leads_out_of_the_model_is_followed_only_on_request() {
    let (dir, elsewhere) = (dir(), dir());
    for (name, bytes) in files(&root().join(golden("1.8.5/lenet/inference"))) {
        let there = if name == "fc_0.w_0" { &elsewhere } else { &dir };
        std::fs::write(there.path().join(&name), bytes).expect("a file");
    }
    let link = dir.path().join("fc_0.w_0");
    std::os::unix::fs::symlink(elsewhere.path().join("fc_0.w_0"), link).expect("a link");
    let path = dir.path().to_str().expect("UTF-8");
    let error = bad(["inspect", path]);
    assert!(error.contains("`fc_0.w_0` leads out of the model directory"), "{error}");
    assert!(
        error.contains("hint: pass --follow-links if you trust where the link leads"),
        "{error}"
    );
    let recorded = facts(&golden("1.8.5/lenet/inference"), None);
    let outcome = good(["inspect", path, "--follow-links", "--json", "--hash"]);
    let found: Value = serde_json::from_str(&outcome.out).expect("JSON");
    assert_eq!(found["tensors"], recorded["tensors"]);
}

/// A regression: if all files are links, those that lead out counted as missing.
#[test]
fn a_model_that_consists_of_links_is_an_error() {
    let dir = dir();
    let model = root().join(golden("1.8.5/lenet/inference"));
    for name in files(&model).keys() {
        std::os::unix::fs::symlink(model.join(name), dir.path().join(name)).expect("a link");
    }
    let error = bad(["inspect".as_ref(), dir.path().as_os_str()]);
    assert!(error.contains("hint: pass --follow-links"), "{error}");
}

#[test]
fn kinds_and_lod_levels_are_shown() {
    let outcome = good(["inspect", &golden("2.6.2/lod3.lodtensor")]);
    assert!(outcome.out.contains("  LoD\n") && outcome.out.contains("3 levels"), "{outcome:?}");
    let outcome = good(["inspect", &golden("2.6.2/tokens.vocab")]);
    assert!(outcome.out.contains("vocab"), "{outcome:?}");
}

#[test]
fn json_is_safe_for_a_terminal_and_complete() {
    use regex_syntax::hir::{Class, HirKind};
    let unprinted = regex_syntax::parse(r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}\p{Bidi_C}]");
    let unprinted = unprinted.expect("a class").into_kind();
    let HirKind::Class(Class::Unicode(unprinted)) = unprinted else { panic!("no class") };
    let is_unprinted = |character: char| {
        unprinted.iter().any(|range| (range.start()..=range.end()).contains(&character))
    };

    let dir = dir();
    let path = dir.path().join("m.safetensors");
    let all: String = ('\0'..=char::MAX).collect();
    let header = json!({"__metadata__": {"all": all}}).to_string();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    std::fs::write(&path, bytes).expect("written");
    let outcome = good(["inspect", path.to_str().expect("UTF-8"), "--json"]);
    let found: Value = serde_json::from_str(&outcome.out).expect("JSON");
    assert!(found["metadata"]["all"] == all.as_str(), "another value");

    let printed: HashSet<char> = outcome.out.chars().collect();
    let wrong = all.chars().filter(|c| *c != '\n' && printed.contains(c) == is_unprinted(*c));
    let wrong: Vec<String> = wrong.map(|c| c.escape_unicode().to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    // The same holds for text.
    let name: String = unprinted.iter().map(|range| range.end()).collect();
    let outcome = run(["cat", path.to_str().expect("UTF-8"), &name[1..]]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.err.chars().all(|c| c == '\n' || !is_unprinted(c)), "{outcome:?}");
}

#[test]
fn a_directory_with_one_model_file_opens() {
    let dir = dir();
    let path = dir.path().to_str().expect("UTF-8");
    let copy = |from: &str, name: &str| {
        std::fs::copy(root().join(from), dir.path().join(name)).expect("copied");
    };
    std::fs::write(dir.path().join("README.md"), "# A model\n").expect("written");
    copy("crates/formats/tests/golden/onnx/functions.onnx", "model.onnx");
    assert!(good(["inspect", path]).out.contains("format     onnx "));
    copy("examples/digits/test.npz", "arrays.npz");
    // Arrays beside a program are its inputs or outputs.
    let outcome = good(["inspect", path]);
    assert!(outcome.out.contains("format     onnx "), "{outcome:?}");
    assert!(outcome.err.contains("other files: `arrays.npz`; `model.onnx` was"), "{outcome:?}");
    copy("crates/formats/tests/golden/onnx/functions.onnx", "second.onnx");
    let error = bad(["inspect", path]);
    assert!(error.contains("has several models, open one by path: "), "{error}");
    assert!(error.contains("`model.onnx`") && error.contains("`second.onnx`"), "{error}");
    std::fs::remove_file(dir.path().join("second.onnx")).expect("removed");
    std::fs::remove_file(dir.path().join("model.onnx")).expect("removed");
    assert!(good(["inspect", path]).out.contains("format     npz "));
    good(["seal", path]);
    assert!(good(["verify", path, "--sealed"]).err.is_empty());
    // A seal covers only the files that it lists: other files are read without a warning.
    copy("crates/formats/tests/golden/onnx/functions.onnx", "other.onnx");
    let other = dir.path().join("other.onnx");
    assert_eq!(good(["inspect", other.to_str().expect("UTF-8")]).err, "");
}

#[test]
fn files_of_pytorch_are_opened_whatever_they_are_called() {
    let dir = dir();
    for name in ["model.pt", "weights.bin"] {
        let path = dir.path().join(name);
        let source = root().join("crates/formats/tests/golden/torch/state.pt");
        std::fs::copy(source, &path).expect("copied");
        let out = good(["inspect".as_ref(), path.as_os_str()]).out;
        assert!(out.contains("format     torch"), "{out}");
    }
}

#[test]
fn structured_names_are_shown_if_recorded() {
    let found = facts(&golden("functions/apart/net.enc"), None);
    let names: Vec<&str> = found["tensors"]
        .as_array()
        .expect("tensors")
        .iter()
        .filter_map(|tensor| tensor["structured_name"].as_str())
        .collect();
    assert!(names.contains(&"a.weight") && names.contains(&"a.bias"), "{names:?}");
}

#[test]
fn types_of_all_values_are_inferred() {
    let model = "crates/formats/tests/golden/onnx_infer/undeclared.onnx";
    let outcome = good(["inspect", model, "--inferred"]);
    let (_, table) = outcome.out.split_once("\n  value").expect("a table");
    assert!(table.contains("y") && table.contains("float32 [batch, 12]"), "{table}");
    let outcome = good(["inspect", model, "--inferred", "--json"]);
    let json: Value = serde_json::from_str(&outcome.out).expect("JSON");
    let values = json["values"].as_array().expect("values");
    assert!(values.iter().all(|value| value["block"] == 0 && value["name"].is_string()), "{json}");
    let y = values.iter().find(|value| value["name"] == "y").expect("y");
    assert_eq!((&y["shape"], &y["symbols"]), (&json!([-1, 12]), &json!(["batch", null])));
}

/// A program of 0.8: groups of nodes, including inputs, have a learning rate, and no variable is a state.
#[test]
fn the_input_of_an_old_symbol_is_shown() {
    let dir = dir();
    let path = dir.path().join("old-symbol.json");
    let text = r#"{"nodes": [
        {"op": "null", "param": {}, "name": "data", "inputs": [], "backward_source_id": -1,
         "attr": {"ctx_group": "stage1", "lr_mult": "0.2"}},
        {"op": "null", "param": {}, "name": "fc_weight", "inputs": [], "backward_source_id": -1},
        {"op": "null", "param": {}, "name": "fc_bias", "inputs": [], "backward_source_id": -1},
        {"op": "FullyConnected", "param": {"no_bias": "False", "num_hidden": "3"}, "name": "fc",
         "inputs": [[0, 0], [1, 0], [2, 0]], "backward_source_id": -1,
         "attr": {"ctx_group": "stage1", "weight_lr_mult": "1.2"}}],
        "arg_nodes": [0, 1, 2], "heads": [[3, 0]]}"#;
    std::fs::write(&path, text).expect("written");
    let outcome = good(["inspect".as_ref(), path.as_os_str()]);
    assert!(outcome.out.contains("\ninput      data"), "{outcome:?}");
}

#[test]
fn tables_are_listed_on_request_or_if_they_are_short() {
    let many = golden("2.6.2/lenet/persistables.combined");
    let outcome = good(["inspect", &many]);
    assert!(outcome.out.contains("tensors, ") && outcome.out.contains("(--tensors lists them)"));
    assert!(outcome.out.lines().count() < 10, "{outcome:?}");
    let listed = good(["inspect", &many, "--tensors"]).out;
    assert!(listed.lines().count() > 40 && !listed.contains("--tensors"), "{listed}");
    let limited = good(["inspect", &many, "--tensors", "--limit", "3"]).out;
    assert!(limited.contains("\n  and ") && limited.lines().count() < 15, "{limited}");
    let outcome = run(["inspect", &many, "--json", "--limit", "3"]);
    assert_eq!(outcome.code, Some(2), "JSON is complete: {outcome:?}");
}

#[test]
fn the_summary_fits_a_screen() {
    const LINES: usize = 24;
    const COLUMNS: usize = 80;
    let (mut count, mut open) = (0, vec![root().join("crates/formats/tests/golden")]);
    while let Some(path) = open.pop() {
        let name = path.to_str().expect("UTF-8");
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a directory");
            open.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
        let outcome = run(["inspect", "-q", name]);
        if outcome.code != Some(0) {
            continue;
        }
        count += 1;
        assert!(outcome.out.lines().count() <= LINES, "{name}: {}", outcome.out);
        // The path is longer than the model would be in practice; words are not cut.
        let lines = outcome.out.lines().skip(1).take_while(|line| !line.is_empty());
        let mut wide = lines.filter(|line| {
            line.chars().count() > COLUMNS && line.get(11..).unwrap_or_default().contains(' ')
        });
        assert_eq!(wide.next(), None, "{name}");
    }
    assert!(count > 300, "{count}");
}

#[test]
fn properties_beside_the_type_are_in_the_json() {
    let tensor = |path: &str, name: &str| {
        let json = facts(&golden(path), None);
        let tensors = json["tensors"].as_array().expect("tensors").clone();
        let found = tensors.into_iter().find(|tensor| tensor["name"] == name);
        found.unwrap_or_else(|| panic!("no tensor `{name}` in {json}"))
    };
    let array = tensor("../mxnet/1.9.1/sparse.params", "rows");
    assert_eq!((&array["context"], &array["kind"]), (&"cpu(0)".into(), &"row_sparse".into()));
    let json = facts(&golden("../glow/storage_properties.onnx"), None);
    let inputs = json["inputs"].as_array().expect("inputs");
    let input = |name: &str| inputs.iter().find(|input| input["name"] == name).expect("an input");
    let nhwc = input("static_nhwc");
    assert_eq!((&nhwc["layout"], &nhwc["static"]), (&"NHWC".into(), &true.into()));
    assert_eq!(input("trainable_nchw")["trainable"], true);
    assert_eq!(input("strided")["strides"], json!([64, 32, 8, 1]));
    let json = facts(&golden("../glow/all_elemkinds_constants.onnx"), None);
    let tensors = json["tensors"].as_array().expect("tensors");
    let quantized = tensors.iter().filter_map(|tensor| tensor.get("quantization"));
    let quantized: Vec<_> = quantized.collect();
    assert!(quantized.iter().any(|it| it["scales"].is_array()), "{quantized:?}");
    assert!(quantized.iter().any(|it| it["packing"].is_string()), "{quantized:?}");
}

#[test]
fn byte_maps_add_up_to_the_file() {
    let outcome = good(["inspect", DIGITS, "--bytes", "--json"]);
    let json: Value = serde_json::from_str(&outcome.out).expect("JSON");
    assert_eq!(json["schema"], 1);
    for file in json["files"].as_array().expect("files") {
        let path = root().join(text(file, "path"));
        let fields = file["fields"].as_array().expect("fields");
        let lengths = fields.iter().map(|field| field["len"].as_u64().expect("a length"));
        assert_eq!(lengths.sum::<u64>(), read(&path).len() as u64, "{}", path.display());
    }
    let outcome = good(["inspect", DIGITS, "--bytes", "--tensor", "fc_0.b_0"]);
    expect("bytes.txt", &outcome.out);
    let limited = good(["inspect", DIGITS, "--bytes", "--limit", "1"]).out;
    assert!(limited.contains("\n  and "), "{limited}");
}

#[test]
fn the_byte_map_of_a_truncated_file_ends_with_the_error() {
    let dir = dir();
    let path = dir.path().join("cut.pdiparams");
    let whole = read(&root().join(DIGITS).join("inference.pdiparams"));
    std::fs::write(&path, &whole[..102]).expect("written");
    let outcome = run(["inspect", path.to_str().expect("UTF-8"), "--bytes"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.out.contains("elements of float32 [16]"), "{outcome:?}");
    assert!(outcome.out.lines().last().is_some_and(|line| line.contains("unread")), "{outcome:?}");
    assert!(outcome.err.starts_with("error: in record 1: "), "{outcome:?}");
    let outcome = run(["inspect", path.to_str().expect("UTF-8"), "--bytes", "--json"]);
    let json: Value = serde_json::from_str(&outcome.out).expect("JSON");
    assert!(json["files"][0]["error"].is_string(), "{json}");
}

#[test]
fn files_without_a_byte_map_are_reported() {
    let error = bad(["inspect", &golden("1.8.5/lenet/program.pbtxt"), "--bytes"]);
    assert!(error.contains("has no byte map, expected safetensors files, "), "{error}");
    let error = bad(["inspect", DIGITS, "--bytes", "--tensor", "fc_0.b_1"]);
    assert!(error.contains("there is no tensor `fc_0.b_1`"), "{error}");
}

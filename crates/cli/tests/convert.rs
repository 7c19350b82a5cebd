//! `lodstone convert`.

#![expect(clippy::disallowed_methods, reason = "compares what was written")]

use crate::common;
use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{
    DIGITS, bad, cases, dir, facts, files, golden, good, large, read, root, run, sha256, tensors,
    text,
};
use serde_json::Value;

/// Runs `convert INPUT DIR/OUTPUT ARGUMENTS`, which must succeed.
fn convert(input: &str, output: &Path, arguments: &[&str]) -> common::Outcome {
    let output = output.to_str().expect("UTF-8");
    good([&["convert", input, output], arguments].concat())
}

/// Runs `convert INPUT DIR/OUTPUT ARGUMENTS`, which must fail and write nothing.
fn refused(input: &str, output: &str, arguments: &[&str]) -> String {
    let dir = dir();
    let output = dir.path().join(output);
    let error = bad([&["convert", input, output.to_str().expect("UTF-8")], arguments].concat());
    assert_eq!(files(dir.path()), BTreeMap::new(), "{error}");
    error
}

#[test]
fn every_golden_model_is_written_back_byte_for_byte() {
    for case in cases() {
        let path = text(&case, "path");
        let (input, name) = (root().join(golden(path)), Path::new(path).file_name());
        let dir = dir();
        let mut arguments = vec!["--to", "same"];
        let params = case["params"].as_str().map(golden);
        arguments.extend(params.iter().flat_map(|params| ["--params", params]));

        // A directory is written as a new directory; a program with parameters under its original names, into an
        // existing directory; a file as a file.
        let output = match text(&case, "format") {
            "paddle" | "paddle-pir" if !input.is_dir() => dir.path().to_owned(),
            _ => dir.path().join(name.expect("a name")),
        };
        convert(&golden(path), &output, &arguments);

        let mut expected = BTreeMap::new();
        for file in case["files"].as_object().expect("files").keys() {
            let below = Path::new(file).strip_prefix(path).ok().filter(|_| input.is_dir());
            let name = match below {
                Some(below) => Path::new(name.expect("a name")).join(below),
                None => Path::new(file).file_name().expect("a name").into(),
            };
            let name = name.to_str().expect("UTF-8").to_owned();
            expected.insert(name, read(&root().join(golden(file))));
        }
        let found = files(dir.path());
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>(),
            "the files of {path}"
        );
        for (name, bytes) in &expected {
            assert!(&found[name] == bytes, "{name} of {path} differs");
        }
    }
}

#[test]
fn a_model_is_written_to_a_prefix_a_file_and_a_directory() {
    let originals = files(&root().join(DIGITS));
    let [params, program] = ["inference.pdiparams", "inference.pdmodel"].map(|n| &originals[n]);
    let prefix = format!("{DIGITS}/inference");
    for (input, output, names) in [
        (prefix.as_str(), "new", ["new.pdiparams", "new.pdmodel"]),
        (&prefix, "new.pdmodel", ["new.pdiparams", "new.pdmodel"]),
        (&prefix, "v1.5", ["v1.5.pdiparams", "v1.5.pdmodel"]),
        (DIGITS, "new", ["new/inference.pdiparams", "new/inference.pdmodel"]),
        (DIGITS, "", ["inference.pdiparams", "inference.pdmodel"]),
    ] {
        let dir = dir();
        let outcome = convert(input, &dir.path().join(output), &["--to", "same"]);
        let found = files(dir.path());
        assert_eq!(found.keys().collect::<Vec<_>>(), names, "{outcome:?}");
        assert!(found.values().eq([params, program]), "{output} differs");
        for name in names {
            let wrote = format!("wrote {}\n", dir.path().join(name).display());
            assert!(outcome.out.contains(&wrote), "{wrote} in {outcome:?}");
        }
    }
}

#[test]
fn the_conversion_is_reported() {
    let dir = dir();
    let output = dir.path().join("copy");
    let outcome = convert(&golden("2.6.2/save_as_fp16.combined"), &output, &["--to", "same"]);
    let expected =
        format!("paddle-params -> paddle-params: 3 tensors, 96 B\nwrote {}\n", output.display());
    assert_eq!((outcome.out, outcome.err), (expected, String::new()));
}

#[test]
fn a_model_can_be_converted_onto_itself() {
    let dir = dir();
    convert(DIGITS, dir.path(), &["--to", "same"]);
    let before = files(dir.path());
    let path = dir.path().to_str().expect("UTF-8");
    convert(path, dir.path(), &["--to", "same"]);
    assert!(files(dir.path()) == before);
    convert(path, dir.path(), &["--to", "same", "--strip-source"]);
    let names = files(dir.path()).into_keys().collect::<Vec<_>>();
    assert_eq!(names, ["inference.pdiparams", "inference.pdmodel"]);
    assert!(files(dir.path()) != before);
}

/// Returns the names of the tensors of a model.
fn names(path: &Path) -> Vec<String> {
    let tensors = tensors(path);
    tensors.as_array().into_iter().flatten().map(|t| text(t, "name").to_owned()).collect()
}

#[test]
fn tensors_are_selected_by_patterns() {
    let all = names(&root().join(DIGITS));
    let chosen = |arguments: &[&str], keep: fn(&str) -> bool| {
        let dir = dir();
        let output = dir.path().join("vars");
        convert(DIGITS, &output, &[&["--to", "paddle-vars"], arguments].concat());
        let mut found: Vec<_> = files(&output).into_keys().collect();
        found.retain(|name| name != "inference.pdmodel" && name != "__model__");
        let expected: Vec<_> = all.iter().filter(|name| keep(name)).cloned().collect();
        assert!(!expected.is_empty() && expected.len() < all.len());
        assert_eq!(found, expected, "{arguments:?}");
    };
    chosen(&["--include", "conv*"], |name| name.starts_with("conv"));
    chosen(&["--exclude", "conv*"], |name| !name.starts_with("conv"));
    chosen(&["--include", "*_0.w_?", "--exclude", "batch*"], |name| {
        ["conv2d_0.w_0", "fc_0.w_0"].contains(&name)
    });
    chosen(&["--include", "{fc,conv2d}_*", "--exclude", "*.b_[0-9]"], |name| {
        ["conv2d_0.w_0", "conv2d_1.w_0", "fc_0.w_0"].contains(&name)
    });
    chosen(&["--include", "fc*", "--include", "conv*"], |name| !name.starts_with("batch"));
}

#[test]
fn patterns_without_matches_and_invalid_patterns_are_errors() {
    let error = refused(DIGITS, "out", &["--to", "paddle-vars", "--include", "zzz*"]);
    assert!(error.starts_with("error: the patterns match none of the 12 tensors\n"), "{error}");
    let error = refused(DIGITS, "out", &["--to", "paddle-vars", "--exclude", "*"]);
    assert!(error.starts_with("error: the patterns match none of the 12 tensors\n"), "{error}");
    let error = refused(DIGITS, "out", &["--to", "paddle-vars", "--include", "a["]);
    assert!(error.starts_with("error: invalid pattern `a[`: "), "{error}");
}

#[test]
fn a_program_is_not_written_without_some_of_its_parameters() {
    let error = refused(DIGITS, "out.pdmodel", &["--include", "conv*"]);
    assert!(error.contains("a program without its parameters `batch_norm_0.b_0`"), "{error}");
}

#[test]
fn a_cast_that_rounds_is_an_error_unless_allowed() {
    let cast = ["--weights-only", "--cast", "float16"];
    let error = refused(DIGITS, "out.safetensors", &cast);
    assert!(error.starts_with("error: the conversion would lose precision"), "{error}");
    assert!(error.contains("(`fp16-rounding`): `batch_norm_0.b_0`, "), "{error}");
    assert!(error.contains(" and 7 more\n"), "{error}");
    assert!(error.contains("\nhint: pass --allow fp16-rounding to accept this loss\n"), "{error}");
    let error = refused(
        DIGITS,
        "out.safetensors",
        &["--weights-only", "--cast", "float16", "--allow", "names"],
    );
    assert!(error.contains("`fp16-rounding`"), "another loss is no leave: {error}");

    let dir = dir();
    let output = dir.path().join("out.safetensors");
    let outcome = convert(
        DIGITS,
        &output,
        &["--weights-only", "--cast", "float16", "--allow", "fp16-rounding"],
    );
    assert!(outcome.err.contains("warning: lost precision"), "{outcome:?}");
    let cast = facts(output.to_str().expect("UTF-8"), None);
    let before = facts(DIGITS, None);
    for (now, then) in cast["tensors"]
        .as_array()
        .into_iter()
        .flatten()
        .zip(before["tensors"].as_array().into_iter().flatten())
    {
        assert_eq!((&now["name"], &now["shape"]), (&then["name"], &then["shape"]));
        assert_eq!(now["dtype"], "float16");
        assert_eq!(now["nbytes"].as_u64().map(|n| n * 2), then["nbytes"].as_u64());
    }
}

#[test]
fn unsupported_changes_of_a_program_are_errors_with_a_hint() {
    let hint = "hint: pass --weights-only to write the tensors without the program\n";
    let error = refused(DIGITS, "out.pdmodel", &["--cast", "float16"]);
    assert!(
        error.starts_with("error: casting the parameters of a program is not supported"),
        "{error}"
    );
    assert!(error.ends_with(hint), "{error}");
    let error = refused(DIGITS, "out", &["--to", "onnx-glow"]);
    let expected = "error: converting PaddlePaddle programs to onnx-glow is not supported\n";
    assert_eq!(error, format!("{expected}{hint}"));
    let error = refused(DIGITS, "out", &["--to", "same", "--weights-only"]);
    assert!(error.contains("pass another format"), "{error}");

    // Tensors alone are not a graph that computes something.
    for format in ["onnx", "onnx-text", "onnx-glow", "caffe2", "paddle", "mxnet"] {
        let error = refused(DIGITS, "out", &["--to", format, "--weights-only"]);
        assert!(error.contains("cannot hold a model without a program"), "{format}: {error}");
        assert!(error.contains("hint: pass --to "), "{format}: {error}");
    }
}

#[test]
fn a_failed_conversion_keeps_the_existing_file() {
    let dir = dir();
    for name in ["out.pdmodel", "out.pdiparams"] {
        std::fs::write(dir.path().join(name), b"precious").expect("a file");
    }
    let output = dir.path().join("out.pdmodel");
    bad(["convert", DIGITS, output.to_str().expect("UTF-8"), "--cast", "float16"]);
    assert!(files(dir.path()).values().all(|bytes| bytes == b"precious"));
    assert_eq!(files(dir.path()).len(), 2);
}

#[test]
fn an_exact_cast_needs_no_permission() {
    let dir = dir();
    let [plain, wide, back] =
        ["plain", "wide", "back"].map(|name| dir.path().join(name).with_extension("safetensors"));
    convert(DIGITS, &plain, &["--weights-only"]);
    let outcome = convert(DIGITS, &wide, &["--weights-only", "--cast", "float64"]);
    assert!(!outcome.err.contains("lost"), "{outcome:?}");
    assert_eq!(tensors(&wide)[0]["dtype"], "float64");
    // Every value was a float32, so no value changes on the way back.
    convert(wide.to_str().expect("UTF-8"), &back, &["--cast", "float32"]);
    assert_eq!(tensors(&back), tensors(&plain));
    // A cast to the same type loses nothing.
    let same = dir.path().join("same");
    convert(&golden("2.6.2/int64.lodtensor"), &same, &["--to", "same", "--cast", "float16"]);
    assert!(read(&same) == read(&root().join(golden("2.6.2/int64.lodtensor"))));
}

#[test]
fn casts_to_other_than_floating_point_types_are_errors() {
    let error = refused(DIGITS, "out.pdmodel", &["--cast", "int8"]);
    assert!(error.contains("[possible values: float16, bfloat16, float32, float64]"), "{error}");
}

#[test]
fn names_are_lost_only_if_allowed() {
    for to in ["paddle-params", "paddle-params-sized"] {
        let error = refused(DIGITS, "params", &["--to", to, "--weights-only"]);
        assert!(error.contains("(`names`): `batch_norm_0.b_0`"), "{error}");
        assert!(error.contains("hint: pass --allow names"), "{error}");
        let dir = dir();
        let output = dir.path().join("params");
        let outcome =
            convert(DIGITS, &output, &["--to", to, "--allow", "names", "--allow", "program"]);
        assert!(outcome.err.contains("warning: lost tensor names: "), "{outcome:?}");
        let original = root().join(DIGITS).join("inference.pdiparams");
        if to == "paddle-params" {
            assert!(read(&output) == read(&original), "what PaddlePaddle wrote itself");
        }
        let mut expected = tensors(&root().join(DIGITS));
        for tensor in expected.as_array_mut().into_iter().flatten() {
            tensor["name"] = "".into();
        }
        assert_eq!(tensors(&output), expected, "{to}");
    }
}

#[test]
fn a_long_list_of_losses_is_truncated() {
    let dir = dir();
    let output = dir.path().join("params");
    let outcome = convert(
        &golden("2.6.2/lenet/persistables"),
        &output,
        &["--to", "paddle-params", "--allow", "names"],
    );
    assert!(outcome.err.contains(" and 43 more\n"), "{outcome:?}");
}

/// Returns the inputs, outputs and operators of a model.
fn program(path: &str) -> Value {
    let mut facts = facts(path, None);
    Value::Array(["operators", "inputs", "outputs"].map(|key| facts[key].take()).to_vec())
}

#[test]
fn one_layout_is_written_as_another_and_back() {
    for (input, to, output) in [
        ("2.6.2/lenet/inference/lenet", "paddle-vars", "separate"),
        ("1.8.5/lenet/combined", "paddle-vars", "separate"),
        ("2.6.2/control_flow/inference", "paddle-vars", "separate"),
        ("2.6.2/text", "paddle-vars", "separate"),
        ("1.8.5/lenet/inference", "paddle", "combined.pdmodel"),
        ("1.8.5/recurrent/inference", "paddle", "combined.pdmodel"),
    ] {
        keeps(&golden(input), to, output);
    }
}

/// A regression: `__model__` was written beside `inference.pdiparams`, where no reader looks for it.
#[test]
fn one_file_per_variable_is_combined_in_a_directory() {
    keeps(&golden("1.8.5/lenet/inference"), "paddle", "combined");
}

/// Converts a model, and compares the tensors that are read back.
fn keeps(input: &str, to: &str, output: &str) {
    let dir = dir();
    let output = dir.path().join(output);
    convert(input, &output, &["--to", to]);
    let path = output.to_str().expect("UTF-8");
    let found = facts(path, None);
    assert_eq!(found["format"], to, "{input}");
    assert_eq!(found["tensors"], facts(input, None)["tensors"], "{input}");
    assert_eq!(program(path), program(input), "{input}");
}

#[test]
fn one_file_per_variable_equals_the_files_of_paddle() {
    let dir = dir();
    let output = dir.path().join("separate");
    convert(&golden("1.8.5/lenet/combined"), &output, &["--to", "paddle-vars"]);
    let mut written = files(&root().join(golden("1.8.5/lenet/inference")));
    let mut found = files(&output);
    written.remove("__model__").expect("a program");
    // The program lacks the source lines of the training script.
    found.remove("__model__").expect("a program");
    assert!(found == written, "{:?}", found.keys());
}

#[test]
fn a_program_is_written_as_text_and_back() {
    let dir = dir();
    for input in ["1.8.5/lenet/program.pb", "2.6.2/control_flow/train.pb", "2.6.2/attributes.pb"] {
        let text = dir.path().join("program.pbtxt");
        let binary = dir.path().join("program.pb");
        convert(&golden(input), &text, &["--to", "paddle-program-text"]);
        assert!(read(&text).starts_with(b"blocks {\n"), "{input}");
        assert_eq!(program(text.to_str().expect("UTF-8")), program(&golden(input)), "{input}");
        // By the extension only.
        convert(text.to_str().expect("UTF-8"), &binary, &[]);
        assert_eq!(program(binary.to_str().expect("UTF-8")), program(&golden(input)), "{input}");
    }
}

#[test]
fn tensors_without_names_are_named_by_their_index() {
    let dir = dir();
    let output = dir.path().join("vars");
    let outcome = convert(&golden("2.6.2/many.combined"), &output, &["--to", "paddle-vars"]);
    assert!(
        outcome.err.contains("tensors without a name are named by their index: 32"),
        "{outcome:?}"
    );
    assert!(outcome.out.contains("wrote 32 files: "), "{outcome:?}");
    let found = files(&output);
    let tensors = facts(&golden("2.6.2/many.combined"), None);
    for (number, tensor) in tensors["tensors"].as_array().into_iter().flatten().enumerate() {
        let size = usize::try_from(tensor["nbytes"].as_u64().expect("a size")).expect("small");
        let bytes = &found[&number.to_string()];
        assert_eq!(sha256(&bytes[bytes.len() - size..]), text(tensor, "sha256"), "{number}");
    }
}

/// Returns the offsets of the elements of the dense tensors in a file; `sizes` are their sizes in bytes.
fn offsets(file: &[u8], sizes: &[usize], sized: bool) -> Vec<usize> {
    let word = |at: usize| -> usize {
        let bytes = file[at..at + 8].try_into().expect("8 bytes");
        usize::try_from(u64::from_le_bytes(bytes)).expect("small")
    };
    let mut at = 0;
    let offset = |size: &usize| {
        at += if sized { 8 } else { 0 };
        let levels = word(at + 4);
        at += 12;
        for _ in 0..levels {
            at += 8 + word(at);
        }
        let description = file[at + 4..at + 8].try_into().expect("4 bytes");
        at += 8 + usize::try_from(i32::from_le_bytes(description)).expect("a size");
        let offset = at;
        at += size;
        offset
    };
    let offsets = sizes.iter().map(offset).collect();
    assert_eq!(at, file.len(), "records end to end");
    offsets
}

#[test]
fn elements_are_aligned_and_read_back_the_same() {
    let dir = dir();
    for input in
        ["2.6.2/many.combined", "2.6.2/mixed.combined", "2.6.2/lenet/persistables.combined"]
    {
        let before = tensors(&root().join(golden(input)));
        let sizes: Vec<usize> = before
            .as_array()
            .into_iter()
            .flatten()
            .map(|t| usize::try_from(t["nbytes"].as_u64().expect("a size")).expect("small"))
            .collect();
        for (to, align) in [
            ("same", 64),
            ("paddle-params", 64),
            ("paddle-params-sized", 64),
            ("same", 2),
            ("same", 1024),
        ] {
            let output = dir.path().join("aligned");
            convert(&golden(input), &output, &["--to", to, "--align", &align.to_string()]);
            let file = read(&output);
            for offset in offsets(&file, &sizes, to == "paddle-params-sized") {
                assert!(offset.is_multiple_of(align), "{input} {to}: {offset} for {align}");
            }
            assert_eq!(tensors(&output), before, "{input}, {to}, {align}");
        }
        let plain = read(&root().join(golden(input)));
        let unaligned = offsets(&plain, &sizes, false).iter().any(|at| !at.is_multiple_of(64));
        assert!(unaligned, "there was something to do");
    }
    let error = refused(DIGITS, "out.pdmodel", &["--align", "3"]);
    assert!(error.contains("a power of two up to 1024"), "{error}");
}

#[test]
fn an_aligned_model_keeps_its_program() {
    let dir = dir();
    let output = dir.path().join("aligned.pdmodel");
    convert(DIGITS, &output, &["--align", "64"]);
    assert_eq!(tensors(&output), tensors(&root().join(DIGITS)));
    assert_eq!(program(output.to_str().expect("UTF-8")), program(DIGITS));
}

/// Returns whether a file contains anything about the script that wrote it.
fn contains_source(bytes: &[u8]) -> bool {
    let contains = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    contains(b".py") || contains(b"op_callstack") || contains(b"site-packages")
}

#[test]
fn paths_of_the_training_script_are_kept_only_by_same() {
    let mut with_source = 0;
    for case in cases() {
        let path = text(&case, "path");
        let sources = case["files"].as_object().into_iter().flatten();
        let told = sources.filter(|(file, _)| contains_source(&read(&root().join(golden(file)))));
        if case["params"].is_string() || told.count() == 0 {
            continue;
        }
        with_source += 1;
        let parameters = case["tensors"].as_array().is_some_and(|tensors| !tensors.is_empty());
        let mut runs = vec![
            (vec!["--to", "same"], true),
            (vec!["--to", "same", "--strip-source"], false),
            (vec!["--to", "paddle-program"], false),
            (vec!["--to", "paddle-program-text"], false),
            (vec!["--to", "paddle-program", "--strip-source"], false),
        ];
        if parameters {
            runs.push((vec!["--to", "paddle"], false));
            runs.push((vec!["--to", "paddle-vars"], false));
            runs.push((vec!["--to", "paddle-params", "--allow", "names", "--weights-only"], false));
        }
        for (arguments, told) in runs {
            let dir = dir();
            let outcome = convert(&golden(path), &dir.path().join("out"), &arguments);
            let found = files(dir.path()).values().any(|bytes| contains_source(bytes));
            assert_eq!(found, told, "{path} {arguments:?}");
            let noted = outcome.err.contains("source lines of the training script were removed");
            assert!(!noted || !told, "{path} {arguments:?}: {outcome:?}");
            assert!(!outcome.out.contains(".py") && !outcome.err.contains(".py"), "{outcome:?}");
        }
    }
    assert!(with_source > 10, "{with_source} models say where they come from");
}

#[test]
fn removing_source_lines_does_not_change_the_program() {
    for (input, output) in [
        ("2.6.2/lenet/train.pb", "out.pb"),
        ("1.8.5/lenet/program.pbtxt", "out.pbtxt"),
        ("1.8.5/recurrent/combined", "out"),
        ("3.3.1/old/net.pdmodel", "out.pdmodel"),
    ] {
        let (dir, input) = (dir(), golden(input));
        let output = dir.path().join(output);
        convert(&input, &output, &["--to", "same", "--strip-source"]);
        let output = output.to_str().expect("UTF-8");
        assert_eq!(program(output), program(&input), "{input}");
        assert_eq!(facts(output, None)["tensors"], facts(&input, None)["tensors"], "{input}");
    }
}

#[test]
fn an_ambiguous_target_is_an_error() {
    for name in ["out", "out.xyz", "out.tar.gz"] {
        let error = refused(DIGITS, name, &[]);
        assert!(error.contains("cannot determine the format of "), "{error}");
        assert!(error.contains("hint: pass --to FORMAT"), "{error}");
    }
    let error = refused(DIGITS, "out", &["--to", "nope"]);
    assert!(error.contains("invalid value 'nope'") && error.contains("paddle-vars"), "{error}");
    let error = refused(DIGITS, "out", &["--to", "same", "--allow", "everything"]);
    assert!(error.contains("program, lod"), "{error}");
}

#[test]
fn a_format_that_cannot_hold_the_model_names_one_that_can() {
    let many = golden("2.6.2/many.combined");
    let error = refused(&many, "out", &["--to", "paddle-tensor"]);
    assert!(error.contains("cannot hold 32 tensors instead of one; `paddle-params`"), "{error}");
    let error = refused(&many, "out.pdmodel", &[]);
    assert!(error.contains("a model without a program; `paddle-params`"), "{error}");
    assert!(error.contains("hint: pass --to paddle-params"), "{error}");
    let error = refused(&many, "out.pb", &[]);
    assert!(error.contains("a model without a program"), "{error}");
    let rows = golden("2.6.2/repeated_rows.selectedrows");
    let error = refused(&rows, "out", &["--to", "paddle-tensor-lod-last"]);
    assert!(error.contains("`selected-rows`"), "{error}");
}

#[test]
fn inputs_that_cannot_be_read_write_nothing() {
    let scratch = dir();
    let error = refused("missing", "out", &["--to", "same"]);
    assert!(error.contains("no model at `missing`"), "{error}");
    let error = refused("Cargo.toml", "out", &["--to", "same"]);
    assert!(error.contains("unrecognized file format"), "{error}");
    let params = golden("2.6.2/many.combined");
    let error = refused(DIGITS, "out", &["--to", "same", "--params", &params]);
    assert!(error.contains("hint: pass other parameters"), "{error}");
    let truncated = scratch.path().join("truncated");
    let whole = read(&root().join(&params));
    std::fs::write(&truncated, &whole[..whole.len() - 1]).expect("a file");
    let error = refused(truncated.to_str().expect("UTF-8"), "out", &["--to", "same"]);
    assert!(error.contains("truncated` at offset"), "{error}");
}

#[test]
fn outputs_that_cannot_be_written_are_errors() {
    let dir = dir();
    let file = dir.path().join("file");
    std::fs::write(&file, b"precious").expect("a file");
    let file = file.to_str().expect("UTF-8");
    bad(["convert", DIGITS, file, "--to", "paddle-vars"]);
    bad(["convert", DIGITS, &format!("{file}/out.pdmodel")]);
    assert_eq!(files(dir.path()), BTreeMap::from([("file".to_owned(), b"precious".to_vec())]));
}

#[test]
fn reading_and_mapping_write_the_same() {
    let dir = dir();
    convert(DIGITS, &dir.path().join("read"), &["--to", "same", "--no-mmap"]);
    convert(DIGITS, &dir.path().join("mapped"), &["--to", "same"]);
    assert!(files(&dir.path().join("read")) == files(&dir.path().join("mapped")));
}

#[test]
fn sizes_of_shards_are_parsed() {
    for size in ["0", "5xx", "GB", "-1", "99999999999999999999GB"] {
        let outcome = run(["convert", DIGITS, "/nowhere/out.pdmodel", "--max-shard-size", size]);
        assert!(
            outcome.err.contains("expected a size such as 1.5GB or 512MiB") || size == "-1",
            "{outcome:?}"
        );
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
    }
    let dir = dir();
    for size in ["5GB", "512MiB", "1000", "7 KiB", "3B", "1.5GB", "10kB", "2gib"] {
        convert(
            DIGITS,
            &dir.path().join("out.safetensors"),
            &["--weights-only", "--max-shard-size", size],
        );
    }
}

#[test]
fn a_model_may_become_more_files_than_a_process_can_open() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let model = path("model.safetensors");
    large(Path::new(&model), 300, 4);
    for (output, seal) in [("plain", None), ("sealed", Some("--seal"))] {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_lodstone")]);
        shell.args(["convert", &model, &path(output), "--to", "paddle-vars"]).args(seal);
        let outcome = common::Outcome::from(shell.output().expect("sh"));
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert_eq!(facts(&path(output), None)["tensors"].as_array().map(Vec::len), Some(300));
    }
}

#[test]
fn nothing_is_written_under_the_name_of_a_seal() {
    let dir = dir();
    let at = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    std::os::unix::fs::symlink("lodstone.seal", at("link.npz")).expect("a link");
    for name in ["lodstone.seal", ".x.1-1.lodstone", "link.npz"] {
        for arguments in [
            vec!["convert", DIGITS, &at(name), "--to", "npz", "--weights-only"],
            vec!["cat", DIGITS, "--index", "1", "-o", &at(name)],
        ] {
            let error = bad(&arguments);
            assert!(error.contains("is a reserved name"), "{error}");
        }
    }
    assert!(bad(["convert", DIGITS, &at("lodstone.seal"), "--to", "paddle-vars"]).contains("seal"));
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1);
}

/// Returns a model with an old opset.
fn old(name: &str) -> String {
    format!("crates/formats/tests/golden/onnx_upgrade/{name}.onnx")
}

#[test]
fn onnx_operators_are_upgraded() {
    let dir = dir();
    let out = dir.path().join("new.onnx");
    convert(&old("clip"), &out, &["--opset", "13"]);
    let path = out.to_str().expect("UTF-8");
    let outcome = good(["inspect", path, "--json"]);
    let inspection: Value = serde_json::from_str(&outcome.out).expect("JSON");
    let sets = &inspection["program"]["operator_sets"];
    assert_eq!(sets.to_string(), r#"{"":13}"#, "{outcome:?}");
    assert_eq!(inspection["program"]["version"], "IR 7");
    assert!(good(["verify", path]).out.contains("whole"));
    convert(path, &dir.path().join("newest.onnx"), &["--opset", "newest", "--to", "same"]);
}

#[test]
fn onnx_operators_are_not_written_with_opsets_that_do_not_have_them() {
    let error = refused(&old("pad"), "old.onnx", &["--opset", "9"]);
    assert!(error.contains("opset version 9 cannot be written, only 11 to 28"), "{error}");
    let error = refused(&old("pad"), "old.onnx", &["--opset", "99"]);
    assert!(error.contains("opset version 99 does not exist"), "{error}");
    let error = refused(&old("pad"), "pad.npz", &["--opset", "13"]);
    assert!(error.contains("npz does not hold programs"), "{error}");
    let error = refused(DIGITS, "digits.pdmodel", &["--opset", "13"]);
    assert!(error.contains("no program with ONNX operators"), "{error}");
    assert!(bad(["convert", "a", "b", "--opset", "0"]).contains("or `newest`"));
}

/// A program that adds two inputs with a dynamic number of rows.
const OPEN: &str = r#"ir_version: 8 opset_import { version: 17 } graph { name: "open"
    node { op_type: "Add" input: "a" input: "b:0" output: "c" }
    input { name: "a" type { tensor_type { elem_type: 1 shape {
        dim { dim_param: "N" } dim { dim_value: 3 } } } } }
    input { name: "b:0" type { tensor_type { elem_type: 1 shape {
        dim { dim_param: "N" } dim { dim_value: 3 } } } } }
    output { name: "c" type { tensor_type { elem_type: 1 shape {
        dim { dim_param: "N" } dim { dim_value: 3 } } } } } }"#;

#[test]
fn input_shapes_are_declared() {
    let dir = dir();
    let input = dir.path().join("open.onnxtxt");
    std::fs::write(&input, OPEN).expect("written");
    let input = input.to_str().expect("UTF-8");
    let error = refused(input, "out.onnx", &["--to", "onnx-glow"]);
    assert!(error.contains("found `N`"), "{error}");
    assert!(error.contains("hint: pass --input-shape NAME:1,3,224,224"), "{error}");
    let glow = dir.path().join("glow.onnx");
    convert(input, &glow, &["--to", "onnx-glow", "--input-shape", "a:5,3"]);
    let out = dir.path().join("out.onnx");
    convert(input, &out, &["--to", "same", "--input-shape", "b:0:5,3", "--input-shape", "a:5,3"]);
    for path in [&glow, &out] {
        let outcome = good(["inspect", path.to_str().expect("UTF-8"), "--json"]);
        assert!(!outcome.out.contains("\"N\"") && outcome.out.contains('5'), "{outcome:?}");
    }
    for (shapes, expected) in [
        (vec!["x:1"], "there is no input `x`; the inputs are `a`, `b:0`"),
        (vec!["a:5"], ", found float32[5]"),
        (vec!["a:5,4"], ", found float32[5, 4]"),
        (vec!["a:M,3"], ", found float32[M, 3]"),
        (
            vec!["a:5,3", "b:0:6,3"],
            "two values for the symbol `N`: 5 (input `a`) and 6 (input `b:0`)",
        ),
    ] {
        let shapes = shapes.into_iter().flat_map(|shape| ["--input-shape", shape]);
        let arguments: Vec<&str> = ["--to", "onnx"].into_iter().chain(shapes).collect();
        let error = refused(input, "out.onnx", &arguments);
        assert!(error.contains(expected), "{error}");
    }
    let open = dir.path().join("still.onnx");
    convert(input, &open, &["--to", "onnx", "--input-shape", "a:?,3", "--input-shape", "b:0:N,3"]);
    let outcome = good(["inspect", open.to_str().expect("UTF-8")]);
    assert!(outcome.out.contains("a float32 [N, 3]"), "{outcome:?}");
    let error = refused(DIGITS, "digits.pdmodel", &["--input-shape", "a:1"]);
    assert!(error.contains("there is no input `a`; the inputs are `image`"), "{error}");
    assert!(bad(["convert", "a", "b", "--input-shape", "a"]).contains("`data:1,3,224,224`"));
}

#[test]
fn anonymous_dims_need_not_be_equal() {
    let dir = dir();
    let input = dir.path().join("open.onnxtxt");
    std::fs::write(&input, OPEN.replace("\"N\"", "\"?\"")).expect("written");
    let out = dir.path().join("out.onnx");
    let input = input.to_str().expect("UTF-8");
    convert(input, &out, &["--to", "onnx", "--input-shape", "a:5,3", "--input-shape", "b:0:6,3"]);
    let outcome = good(["inspect", out.to_str().expect("UTF-8")]);
    assert!(
        outcome.out.contains("a float32 [5, 3]") && outcome.out.contains("[6, 3]"),
        "{outcome:?}"
    );
}

#[test]
fn structured_names_are_used_and_written_back() {
    let dir = dir();
    let from = root().join(golden("functions/apart"));
    for (name, copy) in [
        ("net.enc.pdmodel", "net.pdmodel"),
        ("net.enc.pdiparams", "net.pdiparams"),
        ("net.pdiparams.info", "net.pdiparams.info"),
    ] {
        std::fs::copy(from.join(name), dir.path().join(copy)).expect("copied");
    }
    let model = dir.path().join("net").display().to_string();
    let copy = dir.path().join("copy");
    convert(&model, &copy.join("net.pdmodel"), &["--to", "same"]);
    for (name, bytes) in files(&copy) {
        assert!(bytes == read(&dir.path().join(&name)), "{name}");
    }
    assert_eq!(files(&copy).len(), 3);
    let out = dir.path().join("named.safetensors");
    convert(&model, &out, &["--weights-only", "--names", "structured"]);
    let names = tensors(&out);
    assert!(
        names.as_array().expect("tensors").iter().any(|it| it["name"] == "a.weight"),
        "{names}"
    );
    // Parameters with other names in this file would be a different model.
    let outcome =
        convert(&model, &copy.join("net.pdmodel"), &["--to", "same", "--names", "structured"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let error = refused(DIGITS, "out.npz", &["--weights-only", "--names", "structured"]);
    assert!(error.contains("no structured names are recorded"), "{error}");
}

#[test]
fn inferred_types_are_declared() {
    let dir = dir();
    let out = dir.path().join("typed.onnx");
    let input = "crates/formats/tests/golden/onnx_infer/undeclared.onnx";
    assert_eq!(run(["verify", input]).code, Some(1), "its output has no type");
    convert(input, &out, &["--infer-shapes", "--to", "same"]);
    let path = out.to_str().expect("UTF-8");
    assert!(good(["verify", path]).out.contains("whole"));
    let outcome = good(["inspect", path]);
    assert!(outcome.out.contains("\noutput     y float32 [batch, 12]\n"), "{outcome:?}");
    let error = refused(DIGITS, "out.pdmodel", &["--infer-shapes"]);
    assert!(error.contains("the model has no ONNX program"), "{error}");
}

/// Writes a list of models, and returns its path.
fn list(directory: &Path, lines: &[&str]) -> String {
    let path = directory.join("models.txt");
    std::fs::write(&path, lines.join("\n")).expect("writable");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn the_models_of_a_list_are_converted_once() {
    let dir = dir();
    let missing = "examples/digits/missing.onnx";
    let models =
        ["# weights", DIGITS, "", "examples/digits/test.npz", missing, "examples/digits/train.npz"];
    let list = list(dir.path(), &models);
    let into = dir.path().join("out");
    let run_share = |share: &str| {
        let into = into.to_str().expect("UTF-8");
        let arguments = ["convert", "--list", &list, "--into", into, "--to", "safetensors"];
        run([&arguments[..], &["--weights-only", "--shard", share]].concat())
    };
    let second = run_share("1/2");
    assert_eq!(second.code, Some(0), "{}", second.err);
    assert_eq!(
        files(&into).keys().collect::<Vec<_>>(),
        ["examples/digits/test.safetensors", "examples/digits/train.safetensors"]
    );
    let before = files(&into);
    let all = run_share("0/1");
    assert_eq!(all.code, Some(1), "a model of the list does not exist");
    assert!(all.err.contains(missing), "{}", all.err);
    assert!(all.err.contains("4 models: 1 converted, 2 present, 1 failed"), "{}", all.err);
    assert!(all.out.contains("test.safetensors: exists"), "{}", all.out);
    let after = files(&into);
    assert_eq!(after.len(), 3);
    assert!(before.iter().all(|(name, bytes)| after[name] == *bytes));
}

#[test]
fn a_list_gives_outputs_and_is_checked_before_anything_is_written() {
    let dir = dir();
    let output = dir.path().join("x.npz");
    let output = output.to_str().expect("UTF-8");
    let line = format!("examples/digits/test.npz\t{output}");
    let path = list(dir.path(), &[&line]);
    let done = good(["convert", "--list", &path, "--json"].to_vec());
    let outcome: Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!(outcome["status"], "converted");
    assert_eq!(outcome["output"], output);

    let path = list(dir.path(), &[&line, &line]);
    let error = bad(["convert", "--list", &path].to_vec());
    assert!(error.contains("line 2: writes") && error.contains("as line 1 does"), "{error}");
    let path = list(dir.path(), &["examples/digits/test.npz"]);
    let error = bad(["convert", "--list", &path].to_vec());
    assert!(error.contains("line 1: expected a tab and an output"), "{error}");
    for share in ["2/2", "1", "a/b", "-1/2"] {
        let error = bad(["convert", "--list", &path, "--shard", share].to_vec());
        assert!(error.contains("expected I/N") || error.contains("unexpected argument"), "{error}");
    }
}

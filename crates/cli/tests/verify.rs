//! `lodstone seal` and `lodstone verify`.

#![expect(clippy::disallowed_methods, reason = "tests damage files")]

use std::path::Path;

use crate::common::{DIGITS, bad, dir, good, read, root, run};
use serde_json::Value;

/// Copies the digits model; returns the prefix of the copy.
fn digits(dir: &Path) -> String {
    for name in ["inference.pdmodel", "inference.pdiparams"] {
        std::fs::copy(root().join(DIGITS).join(name), dir.join(name)).expect("copied");
    }
    dir.join("inference").to_str().expect("UTF-8").to_owned()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = read(path);
    bytes[at] ^= 1;
    std::fs::write(path, bytes).expect("write");
}

#[test]
fn a_model_is_sealed_and_verified_and_damage_is_named() {
    let dir = dir();
    let model = digits(dir.path());
    let seal = dir.path().join("lodstone.seal");
    let outcome = good(["verify", &model]);
    assert!(outcome.out.contains(": whole\n"), "{outcome:?}");
    assert!(outcome.out.ends_with("  not sealed: structure checked, values not\n"));
    let error = run(["verify", &model, "--sealed"]);
    assert_eq!(error.code, Some(2), "{error:?}");

    let outcome = good(["seal", &model]);
    assert!(outcome.out.starts_with("sealed 2 files, 12 tensors, "), "{outcome:?}");
    assert!(outcome.out.ends_with(&format!("wrote {}\n", seal.display())), "{outcome:?}");
    let outcome = good(["verify", &model, "--sealed"]);
    assert!(outcome.out.contains(" checksums match\n"), "{outcome:?}");

    let params = dir.path().join("inference.pdiparams");
    flip(&params, read(&params).len() - 1);
    let outcome = run(["verify", &model]);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(1), ""), "{outcome:?}");
    assert!(outcome.out.contains(": damaged\n"), "{outcome:?}");
    assert!(
        outcome
            .out
            .contains(&format!("`{}` is damaged: checksum mismatch: tensor `", params.display())),
        "{outcome:?}"
    );
    let json = run(["verify", &model, "--json"]);
    assert_eq!(json.code, Some(1));
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(
        (&json["schema"], &json["whole"], &json["sealed"]),
        (&1.into(), &false.into(), &true.into())
    );
    assert_eq!(json["findings"][0]["kind"], "seal");
    assert!(json["findings"][0]["tensor"].is_string(), "{json}");

    // By default, only intact bytes are read.
    let out = dir.path().join("out.npz");
    let out = out.to_str().expect("UTF-8");
    let error = bad(["convert", &model, out, "--weights-only"]);
    assert!(error.contains("is damaged") && error.contains("hint: "), "{error}");
    good(["convert", &model, out, "--weights-only", "--no-verify"]);
    assert!(bad(["seal", &model]).contains("is damaged"));
    good(["seal", &model, "--replace"]);
    good(["verify", &model, "--sealed"]);
}

#[test]
fn a_conversion_is_sealed_on_request() {
    let dir = dir();
    let out = dir.path().join("out.safetensors");
    let out = out.to_str().expect("UTF-8");
    good(["convert", DIGITS, out, "--seal", "--weights-only"]);
    good(["verify", out, "--sealed"]);
    let sharded = dir.path().join("sharded/m.safetensors");
    std::fs::create_dir(dir.path().join("sharded")).expect("a directory");
    let sharded = sharded.to_str().expect("UTF-8");
    let split = ["--seal", "--weights-only", "--max-shard-size", "20KiB"];
    good(["convert", DIGITS, sharded].iter().chain(&split));
    let directory = dir.path().join("sharded");
    let outcome = good(["verify", directory.to_str().expect("UTF-8"), "--sealed"]);
    assert!(!outcome.out.contains("1 file,"), "{outcome:?}");
}

#[test]
fn there_is_no_verdict_for_files_that_are_not_models() {
    let error = bad(["verify", "README.md"]);
    assert!(error.contains("unrecognized file format"), "{error}");
    assert!(bad(["verify", "nothing/here"]).starts_with("error: "));
}

#[test]
fn a_truncated_file_is_damaged_even_without_a_seal() {
    let dir = dir();
    let model = digits(dir.path());
    let params = dir.path().join("inference.pdiparams");
    let bytes = read(&params);
    std::fs::write(&params, &bytes[..bytes.len() - 1]).expect("write");
    let outcome = run(["verify", &model]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.out.contains("expected "), "{outcome:?}");
}

#[test]
fn names_of_directories_are_escaped_for_the_terminal() {
    let dir = dir();
    let name = dir.path().join("a\u{1b}[31mb");
    std::fs::create_dir(&name).expect("a directory");
    let model = digits(&name);
    let out = name.join("copy.npz");
    let sealed = good(["seal", &model]);
    let converted = good(["convert", &model, out.to_str().expect("UTF-8"), "--weights-only"]);
    for outcome in [sealed, converted] {
        assert!(
            outcome.out.contains("a\\u{1b}[31mb") && !outcome.out.contains('\u{1b}'),
            "{outcome:?}"
        );
    }
}

/// Returns the path of a model that breaks a rule of ONNX, or of a valid one.
fn onnx(name: &str) -> String {
    format!("crates/formats/tests/golden/onnx_check/{name}.onnx")
}

#[test]
fn all_broken_rules_of_a_program_are_reported() {
    let outcome = good(["verify", &onnx("good")]);
    assert!(outcome.out.contains("whole"), "{outcome:?}");
    let outcome = run(["verify", &onnx("own_output_is_read_inside")]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let told =
        "  the graph, operator 0 (`If`), `then_branch`, operator 0 (`Relu`), input 0: reads `y`";
    assert!(outcome.out.contains(told), "{outcome:?}");
    let outcome = run(["verify", &onnx("types_differ"), "--json"]);
    assert!(outcome.code == Some(1) && outcome.out.contains(r#""kind": "rule""#), "{outcome:?}");
}

#[test]
fn operators_that_are_not_part_of_onnx_are_named() {
    let outcome = good(["inspect", &onnx("custom")]);
    assert!(
        outcome.err.contains("custom operators, not part of ONNX 1.23.2: `Mine` of `com.example`"),
        "{outcome:?}"
    );
    assert!(good(["inspect", &onnx("unknown_kind")]).err.contains("ONNX 1.23.2: `NoSuch`"));
    let newer = good(["inspect", &onnx("of_tomorrow")]).err;
    assert!(newer.contains("version 99 of `ai.onnx`; the newest known is"), "{newer}");
    for fine in ["good", "function"] {
        assert!(!good(["inspect", &onnx(fine)]).err.contains("custom"), "{fine}");
    }
}

#[test]
fn contradictory_types_are_named() {
    let model = |name: &str| format!("crates/formats/tests/golden/onnx_infer/{name}.onnx");
    // Types that can be inferred must be declared nevertheless.
    let outcome = run(["verify", &model("undeclared")]);
    assert!(
        outcome.code == Some(1) && outcome.out.contains("output 0 (`y`): has no type"),
        "{outcome:?}"
    );
    let outcome = run(["verify", &model("contradictory"), "--json"]);
    // Runtimes accept a different shape than the declared one.
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let json: Value = serde_json::from_str(&outcome.out).expect("JSON");
    assert_eq!(json["findings"][0]["kind"], "inconsistent");
    let told = "the graph, operator 3 (`Reshape`), output `y`: declared as float32[4, 5], inferred as \
                float32[batch, 12]";
    assert_eq!(json["findings"][0]["message"], told);
}

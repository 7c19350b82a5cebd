//! `lodstone seal` and `lodstone verify`, as a user sees them.

#![expect(clippy::disallowed_methods, reason = "tests damage files")]

mod common;

use std::path::Path;

use common::{DIGITS, bad, dir, good, read, root, run};
use serde_json::Value;

/// A copy of the digits model, as a prefix.
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
    let said = good(["verify", &model]);
    assert!(said.out.contains(": whole\n"), "{said:?}");
    assert!(said.out.ends_with("  not sealed: structure checked, values not\n"));
    let error = run(["verify", &model, "--sealed"]);
    assert_eq!(error.code, Some(2), "{error:?}");

    let said = good(["seal", &model]);
    assert!(said.out.starts_with("sealed 2 files, 12 tensors, "), "{said:?}");
    assert!(said.out.ends_with(&format!("wrote {}\n", seal.display())), "{said:?}");
    let said = good(["verify", &model, "--sealed"]);
    assert!(said.out.contains(" checksums match\n"), "{said:?}");

    let params = dir.path().join("inference.pdiparams");
    flip(&params, read(&params).len() - 1);
    let said = run(["verify", &model]);
    assert_eq!((said.code, said.err.as_str()), (Some(1), ""), "{said:?}");
    assert!(said.out.contains(": damaged\n"), "{said:?}");
    assert!(
        said.out
            .contains(&format!("`{}` is damaged: checksum mismatch: tensor `", params.display())),
        "{said:?}"
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

    // What is read by default is what was sealed.
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
fn what_is_converted_is_sealed_if_that_is_asked_for() {
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
    let said = good(["verify", directory.to_str().expect("UTF-8"), "--sealed"]);
    assert!(!said.out.contains("1 file,"), "{said:?}");
}

#[test]
fn whether_what_is_no_model_is_whole_cannot_be_told() {
    let error = bad(["verify", "README.md"]);
    assert!(error.contains("unrecognized file format"), "{error}");
    assert!(bad(["verify", "nothing/here"]).starts_with("error: "));
}

#[test]
fn a_file_that_ends_early_is_damaged_without_a_seal_too() {
    let dir = dir();
    let model = digits(dir.path());
    let params = dir.path().join("inference.pdiparams");
    let bytes = read(&params);
    std::fs::write(&params, &bytes[..bytes.len() - 1]).expect("write");
    let said = run(["verify", &model]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("expected "), "{said:?}");
}

#[test]
fn names_of_directories_do_nothing_to_a_terminal() {
    let dir = dir();
    let name = dir.path().join("a\u{1b}[31mb");
    std::fs::create_dir(&name).expect("a directory");
    let model = digits(&name);
    let out = name.join("copy.npz");
    let sealed = good(["seal", &model]);
    let converted = good(["convert", &model, out.to_str().expect("UTF-8"), "--weights-only"]);
    for said in [sealed, converted] {
        assert!(said.out.contains("a\\u{1b}[31mb") && !said.out.contains('\u{1b}'), "{said:?}");
    }
}

/// A model that breaks a rule of ONNX, or none.
fn onnx(name: &str) -> String {
    format!("crates/formats/tests/golden/onnx_check/{name}.onnx")
}

#[test]
fn a_program_that_breaks_rules_is_damaged_and_each_is_told() {
    let said = good(["verify", &onnx("good")]);
    assert!(said.out.contains("whole"), "{said:?}");
    let said = run(["verify", &onnx("own_output_is_read_inside")]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let told =
        "  the graph, operator 0 (`If`), `then_branch`, operator 0 (`Relu`), input 0: reads `y`";
    assert!(said.out.contains(told), "{said:?}");
    let said = run(["verify", &onnx("types_differ"), "--json"]);
    assert!(said.code == Some(1) && said.out.contains(r#""kind": "rule""#), "{said:?}");
}

#[test]
fn operators_that_are_not_onnx_s_are_named() {
    let said = good(["inspect", &onnx("custom")]);
    assert!(
        said.err.contains("custom operators, not part of ONNX 1.23.2: `Mine` of `com.example`"),
        "{said:?}"
    );
    assert!(good(["inspect", &onnx("unknown_kind")]).err.contains("ONNX 1.23.2: `NoSuch`"));
    let newer = good(["inspect", &onnx("of_tomorrow")]).err;
    assert!(newer.contains("version 99 of `ai.onnx`; the newest known is"), "{newer}");
    for fine in ["good", "function"] {
        assert!(!good(["inspect", &onnx(fine)]).err.contains("custom"), "{fine}");
    }
}

#[test]
fn types_that_contradict_each_other_are_named() {
    let model = |name: &str| format!("crates/formats/tests/golden/onnx_infer/{name}.onnx");
    // What can be inferred has to be declared all the same.
    let said = run(["verify", &model("undeclared")]);
    assert!(said.code == Some(1) && said.out.contains("output 0 (`y`): has no type"), "{said:?}");
    let said = run(["verify", &model("contradictory"), "--json"]);
    // Another shape than that declared is what runtimes take all the same.
    assert_eq!(said.code, Some(0), "{said:?}");
    let json: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(json["findings"][0]["kind"], "inconsistent");
    let told = "the graph, operator 3 (`Reshape`), output `y`: declared as float32[4, 5], inferred as \
                float32[batch, 12]";
    assert_eq!(json["findings"][0]["message"], told);
}

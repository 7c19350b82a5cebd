//! `lodstone diff`.

#![expect(clippy::disallowed_methods, reason = "tests change files")]

use std::path::Path;

use crate::common::{DIGITS, bad, dir, expect, good, read, root, run};
use serde_json::Value;

/// Writes the digits model as safetensors, and a copy with two different numbers.
fn two(dir: &Path) -> [String; 2] {
    let [a, b] = ["a", "b"].map(|name| dir.join(name).with_extension("safetensors"));
    good([Path::new("convert"), Path::new(DIGITS), &a, Path::new("--weights-only")]);
    let mut bytes = read(&a);
    let len = bytes.len();
    bytes[len - 3] ^= 0x41;
    bytes[len - 400] ^= 1;
    std::fs::write(&b, bytes).expect("write");
    [a, b].map(|path| path.to_str().expect("UTF-8").to_owned())
}

#[test]
fn the_same_model_in_another_format_is_equal() {
    let dir = dir();
    let [a, _] = two(dir.path());
    let outcome = good(["diff", DIGITS, &a]);
    assert!(outcome.out.ends_with("the same: 12 tensors equal\n"), "{outcome:?}");
    let json = good(["diff", DIGITS, &a, "--json"]);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(
        (&json["schema"], &json["same"], &json["equal"]),
        (&1.into(), &true.into(), &12.into())
    );
}

#[test]
fn changes_are_counted_and_listed() {
    let dir = dir();
    let [a, b] = two(dir.path());
    let outcome = run(["diff", &a, &b]);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(1), ""), "{outcome:?}");
    let place = format!("{}/", dir.path().display());
    expect("diff.txt", &outcome.out.replace(&place, ""));
    let json = run(["diff", &a, &b, "--json"]);
    assert_eq!(json.code, Some(1));
    expect("diff.json", &json.out);
    good(["diff", &a, &b, "--rtol", "0.01"]);
}

#[test]
fn names_are_mapped_by_a_file() {
    let dir = dir();
    let [a, _] = two(dir.path());
    let map = dir.path().join("names.txt");
    std::fs::write(&map, "conv2d_*.w_0 conv*.weight\nfc_0.w_0 dense.weight\n").expect("write");
    let map = map.to_str().expect("UTF-8");
    let out = dir.path().join("r.npz");
    let out = out.to_str().expect("UTF-8");
    good(["convert", &a, out, "--rename", map, "--transpose", "fc_0.w_0"]);
    let outcome = run(["diff", &a, out]);
    assert_eq!(outcome.code, Some(1));
    expect("diff_renamed.txt", &outcome.out.replace(&format!("{}/", dir.path().display()), ""));
    good(["diff", &a, out, "--rename", map, "--transpose", "fc_0.w_0"]);
    std::fs::write(map, "conv2d_*.w_0\n").expect("write");
    let error = bad(["diff", &a, out, "--rename", map]);
    assert!(error.contains("names.txt: line 1: expected an old name and a new one"), "{error}");
}

#[test]
fn programs_are_compared() {
    let dir = dir();
    let program = dir.path().join("inference.pdmodel");
    let text = dir.path().join("inference.pbtxt");
    let params = root().join(DIGITS).join("inference.pdiparams");
    std::fs::copy(&params, dir.path().join("inference.pdiparams")).expect("copied");
    good(["convert", DIGITS, text.to_str().expect("UTF-8"), "--to", "paddle-program-text"]);
    let changed =
        String::from_utf8(read(&text)).expect("UTF-8").replacen("\"relu\"", "\"sigmoid\"", 1);
    std::fs::write(&text, changed).expect("write");
    good([Path::new("convert"), &text, &program, Path::new("--to"), Path::new("paddle-program")]);
    std::fs::remove_file(&text).expect("removed");
    let outcome = run([Path::new("diff"), Path::new(DIGITS), dir.path()]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.out.contains("different: 12 tensors equal\n"), "{outcome:?}");
    let told = "programs: 13 operators equal, 1 of another kind\n  of another kind: block 0, operator 3, \
                relu `batch_norm_0.tmp_4`\n    kind: relu -> sigmoid\n";
    assert!(outcome.out.contains(told), "{outcome:?}");
}

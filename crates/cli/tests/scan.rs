//! `lodstone scan`, as a user sees it.

#![expect(clippy::disallowed_methods, reason = "tests write files")]

mod common;

use common::{DIGITS, bad, dir, golden, good, run};
use serde_json::Value;

#[test]
fn a_pickle_that_runs_a_command_is_told_and_not_run() {
    let dir = dir();
    let made = dir.path().join("made");
    let command = format!("touch {}", made.display());
    let mut pickle = b"\x80\x02cposix\nsystem\nX".to_vec();
    pickle.extend(u32::try_from(command.len()).expect("short").to_le_bytes());
    pickle.extend(command.bytes());
    pickle.extend(b"\x85R.");
    let path = dir.path().join("w.pdparams");
    std::fs::write(&path, pickle).expect("write");
    let path = path.to_str().expect("UTF-8");
    let said = run(["scan", path]);
    assert_eq!((said.code, said.err.as_str()), (Some(1), ""), "{said:?}");
    let expected = format!(
        "{path}: 1 finding in 1 file\n  callable  byte 2: calls `posix.system` with ('{command}')\n"
    );
    assert_eq!(said.out, expected);
    let json = run(["scan", path, "--json"]);
    assert_eq!(json.code, Some(1));
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!((&json["schema"], &json["clean"]), (&1.into(), &false.into()));
    assert_eq!(json["findings"][0]["kind"], "callable");
    let error = bad(["inspect", path]);
    assert!(error.contains("posix.system"), "{error}");
    assert!(!made.exists());
}

#[test]
fn what_a_program_tells_is_found_and_a_clean_model_is_clean() {
    let dir = dir();
    let out = dir.path().join("out.safetensors");
    let out = out.to_str().expect("UTF-8");
    good(["convert", DIGITS, out]);
    assert_eq!(good(["scan", out]).out, format!("{out}: nothing found in 1 file\n"));
    let said = run(["scan", &golden("2.6.2/control_flow")]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("  source    "), "{said:?}");
}

#[test]
fn whether_what_is_no_model_is_clean_cannot_be_told() {
    assert!(bad(["scan", "nothing/here"]).starts_with("error: "));
    assert!(bad(["scan", "Cargo.toml"]).contains("is no model file that is known"));
}

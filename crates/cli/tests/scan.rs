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
    assert_eq!((&json["schema"], &json["clean"]), (&2.into(), &false.into()));
    assert_eq!((&json["verdict"], &json["finding_count"]), (&"findings".into(), &1.into()));
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
    assert_eq!(good(["scan", out]).out, format!("{out}: no findings in 1 file\n"));
    let said = run(["scan", &golden("2.6.2/control_flow")]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("  source    "), "{said:?}");
}

#[test]
fn what_is_not_there_is_an_error_and_text_is_clean() {
    assert!(bad(["scan", "nothing/here"]).starts_with("error: "));
    assert_eq!(good(["scan", "Cargo.toml"]).out, "Cargo.toml: no findings in 1 file\n");
}

#[test]
fn unknown_files_are_listed_and_accepted_by_patterns() {
    let dir = dir();
    let path = dir.path().to_str().expect("UTF-8");
    std::fs::create_dir(dir.path().join("images")).expect("a directory");
    std::fs::write(dir.path().join("README.md"), "# A model\n").expect("write");
    std::fs::write(dir.path().join("images/a.png"), b"\x89PNG\r\n\x1a\n\0").expect("write");
    let reason = format!("{path}/images/a.png: the format is not known\n");
    let said = run(["scan", path]);
    assert_eq!((said.code, said.err.as_str()), (Some(2), ""), "{said:?}");
    assert_eq!(said.out, format!("{path}: no findings, 1 unknown in 2 files\nunknown {reason}"));
    for pattern in ["*.png", "images/*", "images/a.png"] {
        let said = good(["scan", path, "--ignore", pattern]);
        assert_eq!(
            said.out,
            format!("{path}: no findings, 1 ignored in 2 files\nignored {reason}")
        );
    }
    assert_eq!(run(["scan", path, "--ignore", "*.jpg"]).code, Some(2));
    let json = run(["scan", path, "--ignore", "*.png", "--json"]);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(json["verdict"], "clean");
    assert_eq!((&json["unknown_count"], &json["ignored_count"]), (&0.into(), &1.into()));
    assert_eq!(json["ignored"][0]["reason"], "the format is not known");
}

#[test]
fn an_interrupt_ends_a_scan() {
    let dir = dir();
    let path = dir.path().join("large.pkl");
    std::fs::write(&path, b"\x80\x02".repeat(48 << 20)).expect("write");
    let mut child = common::command(["scan", path.to_str().expect("UTF-8")])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the command");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let id = i32::try_from(child.id()).expect("an id");
    let process = rustix::process::Pid::from_raw(id).expect("a process");
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("a signal");
    let status = child.wait().expect("an end");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("a pipe"), &mut said)
        .expect("text");
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("cancelled"), "{said}");
}

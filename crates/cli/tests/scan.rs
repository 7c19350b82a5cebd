//! `lodstone scan`.

#![expect(clippy::disallowed_methods, reason = "tests write files")]

use crate::common;
use crate::common::{DIGITS, bad, dir, golden, good, run};
use serde_json::Value;

#[test]
fn a_pickle_that_runs_a_command_is_reported_and_not_executed() {
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
    let outcome = run(["scan", path]);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(1), ""), "{outcome:?}");
    let expected = format!(
        "{path}: 1 finding in 1 file\n  callable  byte 2: calls `posix.system` with ('{command}')\n"
    );
    assert_eq!(outcome.out, expected);
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
fn source_lines_are_findings_and_a_clean_model_has_none() {
    let dir = dir();
    let out = dir.path().join("out.safetensors");
    let out = out.to_str().expect("UTF-8");
    good(["convert", DIGITS, out, "--weights-only"]);
    assert_eq!(good(["scan", out]).out, format!("{out}: no findings in 1 file\n"));
    let outcome = run(["scan", &golden("2.6.2/control_flow")]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.out.contains("  source    "), "{outcome:?}");
}

#[test]
fn a_missing_path_is_an_error_and_text_is_clean() {
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
    let reason = format!("{path}/images/a.png: unrecognized file format\n");
    let outcome = run(["scan", path]);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(2), ""), "{outcome:?}");
    assert_eq!(outcome.out, format!("{path}: no findings, 1 unknown in 2 files\nunknown {reason}"));
    for pattern in ["*.png", "images/*", "images/a.png"] {
        let outcome = good(["scan", path, "--ignore", pattern]);
        assert_eq!(
            outcome.out,
            format!("{path}: no findings, 1 ignored in 2 files\nignored {reason}")
        );
    }
    assert_eq!(run(["scan", path, "--ignore", "*.jpg"]).code, Some(2));
    let json = run(["scan", path, "--ignore", "*.png", "--json"]);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(json["verdict"], "clean");
    assert_eq!((&json["unknown_count"], &json["ignored_count"]), (&0.into(), &1.into()));
    assert_eq!(json["ignored"][0]["reason"], "unrecognized file format");
}

#[test]
fn an_interrupt_stops_a_scan() {
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
    let mut outcome = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("a pipe"), &mut outcome)
        .expect("text");
    assert_eq!(status.code(), Some(2), "{outcome}");
    assert!(outcome.contains("cancelled"), "{outcome}");
}

#[test]
fn findings_are_selected_and_ignored_by_kind() {
    let model = golden("2.6.2/control_flow");
    let outcome = good(["scan", &model, "--ignore", "source"]);
    assert!(
        outcome.out.contains("no findings, ") && outcome.out.contains(" ignored in "),
        "{outcome:?}"
    );
    let outcome = good(["scan", &model, "--only", "callable"]);
    assert!(!outcome.out.contains("  source "), "{outcome:?}");
    assert_eq!(run(["scan", &model, "--only", "source"]).code, Some(1));
    let outcome = good(["scan", &model, "--ignore", "source", "--json"]);
    let json: Value = serde_json::from_str(&outcome.out).expect("JSON");
    assert_eq!((&json["clean"], &json["finding_count"]), (&true.into(), &0.into()));
    assert!(json["ignored_finding_count"].as_u64().is_some_and(|count| count > 0), "{json}");
    let error = run(["scan", &model, "--only", "sources"]).err;
    assert!(
        error.contains("possible values: callable, operator, native, path, archive, source"),
        "{error}"
    );
}

#[test]
fn findings_of_all_paths_are_in_one_sarif_log() {
    let dir = dir();
    let attack = dir.path().join("a b.pdparams");
    std::fs::write(&attack, b"cposix\nsystem\n(Vid\ntR.").expect("written");
    let unknown = dir.path().join("unknown");
    std::fs::write(&unknown, [0, 159, 146, 150]).expect("written");
    let [attack, unknown] = [&attack, &unknown].map(|path| path.to_str().expect("UTF-8"));
    let outcome = run(["scan", attack, unknown, "nothing/here", "--sarif"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    let log: Value = serde_json::from_str(&outcome.out).expect("JSON");
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    assert_eq!(run["invocations"][0]["executionSuccessful"], false);
    let rules: Vec<&str> = run["tool"]["driver"]["rules"]
        .as_array()
        .expect("rules")
        .iter()
        .filter_map(|rule| rule["id"].as_str())
        .collect();
    assert_eq!(rules, ["callable", "operator", "native", "path", "archive", "source", "unknown"]);
    let results = run["results"].as_array().expect("results");
    assert_eq!(results.len(), 2, "{log}");
    assert_eq!(
        (&results[0]["ruleId"], &results[0]["level"]),
        (&"callable".into(), &"error".into())
    );
    let place = &results[0]["locations"][0]["physicalLocation"];
    let uri = place["artifactLocation"]["uri"].as_str().expect("a URI");
    assert!(uri.starts_with("file:///") && uri.ends_with("/a%20b.pdparams"), "{uri}");
    assert_eq!(place["region"]["byteOffset"], 0);
    assert_eq!(results[1]["ruleId"], "unknown");
}

#[test]
fn accepted_callables_are_printed() {
    let dir = dir();
    let model = dir.path().join("model.pkl");
    std::fs::write(&model, b"cpackage.part\nClass\n(I1\ntR.").expect("a file");
    let path = model.to_str().expect("a path");
    assert_eq!(run(["scan", path]).code, Some(1));
    let outcome = good(["scan", path, "--allow-import", "package.part.Class"]);
    assert!(outcome.out.contains("no findings, 1 import accepted in 1 file"), "{outcome:?}");
    let line = format!("accepted {path}: `package.part.Class`");
    assert!(outcome.out.contains(&line), "{outcome:?}");
    let json = good(["scan", path, "--json", "--allow-import", "package.part.Class"]);
    assert!(json.out.contains("\"name\": \"package.part.Class\""), "{json:?}");
    for name in ["Class", "package.*"] {
        let outcome = run(["scan", path, "--allow-import", name]);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
    }
}

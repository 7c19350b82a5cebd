//! Standard streams and common options: `-`, `--quiet`, `--verbose`, `--color`, `--no-clobber`, directories.

#![expect(clippy::disallowed_methods, reason = "makes its own files")]

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::common::{DIGITS, Outcome, bad, command, dir, files, good, read, root, run};
use serde_json::Value;

/// Runs the command with bytes as its standard input; returns its status, stdout and stderr.
fn piped(arguments: &[&str], input: &[u8]) -> (Option<i32>, Vec<u8>, String) {
    let mut command = command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("the command ends");
    writer.join().expect("written");
    (output.status.code(), output.stdout, String::from_utf8(output.stderr).expect("UTF-8"))
}

fn safetensors(dir: &Path) -> String {
    let path = dir.join("digits.safetensors").display().to_string();
    good(["convert", DIGITS, &path, "--weights-only"]);
    path
}

#[test]
fn a_dash_is_standard_input_and_standard_output() {
    let dir = dir();
    let path = safetensors(dir.path());
    let bytes = read(Path::new(&path));

    let (code, out, err) = piped(&["inspect", "-", "--json"], &bytes);
    assert_eq!(code, Some(0), "{err}");
    let found: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(
        (&found["format"], found["tensors"].as_array().map(Vec::len)),
        (&"safetensors".into(), Some(12))
    );

    let (code, out, err) = piped(&["convert", "-", "-", "--to", "npz"], &bytes);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let npz = dir.path().join("digits.npz");
    std::fs::write(&npz, &out).expect("written");
    assert!(good(["diff", &path, &npz.display().to_string()]).out.contains("the same"));

    let (code, out, err) = piped(&["convert", "-", "-", "--to", "same"], &bytes);
    assert!(code == Some(0) && out == bytes, "{err}");

    let (code, out, err) = piped(&["cat", "-", "fc_0.b_0", "-o", "-"], &bytes);
    assert!(code == Some(0) && out.starts_with(b"\x93NUMPY"), "{err}");

    let (code, out, err) = piped(&["verify", "-"], &bytes);
    assert!(code == Some(0) && out.starts_with(b"-: whole\n"), "{err}");
    let (code, out, _) = piped(&["verify", "-"], &bytes[..bytes.len() - 1]);
    assert!(code == Some(1) && out.starts_with(b"-: damaged\n"));
    let (code, out, err) = piped(&["scan", "-"], &bytes);
    assert!(code == Some(0) && out.starts_with(b"-: no findings"), "{err}");
    let (code, _, err) = piped(&["diff", &path, "-"], &bytes);
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn standard_input_is_read_once_and_standard_output_takes_one_file() {
    let dir = dir();
    let bytes = read(Path::new(&safetensors(dir.path())));
    let (code, _, err) = piped(&["diff", "-", "-"], &bytes);
    assert_eq!(code, Some(2));
    assert!(err.starts_with("error: standard input can be read only once"), "{err}");
    let (code, out, err) = piped(&["convert", DIGITS, "-", "--to", "paddle"], &[]);
    assert_eq!((code, out.as_slice()), (Some(2), &b""[..]));
    assert!(err.contains("cannot write 2 files to standard output, expected 1 file"), "{err}");
    let (code, _, err) = piped(&["inspect", "-"], &[]);
    assert_eq!(code, Some(2));
    assert!(err.contains("is empty"), "{err}");
}

#[test]
fn inputs_are_read_from_standard_input_and_from_paths_with_an_equals_sign() {
    let dir = dir();
    let images = dir.path().join("a=b.npy").display().to_string();
    good(["cat", "examples/digits/test.npz", "images", "-o", &images]);
    let named = good(["run", DIGITS, "-i", &format!("image={images}")]).out;
    assert_eq!(good(["run", DIGITS, "-i", &images]).out, named);
    let (code, out, err) = piped(&["run", DIGITS, "-i", "image=-"], &read(Path::new(&images)));
    assert_eq!((code, out.as_slice()), (Some(0), named.as_bytes()), "{err}");
}

#[test]
fn quiet_prints_data_and_errors_only() {
    let dir = dir();
    let out = dir.path().join("out.npz").display().to_string();
    let outcome = good(["convert", DIGITS, &out, "--allow", "program", "--quiet"]);
    assert_eq!((outcome.out.as_str(), outcome.err.as_str()), ("", ""));
    assert!(good(["-q", "inspect", &out]).out.contains("12 tensors"));
    let error = bad(["-q", "inspect", "nothing/here"]);
    assert!(error.starts_with("error: "), "{error}");
    assert_eq!(run(["-q", "-v", "inspect", &out]).code, Some(2));
}

#[test]
fn verbose_prints_opened_models_and_times() {
    let outcome = good(["inspect", DIGITS, "-v"]);
    assert!(
        outcome.err.contains("opened examples/digits/paddle: paddle, 2 files, 12 tensors"),
        "{outcome:?}"
    );
    assert!(outcome.err.contains("took "), "{outcome:?}");
}

#[test]
fn colors_are_selected_by_the_option() {
    let error = |arguments: &[&str], env: Option<(&str, &str)>| {
        let mut command = command(arguments);
        command.envs(env);
        Outcome::from(command.output().expect("the command")).err
    };
    let plain = "error: ";
    assert!(error(&["inspect", "nothing"], None).starts_with(plain));
    assert!(error(&["inspect", "nothing", "--color", "always"], None).starts_with("\u{1b}["));
    assert!(error(&["inspect", "nothing", "--color", "never"], None).starts_with(plain));
    let env = Some(("CLICOLOR_FORCE", "1"));
    assert!(error(&["inspect", "nothing"], env).starts_with("\u{1b}["));
    assert!(error(&["--color", "never", "inspect", "nothing"], env).starts_with(plain));
    assert!(error(&["inspect", "nothing"], Some(("NO_COLOR", "1"))).starts_with(plain));
}

#[test]
fn existing_files_are_not_replaced_with_no_clobber() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let old = b"not a model";
    for name in ["out.npz", "out.npy", "out.pdiparams"] {
        std::fs::write(dir.path().join(name), old).expect("written");
    }
    let before = files(dir.path());
    let images = "examples/digits/test.npz";
    for arguments in [
        vec!["convert", DIGITS, &path("out.npz"), "--weights-only"],
        // One of two files exists.
        vec!["convert", DIGITS, &path("out.pdmodel")],
        vec!["cat", DIGITS, "fc_0.b_0", "-o", &path("out.npy")],
        vec!["train", "examples/digits/training", "-d", images, "-n", "1", "-o", &path("")],
    ] {
        let error = bad(arguments.iter().chain(&["--no-clobber"]));
        assert!(error.contains(" already exists"), "{error}");
        assert!(files(dir.path()) == before, "{arguments:?}");
    }
    good(["convert", DIGITS, &path("new.npz"), "--weights-only", "--no-clobber"]);
    good(["convert", DIGITS, &path("out.npz"), "--weights-only"]);
}

#[test]
fn missing_directories_are_created() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name).display().to_string();
    good(["convert", DIGITS, &path("a/b/out.npz"), "--weights-only"]);
    good(["convert", DIGITS, &path("c/d/vars"), "--to", "paddle-vars"]);
    good(["convert", DIGITS, &path("e/f/out.pdmodel")]);
    good(["cat", DIGITS, "fc_0.b_0", "-o", &path("g/h/bias.npy")]);
    good(["cat", "examples/digits/test.npz", "images", "-o", &path("i/j/images.npy")]);
    good(["run", DIGITS, "-i", &path("i/j/images.npy"), "-o", &path("k/l/out.npy")]);
    for name in
        ["a/b/out.npz", "c/d/vars/__model__", "e/f/out.pdiparams", "g/h/bias.npy", "k/l/out.npy"]
    {
        assert!(dir.path().join(name).exists(), "{name}");
    }
    // A failed conversion creates nothing.
    bad(["convert", DIGITS, &path("m/n/out.npz")]);
    assert!(!dir.path().join("m").exists());
}

#[test]
fn a_path_with_a_slash_is_a_directory() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name).display().to_string();
    for (format, names) in [
        ("safetensors", &["model.safetensors"][..]),
        ("npz", &["model.npz"]),
        ("paddle", &["inference.pdmodel", "inference.pdiparams"]),
    ] {
        let out = path(&format!("new-{format}/"));
        let to: &[&str] = if format == "paddle" { &[] } else { &["--weights-only"] };
        // Whether or not it exists.
        for _ in 0..2 {
            good(["convert", DIGITS, &out, "--to", format].iter().chain(to));
            let found = files(Path::new(&out));
            let mut expected: Vec<&str> = names.to_vec();
            expected.sort_unstable();
            assert_eq!(found.keys().collect::<Vec<_>>(), expected);
        }
    }
    let npz = path("weights.npz");
    good(["convert", DIGITS, &npz, "--weights-only"]);
    good(["convert", &npz, &path("copy/"), "--to", "same"]);
    assert!(dir.path().join("copy/weights.npz").exists());
}

#[test]
fn reading_commands_accept_several_paths() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (whole, damaged) = (safetensors(dir.path()), path("damaged.safetensors"));
    let bytes = read(Path::new(&whole));
    std::fs::write(&damaged, &bytes[..bytes.len() - 1]).expect("written");

    let outcome = good(["verify", &whole, DIGITS]);
    assert_eq!(outcome.out.matches(": whole\n").count(), 2, "{outcome:?}");
    let outcome = run(["verify", &damaged, &whole]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.out.contains("damaged\n") && outcome.out.contains("whole\n"), "{outcome:?}");
    let outcome = run(["verify", "nothing/here", &damaged, &whole, "--json"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.err.starts_with("error: "), "{outcome:?}");
    let documents: Vec<Value> = serde_json::Deserializer::from_str(&outcome.out)
        .into_iter()
        .map(|it| it.expect("JSON"))
        .collect();
    assert_eq!(documents.len(), 3);
    assert_eq!(documents[0]["path"], "nothing/here");
    assert!(documents[0]["error"]["message"].is_string(), "{}", documents[0]);
    assert_eq!((&documents[1]["path"], &documents[1]["whole"]), (&damaged.into(), &false.into()));
    assert_eq!(
        (&documents[2]["path"], &documents[2]["schema"]),
        (&whole.clone().into(), &1.into())
    );

    let outcome = good(["inspect", &whole, DIGITS]);
    assert_eq!(outcome.out.matches("12 tensors").count(), 2, "{outcome:?}");
    assert_eq!(good(["scan", &whole, "--json"]).out.matches("\"verdict\"").count(), 1);
    let outcome = run(["scan", &whole, DIGITS]);
    assert_eq!(
        outcome.out.matches(" in 1 file").count() + outcome.out.matches(" in 2 files").count(),
        2,
        "{outcome:?}"
    );
}

#[test]
fn every_command_prints_json() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let json = |arguments: &[&str]| -> Value {
        let outcome = run(arguments);
        serde_json::from_str(&outcome.out)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {outcome:?}"))
    };
    let npz = path("out.npz");
    let found = json(&["convert", DIGITS, &npz, "--allow", "program", "--json"]);
    assert_eq!(
        (&found["schema"], &found["to"], &found["files"][0]),
        (&1.into(), &"npz".into(), &npz.clone().into())
    );
    assert_eq!(found["losses"]["program"].as_array().map(Vec::len), Some(1), "{found}");
    let found = json(&["cat", &npz, "fc_0.b_0", "--json"]);
    assert_eq!(found["tensors"][0]["shape"], serde_json::json!([10]));
    assert_eq!(found["tensors"][0]["data"].as_array().map(Vec::len), Some(10));
    let images = path("images.npy");
    good(["cat", "examples/digits/test.npz", "images", "-o", &images]);
    let found = json(&["run", DIGITS, "-i", &images, "--json"]);
    assert_eq!(found["tensors"][0]["name"], "save_infer_model/scale_0.tmp_0");
    let rows = found["tensors"][0]["data"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row.as_array().map(Vec::len) == Some(10)));
    let found = json(&["seal", &npz, "--json"]);
    assert_eq!(
        (&found["schema"], &found["files"], &found["tensors"]),
        (&1.into(), &1.into(), &12.into())
    );
    assert_eq!(json(&["diff", &npz, &npz, "--json"])["same"], true);
    assert_eq!(json(&["recover", &path(""), "--json"])["files"], 0);
    let found = json(&["scan", &npz, "--sarif"]);
    assert_eq!(found["version"], "2.1.0");
    assert!(root().exists());
}

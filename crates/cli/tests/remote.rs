//! Addresses in place of paths: a server on loopback logs what the command requests.

#![expect(clippy::disallowed_methods, reason = "serves golden files")]

#[path = "../../remote/tests/common/mod.rs"]
#[expect(dead_code, reason = "shared with the tests of the store")]
mod server;

use std::path::Path;

use serde_json::Value;

use crate::common::{Outcome, bad, good, read, root, run};
use server::{Logged, Reply, Server};

/// Starts a server of the golden files of formats, at the root.
fn golden() -> Server {
    Server::start(|request: &Logged, _| {
        let path = root().join("crates/formats/tests/golden").join(&request.path[1..]);
        match path.is_file() {
            true => Reply::of(request, &read(&path), "\"1\""),
            false => Reply::status(404),
        }
    })
}

/// Runs the command on addresses, and compares what it counted with the log; returns the outcome and the log.
fn counted(server: &Server, arguments: &[&str]) -> (Outcome, Vec<Logged>) {
    let before = server.log().len();
    let outcome = run([arguments, &["--stats", "--allow-private-addresses"]].concat());
    let log = server.log().split_off(before);
    let sent: u64 = log.iter().map(|request| request.sent).sum();
    let noun = if log.len() == 1 { "request" } else { "requests" };
    let expected = format!("stats: {} {noun}, {sent} bytes received, 0 bytes sent\n", log.len());
    assert!(outcome.err.contains(&expected), "{expected}{outcome:?} {log:#?}");
    (outcome, log)
}

/// Returns the files of a directory of golden files.
fn files(directory: &str, extension: &str) -> Vec<String> {
    let entries = root().join("crates/formats/tests/golden").join(directory);
    let mut names: Vec<String> = lodstone_store::Location::from(entries)
        .list()
        .expect("golden files")
        .into_iter()
        .filter(|entry| Path::new(&entry.name).extension().is_some_and(|it| it == extension))
        .map(|entry| format!("{directory}/{}", entry.name))
        .collect();
    names.sort();
    names
}

#[test]
fn models_at_addresses_are_those_on_disk() {
    let server = golden();
    let paths = [
        files("safetensors", "safetensors"),
        files("onnx", "onnx"),
        files("torch", "pt"),
        files("numpy", "npz"),
        files("numpy", "npy"),
        files("glow", "onnx"),
    ];
    for path in paths.concat() {
        let local = run(["inspect", "--json", &format!("crates/formats/tests/golden/{path}")]);
        let (remote, log) =
            counted(&server, &["inspect", "--json", &server.url(&format!("/{path}"))]);
        assert_eq!(remote.code, local.code, "{path}: {remote:?} {local:?}");
        if local.code != Some(0) {
            continue;
        }
        let [mut local, mut remote]: [Value; 2] =
            [&local, &remote].map(|it| serde_json::from_str(&it.out).expect("JSON"));
        assert_eq!(remote["stats"]["requests"], log.len(), "{path}");
        for document in [&mut local, &mut remote] {
            document
                .as_object_mut()
                .expect("an object")
                .retain(|key, _| key != "path" && key != "stats");
        }
        let names = |document: &Value| document["tensors"].clone();
        assert_eq!(names(&remote), names(&local), "{path}");
        if path.ends_with(".safetensors") {
            assert_eq!(log.len(), 1, "{path}: {log:#?}");
        }
    }
}

#[test]
fn the_graph_of_a_model_with_external_data_is_read_alone() {
    let server = golden();
    let (outcome, log) = counted(&server, &["inspect", &server.url("/onnx/external/one.onnx")]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let graph = log.iter().find(|request| request.path.ends_with("one.onnx")).expect("the graph");
    let all: u64 = log.iter().map(|request| request.sent).sum();
    assert!(all <= graph.sent + 10, "{log:#?}");
}

#[test]
fn tensors_are_printed_and_models_compared() {
    let server = golden();
    let path = files("safetensors", "safetensors").remove(0);
    let url = server.url(&format!("/{path}"));
    let (outcome, _) =
        counted(&server, &["diff", &url, &format!("crates/formats/tests/golden/{path}")]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let (outcome, _) = counted(&server, &["cat", &url, "--index", "0"]);
    let local = good(["cat", &format!("crates/formats/tests/golden/{path}"), "--index", "0"]);
    assert_eq!(outcome.out, local.out);
    let (outcome, _) = counted(&server, &["scan", &url]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let (outcome, _) = counted(&server, &["verify", &url]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn private_addresses_need_permission() {
    let server = golden();
    let error = bad(["inspect", &server.url("/onnx/values.onnx")]);
    assert!(error.contains("127.0.0.1 is not a public address"), "{error}");
    assert!(error.contains("hint: pass --allow-private-addresses"), "{error}");
    assert!(server.log().is_empty());
}

#[test]
fn an_absent_model_is_an_error_after_few_requests() {
    let server = golden();
    let (outcome, log) = counted(&server, &["inspect", &server.url("/onnx/none.onnx")]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.err.contains("no such file"), "{outcome:?}");
    assert!(log.len() <= 40, "{log:#?}");
}

#[test]
fn servers_are_not_written_to() {
    let server = golden();
    let input = "crates/formats/tests/golden/onnx/types/raw.onnx";
    let arguments = ["convert", input, &server.url("/out.onnx"), "--allow-private-addresses"];
    let error = bad(arguments);
    assert!(error.contains("expected an object store"), "{error}");
}

#[test]
fn credentials_in_addresses_are_not_printed() {
    let server = Server::start(|request: &Logged, _| {
        let path = request.path.split('?').next().unwrap_or_default();
        let path = root().join("crates/formats/tests/golden").join(&path[1..]);
        match path.is_file() {
            true => Reply::of(request, &read(&path), "\"1\""),
            false => Reply::status(404),
        }
    });
    let url = |path: &str| {
        let url = server.url(path);
        format!("{}?token=SECRET#SECRET", url.replacen("://", "://SECRET:SECRET@", 1))
    };
    let there = files("safetensors", "safetensors")[0].clone();
    let (there, absent) = (url(&format!("/{there}")), url("/absent.safetensors"));
    let target = crate::common::dir();
    let target = target.path().join("a.npz");
    let target = target.to_str().expect("UTF-8");
    let mut printed = 0;
    for path in [&there, &absent] {
        for arguments in [
            &["inspect", path][..],
            &["inspect", "--json", path],
            &["inspect", "--json", path, path],
            &["verify", path],
            &["verify", "--sealed", path],
            &["verify", "--json", path],
            &["scan", path],
            &["scan", "--json", path],
            &["scan", "--sarif", path],
            &["diff", path, path],
            &["diff", "--json", path, path],
            &["convert", path, target],
            &["convert", "--json", path, target],
            &["checkpoint", "list", path],
            &["checkpoint", "show", "--json", path],
            &["ops", path],
            &["cat", path],
        ] {
            let outcome = run([arguments, &["-v", "--allow-private-addresses"]].concat());
            let all = format!("{outcome:?}");
            assert!(!all.contains("SECRET"), "{arguments:?}: {all}");
            printed += usize::from(all.contains("127.0.0.1"));
        }
    }
    assert!(printed > 20, "{printed}");
}

//! Manifests with false contents: nothing is read outside of their serial, and nothing is restored.

use std::path::Path;

use lodstone_checkpoint::Serial;
use lodstone_model::{AttributeValue, Block};
use lodstone_paddle::checkpoint::{get_checkpoint_loader, restore, restore_saved, verify};
use lodstone_paddle::executor::Scope;
use lodstone_paddle::program::{Form, Operator, save_program};
use lodstone_store::{Progress, checksum};
use serde_json::{Value, json};

use super::common::manager;
use super::training::Training;

/// Writes a manifest with a correct checksum of its own.
fn write(path: &Path, manifest: &Value) {
    let mut text = serde_json::to_vec_pretty(manifest).unwrap();
    text.truncate(text.len() - "\n}".len());
    text.extend_from_slice(b",\n");
    let last = format!("  \"self\": \"{:016x}\"\n}}\n", checksum(&text));
    text.extend_from_slice(last.as_bytes());
    std::fs::write(path, text).unwrap();
}

/// A name, a change of the manifest, and the expected error.
type Lie = (&'static str, fn(&mut Value), &'static str);

const LIES: &[Lie] = &[
    ("another version", |it| it["schema"] = json!(2), "unsupported version"),
    ("another step", |it| it["step"] = json!(7), "the manifest belongs to step 7"),
    ("no step", |it| drop(it.as_object_mut().unwrap().remove("step")), "missing field `step`"),
    ("an unknown container", |it| it["container"] = json!("zip"), "unknown variant `zip`"),
    ("another container", |it| it["container"] = json!("each"), "does not list this file"),
    ("a way out", |it| it["files"][0]["name"] = json!("../../params"), "leads out"),
    ("an absolute name", |it| it["files"][0]["name"] = json!("/etc/passwd"), "leads out"),
    ("another name of a file", |it| it["files"][0]["name"] = json!("./params"), "not normalized"),
    ("a file twice", |it| it["files"][1]["name"] = json!("params"), "twice"),
    ("no loader", |it| it["files"][1]["name"] = json!("other"), "has no loader"),
    ("no files", |it| it["files"] = json!([]), "has no loader"),
    ("a hole", |it| it["files"][0]["parts"][0]["offset"] = json!(1), "do not cover the whole file"),
    ("another size", |it| it["files"][0]["size"] = json!(1), "bytes, not 1"),
    ("no variables", |it| it["variables"] = json!([]), "expected 0 tensors"),
    (
        "a variable more",
        |it| {
            let variable = it["variables"][0].clone();
            it["variables"].as_array_mut().unwrap().push(variable);
        },
        "tensors, as in the manifest",
    ),
    ("another kind", |it| it["variables"][0]["kind"] = json!("selected_rows"), "in record 0"),
];

#[test]
fn false_manifests_are_rejected_and_nothing_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let training = Training::begin();
    let serial = manager(dir.path(), 1).save(1, &training.snapshot()).unwrap().serial;
    let path = serial.path().join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    manifest.as_object_mut().unwrap().remove("self");
    write(&path, &manifest);
    restore(&serial, &mut Scope::default()).unwrap();
    for (lie, tell, answer) in LIES {
        let mut told = manifest.clone();
        tell(&mut told);
        write(&path, &told);
        let mut scope = Scope::default();
        let error = restore(&serial, &mut scope).map(drop).unwrap_err().to_string();
        assert!(error.contains(answer), "{lie}: {error}");
        assert_eq!(scope.names().count(), 0, "{lie}");
        let verified = verify(&serial, &Progress::default());
        assert!(verified.is_err() || verified.is_ok_and(|found| !found.is_empty()), "{lie}");
    }
}

#[test]
fn a_loader_that_may_never_end_is_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let training = Training::begin();
    let serial = manager(dir.path(), 1).save(1, &training.snapshot()).unwrap().serial;
    let mut loader = get_checkpoint_loader(serial.location()).unwrap();
    let goes_on = Operator::new("while").attribute("sub_block", AttributeValue::Block(1));
    loader.blocks[0].ops.insert(0, goes_on.finish().unwrap());
    loader.blocks.push(Block { index: 1, parent: 0, ..Block::default() });
    save_program(&loader, serial.path().join("loader"), Form::Binary).unwrap();
    let bytes = std::fs::read(serial.path().join("loader/__model__")).unwrap();

    let path = serial.path().join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    manifest.as_object_mut().unwrap().remove("self");
    let files = manifest["files"].as_array_mut().unwrap();
    let file = files.iter_mut().find(|file| file["name"] == "loader/__model__").unwrap();
    file["size"] = json!(bytes.len());
    file["parts"] = json!([{
        "offset": 0, "size": bytes.len(), "checksums": [format!("{:016x}", checksum(&bytes))],
    }]);
    write(&path, &manifest);
    assert_eq!(verify(&serial, &Progress::default()).unwrap(), Vec::<String>::new());
    let mut scope = Scope::default();
    let errors = [
        restore(&serial, &mut scope).unwrap_err().to_string(),
        restore_saved(serial.location(), &mut scope).unwrap_err().to_string(),
    ];
    for error in errors {
        assert!(error.contains("loop, which may not end"), "{error}");
    }
}

#[test]
fn an_invalid_manifest_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let training = Training::begin();
    let serial = manager(dir.path(), 1).save(1, &training.snapshot()).unwrap().serial;
    let path = serial.path().join("manifest.json");
    let whole = std::fs::read(&path).unwrap();
    let deep = ["[".repeat(100_000), "]".repeat(100_000)].concat();
    let texts: [&[u8]; 5] = [b"", b"{}", &whole[..whole.len() / 2], deep.as_bytes(), b"\xff\xfe"];
    for text in texts {
        std::fs::write(&path, text).unwrap();
        assert!(restore(&serial, &mut Scope::default()).is_err());
        assert!(verify(&serial, &Progress::default()).is_err());
    }
    write(&path, &json!({ "schema": 1, "metadata": nested(1000) }));
    assert!(serial.manifest().is_err());
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(Serial::named(dir.path(), 1).is_ok_and(|serial| serial.manifest().is_err()));
}

/// Returns lists nested to a depth.
fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
}

//! The written bytes of every golden model in every format: they equal those of the last rewrite.
//!
//! `golden/locks/bytes.txt` has, for each model and format, the first digits of the SHA-256 of all files that its
//! conversions write, including file names and seals; and the same for a checkpoint in each container.
//! `LODSTONE_REWRITE_EXPECTED=1` rewrites it; readers of old files will see every difference.

#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::cases::models;
use lodstone::checkpoint::{Container, Manager, ManagerOptions};
use lodstone::convert::ExternalData;
use lodstone::formats::FORMATS;
use lodstone::model::Programs;
use lodstone::paddle::checkpoint::Contents;
use lodstone::paddle::executor::Scope;
use lodstone::train::open_training;
use lodstone::{ConvertOptions, DType, Loss, Model, OpenOptions, Target, WriteOptions, convert};
use sha2::{Digest, Sha256};

/// Returns the conversions of each model to a format. Those that the format or the model does not support are
/// skipped.
fn ways(format: &str) -> Vec<ConvertOptions> {
    let allow = Loss::ALL.to_vec();
    let plain = ConvertOptions::default()
        .with_to(Some(Target::Format(format.to_owned())))
        .with_allow(allow);
    let written = |write| plain.clone().with_write(write);
    vec![
        plain.clone(),
        plain.clone().with_allow(vec![Loss::Program]),
        plain.clone().with_weights_only(true),
        plain.clone().with_weights_only(true).with_cast(Some(DType::Float16)),
        plain.clone().with_strip_source(true),
        plain.clone().with_opset(Some(21)),
        plain.clone().with_include(vec!["*w*".to_owned()]),
        written(WriteOptions::default().with_seal(true)),
        written(WriteOptions::default().with_align(64)),
        written(WriteOptions::default().with_max_shard_size(Some(1000))),
        written(
            WriteOptions::default().with_external_data(Some(ExternalData::One)).with_seal(true),
        ),
        written(WriteOptions::default().with_external_data(Some(ExternalData::Each))),
    ]
}

/// Returns the options for writing in the original format.
fn same() -> Vec<ConvertOptions> {
    let plain = ConvertOptions::default().with_to(Some(Target::Same));
    let seal = WriteOptions::default().with_seal(true);
    vec![plain.clone(), plain.with_write(seal)]
}

/// Adds all files in a directory by name, recursively.
fn files(dir: &Path, below: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let name = format!("{below}{name}");
        match path.is_dir() {
            true => files(&path, &format!("{name}/"), found),
            false => drop(found.insert(name, std::fs::read(&path).expect("a file"))),
        }
    }
}

/// Creates a directory, in a file system in memory if there is one: thousands of files are written and read, and need
/// not be stored on the disk.
fn scratch() -> tempfile::TempDir {
    let memory = tempfile::tempdir_in("/dev/shm");
    memory.or_else(|_| tempfile::tempdir()).expect("a directory")
}

/// Returns the recorded form of a digest.
fn shown(all: Sha256) -> String {
    let digest: [u8; 32] = all.finalize().into();
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn update(all: &mut Sha256, found: BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in found {
        all.update(format!("{name} {}\n", bytes.len()));
        all.update(bytes);
    }
}

/// Returns the digest of some conversions; `None` if none succeeds.
fn digest(model: &Model, extension: &str, ways: Vec<ConvertOptions>) -> Option<String> {
    let mut all = Sha256::new();
    let mut is_written = false;
    for (number, options) in ways.iter().enumerate() {
        let dir = scratch();
        let out = dir.path().join("out").with_extension(extension);
        let result = convert(model.clone(), &out, options);
        let mut found = BTreeMap::new();
        files(dir.path(), "", &mut found);
        all.update(format!("{number} {}\n", found.len()));
        match result {
            Ok(_) => is_written = true,
            Err(_) => assert!(found.is_empty(), "{options:?}"),
        }
        update(&mut all, found);
    }
    is_written.then(|| shown(all))
}

/// Returns the digest of a checkpoint of a model in training, in a container. The processor in its manifest, and with
/// it the checksum of the manifest, are excluded.
fn checkpoint(container: Container) -> String {
    let training = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/training");
    let options = OpenOptions::default();
    let model = open_training(&training, None, &options).expect("a model");
    let startup = model.programs.get(Programs::STARTUP).expect("a program");
    let main = model.main().expect("a program");
    let scope = Scope::of(&model).expect("variables");
    let contents = Contents::of(main, startup, None).expect("contents");
    let snapshot = contents.snapshot(&scope).expect("values").with("epoch", 2);
    let dir = scratch();
    let options = ManagerOptions::default().with_container(container);
    let mut manager = Manager::open(dir.path(), options).expect("a manager");
    let serial = manager.save(7, &snapshot).expect("saved").serial;
    let mut found = BTreeMap::new();
    files(serial.path(), "", &mut found);
    let manifest = found.remove("manifest.json").expect("a manifest");
    let manifest = String::from_utf8(manifest).expect("UTF-8");
    let (before, rest) = manifest.split_once("\"numerics\": {").expect("numerics");
    let (_, after) = rest.split_once('}').expect("their end");
    let (after, _) = after.split_once("\"self\": ").expect("a checksum");
    found.insert("manifest.json".to_owned(), format!("{before}{after}").into_bytes());
    let mut all = Sha256::new();
    update(&mut all, found);
    shown(all)
}

#[test]
fn written_bytes_equal_the_recorded_ones() {
    let mut lines = "a checkpoint\n".to_owned();
    for container in
        [Container::Combined, Container::Each, Container::Sized, Container::Safetensors]
    {
        writeln!(lines, "  {} {container:?}", checkpoint(container)).expect("text");
    }
    for (name, model) in models() {
        writeln!(lines, "{name}").expect("text");
        let formats = FORMATS.iter().map(|it| (it.name, it.extension, ways(it.name)));
        let own = FORMATS.iter().find(|format| format.name == model.format);
        let own = own.map_or("", |format| format.extension);
        for (format, extension, ways) in formats.chain([("same", own, same())]) {
            if let Some(digest) = digest(&model, extension, ways) {
                writeln!(lines, "  {digest} {format}").expect("text");
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/locks/bytes.txt");
    if std::env::var_os("LODSTONE_REWRITE_EXPECTED").is_some() {
        std::fs::write(&path, &lines).expect("written");
    }
    let expected = std::fs::read_to_string(&path).expect("the lines");
    let (is, was) = (by_model(&lines), by_model(&expected));
    let others: Vec<_> = is.symmetric_difference(&was).collect();
    assert!(others.is_empty(), "written otherwise than it was: {others:#?}");
}

/// Returns the lines with the model of each.
fn by_model(lines: &str) -> BTreeSet<(&str, &str)> {
    let mut model = "";
    let mut all = BTreeSet::new();
    for line in lines.lines() {
        match line.strip_prefix("  ") {
            Some(format) => drop(all.insert((model, format))),
            None => model = line,
        }
    }
    all
}

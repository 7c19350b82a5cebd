//! Models of several files: the remains of an interrupted write are never read as a model.
#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use lodstone::store::{Error as StoreError, StepKind};
use lodstone::{
    ConvertOptions, Loss, Model, Progress, Target, WriteOptions, convert, open, recover,
};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits")
}

/// A model, its format, and the names by which it is opened.
struct Case {
    source: &'static str,
    format: &'static str,
    name: &'static str,
    max_shard_size: Option<u64>,
    opened: &'static [&'static str],
}

const CASES: [Case; 4] = [
    Case {
        source: "paddle/inference.pdmodel",
        format: "paddle",
        name: "digits",
        max_shard_size: None,
        opened: &["digits", "digits.pdmodel", ""],
    },
    Case {
        source: "paddle",
        format: "paddle-vars",
        name: "",
        max_shard_size: None,
        opened: &["", "__model__"],
    },
    Case {
        source: "mxnet",
        format: "mxnet",
        name: "digits",
        max_shard_size: None,
        opened: &["digits", "digits-symbol.json", ""],
    },
    Case {
        source: "paddle",
        format: "safetensors",
        name: "m.safetensors",
        max_shard_size: Some(9000),
        opened: &["m.safetensors.index.json", ""],
    },
];

/// Writes the model, or one with other elements, to a directory.
fn write(case: &Case, other: bool, directory: &Path, progress: Progress) -> lodstone::Result<()> {
    let mut model = open(examples().join(case.source))?;
    for parameter in model.parameters.iter_mut().filter(|_| other) {
        let mut bytes = parameter.tensor.data.bytes()?.to_vec();
        bytes.iter_mut().for_each(|byte| *byte ^= 1);
        parameter.tensor.data = bytes.into();
    }
    let max_shard_size = case.max_shard_size;
    let write = WriteOptions::default().with_progress(progress).with_max_shard_size(max_shard_size);
    let (to, allow) = (Some(Target::Format(case.format.to_owned())), Loss::ALL.to_vec());
    let options = ConvertOptions::default().with_to(to).with_write(write).with_allow(allow);
    convert(model, directory.join(case.name), &options).map(drop)
}

fn values(path: &Path) -> Vec<(String, Vec<u8>)> {
    let Model { parameters, .. } = open(path).expect("a model");
    let value = |tensor: &lodstone::Tensor| tensor.data.bytes().expect("bytes").to_vec();
    let mut values: Vec<_> =
        parameters.iter().map(|found| (found.name.clone(), value(&found.tensor))).collect();
    values.sort();
    values
}

/// Stops when `after` files are in place; returns whether there were more.
fn interrupt(case: &Case, directory: &Path, after: usize) -> bool {
    let replaced = AtomicUsize::new(0);
    let progress = Progress::watched(move |step| {
        let stop =
            step.kind == StepKind::Replace && replaced.fetch_add(1, Ordering::Relaxed) == after;
        if stop { Err(StoreError::Cancelled) } else { Ok(()) }
    });
    write(case, false, directory, progress).is_err()
}

#[test]
fn a_model_of_several_files_is_rejected_until_its_write_is_finished() {
    for case in &CASES {
        for is_there in [false, true] {
            let mut interrupted = 0;
            loop {
                let directory = tempfile::tempdir().expect("a directory");
                let root = directory.path();
                std::fs::write(root.join("README.md"), "about").expect("written");
                if is_there {
                    write(case, true, root, Progress::default()).expect("written");
                }
                if !interrupt(case, root, interrupted) {
                    break;
                }
                for name in case.opened {
                    let what = format!("{} as `{name}`, after {interrupted}", case.format);
                    let error = open(root.join(name)).map(|_| what.clone()).expect_err(&what);
                    assert!(error.to_string().contains("interrupted write"), "{what}: {error}");
                }
                recover(root).expect("recovered");
                let expected = values(&examples().join(case.source));
                assert_eq!(values(&root.join(case.opened[0])), expected, "{}", case.format);
                interrupted += 1;
            }
            assert!(interrupted > 1, "{}", case.format);
        }
    }
}

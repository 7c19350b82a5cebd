//! Sources that change during a conversion: the written model is exactly the opened one, or nothing is written.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests change files while they are read"
)]

use std::fs::OpenOptions as Open;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lodstone::store::{Error as StoreError, StepKind};
use lodstone::{
    Blob, ConvertOptions, DType, Model, OpenOptions, Parameter, Progress, Target, Tensor,
    WriteOptions, convert, open, open_with,
};

/// Returns a small and a large tensor: one is copied through a buffer, the other inside the kernel.
fn model() -> Model {
    let tensor = |name: &str, count: u64| {
        let bytes: Vec<u8> = (0..count).flat_map(u64::to_le_bytes).collect();
        let tensor = Tensor::dense(DType::Int64, vec![count], Blob::memory(bytes));
        Parameter { name: name.to_owned(), tensor }
    };
    Model { parameters: vec![tensor("a", 100_000), tensor("b", 100)], ..Model::default() }
}

fn convert_to(model: Model, out: &Path, to: &str, progress: Progress) -> lodstone::Result<()> {
    let write = WriteOptions::default().with_progress(progress);
    let to = Some(Target::Format(to.to_owned()));
    convert(model, out, &ConvertOptions::default().with_to(to).with_write(write)).map(drop)
}

fn same(one: &Model, other: &Model) -> bool {
    let values = |model: &Model| -> Vec<_> {
        let value = |parameter: &Parameter| {
            (parameter.name.clone(), parameter.tensor.data.bytes().expect("bytes"))
        };
        model.parameters.iter().map(value).collect()
    };
    values(one) == values(other)
}

type Change = fn(&Path);

const CHANGES: [(&str, Change); 2] = [
    ("shrinks", |path| {
        Open::new().write(true).open(path).and_then(|file| file.set_len(1000)).expect("shrunk");
    }),
    ("is modified", |path| {
        let file = Open::new().write(true).open(path).expect("a file");
        file.write_all_at(b"other bytes", 5000).expect("modified");
    }),
];

/// The targets: the format, the name, and whether a file is overwritten.
const TARGETS: [(&str, &str, bool); 3] =
    [("npz", "out.npz", true), ("paddle-vars", "out", true), ("paddle-vars", "new", false)];

#[test]
fn a_source_that_changes_in_any_step_is_an_error_or_was_already_read() {
    for target in TARGETS {
        for mmap in [true, false] {
            for change in CHANGES {
                let scratch = tempfile::tempdir().expect("a directory");
                let ends: Vec<End> = (0..)
                    .map(|step| change_in(scratch.path(), target, mmap, change, step))
                    .take_while(|end| *end != End::Unchanged)
                    .collect();
                let refused = ends.iter().filter(|end| **end == End::Refused).count();
                assert!(refused > 3, "{target:?}, {}: {ends:?}", change.0);
            }
        }
    }
}

/// The outcome of a conversion.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The conversion had fewer steps.
    Unchanged,
    /// The source changed after all of it had been read.
    Written,
    Refused,
}

/// Converts a source that changes in a step, counted from 0.
fn change_in(
    scratch: &Path,
    (format, name, is_there): (&str, &str, bool),
    mmap: bool,
    (what, change): (&str, Change),
    last: usize,
) -> End {
    let (source, out) = (scratch.join("source.safetensors"), scratch.join(name));
    convert_to(model(), &source, "safetensors", Progress::default()).expect("written");
    let _ = std::fs::remove_dir_all(&out);
    if is_there {
        let mut old = model();
        old.parameters.pop();
        convert_to(old, &out, format, Progress::default()).expect("written");
    }
    // Longer than the clock resolution of file systems.
    std::thread::sleep(Duration::from_millis(10));
    let options = OpenOptions::default().with_mmap(mmap);
    let opened = open_with(&source, &options).expect("a model");
    let steps = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&steps);
    let progress = Progress::watched(move |step| {
        let mut seen = seen.lock().expect("no panic");
        if seen.len() == last {
            change(&source);
        }
        seen.push(step.kind);
        Ok(())
    });
    let result = convert_to(opened, &out, format, progress);
    let step = steps.lock().expect("no panic").get(last).copied();
    let case = format!("{format}, mmap {mmap}, {what} in step {last}, {step:?}: {result:?}");
    let hidden = std::fs::read_dir(scratch).expect("a directory").find(|entry| {
        let name = entry.as_ref().expect("an entry").file_name();
        name.to_string_lossy().starts_with('.')
    });
    assert!(hidden.is_none(), "{case}: {hidden:?}");
    let Err(error) = result else {
        assert!(
            !matches!(step, Some(StepKind::Stage | StepKind::Create | StepKind::Write)),
            "{case}"
        );
        assert!(same(&open(&out).expect("a model"), &model()), "{case}");
        return if step.is_none() { End::Unchanged } else { End::Written };
    };
    assert!(is_changed(&error), "{case}");
    match is_there {
        true => assert_eq!(open(&out).expect("the old model").parameters.len(), 1, "{case}"),
        false => assert!(!out.exists(), "{case}"),
    }
    End::Refused
}

fn is_changed(error: &lodstone::Error) -> bool {
    let lodstone::Error::Format(lodstone::formats::Error::Store(error)) = error else {
        return false;
    };
    matches!(error, StoreError::Changed { .. })
}

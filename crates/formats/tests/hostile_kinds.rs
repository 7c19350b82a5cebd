//! Every kind of hostile file in every format: an error with the reason, within limits of
//! memory and time. `support/generate` creates the files.

#![expect(clippy::disallowed_methods, reason = "tests create files directly")]
#![expect(clippy::print_stdout, reason = "reports what was tested")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use crate::GENERATORS;
use crate::generate::{Answer, Hostile, MALFORMED, PATHS};
use crate::support::counting::peak_of;
use lodstone_formats::{Error, FORMATS, Format, OpenOptions, WriteOptions, named};
use lodstone_model::{DType, Model, Parameter, Tensor};
use lodstone_store::{Blob, Error as StoreError, Flaw, Location};

/// The timeout per file.
const LONGEST: Duration = Duration::from_secs(20);

#[test]
fn every_format_is_there() {
    let mut there: Vec<&str> = GENERATORS.iter().map(|(format, _)| *format).collect();
    assert_eq!(there.pop(), Some("seal"));
    let formats: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    assert_eq!(there, formats);
    let is_described = |format: &&Format| !format.title.is_empty() && !format.framework.is_empty();
    assert!(FORMATS.iter().all(is_described));
}

#[test]
fn every_hostile_file_is_rejected_with_its_reason() {
    let mut wrong = Vec::new();
    for (format, generate) in GENERATORS {
        let mut counts = BTreeMap::new();
        let all = generate();
        for hostile in &all {
            *counts.entry(hostile.kind).or_insert(0) += 1;
        }
        let (say, hear) = mpsc::channel();
        std::thread::spawn(move || {
            let scratch = tempfile::tempdir().expect("a directory");
            std::fs::write(scratch.path().join("secret"), b"secret").expect("a file");
            for hostile in all {
                let what = format!("{format}, {:?}, {}", hostile.kind, cut(&hostile.what));
                say.send((what, None)).expect("somebody hears");
                let (what, why) = judge(format, &hostile, scratch.path());
                say.send((what, why)).expect("somebody hears");
            }
        });
        let mut last = String::new();
        loop {
            match hear.recv_timeout(LONGEST) {
                Ok((what, None)) => last = what,
                Ok((what, Some(why))) => wrong.push(format!("{format}, {what}: {why}")),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("{last}: hangs"),
            }
        }
        println!("{format}: {counts:?}");
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn cut(text: &str) -> String {
    text.chars().take(120).collect()
}

/// Describes what is wrong with the result for a file, if anything is.
fn judge(format: &str, hostile: &Hostile, scratch: &Path) -> (String, Option<String>) {
    let inside = scratch.join("model");
    if inside.exists() {
        std::fs::remove_dir_all(&inside).expect("removed");
    }
    std::fs::create_dir(&inside).expect("a directory");
    let mut size = 0;
    for (name, bytes) in &hostile.files {
        let path = inside.join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, bytes).expect("a file");
        size += bytes.len();
    }
    for (name, target) in &hostile.links {
        std::os::unix::fs::symlink(target, inside.join(name)).expect("a link");
    }
    let path = inside.join(hostile.open);
    let read = named(format).map_or(named("npy").expect("a format").read, |format| format.read);
    let (result, peak) = peak_of(|| {
        catch_unwind(AssertUnwindSafe(|| {
            read(&Location::from(&path), &OpenOptions::default()).and_then(touch)
        }))
    });
    let what = format!("{:?}, {}", hostile.kind, cut(&hostile.what));
    let Ok(result) = result else { return (what, Some("panics".to_owned())) };
    let structure = named(format).and_then(|format| format.structure);
    let (factor, constant) =
        structure.map_or((200, 4 << 20), |it| (it.memory_factor, it.memory_constant));
    // File names and handles of auxiliary files count too; and an index is kept with its contents.
    let allowed = size * factor.max(8) + constant + (64 << 10);
    if peak > allowed {
        return (what, Some(format!("held {peak} bytes for {size}")));
    }
    let why = match (&hostile.answer, result) {
        (Answer::Readable(_) | Answer::Perhaps(_), Ok(())) => None,
        (Answer::Perhaps(reason), Err(error)) => {
            let why = unlike(&error, MALFORMED, &[], size);
            why.map(|why| format!("{why}, though {reason}"))
        }
        (Answer::Readable(reason), Err(error)) => {
            Some(format!("refused, though {reason}: {}", cut(&error.to_string())))
        }
        (Answer::Refused(..), Ok(())) => Some("taken for a model".to_owned()),
        (Answer::Refused(kinds, words), Err(error)) => unlike(&error, kinds, words, size),
    };
    (what, why)
}

/// Reads the first elements of each tensor, which may be computed.
fn touch(model: Model) -> Result<(), Error> {
    for blob in model.parameters.iter().flat_map(|parameter| parameter.tensor.blobs()) {
        let size = usize::try_from(blob.len().min(64 << 10)).expect("small");
        blob.read_at(0, &mut vec![0; size])?;
    }
    Ok(())
}

/// Describes how an error differs from these kinds and words.
fn unlike(error: &Error, kinds: &[&str], words: &[String], size: usize) -> Option<String> {
    let (kind, message) = (kind_of(error), error.to_string());
    let short = message.chars().take(300).collect::<String>();
    if !kinds.contains(&kind) {
        return Some(format!("{kind}, not {kinds:?}: {short}"));
    }
    if let Some(word) = words.iter().find(|word| !message.contains(*word)) {
        return Some(format!("no {word:?}: {short}"));
    }
    if let Some((offset, expected, found)) = place(error)
        && (offset > size as u64 || expected.is_empty() || found.is_empty())
    {
        return Some(format!("not in the file, or says nothing: {short}"));
    }
    None
}

fn inner(error: &Error) -> &Error {
    match error {
        Error::Inside { source, .. } | Error::InRecord { source, .. } => inner(source),
        error => error,
    }
}

/// Returns the name of the innermost variant.
fn kind_of(error: &Error) -> &'static str {
    match inner(error) {
        Error::Store(error) => match error {
            StoreError::Malformed { .. } => "Malformed",
            StoreError::Limit { .. } => "Limit",
            StoreError::OutOfRange { .. } => "OutOfRange",
            StoreError::NotAFile { .. } => "NotAFile",
            StoreError::Escapes { .. } => "Escapes",
            StoreError::Damaged { .. } => "Damaged",
            StoreError::Resized { .. } => "Resized",
            StoreError::Unusable { flaw: Flaw::Json(_), .. } => "Json",
            StoreError::Unusable { .. } => "Seal",
            _ => "another of the store",
        },
        Error::Json { .. } => "Json",
        Error::NoModel { .. } => "NoModel",
        Error::Mismatch { .. } => "Mismatch",
        Error::Unsupported { .. } => "Unsupported",
        _ => "another",
    }
}

fn place(error: &Error) -> Option<(u64, &str, &str)> {
    match inner(error) {
        Error::Store(StoreError::Malformed { offset, expected, found, .. }) => {
            Some((*offset, expected, found))
        }
        _ => None,
    }
}

#[test]
fn names_that_lead_out_are_not_written_either() {
    let scratch = tempfile::tempdir().expect("a directory");
    let reserved = [
        "lodstone.seal",
        "sub/lodstone.seal",
        "lodstone.seal/x",
        ".x.1-1.lodstone",
        ".x.1-1.lodstone/x",
    ];
    let reserved = reserved.map(|name| (name, "a reserved name"));
    for (name, why) in PATHS.iter().copied().chain(reserved) {
        let tensor = Tensor::dense(DType::Uint8, vec![1], Blob::memory(vec![0]));
        let parameters = vec![Parameter { name: name.to_owned(), tensor }];
        let model = Model { parameters, ..Model::default() };
        let format = named("paddle-vars").expect("a format");
        let out = scratch.path().join("out/model");
        std::fs::create_dir_all(out.parent().expect("a directory")).expect("a directory");
        let error = format.write(&model, &out, &WriteOptions::default()).expect_err(name);
        let message = error.to_string();
        assert!(message.contains(why) || name.is_empty(), "{name}: {message}");
        assert_eq!(found_below(scratch.path()), 1, "{name}");
    }
}

/// Returns the number of entries below a directory.
fn found_below(path: &Path) -> usize {
    let entries = std::fs::read_dir(path).expect("a directory");
    entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            1 + if path.is_dir() { found_below(&path) } else { 0 }
        })
        .sum()
}

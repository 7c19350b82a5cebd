//! The checks of every fuzzer input, and of every input that is kept: everything that a user does with a file, within
//! the limits of time and memory of the other suites.
//!
//! An input is the file of a target. If several files belong together, it is all of them, separated by
//! [`MARK`].
#![allow(dead_code, unreachable_pub, reason = "the fuzzer and the replay use a part each")]
#![allow(clippy::disallowed_methods, reason = "tests make files directly")]

use std::fs;
use std::path::{Path, PathBuf};

use lodstone::Location;
use lodstone::checkpoint::Serial;
use lodstone::paddle::checkpoint::{RestoreOptions, restore, restore_for};
use lodstone::paddle::executor::Scope;
use lodstone::{
    Blob, ConvertOptions, Dialect, DiffOptions, Error, FORMATS, InspectOptions, Kind, Loss, Model,
    OpenOptions, Parameter, Program, Progress, ScanOptions, Target as To, convert, diff, inspect,
    open_with, scan, verify, verify_serial, write_text,
};
use lodstone_formats::{Effort, Format, encoding::pickle, named, pickles};
use lodstone_model::{Dim, Limits, Tensor};
use serde_json::{Value, json};

use crate::support::counting::peak_of;
use crate::support::damage::Subject;
use crate::support::subjects::{file_names, subjects};

/// A fuzz target.
pub struct Target {
    /// The name, also of its folder of inputs.
    pub name: &'static str,
    /// The names of the files of an input.
    pub files: Vec<String>,
    /// The file that is opened, if it is not the only one; the directory if there are several.
    pub open: Option<&'static str>,
    /// Formats whose readers are called, whatever the file looks like.
    pub formats: Vec<&'static Format>,
    /// The formats that the suite of damaged files reads the first file as, in memory.
    pub subjects: Vec<Subject>,
    /// A function that changes an input before it is used, to make its checksums valid.
    pub repair: fn(&mut Vec<u8>),
    /// Whether its files are searched for pickles at any offset, which takes long.
    pub scans: bool,
    /// Whether it is a checkpoint, which is restored rather than opened.
    pub restores: bool,
    /// Whether its program is exported to ONNX, with parameters of zeros.
    pub exports: bool,
}

/// The separator of the files of an input.
pub const MARK: &[u8] = b"\n--8<--\n";

/// Returns all targets: one for each format, and others.
pub fn targets() -> Vec<Target> {
    let mut targets = others();
    for format in FORMATS {
        if targets.iter().all(|target| target.name != format.name) {
            targets.push(Target::of(format.name));
        }
    }
    targets
}

impl Target {
    /// Returns a target with these files.
    fn new(name: &'static str, files: &[&str]) -> Self {
        Self {
            name,
            files: files.iter().map(|file| (*file).to_owned()).collect(),
            open: None,
            formats: Vec::new(),
            subjects: Vec::new(),
            repair: |_| {},
            scans: false,
            restores: false,
            exports: false,
        }
    }

    /// Returns the target of a format. Other formats of single files with the same byte map read
    /// its files, too.
    fn of(name: &'static str) -> Self {
        let own = named(name).expect("a format");
        let bytes = |format: &Format| {
            let is_single = format.structure.is_some() && format.files.len() < 2;
            format.byte_maps.first().filter(|_| is_single).map(|map| map.what)
        };
        let is_same = |format: &Format| bytes(format).is_some_and(|_| bytes(format) == bytes(own));
        let formats = FORMATS.iter().copied();
        let formats = formats.filter(|format| format.name == name || is_same(format)).collect();
        let files = file_names(own);
        Self { files, ..Self::new(name, &[]) }.read_as(formats)
    }

    /// Adds formats whose readers are called.
    fn read_as(mut self, formats: Vec<&'static Format>) -> Self {
        let names = formats.iter().map(|format| format.name);
        self.subjects.extend(names.filter_map(|name| subjects().find(|it| it.format.name == name)));
        self.formats.extend(formats);
        self
    }

    /// Returns the path that is opened.
    fn opened(&self, directory: &Path) -> PathBuf {
        match (self.open, self.files.as_slice()) {
            (Some(name), _) => directory.join(name),
            (None, [file]) => directory.join(file),
            (None, _) => directory.to_owned(),
        }
    }
}

/// Returns the targets that are not formats, or do more than those of their formats.
fn others() -> Vec<Target> {
    let formats = |names: &[&str]| names.iter().filter_map(|name| named(name)).collect::<Vec<_>>();
    vec![
        Target { exports: true, ..Target::new("paddle-export", &["model.pdmodel"]) },
        Target { exports: true, ..Target::new("paddle-pir-export", &["model.json"]) },
        Target { exports: true, ..Target::new("torch-export", &["model.pt2"]) },
        Target { scans: true, ..Target::of("paddle-pickle") },
        Target { scans: true, ..Target::new("pickle-scan", &["model.bin"]) },
        Target { scans: true, repair: sum_headers, ..Target::new("archive", &["model.pt"]) },
        Target::of("npz").read_as(formats(&["mxnet-npz"])),
        Target::of("caffe2-blob").read_as(formats(&["caffe2"])),
        Target {
            formats: formats(&["safetensors"]),
            ..Target::new(
                "safetensors-index",
                &[
                    "model.safetensors.index.json",
                    "model-00001-of-00003.safetensors",
                    "model-00002-of-00003.safetensors",
                    "model-00003-of-00003.safetensors",
                ],
            )
        },
        Target {
            open: Some("one.onnx"),
            formats: formats(&["onnx"]),
            ..Target::new("onnx-external", &["one.onnx", "one.data"])
        },
        Target {
            open: Some("model.npy"),
            formats: formats(&["npy"]),
            repair: sum_seal,
            ..Target::new("seal", &["lodstone.seal", "model.npy"])
        },
        Target {
            open: Some("step/model.safetensors"),
            formats: formats(&["safetensors"]),
            repair: sum_seal,
            ..Target::new(
                "chunks",
                &[
                    "step/model.safetensors.chunks",
                    "chunks/8a/8a3987d595b41f9f974b60643f327036646c42dd328a844ae37a2b1d8c840fa2",
                    "chunks/52/52cbefe71c16be834620677ed77e92940e4a9a4501964df8231bd4be6dd02ac0",
                ],
            )
        },
        Target {
            repair: sum_manifest,
            restores: true,
            ..Target::new(
                "checkpoint",
                &[
                    "step-00000003/manifest.json",
                    "step-00000003/params",
                    "step-00000003/loader/__model__",
                ],
            )
        },
    ]
}

/// The maximum memory while a model is opened, listed or written, as a multiple of its bytes, since programs exist
/// several times then, and as text ...
const FACTOR: usize = 500;

/// ... and chunks that are read at once.
const CONSTANT: usize = 16 << 20;

/// The additional memory of a scan: an archive in an archive is inflated, up to a limit.
const INFLATED: usize = 768 << 20;

/// Does with an input what a user does with a file.
///
/// # Panics
/// Panics if a result or its cost is wrong.
pub fn check(target: &Target, input: &[u8]) {
    let mut input = input.to_vec();
    (target.repair)(&mut input);
    let first = split(&input, target.files.len()).next().unwrap_or_default();
    for subject in &target.subjects {
        subject.takes(first, target.name);
    }
    if target.scans {
        check_scan(target, &input);
    }
    with_scratch(|scratch| {
        let directory = scratch.join("in");
        let mut files = split(&input, target.files.len());
        for name in &target.files {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, files.next().unwrap_or_default()).expect("a file");
        }
        if target.restores {
            return use_checkpoint(&directory, input.len());
        }
        let path = target.opened(&directory);
        if target.exports {
            return export(&path, &scratch.join("out"), input.len());
        }
        use_file(target, &path, &scratch.join("out"), input.len());
    });
}

/// Returns the files of an input, at most `most`.
fn split(input: &[u8], most: usize) -> impl Iterator<Item = &[u8]> {
    let (mut rest, mut left) = (Some(input), most);
    std::iter::from_fn(move || {
        let here = rest?;
        left -= 1;
        let end = here.windows(MARK.len()).position(|window| window == MARK);
        let end = end.filter(|_| left > 0);
        rest = end.and_then(|end| here.get(end + MARK.len()..));
        here.get(..end.unwrap_or(here.len()))
    })
}

/// Returns the result of `work`, which must not use more memory than an input of `bytes` bytes justifies.
fn bounded<T>(what: &str, bytes: usize, work: impl FnOnce() -> T) -> T {
    let (result, peak) = peak_of(work);
    let allowed = bytes * FACTOR + CONSTANT + if what == "scan" { INFLATED } else { 0 };
    assert!(peak <= allowed, "{what} held {peak} bytes for {bytes}");
    result
}

/// Checks that findings of a scan are located in the file, and that its cost is proportional to the file.
fn check_scan(target: &Target, input: &[u8]) {
    let (blob, limits) = (Blob::memory(input.to_vec()), Limits::default());
    let (findings, peak) = peak_of(|| pickle::scan(&blob, &limits));
    assert!(peak <= input.len() * 200 + (4 << 20), "a scan held {peak} for {}", input.len());
    for found in findings.expect("a scan of memory") {
        assert!(found.offset < input.len() as u64, "{found:?}");
        assert!(found.arguments.len() < 2000, "{found:?}");
    }
    pickle::scan_calls(&blob, &limits);
    let path = Path::new(&target.files[0]);
    let (found, peak) =
        peak_of(|| pickles(&Location::from(path), &blob, &limits, &mut Effort::default()));
    assert!(peak <= input.len() * 200 + INFLATED, "pickles held {peak} for {}", input.len());
    drop(found);
}

fn use_file(target: &Target, path: &Path, out: &Path, bytes: usize) {
    let options = OpenOptions::default();
    let mut models = Vec::new();
    match bounded("open", bytes, || open_with(path, &options)) {
        Ok(model) => models.push(model),
        Err(error) => check_message(&error),
    }
    for format in &target.formats {
        match bounded(format.name, bytes, || (format.read)(&Location::from(path), &options)) {
            Ok(model) if models.iter().any(|known| known.format == model.format) => {}
            Ok(model) => models.push(model),
            Err(error) => check_message(&error.into()),
        }
    }
    if let Ok(found) = bounded("verify", bytes, || verify(path, &options, &Progress::default())) {
        serde_json::to_string(&found).expect("JSON");
    }
    if target.scans || !models.is_empty() {
        let options = ScanOptions::default().with_open(options);
        match bounded("scan", bytes, || scan(path, &options)) {
            Ok(found) => drop(serde_json::to_string(&found).expect("JSON")),
            Err(error) => check_message(&error),
        }
    }
    for model in models {
        bounded("read", bytes, || read(&model));
        bounded("same", bytes, || write_back(&model, path, out));
        bounded("convert", bytes, || write_as_another(&model, path, out));
    }
}

/// Exports a program, and checks that the result is valid and can be opened.
fn export(path: &Path, out: &Path, bytes: usize) {
    let Ok(mut model) = open_with(path, &OpenOptions::default()) else { return };
    let Some(program) = model.main() else { return };
    let mut parameters = Vec::new();
    for var in program.vars().filter(|var| var.persistable) {
        let Some(declared) = var.value.tensor_type() else { continue };
        let known = |dim: &Dim| match dim {
            Dim::Known(size) => Some(*size),
            _ => None,
        };
        let dims = declared.shape.iter().flatten().map(known).collect::<Option<Vec<u64>>>();
        let Some(dims) = dims.filter(|_| parameters.len() < MAX_PARAMETERS) else { continue };
        let size = declared.dtype.size_of(&dims).filter(|size| *size <= READ);
        let Some(size) = size.and_then(|size| usize::try_from(size).ok()) else { continue };
        let tensor = Tensor::dense(declared.dtype, dims, Blob::memory(vec![0; size]));
        if model.parameters.iter().all(|parameter| parameter.name != var.name) {
            parameters.push(Parameter { name: var.name.clone(), tensor });
        }
    }
    model.parameters.extend(parameters);
    let target = out.join("model.onnx");
    let options = ConvertOptions::default().with_to(Some(To::Format("onnx".to_owned())));
    let options = options.with_allow(Loss::ALL.to_vec());
    let bytes = bytes + MAX_PARAMETERS * usize::try_from(READ).expect("small") / FACTOR;
    match bounded("export", bytes, || convert(model, &target, &options)) {
        Ok(_) => drop(open_with(&target, &OpenOptions::default()).expect("what was written")),
        Err(error) => check_message(&error),
    }
    empty(out);
}

/// The maximum number of parameters that an exported program gets.
const MAX_PARAMETERS: usize = 64;

/// The maximum size of the variables of a restored checkpoint, in bytes.
const RESTORED: u64 = 16 << 20;

/// Checks that a checkpoint is either whole and restored, or rejected completely.
fn use_checkpoint(directory: &Path, bytes: usize) {
    let Ok(serial) = Serial::find(directory, None) else { return };
    let check_message = |error: Error| check_message(&error);
    let found = bounded("verify", bytes, || verify_serial(&serial, &Progress::default()));
    // A file that is not needed may be missing.
    let is_away = |damage: &String| damage.ends_with("does not exist");
    let is_whole = found.as_ref().is_ok_and(|found| found.iter().all(is_away));
    found.err().map(check_message);
    let mut scope = Scope::default().with_memory(RESTORED);
    match bounded("restore", bytes, || Ok(restore(&serial, &mut scope)?)) {
        Ok(_) => assert!(is_whole),
        Err(error) => {
            check_message(error);
            assert_eq!(scope.names().count(), 0);
        }
    }
    let none = Program::new(Dialect::Paddle);
    let partial = RestoreOptions::default().with_partial(true);
    bounded("fit", bytes, || Ok(restore_for(&serial, &none, &mut scope, &partial)?))
        .err()
        .map(check_message);
}

/// Checks that an error has a message, but does not contain the whole file.
fn check_message(error: &Error) {
    let message = error.to_string();
    assert!(!message.is_empty());
    assert!(message.len() < 16 << 10, "{} bytes: {}", message.len(), &message[..1000]);
}

/// The maximum size of a tensor that is read, in bytes.
const READ: u64 = 64 << 10;

fn is_small(model: &Model) -> bool {
    let blobs = model.parameters.iter().flat_map(|parameter| parameter.tensor.blobs());
    blobs.map(Blob::len).fold(0, u64::saturating_add) <= 16 * READ
}

fn read(model: &Model) {
    let options = InspectOptions::default().with_hash(is_small(model)).with_operators(true);
    if let Ok(found) = inspect(model, &options) {
        serde_json::to_string(&found).expect("JSON");
    }
    for parameter in &model.parameters {
        for blob in parameter.tensor.blobs() {
            let size = usize::try_from(blob.len().min(READ)).expect("small");
            let _ = blob.read_at(0, &mut vec![0; size]);
            let _ = blob.read_at(blob.len() - size as u64, &mut vec![0; size]);
        }
        let small = parameter.tensor.blobs().all(|blob| blob.len() <= READ);
        if small && let Err(error) = write_text(&parameter.tensor, &mut std::io::sink()) {
            check_message(&error);
        }
    }
}

/// Checks that a model is written back unchanged, or rejected by name.
fn write_back(model: &Model, path: &Path, out: &Path) {
    if !is_small(model) {
        return;
    }
    let name = path.file_name().filter(|_| path.is_file()).unwrap_or("model".as_ref());
    let target = out.join(name);
    let options = ConvertOptions::default().with_to(Some(To::Same));
    let written = match convert(model.clone(), &target, &options) {
        Ok(conversion) => conversion.files,
        Err(error) => return check_message(&error),
    };
    let mut anew = false;
    for file in written {
        let name = file.file_name().expect("a name");
        let source = model.files.iter().find(|blob| {
            let ranges = blob.file_ranges().next();
            ranges.is_some_and(|(source, ..)| source.path().file_name() == Some(name))
        });
        // A single file keeps its name.
        let source = source.or(model.files.first()).expect("a file");
        let (was, is) = (source.read().expect("a file"), fs::read(&file).expect("a file"));
        if was.starts_with(b"PK\x03\x04") || was.starts_with(b"PK\x05\x06") {
            anew = true;
            continue;
        }
        let place = was.iter().zip(&is).position(|(was, is)| was != is);
        assert!(was == is, "{}: {} bytes of {}, {place:?}", model.format, is.len(), was.len());
    }
    if anew {
        // Archives are rewritten with the same arrays.
        let format = named(&model.format).expect("a format");
        let back = (format.read)(&Location::from(&target), &OpenOptions::default())
            .expect("what was written");
        if let Ok(diff) = diff(model.clone(), &back, &DiffOptions::default()) {
            assert!(diff.same, "{diff:?}");
        }
    }
    empty(out);
}

/// Checks that a model written in another format can be opened.
fn write_as_another(model: &Model, path: &Path, out: &Path) {
    // A file of eight zeros is not detected as a vocabulary without tokens.
    let is_nothing = |parameter: &Parameter| matches!(&parameter.tensor.kind, Kind::Vocabulary { tokens } if tokens.is_empty());
    if !is_small(model) || model.parameters.iter().any(is_nothing) {
        return;
    }
    // Any format will do, but always the same for an input.
    let sum =
        model.files.iter().map(Blob::len).fold(model.parameters.len() as u64, u64::wrapping_add);
    let format = FORMATS[usize::try_from(sum % FORMATS.len() as u64).expect("small")];
    write_as(model, path, out, format);
    // Programs are not lowered here, which is more than writing.
    if model.main().is_some_and(|program| program.dialect == Dialect::Glow) {
        write_as(model, path, out, named("onnx").expect("a format"));
    }
}

fn write_as(model: &Model, path: &Path, out: &Path, format: &Format) {
    let stem = path.file_stem().unwrap_or("model".as_ref());
    let target = out.join(stem).with_extension(format.extension);
    let to = Some(To::Format(format.name.to_owned()));
    let options = ConvertOptions::default().with_to(to).with_allow(Loss::ALL.to_vec());
    match convert(model.clone(), &target, &options) {
        Ok(conversion) => {
            let back = (format.read)(&Location::from(&target), &OpenOptions::default());
            let back = back.unwrap_or_else(|error| panic!("{}: {error}", format.name));
            assert_eq!(back.parameters.len(), conversion.tensors, "{}", format.name);
        }
        Err(error) => check_message(&error),
    }
    empty(out);
}

/// Calls `work` with a directory with an empty `in` and an empty `out`, separate for each thread.
fn with_scratch(work: impl FnOnce(&Path)) {
    thread_local! {
        static SCRATCH: tempfile::TempDir = tempfile::tempdir().expect("a directory");
    }
    SCRATCH.with(|scratch| {
        for name in ["in", "out"] {
            let directory = scratch.path().join(name);
            if directory.exists() {
                empty(&directory);
            } else {
                fs::create_dir(&directory).expect("a directory");
            }
        }
        work(scratch.path());
    });
}

fn empty(directory: &Path) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let is_dir = path.is_dir();
        let removed = if is_dir { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.expect("removed");
    }
}

/// Sets the checksums of the headers of a tape archive.
#[expect(clippy::ptr_arg, reason = "as the table asks for")]
fn sum_headers(input: &mut Vec<u8>) {
    if input.starts_with(b"PK") {
        return;
    }
    for header in input.chunks_exact_mut(512) {
        // If the magic is that of a header, as written by every writer since 1988.
        if header[257..262] == *b"ustar" {
            header[148..156].fill(b' ');
            let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
            header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
}

/// Sets the checksum of a seal, or of a table of chunks.
fn sum_seal(input: &mut Vec<u8>) {
    let end = input.windows(MARK.len()).position(|window| window == MARK).unwrap_or(input.len());
    let rest = input.split_off(end);
    if let Some(line) = input.windows(8).rposition(|window| window == b"\"self\": ") {
        input.truncate(line);
    }
    let sum = lodstone_store::checksum(input);
    input.extend(format!("\"self\": \"{sum:016x}\"}}\n").bytes());
    input.extend(rest);
}

/// Sets the checksums of a manifest and of its files, if it is valid JSON, so that the checks beyond them are
/// reached.
fn sum_manifest(input: &mut Vec<u8>) {
    let files: Vec<&[u8]> = split(input, 3).collect();
    let Some((manifest, others)) = files.split_first() else { return };
    let Ok(mut manifest) = serde_json::from_slice::<Value>(manifest) else { return };
    for (name, file) in ["params", "loader/__model__"].iter().zip(others) {
        let sealed = manifest.get_mut("files").and_then(Value::as_array_mut);
        for sealed in sealed.into_iter().flatten().filter(|sealed| sealed["name"] == *name) {
            let parts = sealed.get_mut("parts").and_then(Value::as_array_mut);
            for part in parts.into_iter().flatten().filter_map(Value::as_object_mut) {
                let number =
                    |key: &str| part.get(key)?.as_u64().and_then(|it| usize::try_from(it).ok());
                let (offset, size) = (number("offset"), number("size"));
                let bytes =
                    offset.zip(size).and_then(|(offset, size)| file.get(offset..)?.get(..size));
                if let Some(bytes) = bytes {
                    let sum = format!("{:016x}", lodstone_store::checksum(bytes));
                    part.insert("checksums".to_owned(), json!([sum]));
                }
            }
        }
    }
    let Some(fields) = manifest.as_object_mut() else { return };
    fields.remove("self");
    let mut text = serde_json::to_vec_pretty(&manifest).expect("JSON");
    text.truncate(text.len() - "\n}".len());
    text.extend(b",\n");
    let sum = lodstone_store::checksum(&text);
    text.extend(format!("  \"self\": \"{sum:016x}\"\n}}\n").bytes());
    let repaired = std::iter::once(text.as_slice()).chain(others.iter().copied());
    *input = repaired.collect::<Vec<_>>().join(MARK);
}

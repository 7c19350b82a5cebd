//! A larger collection of PaddlePaddle and MXNet files, if available: `LODSTONE_CASES` names a
//! directory in which `X.facts.json` describes the contents of the file or directory `X`, as recorded by the framework.
//! Without it, only the golden files are tested.
#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]
#![expect(clippy::print_stdout, reason = "reports what was tested")]

use crate::support;
use std::path::{Path, PathBuf};

use crate::support::{bytes, facts_of_all};
use lodstone_formats::{
    Error, FORMATS, OpenOptions, WriteOptions, mxnet, mxnet::states, onnx, paddle, safetensors,
};
use lodstone_model::{Indices, Kind, Model, Tensor};
use lodstone_store::Location;
use serde::Deserialize;

/// Damaged files: paths in them were rewritten without their lengths, and
/// PaddlePaddle's own protobuf rejects them too.
const DAMAGED: [&str; 5] = [
    "paddle-1.8.5/dynamic_rnn/program_main.pb",
    "paddle-1.8.5/dynamic_rnn/save/m.pdmodel",
    "paddle-1.8.5/dynamic_rnn/infer/__model__",
    "paddle-1.8.5/dynamic_rnn/infer_combined/model",
    "paddle-1.8.5/dynamic_rnn/infer",
];

/// Cases with recorded facts that are rejected, and a part of the error.
const REFUSED: [(&str, &str); 2] = [
    // Facts of a distributed checkpoint, which has no file of this name.
    ("dist_ckpt/dist", "no model at"),
    // A directory with one of the damaged programs.
    ("paddle-1.8.5/dynamic_rnn/infer", "expected a length-delimited value in field 5"),
];

fn is_damaged(path: &Path) -> bool {
    DAMAGED.iter().any(|damaged| path.ends_with(damaged))
}

#[derive(Deserialize)]
struct Facts {
    tensors: Option<Vec<Recorded>>,
    lod: Option<Vec<Vec<u64>>>,
    rows: Option<Vec<i64>>,
    height: Option<i64>,
    ops: Option<Vec<Vec<String>>>,
    feeds: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Recorded {
    name: String,
    dtype: Option<String>,
    shape: Vec<u64>,
    sha256: Option<String>,
    lod: Option<Vec<Vec<u64>>>,
    /// The name in the file, if `name` is that of an object of the framework.
    tensor_name: Option<String>,
}

/// Returns the PaddlePaddle files.
fn files() -> Vec<PathBuf> {
    files_of("paddle-")
}

/// Returns the files below the directories whose names begin with `prefix`; empty without a collection.
fn files_of(prefix: &str) -> Vec<PathBuf> {
    let Some(cases) = std::env::var_os("LODSTONE_CASES").map(PathBuf::from) else {
        println!("LODSTONE_CASES is not set: only the golden files were tried");
        return Vec::new();
    };
    let mut open: Vec<PathBuf> = [cases.join("peers"), cases.clone()]
        .iter()
        .flat_map(|parent| {
            Location::from(parent).list().unwrap().into_iter().map(|e| parent.join(e.name))
        })
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix))
        .filter(|path| path.is_dir())
        .collect();
    assert!(!open.is_empty(), "no directory {prefix}* in {}", cases.display());
    let mut files = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in Location::from(&directory).list().unwrap() {
            let path = directory.join(entry.name);
            if entry.is_dir { open.push(path) } else { files.push(path) }
        }
    }
    files
}

fn open(path: &Path) -> Result<Model, Error> {
    // Newer releases write these too.
    if path.extension().is_some_and(|end| end == "safetensors") {
        return (safetensors::FORMAT.read)(&Location::from(path), &OpenOptions::default());
    }
    paddle::open(&Location::from(path), &OpenOptions::default())
}

#[test]
fn every_file_with_recorded_facts_holds_them() {
    let (mut count, mut refused) = (0, 0);
    for facts_path in files() {
        let Some(path) = facts_path.to_str().unwrap().strip_suffix(".facts.json") else { continue };
        let path = Path::new(path);
        let facts: Facts = serde_json::from_slice(&bytes(&facts_path)).unwrap();
        let refusal = REFUSED.iter().find(|(known, _)| path.ends_with(known));
        let model = match open(path) {
            Ok(model) => {
                assert!(refusal.is_none(), "{} is no longer refused", path.display());
                model
            }
            Err(error) => {
                let message = error.to_string();
                let expected = refusal.is_some_and(|(_, words)| message.contains(words));
                assert!(expected, "{}: {message}", path.display());
                refused += 1;
                continue;
            }
        };
        check(path, &model, &facts);
        count += 1;
    }
    println!("{count} files, prefixes and directories hold what was recorded; {refused} refused");
}

fn check(path: &Path, model: &Model, facts: &Facts) {
    let place = path.display();
    let mut found = facts_of_all(model);
    // The recorded tensor, named by the variable of the script, is in the file several times.
    if path.file_name().is_some_and(|name| name == "nested.pdparams") {
        found.truncate(1);
        found.iter_mut().for_each(|tensor| tensor.name = "T".to_owned());
    }
    // Parameters in a pickle beside a program are opened separately.
    let unread = found.is_empty() && model.main().is_some();
    if let Some(tensors) = facts.tensors.as_ref().filter(|_| !unread) {
        let pickle = model.format == "paddle-pickle";
        let sorted = model.format == "safetensors";
        // These names are structured names, not those of variables.
        let structured = pickle || sorted;
        let by_object = !structured && tensors.iter().any(|tensor| tensor.tensor_name.is_some());
        // The facts of `static.save` cover two pickles.
        let half = pickle && path.with_extension("pdopt").exists();
        assert!(by_object || half || found.len() == tensors.len(), "{place}");
        for (number, found) in found.iter().enumerate() {
            let expected = match by_object {
                true => tensors.iter().find(|t| t.tensor_name.as_ref() == Some(&found.name)),
                false if half || sorted => tensors.iter().find(|t| t.name == found.name),
                false => tensors.get(number),
            };
            let expected = expected.unwrap_or_else(|| panic!("{place}: {}", found.name));
            let own = expected.tensor_name.as_ref().filter(|_| !structured);
            let name = own.unwrap_or(&expected.name);
            if !found.name.is_empty() && !name.is_empty() {
                assert_eq!(&found.name, name, "{place}");
            }
            if let Some(dtype) = &expected.dtype {
                // A pickle records the bits, not the type.
                let dtype = match dtype.as_str() {
                    "bfloat16" if pickle => "uint16",
                    dtype if pickle && dtype.starts_with("float8") => "int8",
                    dtype => dtype,
                };
                assert_eq!(found.dtype, dtype, "{place}: {name}");
            }
            assert_eq!(found.shape, expected.shape, "{place}: {name}");
            assert_eq!(found.sha256.as_ref(), expected.sha256.as_ref(), "{place}: {name}");
            if let Some(lod) = expected.lod.as_ref().or(facts.lod.as_ref()) {
                assert_eq!(&found.lod, lod, "{place}");
            }
            if let Some(rows) = &facts.rows {
                assert_eq!((&found.rows, found.height), (rows, facts.height), "{place}");
            }
        }
    }
    let Some(program) = model.main() else { return };
    if let Some(ops) = &facts.ops {
        let kinds: Vec<Vec<&str>> = program
            .blocks
            .iter()
            .map(|block| block.ops.iter().map(|op| op.kind.as_str()).collect())
            .collect();
        assert_eq!(&kinds, ops, "{place}");
    }
    if let Some(feeds) = &facts.feeds {
        assert_eq!(&lodstone_schema::paddle::interface(program).inputs, feeds, "{place}");
    }
}

#[test]
fn every_file_of_mxnet_holds_what_was_recorded() {
    let mut count = 0;
    for facts_path in files_of("mxnet-") {
        let Some(path) = facts_path.to_str().unwrap().strip_suffix(".facts.json") else { continue };
        let facts: Facts = serde_json::from_slice(&bytes(&facts_path)).unwrap();
        let model = mxnet::open(&Location::from(Path::new(path)), &OpenOptions::default())
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        for (number, expected) in facts.tensors.iter().flatten().enumerate() {
            let found = match expected.name.as_str() {
                "" => model.parameters.get(number).map(|parameter| parameter.tensor.clone()),
                name => part(&model, name),
            };
            let Some(found) = found else { panic!("{path}: no {}", expected.name) };
            if let Some(dtype) = &expected.dtype {
                assert_eq!(&found.dtype.to_string(), dtype, "{path}: {}", expected.name);
            }
            assert_eq!(found.shape, expected.shape, "{path}: {}", expected.name);
            if let Some(sha256) = &expected.sha256 {
                let data = found.data.bytes().unwrap();
                assert_eq!(&support::sha256(&data), sha256, "{path}: {}", expected.name);
            }
        }
        count += 1;
    }
    println!("{count} files of MXNet hold what was recorded");
}

/// Returns what the recorded facts call `name`: a tensor, a part of a sparse one, or all of it.
fn part(model: &Model, name: &str) -> Option<Tensor> {
    if let Some(tensor) = model.parameter(name) {
        return Some(tensor.clone());
    }
    if let Some(whole) = name.strip_suffix("(dense)") {
        return Some(filled(model.parameter(whole)?));
    }
    let (whole, part) = name.rsplit_once('.')?;
    let tensor = model.parameter(whole)?;
    let list = |indices: &Indices| {
        Tensor::dense(indices.dtype, vec![indices.count()], indices.data.clone())
    };
    match (&tensor.kind, part) {
        (_, "data") => {
            Some(Tensor::dense(tensor.dtype, tensor.stored_shape(), tensor.data.clone()))
        }
        (Kind::RowSparse { indices } | Kind::Csr { indices, .. }, "indices") => Some(list(indices)),
        (Kind::Csr { indptr, .. }, "indptr") => Some(list(indptr)),
        _ => None,
    }
}

/// Converts a sparse tensor to a dense one.
fn filled(tensor: &Tensor) -> Tensor {
    let numbers = |indices: &Indices| {
        let mut numbers = Vec::new();
        indices.for_each(|number| numbers.push(usize::try_from(number).unwrap())).unwrap();
        numbers
    };
    let size = usize::try_from(tensor.dtype.size_of(&tensor.shape).unwrap()).unwrap();
    let (mut filled, data) = (vec![0; size], tensor.data.bytes().unwrap());
    let places = match &tensor.kind {
        Kind::RowSparse { indices } => numbers(indices),
        Kind::Csr { indptr, indices } => {
            let (starts, columns) = (numbers(indptr), numbers(indices));
            let width = usize::try_from(tensor.shape[1]).unwrap();
            let row = |place: usize| starts.iter().filter(|start| **start <= place).count() - 1;
            columns.iter().enumerate().map(|(place, column)| row(place) * width + column).collect()
        }
        _ => panic!("{}", tensor.kind.name()),
    };
    let item = if places.is_empty() { 1 } else { data.len() / places.len() };
    for (place, value) in places.iter().zip(data.chunks(item)) {
        filled[place * item..][..item].copy_from_slice(value);
    }
    Tensor::dense(tensor.dtype, tensor.shape.clone(), filled.into())
}

#[test]
fn every_onnx_file_holds_what_was_recorded_and_is_written_back_byte_for_byte() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut count, mut recorded) = (0, 0);
    for path in ["glow", "torch-", "paddle2onnx", "mxnet-1.9.1"].into_iter().flat_map(files_of) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if ![".onnx", ".onnxtxt", ".zip"].iter().any(|end| name.ends_with(end)) {
            continue;
        }
        let model = (onnx::BINARY.read)(&Location::from(&path), &OpenOptions::default())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let facts = path.with_file_name(format!("{name}.facts.json"));
        if facts.exists() {
            let facts: Facts = serde_json::from_slice(&bytes(&facts)).unwrap();
            for expected in facts.tensors.iter().flatten() {
                let found = model.parameter(&expected.name).expect("a tensor");
                assert_eq!(found.shape, expected.shape, "{}", path.display());
                let sha256 = support::sha256(&found.data.bytes().unwrap());
                assert_eq!(Some(&sha256), expected.sha256.as_ref(), "{}", path.display());
                recorded += 1;
            }
        }
        let format = FORMATS.iter().find(|known| known.name == model.format).expect("a format");
        let out = scratch.path().join("out");
        std::fs::create_dir(&out).unwrap();
        let same = WriteOptions::default().with_same(true);
        format.write(&model, out.join(name), &same).unwrap();
        for file in Location::from(&out).list().unwrap() {
            let was = path.with_file_name(&file.name);
            assert!(bytes(&out.join(&file.name)) == bytes(&was), "{}", was.display());
        }
        std::fs::remove_dir_all(&out).unwrap();
        count += 1;
    }
    println!("{count} ONNX files written back, {recorded} tensors as recorded");
}

#[test]
fn every_file_of_mxnet_is_written_back_byte_for_byte() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut params, mut programs, mut states, mut refused) = (0, 0, 0, 0);
    for path in files_of("mxnet-") {
        let name = path.file_name().unwrap().to_str().unwrap();
        let out = scratch.path().join("out");
        let write = |model: &Model, format: &str| {
            let format = FORMATS.iter().find(|known| known.name == format).expect("a format");
            let same = WriteOptions::default().with_same(true);
            format.write(model, &out, &same).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(bytes(&out) == bytes(&path), "{}", path.display());
        };
        if name.ends_with("-symbol.json") {
            let model = mxnet::open(&Location::from(&path), &OpenOptions::default())
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            write(&model, "mxnet-symbol");
            // Also newly written, as by MXNet 1.9.1, which wrote most of them.
            let program = model.main().unwrap();
            let fresh = lodstone_formats::mxnet::symbol::write(program, false).unwrap();
            assert!(program.version < Some(10_901) || fresh == bytes(&path), "{}", path.display());
            programs += 1;
        } else if name.ends_with(".states") {
            let model = (states::FORMAT.read)(&Location::from(&path), &OpenOptions::default())
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(!model.parameters.is_empty(), "{}", path.display());
            write(&model, "mxnet-states");
            states += 1;
        } else if name.ends_with(".params") {
            match mxnet::open(&Location::from(&path), &OpenOptions::default()) {
                Ok(model) => write(&model, "mxnet-params"),
                Err(error) => {
                    // Files that were made to be rejected.
                    let crash = path.parent().unwrap().ends_with("crash");
                    assert!(crash, "{}: {error}", path.display());
                    refused += 1;
                    continue;
                }
            }
            params += 1;
        }
    }
    println!(
        "{params} files, {programs} programs and {states} states of MXNet written back; {refused} \
         refused"
    );
}

#[test]
fn every_file_is_written_back_byte_for_byte() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut written, mut left) = (0, std::collections::BTreeMap::<String, usize>::new());
    for path in files() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let model = match open(&path) {
            Ok(model) => model,
            Err(_) if is_damaged(&path) => continue,
            Err(error) => {
                // Arrays and documents; never a stream, a program, a pickle or combined parameters.
                let other = matches!(error, Error::Unsupported { .. })
                    || [".npy", ".json", ".txt", ".bin", ".key", ".safetensors"]
                        .iter()
                        .chain(&["coo.pdtensor"])
                        .any(|end| name.ends_with(end));
                assert!(other, "{}: {error}", path.display());
                *left.entry(name.rsplit('.').next().unwrap().to_owned()).or_default() += 1;
                continue;
            }
        };
        assert!(!is_damaged(&path), "{}", path.display());
        // Each file separately: a program as a program, parameters as parameters.
        let format = match (model.main(), model.format.as_str()) {
            (Some(_), "paddle-program-text") => "paddle-program-text",
            (Some(_), "paddle-pir") => "paddle-pir",
            (Some(_), _) => "paddle-program",
            (None, format) => format,
        };
        let Some(format) = FORMATS.iter().find(|known| known.name == format) else {
            panic!("no format {format}")
        };
        let out = scratch.path().join(written.to_string());
        let same = WriteOptions::default().with_same(true);
        let files = format
            .write(&model, &out, &same)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for file in &files.files {
            // A PIR program is written with its parameters.
            let original = match format.name == "paddle-pir" {
                true => path.with_extension(file.path().extension().unwrap()),
                false => path.clone(),
            };
            assert!(bytes(file.path()) == bytes(&original), "{}", original.display());
        }
        written += 1;
    }
    println!("{written} files written back; left alone, by extension: {left:?}");
}

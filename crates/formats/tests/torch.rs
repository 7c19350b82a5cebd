//! PyTorch: the contents of files, byte-for-byte write-back, and what is written from them.

#![expect(clippy::disallowed_methods, reason = "tests read and write files directly")]
#![expect(clippy::print_stdout, reason = "reports what was tested")]

pub(crate) mod hostile;

use crate::generate;
use std::path::{Path, PathBuf};

use crate::support::facts::{Case, Tensor, cases};
use crate::support::subjects::subject;
use crate::support::{blob, bytes, facts_of_all, open, sha256};
use lodstone_formats::{Effort, Error, Pickles, WriteOptions, named, pickles, torch};
use lodstone_model::{DType, Limits, Model};
use lodstone_store::{Blob, Location};
use serde_json::Value;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/torch")
}

fn sorted(mut tensors: Vec<Tensor>) -> Vec<Tensor> {
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    tensors
}

#[test]
fn files_hold_what_pytorch_recorded() {
    for case in cases(&golden()) {
        let path = golden().join(&case.path);
        let model = open(&path).unwrap_or_else(|error| panic!("{}: {error}", case.path));
        assert_eq!(model.format, case.format, "{}", case.path);
        // Constants of exported programs come after the weights.
        let (found, expected) = (sorted(facts_of_all(&model)), sorted(case.tensors.clone()));
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{}", case.path);
        }
        assert_eq!(found.len(), expected.len(), "{}: {found:?}", case.path);
    }
}

/// Returns the files that a model is written to, in a directory.
fn written(model: &Model, case: &Case, name: &str) -> Result<tempfile::TempDir, Error> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    let options = WriteOptions::default().with_same(true);
    named(&case.format).unwrap().write(model, &path, &options)?;
    Ok(dir)
}

#[test]
fn unedited_files_are_written_back_byte_for_byte() {
    for case in cases(&golden()) {
        let model = open(&golden().join(&case.path)).unwrap();
        let dir = written(&model, &case, &case.path).unwrap();
        for (file, hash) in &case.files {
            assert_eq!(&sha256(&bytes(&dir.path().join(file))), hash, "{file}");
        }
    }
}

#[test]
fn a_dict_of_tensors_is_read_again_as_it_was_written() {
    for case in cases(&golden()) {
        let mut model = open(&golden().join(&case.path)).unwrap();
        // Another format, so that nothing is copied.
        model.format = String::new();
        if model.parameters.iter().any(|parameter| parameter.name.is_empty()) {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pt");
        torch::SAVED.write(&model, &path, &WriteOptions::default()).unwrap();
        let again = open(&path).unwrap_or_else(|error| panic!("{}: {error}", case.path));
        assert_eq!(facts_of_all(&again), facts_of_all(&model), "{}", case.path);
        assert_eq!(again.metadata, model.metadata, "{}", case.path);
        if let Some(folder) = std::env::var_os("LODSTONE_TORCH_WRITTEN") {
            let name = case.path.replace('/', "-");
            std::fs::copy(&path, Path::new(&folder).join(format!("{name}.written.pt"))).unwrap();
        }
    }
}

#[test]
fn tensors_that_share_a_storage_still_share_it_when_they_are_written() {
    let mut model = open(&golden().join("views.pt")).unwrap();
    model.metadata.insert("note".to_owned(), "edited".to_owned());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pt");
    torch::SAVED.write(&model, &path, &WriteOptions::default()).unwrap();
    let (before, after) = (bytes(&golden().join("views.pt")).len(), bytes(&path).len());
    // `neg` is written with its actual signs, and `conj` too.
    assert!(after < before + 1024, "{after} bytes instead of {before}");
}

#[test]
fn plain_values_are_metadata() {
    let model = open(&golden().join("checkpoint.pt")).unwrap();
    let value = |key: &str| model.metadata.get(key).map(String::as_str);
    assert_eq!(value("epoch"), Some("3"));
    assert_eq!(value("best"), Some("0.5"));
    assert_eq!(value("names"), Some(r#"["a","b"]"#));
    assert_eq!(value("shape"), Some("[2,3]"));
    assert_eq!(value("dtype"), Some(r#""torch.float16""#));
    assert_eq!(value("device"), Some(r#""cpu""#));
    assert_eq!(value("optimizer.param_groups.0.lr"), None, "{:?}", model.metadata);
    let quantized = open(&golden().join("quantized.pt")).unwrap();
    let scheme = quantized.metadata.get("tensor@quantization").map(String::as_str);
    assert_eq!(scheme, Some(r#"{"dtype":"qint8","scale":0.1,"zero_point":2}"#));
}

fn scanned(path: &Path) -> Pickles {
    let location = Location::from(path);
    let file = Blob::open(&location, true).unwrap();
    pickles(&location, &file, &Limits::default(), &mut Effort::default()).unwrap()
}

#[test]
fn honest_files_have_no_findings() {
    for case in cases(&golden()) {
        // It has objects of a class of the script that wrote it.
        if case.path == "cycle.pt" {
            continue;
        }
        for file in case.files.keys() {
            let found = scanned(&golden().join(file));
            let named: Vec<_> = found.findings.iter().filter(|(_, it)| it.how != "path").collect();
            assert!(named.is_empty(), "{file}: {named:?}");
            assert!(found.native.is_empty(), "{file}: {:?}", found.native);
        }
    }
}

#[test]
fn compiled_code_in_a_package_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pt2");
    let mut file = Vec::new();
    for (name, data) in [
        ("x/archive_format", &b"pt2"[..]),
        ("x/data/aotinductor/model/x.wrapper.so", b"\x7fELF"),
        ("x/data/aotinductor/model/x.cpp", b"int main() {}"),
        ("x/extra/tool", b"\x7fELF..."),
        ("x/extra/note.txt", b"a note"),
    ] {
        file.push((name.as_bytes(), data));
    }
    std::fs::write(&path, generate::build::zip(file, false)).unwrap();
    let native = scanned(&path).native.into_iter().flatten().collect::<Vec<_>>();
    assert_eq!(native.len(), 3, "{native:?}");
    assert!(!native.iter().any(|member| member.ends_with("note.txt")), "{native:?}");
}

#[test]
fn a_cut_file_is_an_error() {
    for case in cases(&golden()) {
        if case.files.len() > 1 || case.path.ends_with(".tar") {
            continue;
        }
        let content = bytes(&golden().join(&case.path));
        let step = content.len() / 500 + 1;
        for place in (0..content.len()).step_by(step) {
            let cut = blob(&content[..place]);
            let limits = Limits::default();
            let read = match case.format.as_str() {
                "torch" => torch::read_blob(&cut, &limits),
                "torchscript" => torch::read_script_blob(&cut, &limits),
                _ => torch::read_exported_blob(&cut, &limits),
            };
            assert!(read.is_err(), "{} cut at {place} is taken for whole", case.path);
        }
    }
}

#[test]
fn a_changed_file_is_read_or_an_error_in_bounded_memory() {
    for (seed, format) in (1..).zip(["torch", "torchscript", "torch-exported"]) {
        let whole = cases(&golden()).into_iter();
        let whole = whole.filter(|case| case.format == format && case.files.len() == 1);
        let files: Vec<_> =
            whole.map(|case| (case.path.clone(), bytes(&golden().join(&case.path)))).collect();
        let noticed = subject(format).mutate(&files, seed);
        assert!(noticed > 1000, "{format}: {noticed}");
    }
}

/// Checks the facts beside each file of a larger collection: `LODSTONE_CASES` names a directory.
#[test]
fn every_file_with_recorded_facts_holds_them() {
    let Some(root) = std::env::var_os("LODSTONE_CASES").map(PathBuf::from) else {
        println!("LODSTONE_CASES is not set: only the golden files were tried");
        return;
    };
    let mut open_folders: Vec<PathBuf> = vec![root.join("torch")];
    for entry in Location::from(&root.join("peers")).list().unwrap() {
        if entry.name.starts_with("torch-") {
            open_folders.push(root.join("peers").join(entry.name));
        }
    }
    let (mut opened, mut checked, mut failures) = (0, 0, Vec::new());
    while let Some(folder) = open_folders.pop() {
        for entry in Location::from(&folder).list().unwrap() {
            let path = folder.join(&entry.name);
            let facts = PathBuf::from(format!("{}.facts.json", path.display()));
            let is_checkpoint = entry.is_dir && path.join(".metadata").exists();
            if entry.is_dir && !is_checkpoint {
                open_folders.push(path);
                continue;
            }
            let is_torch = [".pt", ".pt2", ".pth"].iter().any(|end| entry.name.ends_with(end));
            if !is_torch && !is_checkpoint {
                continue;
            }
            let model = match open(&path) {
                Ok(model) => model,
                Err(error) => {
                    failures.push(format!("{}: {error}", path.display()));
                    continue;
                }
            };
            opened += 1;
            if facts.exists() {
                let facts: Value = serde_json::from_slice(&bytes(&facts)).unwrap();
                checked += 1;
                failures.extend(differences(&path, &model, &facts));
            }
        }
    }
    println!("{opened} files opened, {checked} with facts");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn differences(path: &Path, model: &Model, facts: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    let Some(expected) = facts["tensors"].as_array() else { return differences };
    let found = facts_of_all(model);
    // The facts of these are those of a model in a dict of models and other values.
    let inner = path.ends_with("views/checkpoint.pt") || path.ends_with("dcp/ckpt");
    let prefix = if inner { "model." } else { "" };
    let constants = found.iter().filter(|found| found.name.starts_with("CONSTANTS.")).count();
    let others = inner || path.ends_with("export.pt2");
    if found.len() - constants != expected.len() && !others {
        let names: Vec<_> = found.iter().map(|found| &found.name).collect();
        differences.push(format!("{}: {} tensors: {names:?}", path.display(), found.len()));
    }
    for expected in expected {
        let name = format!("{prefix}{}", expected["name"].as_str().unwrap());
        let Some(found) = found.iter().find(|found| found.name == name) else {
            differences.push(format!("{}: no `{name}`", path.display()));
            continue;
        };
        let packed = expected["dtype"] == "float4_e2m1fn_x2";
        let shape: Vec<u64> = serde_json::from_value(expected["shape"].clone()).unwrap();
        let dtype = expected["dtype"].as_str().unwrap().trim_end_matches("_x2");
        let same = found.dtype == dtype
            && (packed || found.shape == shape)
            && found.sha256.as_deref() == expected["sha256"].as_str();
        if !same {
            differences.push(format!("{}: {found:?} instead of {expected}", path.display()));
        }
    }
    differences
}

/// Writes a tensor without elements of these dims, and returns the dims that are read again.
fn empty_of(shape: Vec<u64>) -> Result<Vec<u64>, Error> {
    let tensor = lodstone_model::Tensor::dense(DType::Float32, shape, Blob::default());
    let parameters = vec![lodstone_model::Parameter { name: "w".to_owned(), tensor }];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pt");
    let model = Model { parameters, ..Model::default() };
    torch::SAVED.write(&model, &path, &WriteOptions::default())?;
    Ok(open(&path).unwrap().parameters[0].tensor.shape.clone())
}

#[test]
fn a_tensor_with_a_dim_of_more_than_31_bits_is_read_again() {
    assert_eq!(empty_of(vec![0, 1 << 40]).unwrap(), [0, 1 << 40]);
}

#[test]
fn dims_that_overflow_beside_one_of_0_are_refused() {
    for shape in [vec![0, 1 << 40, 1 << 40], vec![1 << 40, 1 << 40, 0]] {
        let refused = empty_of(shape);
        assert!(matches!(refused, Err(Error::Incompatible { .. })), "{refused:?}");
    }
}

//! Files of PyTorch: scanned, sealed and written back.
#![expect(clippy::disallowed_methods, reason = "tests write files")]

use std::path::{Path, PathBuf};

use crate::zipped::zip;
use lodstone::run::tensors;
use lodstone::scan::{DangerKind, Scan};
use lodstone::{
    ConvertOptions, Dim, Inputs, InspectOptions, OpenOptions, Progress, RunOptions, ScanOptions,
    Target, convert, inspect, open, open_with, run, scan, seal, verify,
};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden/torch").join(name)
}

/// Returns the names of the golden files and directories.
fn names() -> Vec<String> {
    let entries = std::fs::read_dir(golden("")).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    let mut names: Vec<String> = names.collect::<Result<_, _>>().expect("UTF-8");
    names.retain(|name| name != "index.json" && !name.ends_with(".py"));
    names.sort();
    names
}

fn scanned(path: &Path) -> Scan {
    scan(path, &ScanOptions::default()).expect("scanned")
}

#[test]
fn files_of_pytorch_are_clean() {
    for name in names() {
        let scan = scanned(&golden(&name));
        // It has objects of a class of the script that wrote it.
        if name == "cycle.pt" {
            let found: Vec<_> = scan.findings.iter().map(|it| it.message.as_str()).collect();
            assert_eq!(found, ["calls `__main__.Node` with ()"], "{scan:?}");
            continue;
        }
        assert!(scan.clean, "{name}: {scan:?}");
    }
}

#[test]
fn files_are_sealed_and_written_back_byte_for_byte() {
    let dir = tempfile::tempdir().expect("a directory");
    for name in names() {
        let out = dir.path().join(&name);
        let options = ConvertOptions::default().with_to(Some(Target::Same));
        convert(open(golden(&name)).expect("a model"), &out, &options).expect("written");
        let files: Vec<PathBuf> = match out.is_dir() {
            true => {
                let entries = std::fs::read_dir(&out).expect("a directory");
                entries.map(|entry| entry.expect("an entry").path()).collect()
            }
            false => vec![out.clone()],
        };
        for file in files {
            let relative = file.strip_prefix(dir.path()).expect("inside");
            let original = golden(relative.to_str().expect("UTF-8"));
            let [left, right] = [&original, &file].map(|path| std::fs::read(path).expect("read"));
            assert!(left == right, "{}", file.display());
        }
        seal(&out, &OpenOptions::default(), false, &Progress::default()).expect("sealed");
        let verified =
            verify(&out, &OpenOptions::default(), &Progress::default()).expect("verified");
        assert!(verified.whole && verified.sealed, "{name}: {verified:?}");
    }
}

/// Returns a TorchScript archive with this code and these pickles.
fn script(code: &str, data: &[u8], constants: &[u8]) -> Vec<u8> {
    let code = format!("class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n{code}");
    zip(&[
        ("m/data.pkl", data),
        ("m/code/__torch__.py", code.as_bytes()),
        ("m/constants.pkl", constants),
        ("m/version", b"3\n"),
    ])
}

/// The pickle of a module without attributes.
const MODULE: &[u8] = b"\x80\x02c__torch__\nM\n)\x81}b.";

/// The pickle of no constants.
const NO_CONSTANTS: &[u8] = b"\x80\x02).";

/// A pickle that would run a command.
const ATTACK: &[u8] = b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R.";

#[test]
fn operators_of_torchscript_that_access_files_are_found_in_every_function() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("m.pt");
    for (call, message) in [
        ("torch.relu(x)", ""),
        ("ops.prim.NumToTensor(1)", ""),
        ("torch.save(x, \"/tmp/x\")", "calls `aten::save`: writes files"),
        ("x.save(\"/tmp/x\")", "calls `aten::save`: writes files"),
        ("torch.from_file(\"/etc/passwd\", False, 9)", "calls `aten::from_file`: reads files"),
        ("ops.image.read_file(\"/etc/passwd\")", "calls `image::read_file`: reads files"),
        ("ops.mine.run(x)", "calls `mine::run`: runs code from outside the framework"),
    ] {
        let code = format!(
            "  def more(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    if True:\n      \
             y = [({call}, 1)]\n    else:\n      pass\n    return x\n"
        );
        std::fs::write(&path, script(&code, MODULE, NO_CONSTANTS)).expect("write");
        let scan = scanned(&path);
        let found: Vec<_> = scan.findings.iter().map(|it| it.message.as_str()).collect();
        if message.is_empty() {
            assert!(scan.clean, "{call}: {scan:?}");
            continue;
        }
        // A method that is translated has the operator in its program, too.
        assert_eq!(found.first(), Some(&message), "{call}: {scan:?}");
        assert_eq!(scan.findings[0].kind, DangerKind::Operator);
        assert_eq!(scan.findings[0].place, "member `m/code/__torch__.py`, line 7");
    }
}

#[test]
fn loops_in_loops_whose_states_change_end_with_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("m.pt");
    let code = "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    n = (torch.size(x))[0]\n    y = x\n\
                \x20   for _0 in range(n):\n      z = torch.select(x, 0, 0)\n      for _1 in range(n):\n\
                \x20       z = torch.unsqueeze(torch.add(torch.squeeze(z), 1), 0)\n\
                \x20     y = torch.unsqueeze(torch.sum(z), 0)\n    return y\n";
    std::fs::write(&path, script(code, MODULE, NO_CONSTANTS)).expect("write");
    let model = open(&path).expect("a model");
    assert!(model.main().is_some(), "{:?}", model.report);
    for (size, expected) in [(3_u64, None), (4000, Some("at most 4096 repetitions"))] {
        let data = vec![1_f32; usize::try_from(size).expect("small")];
        let x = lodstone::Tensor::from_vec(vec![size], data).expect("a tensor");
        let inputs = Inputs { values: vec![(None, x.into())], lod: Vec::new() };
        match (run(&model, inputs, &RunOptions::default()), expected) {
            (Ok(outputs), None) => assert_eq!(tensors(outputs)[0].tensor.shape, [1]),
            (Err(error), Some(expected)) => {
                assert!(error.to_string().contains(expected), "{error}");
            }
            (other, expected) => panic!("{other:?} instead of {expected:?}"),
        }
    }
}

#[test]
fn code_that_is_not_torchscript_is_unknown() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("m.pt");
    std::fs::write(&path, script("import os\n", MODULE, NO_CONSTANTS)).expect("write");
    let scan = scanned(&path);
    let reasons: Vec<_> = scan.unknown.iter().map(|it| it.reason.as_str()).collect();
    assert!(reasons.iter().any(|reason| reason.starts_with("line 4: ")), "{scan:?}");
}

#[test]
fn an_import_in_the_pickles_of_torchscript_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("m.pt");
    for (data, constants) in [(ATTACK, NO_CONSTANTS), (MODULE, ATTACK)] {
        std::fs::write(&path, script("", data, constants)).expect("write");
        let scan = scanned(&path);
        let is_found = scan.findings.iter().any(|it| it.message.starts_with("calls `os.system`"));
        assert!(is_found, "{scan:?}");
    }
}

#[test]
fn an_import_in_an_item_of_a_distributed_checkpoint_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let [metadata, items] = [".metadata", "__0_0.distcp"]
        .map(|name| std::fs::read(golden("distributed").join(name)).expect("read"));
    std::fs::write(dir.path().join(".metadata"), metadata).expect("write");
    let evil = zip(&[("archive/data.pkl", ATTACK), ("archive/data/0", &[0; 1024])]);
    for bytes in [[items.as_slice(), &evil].concat(), [evil.as_slice(), &items].concat()] {
        std::fs::write(dir.path().join("__0_0.distcp"), bytes).expect("write");
        let scan = scanned(dir.path());
        let is_found = scan.findings.iter().any(|it| it.message.starts_with("calls `os.system`"));
        assert!(is_found, "{scan:?}");
    }
}

/// Opens a program of a module.
fn method(file: &str, name: &str) -> lodstone::Result<lodstone::Model> {
    open_with(golden(file), &OpenOptions::default().with_program(Some(name.to_owned())))
}

#[test]
fn methods_that_forward_does_not_call_are_programs() {
    let model = open(golden("methods.pt")).expect("a model");
    let inspection = inspect(&model, &InspectOptions::default()).expect("inspected");
    assert_eq!(inspection.programs, ["main", "decode", "encode"]);
    let warnings = &model.report.warnings;
    assert!(
        matches!(warnings.as_slice(), [one] if one.starts_with("the method `describe` is not read")),
        "{warnings:?}"
    );
    let encoder = open(golden("encoder.pt")).expect("a model");
    assert!(encoder.main().is_none());
    let inspection = inspect(&encoder, &InspectOptions::default()).expect("inspected");
    assert_eq!(inspection.programs, ["encode"]);
    let error = run(&encoder, Inputs::default(), &RunOptions::default()).expect_err("no main");
    assert_eq!(error.to_string(), "the model has no main program, only `encode`");
}

#[test]
fn a_method_is_opened_by_its_name() {
    let model = method("methods.pt", "decode").expect("a model");
    let inspection = inspect(&model, &InspectOptions::default()).expect("inspected");
    let names = |values: &[lodstone::inspect::InterfaceValue]| {
        values.iter().map(|value| value.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&inspection.inputs), ["x", "y"]);
    assert_eq!(names(&inspection.outputs), ["sum", "product"]);
    let error = method("methods.pt", "helper").expect_err("part of another");
    let expected = "no program `helper`: the model has `main`, `decode`, `encode`";
    assert_eq!(error.to_string(), expected);
    let none = method("views.pt", "forward").expect_err("tensors");
    assert_eq!(none.to_string(), "no program `forward`: the model has no programs");
}

#[test]
fn a_method_runs_and_is_exported() {
    for (file, expected) in [("methods.pt", [4_f32, 7.0]), ("encoder.pt", [2.0, 4.0])] {
        let model = method(file, "encode").expect("a model");
        let dir = tempfile::tempdir().expect("a directory");
        let out = dir.path().join("x.onnx");
        let shapes = vec![("x".to_owned(), vec![Dim::Known(2)])];
        let options = ConvertOptions::default().with_input_shapes(shapes);
        convert(model.clone(), &out, &options).expect("exported");
        for model in [model, open(out).expect("a model")] {
            let data = [1_f32, 2.0].iter().flat_map(|number| number.to_le_bytes());
            let data = lodstone::Blob::memory(data.collect::<Vec<u8>>());
            let tensor = lodstone::Tensor::dense(lodstone::DType::Float32, vec![2], data);
            let mut given = Inputs::default();
            given.values.push((Some("x".to_owned()), tensor.into()));
            let outputs = run(&model, given, &RunOptions::default()).expect("a run");
            let outputs = tensors(outputs);
            let found = outputs[0].tensor.data.bytes().expect("bytes");
            let expected: Vec<u8> = expected.iter().flat_map(|it| it.to_le_bytes()).collect();
            assert_eq!(&found[..], expected, "{file}");
        }
    }
}

//! ExecuTorch: tensors and methods of programs, and what scans report of them.

use std::path::{Path, PathBuf};

use crate::support::facts::cases;
use crate::support::subjects::subject;
use crate::support::{blob, bytes, facts_of_all, sha256};
use lodstone_formats::{Effort, Pickles, WriteOptions, named, pickles, torch};
use lodstone_model::{Limits, Model};
use lodstone_store::{Blob, Location};
use serde_json::{Value, json};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/executorch")
}

fn read(content: &[u8]) -> Model {
    torch::read_executorch_blob(&blob(content), &Limits::default()).unwrap()
}

fn open(name: &str) -> Model {
    read(&bytes(&golden().join(name)))
}

/// Returns a row of the metadata.
fn row(model: &Model, key: &str) -> Value {
    let text = model.metadata.get(key).unwrap_or_else(|| panic!("{key} in {:?}", model.metadata));
    serde_json::from_str(text).unwrap()
}

#[test]
fn tensors_are_those_that_executorch_reads() {
    for case in cases(&golden()) {
        assert_eq!(facts_of_all(&open(&case.path)), case.tensors, "{}", case.path);
    }
}

#[test]
fn files_are_written_back_byte_for_byte() {
    for case in cases(&golden()) {
        let path = golden().join(&case.path);
        let format = named("executorch").unwrap();
        let model = (format.read)(&Location::from(&path), &Default::default()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let written = dir.path().join(&case.path);
        format.write(&model, &written, &WriteOptions::default().with_same(true)).unwrap();
        assert_eq!(sha256(&bytes(&written)), case.files[&case.path]);
    }
}

#[test]
fn methods_are_described_by_metadata() {
    let model = open("methods.pte");
    assert_eq!(row(&model, "encode.inputs"), json!(["float32[<=8, <=3]"]));
    assert_eq!(row(&model, "decode.inputs"), json!(["float32[2, 3]"]));
    assert_eq!(row(&model, "decode.outputs"), json!(["float32[2, 3]"]));
    let operators = json!({"aten::addmm.out": 1, "aten::permute_copy.out": 1, "aten::relu.out": 1});
    assert_eq!(row(&model, "decode.operators"), operators);
    assert_eq!(row(&model, "get_max.outputs"), json!([42]));
    assert_eq!(row(&model, "get_name.outputs"), json!([{"string": "text"}]));
    assert_eq!(row(&model, "get_sizes.outputs"), json!([1, 2]));
}

#[test]
fn delegates_are_described_by_metadata() {
    for (name, offset) in [("delegate.pte", 2176), ("delegate-inline.pte", 432)] {
        let delegates = row(&open(name), "forward.delegates");
        let expected = json!([
            {"backend": "XnnpackBackend", "bytes": 1136, "offset": offset, "options": []}
        ]);
        assert_eq!(delegates, expected, "{name}");
    }
}

#[test]
fn tensors_of_another_file_are_absent_with_a_warning() {
    let model = open("external.pte");
    let warning = "tensors in another file (`.ptd`): `fc.weight`, `fc.bias`, `halves`, `count`";
    assert_eq!(model.report.warnings, [warning]);
    let beside = open("external.ptd");
    assert_eq!(beside.parameters.len(), 4);
}

#[test]
fn the_data_of_tensors_is_in_the_file() {
    for case in cases(&golden()) {
        for parameter in open(&case.path).parameters {
            // Another order of dims is converted on read.
            let is_ordered = case.path != "channels-last.pte";
            let data = &parameter.tensor.data;
            let is_view =
                data.is_empty() || data.derivation::<lodstone_store::Permuted>().is_none();
            assert!(is_view || !is_ordered, "{}: {}", case.path, parameter.name);
        }
    }
}

fn scanned(content: &[u8]) -> Pickles {
    let path = Location::from(Path::new("model.pte"));
    let file: Blob = blob(content);
    pickles(&path, &file, &Limits::default(), &mut Effort::default()).unwrap()
}

#[test]
fn every_byte_of_a_program_without_delegates_is_understood() {
    for case in cases(&golden()) {
        let found = scanned(&bytes(&golden().join(&case.path)));
        let parts: Vec<_> = found.uninterpreted.into_iter().map(|part| part.member).collect();
        let delegate = |start: u64| {
            let name = |what: &str, at: u64| Some(format!("{what} data at byte {at}"));
            vec![name("delegate", start), name("named", 3328), name("named", 3456)]
        };
        let expected = match case.path.as_str() {
            "delegate.pte" => delegate(2176),
            "delegate-inline.pte" => delegate(432),
            _ => Vec::new(),
        };
        assert_eq!(parts, expected, "{}", case.path);
        assert!(found.unread.is_empty() && found.findings.is_empty(), "{}", case.path);
    }
}

#[test]
fn native_code_for_a_backend_is_found() {
    let mut content = bytes(&golden().join("delegate.pte"));
    content[2176..2180].copy_from_slice(b"\x7fELF");
    assert_eq!(scanned(&content).native, [Some("delegate data at byte 2176".to_owned())]);
}

#[test]
fn bytes_between_the_parts_of_a_file_are_not_understood() {
    let content = bytes(&golden().join("linear.pte"));
    let model = read(&content);
    let last = model.parameters.iter().filter_map(|it| it.tensor.data.file_range());
    assert!(last.count() == 0, "the file is in memory");
    let (mut tried, mut noticed) = (0, 0);
    for place in (0..content.len()).filter(|place| content[*place] == 0) {
        let mut changed = content.clone();
        changed[place] = 0x41;
        let Ok(_) = torch::read_executorch_blob(&blob(&changed), &Limits::default()) else {
            continue;
        };
        tried += 1;
        noticed += usize::from(!scanned(&changed).unread.is_empty());
    }
    // Padding, of which there is little between the parts of tables.
    assert!(noticed > 100 && noticed < tried, "{noticed} of {tried}");
}

#[test]
fn a_changed_file_is_read_or_an_error_in_bounded_memory() {
    let files: Vec<_> = cases(&golden())
        .into_iter()
        .map(|case| (case.path.clone(), bytes(&golden().join(&case.path))))
        .collect();
    let noticed = subject("executorch").mutate(&files, 1);
    assert!(noticed > 1000, "{noticed}");
}

//! ONNX files: their contents, byte-for-byte write-back, and rejected files.
#![expect(clippy::disallowed_methods, reason = "tests read and write files directly")]

pub(crate) mod hostile;

use crate::support;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::facts::{self, Case};
use crate::support::{bytes, facts_of_all, varint};
use lodstone_formats::{Error, ExternalData, Format, OpenOptions, Probe, WriteOptions, onnx};
use lodstone_model::{
    Attribute, AttributeValue, DType, Dialect, Kind, Model, Op, Parameter, Tensor,
};
use lodstone_store::{Blob, Error as StoreError, Links, Location};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/onnx")
}

fn cases() -> Vec<Case> {
    facts::cases(&golden())
}

fn open(path: &Path) -> Result<Model, Error> {
    (onnx::BINARY.read)(&Location::from(path), &OpenOptions::default())
}

fn opened(path: &str) -> Model {
    open(&golden().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn same() -> WriteOptions {
    WriteOptions::default().with_same(true)
}

fn format_of(case: &Case) -> &'static Format {
    if case.format == "onnx" { &onnx::BINARY } else { &onnx::AS_TEXT }
}

/// Returns the files that a model is written to, by name.
fn written(model: &Model, format: &Format, options: &WriteOptions) -> BTreeMap<String, Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let name = format!("model.{}", format.extension);
    format
        .write(model, Location::from(&dir.path().join(name)), options)
        .unwrap_or_else(|error| panic!("{error}"));
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        files.insert(entry.file_name().into_string().unwrap(), bytes(&entry.path()));
    }
    files
}

/// Returns the bytes of a model that is written to one file.
fn encoded(model: &Model, options: &WriteOptions) -> Vec<u8> {
    let mut files = written(model, &onnx::BINARY, options);
    assert_eq!(files.len(), 1);
    files.remove("model.onnx").expect("the model")
}

/// Writes a file to a directory and opens it there.
fn open_in(dir: &Path, file: &[u8]) -> Result<Model, Error> {
    let path = dir.join("model.onnx");
    std::fs::write(&path, file).unwrap();
    open(&path)
}

fn field(number: u64, content: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

/// Returns a model with one tensor of four floats, whose message continues with `elements`.
fn model_with(elements: &[u8]) -> Vec<u8> {
    let tensor = [&[8, 4, 16, 1][..], &field(8, b"w"), elements].concat();
    let graph = [field(2, b"g"), field(5, &tensor)].concat();
    [&[8, 10][..], &field(7, &graph), &field(8, &[16, 21])].concat()
}

/// Returns the `external_data` of a tensor.
fn outside(entries: &[(&str, &str)]) -> Vec<u8> {
    let entry = |(key, value): &(&str, &str)| {
        field(13, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat())
    };
    [entries.iter().flat_map(entry).collect(), vec![14 << 3, 1]].concat()
}

#[test]
fn files_of_onnx_are_read_as_recorded() {
    for case in cases() {
        let model = opened(&case.path);
        assert_eq!(model.format, case.format, "{}", case.path);
        assert_eq!(facts_of_all(&model), case.tensors, "{}", case.path);
        let program = model.programs.into_main().expect("a program");
        assert_eq!(program.dialect, Dialect::Onnx);
        if let Some(operators) = case.operators {
            let kinds = |ops: &[Op]| ops.iter().map(|op| op.kind.clone()).collect::<Vec<_>>();
            let found: Vec<_> = program.blocks.iter().map(|block| kinds(&block.ops)).collect();
            assert_eq!(found, operators, "{}", case.path);
        }
        let interface = (lodstone_schema::conventions(&program).interface)(&program);
        for (found, recorded) in
            [(interface.inputs, case.inputs), (interface.outputs, case.outputs)]
        {
            assert!(recorded.is_none_or(|recorded| recorded == found), "{}", case.path);
        }
    }
}

#[test]
fn a_model_that_was_not_edited_is_written_with_the_same_bytes() {
    for case in cases() {
        let model = opened(&case.path);
        let dir = tempfile::tempdir().unwrap();
        let name = Path::new(&case.path).file_name().expect("a name");
        format_of(&case).write(&model, Location::from(&dir.path().join(name)), &same()).unwrap();
        for file in case.files.keys() {
            let name = Path::new(file).file_name().expect("a name");
            let (was, is) = (bytes(&golden().join(file)), bytes(&dir.path().join(name)));
            assert!(was == is, "{}: {file} differs", case.path);
        }
    }
}

#[test]
fn text_is_what_protobuf_prints_and_reads_back_to_the_same_message() {
    let mut compared = 0;
    for case in cases().into_iter().filter(|case| case.format == "onnx-text") {
        let binary = golden().join(&case.path).with_extension("onnx");
        let text = bytes(&golden().join(&case.path));
        let (from_text, from_binary) = (opened(&case.path), open(&binary).unwrap());
        let printed = written(&from_binary, &onnx::AS_TEXT, &WriteOptions::default());
        let printed = String::from_utf8(printed["model.onnxtxt"].clone()).unwrap();
        assert_eq!(printed, String::from_utf8(text).unwrap(), "{}", case.path);
        assert!(encoded(&from_text, &WriteOptions::default()) == bytes(&binary), "{}", case.path);
        compared += 1;
    }
    assert!(compared > 8);
}

#[test]
fn a_model_in_memory_is_written_with_the_same_bytes() {
    for case in cases().into_iter().filter(|case| case.files.len() == 1 && case.format == "onnx") {
        // Elements that were varints are written as they are in memory.
        if case.path.starts_with("types/") || case.path.starts_with("encodings/") {
            continue;
        }
        let mut model = opened(&case.path);
        model.load().unwrap();
        assert!(encoded(&model, &same()) == bytes(&golden().join(&case.path)), "{}", case.path);
    }
}

#[test]
fn an_edit_leaves_every_other_byte_as_it_was() {
    let path = "encodings/unknown-fields.onnx";
    let mut model = opened(path);
    let program = model.main_mut().expect("a program");
    program.blocks[0].ops[0].kind = "Renamed_".to_owned();
    let (before, after) = (bytes(&golden().join(path)), encoded(&model, &same()));
    let at = |bytes: &[u8], text: &[u8]| {
        bytes.windows(text.len()).position(|window| window == text).expect("the kind")
    };
    let (start, end) = (at(&before, b"Identity"), at(&after, b"Renamed_"));
    assert_eq!(start, end);
    assert_eq!(before[..start], after[..start]);
    assert_eq!(before[start + 8..], after[start + 8..]);

    // A longer one moves the following bytes, and changes the enclosing lengths.
    let program = model.main_mut().expect("a program");
    program.blocks[0].ops[0]
        .attributes
        .push(Attribute { name: "axis".to_owned(), value: AttributeValue::Long(-1) });
    let longer = encoded(&model, &same());
    let kept = |bytes: &[u8]| bytes.windows(4).filter(|window| window == b"kept").count();
    assert_eq!(longer.len(), before.len() + 22);
    assert_eq!(kept(&longer), kept(&before));
    let again = open_in(tempfile::tempdir().unwrap().path(), &longer).unwrap();
    let op = &again.main().expect("a program").blocks[0].ops[0];
    assert_eq!(op.attribute("axis"), Some(&AttributeValue::Long(-1)));
    assert_eq!(op.kind, "Renamed_");
}

#[test]
fn unknown_fields_go_through_text() {
    let model = opened("encodings/unknown-fields.onnx");
    let text = &written(&model, &onnx::AS_TEXT, &WriteOptions::default())["model.onnxtxt"];
    let text = String::from_utf8_lossy(text);
    for said in ["2000: \"kept\"", "2002: 0x64636261", "2004 {\n      1: 7\n    }"] {
        assert!(text.contains(said), "{text}");
    }
    let dir = tempfile::tempdir().unwrap();
    let again = open_in(dir.path(), text.as_bytes()).unwrap();
    let binary = encoded(&again, &WriteOptions::default());
    assert!(binary == bytes(&golden().join("encodings/unknown-fields.onnx")));
}

#[test]
fn an_edited_tensor_is_written_anew_and_the_others_are_not() {
    let mut model = opened("types/typed.onnx");
    let changed = model.parameters.iter_mut().find(|p| p.name == "w_int64").expect("a tensor");
    changed.tensor = Tensor::dense(DType::Int64, vec![2], Blob::memory(vec![1; 16]));
    let dir = tempfile::tempdir().unwrap();
    let again = open_in(dir.path(), &encoded(&model, &same())).unwrap();
    let mut expected = facts_of_all(&opened("types/typed.onnx"));
    let changed = expected.iter_mut().find(|facts| facts.name == "w_int64").expect("a tensor");
    (changed.shape, changed.sha256) = (vec![2], Some(support::sha256(&[1; 16])));
    assert_eq!(facts_of_all(&again), expected);
}

#[test]
fn decoded_values_can_be_read_in_any_order() {
    let model = opened("types/large-varints.onnx");
    let data = &model.parameters[0].tensor.data;
    let whole = data.read().unwrap();
    let mut random = support::Random::new(3);
    for _ in 0..200 {
        let start = random.below(whole.len());
        let end = start + random.below(whole.len() - start + 1).min(40_000);
        let mut part = vec![0; end - start];
        data.read_at(start as u64, &mut part).unwrap();
        assert!(part == whole[start..end], "{start}..{end}");
    }
}

#[test]
fn elements_go_to_other_files_and_come_back() {
    let model = opened("external/one.onnx");
    let facts = facts_of_all(&model);
    let inside = encoded(&model, &WriteOptions::default());
    for (how, files) in [(ExternalData::One, 2), (ExternalData::Each, 3), (ExternalData::Inside, 1)]
    {
        let dir = tempfile::tempdir().unwrap();
        let options = WriteOptions::default().with_external_data(Some(how));
        let path = dir.path().join("new/model.onnx");
        std::fs::create_dir(dir.path().join("new")).unwrap();
        let found = onnx::BINARY.write(&model, &path, &options).unwrap().files;
        assert_eq!(found.len(), files, "{how:?}");
        let again = open(&path).unwrap();
        assert_eq!(facts_of_all(&again), facts, "{how:?}");
        assert!(encoded(&again, &WriteOptions::default()) == inside, "{how:?}");
        // Small tensors stay inside, the others are aligned.
        for Parameter { tensor, .. } in &again.parameters {
            let (file, offset) = tensor.data.file_range().expect("a range of a file");
            let outside = how != ExternalData::Inside && tensor.data.len() >= 1024;
            assert_eq!(file.path() != path, outside, "{how:?}");
            assert!(!outside || offset % 64 == 0);
        }
    }
    let aligned =
        WriteOptions::default().with_external_data(Some(ExternalData::One)).with_align(4096);
    assert_eq!(written(&model, &onnx::BINARY, &aligned)["model.onnx.data"].len(), 2 * 4096 + 8192);
}

#[test]
fn models_in_one_directory_keep_their_elements_apart() {
    let dir = tempfile::tempdir().unwrap();
    let model = opened("external/one.onnx");
    let mut other = model.clone();
    for Parameter { tensor, .. } in &mut other.parameters {
        let len = usize::try_from(tensor.data.len()).unwrap();
        tensor.data = Blob::memory(vec![7; len]);
    }
    let models = [("a.onnx", &model), ("b.onnx", &other)];
    for how in [ExternalData::One, ExternalData::Each] {
        let options = WriteOptions::default().with_external_data(Some(how));
        for (name, model) in models {
            onnx::BINARY.write(model, Location::from(&dir.path().join(name)), &options).unwrap();
        }
        for (name, model) in models {
            let again = open(&dir.path().join(name)).unwrap();
            assert_eq!(facts_of_all(&again), facts_of_all(model), "{name}, {how:?}");
        }
    }
}

#[test]
fn an_edited_model_keeps_its_elements_in_the_files_where_they_were() {
    let mut model = opened("external/one.onnx");
    model.parameters[0].tensor.data = Blob::memory(vec![7; 4800]);
    let files = written(&model, &onnx::BINARY, &same());
    assert_eq!(files.keys().collect::<Vec<_>>(), ["model.onnx", "one.data"]);
    let dir = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, file)| std::fs::write(dir.path().join(name), file).unwrap());
    let again = open(&dir.path().join("model.onnx")).unwrap();
    assert_eq!(facts_of_all(&again), facts_of_all(&model));
}

#[test]
fn a_model_opens_without_its_elements_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("one.onnx");
    std::fs::copy(golden().join("external/one.onnx"), &path).unwrap();
    let model = open(&path).unwrap();
    assert!(model.report.warnings[0].contains("`one.data`"), "{:?}", model.report.warnings);
    let absent = |p: &&Parameter| matches!(p.tensor.kind, Kind::Absent);
    assert_eq!(model.parameters.iter().filter(absent).count(), 2);
    let options = WriteOptions::default();
    let error = onnx::BINARY
        .write(&model, Location::from(&dir.path().join("x.onnx")), &options)
        .unwrap_err();
    assert!(error.to_string().contains("whose elements are missing"), "{error}");
    assert!(encoded(&model, &same()) == bytes(&path));
}

#[test]
fn duplicate_metadata_is_reported() {
    let entry = |value: &[u8]| field(14, &[field(1, b"key"), field(2, value)].concat());
    let dir = tempfile::tempdir().unwrap();
    let once = open_in(dir.path(), &[model_with(&[]), entry(b"one")].concat()).unwrap();
    assert!(once.report.warnings.is_empty(), "{:?}", once.report.warnings);
    let twice = [model_with(&[]), entry(b"one"), entry(b"two")].concat();
    let model = open_in(dir.path(), &twice).unwrap();
    assert_eq!(model.metadata["key"], "two");
    let expected = "`metadata_props` has duplicate keys, of which the last is used: `key`";
    assert_eq!(model.report.warnings, [expected]);
}

#[test]
fn external_data_never_leaves_the_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("model");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(scratch.path().join("secret"), [1; 64]).unwrap();
    std::os::unix::fs::symlink("../secret", dir.join("link")).unwrap();
    std::fs::hard_link(scratch.path().join("secret"), dir.join("hard")).unwrap();
    for location in
        ["../secret", "a/../../secret", "/etc/hostname", "link", "hard", "..\\secret", "C:\\x", ""]
    {
        let error = open_in(&dir, &model_with(&outside(&[("location", location)]))).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("leads out") || text.contains("location"), "{location}: {text}");
    }
    // With `Links::Follow`, links may lead out.
    let trusting = OpenOptions::default().with_links(Links::Follow);
    for location in ["link", "hard"] {
        std::fs::write(dir.join("model.onnx"), model_with(&outside(&[("location", location)])))
            .unwrap();
        let model =
            (onnx::BINARY.read)(&Location::from(dir.join("model.onnx")), &trusting).unwrap();
        assert_eq!(model.parameters[0].tensor.data.len(), 16);
    }
}

#[test]
fn wrong_ranges_of_other_files_are_rejected() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("data"), [0; 32]).unwrap();
    let place = |more: &[(&str, &str)]| {
        let entries = [&[("location", "data")], more].concat();
        open_in(scratch.path(), &model_with(&outside(&entries)))
    };
    assert_eq!(place(&[]).unwrap().parameters[0].tensor.data.len(), 16);
    assert_eq!(place(&[("offset", "16")]).unwrap().parameters[0].tensor.data.len(), 16);
    for entries in [
        &[("offset", "17")][..],
        &[("offset", "18446744073709551615")],
        &[("offset", "-1")],
        &[("length", "15")],
        &[("length", "32")],
        &[("length", "99999999999999999999")],
        &[("offset", "0"), ("offset", "16")],
        &[("location", "other")],
    ] {
        let error = place(entries).unwrap_err();
        let mut inner = &error;
        while let Error::Inside { source, .. } = inner {
            inner = source;
        }
        let malformed = matches!(inner, Error::Store(StoreError::Malformed { .. }));
        assert!(malformed, "{entries:?}: {error}");
    }
}

#[test]
fn elements_that_do_not_fit_their_shape_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let float = 1.5f32.to_le_bytes();
    for (what, elements) in [
        ("raw, one too few", field(9, &[0; 12])),
        ("raw, one byte too many", field(9, &[0; 17])),
        ("floats, one too many", field(4, &float.repeat(5))),
    ] {
        let error = open_in(dir.path(), &model_with(&elements)).unwrap_err();
        assert!(error.to_string().contains("tensor `w`"), "{what}: {error}");
    }
    // Elements in the field of another type are ignored.
    let model = open_in(dir.path(), &model_with(&field(7, &[1, 2, 3, 4]))).unwrap();
    assert!(matches!(model.parameters[0].tensor.kind, Kind::Absent));
}

#[test]
fn a_group_in_a_file_is_not_a_hole() {
    let dir = tempfile::tempdir().unwrap();
    let group = [varint(9 << 3 | 3), vec![8, 0], varint(9 << 3 | 4)].concat();
    let error = open_in(dir.path(), &model_with(&group)).unwrap_err();
    assert!(error.to_string().contains("expected elements of a tensor"), "{error}");
}

#[test]
fn errors_name_the_offset_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = model_with(&field(9, &[0; 16]));
    let graph = [field(2, b"g"), field(11, &field(1, b"\xff"))].concat();
    file.extend([&[0x28, 1][..], &field(7, &graph)].concat());
    let error = open_in(dir.path(), &file).unwrap_err().to_string();
    assert!(error.contains("expected one graph"), "{error}");

    // After elements, which are not read.
    let tensor = [&[8, 4, 16, 1][..], &field(9, &[0; 16])].concat();
    let graph = [field(5, &tensor), field(11, &field(1, b"\xff"))].concat();
    let file = [&[8, 10][..], &field(7, &graph)].concat();
    let error = open_in(dir.path(), &file).unwrap_err().to_string();
    let offset = file.len() - 3;
    assert!(error.contains("variable 0") && error.contains(&offset.to_string()), "{error}");
}

#[test]
fn tensors_alone_become_a_model() {
    let data = Blob::memory(1.5f32.to_le_bytes().repeat(6));
    let tensor = Tensor::dense(DType::Float32, vec![2, 3], data);
    let parameters = vec![Parameter { name: "w".to_owned(), tensor }];
    let model = Model { parameters, ..Model::default() };
    let dir = tempfile::tempdir().unwrap();
    let again = open_in(dir.path(), &encoded(&model, &WriteOptions::default())).unwrap();
    assert_eq!(facts_of_all(&again), facts_of_all(&model));
    let program = again.programs.into_main().expect("a program");
    assert_eq!(program.version, Some(9));
    assert_eq!(program.operator_versions, [(String::new(), 21)]);
}

#[test]
fn other_files_are_not_detected_as_models() {
    let path = Path::new("x");
    let looks = |file: &[u8]| {
        let head = &file[..file.len().min(4096)];
        let probe =
            Probe { path: &Location::from(path), head, len: file.len() as u64, entries: None };
        (onnx::BINARY.detect)(&probe)
    };
    for case in cases() {
        assert!(looks(&bytes(&golden().join(&case.path))), "{}", case.path);
    }
    for other in [&b""[..], b"\x08", b"\x08\x00", b"\x0a\x03abc", b"{\"nodes\": []}", b"PK\x03\x04"]
    {
        assert!(!looks(other), "{}", other.escape_ascii());
    }
}

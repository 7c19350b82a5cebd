//! safetensors: the contents of the files, byte-for-byte write-back, and rejected files.
#![expect(clippy::disallowed_methods, reason = "tests read and write files directly")]
#![expect(clippy::cast_possible_truncation, reason = "truncation is intended")]

pub(crate) mod hostile;

use crate::support;
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::support::counting::peak_of;
use crate::support::facts::{Case, cases};
use crate::support::{blob, bytes, facts_of_all};
use lodstone_formats::{Error, OpenOptions, Probe, WriteOptions, named, safetensors};
use lodstone_model::{DType, Kind, Limits, Lod, Model, Parameter, Tensor};
use lodstone_store::{Error as StoreError, Links, Location, Progress};

/// The memory that a reader may hold beyond the size of a file: tensors and names of the largest one here.
const CONSTANT: usize = 256 << 10;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/safetensors")
}

fn open(path: &Path) -> Result<Model, Error> {
    safetensors::read(&Location::from(path), &OpenOptions::default())
}

fn opened(case: &Case) -> Model {
    open(&golden().join(&case.path)).unwrap_or_else(|error| panic!("{}: {error}", case.path))
}

fn read(file: &[u8]) -> Result<Model, Error> {
    safetensors::read_blob(&blob(file), &Limits::default())
}

fn write(
    model: &Model,
    options: &WriteOptions,
) -> Result<(tempfile::TempDir, Vec<PathBuf>), Error> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    let written = safetensors::FORMAT.write(model, &path, options)?;
    Ok((dir, written.files.iter().map(Location::to_path_buf).collect()))
}

/// Returns the bytes of the single file that `model` is written to.
fn written(model: &Model) -> Vec<u8> {
    let (_dir, files) = write(model, &WriteOptions::default()).unwrap();
    let [file] = files.as_slice() else { panic!("{files:?}") };
    bytes(file)
}

/// Returns a file with this header and this many bytes of elements.
fn file(header: &str, elements: usize) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + elements, 0);
    file
}

fn tensor(name: &str, dtype: DType, shape: &[u64]) -> Parameter {
    let size = dtype.size_of(shape).unwrap() as usize;
    let data = blob(&(0..size).map(|n| n as u8).collect::<Vec<_>>());
    Parameter { name: name.to_owned(), tensor: Tensor::dense(dtype, shape.to_vec(), data) }
}

fn model_of(parameters: Vec<Parameter>) -> Model {
    Model { parameters, ..Model::default() }
}

fn malformed(result: Result<Model, Error>) -> String {
    match result {
        Err(error @ Error::Store(StoreError::Malformed { .. })) => error.to_string(),
        Err(Error::Inside { place, source }) => {
            assert!(matches!(*source, Error::Store(StoreError::Malformed { .. })), "{source}");
            format!("in {place}: {source}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_file_holds_what_the_reference_put_into_it() {
    for case in cases(&golden()) {
        let model = opened(&case);
        assert_eq!(model.format, "safetensors");
        assert_eq!(facts_of_all(&model), case.tensors, "{}", case.path);
        assert!(model.report.warnings.is_empty(), "{:?}", model.report);
    }
}

#[test]
fn metadata_is_what_the_reference_put_into_it() {
    #[derive(serde::Deserialize)]
    struct Index {
        cases: Vec<Metadata>,
    }
    #[derive(serde::Deserialize)]
    struct Metadata {
        path: String,
        #[serde(default)]
        metadata: BTreeMap<String, String>,
    }
    let index: Index = serde_json::from_slice(&bytes(&golden().join("index.json"))).unwrap();
    for case in index.cases {
        assert_eq!(
            open(&golden().join(&case.path)).unwrap().metadata,
            case.metadata,
            "{}",
            case.path
        );
    }
}

#[test]
fn a_file_that_was_not_edited_is_written_back_to_the_same_bytes() {
    for case in cases(&golden()).iter().filter(|case| case.files.len() == 1) {
        let original = bytes(&golden().join(&case.path));
        assert_eq!(written(&opened(case)), original, "{}", case.path);
    }
}

#[test]
fn a_model_from_elsewhere_is_written_as_the_reference_writes_it() {
    for case in cases(&golden()).iter().filter(|case| case.files.len() == 1) {
        let mut model = opened(case);
        // The reference writes several keys in random order, and an empty object.
        let is_random = model.metadata.len() > 1 || case.path == "tied.safetensors";
        if is_random || case.path.contains("metadata-empty") {
            continue;
        }
        model.residual.clear();
        model.parameters.reverse();
        let original = bytes(&golden().join(&case.path));
        assert_eq!(written(&model), original, "{}", case.path);
    }
}

#[test]
fn a_header_with_other_order_spacing_and_padding_is_kept_while_it_matches() {
    let header = "{ \"b\" : {\"shape\":[2],\"data_offsets\":[1,3],\"dtype\":\"U8\"},\n\
                  \"a\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[0,1]},\
                  \"__metadata__\":{\"z\":\"1\",\"a\":\"2\"}}   ";
    let original = file(header, 3);
    let mut model = read(&original).unwrap();
    let names = model.parameters.iter().map(|p| p.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(written(&model), original);
    model.metadata.insert("z".to_owned(), "3".to_owned());
    let edited = written(&model);
    assert!(edited.get(8..).unwrap().starts_with(br#"{"__metadata__":{"a":"2","z":"3"},"a":"#));
    assert_eq!(edited.len() % 8, 3);
    assert_eq!(facts_of_all(&read(&edited).unwrap()), facts_of_all(&model));
}

#[test]
fn every_element_type_of_the_reference_is_read_and_written() {
    let codes = "BOOL F4 F6_E2M3 F6_E3M2 U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ \
                 I16 U16 F16 BF16 I32 U32 F32 C64 F64 I64 U64";
    for code in codes.split_whitespace() {
        let size = |bits: usize| 4 * bits / 8;
        let header = |size: usize| {
            format!(r#"{{"x":{{"dtype":"{code}","shape":[4],"data_offsets":[0,{size}]}}}}"#)
        };
        let fits: Vec<_> = [4, 6, 8, 16, 32, 64]
            .into_iter()
            .filter_map(|bits| read(&file(&header(size(bits)), size(bits))).ok())
            .collect();
        let [model] = fits.as_slice() else { panic!("{code}: {} sizes fit", fits.len()) };
        let mut model = model.clone();
        model.residual.clear();
        let again = read(&written(&model)).unwrap();
        assert_eq!(facts_of_all(&again), facts_of_all(&model), "{code}");
        assert!((safetensors::FORMAT.holds.dtype)(model.parameters[0].tensor.dtype));
    }
}

#[test]
fn a_directory_an_index_and_a_file_are_opened() {
    let sharded = golden().join("sharded");
    let by_directory = open(&sharded).unwrap();
    let by_index = open(&sharded.join("model.safetensors.index.json")).unwrap();
    assert_eq!(facts_of_all(&by_directory), facts_of_all(&by_index));

    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(open(dir.path()), Err(Error::NoModel { .. })));
    let only = dir.path().join("only.safetensors");
    std::fs::copy(golden().join("shapes.safetensors"), &only).unwrap();
    assert_eq!(facts_of_all(&open(dir.path()).unwrap()), facts_of_all(&open(&only).unwrap()));
    std::fs::copy(&only, dir.path().join("second.safetensors")).unwrap();
    assert!(matches!(open(dir.path()), Err(Error::NoModel { .. })));
    std::fs::copy(golden().join("none.safetensors"), dir.path().join("model.safetensors")).unwrap();
    assert!(open(dir.path()).unwrap().parameters.is_empty());
}

#[test]
fn a_model_is_split_by_maximum_size_and_joined_again() {
    let model =
        opened(cases(&golden()).iter().find(|case| case.path == "dtypes.safetensors").unwrap());
    for most in [0, 300, 500, 1000] {
        let options = WriteOptions::default().with_max_shard_size(Some(most));
        let (dir, files) = write(&model, &options).unwrap();
        let (index, shards) = files.split_last().unwrap();
        assert_eq!(index.file_name().unwrap(), "model.safetensors.index.json");
        assert!(shards.len() > 1);
        for (number, shard) in (1..).zip(shards) {
            let name = format!("model-{number:05}-of-{:05}.safetensors", shards.len());
            assert_eq!(shard, &dir.path().join(name));
            let alone = OpenOptions::default().with_as_stored(true);
            let alone = (named("safetensors").unwrap().read)(&Location::from(shard), &alone);
            let tensors = alone.unwrap().parameters.len();
            // One of several files opens with the others.
            let whole = open(shard).unwrap();
            assert_eq!(whole.parameters.len(), model.parameters.len());
            let warnings = &whole.report.warnings;
            assert!(warnings[0].contains("was opened with the other"), "{warnings:?}");
            assert!(tensors == 1 || std::fs::metadata(shard).unwrap().len() <= most);
        }
        let again = open(index).unwrap();
        assert!(again.report.warnings.is_empty());
        let by_name = |model: &Model| {
            let mut facts = facts_of_all(model);
            facts.sort_by(|a, b| a.name.cmp(&b.name));
            facts
        };
        assert_eq!(by_name(&again), by_name(&model));
        assert_eq!(Location::from(dir.path()).list().unwrap().len(), files.len());
    }
    let options = WriteOptions::default().with_max_shard_size(Some(1 << 20));
    assert_eq!(write(&model, &options).unwrap().1.len(), 1);
}

#[test]
fn an_index_is_the_text_that_transformers_writes() {
    let case = cases(&golden()).into_iter().find(|case| case.path == "sharded").unwrap();
    let options = WriteOptions::default().with_max_shard_size(Some(420));
    let (_dir, files) = write(&opened(&case), &options).unwrap();
    let original = bytes(&golden().join("sharded/model.safetensors.index.json"));
    assert_eq!(files.len(), 4);
    assert_eq!(bytes(files.last().unwrap()), original);
    for file in files {
        let original = golden().join("sharded").join(file.file_name().unwrap());
        assert_eq!(bytes(&file), bytes(&original), "{}", file.display());
    }
}

#[test]
fn unsupported_tensors_are_rejected_and_nothing_is_written() {
    let f32 = |name: &str| tensor(name, DType::Float32, &[2]);
    let edited = |edit: fn(&mut Tensor)| {
        let mut parameter = f32("x");
        edit(&mut parameter.tensor);
        vec![parameter]
    };
    let refused = [
        vec![f32("")],
        vec![f32("__metadata__")],
        vec![f32("a"), f32("a")],
        vec![tensor("a", DType::Complex128, &[1])],
        vec![tensor("a", DType::Int4, &[2])],
        vec![tensor("a", DType::Float8E4M3, &[2])],
        vec![tensor("a", DType::Float4E2M1, &[3])],
        edited(|tensor| tensor.shape = vec![3]),
        edited(|tensor| tensor.lod = Lod(vec![vec![0, 2]])),
        edited(|tensor| tensor.kind = Kind::SelectedRows { rows: blob(&[0; 16]), height: 9 }),
        edited(|tensor| tensor.kind = Kind::Vocabulary { tokens: Vec::new() }),
    ];
    for parameters in refused {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.safetensors");
        let result =
            safetensors::FORMAT.write(&model_of(parameters), &path, &WriteOptions::default());
        assert!(matches!(result, Err(Error::Incompatible { .. })), "{result:?}");
        assert_eq!(Location::from(dir.path()).list().unwrap(), []);
    }
}

#[test]
fn a_cancelled_write_or_a_source_that_changed_publishes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source.safetensors");
    std::fs::copy(golden().join("dtypes.safetensors"), &source).unwrap();
    let model = open(&source).unwrap();
    let target = dir.path().join("target.safetensors");

    let progress = Progress::default();
    progress.cancel();
    let options = WriteOptions::default().with_progress(progress);
    let result = safetensors::FORMAT.write(&model, &target, &options);
    assert!(matches!(result, Err(Error::Store(StoreError::Cancelled))), "{result:?}");

    let mut changed = bytes(&source);
    changed.push(0);
    std::fs::write(&source, changed).unwrap();
    let result = safetensors::FORMAT.write(&model, &target, &WriteOptions::default());
    assert!(matches!(result, Err(Error::Store(StoreError::Changed { .. }))), "{result:?}");
    assert_eq!(Location::from(dir.path()).list().unwrap().len(), 1);
}

#[test]
fn a_header_with_a_wrong_size_is_rejected_before_it_is_read() {
    for size in [1 << 63, u64::MAX, 100_000_001, 100_000_000, 200, 0] {
        let mut lying = file(r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#, 1);
        lying[..8].copy_from_slice(&u64::to_le_bytes(size));
        let (result, peak) = peak_of(|| read(&lying));
        let message = malformed(result);
        assert!(message.contains("header"), "{message}");
        assert!(peak < CONSTANT);
    }
}

#[test]
fn an_invalid_header_is_rejected_by_name() {
    let a = r#""a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}"#;
    let with = |more: &str| format!("{{{a},{more}}}");
    let entry = |text: &str| format!(r#"{{"a":{text}}}"#);
    let of = |dtype: &str, shape: &str, offsets: &str| {
        entry(&format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#))
    };
    let deep = "[".repeat(100_000);
    let cases = [
        (with(a), "`a` twice"),
        (with(r#""__metadata__":{},"__metadata__":{}"#), "`__metadata__` twice"),
        (with(r#""__metadata__":{"k":"1","k":"2"}"#), "`k` twice"),
        (with(r#""__metadata__":{"k":1}"#), "expected a string"),
        (with(r#""__metadata__":null"#), "expected an object of strings"),
        (with(r#""b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}"#), "elements from offset 2"),
        (with(r#""b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}"#), "elements from offset 2"),
        (with(r#""b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}"#), "elements from offset 2"),
        (entry(r#"{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}"#), " twice"),
        (entry(r#"{"dtype":"U8","shape":[2],"data_offsets":[0,2],"x":0}"#), "unknown field `x`"),
        (entry(r#"{"dtype":"U8","shape":[2]}"#), "missing field `data_offsets`"),
        (entry(r#"["U8",[2],[0,2]]"#), "expected an object"),
        (of("U9", "[2]", "[0,2]"), "unknown dtype `U9`"),
        (of("U8", "[2.0]", "[0,2]"), "floating point"),
        (of("U8", "[-2]", "[0,2]"), "integer `-2`"),
        (of("U8", "[18446744073709551616]", "[0,2]"), "floating point"),
        (of("U8", "[2]", "[0]"), "length 1"),
        (of("U8", "[2]", "[0,2,4]"), "trailing"),
        (of("U8", "[2]", "[2,0]"), "elements from offset 0"),
        (of("U8", "[3]", "[0,2]"), "the 3 bytes of"),
        (of("F32", "[2]", "[0,2]"), "the 8 bytes of"),
        (of("F4", "[3]", "[0,2]"), "whole bytes"),
        (of("U8", "[9223372036854775808,9223372036854775808]", "[0,2]"), "fits 64 bits"),
        (of("U64", "[9223372036854775808]", "[0,2]"), "fits 64 bits"),
        (of("U8", "[2]", "[0,18446744073709551615]"), "the 2 bytes of"),
        (of("U8", "[1]", "[0,1]"), "found 2 bytes left"),
        (of("U8", "[3]", "[0,3]"), "found 2 bytes left"),
        ("{}".to_owned(), "found 2 bytes left"),
        (format!(" {}", entry("{}")), "begins with `{`"),
        ("[]".to_owned(), "begins with `{`"),
        (format!("{{{a}}}}}"), "trailing characters"),
        (format!("{{{a},}}"), "trailing comma"),
        (format!("{{\"a\":{deep}"), "expected an object"),
        (format!("{{{a},\"\\ud800\":{{}}}}"), "hex escape"),
    ];
    for (header, expected) in cases {
        let message = malformed(read(&file(&header, 2)));
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let mut utf8 = file(&with(r#""bx":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}"#), 2);
    let place = utf8.windows(2).position(|pair| pair == b"bx").unwrap();
    utf8[place] = 0xff;
    malformed(read(&utf8));
}

#[test]
fn an_error_names_the_file_the_offset_and_the_tensor() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.safetensors");
    let text = r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2],"x":0}}"#;
    std::fs::write(&path, file(text, 2)).unwrap();
    let error = open(&path).unwrap_err().to_string();
    let offset = 8 + text.find(r#":0}"#).unwrap() - 1;
    assert!(error.contains(&format!("{}` at offset {offset}", path.display())), "{error}");
    std::fs::write(&path, file(&text.replace(r#","x":0"#, "").replace("[2]", "[3]"), 2)).unwrap();
    let error = open(&path).unwrap_err().to_string();
    assert!(error.starts_with("in tensor `a`: "), "{error}");
}

#[test]
fn directories_and_shards_are_written_back_under_the_names_they_had() {
    let scratch = tempfile::tempdir().unwrap();
    let same = WriteOptions::default().with_same(true);
    let sharded = golden().join("sharded");
    let alone = scratch.path().join("alone");
    std::fs::create_dir(&alone).unwrap();
    std::fs::copy(golden().join("packed.safetensors"), alone.join("x.safetensors")).unwrap();
    for (number, original) in [sharded.clone(), alone].into_iter().enumerate() {
        let model = open(&original).unwrap();
        let copy = scratch.path().join(format!("copy-{number}"));
        let files = safetensors::FORMAT.write(&model, &copy, &same).unwrap().files;
        assert_eq!(files.len(), Location::from(&original).list().unwrap().len());
        assert_eq!(
            Location::from(&copy).list().unwrap(),
            Location::from(&original).list().unwrap()
        );
        for file in files {
            assert!(bytes(file.path()) == bytes(&original.join(file.file_name().unwrap())));
        }
    }
    // An index is written as an index; a single file as a single file.
    let model = open(&sharded.join("model.safetensors.index.json")).unwrap();
    let index = scratch.path().join("other.safetensors.index.json");
    safetensors::FORMAT.write(&model, &index, &same).unwrap();
    assert_eq!(open(&index).unwrap().parameters.len(), model.parameters.len());
    let one = scratch.path().join("one.safetensors");
    let files = safetensors::FORMAT.write(&model, &one, &WriteOptions::default()).unwrap().files;
    assert_eq!(files, [Location::from(&one)]);

    // An edited model does not match the headers.
    let mut model = open(&sharded).unwrap();
    model.metadata.insert("edited".to_owned(), "yes".to_owned());
    let edited = scratch.path().join("edited");
    let files = safetensors::FORMAT.write(&model, &edited, &same).unwrap().files;
    assert_eq!(files.len(), 1);
}

/// Creates a directory with one shard that has the tensor `a`, and an index of this text.
fn indexed(index: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let shard = file(r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#, 2);
    std::fs::create_dir(dir.path().join("model")).unwrap();
    std::fs::write(dir.path().join("outside.safetensors"), &shard).unwrap();
    std::fs::write(dir.path().join("model/s.safetensors"), &shard).unwrap();
    std::fs::write(dir.path().join("model/model.safetensors.index.json"), index).unwrap();
    dir
}

#[test]
fn a_name_in_an_index_that_leads_out_of_its_directory_is_refused() {
    let outside = tempfile::NamedTempFile::new().unwrap();
    let names = [
        "../outside.safetensors",
        "x/../../outside.safetensors",
        "..\\\\outside.safetensors",
        outside.path().to_str().unwrap(),
        "C:\\\\x",
        "",
        "a\\u0000b",
        "link.safetensors",
        "dir/outside.safetensors",
    ];
    for name in names {
        let dir = indexed(&format!(r#"{{"metadata":{{}},"weight_map":{{"a":"{name}"}}}}"#));
        let model = dir.path().join("model");
        symlink("../outside.safetensors", model.join("link.safetensors")).unwrap();
        symlink("..", model.join("dir")).unwrap();
        let Err(Error::Inside { source, .. }) = open(&model) else { panic!("{name}") };
        let escapes = matches!(*source, Error::Store(StoreError::Escapes { .. }));
        assert!(escapes, "{name}: {source}");
        let options = OpenOptions::default().with_links(Links::Follow);
        let followed = name.starts_with("link") || name.starts_with("dir");
        assert_eq!(
            safetensors::read(&Location::from(&model), &options).is_ok(),
            followed,
            "{name}"
        );
    }
}

#[test]
fn an_invalid_index_is_rejected() {
    let json = [
        r#"{"weight_map":{"a":"s.safetensors","a":"s.safetensors"}}"#,
        r#"{"weight_map":{"a":"s.safetensors"},"weight_map":{}}"#,
        r#"{"metadata":{},"metadata":{},"weight_map":{"a":"s.safetensors"}}"#,
        r#"{"metadata":{}}"#,
        r#"{"weight_map":{"a":1}}"#,
        r#"{"weight_map":[["a","s.safetensors"]]}"#,
        r#"["a"]"#,
        "",
    ];
    for index in json {
        let dir = indexed(index);
        let result = open(&dir.path().join("model"));
        assert!(matches!(result, Err(Error::Json { .. })), "{index}: {result:?}");
    }
    let absent = indexed(r#"{"weight_map":{"a":"t.safetensors"}}"#);
    let message = open(&absent.path().join("model")).unwrap_err().to_string();
    assert!(message.contains("t.safetensors"), "{message}");
    let elsewhere = indexed(r#"{"weight_map":{"b":"s.safetensors"}}"#);
    let message = malformed(open(&elsewhere.path().join("model")));
    assert!(message.contains("a tensor `b`, which the index maps to this file"), "{message}");
}

#[test]
fn a_tensor_that_an_index_lacks_is_read_with_a_warning() {
    let dir = indexed(r#"{"weight_map":{"b":"t.safetensors","c":"s.safetensors"},"new":1}"#);
    let entry = |name: &str, at: usize| {
        format!(r#""{name}":{{"dtype":"U8","shape":[1],"data_offsets":[{at},{}]}}"#, at + 1)
    };
    let shard = |names: &[&str]| {
        let entries: Vec<_> = names.iter().enumerate().map(|(at, name)| entry(name, at)).collect();
        file(&format!("{{{}}}", entries.join(",")), names.len())
    };
    std::fs::write(dir.path().join("model/s.safetensors"), shard(&["a", "b", "c"])).unwrap();
    std::fs::write(dir.path().join("model/t.safetensors"), shard(&["a", "b"])).unwrap();
    let model = open(&dir.path().join("model")).unwrap();
    let names: Vec<_> = model.parameters.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["a", "c", "b"]);
    let warnings = model.report.warnings.join("\n");
    assert!(warnings.contains("unknown key `new`"), "{warnings}");
    assert!(warnings.contains("in the files but not in the index: 1"), "{warnings}");
    assert!(
        warnings.contains("belong to another file according to the index, skipped: 2"),
        "{warnings}"
    );
}

#[test]
fn one_file_under_many_names_of_an_index_is_refused() {
    for alias in ["./s.safetensors", ".//s.safetensors", "link.safetensors"] {
        let index = format!(r#"{{"weight_map":{{"a":"s.safetensors","b":"{alias}"}}}}"#);
        let dir = indexed(&index);
        let two = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#;
        std::fs::write(dir.path().join("model/s.safetensors"), file(two, 2)).unwrap();
        symlink("s.safetensors", dir.path().join("model/link.safetensors")).unwrap();
        let error = open(&dir.path().join("model")).unwrap_err().to_string();
        assert!(error.contains("a file that the index lists once"), "{alias}: {error}");
    }
}

#[test]
fn files_are_detected_by_content_indexes_by_name_and_directories_by_their_files() {
    let claims = |path: &Path, head: &[u8]| {
        let entries = path.is_dir().then(|| Location::from(path).list().unwrap());
        let (len, entries) = (head.len() as u64, entries.as_deref());
        (safetensors::FORMAT.detect)(&Probe { path: &Location::from(path), head, len, entries })
    };
    for case in cases(&golden()) {
        let path = golden().join(&case.path);
        let head = if path.is_dir() { Vec::new() } else { bytes(&path) };
        assert!(claims(&path, &head), "{}", case.path);
    }
    assert!(claims(Path::new("x.safetensors.index.json"), b"\n {\"weight_map\": {}}"));
    assert!(!claims(Path::new("x.json"), b"{\"weight_map\": {}}"));
    assert!(!claims(Path::new("x.safetensors"), b""));
    for case in cases(&support::golden()) {
        for file in case.files.keys() {
            let path = support::golden().join(file);
            assert!(!claims(&path, &bytes(&path)), "{file}");
        }
    }
}

#[test]
fn an_index_cut_anywhere_is_refused() {
    let path = golden().join("sharded/model.safetensors.index.json");
    let whole = bytes(&path);
    let dir = indexed("");
    // The line feed at the end is optional.
    for end in 0..whole.len() - 1 {
        std::fs::write(dir.path().join("model/model.safetensors.index.json"), &whole[..end])
            .unwrap();
        let result = open(&dir.path().join("model"));
        assert!(matches!(result, Err(Error::Json { .. })), "cut at {end}: {result:?}");
    }
}

/// Returns the header of a file.
fn header(file: &[u8]) -> serde_json::Value {
    let (size, rest) = file.split_first_chunk::<8>().unwrap();
    serde_json::from_slice(&rest[..u64::from_le_bytes(*size) as usize]).unwrap()
}

#[test]
fn tensors_that_share_bytes_are_stored_once_and_read_under_all_their_names() {
    let torch = golden().join("../torch/views.pt");
    let read = |path: &Path, format: &str| {
        (named(format).unwrap().read)(&Location::from(path), &OpenOptions::default()).unwrap()
    };
    let model = read(&torch, "torch");
    let (_dir, files) = write(&model, &WriteOptions::default()).unwrap();
    let stored = header(&bytes(&files[0]));
    let metadata = serde_json::json!({"format": "pt", "tied": "base"});
    assert_eq!(stored["__metadata__"], metadata);
    // Other elements, or a part of them.
    for name in ["base", "transposed", "sliced"] {
        assert!(stored.get(name).is_some(), "{stored}");
    }
    assert_eq!(stored.get("tied"), None);
    let again = open(&files[0]).unwrap();
    let sorted = |model: &Model| {
        let mut facts = facts_of_all(model);
        facts.sort_by(|a, b| a.name.cmp(&b.name));
        facts
    };
    assert_eq!(sorted(&again), sorted(&model));
    assert_eq!(
        again.metadata.clone().into_iter().collect::<Vec<_>>(),
        [("format".into(), "pt".into())]
    );
    // Back again.
    let dir = tempfile::tempdir().unwrap();
    let back = dir.path().join("back.pt");
    named("torch").unwrap().write(&again, &back, &WriteOptions::default()).unwrap();
    let back = read(&back, "torch");
    let place = |name: &str| back.parameter(name).unwrap().data.file_range().unwrap().1;
    assert_eq!(place("base"), place("tied"));
    assert_ne!(place("base"), place("permuted"));
}

#[test]
fn tensors_that_share_bytes_are_stored_repeatedly_on_request() {
    let model = open(&golden().join("tied.safetensors")).unwrap();
    let (_dir, files) = write(&model, &WriteOptions::default().with_repeats(true)).unwrap();
    let stored = header(&bytes(&files[0]));
    assert!(stored.get("head.weight").is_some() && stored.get("alias.weight").is_some());
    assert_eq!(stored["__metadata__"], serde_json::json!({"format": "pt"}));
}

#[test]
fn only_names_without_a_tensor_that_map_to_a_tensor_are_aliases() {
    let header = r#"{"__metadata__":{"format":"a","b":"a","c":"b","d":"none","e":"a"},
        "a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
        "b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.safetensors");
    std::fs::write(&path, file(header, 2)).unwrap();
    let model = open(&path).unwrap();
    let names: Vec<_> = model.parameters.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "e"]);
    let left: Vec<_> = model.metadata.keys().map(String::as_str).collect();
    assert_eq!(left, ["b", "d", "format"]);
    assert_eq!(written(&model), bytes(&path));
    let options = OpenOptions::default().with_as_stored(true);
    let stored = safetensors::read(&Location::from(&path), &options).unwrap();
    assert_eq!((stored.parameters.len(), stored.metadata.len()), (2, 5));
}

#[test]
fn an_alias_that_is_edited_or_removed_is_not_recorded() {
    let mut model = open(&golden().join("tied.safetensors")).unwrap();
    model.parameters.retain(|parameter| parameter.name != "head.bias");
    let weight = model.parameters.iter_mut().find(|it| it.name == "head.weight").unwrap();
    weight.tensor.data = lodstone_store::Blob::memory(vec![1; 60]);
    let stored = header(&written(&model));
    let metadata = serde_json::json!({"format": "pt", "embedding.weight": "alias.weight"});
    assert_eq!(stored["__metadata__"], metadata);
    assert!(stored.get("head.weight").is_some() && stored.get("head.bias").is_none());
}

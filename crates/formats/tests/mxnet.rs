//! MXNet files: their contents, byte-for-byte write-back, and unusual and invalid files.
#![expect(clippy::disallowed_methods, reason = "tests read and write files directly")]

pub(crate) mod hostile;

use crate::support;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::facts::{self, Case};
use crate::support::{blob, bytes, facts_of_all};
use lodstone_formats::{
    FORMATS, OpenOptions, Result, WriteOptions, mxnet, mxnet::params, mxnet::symbol,
};
use lodstone_model::{AttributeValue, DType, Kind, Limits, Model, Op, Parameter, Program, Tensor};
use lodstone_schema::conventions;
use lodstone_store::{Blob, Location};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mxnet")
}

fn cases() -> Vec<Case> {
    facts::cases(&golden())
}

fn open(case: &Case) -> Model {
    mxnet::open(&Location::from(&golden().join(&case.path)), &OpenOptions::default())
        .unwrap_or_else(|error| panic!("{}: {error}", case.path))
}

fn write(model: &Model, format: &str, path: &Path, same: bool) -> Result<Vec<PathBuf>> {
    let format = FORMATS.iter().find(|known| known.name == format).expect("a format");
    let options = WriteOptions::default().with_same(same);
    let written = format.write(model, path, &options)?;
    Ok(written.files.iter().map(Location::to_path_buf).collect())
}

#[test]
fn every_file_holds_what_the_framework_put_into_it() {
    for case in cases() {
        let model = open(&case);
        assert_eq!(model.format, case.format, "{}", case.path);
        assert_eq!(facts_of_all(&model), case.tensors, "{}", case.path);
        for Parameter { name, tensor } in &model.parameters {
            assert_eq!(tensor.broken_indices().unwrap(), None, "{}: {name}", case.path);
        }
    }
}

#[test]
fn every_program_has_its_operators_variables_and_outputs() {
    let mut programs = 0;
    for case in cases() {
        let Some(outputs) = &case.outputs else { continue };
        let program = open(&case).programs.into_main().expect("a program");
        let interface = (conventions(&program).interface)(&program);
        // If MXNet gives several outputs the same name, all but the first have a number.
        let named = |name: &&str| name.trim_end_matches(".1").to_owned();
        assert_eq!(&interface.outputs.iter().map(named).collect::<Vec<_>>(), outputs);
        if let Some(inputs) = &case.inputs {
            assert_eq!(&interface.inputs, inputs, "{}", case.path);
        }
        let mut variables: Vec<_> =
            program.blocks[0].vars.iter().map(|var| var.name.clone()).collect();
        variables.sort();
        let mut expected = case.variables.clone().expect("variables");
        expected.dedup();
        assert_eq!(variables, expected, "{}", case.path);
        if let Some(operators) = &case.operators {
            let kinds = |block: &lodstone_model::Block| {
                block.ops.iter().map(|op| op.kind.clone()).collect::<Vec<_>>()
            };
            let found: Vec<_> = program.blocks.iter().map(kinds).collect();
            assert_eq!(&found, operators, "{}", case.path);
        }
        assert_eq!((conventions(&program).unknown_operators)(&program), [], "{}", case.path);
        programs += 1;
    }
    assert!(programs >= 12);
}

#[test]
fn old_programs_are_upgraded_as_by_mxnet() {
    let texts = |attributes: &[lodstone_model::Attribute]| -> BTreeMap<String, String> {
        let text = |value: &AttributeValue| match value {
            AttributeValue::String(text) => text.to_string(),
            other => panic!("{other:?}"),
        };
        attributes.iter().map(|a| (a.name.clone(), text(&a.value))).collect()
    };
    let case = cases().into_iter().find(|case| case.upgraded.is_some()).expect("an old program");
    let program = open(&case).programs.into_main().unwrap();
    for (name, expected) in case.upgraded.unwrap() {
        let block = &program.blocks[0];
        let var = block.vars.iter().find(|var| var.name == name).map(|var| &var.attributes);
        let op = block.ops.iter().find(|op| op.name == name).map(|op| &op.attributes);
        assert_eq!(texts(var.or(op).expect("a node")), expected, "{name}");
    }
}

#[test]
fn what_is_written_back_is_byte_for_byte_what_was_read() {
    let scratch = tempfile::tempdir().unwrap();
    for (number, case) in cases().iter().enumerate() {
        let model = open(case);
        let out = scratch.path().join(number.to_string());
        for file in write(&model, &model.format, &out, true).unwrap() {
            let inside = file.strip_prefix(&out).ok().filter(|name| *name != Path::new(""));
            let original = match inside {
                Some(name) => golden().join(&case.path).join(name),
                None => golden().join(&case.path),
            };
            if bytes(&original).starts_with(b"PK") {
                // An archive is written back with stored members.
                let back = params::read(&Location::from(&file), &OpenOptions::default()).unwrap();
                assert_eq!(facts_of_all(&back), case.tensors, "{}", case.path);
            } else {
                assert!(bytes(&file) == bytes(&original), "{}", file.display());
            }
        }
    }
}

#[test]
fn newly_written_files_have_the_same_contents() {
    let scratch = tempfile::tempdir().unwrap();
    for (number, case) in cases().iter().enumerate() {
        let model = open(case);
        let out = scratch.path().join(number.to_string());
        let numpy = model.parameters.iter().any(|p| p.tensor.shape.is_empty());
        let sparse = |p: &Parameter| !matches!(p.tensor.kind, Kind::Dense);
        let mixed = numpy && model.parameters.iter().any(sparse);
        for format in ["mxnet-params", "mxnet-npz"] {
            let named = model.parameters.iter().all(|parameter| !parameter.name.is_empty());
            if model.parameters.is_empty() || mixed || (format == "mxnet-npz" && !named) {
                continue;
            }
            let file = out.with_extension(format);
            write(&model, format, &file, false).unwrap();
            let back = params::read(&Location::from(&file), &OpenOptions::default()).unwrap();
            assert_eq!(back.format, format);
            assert_eq!(facts_of_all(&back), case.tensors, "{} as {format}", case.path);
        }
        if let Some(program) = model.main() {
            let text = symbol::write(program, false).unwrap();
            let back = symbol::read(&Blob::memory(text.clone()), &Limits::default()).unwrap();
            // Programs of current releases are written as MXNet does.
            let symbol = case.files.keys().find(|name| name.ends_with(".json")).unwrap();
            let original = bytes(&golden().join(symbol));
            let merged = case.path.ends_with("shared-symbol.json");
            if program.version >= Some(10_901) && !merged {
                assert!(text == original, "{}", case.path);
            }
            assert_eq!(unmarked(back).blocks, unmarked(program.clone()).blocks, "{}", case.path);
        }
    }
}

/// Returns a program in a fixed order, without properties that depend on the parameters beside it.
fn unmarked(mut program: Program) -> Program {
    for block in &mut program.blocks {
        block.vars.sort_by(|a, b| a.name.cmp(&b.name));
        for var in &mut block.vars {
            (var.persistable, var.is_parameter) = (false, false);
            var.attributes.sort_by(|a, b| a.name.cmp(&b.name));
        }
        for op in &mut block.ops {
            op.attributes.sort_by(|a, b| a.name.cmp(&b.name));
        }
    }
    program
}

#[test]
fn of_several_epochs_the_last_is_opened_unless_another_is_named() {
    let directory = golden().join("1.9.1/module");
    let weight = |path: &Path, params: Option<&str>| {
        let params = params.map(|params| directory.join(params).into());
        let options = OpenOptions::default().with_params(params);
        let model = mxnet::open(&Location::from(path), &options).unwrap();
        let tensor = model.parameter("arg:fc1_weight").unwrap();
        (tensor.data.bytes().unwrap().to_vec(), model.report.warnings)
    };
    let symbol = directory.join("net-symbol.json");
    let (last, warnings) = weight(&symbol, None);
    assert!(warnings[0].contains("`net-0012.params` was opened"), "{warnings:?}");
    for path in [&directory, &directory.join("net"), &directory.join("net-0012.params")] {
        assert!(weight(path, None).0 == last, "{}", path.display());
    }
    let (first, warnings) = weight(&symbol, Some("net-0001.params"));
    assert!(first != last && warnings.is_empty(), "{warnings:?}");
}

#[test]
fn parameters_of_another_program_are_an_error_and_missing_ones_are_named() {
    let symbol = golden().join("1.9.1/module/net-symbol.json");
    let with = |params: &str| {
        let params = Some(golden().join(params).into());
        mxnet::open(&Location::from(&symbol), &OpenOptions::default().with_params(params))
    };
    let error = with("1.9.1/dict.params").unwrap_err().to_string();
    assert!(error.contains("it has none of `c1_weight`"), "{error}");

    let scratch = tempfile::tempdir().unwrap();
    let mut model = with("1.9.1/module/net-0001.params").unwrap();
    model.parameters.retain(|parameter| parameter.name != "arg:fc1_bias");
    let error = write(&model, "mxnet", &scratch.path().join("x"), false).unwrap_err().to_string();
    assert!(error.contains("without its parameters `fc1_bias`"), "{error}");
    let params = scratch.path().join("less.params");
    write(&model, "mxnet-params", &params, false).unwrap();
    let less = with(params.to_str().unwrap()).unwrap();
    assert_eq!(less.report.warnings, ["parameters of the program were not found: `fc1_bias`"]);
}

#[test]
fn parameters_of_a_block_beside_a_program_are_reported_and_ignored() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    std::fs::copy(golden().join("1.9.1/module/net-symbol.json"), at("net-symbol.json")).unwrap();
    std::fs::copy(golden().join("1.9.1/names.params"), at("net.params")).unwrap();
    let model = mxnet::open(&Location::from(scratch.path()), &OpenOptions::default()).unwrap();
    assert_eq!((model.format.as_str(), model.parameters.len()), ("mxnet-symbol", 0));
    let told = model.report.warnings.join("; ");
    assert!(told.contains("do not fit the program: it has none of `c1_weight`"), "{told}");
    let program = model.programs.into_main().unwrap();
    assert_eq!((conventions(&program).interface)(&program).inputs, ["data"]);
    // The program's own parameters may have that name too.
    std::fs::copy(golden().join("1.9.1/module/net-0001.params"), at("net.params")).unwrap();
    let model = mxnet::open(&Location::from(scratch.path()), &OpenOptions::default()).unwrap();
    assert_eq!((model.format.as_str(), model.parameters.len()), ("mxnet", 8));
    let out = at("copy");
    write(&model, "mxnet", &out, true).unwrap();
    assert!(bytes(&out.join("net.params")) == bytes(&at("net.params")));
}

#[test]
fn many_bytes_after_the_names_are_reported_and_not_kept() {
    let mut content = file(&[pair(Some(V2))], &[]);
    let whole = content.len();
    content.resize(whole + (1 << 20) + 1, 7);
    let model = read(&content);
    assert!(model.report.warnings[0].contains("nor does a write-back keep"));
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out.params");
    write(&model, "mxnet-params", &out, true).unwrap();
    assert!(bytes(&out) == content[..whole]);
}

/// Returns a file of records and names.
fn file(records: &[Vec<u8>], names: &[&[u8]]) -> Vec<u8> {
    let mut bytes = [0x112u64, 0, records.len() as u64].map(u64::to_le_bytes).concat();
    bytes.extend(records.concat());
    bytes.extend((names.len() as u64).to_le_bytes());
    for name in names {
        bytes.extend((name.len() as u64).to_le_bytes());
        bytes.extend(*name);
    }
    bytes
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

const V1: u32 = 0xf993_fac8;
const V2: u32 = 0xf993_fac9;
const V3: u32 = 0xf993_faca;

/// Returns a record of one dim that holds 1.5 and 2.5.
fn pair(version: Option<u32>) -> Vec<u8> {
    let mut head = match version {
        None => words(&[1, 2]),
        Some(V1) => words(&[V1, 1, 2, 0]),
        Some(version) => words(&[version, 0, 1, 2, 0]),
    };
    head.extend(words(&[1, 0, 0, 1.5f32.to_bits(), 2.5f32.to_bits()]));
    head
}

/// Returns a scalar 1.5 as written by MXNet 1.5 and newer without NumPy shapes.
fn scalar() -> Vec<u8> {
    words(&[V2, 0, 0, 1, 0, 0, 1.5f32.to_bits()])
}

fn read(bytes: &[u8]) -> Model {
    params::read_blob(&blob(bytes), &Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the shapes of the tensors, and checks the write-back.
fn shapes(bytes: &[u8]) -> Vec<Vec<u64>> {
    let model = read(bytes);
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out.params");
    write(&model, "mxnet-params", &out, true).unwrap();
    assert!(support::bytes(&out) == bytes);
    model.parameters.iter().map(|parameter| parameter.tensor.shape.clone()).collect()
}

#[test]
fn scalars_are_distinguished_from_arrays_that_were_never_filled() {
    let none = words(&[V2, 0, 0]);
    let (one, two): (&'static [u64], &'static [u64]) = (&[], &[2]);
    type Shapes = Vec<&'static [u64]>;
    let cases: Vec<(&str, Vec<Vec<u8>>, Shapes)> = vec![
        ("a scalar", vec![scalar()], vec![one]),
        ("scalars", vec![scalar(), scalar(), scalar()], vec![one; 3]),
        (
            "a scalar before each version",
            vec![
                scalar(),
                pair(Some(V2)),
                scalar(),
                pair(Some(V3)),
                scalar(),
                pair(Some(V1)),
                scalar(),
                pair(None),
            ],
            vec![one, two, one, two, one, two, one, two],
        ),
        ("none", vec![none.clone()], vec![]),
        ("nones", vec![none.clone(), none.clone(), none.clone()], vec![]),
        (
            "none before each version",
            vec![
                none.clone(),
                pair(Some(V2)),
                none.clone(),
                pair(Some(V3)),
                none.clone(),
                pair(Some(V1)),
                none.clone(),
                pair(None),
            ],
            vec![two; 4],
        ),
        (
            "both",
            vec![none.clone(), scalar(), none.clone(), pair(Some(V2)), scalar(), none],
            vec![one, two, one],
        ),
        (
            "none of V0 and V1",
            vec![words(&[0]), pair(None), words(&[V1, 0]), pair(Some(V1)), words(&[0])],
            vec![two; 2],
        ),
        (
            "none of V3",
            vec![words(&[V3, 0, u32::MAX]), words(&[V3, 0, 1, u32::MAX, u32::MAX]), pair(Some(V3))],
            vec![two],
        ),
        ("a scalar of V3", vec![words(&[V3, 0, 0, 1, 0, 4, 7])], vec![one]),
        ("a scalar on a GPU", vec![words(&[V2, 0, 0, 2, 3, 4, 7]), pair(Some(V2))], vec![one, two]),
    ];
    for (what, records, expected) in cases {
        for length in [0, 1, 3, 6, 12] {
            // Names whose sizes look like element types.
            let names: Vec<Vec<u8>> =
                (b'a'..).take(records.len()).map(|letter| vec![letter; length]).collect();
            let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            assert_eq!(shapes(&file(&records, &names)), expected, "{what}, names of {length}");
        }
        assert_eq!(shapes(&file(&records, &[])), expected, "{what}, a list");
    }
}

#[test]
fn many_ambiguous_records_take_no_longer_than_their_bytes() {
    for record in [words(&[V2, 0, 0]), scalar()] {
        let records = vec![record; 200_000];
        let scalars = read(&file(&records, &[])).parameters.len();
        assert!(scalars == 0 || scalars == records.len());
    }
}

#[test]
fn odd_files_are_read_with_a_warning_and_written_back() {
    let pairs = [pair(None), pair(Some(V1)), pair(Some(V2))];
    let warnings = |bytes: &[u8]| {
        shapes(bytes);
        read(bytes).report.warnings.join("; ")
    };
    let again = warnings(&file(&pairs, &[b"a", b"b", b"a"]));
    assert!(again.contains("duplicate names") && again.contains("`a`"), "{again}");
    let foreign = warnings(&file(&pairs, &[b"a", b"\xff\xfe", b"c"]));
    assert!(foreign.contains(r"not UTF-8: `\xff\xfe`"), "{foreign}");
    let mut trailing = file(&pairs, &[]);
    trailing.extend(b"more");
    assert!(warnings(&trailing).contains("4 bytes follow"));
    let mut reserved = file(&pairs, &[]);
    reserved[8] = 7;
    assert_eq!(warnings(&reserved), "");
    assert_eq!(shapes(&file(&pairs, &[b"", b"", b""])).len(), 3);
    // Booleans are read as 0 and 1, and written back unchanged.
    let bools = file(&[words(&[V2, 0, 1, 4, 0, 1, 0, 7, 0x0300_ff01])], &[]);
    shapes(&bools);
    assert_eq!(&*read(&bools).parameters[0].tensor.data.bytes().unwrap(), [1, 1, 0, 1]);
    // Values that were still being computed when they were saved: the indices determine the shape.
    let race = words(&[
        V2,
        1,
        2,
        0,
        0,
        1,
        0,
        2,
        3,
        0,
        1,
        0,
        1,
        0,
        0,
        4,
        1,
        2,
        0,
        1.5f32.to_bits(),
        2.5f32.to_bits(),
        0,
        2,
    ]);
    let model = read(&file(std::slice::from_ref(&race), &[]));
    let tensor = &model.parameters[0].tensor;
    assert_eq!((&*tensor.shape, tensor.stored_shape()), (&[3, 1][..], vec![2, 1]));
    let Kind::RowSparse { indices } = &tensor.kind else { panic!("{}", tensor.kind.name()) };
    assert_eq!((indices.dtype, indices.count()), (DType::Int32, 2));
    shapes(&file(&[race], &[]));
}

#[test]
fn invalid_indices_are_found_on_validation_and_not_written() {
    let csr = |indptr: [u32; 3], columns: [u32; 2]| {
        let mut record = words(&[V2, 2, 1, 2, 0, 2, 2, 0, 3, 0, 1, 0, 0]);
        record.extend(words(&[4, 1, 3, 0, 4, 1, 2, 0, 1.5f32.to_bits(), 2.5f32.to_bits()]));
        record.extend(words(&indptr));
        record.extend(words(&columns));
        file(&[record], &[])
    };
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out.params");
    let cases: [(Vec<u8>, Option<&str>); 6] = [
        (csr([0, 1, 2], [0, 2]), None),
        (csr([0, 1, 2], [0, 3]), Some("column index 1 is 3")),
        (csr([0, 1, 2], [0, u32::MAX]), Some("column index 1 is -1")),
        (csr([0, 2, 1], [0, 1]), Some("offset 2 is 1, after 2")),
        (csr([1, 1, 2], [0, 1]), Some("offset 0 is 1")),
        (csr([0, 1, 1], [0, 1]), Some("the offsets end at 1, expected 2")),
    ];
    for (bytes, broken) in cases {
        let model = read(&bytes);
        let found = model.parameters[0].tensor.broken_indices().unwrap();
        assert_eq!(found.is_some(), broken.is_some());
        assert!(found.unwrap_or_default().contains(broken.unwrap_or_default()));
        shapes(&bytes);
        assert_eq!(write(&model, "mxnet-params", &out, false).is_ok(), broken.is_none());
    }
}

#[test]
fn malformed_files_are_errors_with_an_offset() {
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("another magic", file(&[], &[]).iter().map(|b| b ^ 1).collect(), "the magic 0x112"),
        ("arrays", [0x112, 0, 1 << 60].map(u64::to_le_bytes).concat(), "at most 0 arrays"),
        ("dims", file(&[words(&[V2, 0, 65]), vec![0; 65 * 8]], &[]), "0 to 64 dims"),
        ("negative dims", file(&[words(&[V2, 0, u32::MAX])], &[]), "a number of dims"),
        ("a negative dim", file(&[words(&[V2, 0, 1, 3, u32::MAX, 1, 0, 0])], &[]), "a dim of 0"),
        ("a product", file(&[words(&[V2, 0, 2, 0, 1, 0, 1, 1, 0, 0, 0])], &[]), "a size that fits"),
        (
            "a larger product",
            file(&[words(&[V2, 0, 2, 0, 1 << 30, 0, 1 << 30, 1, 0, 0])], &[]),
            "a size that fits",
        ),
        (
            "a type",
            file(&[words(&[V2, 0, 1, 1, 0, 1, 0, 13, 0])], &[]),
            "an element type of 0 to 12",
        ),
        ("a storage", file(&[words(&[V2, 3, 1, 1, 0, 1, 0, 0, 0])], &[]), "storage type 0"),
        (
            "a sparse V3",
            file(&[words(&[V3, 1, 1, 1, 0, 1, 0, 0, 0])], &[]),
            "storage type 0 (dense)",
        ),
        ("a version", file(&[words(&[0xf993_facb, 0, 1])], &[]), "the magic of a record"),
        ("names", [&file(&[pair(None)], &[])[..52], &words(&[2, 0])].concat(), "no names or 1"),
        (
            "a name",
            [&file(&[pair(None)], &[])[..52], &words(&[1, 0, 9, 1 << 30])].concat(),
            "a name",
        ),
        (
            "values",
            file(&[words(&[V2, 1, 1, 9, 0, 1, 3, 0, 1, 0, 0, 6, 1, 1, 0, 0, 0, 0])], &[]),
            "according to the indices",
        ),
        (
            "CSR of one dim",
            file(&[words(&[V2, 2, 1, 0, 0, 1, 3, 0, 1, 0, 0, 6, 1, 0, 0, 6, 1, 0, 0])], &[]),
            "two dims",
        ),
        (
            "float indices",
            file(&[words(&[V2, 1, 1, 1, 0, 1, 3, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0])], &[]),
            "indices of type",
        ),
    ];
    for (what, bytes, expected) in cases {
        let error = params::read_blob(&blob(&bytes), &Limits::default());
        let error = error.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("offset"), "{what}: {error}");
    }
}

#[test]
fn arrays_that_mxnet_could_not_load_are_not_written() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out.params");
    let tensor = |dtype, shape: &[u64]| {
        let size = usize::try_from(dtype_size(dtype) * shape.iter().product::<u64>()).unwrap();
        Tensor::dense(dtype, shape.to_vec(), Blob::memory(vec![1; size]))
    };
    let model = |tensors: Vec<(&str, Tensor)>| {
        let named = |(name, tensor): (&str, Tensor)| Parameter { name: name.to_owned(), tensor };
        Model { parameters: tensors.into_iter().map(named).collect(), ..Model::default() }
    };
    let float = || tensor(DType::Float32, &[1]);
    let sparse = open(&cases().into_iter().find(|c| c.path == "1.9.1/sparse.params").unwrap());
    let mut mixed = sparse;
    mixed.parameters.push(Parameter { name: "s".to_owned(), tensor: tensor(DType::Float32, &[]) });
    let refused = [
        (model(vec![("a", float()), ("a", float())]), "two tensors called `a`"),
        (model(vec![("a\0b", float())]), "zero byte"),
        (model(vec![("a", tensor(DType::Complex64, &[1]))]), "complex64"),
        (model(vec![("a", tensor(DType::Float32, &[1; 33]))]), "the 33 dims"),
        (mixed, "different modes"),
    ];
    for (model, expected) in refused {
        let error = write(&model, "mxnet-params", &out, false).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!out.exists());
    }
    // A scalar or an array without elements requires NumPy shapes in the whole file.
    for shape in [&[][..], &[0, 3]] {
        let model = model(vec![("a", float()), ("b", tensor(DType::Float32, shape))]);
        write(&model, "mxnet-params", &out, false).unwrap();
        assert_eq!(bytes(&out)[24..28], V3.to_le_bytes());
        assert_eq!(read(&bytes(&out)).parameters[1].tensor.shape, shape);
    }
}

fn dtype_size(dtype: DType) -> u64 {
    u64::from(dtype.bits().unwrap() / 8)
}

fn symbol(text: &str) -> Result<Program> {
    symbol::read(&blob(text.as_bytes()), &Limits::default())
}

/// Returns a program of the nodes `nodes`, the last of which is its output.
fn graph(nodes: &[String]) -> String {
    let last = nodes.len() - 1;
    format!(r#"{{"nodes": [{}], "arg_nodes": [], "heads": [[{last}, 0, 0]]}}"#, nodes.join(","))
}

fn node(op: &str, name: &str, inputs: &str) -> String {
    format!(r#"{{"op": "{op}", "name": "{name}", "inputs": [{inputs}]}}"#)
}

#[test]
fn an_edited_program_is_written_as_mxnet_would_and_keeps_what_was_not_edited() {
    let case = cases().into_iter().find(|case| case.path == "1.9.1/foreach-symbol.json").unwrap();
    let mut program = open(&case).programs.into_main().unwrap();
    let before = String::from_utf8(bytes(&golden().join(&case.path))).unwrap();
    let op: &mut Op = program.blocks[1].ops.last_mut().unwrap();
    op.kind = "elemwise_sub".to_owned();
    let after = String::from_utf8(symbol::write(&program, true).unwrap().to_vec()).unwrap();
    let changed = before.lines().zip(after.lines()).filter(|(a, b)| a != b).count();
    assert_eq!((changed, before.lines().count()), (1, after.lines().count()));
    let back = symbol(&after).unwrap();
    assert!(back == program);
}

#[test]
fn duplicate_names_are_made_unique() {
    let text = graph(&[
        node("null", "x", ""),
        node("null", "x_output", ""),
        node("relu", "x", "[0,0,0]"),
        node("relu", "x", "[2,0,0]"),
        node("null", "x", ""),
        node("_add", "", "[3,0,0], [4,0,0], [1,0,0]"),
    ]);
    let program = symbol(&text).unwrap();
    let block = &program.blocks[0];
    assert_eq!(block.vars.iter().map(|v| &*v.name).collect::<Vec<_>>(), ["x", "x_output"]);
    let ops: Vec<_> = block.ops.iter().map(|op| (op.input(""), op.output(""))).collect();
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(ops[0], (&*list(&["x"]), &*list(&["x_output.1"])));
    assert_eq!(ops[1], (&*list(&["x_output.1"]), &*list(&["x_output.2"])));
    assert_eq!(ops[2], (&*list(&["x_output.2", "x", "x_output"]), &*list(&["_output"])));
    let back =
        symbol::read(&Blob::memory(symbol::write(&program, false).unwrap()), &Limits::default());
    assert!(back.unwrap().blocks[0].ops == block.ops);
}

#[test]
fn programs_with_dangling_references_are_errors() {
    let (x, relu) = (node("null", "x", ""), |inputs| node("relu", "r", inputs));
    let cases = [
        ("a node behind", graph(&[x.clone(), relu("[2,0,0]"), relu("[0,0,0]")]), "an earlier node"),
        ("itself", graph(&[x.clone(), relu("[1,0,0]")]), "an earlier node"),
        ("no node", graph(&[x.clone(), relu("[99999999999,0,0]")]), "an earlier node"),
        ("a negative node", graph(&[x.clone(), relu("[-1,0,0]")]), "an MXNet program"),
        ("a long entry", graph(&[x.clone(), relu("[0,0,0,0]")]), "an MXNet program"),
        ("a short entry", graph(&[x.clone(), relu("[0]")]), "an MXNet program"),
        ("an output", graph(&[x.clone(), relu("[0,4294967296,0]")]), "existing outputs of nodes"),
        (
            "heads",
            graph(std::slice::from_ref(&x)).replace("[[0, 0, 0]]", "[[1, 0, 0]]"),
            "an earlier node",
        ),
        (
            "arguments",
            graph(&[x.clone(), relu("[0,0,0]")])
                .replace(r#""arg_nodes": []"#, r#""arg_nodes": [1]"#),
            "variables",
        ),
        (
            "rows",
            graph(std::slice::from_ref(&x)).replace("}", r#", "node_row_ptr": [0, 5, 1]}"#),
            "node_row_ptr",
        ),
        ("no nodes", r#"{"heads": []}"#.to_owned(), "an MXNet program"),
        (
            "a number",
            graph(&[x.replace("\"inputs\"", r#""attrs": {"a": 1}, "inputs""#)]),
            "a string as the attribute `a`",
        ),
        ("nothing", String::new(), "an MXNet program"),
    ];
    for (what, text, expected) in cases {
        let error = symbol(&text).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("offset"), "{what}: {error}");
    }
    let rows = |rows: &str| {
        let text = graph(&[x.clone(), relu("[0,0,0]")]);
        symbol(&text.replace("\"heads\"", &format!("\"node_row_ptr\": {rows}, \"heads\"")))
    };
    assert!(rows("[0, 1, 2]").is_ok() && rows("[0, 1, 4]").is_ok());
    for wrong in ["[]", "[0, 1]", "[0, 2, 1]", "[0, 1, 9000000000]", "[0, 0, 1]"] {
        assert!(rows(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn nested_graphs_and_long_names_are_bounded() {
    let mut text = graph(&[node("null", "x", "")]);
    for _ in 0..20 {
        let outer = node("_foreach", "f", "[0,0,0]")
            .replace("\"inputs\"", &format!("\"subgraphs\": [{text}], \"inputs\""));
        text = graph(&[node("null", "x", ""), outer]);
    }
    let program = symbol(&text).unwrap();
    assert_eq!(program.blocks.len(), 21);
    assert_eq!((program.blocks[20].parent, program.blocks[1].parent), (19, 0));
    let written = symbol::write(&program, false).unwrap();
    assert!(symbol::read(&Blob::memory(written), &Limits::default()).unwrap().blocks.len() == 21);
    let deep = "{\"nodes\":[{\"op\":\"f\",\"name\":\"\",\"subgraphs\":[".repeat(100_000);
    assert!(symbol(&deep).is_err());

    let long = "n".repeat(1 << 20);
    assert!(symbol(&graph(&[node("null", &long, ""), node("relu", &long, "[0,0,0]")])).is_ok());
    // Each use would repeat a name of a megabyte.
    let uses = vec!["[0,0,0]"; 100_000].join(",");
    let error = symbol(&graph(&[node("null", &long, ""), node("add_n", "s", &uses)])).unwrap_err();
    assert!(error.to_string().contains("names of at most"), "{error}");
}

#[test]
fn custom_and_unknown_operators_are_reported() {
    let custom = node("Custom", "c", "[0,0,0]")
        .replace("\"inputs\"", r#""attrs": {"op_type": "mine"}, "inputs""#);
    let program =
        symbol(&graph(&[node("null", "x", ""), custom, node("warp", "w", "[1,0,0]")])).unwrap();
    let conventions = conventions(&program);
    assert_eq!((conventions.unknown_operators)(&program), [("", "warp")]);
    let notes = (conventions.notes)(&program);
    assert_eq!(notes, ["operators implemented in Python code outside the model: `mine`"]);
    assert_eq!((conventions.version)(10_901), "1.9.1");
}

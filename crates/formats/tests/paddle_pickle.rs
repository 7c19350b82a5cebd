//! Files of `paddle.save`: their contents, byte-for-byte write-back, and edits.
#![expect(clippy::disallowed_methods, reason = "tests read and write files directly")]
#![expect(clippy::cast_possible_truncation, reason = "golden files are small")]

pub(crate) mod hostile;

use crate::support;
use std::path::PathBuf;

use crate::support::facts::{self, Case};
use crate::support::{Random, blob, bytes, facts_of_all};
use lodstone_formats::{Error, OpenOptions, WriteOptions, paddle, paddle::pickle, paddle::program};
use lodstone_model::{DType, Limits, Model, Parameter, Tensor};
use lodstone_store::{Blob, Derive, Location};
use serde_json::Value;

fn golden() -> PathBuf {
    support::golden().with_file_name("paddle_pickle")
}

fn cases() -> Vec<Case> {
    facts::cases(&golden())
}

/// Returns the facts in `index.json` beyond the tensors: the metadata of each path, and whether the order matters.
fn expected(path: &str) -> (Option<Value>, bool) {
    let index: Value = serde_json::from_slice(&bytes(&golden().join("index.json"))).unwrap();
    let case = index["cases"].as_array().unwrap().iter().find(|case| case["path"] == path).unwrap();
    let metadata = case["metadata"].clone();
    ((!metadata.is_null()).then_some(metadata), case["any_order"] == true)
}

fn read(file: &[u8]) -> Result<Model, Error> {
    pickle::read_blob(&blob(file), &Limits::default())
}

fn opened(path: &str) -> Model {
    paddle::open(&Location::from(&golden().join(path)), &OpenOptions::default())
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn written(model: &Model) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pdparams");
    paddle::PICKLE.write(model, &path, &WriteOptions::default()).unwrap();
    bytes(&path)
}

#[test]
fn every_golden_file_holds_what_was_put_into_it() {
    let all = cases();
    assert!(all.len() > 45, "{}", all.len());
    for case in all {
        let model = opened(&case.path);
        assert_eq!(model.format, "paddle-pickle", "{}", case.path);
        let (metadata, any_order) = expected(&case.path);
        let (mut found, mut wanted) = (facts_of_all(&model), case.tensors);
        if any_order {
            found.sort_by(|a, b| a.name.cmp(&b.name));
            wanted.sort_by(|a, b| a.name.cmp(&b.name));
        }
        assert_eq!(found, wanted, "{}", case.path);
        if let Some(metadata) = metadata {
            let said = model.metadata.iter().map(|(path, value)| {
                (path.clone(), serde_json::from_str::<Value>(value).expect("JSON"))
            });
            assert_eq!(Value::Object(said.collect()), metadata, "{}", case.path);
        }
    }
}

#[test]
fn every_golden_file_is_written_back_byte_for_byte_from_a_file_and_from_memory() {
    for case in cases() {
        let content = bytes(&golden().join(&case.path));
        assert!(written(&opened(&case.path)) == content, "{}", case.path);
        assert!(written(&read(&content).unwrap()) == content, "{} in memory", case.path);
    }
}

#[test]
fn an_edited_pickle_keeps_its_other_objects_and_its_tensors() {
    for case in cases() {
        let mut model = opened(&case.path);
        let Some(first) = model.parameters.first_mut() else { continue };
        // Equal elements from another source count as edited if they are shared, or encoded as
        // strings or in another order.
        first.tensor.data = Blob::memory(first.tensor.data.read().unwrap());
        let tensors = facts_of_all(&model);
        let back = read(&written(&model)).unwrap();
        assert_eq!(facts_of_all(&back), tensors, "{}", case.path);
        assert_eq!(back.metadata, model.metadata, "{}", case.path);

        // Another element type for the last tensor, so the pickle is newly written.
        let mut model = opened(&case.path);
        let last = model.parameters.last_mut().unwrap();
        let zeros = vec![0; last.tensor.shape.iter().product::<u64>() as usize];
        last.tensor = Tensor::dense(DType::Uint8, last.tensor.shape.clone(), blob(&zeros));
        let tensors = facts_of_all(&model);
        let back = read(&written(&model)).unwrap();
        assert_eq!(facts_of_all(&back), tensors, "{}", case.path);
        assert_eq!(back.metadata, model.metadata, "{}", case.path);
        // The result is written back byte for byte.
        let again = written(&back);
        assert!(written(&read(&again).unwrap()) == again, "{}", case.path);
    }
}

#[test]
fn the_table_of_names_follows_removed_and_renamed_tensors() {
    let mut model = opened("2.6.2/state_p4.pdparams");
    model.parameters.remove(0);
    model.parameters[0].name = "other.name".to_owned();
    let back = read(&written(&model)).unwrap();
    let names: Vec<&str> = back.parameters.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["other.name", "bn.weight", "bn.bias", "bn._mean", "bn._variance"]);
    let table: Value = serde_json::from_str(&back.metadata["StructuredToParameterName@@"]).unwrap();
    let keys: Vec<&String> = table.as_object().unwrap().keys().collect();
    assert_eq!(keys, names);

    // In lists and nested dicts: removed values are gone, and moved ones go to the end.
    let mut model = opened("2.6.2/nested.pdparams");
    model.parameters.retain(|p| p.name != "a");
    model.parameters[0].name = "moved".to_owned();
    model.metadata.remove("step");
    model.metadata.insert("n.0".to_owned(), "[1, {\"x\": null}]".to_owned());
    model.metadata.insert("new".to_owned(), "2.5".to_owned());
    let back = read(&written(&model)).unwrap();
    let names: Vec<&str> = back.parameters.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["m.k.0", "np", "ordered.p", "moved"]);
    assert_eq!(back.metadata["new"], "2.5");
    assert!(!back.metadata.contains_key("step"));
    // The list holds no tensor any more, so it is one value.
    assert_eq!(back.metadata["n"], r#"[[1,{"x":null}],2.5,"x",null,true]"#);
}

#[test]
fn a_fresh_pickle_is_a_dict_of_arrays_in_the_order_of_the_model() {
    let tensor = |dtype, shape: Vec<u64>, bytes: &[u8]| Tensor::dense(dtype, shape, blob(bytes));
    let parameters = vec![
        Parameter { name: "z".to_owned(), tensor: tensor(DType::Float32, vec![2], &[1; 8]) },
        Parameter { name: "größe".to_owned(), tensor: tensor(DType::Int64, vec![], &[2; 8]) },
        Parameter { name: "b".to_owned(), tensor: tensor(DType::Bool, vec![0, 3], &[]) },
        Parameter { name: "h".to_owned(), tensor: tensor(DType::BFloat16, vec![1], &[3; 2]) },
        Parameter { name: "e".to_owned(), tensor: tensor(DType::Float8E5M2, vec![1], &[4]) },
        Parameter {
            name: "big".to_owned(),
            tensor: tensor(DType::Uint8, vec![300, 300], &[5; 90_000]),
        },
    ];
    let model = Model { parameters, ..Model::default() };
    let bytes = written(&model);
    assert_eq!(bytes, written(&model), "the same every time");
    let back = read(&bytes).unwrap();
    let dtypes: Vec<DType> = back.parameters.iter().map(|p| p.tensor.dtype).collect();
    // As in PaddlePaddle: bits of bfloat16 and float8 as integers.
    let expected =
        [DType::Float32, DType::Int64, DType::Bool, DType::Uint16, DType::Int8, DType::Uint8];
    assert_eq!(dtypes, expected);
    for (now, then) in back.parameters.iter().zip(&model.parameters) {
        assert_eq!(now.name, then.name);
        assert_eq!(now.tensor.shape, then.tensor.shape);
        assert_eq!(now.tensor.data.read().unwrap(), then.tensor.data.read().unwrap());
    }
    assert!(written(&Model::default()) == b"\x80\x04}.", "an empty dict");
}

#[test]
fn tensors_that_a_pickle_cannot_represent_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pdparams");
    let of = |names: &[&str], dtype| {
        let tensor = || Tensor::dense(dtype, vec![1], blob(&[0; 16][..dtype_size(dtype)]));
        let parameter = |name: &&str| Parameter { name: (*name).to_owned(), tensor: tensor() };
        Model { parameters: names.iter().map(parameter).collect(), ..Model::default() }
    };
    let cases = [
        (of(&[""], DType::Int8), "a tensor without a name"),
        (of(&["a", "a"], DType::Int8), "two tensors called `a`"),
        (of(&["StructuredToParameterName@@"], DType::Int8), "a reserved key"),
        (of(&["a"], DType::Float8E8M0Fnu), "the float8_e8m0fnu tensor `a`"),
    ];
    for (model, what) in cases {
        let error = paddle::PICKLE.write(&model, &path, &WriteOptions::default()).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert!(!path.exists());
    }
}

fn dtype_size(dtype: DType) -> usize {
    dtype.bits().unwrap_or(0) as usize / 8
}

/// Returns a program that declares one variable.
fn program(name: &str, dtype: &str) -> Vec<u8> {
    let text = format!(
        "blocks {{ idx: 0 parent_idx: -1 vars {{ name: \"{name}\" type {{ type: LOD_TENSOR \
         lod_tensor {{ tensor {{ data_type: {dtype} dims: 2 dims: 4 }} }} }} persistable: true }} }}"
    );
    let limits = Limits::default();
    let program = program::read_text(&blob(text.as_bytes()), "p", &limits).unwrap();
    program::write(&program).unwrap().to_vec()
}

#[test]
fn bfloat16_stays_uint16_with_a_warning_unless_a_program_declares_it() {
    let model = opened("3.3.1/bfloat16.pdparams");
    assert_eq!(model.parameters[0].tensor.dtype, DType::Uint16);
    assert!(model.report.warnings[0].contains("bfloat16"), "{:?}", model.report.warnings);

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("m.pdparams");
    std::fs::copy(golden().join("3.3.1/bfloat16.pdparams"), &file).unwrap();
    let table: Value =
        serde_json::from_str(&model.metadata["StructuredToParameterName@@"]).unwrap();
    let variable = table["w"].as_str().unwrap();
    for (dtype, becomes, warns) in [("BF16", DType::BFloat16, false), ("FP32", DType::Uint16, true)]
    {
        std::fs::write(dir.path().join("m.pdmodel"), program(variable, dtype)).unwrap();
        let model = paddle::open(&Location::from(&file), &OpenOptions::default()).unwrap();
        assert_eq!(model.parameters[0].tensor.dtype, becomes);
        assert_eq!(!model.report.warnings.is_empty(), warns, "{:?}", model.report.warnings);
        assert!(written(&model) == bytes(&file), "written back as it was");
    }
    // A PIR program declares it too.
    std::fs::remove_file(dir.path().join("m.pdmodel")).unwrap();
    let pir = r##"{"base_code":{"magic":"pir"},"program":{"regions":[{"blocks":[{"ops":[
        {"#":"p","A":[0,1,1,"NAME"],"O":{"%":1,"TT":{"#":"0.t_dtensor","D":[{"#":"0.t_bf16"},[2,4],"NCHW",[],0]}}}
    ]}]}]}}"##;
    let pir = pir.replace("NAME", variable);
    std::fs::write(dir.path().join("m.json"), pir).unwrap();
    let model = paddle::open(&Location::from(&file), &OpenOptions::default()).unwrap();
    assert_eq!(model.parameters[0].tensor.dtype, DType::BFloat16);
}

#[test]
fn elements_written_as_text_are_read_the_same_from_anywhere() {
    let model = opened("2.6.2/long_p2.pdparams");
    let data = &model.parameters[0].tensor.data;
    let whole: Vec<u8> = (0..100_000u32).map(|i| (i * 7919 % 251) as u8).collect();
    assert!(data.read().unwrap() == whole);
    let mut random = Random::new(5);
    for _ in 0..500 {
        let start = random.below(whole.len());
        let len = random.below((whole.len() - start).min(3000) + 1);
        let mut buffer = vec![0; len];
        data.read_at(start as u64, &mut buffer).unwrap();
        assert!(buffer == whole[start..start + len], "{start} {len}");
    }
}

/// Bytes that count reads.
struct Watched {
    bytes: Vec<u8>,
    read: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl Derive for Watched {
    fn source(&self) -> Option<&Blob> {
        None
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), lodstone_store::Error> {
        buffer.copy_from_slice(&self.bytes[offset as usize..][..buffer.len()]);
        self.read.fetch_add(buffer.len() as u64, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn opening_reads_no_elements() {
    let data = vec![7; 64 << 20];
    let tensor = Tensor::dense(DType::Uint8, vec![data.len() as u64], Blob::memory(data));
    let model =
        Model { parameters: vec![Parameter { name: "w".to_owned(), tensor }], ..Model::default() };
    let read = std::sync::Arc::default();
    let watched = Watched { bytes: written(&model), read: std::sync::Arc::clone(&read) };
    let blob = Blob::derived(std::sync::Arc::new(watched));
    let model = pickle::read_blob(&blob, &Limits::default()).unwrap();
    assert_eq!(model.parameters[0].tensor.data.len(), 64 << 20);
    let count = read.load(std::sync::atomic::Ordering::Relaxed);
    assert!(count < 64 << 10, "{count} bytes were read");
}

#[test]
fn the_pickled_program_of_2017_is_extracted_without_loading_the_pickle() {
    let program = program("w", "FP32");
    // As pickled by Python 2 with protocol 2.
    let mut pickle = b"\x80\x02}q\x01(U\x10program_desc_strq\x02T".to_vec();
    pickle.extend((program.len() as u32).to_le_bytes());
    pickle.extend_from_slice(&program);
    pickle.extend(b"q\x03U\x0efeed_var_namesq\x04]q\x05U\x01xq\x06aU\x0ffetch_var_namesq\x07]q\x08U\x01yq\x09au.");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("__model__");
    std::fs::write(&path, pickle).unwrap();
    let model = paddle::open(&Location::from(&path), &OpenOptions::default()).unwrap();
    assert_eq!(model.programs.into_main().unwrap().blocks[0].vars[0].name, "w");
    assert_eq!(model.metadata["feed_var_names"], r#"["x"]"#);
    assert_eq!(model.metadata["fetch_var_names"], r#"["y"]"#);
}

#[test]
fn pickles_beside_a_program_keep_each_its_own_values() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("m.pdmodel"), program("w", "FP32")).unwrap();
    std::fs::copy(golden().join("2.6.2/state_p4.pdparams"), at("m.pdparams")).unwrap();
    std::fs::copy(golden().join("2.6.2/adam.pdopt"), at("m.pdopt")).unwrap();
    let model = paddle::open(&Location::from(at("m.pdmodel")), &OpenOptions::default()).unwrap();
    assert!(model.report.warnings[0].contains("StructuredToParameterName@@"));
    let out = tempfile::tempdir().unwrap();
    let same = WriteOptions::default().with_same(true);
    paddle::SAVE.write(&model, Location::from(&out.path().join("m.pdmodel")), &same).unwrap();
    for name in ["m.pdmodel", "m.pdparams", "m.pdopt"] {
        assert!(bytes(&out.path().join(name)) == bytes(&at(name)), "{name}");
    }
}

#[test]
fn accepted_pickles_are_written_back_and_survive_an_edit() {
    let files: Vec<Vec<u8>> = cases()
        .iter()
        .map(|case| bytes(&golden().join(&case.path)))
        .filter(|content| content.len() < 4000)
        .collect();
    let mut random = Random::new(11);
    let mut taken = 0;
    for round in 0..600 {
        let mut content = files[random.below(files.len())].clone();
        for _ in 0..=random.below(2) {
            let place = random.below(content.len());
            content[place] = random.next().to_be_bytes()[0];
        }
        let Ok(mut model) = read(&content) else { continue };
        taken += 1;
        assert!(written(&model) == content, "round {round}");
        let Some(first) = model.parameters.first_mut() else { continue };
        first.tensor.data = Blob::memory(first.tensor.data.read().unwrap());
        first.tensor.residual.clear();
        first.name.push('!');
        let names = |model: &Model| {
            let mut names: Vec<_> = model.parameters.iter().map(|p| p.name.clone()).collect();
            names.sort();
            names
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        match paddle::PICKLE.write(&model, &path, &WriteOptions::default()) {
            Ok(_) => {
                assert_eq!(names(&read(&bytes(&path)).unwrap()), names(&model), "round {round}")
            }
            Err(Error::Incompatible { .. }) => {}
            Err(error) => panic!("round {round}: {error}"),
        }
    }
    assert!(taken > 100, "{taken}");
}

#[test]
fn what_python_2_wrote_is_read_and_written_back() {
    let pickle = b"\x80\x02}q\x01(U\x01wcnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nK\x00\x85U\x01b\
        \x87R(K\x01K\x02\x85cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\
        \x89U\x02\xff\x01tbX\x04\x00\x00\x00stepL7L\nU\x01\xe9c__builtin__\ntuple\n(K\x01t\x85Ru.";
    let model = read(pickle).unwrap();
    assert_eq!(model.parameters[0].name, "w");
    assert_eq!(model.parameters[0].tensor.data.read().unwrap()[..], [0xff, 1]);
    assert_eq!(model.metadata["step"], "7");
    assert_eq!(model.metadata["\u{e9}"], "[1]");
    assert!(written(&model) == pickle);
}

#[test]
fn names_that_are_those_of_other_values_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pdparams");
    for (name, what) in [
        ("np", "two tensors called `np`"),
        ("step", "a tensor called `step`, which is also the name of another value"),
    ] {
        let mut model = opened("2.6.2/nested.pdparams");
        model.parameters[0].name = name.to_owned();
        let error = paddle::PICKLE.write(&model, &path, &WriteOptions::default()).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert!(!path.exists());
    }
}

#[test]
fn a_pickle_of_protocol_0_is_detected_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pdparams");
    std::fs::write(&path, b"cos\nsystem\n(S'id'\ntR.").unwrap();
    let error =
        paddle::open(&Location::from(&path), &OpenOptions::default()).unwrap_err().to_string();
    assert!(error.contains("`os.system`, which was neither imported nor called"), "{error}");
    std::fs::write(&path, b"(dp0\nS'epoch'\np1\nI3\ns.").unwrap();
    let model = paddle::open(&Location::from(&path), &OpenOptions::default()).unwrap();
    assert_eq!(model.metadata["epoch"], "3");
}

#[test]
fn the_own_name_of_a_tensor_is_metadata() {
    // As written by `paddle.save(layer.weight)`.
    let fresh = {
        let tensor = Tensor::dense(DType::Uint8, vec![1], blob(&[9]));
        let parameters = vec![Parameter { name: "w".to_owned(), tensor }];
        written(&Model { parameters, ..Model::default() })
    };
    // The value in the dict, as the second element of a pair.
    let array = &fresh[b"\x80\x04}(\x8c\x01w".len()..fresh.len() - 2];
    let pickle = [b"\x80\x04\x8c\x0clinear_0.w_0", array, b"\x86."].concat();
    let model = read(&pickle).unwrap();
    assert_eq!(model.parameters[0].name, "");
    assert_eq!(model.metadata["@name"], r#""linear_0.w_0""#);
    assert!(written(&model) == pickle);
}

#[test]
fn a_program_takes_its_parameters_from_the_pickles_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("m.pdmodel"), program("w", "BF16")).unwrap();
    let tensor = |dtype, shape: Vec<u64>, size| Tensor::dense(dtype, shape, blob(&vec![1; size]));
    let model = |name: &str, tensor| Model {
        parameters: vec![Parameter { name: name.to_owned(), tensor }],
        ..Model::default()
    };
    let options = WriteOptions::default();
    let parameters = model("w", tensor(DType::BFloat16, vec![2, 4], 16));
    paddle::PICKLE.write(&parameters, at("m.pdparams"), &options).unwrap();
    let state = model("moment", tensor(DType::Float32, vec![1], 4));
    paddle::PICKLE.write(&state, at("m.pdopt"), &options).unwrap();

    for path in [at("m.pdmodel"), at("m"), dir.path().to_path_buf()] {
        let model = paddle::open(&Location::from(&path), &OpenOptions::default()).unwrap();
        assert_eq!(model.format, "paddle-save");
        let facts = facts_of_all(&model);
        let found: Vec<_> = facts.iter().map(|t| (t.name.as_str(), t.dtype.as_str())).collect();
        assert_eq!(found, [("w", "bfloat16"), ("moment", "float32")]);
        assert!(model.report.warnings.is_empty(), "{:?}", model.report.warnings);

        let out = tempfile::tempdir().unwrap();
        let same = WriteOptions::default().with_same(true);
        paddle::SAVE.write(&model, Location::from(&out.path().join("m.pdmodel")), &same).unwrap();
        for name in ["m.pdmodel", "m.pdparams", "m.pdopt"] {
            assert!(bytes(&out.path().join(name)) == bytes(&at(name)), "{name}");
        }
        // After an edit, each tensor stays in the file it came from.
        let mut edited = model.clone();
        edited.parameters[1].tensor = tensor(DType::Float64, vec![1], 8);
        paddle::SAVE.write(&edited, Location::from(&out.path().join("m.pdmodel")), &same).unwrap();
        assert!(bytes(&out.path().join("m.pdparams")) == bytes(&at("m.pdparams")));
        let state = read(&bytes(&out.path().join("m.pdopt"))).unwrap();
        assert_eq!(state.parameters[0].tensor.dtype, DType::Float64);
    }
    std::fs::remove_file(at("m.pdparams")).unwrap();
    let model = paddle::open(&Location::from(at("m.pdmodel")), &OpenOptions::default()).unwrap();
    assert!(model.report.warnings[0].contains("`w`"), "{:?}", model.report.warnings);
}

#[test]
fn a_pir_program_takes_its_parameters_from_the_pickles_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let parameter = |id: u64, name: &str, dtype: &str| {
        format!(
            r##"{{"#":"p","A":[0,1,1,"{name}"],"O":{{"%":{id},"TT":{{"#":"0.t_dtensor","D":[{{"#":"{dtype}"}},[2,4],"NCHW",[],0]}}}}}}"##
        )
    };
    let ops = [parameter(1, "w", "0.t_bf16"), parameter(2, "gone", "0.t_f32")].join(",");
    let pir = r#"{"base_code":{"magic":"pir"},"program":{"regions":[{"blocks":[{"ops":[OPS]}]}]}}"#;
    std::fs::write(at("m.json"), pir.replace("OPS", &ops)).unwrap();
    for path in [at("m.json"), at("m")] {
        let model = paddle::open(&Location::from(&path), &OpenOptions::default()).unwrap();
        let warnings = &model.report.warnings;
        assert!(warnings[0].contains("were not found: `gone`, `w`"), "{warnings:?}");
    }

    let tensor = |dtype, shape: Vec<u64>, size| Tensor::dense(dtype, shape, blob(&vec![1; size]));
    let model = |name: &str, tensor| Model {
        parameters: vec![Parameter { name: name.to_owned(), tensor }],
        ..Model::default()
    };
    let options = WriteOptions::default();
    let parameters = model("w", tensor(DType::BFloat16, vec![2, 4], 16));
    paddle::PICKLE.write(&parameters, at("m.pdparams"), &options).unwrap();
    let state = model("moment", tensor(DType::Float32, vec![1], 4));
    paddle::PICKLE.write(&state, at("m.pdopt"), &options).unwrap();
    // JSON that is not a program, but has a pickle beside it.
    std::fs::write(at("config.json"), "{}").unwrap();
    std::fs::copy(at("m.pdopt"), at("config.pdparams")).unwrap();
    for path in [at("m.json"), at("m"), dir.path().to_path_buf()] {
        let model = paddle::open(&Location::from(&path), &OpenOptions::default()).unwrap();
        assert_eq!(model.format, "paddle-pir");
        let facts = facts_of_all(&model);
        let found: Vec<_> = facts.iter().map(|t| (t.name.as_str(), t.dtype.as_str())).collect();
        assert_eq!(found, [("w", "bfloat16"), ("moment", "float32")]);
        let [missing] = model.report.warnings.as_slice() else {
            panic!("{:?}", model.report.warnings)
        };
        assert!(missing.contains("`gone`"), "{missing}");
        assert_eq!(model.files.len(), 3);
    }
    let params = Some(at("m.pdparams").into());
    let alone = OpenOptions::default().with_params(params);
    let model = paddle::open(&Location::from(at("m.json")), &alone).unwrap();
    assert_eq!(model.parameters.len(), 1);
}

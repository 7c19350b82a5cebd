//! Each kind of error is matched by a caller, who reads names from its fields.

#![expect(clippy::disallowed_methods, reason = "tests read their own files")]

use std::path::{Path, PathBuf};

use lodstone::convert::{fix_inputs, fix_shapes, fix_types};
use lodstone::inspect::{Names, write_text};
use lodstone::model::{Kind, Programs, ValueType};
use lodstone::open::{only_tensor, tensor_at, tensor_named};
use lodstone::ops::OperatorTarget;
use lodstone::train::{SampleOptions, TrainOptions, Training};
use lodstone::{
    Blob, CompareOptions, ConvertOptions, DType, DiffOptions, Dim, Error, Inputs, Loss,
    MemoryStore, Model, OpenOptions, Renames, RunOptions, Session, Target, Tensor, byte_map,
    compare, convert, diff, infer_shapes, open, operators, run, seal, statistics,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn digits() -> PathBuf {
    root().join("examples/digits/paddle")
}

fn model(path: &str) -> Model {
    open(root().join(path)).expect("a model")
}

fn images() -> Model {
    model("crates/engine/tests/golden/onnx_models/images.onnx")
}

fn weights() -> Model {
    model("examples/digits/test.npz")
}

fn training() -> Model {
    model("examples/digits/training")
}

/// Returns the error of a conversion to a format.
fn converted(model: Model, to: &str, options: &ConvertOptions) -> Error {
    let options = options.clone().with_to(Some(Target::Format(to.to_owned())));
    let out = MemoryStore::default().location("out");
    convert(model, out, &options).expect_err("an error")
}

fn tensor(dtype: DType, shape: &[u64], bytes: usize) -> Tensor {
    Tensor::dense(dtype, shape.to_vec(), Blob::memory(vec![0; bytes]))
}

/// Returns inputs with a value for each name; an empty name is none.
fn inputs(values: &[(&str, Tensor)]) -> Inputs {
    let value = |(name, tensor): &(&str, Tensor)| {
        let name = Some((*name).to_owned()).filter(|name| !name.is_empty());
        (name, tensor.clone().into())
    };
    Inputs { values: values.iter().map(value).collect(), ..Inputs::default() }
}

/// Asserts that an error has a form, and this message.
macro_rules! assert_error {
    ($error:expr, $form:pat $(if $guard:expr)?, $message:expr) => {
        let error = $error;
        assert!(matches!(&error, $form $(if $guard)?), "{error:?}");
        assert_eq!(error.to_string(), $message);
    };
}

#[test]
fn a_missing_program_is_named() {
    let error = run(&weights(), Inputs::default(), &RunOptions::default()).expect_err("an error");
    assert_error!(
        error,
        Error::NoProgram { name, others } if name == Programs::MAIN && others.is_empty(),
        "the model has no program"
    );
    let encoder = model("crates/formats/tests/golden/torch/encoder.pt");
    assert_error!(
        operators(&encoder, OperatorTarget::Onnx).expect_err("an error"),
        Error::NoProgram { others, .. } if *others == ["encode"],
        "the model has no main program, only `encode`"
    );
}

#[test]
fn a_program_that_does_not_train_is_invalid() {
    let error = Training::without_data(&model("examples/digits/paddle"), TrainOptions::default());
    assert_error!(
        error.expect_err("an error"),
        Error::InvalidProgram { finding, .. } if finding.message == "it computes no gradients",
        "cannot train the program: it computes no gradients"
    );
}

#[test]
fn invalid_options_are_named() {
    let options = ConvertOptions::default();
    let digits = || model("examples/digits/paddle");
    let text = |text: &str| text.to_owned();
    for (option, to, options) in [
        ("keep_io", "npz", options.clone().with_weights_only(true).with_keep_io(true)),
        ("custom_domain", "paddle", options.clone().with_custom_domain(Some(text("x")))),
        ("lod", "paddle", options.clone().with_lod(vec![(text("image"), vec![0, 1])])),
        ("opset", "npz", options.clone().with_opset(Some(17))),
        ("exclude", "npz", options.clone().with_exclude(vec![text("*")])),
        ("include", "npz", options.clone().with_include(vec![text("x")])),
        ("transpose", "paddle", options.clone().with_transpose(vec![text("*")])),
        ("infer_shapes", "paddle", options.with_infer_shapes(true)),
    ] {
        let error = converted(digits(), to, &options);
        let is_named =
            matches!(error, Error::InvalidOption { option: found, .. } if found == option);
        assert!(is_named, "{option}: {error:?}");
    }
    let shapes = [("x".to_owned(), vec![Dim::Known(1)])];
    assert_error!(
        fix_shapes(&mut weights(), &shapes).expect_err("an error"),
        Error::InvalidOption { option: "input_shapes", .. },
        "cannot fix input shapes: the model has no program"
    );
    assert_error!(
        infer_shapes(&mut digits()).expect_err("an error"),
        Error::InvalidOption { option: "infer_shapes", .. },
        "cannot infer types: the model has no ONNX program"
    );
}

#[test]
fn patterns_without_a_match_are_returned() {
    let options = DiffOptions::default().with_transpose(vec!["none*".to_owned()]);
    assert_error!(
        diff(weights(), &weights(), &options).expect_err("an error"),
        Error::NoMatch { what: "matrix", patterns } if *patterns == ["none*"],
        "no matrix matches `none*`"
    );
}

#[test]
fn operations_without_an_implementation_are_named() {
    let text =
        Tensor { kind: Kind::Strings { elements: Vec::new() }, ..tensor(DType::String, &[0], 0) };
    assert_error!(
        statistics(&text).expect_err("an error"),
        Error::NotSupported { operation, why: None }
            if operation == "computing statistics of string elements",
        "computing statistics of string elements is not supported"
    );
}

#[test]
fn an_unknown_tensor_has_similar_names() {
    let error = tensor_named(digits(), "fc_0.w", &OpenOptions::default()).expect_err("an error");
    assert_error!(
        error,
        Error::NoSuchTensor { name, similar }
            if name == "fc_0.w" && *similar == ["fc_0.w_0", "fc_0.b_0"],
        "there is no tensor `fc_0.w`; the most similar names are `fc_0.w_0`, `fc_0.b_0`"
    );
    let error = tensor_at(digits(), 12, &OpenOptions::default()).expect_err("an error");
    assert!(matches!(error, Error::NoSuchIndex { index: 12, count: 12 }), "{error:?}");
    let error = only_tensor(digits(), &OpenOptions::default()).expect_err("an error");
    assert!(matches!(error, Error::SeveralTensors { count: 12 }), "{error:?}");
}

#[test]
fn an_ambiguous_name_has_the_names_that_it_matches() {
    let names = Names::new("mxnet-params", ["arg:x", "aux:x"].map(Into::into).into_iter());
    assert_error!(
        names.find("x").expect_err("an error"),
        Error::AmbiguousTensor { name, names } if name == "x" && *names == ["arg:x", "aux:x"],
        "`x` is ambiguous: it matches `arg:x`, `aux:x`"
    );
}

#[test]
fn a_model_without_tensors_is_an_error() {
    let path = root().join("crates/formats/tests/golden/onnx/functions.onnx");
    let error = only_tensor(path.clone(), &OpenOptions::default()).expect_err("an error");
    assert_error!(error, Error::NoTensors, "the model has no tensors");
    let program = open(path).expect("a model");
    let options = ConvertOptions::default().with_allow(Loss::ALL.to_vec());
    assert_error!(
        converted(program, "npz", &options),
        Error::InvalidOption { option: "to", .. },
        "the model is a program without parameters: there are no tensors to write"
    );
}

#[test]
fn a_name_that_is_taken_is_returned() {
    let renames = Renames::parse(r#"{"fc_0.w_0": "fc_0.b_0"}"#).expect("a map");
    assert_error!(
        renames.apply(&mut model("examples/digits/paddle")).expect_err("an error"),
        Error::DuplicateName { what: "tensors", name } if name == "fc_0.b_0",
        "two tensors would have the name `fc_0.b_0`"
    );
    let renames = Renames::parse(r#"{"fc_0.w_0": "image"}"#).expect("a map");
    assert_error!(
        renames.apply(&mut model("examples/digits/paddle")).expect_err("an error"),
        Error::DuplicateName { what: "variables", name } if name == "image",
        "two variables would have the name `image`"
    );
}

#[test]
fn missing_elements_are_an_error() {
    let absent = Tensor { kind: Kind::Absent, ..tensor(DType::Float32, &[1], 0) };
    let error = write_text(&absent, &mut Vec::new()).expect_err("an error");
    assert!(matches!(error, Error::NoElements), "{error:?}");
}

#[test]
fn variables_without_a_value_are_named() {
    let mut model = training();
    model.programs.remove(Programs::STARTUP);
    model.parameters.retain(|parameter| parameter.name != "fc_0.w_0");
    let error = Training::without_data(&model, TrainOptions::default()).expect_err("an error");
    assert_error!(
        error,
        Error::NoValues(names) if *names == ["fc_0.w_0"],
        "variables have no value: `fc_0.w_0`"
    );
}

#[test]
fn an_unknown_input_has_similar_names_and_those_of_all_inputs() {
    let digits = model("examples/digits/paddle");
    let image = tensor(DType::Float32, &[1, 1, 8, 8], 256);
    let given = inputs(&[("image", image.clone()), ("imge", image.clone())]);
    assert_error!(
        run(&digits, given, &RunOptions::default()).expect_err("an error"),
        Error::NoSuchInput { name, similar, inputs }
            if name == "imge" && *similar == ["image"] && *inputs == ["image"],
        "there is no input `imge`; the most similar name is `image`"
    );
    let types = [("x".to_owned(), DType::Float32)];
    assert_error!(
        fix_types(&mut digits.clone(), &types).expect_err("an error"),
        Error::NoSuchInput { similar, .. } if similar.is_empty(),
        "there is no input `x`; the inputs are `image`"
    );
    let values = [("x".to_owned(), lodstone::model::AttributeValue::Long(1))];
    let error = fix_inputs(&mut digits.clone(), &values).expect_err("an error");
    assert!(matches!(error, Error::NoSuchInput { .. }), "{error:?}");
    let given = inputs(&[("", image.clone()), ("", image)]);
    let error = run(&digits, given, &RunOptions::default()).expect_err("an error");
    assert!(matches!(error, Error::TooManyInputs { max: 1 }), "{error:?}");
    let error = run(&digits, Inputs::default(), &RunOptions::default()).expect_err("an error");
    assert!(matches!(&error, Error::MissingInput(name) if name == "image"), "{error:?}");
}

#[test]
fn inputs_that_do_not_fit_are_named() {
    let shapes = [("image".to_owned(), vec![Dim::Known(1)])];
    let digits = model("examples/digits/paddle");
    assert_error!(
        fix_shapes(&mut digits.clone(), &shapes).expect_err("an error"),
        Error::InvalidInput { name, .. } if name == "image",
        "the input `image`: expected float32[?, 1, 8, 8], found float32[1]"
    );
    let mut sequence = Inputs::default();
    sequence.values.push((Some("image".to_owned()), lodstone::run::Value::Sequence(Vec::new())));
    assert_error!(
        run(&digits, sequence, &RunOptions::default()).expect_err("an error"),
        Error::InvalidInput { name, .. } if name == "image",
        "the input `image`: expected a tensor, found a sequence"
    );
    let mut open = images();
    let main = open.main_mut().and_then(|program| program.blocks.first_mut()).expect("a graph");
    for var in &mut main.vars {
        if let ValueType::Tensor(tensor) = &mut var.value {
            tensor.shape = None;
        }
    }
    assert_error!(
        Inputs::default().add_random(&open, 0, &[]).expect_err("an error"),
        Error::UnknownShape(name) if name == "x",
        "the input `x`: its rank is not declared"
    );
}

#[test]
fn inputs_that_cannot_be_paired_are_counted() {
    let values = [("x", tensor(DType::Float32, &[1], 4))];
    let a = images();
    let mut b = images();
    let main = b.main_mut().and_then(|program| program.blocks.first_mut()).expect("a graph");
    main.inputs.clear();
    let error = compare(&a, &b, inputs(&values), &CompareOptions::default());
    let error = error.expect_err("an error");
    assert!(matches!(error, Error::UnpairedInputs { a: 1, b: 0 }), "{error:?}");
}

#[test]
fn an_unknown_output_has_similar_names() {
    let error = |model: &Model, name: &str| {
        let options = RunOptions::default().with_fetch(vec![name.to_owned()]);
        Session::new(model, &options).expect_err("an error")
    };
    let digits = model("examples/digits/paddle");
    assert_error!(
        error(&digits, "fc_0.tmp_9"),
        Error::NoSuchOutput { name, similar } if name == "fc_0.tmp_9" && similar.len() == 3,
        "the program computes no value `fc_0.tmp_9`; the most similar names are `fc_0.tmp_0`, \
         `fc_0.tmp_1`, `fc_0.tmp_2`"
    );
    // An operator of MXNet is not the name of its output.
    let mxnet = model("examples/digits/mxnet");
    let main = mxnet.main().and_then(|program| program.blocks.first()).expect("a graph");
    let op = main.ops.iter().find(|op| op.writes().all(|name| name != op.name)).expect("one");
    let written: Vec<&str> = op.writes().collect();
    let found = error(&mxnet, &op.name);
    let is_suggested = matches!(&found, Error::NoSuchOutput { similar, .. } if *similar == written);
    assert!(is_suggested, "{found:?}, {written:?}");
}

#[test]
fn a_reported_variable_that_is_not_a_scalar_is_named() {
    let samples = SampleOptions::default().with_batch(Some(4));
    let options =
        TrainOptions::default().with_samples(samples).with_watch(vec!["fc_0.tmp_0".to_owned()]);
    let mut data = Inputs::default();
    let path = root().join("examples/digits/train.npz");
    data.read(None, path, &OpenOptions::default()).expect("data");
    let mut training = Training::new(&training(), data, options).expect("a program that trains");
    let error = training.step().expect_err("an error");
    assert!(
        matches!(&error, Error::InvalidOutput { name, why }
            if name == "fc_0.tmp_0" && why.starts_with("expected a scalar, found float32[4, ")),
        "{error:?}"
    );
    let mut without = Training::without_data(&self::training(), TrainOptions::default())
        .expect("a program that trains");
    let error = without.step().expect_err("an error");
    assert!(matches!(error, Error::MissingInput(_)), "{error:?}");
}

#[test]
fn a_tensor_without_bytes_has_no_byte_map() {
    let path = root().join("crates/formats/tests/golden/onnx/attributes.onnxtxt");
    assert_error!(
        byte_map(path, Some("weight"), &OpenOptions::default()).expect_err("an error"),
        Error::UnmappedTensor { name, .. } if name == "weight",
        "there is no byte map of `weight`: it has no bytes of its own in a binary file"
    );
}

#[test]
fn a_checkpoint_is_not_sealed() {
    use lodstone::checkpoint::{Manager, ManagerOptions, Snapshot};
    let dir = tempfile::tempdir().expect("a directory");
    let snapshot = Snapshot::of_tensors(weights().parameters).expect("names");
    let manager = Manager::open(dir.path(), ManagerOptions::default());
    manager.expect("a directory").save(1, &snapshot).expect("saved");
    let serial = std::fs::read_dir(dir.path()).expect("listed").flatten();
    let serial = serial.map(|it| it.path()).find(|it| it.is_dir()).expect("a serial");
    let options = OpenOptions::default();
    let error = seal(serial, &options, false, &lodstone::Progress::default());
    assert_error!(
        error.expect_err("an error"),
        Error::NotSupported { why: Some(_), .. },
        "sealing a checkpoint is not supported: it has checksums of its own, in its manifest"
    );
}

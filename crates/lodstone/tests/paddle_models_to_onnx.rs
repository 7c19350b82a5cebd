//! Exported models of PaddlePaddle return what PaddlePaddle recorded: golden models, and with `LODSTONE_CASES` those of a
//! larger collection.

#![expect(clippy::disallowed_methods, reason = "reads golden files directly")]

use std::collections::BTreeMap;
use std::path::{Display, Path, PathBuf};

use lodstone::model::Dialect;
use lodstone::run::tensors;
use lodstone::{
    ConvertOptions, Error, Inputs, Lod, Model, Parameter, RunOptions, Target, Tensor, open, run,
};
use lodstone_model::DType;
use lodstone_store::Blob;
use serde_json::Value;

/// The maximum difference of an element: relative, and absolute.
const TOLERANCE: (f64, f64) = (1e-5, 1e-6);

/// Exports a model, and runs the result, which is returned; fails unless the outputs are as recorded. A PIR program also
/// runs as it is, and as a `ProgramDesc`.
fn check(
    path: &Path,
    inputs: Vec<(String, Tensor)>,
    outputs: &[Tensor],
    options: &ConvertOptions,
) -> Model {
    let place = path.display();
    let dir = tempfile::tempdir().unwrap();
    let source = open(path).unwrap();
    if source.main().is_some_and(|program| program.dialect == Dialect::Pir) {
        let values = |(name, tensor): &(String, Tensor)| {
            (Some(name.clone()).filter(|name| !name.is_empty()), tensor.clone().into())
        };
        let given = || Inputs { values: inputs.iter().map(values).collect(), lod: Vec::new() };
        let older = dir.path().join("older/net.pdmodel");
        let to = Some(Target::Format("paddle".to_owned()));
        let paddle = ConvertOptions::default().with_to(to);
        lodstone::convert(source.clone(), older.clone(), &paddle).unwrap();
        for model in [&source, &open(older).unwrap()] {
            let found = tensors(run(model, given(), &RunOptions::default()).unwrap());
            compare(&place, &found, outputs);
        }
    }
    let out = dir.path().join("out.onnx");
    let done = lodstone::convert(open(path).unwrap(), out.clone(), options);
    done.unwrap_or_else(|error| panic!("{place}: {error}"));
    let exported = open(out).unwrap();
    let found = run(&exported, with_levels(&exported, inputs), &RunOptions::default());
    let found = tensors(found.unwrap_or_else(|error| panic!("{place}: {error}")));
    compare(&place, &found, outputs);
    exported
}

fn compare(place: &Display<'_>, found: &[Parameter], outputs: &[Tensor]) {
    assert!(found.len() >= outputs.len(), "{place}: {} outputs", found.len());
    for (found, wanted) in found.iter().zip(outputs) {
        let tensor = &found.tensor;
        assert_eq!((tensor.dtype, &tensor.shape), (wanted.dtype, &wanted.shape), "{place}");
        let (relative, absolute) = TOLERANCE;
        for (found, wanted) in singles(tensor).into_iter().zip(singles(wanted)) {
            let is_near = (found - wanted).abs() <= absolute + relative * wanted.abs();
            assert!(is_near, "{place}: expected {wanted}, found {found}");
        }
    }
}

/// Returns the inputs, with the offsets of LoD levels as inputs of their own.
fn with_levels(model: &Model, inputs: Vec<(String, Tensor)>) -> Inputs {
    let names = &model.main().unwrap().blocks[0].inputs;
    let mut values = Vec::new();
    for (number, (name, mut tensor)) in inputs.into_iter().enumerate() {
        // An input without a name is the next one.
        let name = if name.is_empty() { names[number].clone() } else { name };
        let Lod(levels) = std::mem::take(&mut tensor.lod);
        for (level, offsets) in levels.into_iter().enumerate() {
            let bytes: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
            let shape = vec![offsets.len() as u64];
            let offsets = Tensor::dense(DType::Int64, shape, Blob::memory(bytes));
            values.push((Some(format!("{name}.lod{level}")), offsets.into()));
        }
        values.push((Some(name), tensor.into()));
    }
    values.retain(|(name, _)| name.as_ref().is_some_and(|name| names.contains(name)));
    Inputs { values, lod: Vec::new() }
}

fn singles(tensor: &Tensor) -> Vec<f64> {
    assert_eq!(tensor.dtype, DType::Float32);
    let bytes = tensor.data.bytes().unwrap();
    bytes.as_chunks().0.iter().map(|four| f64::from(f32::from_le_bytes(*four))).collect()
}

fn recorded(told: &Value) -> Tensor {
    let longs = |told: &Value| -> Vec<u64> {
        told.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
    };
    let dtype = DType::from_name(told["dtype"].as_str().unwrap()).unwrap();
    let values = told["values"].as_array().unwrap();
    let bytes: Vec<u8> = match dtype {
        DType::Int64 => values.iter().flat_map(|v| v.as_i64().unwrap().to_le_bytes()).collect(),
        #[expect(clippy::cast_possible_truncation, reason = "recorded from float32")]
        _ => values.iter().flat_map(|v| (v.as_f64().unwrap() as f32).to_le_bytes()).collect(),
    };
    let mut tensor = Tensor::dense(dtype, longs(&told["shape"]), Blob::memory(bytes));
    tensor.lod = Lod(told["lod"].as_array().unwrap().iter().map(longs).collect());
    tensor
}

#[test]
fn golden_models_return_what_paddlepaddle_recorded() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let json = std::fs::read(crates.join("paddle/tests/golden/paddle_models.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let cases = json.as_array().unwrap();
    for case in cases {
        let path = crates.join("formats/tests/golden/paddle").join(case["path"].as_str().unwrap());
        let inputs = case["inputs"].as_object().unwrap().iter();
        let inputs: Vec<(String, Tensor)> =
            inputs.map(|(name, told)| (name.clone(), recorded(told))).collect();
        let outputs: Vec<Tensor> =
            case["outputs"].as_object().unwrap().values().map(recorded).collect();
        let plain = ConvertOptions::default();
        check(&path, inputs.clone(), &outputs, &plain);
        check(&path, inputs, &outputs, &plain.with_opset(Some(19)));
    }
    assert!(cases.len() >= 4, "{} models", cases.len());
}

/// The models of a collection: path, inputs, LoD of the first input, output.
const COLLECTION: &[(&str, &[&str], &[u64], &str)] = &[
    ("paddle-1.8.5/dygraph/traced", &["in_x.npy"], &[], "out.npy"),
    ("paddle-1.8.5/lenet/infer", &["in_img.npy"], &[], "out0.npy"),
    ("paddle-1.8.5/lenet/infer_combined", &["in_img.npy"], &[], "out0.npy"),
    ("paddle-1.8.5/text_conv_gru/infer", &["in_words.npy"], &[0, 2, 7], "out0.npy"),
    ("paddle-1.8.5/text_lstm/infer", &["in_words.npy"], &[0, 3, 4, 8], "out0.npy"),
    ("paddle-2.6.2/control_flow/infer", &["in_x.npy"], &[], "out.npy"),
    ("paddle-2.6.2/dygraph/jit/net", &["in_x.npy", "in_ids.npy"], &[], "out.npy"),
    ("paddle-2.6.2/lenet_static/infer", &["in_img.npy"], &[], "out.npy"),
    ("paddle-2.6.2/text_lod/infer", &["in_words.npy"], &[0, 3, 4, 8], "out.npy"),
    ("paddle-3.0.0/lenet/lenet", &["in_x.npy"], &[], "out.npy"),
    ("paddle-3.0.0/net/net", &["in_x.npy", "in_ids.npy"], &[], "out.npy"),
    ("paddle-3.0.0/static/infer", &["in_x.npy"], &[], "out.npy"),
    ("paddle-3.3.1/lenet/lenet", &["in_x.npy"], &[], "out.npy"),
    ("paddle-3.3.1/loop/loop", &["in_x.npy"], &[], "out.npy"),
    ("paddle-3.3.1/net/net", &["in_x.npy", "in_ids.npy"], &[], "out.npy"),
    ("paddle-3.3.1/static/infer", &["in_x.npy"], &[], "out.npy"),
    ("paddle-3.3.1-nopir/lenet/lenet", &["in_x.npy"], &[], "out.npy"),
    ("paddle-3.3.1-nopir/static/infer", &["in_x.npy"], &[], "out.npy"),
];

#[test]
fn models_of_a_collection_return_what_paddlepaddle_recorded() {
    let Some(collection) = std::env::var_os("LODSTONE_CASES") else { return };
    let peers = PathBuf::from(collection).join("peers");
    if !peers.is_dir() {
        return;
    }
    for (model, inputs, lod, output) in COLLECTION {
        let model = peers.join(model);
        let folders = model.ancestors().skip(1).take(2);
        let folder = folders.filter(|folder| folder.join(output).exists()).last().unwrap();
        let array = |file: &str| {
            let array = open(folder.join(file)).unwrap();
            array.parameters.into_iter().next().unwrap().tensor
        };
        let mut given: Vec<(String, Tensor)> =
            inputs.iter().map(|input| (String::new(), array(input))).collect();
        if !lod.is_empty() {
            given[0].1.lod = Lod(vec![lod.to_vec()]);
        }
        check(&model, given, &[array(output)], &ConvertOptions::default());
    }
}

/// Quantized models, and how many quantized tensors are limited to integers that have an opposite: with `round_type` 1,
/// those that may be negative.
const QUANTIZED: &[(&str, usize)] = &[
    ("integers", 1),
    ("integers_channels", 1),
    ("observed", 0),
    ("pairs", 0),
    ("pairs_channels", 0),
    ("trained", 1),
];

#[test]
fn quantized_models_are_dequantized_before_the_operators_that_runtimes_quantize() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/paddle_quantized");
    let json = std::fs::read(folder.join("cases.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["outputs"].as_object().unwrap().len(), QUANTIZED.len());
    for (name, limits) in QUANTIZED {
        let path = folder.join(format!("{name}.pdmodel"));
        let inputs = vec![("x".to_owned(), recorded(&json["input"]))];
        let output = recorded(&json["outputs"][name]);
        let exported = check(&path, inputs, &[output], &ConvertOptions::default());
        let ops = &exported.main().unwrap().blocks[0].ops;
        let mut kinds = BTreeMap::new();
        ops.iter().for_each(|op| *kinds.entry(op.kind.as_str()).or_insert(0) += 1);
        let mut expected = BTreeMap::from([
            ("Add", 1),
            ("AveragePool", 1),
            ("Conv", 1),
            ("DequantizeLinear", 4),
            ("MatMul", 1),
            ("QuantizeLinear", 2),
            ("Relu", 1),
            ("Reshape", 1),
        ]);
        expected.extend(Some(("Max", *limits)).filter(|_| *limits > 0));
        assert_eq!(kinds, expected, "{name}");
        let constant = |name: &str| exported.parameters.iter().find(|it| it.name == name);
        let writer = |name: &str| ops.iter().find(|op| op.writes().any(|written| written == name));
        for op in ops.iter().filter(|op| ["Conv", "MatMul"].contains(&op.kind.as_str())) {
            for (factor, is_weight) in op.input("").iter().zip([false, true]) {
                let restored = writer(factor).unwrap();
                assert_eq!(restored.kind, "DequantizeLinear", "{name}");
                let [integers, scale, zero] = restored.input("") else { panic!("{name}") };
                assert!(constant(scale).is_some() && constant(zero).is_some(), "{name}");
                match is_weight {
                    true => assert_eq!(constant(integers).unwrap().tensor.dtype, DType::Int8),
                    false => assert_eq!(writer(integers).unwrap().kind, "QuantizeLinear"),
                }
            }
        }
    }
}

#[test]
fn a_value_that_two_variables_hold_is_two_outputs() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/paddle");
    let mut model = open(path).unwrap();
    // Another `fetch` of a variable that a copy of the output holds.
    let main = &mut model.main_mut().unwrap().blocks[0];
    let fetched = main.ops.iter().rposition(|op| op.kind == "fetch").unwrap();
    let output = main.ops[fetched].input("X")[0].clone();
    let copied = |slot: &str, name: &str| {
        vec![lodstone::model::Operand { slot: slot.to_owned(), args: vec![name.to_owned()] }]
    };
    let mut var = main.vars.iter().find(|var| var.name == output).unwrap().clone();
    var.name = "copy".to_owned();
    main.vars.push(var);
    let mut fetch = main.ops[fetched].clone();
    fetch.inputs = copied("X", "copy");
    for attribute in fetch.attributes.iter_mut().filter(|it| it.name == "col") {
        attribute.value = lodstone::model::AttributeValue::Int(1);
    }
    let (inputs, outputs) = (copied("X", &output), copied("Out", "copy"));
    main.ops.push(lodstone::model::Op {
        kind: "assign".to_owned(),
        inputs,
        outputs,
        ..Default::default()
    });
    main.ops.push(fetch);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.onnx");
    lodstone::convert(model, out.clone(), &ConvertOptions::default()).unwrap();
    let exported = open(out).unwrap();
    assert_eq!(exported.main().unwrap().blocks[0].outputs, [output, "copy".to_owned()]);
}

#[test]
fn operators_without_an_equivalent_are_all_named_and_nothing_is_written() {
    let mut model =
        open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/paddle")).unwrap();
    let mut count = 0;
    for op in &mut model.main_mut().unwrap().blocks[0].ops {
        if op.kind == "relu" || op.kind == "softmax" {
            op.kind = format!("unknown_{}", op.kind);
            count += 1;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.onnx");
    let options = ConvertOptions::default();
    let error = lodstone::convert(model.clone(), out.clone(), &options).unwrap_err();
    assert!(matches!(error, Error::Lower(_)), "{error}");
    assert_eq!(error.to_string().matches("is not supported").count(), count, "{error}");
    assert!(!out.exists());
    let custom = options.with_custom_domain(Some("my.domain".to_owned()));
    let done = lodstone::convert(model, out.clone(), &custom).unwrap();
    assert!(done.report.warnings.iter().any(|it| it.contains("unknown_relu")), "{:?}", done.report);
    let exported = open(out).unwrap();
    let program = exported.main().unwrap();
    let kept = program.ops().filter(|op| op.domain == "my.domain").count();
    assert_eq!(kept, count);
}

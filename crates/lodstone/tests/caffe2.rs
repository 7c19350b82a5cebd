//! Caffe2 nets return what Caffe2 returned, run and exported to ONNX; hostile nets are rejected.
//!
//! The nets are in `golden/caffe2`, with the script that wrote them. `caffe2_cases.rs` tries a larger collection.

#![expect(clippy::disallowed_methods, reason = "tests read their own files")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::recorded::{array, numbers};
use lodstone::model::{Attribute, AttributeValue};
use lodstone::ops::OperatorTarget;
use lodstone::run::tensors;
use lodstone::{
    ConvertOptions, Dim, Inputs, Model, RunOptions, Target, Tensor, convert, open, operators, run,
};
use lodstone_lowering::lower;
use lodstone_model::{DType, Dialect, Report, TensorType, ValueType};
use serde_json::Value;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lowering/tests/golden/caffe2")
}

pub(crate) fn cases() -> Vec<Value> {
    let text = fs::read(golden().join("cases.json")).unwrap();
    serde_json::from_slice::<Value>(&text).unwrap().as_array().unwrap().clone()
}

fn inputs(case: &Value) -> Inputs {
    let mut inputs = Inputs::default();
    for (name, it) in case["inputs"].as_object().unwrap() {
        inputs.values.push((Some(name.clone()), array(it).into()));
    }
    inputs
}

/// Returns the types of inputs.
fn types(case: &Value) -> Vec<(String, DType)> {
    let inputs = case["inputs"].as_object().unwrap().iter();
    inputs.map(|(name, it)| (name.clone(), array(it).dtype)).collect()
}

/// Returns how the results of a model differ from the recorded ones.
fn difference(model: &Model, case: &Value) -> Option<String> {
    let found = match run(model, inputs(case), &RunOptions::default()) {
        Ok(outputs) => tensors(outputs),
        Err(error) => return Some(error.to_string()),
    };
    let tolerance = case["tolerance"].as_f64().unwrap();
    let mut outputs = case["outputs"].as_object().unwrap().iter();
    outputs.find_map(|(name, expected)| {
        let Some(output) = found.iter().find(|it| it.name == *name) else {
            return Some(format!("no output `{name}`"));
        };
        differs(&output.tensor, &array(expected), tolerance)
            .map(|wrong| format!("`{name}`: {wrong}"))
    })
}

fn differs(found: &Tensor, expected: &Tensor, tolerance: f64) -> Option<String> {
    if found.shape != expected.shape {
        return Some(format!("{:?}, expected {:?}", found.shape, expected.shape));
    }
    let pairs = numbers(found).into_iter().zip(numbers(expected));
    let mut wrong = pairs.filter(|(a, b)| (a - b).abs() > tolerance + tolerance * b.abs());
    wrong.next().map(|(found, expected)| format!("{found}, expected {expected}"))
}

#[test]
fn nets_return_what_caffe2_returned() {
    let mut wrong = Vec::new();
    let cases = cases();
    assert!(cases.len() > 45, "{}", cases.len());
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let model = open(golden().join(name)).unwrap();
        wrong.extend(difference(&model, &case).map(|found| (name.to_owned(), found)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Declares the types of inputs.
fn declare(model: &mut Model, case: &Value) {
    let main = model.main_mut().and_then(|main| main.blocks.first_mut()).unwrap();
    for (name, it) in case["inputs"].as_object().unwrap() {
        let tensor = array(it);
        let dims = tensor.shape.iter().map(|dim| Dim::Known(*dim)).collect();
        let var = main.vars.iter_mut().find(|var| var.name == *name).unwrap();
        var.value = ValueType::tensor(TensorType::new(tensor.dtype, Some(dims)));
    }
}

#[test]
fn exported_nets_return_what_caffe2_returned() {
    let dir = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for case in cases() {
        let name = case["name"].as_str().unwrap();
        let model = open(golden().join(name)).unwrap();
        let shapes = case["inputs"].as_object().unwrap().iter();
        let known = |shape: Vec<u64>| shape.into_iter().map(Dim::Known).collect();
        let shapes = shapes.map(|(name, it)| (name.clone(), known(array(it).shape))).collect();
        let out = dir.path().join("out.onnx");
        let options = ConvertOptions::default()
            .with_to(Some(Target::Format("onnx".to_owned())))
            .with_input_types(types(&case))
            .with_input_shapes(shapes);
        let found = match convert(model, &out, &options) {
            Ok(_) => difference(&open(&out).unwrap(), &case),
            Err(error) => Some(error.to_string()),
        };
        wrong.extend(found.map(|found| (name.to_owned(), found)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Exports a net with the given shapes of its inputs, and runs the result with the recorded ones; `None` if it cannot be
/// exported.
fn exported_with(
    case: &Value,
    shapes: &[(String, Vec<Dim>)],
    out: &Path,
) -> Option<Option<String>> {
    let model = open(golden().join(case["name"].as_str().unwrap())).unwrap();
    let options = ConvertOptions::default()
        .with_to(Some(Target::Format("onnx".to_owned())))
        .with_input_types(types(case))
        .with_input_shapes(shapes.to_vec());
    convert(model, out, &options).ok()?;
    let exported = open(out).unwrap();
    let main = &exported.main().unwrap().blocks[0];
    for (name, shape) in shapes {
        let var = main.vars.iter().find(|var| var.name == *name).unwrap();
        assert_eq!(var.value.tensor_type().unwrap().shape.as_ref(), Some(shape), "{case}");
    }
    Some(difference(&exported, case))
}

#[test]
fn exported_nets_with_unknown_dims_return_what_caffe2_returned() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.onnx");
    let (mut batches, mut single, mut tried, mut wrong) = (0, 0, 0, Vec::new());
    for case in cases() {
        let name = case["name"].as_str().unwrap();
        let inputs = case["inputs"].as_object().unwrap();
        let known: Vec<(String, Vec<Dim>)> = inputs
            .iter()
            .map(|(name, it)| (name.clone(), array(it).shape.into_iter().map(Dim::Known).collect()))
            .collect();
        // The same batch in all inputs that have it.
        let mut shapes = known.clone();
        let size = known.first().and_then(|(_, shape)| shape.first());
        for (_, shape) in shapes.iter_mut().filter(|(_, shape)| shape.first() == size) {
            shape[0] = Dim::Symbol("batch".into());
        }
        let found = exported_with(&case, &shapes, &out);
        batches += usize::from(found.is_some());
        wrong.extend(found.flatten().map(|found| (format!("{name}, batch"), found)));
        for (number, (_, shape)) in known.iter().enumerate() {
            for axis in 0..shape.len() {
                let mut shapes = known.clone();
                shapes[number].1[axis] = Dim::Unknown;
                tried += 1;
                let found = exported_with(&case, &shapes, &out);
                single += usize::from(found.is_some());
                wrong.extend(found.flatten().map(|found| (format!("{name}, {axis}"), found)));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Others have inputs that must agree, or dims that weights determine.
    assert!(batches > 40 && single > 60, "{batches} batches, {single} of {tried} dims");
}

#[test]
fn detectors_without_shapes_are_exported() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.onnx");
    let detectors = ["mask_rcnn", "faster_rcnn_images"];
    let cases = cases();
    let cases = cases.iter().filter(|case| detectors.contains(&case["name"].as_str().unwrap()));
    let found: Vec<_> = cases.map(|case| exported_with(case, &[], &out)).collect();
    assert_eq!(found, vec![Some(None); detectors.len()]);
}

#[test]
fn nets_without_shapes_report_which_operators_are_supported() {
    let model = open(golden().join("conv")).unwrap();
    for target in [OperatorTarget::Onnx, OperatorTarget::Run] {
        let report = operators(&model, target).unwrap();
        assert!(report.supported, "{report:?}");
        assert_eq!(report.operators[0].kind, "Conv");
    }
    let mut other = model;
    other.main_mut().unwrap().blocks[0].ops[0].kind = "MadeUp".to_owned();
    let report = operators(&other, OperatorTarget::Onnx).unwrap();
    assert!(!report.supported);
    assert!(report.operators[0].reasons[0].contains("`MadeUp`"), "{report:?}");
    let refused = run(&other, inputs(&cases()[0]), &RunOptions::default()).unwrap_err().to_string();
    assert!(refused.contains("operator 0 (`MadeUp`)"), "{refused}");
}

/// Returns the error of a net with another argument of its first operator of a kind.
fn error_with(name: &str, number: usize, argument: &str, value: AttributeValue) -> String {
    let mut model = open(golden().join(name)).unwrap();
    let op = &mut model.main_mut().unwrap().blocks[0].ops[number];
    op.attributes.retain(|it| it.name != argument);
    op.attributes.push(Attribute { name: argument.to_owned(), value });
    let case = cases().into_iter().find(|case| case["name"] == name).unwrap();
    let error = run(&model, inputs(&case), &RunOptions::default());
    error.map(|_| String::new()).unwrap_or_else(|error| error.to_string())
}

#[test]
fn bogus_arguments_and_values_are_errors_of_every_operator() {
    let text = |text: &str| AttributeValue::String(text.into());
    let mut count = 0;
    for case in cases() {
        let name = case["name"].as_str().unwrap();
        let model = open(golden().join(name)).unwrap();
        for (number, op) in model.main().unwrap().blocks[0].ops.iter().enumerate() {
            // Nothing reads its result: it does not run.
            if op.kind == "Free" {
                continue;
            }
            let error = error_with(name, number, "no_such_argument", text("1"));
            let is_named = error.contains("`no_such_argument`") && error.contains(&op.kind);
            assert!(is_named, "{name}, {}: {error}", op.kind);
            count += 1;
            let sets: [(&str, AttributeValue, &str); 3] = [
                ("order", text("NHCW"), "`NHWC`"),
                ("mode", text("wrap"), "`reflect`"),
                ("legacy_pad", AttributeValue::Long(9), "2"),
            ];
            for (argument, bogus, allowed) in sets {
                // Caffe2's layers give `FC` an order, which it does not read.
                if op.attribute(argument).is_some() && op.kind != "FC" {
                    let error = error_with(name, number, argument, bogus);
                    let is_listed =
                        error.contains(&format!("`{argument}`")) && error.contains(allowed);
                    assert!(is_listed, "{name}, {}, {argument}: {error}", op.kind);
                }
            }
        }
    }
    assert!(count > 90, "{count} operators");
    let error = error_with("cast", 0, "to", AttributeValue::Long(99));
    assert!(error.contains("`to`") && error.contains("`12`"), "{error}");
}

#[test]
fn windows_that_caffe2_or_the_engine_lacks_are_errors_by_name() {
    let long = AttributeValue::Long;
    // Caffe2 crops the image here.
    let error = error_with("conv_legacy_same", 0, "stride", long(8));
    assert!(error.contains("`legacy_pad` 2") && error.contains("crops"), "{error}");
    // Caffe2 reads beyond the image here.
    let error = error_with("max_pool_caffe", 0, "stride", long(6));
    assert!(error.contains("`legacy_pad` 3") && error.contains("behind"), "{error}");
    let error = error_with("average_pool_pad", 0, "pad", long(3));
    assert!(error.contains("pads below the kernel"), "{error}");
    let error = error_with("conv_legacy_valid", 0, "pad", long(1));
    assert!(error.contains("no pads beside `legacy_pad`"), "{error}");
}

#[test]
fn inputs_that_the_startup_net_fills_are_inputs() {
    let dir = tempfile::tempdir().unwrap();
    for (name, warns) in [("input_empty", false), ("input_example", true)] {
        let model = open(golden().join(name)).unwrap();
        let names: Vec<&str> = model.parameters.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["w", "k"], "{name}");
        let is_warned = model.report.warnings.iter().any(|it| it.contains("`x`, is fed"));
        assert_eq!(is_warned, warns, "{name}: {:?}", model.report.warnings);
        // A copy keeps the fill of the input.
        let out = dir.path().join(name);
        let options = ConvertOptions::default().with_to(Some(Target::Format("caffe2".to_owned())));
        convert(model, out.join("predict_net.pb"), &options).unwrap();
        for file in ["init_net.pb", "predict_net.pb"] {
            let same = fs::read(out.join(file)).unwrap()
                == fs::read(golden().join(name).join(file)).unwrap();
            assert!(same, "{name}, {file}");
        }
    }
}

#[test]
fn weights_are_read_and_written_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let model = open(golden().join("conv")).unwrap();
    let path = dir.path().join("w.safetensors");
    convert(model.clone(), &path, &ConvertOptions::default().with_weights_only(true)).unwrap();
    let weights = open(&path).unwrap();
    assert_eq!(
        weights.parameter("w"),
        model.parameter("w").map(|_| weights.parameter("w").unwrap())
    );
    assert_eq!(numbers(weights.parameter("w").unwrap()), numbers(model.parameter("w").unwrap()));
    for format in ["caffe2", "caffe2-text"] {
        let folder = dir.path().join(format);
        let to = ConvertOptions::default().with_to(Some(Target::Format(format.to_owned())));
        convert(model.clone(), format!("{}/", folder.display()), &to).unwrap();
        let again = open(&folder).unwrap();
        assert_eq!(again.format, format);
        assert_eq!(difference(&again, &cases()[0]), None);
    }
    let to = Some(Target::Format("caffe2-minidb".to_owned()));
    let to = ConvertOptions::default().with_to(to);
    let written = convert(weights, dir.path().join("again.minidb"), &to).unwrap();
    let again = open(&written.files[0]).unwrap();
    assert_eq!(numbers(again.parameter("w").unwrap()), numbers(model.parameter("w").unwrap()));
}

/// Values that no attribute should have.
fn hostile(value: &AttributeValue) -> Vec<AttributeValue> {
    let mut all = vec![
        AttributeValue::None,
        AttributeValue::Float(f32::NAN),
        AttributeValue::Float(-1e30),
        AttributeValue::String("x".into()),
        AttributeValue::Strings(vec!["x".into()]),
        AttributeValue::Floats(vec![f32::INFINITY; 3]),
    ];
    for number in [0, -1, 1 << 31, i64::MAX, i64::MIN] {
        all.push(AttributeValue::Long(number));
        all.push(AttributeValue::Longs(vec![number; 4]));
        if let AttributeValue::Longs(numbers) = value {
            let mut changed = numbers.clone();
            changed.iter_mut().take(1).for_each(|it| *it = number);
            all.push(AttributeValue::Longs(changed));
        }
    }
    all
}

/// Lowers a model; a panic, or an error that names nothing, fails.
fn try_lowering(model: &Model, what: &str) {
    for to in [Dialect::Glow, Dialect::Onnx] {
        let mut copy = model.clone();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            lower(&mut copy, to, &mut Report::default()).unwrap()
        }));
        match outcome {
            Err(_) => unreachable!("{what}: panicked"),
            Ok(Err(error)) => {
                // An argument is named `link_internal`.
                let text = error.to_string().replace("link_internal", "");
                assert!(!text.contains("internal"), "{what}: {text}");
                assert!(text.contains("operator") || text.contains("the graph"), "{what}: {text}");
            }
            Ok(Ok(_)) => {}
        }
    }
}

#[test]
fn operators_with_hostile_attributes_are_rejected() {
    for case in cases() {
        let name = case["name"].as_str().unwrap();
        let mut model = open(golden().join(name)).unwrap();
        declare(&mut model, &case);
        let count = model.main().unwrap().blocks[0].ops.len();
        for op in 0..count {
            let attributes = model.main().unwrap().blocks[0].ops[op].attributes.clone();
            let more = [
                "axis",
                "broadcast",
                "axes",
                "shape",
                "kernel",
                "pads",
                "legacy_pad",
                "order",
                "k",
            ];
            let added = more
                .into_iter()
                .map(|name| Attribute { name: name.to_owned(), value: AttributeValue::None });
            for attribute in attributes.iter().cloned().chain(added) {
                for value in hostile(&attribute.value) {
                    let what = format!("{name}, operator {op}, {} = {value:?}", attribute.name);
                    let mut changed = model.clone();
                    let it = &mut changed.main_mut().unwrap().blocks[0].ops[op];
                    it.attributes.retain(|known| known.name != attribute.name);
                    it.attributes.push(Attribute { name: attribute.name.clone(), value });
                    try_lowering(&changed, &what);
                }
            }
        }
    }
}

#[test]
fn operators_with_hostile_operands_are_rejected() {
    let dims: [&[u64]; 7] =
        [&[], &[0], &[1], &[7], &[0, 3], &[2, 0, 3, 1], &[1 << 40, 1 << 40, 2, 2]];
    for case in cases() {
        let name = case["name"].as_str().unwrap();
        let mut model = open(golden().join(name)).unwrap();
        declare(&mut model, &case);
        for input in case["inputs"].as_object().unwrap().keys() {
            for dtype in [DType::Float32, DType::Int8, DType::Int64, DType::Bool, DType::String] {
                for dims in dims {
                    let mut changed = model.clone();
                    let main = &mut changed.main_mut().unwrap().blocks[0];
                    let var = main.vars.iter_mut().find(|var| var.name == *input).unwrap();
                    let shape = dims.iter().map(|dim| Dim::Known(*dim)).collect();
                    var.value = ValueType::tensor(TensorType::new(dtype, Some(shape)));
                    try_lowering(&changed, &format!("{name}, {input} of {dtype} {dims:?}"));
                }
            }
        }
        // Operands that are missing, or swapped.
        let count = model.main().unwrap().blocks[0].ops.len();
        for op in 0..count {
            for change in 0..3 {
                let mut changed = model.clone();
                let it = &mut changed.main_mut().unwrap().blocks[0].ops[op];
                for operand in &mut it.inputs {
                    match change {
                        0 => drop(operand.args.pop()),
                        1 => operand.args.reverse(),
                        _ => operand.args.extend(operand.args.clone()),
                    }
                }
                try_lowering(&changed, &format!("{name}, operator {op}, change {change}"));
            }
        }
    }
}

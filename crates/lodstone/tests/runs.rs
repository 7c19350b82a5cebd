//! Running models: results equal those of ONNX Runtime and Glow, and two models are compared value by value.

#![expect(clippy::disallowed_methods, reason = "tests read their own files")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::recorded::{array, numbers};
use lodstone::model::{Op, Operand};
use lodstone::ops::OperatorTarget;
use lodstone::run::{ComparedValue, Engine, PairedBy, Threads, tensors};
use lodstone::{
    Blob, CompareOptions, DType, Inputs, Model, RunOptions, Session, Tensor, compare, operators,
    run, statistics,
};
use serde_json::Value;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn onnx_model(name: &str) -> Model {
    lodstone::open(crates().join("engine/tests/golden/onnx_models").join(name)).unwrap()
}

/// Returns the inputs of an ONNX model, and the outputs of ONNX Runtime.
fn recorded(name: &str) -> (Inputs, Vec<Tensor>) {
    let (mut inputs, mut outputs) = (Inputs::default(), Vec::new());
    for parameter in onnx_model(&format!("{name}.npz")).parameters {
        match parameter.name.strip_prefix("in.") {
            Some(name) => inputs.values.push((Some(name.to_owned()), parameter.tensor.into())),
            None => outputs.push(parameter.tensor),
        }
    }
    (inputs, outputs)
}

#[track_caller]
fn assert_near(name: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let near = (found - expected).abs() <= tolerance + tolerance * expected.abs();
        let same = found == expected || found.is_nan() && expected.is_nan();
        assert!(near || same, "{name}: element {at} is {found}, expected {expected}");
    }
}

#[test]
fn onnx_models_return_what_onnx_runtime_returned() {
    for name in ["images", "series", "rounds", "calls", "whole"] {
        let model = onnx_model(&format!("{name}.onnx"));
        let (inputs, expected) = recorded(&format!("{name}.0"));
        for engine in [Engine::Builtin, Engine::Reference] {
            let options = RunOptions::default().with_engine(engine);
            let found = tensors(run(&model, inputs.clone(), &options).unwrap());
            assert_eq!(found.len(), expected.len(), "{name}");
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found.tensor.shape, expected.shape, "{name}");
                assert_near(name, &numbers(&found.tensor), &numbers(expected), 1e-5);
            }
        }
    }
}

#[test]
fn glow_models_return_what_glow_returned() {
    let folder = crates().join("formats/tests/golden/glow_run");
    let runs: Value =
        serde_json::from_slice(&std::fs::read(folder.join("runs.json")).unwrap()).unwrap();
    let runs = runs["runs"].as_array().unwrap();
    let mut wrong = Vec::new();
    for case in runs {
        let path = case["path"].as_str().unwrap();
        let model = lodstone::open(folder.join(path)).unwrap();
        let inputs = case["inputs"].as_object().unwrap();
        let inputs =
            inputs.iter().map(|(name, it)| (Some(name.clone()), array(it).into())).collect();
        let inputs = Inputs { values: inputs, ..Inputs::default() };
        let outputs = match run(&model, inputs, &RunOptions::default()) {
            Ok(outputs) => tensors(outputs),
            Err(error) => {
                wrong.push((path, error.to_string()));
                continue;
            }
        };
        let found: HashMap<&str, &Tensor> =
            outputs.iter().map(|it| (it.name.as_str(), &it.tensor)).collect();
        for (name, expected) in case["outputs"].as_object().unwrap() {
            let tolerance = case["tolerance"].as_f64().unwrap_or(2e-5);
            let expected = array(expected);
            let exact = !matches!(expected.dtype, DType::Float32 | DType::Float16);
            let tolerance = if exact { 0.0 } else { tolerance };
            assert_eq!(found[name.as_str()].shape, expected.shape, "{path}");
            assert_near(path, &numbers(found[name.as_str()]), &numbers(&expected), tolerance);
        }
    }
    assert!(wrong.is_empty(), "of {}: {wrong:#?}", runs.len());
}

/// Returns the values that the main graph of a model computes.
fn computed(model: &Model) -> Vec<String> {
    let main = &model.main().unwrap().blocks[0];
    main.ops
        .iter()
        .flat_map(|op| op.writes())
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn fetching_other_values_does_not_change_the_bits_of_outputs() {
    for name in ["images", "series", "whole"] {
        let model = onnx_model(&format!("{name}.onnx"));
        let (inputs, _) = recorded(&format!("{name}.0"));
        let plain = run(&model, inputs.clone(), &RunOptions::default()).unwrap();
        let all = computed(&model);
        let options = RunOptions::default().with_fetch(all.clone());
        let fetched = run(&model, inputs, &options).unwrap();
        assert_eq!(fetched.iter().map(|it| it.name.clone()).collect::<Vec<_>>(), all, "{name}");
        let fetched = tensors(fetched);
        for output in tensors(plain) {
            let other = fetched.iter().find(|it| it.name == output.name);
            let Some(other) = other else {
                assert!(model.parameters.iter().any(|it| it.name == output.name), "{name}");
                continue;
            };
            assert!(
                output.tensor.data.bytes().unwrap() == other.tensor.data.bytes().unwrap(),
                "{name}: {}",
                output.name
            );
        }
    }
}

#[test]
fn a_session_accepts_inputs_of_other_shapes_and_the_number_of_threads_changes_no_bits() {
    let model = onnx_model("images.onnx");
    let outputs = |threads: usize, rounds: usize| {
        let options = RunOptions::default().with_threads(Some(Threads::new(threads)));
        let mut session = Session::new(&model, &options).unwrap();
        let round = |batch: u64| {
            let mut inputs = Inputs::default();
            let mut shape = shape_of(&model, "x");
            shape[0] = batch;
            inputs.add_random(&model, batch, &[("x".to_owned(), shape)]).unwrap();
            let output = tensors(session.run(inputs).unwrap()).swap_remove(0).tensor;
            output.data.bytes().unwrap().to_vec()
        };
        (1..=rounds as u64).map(round).collect::<Vec<_>>()
    };
    let one = outputs(1, 20);
    assert!(one == outputs(2, 20) && one == outputs(5, 20));
    // The last input shape again, in a new session.
    let mut inputs = Inputs::default();
    let mut shape = shape_of(&model, "x");
    shape[0] = 20;
    inputs.add_random(&model, 20, &[("x".to_owned(), shape)]).unwrap();
    let fresh = tensors(run(&model, inputs, &RunOptions::default()).unwrap());
    assert!(fresh[0].tensor.data.bytes().unwrap() == one[19]);
}

/// Returns the shape of a recorded input.
fn shape_of(_: &Model, name: &str) -> Vec<u64> {
    let (inputs, _) = recorded("images.0");
    let (_, value) = inputs.values.into_iter().find(|it| it.0.as_deref() == Some(name)).unwrap();
    only_tensor(value).shape
}

fn only_tensor(value: lodstone::run::Value) -> Tensor {
    let lodstone::run::Value::Tensor(tensor) = value else { panic!("{value:?}") };
    tensor
}

#[test]
fn invalid_inputs_are_named() {
    let model = onnx_model("images.onnx");
    let error =
        |inputs: Inputs| run(&model, inputs, &RunOptions::default()).unwrap_err().to_string();
    assert!(error(Inputs::default()).contains("the input `x` is missing"));
    let (mut inputs, _) = recorded("images.0");
    inputs.values.push((Some("z".to_owned()), inputs.values[0].1.clone()));
    assert!(error(inputs).contains("`z`"));
    let scalar = Tensor::dense(DType::Int64, vec![], Blob::memory(vec![0; 8]));
    let inputs = Inputs { values: vec![(None, scalar.into())], ..Inputs::default() };
    assert!(error(inputs).contains("input `x`: expected float32"));
    let (inputs, _) = recorded("images.0");
    let options = RunOptions::default().with_fetch(vec!["nothing".to_owned()]);
    assert!(run(&model, inputs, &options).unwrap_err().to_string().contains("`nothing`"));
}

#[test]
fn random_inputs_depend_only_on_the_seed() {
    let model = onnx_model("images.onnx");
    let random = |seed: u64| {
        let mut inputs = Inputs::default();
        inputs.add_random(&model, seed, &[("x".to_owned(), shape_of(&model, "x"))]).unwrap();
        only_tensor(inputs.values.remove(0).1)
    };
    let bytes = |seed: u64| random(seed).data.bytes().unwrap();
    assert!(bytes(1) == bytes(1) && bytes(1) != bytes(2));
    let found = statistics(&random(1)).unwrap();
    assert!(found.min.unwrap() >= 0.0 && found.max.unwrap() < 1.0);
    assert!((found.mean.unwrap() - 0.5).abs() < 0.1, "{found:?}");
}

/// The dims of these inputs are all unknown; inference finds sizes that the operators accept.
#[test]
fn random_inputs_have_sizes_that_operators_of_onnx_runtime_accept() {
    let folder = crates().join("engine/tests/golden/onnx_runtime");
    // Two groups need a second dim other than the third; 40 is a dim of no weight.
    let impossible = ["ms_fusedconv_7.onnx", "ms_matmulnbits_3.onnx"];
    let kinds = ["embedlayernorm", "fused", "matmul", "nhwcconv", "qgemm", "qlinearconv"];
    let mut tried = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let kind = name.strip_prefix("ms_").unwrap_or_default();
        if !kinds.iter().any(|wanted| kind.starts_with(wanted)) || impossible.contains(&name) {
            continue;
        }
        let model = lodstone::open(&path).unwrap();
        let mut inputs = Inputs::default();
        let chosen = inputs.add_random(&model, 0, &[]).unwrap();
        let outputs = run(&model, inputs, &RunOptions::default());
        assert!(outputs.is_ok(), "{name}: {:?}, {chosen:?}", outputs.err());
        tried += 1;
    }
    assert!(tried >= 30, "{tried} models were tried");
}

#[test]
fn a_model_agrees_with_itself_but_not_with_other_weights() {
    let model = onnx_model("images.onnx");
    let (inputs, _) = recorded("images.0");
    let options = CompareOptions::default();
    let found = compare(&model, &model, inputs.clone(), &options).unwrap();
    assert!(found.same && found.values.iter().all(|value| value.agrees));
    assert_eq!(found.values.len(), computed(&model).len());
    let mut other = model.clone();
    let weight = other.parameters.iter_mut().find(|it| it.tensor.shape.len() == 4).unwrap();
    let zeros = vec![0; weight.tensor.data.bytes().unwrap().len()];
    weight.tensor.data = Blob::memory(zeros);
    let found = compare(&model, &other, inputs, &options).unwrap();
    let first = found.values.iter().find(|value| !value.agrees).unwrap();
    assert!(!found.same);
    let conv = model.main().unwrap().blocks[0].ops.iter().find(|op| op.kind == "Conv").unwrap();
    assert_eq!(Some(first.a.as_str()), conv.writes().next());
    let errors = first.errors.as_ref().unwrap();
    assert!(errors.outside > 0 && errors.max_abs > 0.0 && errors.worst.is_some(), "{errors:?}");
}

#[test]
fn values_without_a_counterpart_are_never_equal() {
    let model = onnx_model("images.onnx");
    let (inputs, _) = recorded("images.0");
    let mut renamed = model.clone();
    let main = &mut renamed.main_mut().unwrap().blocks[0];
    let output = main.outputs[0].clone();
    let rename = |name: &mut String| {
        if *name == output {
            "another".clone_into(name);
        }
    };
    main.outputs.iter_mut().for_each(rename);
    let args = main.ops.iter_mut().flat_map(|op| op.inputs.iter_mut().chain(&mut op.outputs));
    args.flat_map(|operand| &mut operand.args).for_each(rename);
    main.vars.iter_mut().for_each(|var| rename(&mut var.name));
    let found = compare(&model, &renamed, inputs.clone(), &CompareOptions::default()).unwrap();
    let last = found.values.iter().find(|value| value.is_output).unwrap();
    assert!(found.same && last.paired_by == PairedBy::Position && last.b == "another");
    // Another output, which the other model lacks.
    let mut more = model.clone();
    let main = &mut more.main_mut().unwrap().blocks[0];
    let operand = |name: &str| Operand { slot: String::new(), args: vec![name.to_owned()] };
    let (inputs_of, outputs_of) = (vec![operand(&output)], vec![operand("extra")]);
    let kind = "Identity".to_owned();
    main.ops.push(Op { kind, inputs: inputs_of, outputs: outputs_of, ..Op::default() });
    main.outputs.push("extra".to_owned());
    let found = compare(&more, &model, inputs, &CompareOptions::default()).unwrap();
    assert!(!found.same && found.values.iter().all(|value| value.agrees));
    assert_eq!(found.unpaired_outputs, ["extra"]);
}

#[test]
fn glow_models_agree_with_their_conversion_to_onnx() {
    let folder = crates().join("formats/tests/golden/glow_run");
    let model = lodstone::open(folder.join("onnx__glow_custom_op_topk_quantized.onnx")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("standard.onnx");
    let allow = lodstone::Loss::ALL.to_vec();
    let options = lodstone::ConvertOptions::default().with_allow(allow);
    lodstone::convert(model.clone(), &path, &options).unwrap();
    let converted = lodstone::open(&path).unwrap();
    let mut inputs = Inputs::default();
    inputs.add_random(&model, 7, &[]).unwrap();
    let found = compare(&model, &converted, inputs, &CompareOptions::default()).unwrap();
    assert!(found.same && found.unpaired_outputs.is_empty(), "{found:?}");
    let by_origin = |value: &&ComparedValue| value.paired_by == PairedBy::Origin;
    let by_origin: Vec<_> = found.values.iter().filter(by_origin).map(|it| it.a.as_str()).collect();
    assert_eq!(by_origin, ["TopK", "TopK:1"], "nodes of Glow that became outputs of operators");
}

/// A program can be prepared if and only if the list of its operators says so.
#[test]
fn operators_are_listed_as_supported_if_a_session_accepts_them() {
    let folders = [
        "engine/tests/golden/onnx_runtime",
        "formats/tests/golden/glow",
        "formats/tests/golden/onnx_check",
        "formats/tests/golden/onnx_upgrade",
        "lodstone/tests/golden/glow_loaded",
    ];
    let (mut supported, mut unsupported) = (0, 0);
    for folder in folders {
        for entry in std::fs::read_dir(crates().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let Ok(model) = lodstone::open(&path) else { continue };
            let Ok(report) = operators(&model, OperatorTarget::Run) else { continue };
            let session = Session::new(&model, &RunOptions::default());
            match (&session, report.supported) {
                (Ok(_), true) => supported += 1,
                (Err(_), false) => unsupported += 1,
                // Not the operators: the program contradicts itself as a whole.
                (Err(error), true) if !error.to_string().contains("operator") => {}
                (session, _) => {
                    let error = session.as_ref().err().map(ToString::to_string);
                    panic!("{}: {error:?}, {:?}", path.display(), report.operators);
                }
            }
        }
    }
    assert!(supported > 200 && unsupported > 10, "{supported}, {unsupported}");
}

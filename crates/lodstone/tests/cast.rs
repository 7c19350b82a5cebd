//! ONNX programs are cast to 16-bit floats, and compute nearly the same.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;

use lodstone::convert::Conversion;
use lodstone::model::Op;
use lodstone::run::{Value, tensors};
use lodstone::{
    ConvertOptions, DType, Inputs, Loss, Model, RunOptions, Tensor, convert, open, run, verify,
};

const MODELS: [&str; 6] = ["images", "series", "rounds", "calls", "whole", "words"];

fn model(name: &str) -> Model {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden/onnx_models");
    open(models.join(name)).unwrap()
}

/// The recorded inputs and outputs of a model.
fn recorded(name: &str) -> (Inputs, Vec<Tensor>) {
    let (mut inputs, mut outputs) = (Inputs::default(), Vec::new());
    for parameter in model(&format!("{name}.0.npz")).parameters {
        match parameter.name.strip_prefix("in.") {
            Some(name) => inputs.values.push((Some(name.to_owned()), parameter.tensor.into())),
            None => outputs.push(parameter.tensor),
        }
    }
    (inputs, outputs)
}

/// Casts a model, and opens what was written.
fn cast(model: Model, to: DType, keep_io: bool) -> (Conversion, Model) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cast.onnx");
    let options = ConvertOptions::default()
        .with_cast(Some(to))
        .with_keep_io(keep_io)
        .with_allow(vec![Loss::Rounding]);
    let done = convert(model, &path, &options).unwrap();
    let found = verify(&path, &lodstone::OpenOptions::default(), &lodstone::Progress::default());
    let found = found.unwrap();
    assert!(found.whole, "{:?}", found.findings);
    let mut model = open(&path).unwrap();
    model.load().unwrap();
    (done, model)
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.data.bytes().unwrap();
    match tensor.dtype {
        DType::Float32 => tensor.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect(),
        DType::Float16 => bytes
            .chunks(2)
            .map(|it| half::f16::from_le_bytes(it.try_into().unwrap()).to_f64())
            .collect(),
        DType::Int64 => tensor.to_vec::<i64>().unwrap().into_iter().map(|it| it as f64).collect(),
        other => panic!("{other}"),
    }
}

#[track_caller]
fn assert_near(name: &str, found: &[Tensor], expected: &[Tensor], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.shape, expected.shape, "{name}");
        let (found, expected) = (numbers(found), numbers(expected));
        let greatest = expected.iter().fold(1.0, |most: f64, it| most.max(it.abs()));
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() <= tolerance * greatest, "{name}: {found} {expected}");
        }
    }
}

fn outputs(model: &Model, inputs: Inputs) -> Vec<Tensor> {
    let outputs = run(model, inputs, &RunOptions::default()).unwrap();
    tensors(outputs).into_iter().map(|it| it.tensor).collect()
}

#[test]
fn inputs_and_outputs_may_keep_their_types() {
    for name in MODELS {
        let (inputs, expected) = recorded(name);
        for (to, tolerance) in [(DType::Float16, 0.01), (DType::BFloat16, 0.1)] {
            let (_, cast) = cast(model(&format!("{name}.onnx")), to, true);
            let found = outputs(&cast, inputs.clone());
            let types = |all: &[Tensor]| all.iter().map(|it| it.dtype).collect::<Vec<_>>();
            assert_eq!(types(&found), types(&expected), "{name}");
            assert_near(name, &found, &expected, tolerance);
            // Convolutions and others take bfloat16 only in newer opsets.
            let is_float = |it: &&lodstone::Parameter| it.tensor.dtype == DType::Float32;
            let floats = lodstone::inspect::weights(&cast).iter().filter(is_float).count();
            assert!(floats == 0 || to == DType::BFloat16, "{name}");
        }
    }
}

#[test]
fn inputs_and_outputs_are_cast_too() {
    for name in MODELS {
        let (mut inputs, expected) = recorded(name);
        for (_, value) in &mut inputs.values {
            let Value::Tensor(tensor) = value else { panic!("{value:?}") };
            if tensor.dtype == DType::Float32 {
                let halves = tensor.to_vec::<f32>().unwrap().into_iter().map(half::f16::from_f32);
                let bytes: Vec<u8> = halves.flat_map(half::f16::to_le_bytes).collect();
                let shape = tensor.shape.clone();
                *tensor = Tensor::dense(DType::Float16, shape, lodstone::Blob::memory(bytes));
            }
        }
        let (_, cast) = cast(model(&format!("{name}.onnx")), DType::Float16, false);
        let found = outputs(&cast, inputs);
        assert!(found.iter().all(|it| it.dtype != DType::Float32), "{name}");
        assert_near(name, &found, &expected, 0.01);
    }
}

#[test]
fn operators_that_do_not_take_the_type_keep_theirs() {
    // Of `Resize`, the scales are always single precision.
    let text = r#"
        ir_version: 9 opset_import { version: 19 }
        graph {
          name: "resized"
          initializer { name: "scales" data_type: 1 dims: 4 float_data: [1, 1, 1.3, 1.7] }
          initializer { name: "factor" data_type: 1 dims: 1 float_data: [1e-12] }
          node { op_type: "Resize" input: "x" input: "" input: "scales" output: "y" }
          node { op_type: "Mul" input: "y" input: "factor" output: "z" }
          input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_value: 1 }
            dim { dim_value: 1 } dim { dim_value: 3 } dim { dim_value: 3 } } } } }
          output { name: "y" type { tensor_type { elem_type: 1 shape { dim {} dim {} dim {} dim {} } } } }
          output { name: "z" type { tensor_type { elem_type: 1 shape { dim {} dim {} dim {} dim {} } } } }
        }"#;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("resized.onnxtxt");
    #[expect(clippy::disallowed_methods, reason = "a test writes its own file")]
    std::fs::write(&path, text).unwrap();
    let (done, cast) = cast(open(&path).unwrap(), DType::Float16, false);
    let warned = |what: &str| done.report.warnings.iter().any(|warning| warning.contains(what));
    assert!(warned("do not take float16 keep their types: `Resize` (1)"), "{:?}", done.report);
    let of = |name: &str| cast.parameter(name).unwrap();
    assert_eq!(of("scales").to_vec::<f32>().unwrap(), [1.0, 1.0, 1.3, 1.7]);
    let factor = of("factor");
    assert_eq!(factor.dtype, DType::Float16);
    assert!(numbers(factor).iter().all(|it| *it > 0.0), "an epsilon does not become 0");
    let kinds = |op: &Op| op.kind.clone();
    let kinds: Vec<_> = cast.main().unwrap().ops().map(kinds).collect();
    assert_eq!(kinds, ["Resize", "Mul"]);
}

#[test]
fn constants_in_operators_keep_the_type_of_their_readers() {
    // Up to opset 21, convolutions do not take bfloat16.
    let mut source = model("images.onnx");
    let parameters = std::mem::take(&mut source.parameters);
    let operand =
        |name: String| vec![lodstone::model::Operand { slot: String::new(), args: vec![name] }];
    let constant = |it: lodstone::Parameter| Op {
        kind: "Constant".to_owned(),
        outputs: operand(it.name),
        attributes: vec![lodstone::model::Attribute {
            name: "value".to_owned(),
            value: lodstone::model::AttributeValue::Tensor(Box::new(it.tensor)),
        }],
        ..Op::default()
    };
    let main = source.main_mut().unwrap().blocks.first_mut().unwrap();
    main.ops.splice(..0, parameters.into_iter().map(constant));
    let (inputs, expected) = recorded("images");
    for to in [DType::BFloat16, DType::Float16] {
        let (_, cast) = cast(source.clone(), to, true);
        assert_near("images", &outputs(&cast, inputs.clone()), &expected, 0.1);
    }
}

#[test]
fn other_programs_are_not_cast() {
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/paddle");
    let options = ConvertOptions::default().with_cast(Some(DType::Float16));
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let options = options.with_to(Some(lodstone::Target::Format("paddle".to_owned())));
    let error = convert(open(digits).unwrap(), &out, &options).unwrap_err();
    assert!(matches!(error, lodstone::Error::CastProgram), "{error}");
}

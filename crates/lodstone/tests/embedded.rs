//! Weights in `Constant` operators and subgraphs are listed, read, compared, sealed and converted like initializers.

#![expect(clippy::disallowed_methods, reason = "tests read their own files")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::path::{Path, PathBuf};

use lodstone::inspect::{layers, weights};
use lodstone::model::{Attribute, AttributeValue, Op, Operand};
use lodstone::open::tensor_named;
use lodstone::{
    ConvertOptions, DiffOptions, InspectOptions, Loss, Model, OpenOptions, Progress, convert, diff,
    inspect, open, seal, verify,
};

/// An ONNX model with initializers.
fn images() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden/onnx_models/images.onnx")
}

/// The same model with all initializers in `Constant` operators, as Paddle2ONNX writes models.
fn with_constants(path: &Path) -> Model {
    let mut model = open(images()).unwrap();
    let parameters = std::mem::take(&mut model.parameters);
    let constant = |parameter: lodstone::Parameter| Op {
        kind: "Constant".to_owned(),
        outputs: vec![Operand { slot: String::new(), args: vec![parameter.name] }],
        attributes: vec![Attribute {
            name: "value".to_owned(),
            value: AttributeValue::Tensor(Box::new(parameter.tensor)),
        }],
        ..Op::default()
    };
    let ops = parameters.into_iter().map(constant);
    model.main_mut().unwrap().blocks[0].ops.splice(..0, ops);
    convert(model, path, &ConvertOptions::default()).unwrap();
    open(path).unwrap()
}

#[test]
fn they_are_listed_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.onnx");
    let (plain, model) = (open(images()).unwrap(), with_constants(&path));
    assert!(model.parameters.is_empty());
    // A shape of two integers is an argument.
    let expected: Vec<_> = plain.parameters.iter().filter(|it| it.name != "val_11").collect();
    let found = weights(&model);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!((&found.name, &found.tensor.shape), (&expected.name, &expected.tensor.shape));
        let bytes = |it: &lodstone::Parameter| it.tensor.data.bytes().unwrap();
        assert_eq!(bytes(found), bytes(expected));
    }
    let listed = inspect(&model, &InspectOptions::default()).unwrap().tensors;
    assert_eq!(listed.len(), expected.len());
    assert_eq!(layers(&model).total.elements, 517);
    let one = tensor_named(&path, "last.bias", &OpenOptions::default()).unwrap();
    assert_eq!(one.tensor.shape, [5]);
}

#[test]
fn they_are_compared_and_converted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.onnx");
    let model = with_constants(&path);
    let initializers = open(images()).unwrap();
    let found = diff(model.clone(), &initializers, &DiffOptions::default()).unwrap();
    assert_eq!((found.equal, found.tensors.len()), (6, 1), "all but the shape");
    // Byte for byte the same file.
    let same = dir.path().join("same.onnx");
    convert(model.clone(), &same, &ConvertOptions::default()).unwrap();
    assert!(std::fs::read(&path).unwrap() == std::fs::read(&same).unwrap());
    for options in [
        ConvertOptions::default().with_allow(vec![Loss::Program]),
        ConvertOptions::default().with_weights_only(true),
    ] {
        let out = dir.path().join("weights.safetensors");
        let done = convert(model.clone(), &out, &options).unwrap();
        assert_eq!(done.tensors, 6);
        let converted = open(&out).unwrap();
        let found = diff(converted, &initializers, &DiffOptions::default()).unwrap();
        assert_eq!(found.equal, 6);
    }
}

#[test]
fn they_are_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.onnx");
    drop(with_constants(&path));
    let sealing = seal(&path, &OpenOptions::default(), false, &Progress::default()).unwrap();
    assert_eq!(sealing.tensors, 6);
    let mut bytes = std::fs::read(&path).unwrap();
    let weight = open(images()).unwrap().parameters[0].tensor.data.bytes().unwrap();
    let at = bytes.windows(weight.len()).position(|part| part == weight).unwrap();
    bytes[at + 5] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let found = verify(&path, &OpenOptions::default(), &Progress::default()).unwrap();
    let named = found.findings.iter().any(|defect| defect.message.contains("`first.weight`"));
    assert!(!found.whole && named, "{:?}", found.findings);
}

#[test]
fn those_in_subgraphs_count() {
    let mut model = open(images()).unwrap();
    let tensor = model.parameters[0].tensor.clone();
    let main = model.main_mut().unwrap();
    let mut inner = main.blocks[0].clone();
    (inner.index, inner.parent) = (1, 0);
    inner.ops.clear();
    let one = |name: &str| lodstone::Parameter { name: name.to_owned(), tensor: tensor.clone() };
    inner.initializers = vec![one("inner"), one("first.weight")];
    main.blocks.push(inner);
    let names: Vec<_> = weights(&model).iter().skip(7).map(|it| it.name.clone()).collect();
    assert_eq!(names, ["inner", "first.weight.1"], "names are unique");
}

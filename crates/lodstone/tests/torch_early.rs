//! TorchScript of the first versions returns what torch returned, and has the tensors that it had.

#![expect(clippy::disallowed_methods, reason = "reads golden files directly")]

use std::path::Path;

use lodstone::run::tensors;
use lodstone::{ConvertOptions, DType, Dim, Inputs, RunOptions, Tensor, convert, open, run};
use serde_json::Value as Json;

use crate::floats::{array, assert_near};

#[test]
fn early_modules_return_what_torch_returned() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/torch_early");
    let dir = tempfile::tempdir().expect("a directory");
    for version in ["1.0.1", "1.1.0", "1.3.1"] {
        let folder = golden.join(version);
        let text = std::fs::read(folder.join("cases.json")).expect("the cases");
        let cases: Vec<Json> = serde_json::from_slice(&text).expect("JSON");
        for (at, case) in cases.iter().enumerate() {
            let path = case["path"].as_str().expect("a path");
            let what = format!("{version}/{path} {at}");
            let model = open(folder.join(path)).expect(&what);
            for (name, wanted) in case["state"].as_object().expect("the state") {
                let parameter = model.parameters.iter().find(|it| it.name == *name);
                let tensor = &parameter.unwrap_or_else(|| panic!("{what}: no {name}")).tensor;
                match tensor.dtype {
                    DType::Int64 => assert_eq!(tensor.to_vec::<i64>().expect("one"), [0], "{what}"),
                    _ => assert_near(tensor, wanted, &format!("{what}: {name}")),
                }
            }
            let (shape, data) = array(&case["x"]);
            let x = Tensor::from_vec(shape.clone(), data).expect("a tensor");
            let inputs = Inputs { values: vec![(None, x.into())], lod: Vec::new() };
            let wanted = case["y"].as_array().expect("results");
            let input = &model.main().expect("a program").blocks[0].inputs[0];
            let dims = shape.iter().map(|dim| Dim::Known(*dim)).collect();
            let options = ConvertOptions::default().with_input_shapes(vec![(input.clone(), dims)]);
            let out = dir.path().join("out.onnx");
            convert(model.clone(), &out, &options).expect(&what);
            for model in [&model, &open(&out).expect("exported")] {
                let found = run(model, inputs.clone(), &RunOptions::default()).expect(&what);
                let found = tensors(found);
                assert_eq!(found.len(), wanted.len(), "{what}");
                for (found, wanted) in found.iter().zip(wanted) {
                    assert_near(&found.tensor, wanted, &what);
                }
            }
        }
    }
}

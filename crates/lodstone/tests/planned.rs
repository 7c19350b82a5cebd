//! PaddlePaddle networks are planned as a whole only where that gives what their executor gives.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;

use lodstone::paddle::program::layers::{self, Fc};
use lodstone::paddle::program::{Network, Operator, Variable, inference};
use lodstone::{
    Blob, DType, Dim, Inputs, Lod, Model, Profile, RunOptions, Session, Tensor, tensors,
};

/// Returns the model of the inference program of a network, with parameters of 1.5.
fn model(net: &Network, output: &Variable) -> Model {
    let program = inference(&net.main, &["x"], &[output.name()]).unwrap();
    let is_weight = |name: &str| name.contains(".w_") || name.contains(".b_");
    let weights = program.vars().filter(|var| is_weight(&var.name)).map(|var| {
        let tensor = var.value.tensor_type().unwrap();
        let dims = tensor.shape.as_ref().unwrap();
        let known = |dim: &Dim| if let Dim::Known(dim) = dim { *dim } else { 1 };
        let dims: Vec<u64> = dims.iter().map(known).collect();
        let count = usize::try_from(dims.iter().product::<u64>()).unwrap();
        let tensor =
            Tensor::dense(DType::Float32, dims, Blob::memory(1.5_f32.to_le_bytes().repeat(count)));
        lodstone::Parameter { name: var.name.clone(), tensor }
    });
    let mut model = Model { parameters: weights.collect(), ..Model::default() };
    model.set_main(program);
    model
}

/// Runs a model; returns its output and the kinds of the operators that ran.
fn run(model: &Model, x: Tensor) -> (Tensor, Vec<String>) {
    let profile = Arc::new(Profile::default());
    let options = RunOptions::default().with_profile(Some(profile.clone()));
    let values = vec![(Some("x".to_owned()), x.into())];
    let inputs = Inputs { values, ..Inputs::default() };
    let outputs = Session::new(model, &options).unwrap().run(inputs).unwrap();
    let kinds = profile.operators().into_iter().map(|it| it.kind).collect();
    (tensors(outputs).swap_remove(0).tensor, kinds)
}

fn rows(values: &[f32]) -> Tensor {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    Tensor::dense(DType::Float32, vec![values.len() as u64 / 2, 2], Blob::memory(bytes))
}

fn values(tensor: &Tensor) -> Vec<f32> {
    let bytes = tensor.data.bytes().unwrap();
    bytes.as_chunks::<4>().0.iter().map(|it| f32::from_le_bytes(*it)).collect()
}

fn is_planned(kinds: &[String]) -> bool {
    kinds.iter().any(|kind| kind.contains("Relu")) && !kinds.iter().any(|kind| kind == "relu")
}

#[test]
fn finite_numbers_are_planned_and_all_others_are_left_to_the_executor() {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None, Some(2)], DType::Float32);
    let y = layers::fc(&mut net, &x, &Fc::new(2).act("relu")).unwrap();
    let model = model(&net, &y);
    let (output, kinds) = run(&model, rows(&[1.0, 2.0, -8.0, 3.0]));
    assert!(is_planned(&kinds), "{kinds:?}");
    assert_eq!(values(&output), [6.0, 6.0, 0.0, 0.0]);
    // PaddlePaddle's `relu` of NaN is 0.
    let (output, kinds) = run(&model, rows(&[1.0, 2.0, f32::NAN, 3.0]));
    assert!(!is_planned(&kinds), "{kinds:?}");
    assert_eq!(values(&output), [6.0, 6.0, 0.0, 0.0]);
    // Numbers that overflow are computed again.
    let (output, kinds) = run(&model, rows(&[1.0, 2.0, f32::MAX, f32::MAX]));
    assert!(kinds.iter().any(|kind| kind == "relu"), "{kinds:?}");
    assert_eq!(values(&output)[..], [6.0, 6.0, f32::INFINITY, f32::INFINITY]);
    let mut grouped = rows(&[1.0, 2.0, -8.0, 3.0]);
    grouped.lod = Lod(vec![vec![0, 1, 2]]);
    let (output, kinds) = run(&model, grouped.clone());
    assert!(!is_planned(&kinds), "{kinds:?}");
    assert_eq!((values(&output), output.lod), (vec![6.0, 6.0, 0.0, 0.0], grouped.lod));
}

#[test]
fn operators_that_hide_nan_or_draw_numbers_are_left_to_the_executor() {
    type Then = fn(&mut Network, &Variable) -> Variable;
    let thens: [Then; 2] = [
        |net, x| layers::dropout(net, x, 0.5, false).unwrap(),
        |net, x| {
            let op = Operator::new("arg_max").input("X", [x]).attribute("axis", -1_i64);
            net.call("arg_max", "Out", op).unwrap()
        },
    ];
    for then in thens {
        let mut net = Network::new();
        let x = layers::data(&mut net, "x", &[None, Some(2)], DType::Float32);
        let y = layers::relu(&mut net, &x).unwrap();
        let y = then(&mut net, &y);
        let mut model = model(&net, &y);
        for op in model.main_mut().unwrap().blocks.iter_mut().flat_map(|block| &mut block.ops) {
            op.attributes.retain(|attribute| attribute.name != "is_test");
        }
        let (_, kinds) = run(&model, rows(&[1.0, 2.0]));
        assert!(!is_planned(&kinds), "{kinds:?}");
    }
}

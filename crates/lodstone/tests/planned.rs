//! PaddlePaddle networks are planned as a whole only where that gives what their executor gives.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;

use lodstone::paddle::program::layers::{self, Fc};
use lodstone::paddle::program::{Network, Operator, Variable, inference};
use lodstone::run::{Profile, tensors};
use lodstone::{Blob, DType, Dim, Inputs, Lod, Model, RunOptions, Session, Tensor};

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

fn indices(values: &[i64]) -> Tensor {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    Tensor::dense(DType::Int64, vec![values.len() as u64], Blob::memory(bytes))
}

/// Returns the error of a run.
fn error(model: &Model, x: Tensor) -> String {
    let values = vec![(Some("x".to_owned()), x.into())];
    let inputs = Inputs { values, ..Inputs::default() };
    Session::new(model, &RunOptions::default()).unwrap().run(inputs).unwrap_err().to_string()
}

/// Returns whether none of PaddlePaddle's operators of these kinds ran on its own, and one of ONNX did.
fn is_one_plan(kinds: &[String], own: &[&str], onnx: &str) -> bool {
    !own.iter().any(|own| kinds.iter().any(|kind| kind == own))
        && kinds.iter().any(|kind| kind.contains(onnx))
}

#[test]
fn a_negative_index_in_a_plan_is_the_error_of_the_executor() {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None], DType::Int64);
    let y = layers::embedding(&mut net, &x, [4, 2], None).unwrap();
    let model = model(&net, &y);
    let (output, kinds) = run(&model, indices(&[3, 0]));
    assert!(is_one_plan(&kinds, &["lookup_table_v2"], "Gather"), "{kinds:?}");
    assert_eq!(values(&output), [1.5; 4]);
    let wrong = error(&model, indices(&[3, -1]));
    assert!(wrong.contains("lookup_table_v2") && wrong.contains("at least 0, found -1"), "{wrong}");
    let wrong = error(&model, indices(&[3, 4]));
    assert!(wrong.contains("lookup_table_v2"), "{wrong}");
}

#[test]
fn nan_that_an_operator_of_a_plan_hides_is_left_to_the_executor() {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None, Some(2)], DType::Float32);
    let quotient = layers::elementwise(&mut net, "div", &x, &x, -1).unwrap();
    let op = Operator::new("arg_max").input("X", [&quotient]).attribute("axis", -1_i64);
    let y = net.call("arg_max", "Out", op).unwrap();
    let model = model(&net, &y);
    let (_, kinds) = run(&model, rows(&[1.0, 2.0]));
    assert!(is_one_plan(&kinds, &["arg_max", "div"], "ArgMax"), "{kinds:?}");
    let (_, kinds) = run(&model, rows(&[0.0, 2.0]));
    assert!(kinds.iter().any(|kind| kind == "arg_max"), "{kinds:?}");
}

#[test]
fn branches_and_loops_are_planned_with_the_guards_inside_them() {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[Some(1)], DType::Int64);
    let count = layers::fill_constant(&mut net, &[1], DType::Int64, 0.0).unwrap();
    let limit = layers::fill_constant(&mut net, &[1], DType::Int64, 3.0).unwrap();
    let sum = layers::fill_constant(&mut net, &[1, 2], DType::Float32, 0.0).unwrap();
    let goes_on = layers::less_than(&mut net, &count, &limit).unwrap();
    net.while_loop(&goes_on, |net| {
        // The index falls below 0 in the last iteration if it begins below 2.
        let index = layers::elementwise(net, "sub", &x, &count, -1)?;
        let row = layers::embedding(net, &index, [4, 2], None)?;
        let more = layers::elementwise(net, "add", &sum, &row, -1)?;
        layers::assign_to(net, &more, &sum)?;
        layers::increment(net, &count, 1.0)?;
        let again = layers::less_than(net, &count, &limit)?;
        layers::assign_to(net, &again, &goes_on)
    })
    .unwrap();
    let is_large = layers::less_than(&mut net, &limit, &x).unwrap();
    let y = layers::cond(
        &mut net,
        &is_large,
        |net| Ok(vec![layers::scale(net, &sum, 2.0, 0.0)?]),
        |net| Ok(vec![layers::scale(net, &sum, 1.0, 0.5)?]),
    )
    .unwrap();
    let model = model(&net, &y[0]);
    let own = ["while", "conditional_block", "lookup_table_v2", "select_input"];
    let (output, kinds) = run(&model, indices(&[2]));
    assert!(is_one_plan(&kinds, &own, "Loop"), "{kinds:?}");
    assert_eq!(values(&output), [5.0, 5.0]);
    let wrong = error(&model, indices(&[1]));
    assert!(wrong.contains("lookup_table_v2") && wrong.contains("found -1"), "{wrong}");
}

#[test]
fn operators_that_draw_numbers_are_left_to_the_executor() {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None, Some(2)], DType::Float32);
    let y = layers::relu(&mut net, &x).unwrap();
    let y = layers::dropout(&mut net, &y, 0.5, false).unwrap();
    let mut model = model(&net, &y);
    for op in model.main_mut().unwrap().blocks.iter_mut().flat_map(|block| &mut block.ops) {
        op.attributes.retain(|attribute| attribute.name != "is_test");
    }
    let (_, kinds) = run(&model, rows(&[1.0, 2.0]));
    assert!(!is_planned(&kinds), "{kinds:?}");
}

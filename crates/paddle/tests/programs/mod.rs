//! Programs that the tests build, run, and save and load by their own operators.

#![expect(clippy::disallowed_methods, reason = "creates files directly")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod gradients;
mod hostile;
mod loads;
mod records;

use lodstone_model::{AttributeValue, DType, Program, Tensor};
use lodstone_paddle::executor::{Dirs, Error, Executor, Prepared, Scope};
use lodstone_paddle::program::layers::{self, Conv2d, Fc, Pooling};
use lodstone_paddle::program::{
    Form, LoadOptions, Network, Paths, Placement, SaveOptions, Variable, inference, load,
    load_program, persistables, prune, save, save_program,
};
use lodstone_store::Blob;

fn singles(shape: &[u64], of: impl Fn(u64) -> f32) -> Tensor {
    let numbers = 0..shape.iter().product();
    let bytes: Vec<u8> = numbers.flat_map(|number| of(number).to_le_bytes()).collect();
    Tensor::dense(DType::Float32, shape.to_vec(), Blob::memory(bytes))
}

fn longs(shape: &[u64], values: &[i64]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::dense(DType::Int64, shape.to_vec(), Blob::memory(bytes))
}

fn values(tensor: &Tensor) -> Vec<f32> {
    let bytes = tensor.data.bytes().unwrap();
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

/// A small network for images of digits: its programs, its prediction, and its loss.
fn digits() -> (Network, Variable, Variable) {
    let mut net = Network::new();
    let image = layers::data(&mut net, "image", &[None, Some(1), Some(8), Some(8)], DType::Float32);
    let label = layers::data(&mut net, "label", &[None, Some(1)], DType::Int64);
    let conv = Conv2d { padding: [1, 1], act: Some("relu"), ..Conv2d::new(4, 3) };
    let x = layers::conv2d(&mut net, &image, &conv).unwrap();
    let x = layers::batch_norm(&mut net, &x, true).unwrap();
    let x = layers::pool2d(&mut net, &x, Pooling::Max, [2, 2], [2, 2], [0, 0]).unwrap();
    let x = layers::dropout(&mut net, &x, 0.25, true).unwrap();
    let x = layers::fc(&mut net, &x, &Fc::new(16).act("tanh")).unwrap();
    let x = layers::layer_norm(&mut net, &x, 1).unwrap();
    let logits = layers::fc(&mut net, &x, &Fc::new(10)).unwrap();
    let shares = layers::softmax(&mut net, &logits).unwrap();
    let loss = layers::softmax_with_cross_entropy(&mut net, &logits, &label).unwrap();
    let loss = layers::mean(&mut net, &loss).unwrap();
    (net, shares, loss)
}

fn feed() -> Vec<(&'static str, Tensor)> {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let image = singles(&[2, 1, 8, 8], |number| ((number * 37 % 101) as f32 - 50.0) / 50.0);
    vec![("image", image), ("label", longs(&[2, 1], &[3, 7]))]
}

fn started(net: &Network) -> Scope {
    let mut scope = Scope::default();
    Executor::default().run(&net.startup, &mut scope, &[], &[], &Dirs::default()).unwrap();
    scope
}

fn run(program: &Program, scope: &mut Scope, fetch: &[&Variable]) -> Vec<Tensor> {
    let names: Vec<&str> = fetch.iter().map(|var| var.name()).collect();
    Executor::default().run(program, scope, &feed(), &names, &Dirs::default()).unwrap()
}

/// A program with the variables of another, and without operators.
fn empty(program: &Program) -> Program {
    let mut program = program.clone();
    program.blocks[0].ops.clear();
    program
}

#[test]
fn a_network_is_built_and_run() {
    let (net, shares, loss) = digits();
    assert_eq!(net.shape(&shares).unwrap(), [None, Some(10)]);
    assert_eq!(net.shape(&loss).unwrap(), [] as [Option<u64>; 0]);
    let vars = persistables(&net.main, |_| true);
    let names: Vec<_> = vars.iter().map(Variable::name).collect();
    let expected = "batch_norm_0.b_0 batch_norm_0.w_0 batch_norm_0.w_1 batch_norm_0.w_2 \
                    conv2d_0.b_0 conv2d_0.w_0 fc_0.b_0 fc_0.w_0 fc_1.b_0 fc_1.w_0 \
                    layer_norm_0.b_0 layer_norm_0.w_0";
    assert_eq!(names.join(" "), expected);
    let out = run(&net.main, &mut started(&net), &[&shares, &loss]);
    assert_eq!(out[0].shape, [2, 10]);
    let shares = values(&out[0]);
    for row in shares.chunks(10) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
    }
    let expected = -(shares[3].ln() + shares[17].ln()) / 2.0;
    assert!((values(&out[1])[0] - expected).abs() < 1e-5, "{expected}");
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let (net, shares, _) = digits();
    let once = run(&net.main, &mut started(&net), &[&shares]);
    let again = run(&net.main, &mut started(&net), &[&shares]);
    assert_eq!(values(&once[0]), values(&again[0]));
}

#[test]
fn what_is_saved_is_loaded_again() {
    let placements = [
        Placement::Each,
        Placement::Combined("params".to_owned()),
        Placement::Merged("merged".to_owned()),
    ];
    for placement in placements {
        let dir = tempfile::tempdir().unwrap();
        let (net, shares, _) = digits();
        let mut scope = started(&net);
        let before = run(&net.main, &mut scope, &[&shares]);
        let options = SaveOptions::default().with_placement(placement);
        let vars = persistables(&net.main, |_| true);
        let mut saver = empty(&net.main);
        save(&mut saver, &vars, "model/parameters", &options).unwrap();
        let dirs = Dirs::one(dir.path());
        Executor::default().run(&saver, &mut scope, &[], &[], &dirs).unwrap();
        save_program(&net.main, dir.path().join("model"), Form::Binary).unwrap();

        let main = load_program(dir.path().join("model")).unwrap();
        let mut loader = Network::new().main;
        let placement = options.placement.clone();
        let loads = LoadOptions::default().with_placement(placement);
        load(&mut loader, &vars, &saver, "model/parameters", &loads).unwrap();
        let mut scope = Scope::default();
        Executor::default().run(&loader, &mut scope, &[], &[], &dirs).unwrap();
        let after = run(&main, &mut scope, &[&shares]);
        assert_eq!(values(&before[0]), values(&after[0]), "{:?}", options.placement);

        let refused = options.with_overwrite(false);
        let mut saver = empty(&net.main);
        save(&mut saver, &vars, "model/parameters", &refused).unwrap();
        let error = Executor::default().run(&saver, &mut scope, &[], &[], &dirs).unwrap_err();
        assert!(error.to_string().contains("must not be overwritten"), "{error}");
    }
}

#[test]
fn text_is_the_same_program() {
    let (dir, (net, ..)) = (tempfile::tempdir().unwrap(), digits());
    save_program(&net.main, dir.path(), Form::Text).unwrap();
    let text = load_program(dir.path()).unwrap();
    save_program(&net.main, dir.path(), Form::Binary).unwrap();
    let binary = load_program(dir.path()).unwrap();
    assert_eq!(text.blocks[0].ops.len(), net.main.blocks[0].ops.len());
    for (a, b) in text.ops().zip(binary.ops()) {
        assert_eq!((&a.kind, &a.inputs, &a.outputs), (&b.kind, &b.inputs, &b.outputs));
        assert_eq!(a.attributes, b.attributes);
    }
}

#[test]
fn files_stay_in_their_directory() {
    let (dir, (net, ..)) = (tempfile::tempdir().unwrap(), digits());
    let vars = [Variable::named("fc_0.b_0")];
    for path in ["../out", "/lodstone-escape", "a/../../out"] {
        let mut program = empty(&net.main);
        save(&mut program, &vars, path, &SaveOptions::default()).expect_err(path);
        // Hostile programs may contain such paths.
        let options = SaveOptions::default().with_paths(Paths::Anywhere);
        save(&mut program, &vars, path, &options).unwrap();
        let dirs = Dirs::one(dir.path());
        let error = Executor::default().run(&program, &mut started(&net), &[], &[], &dirs);
        assert!(matches!(error, Err(Error::File { .. })), "{path}: {error:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_does_not_fit_names_the_first_tensor() {
    let (dir, (net, ..)) = (tempfile::tempdir().unwrap(), digits());
    let dirs = Dirs::one(dir.path());
    let options = SaveOptions::default().with_placement(Placement::Combined("all".to_owned()));
    let mut saver = empty(&net.main);
    save(&mut saver, &persistables(&net.main, |_| true), "", &options).unwrap();
    Executor::default().run(&saver, &mut started(&net), &[], &[], &dirs).unwrap();
    let without = persistables(&net.main, |var| var.name != "conv2d_0.w_0");
    let mut loader = Network::new().main;
    let loads = LoadOptions::default().with_placement(options.placement);
    load(&mut loader, &without, &net.main, "", &loads).unwrap();
    let mut scope = Scope::default();
    let error = Executor::default().run(&loader, &mut scope, &[], &[], &dirs).unwrap_err();
    assert!(error.to_string().contains("`fc_0.b_0`"), "{error}");
    assert_eq!(scope.names().count(), 0);
}

#[test]
fn what_is_not_needed_is_pruned() {
    let (net, shares, _) = digits();
    let pruned = prune(&net.main, &["image"], &[shares.name()]).unwrap();
    let kinds: Vec<&str> = pruned.ops().map(|op| op.kind.as_str()).collect();
    assert!(!kinds.contains(&"softmax_with_cross_entropy") && kinds.contains(&"softmax"));
    assert!(pruned.vars().all(|var| var.name != "label"));
    let mut scope = started(&net);
    let whole = run(&net.main, &mut scope, &[&shares]);
    let image = [feed().remove(0)];
    let dirs = Dirs::default();
    let part = Executor::default().run(&pruned, &mut scope, &image, &[shares.name()], &dirs);
    assert_eq!(values(&whole[0]), values(&part.unwrap()[0]));
}

#[test]
fn an_executor_fetches_the_requested_variables() {
    let (net, shares, loss) = digits();
    let (mut scope, mut executor) = (started(&net), Executor::default());
    for fetch in [&[shares.name(), loss.name()][..], &[], &[loss.name()], &[], &[]] {
        let found = executor.run(&net.main, &mut scope, &feed(), fetch, &Dirs::default()).unwrap();
        // The program does not declare its outputs.
        assert_eq!(found.len(), fetch.len());
    }
}

#[test]
fn the_first_operator_that_gives_no_finite_numbers_is_named() {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[Some(2)], DType::Float32);
    let y = layers::relu(&mut net, &x).unwrap();
    let quotient = layers::elementwise(&mut net, "div", &x, &y, -1).unwrap();
    let sum = layers::elementwise(&mut net, "add", &quotient, &y, -1).unwrap();
    let prepared = Prepared::new(&net.main, &[sum.name()]).unwrap();
    let feed = |first: f32| [("x", singles(&[2], |at| if at == 0 { first } else { 2.0 }))];
    let run = |prepared: &Prepared, first: f32| {
        prepared.run(&mut Scope::default(), &feed(first), &Dirs::default())
    };
    assert!(values(&run(&prepared, -1.0).unwrap()[0])[0].is_infinite());
    let checking = prepared.checking_finite();
    assert_eq!(values(&run(&checking, 1.0).unwrap()[0]), [2.0, 3.0]);
    let error = run(&checking, -1.0).unwrap_err().to_string();
    let said = format!("operator 1 (`elementwise_div`): `{}`: element 0", quotient.name());
    assert!(error.contains(&said) && error.contains("-inf"), "{error}");
}

#[test]
fn inference_programs_are_derived_from_training_programs() {
    let mut net = Network::new();
    let image = layers::data(&mut net, "image", &[None, Some(1), Some(8), Some(8)], DType::Float32);
    let label = layers::data(&mut net, "label", &[None, Some(1)], DType::Int64);
    let x = layers::batch_norm(&mut net, &image, false).unwrap();
    let x = layers::dropout(&mut net, &x, 0.5, false).unwrap();
    let logits = layers::fc(&mut net, &x, &Fc::new(10)).unwrap();
    let loss = layers::softmax_with_cross_entropy(&mut net, &logits, &label).unwrap();
    let loss = layers::mean(&mut net, &loss).unwrap();
    let pairs = net.append_backward(&loss, &[]).unwrap();
    assert_eq!(pairs.len(), 4);
    let inferring = inference(&net.main, &["image"], &[logits.name()]).unwrap();
    let kinds: Vec<&str> = inferring.ops().map(|op| op.kind.as_str()).collect();
    assert_eq!(kinds, ["feed", "batch_norm", "dropout", "mul", "elementwise_add", "fetch"]);
    let image = [feed().remove(0)];
    let run = |scope: &mut Scope| {
        Executor::default().run(&inferring, scope, &image, &[], &Dirs::default()).unwrap()
    };
    let mut scope = started(&net);
    let (once, again) = (run(&mut scope), run(&mut scope));
    assert_eq!(once[0].shape, [2, 10]);
    assert_eq!(values(&once[0]), values(&again[0]));
}

#[test]
fn an_executor_runs_what_a_program_is_now() {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[Some(2)], DType::Float32);
    let out = layers::scale(&mut net, &x, 2.0, 0.0).unwrap();
    let (mut executor, mut scope) = (Executor::default(), Scope::default());
    let feed = [("x", singles(&[2], |_| 1.0))];
    let mut first = |program: &Program| {
        let found = executor.run(program, &mut scope, &feed, &[out.name()], &Dirs::default());
        values(&found.unwrap()[0])[0]
    };
    assert_eq!([first(&net.main), first(&net.main.clone())], [2.0, 2.0]);
    for factor in [3.0_f32, 4.0] {
        let attributes = &mut net.main.blocks[0].ops[0].attributes;
        let scale = attributes.iter_mut().find(|attribute| attribute.name == "scale").unwrap();
        scale.value = AttributeValue::Float(factor);
        assert!([first(&net.main), first(&net.main)] == [factor; 2]);
    }
}

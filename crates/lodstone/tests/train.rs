//! Invalid training programs: each is an error that names the problem, and changes nothing.

use lodstone::checkpoint::{Manager, ManagerOptions};
use lodstone::model::{Operand, Program, Programs};
use lodstone::paddle::program::Network;
use lodstone::paddle::program::layers::{self, Fc};
use lodstone::paddle::program::optimizer::{Adam, Optimizer};
use lodstone::train::{SampleOptions, TrainOptions, Training};
use lodstone::{DType, Error, Inputs, Model, OpenOptions, Tensor};

/// A model that PaddlePaddle 2.6.2 wrote, with its variables and its training data.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/training");
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/train.npz");

fn model() -> Model {
    lodstone::open(PROGRAM).unwrap()
}

fn data() -> Inputs {
    let mut inputs = Inputs::default();
    inputs.read(None, DATA, &OpenOptions::default()).unwrap();
    inputs
}

fn options() -> TrainOptions {
    let samples = SampleOptions::default().with_batch(Some(4)).with_shuffle(None);
    TrainOptions::default().with_samples(samples)
}

/// Trains two steps of a model with a changed program. If the first step fails, no variable may
/// change.
fn train(change: impl FnOnce(&mut Program)) -> Result<Vec<f64>, String> {
    let mut model = model();
    change(model.main_mut().unwrap());
    train_model(&model)
}

fn train_model(model: &Model) -> Result<Vec<f64>, String> {
    let mut training =
        Training::new(model, data(), options()).map_err(|error| error.to_string())?;
    let bytes = |tensor: &Tensor| tensor.data.bytes().unwrap();
    match training.step() {
        Ok(_) => training.step().map_err(|error| error.to_string()),
        Err(error) => {
            assert_eq!(training.done(), 0);
            for parameter in &model.parameters {
                let now = training.scope().tensor(&parameter.name).unwrap();
                assert_eq!(bytes(now), bytes(&parameter.tensor), "{} changed", parameter.name);
            }
            Err(error.to_string())
        }
    }
}

/// Returns the index of the first operator of a kind.
fn place(program: &Program, kind: &str) -> usize {
    program.blocks[0].ops.iter().position(|op| op.kind == kind).unwrap()
}

#[test]
fn the_unchanged_program_trains() {
    assert_eq!(train(|_| ()).unwrap().len(), 1);
}

#[test]
fn errors_of_a_training_program_are_named() {
    type Change = Box<dyn FnOnce(&mut Program)>;
    let op = |kind: &'static str, change: fn(&mut lodstone::model::Op)| -> Change {
        Box::new(move |program| {
            let at = place(program, kind);
            change(&mut program.blocks[0].ops[at]);
        })
    };
    let cases: Vec<(&str, Change, &[&str])> = vec![
        (
            "a gradient without the operator whose it is",
            Box::new(|program| {
                let at = place(program, "relu");
                program.blocks[0].ops.remove(at);
            }),
            &["conv2d_0.tmp_2", "pool2d", "no earlier operator writes it"],
        ),
        (
            "a gradient that nobody computes",
            Box::new(|program| {
                let at = place(program, "relu_grad");
                program.blocks[0].ops.remove(at);
            }),
            &["conv2d_1.tmp_1@GRAD", "elementwise_add_grad", "no earlier operator writes it"],
        ),
        (
            "an operator before what it reads",
            Box::new(|program| {
                let (first, last) = (place(program, "relu"), place(program, "adam"));
                program.blocks[0].ops.swap(first, last);
            }),
            &["no earlier operator writes it"],
        ),
        (
            "a circle",
            Box::new(|program| {
                let at = place(program, "relu");
                let out = program.blocks[0].ops[at].output("Out")[0].clone();
                let before = &mut program.blocks[0].ops[at - 1];
                before.inputs[0].args = vec![out];
            }),
            &["conv2d_0.tmp_2", "elementwise_add", "no earlier operator writes it"],
        ),
        (
            "a gradient in a slot that is none",
            op("relu_grad", |op| {
                op.inputs.iter_mut().for_each(|operand| operand.slot = "Nothing".to_owned());
            }),
            &["relu_grad"],
        ),
        (
            "a gradient by a variable that nobody declares",
            op("adam", |op| {
                let grad = op.inputs.iter_mut().find(|operand| operand.slot == "Grad").unwrap();
                grad.args = vec!["nowhere".to_owned()];
            }),
            &["nowhere"],
        ),
        (
            "the gradient of another parameter",
            op("adam", |op| {
                let grad = op.inputs.iter_mut().find(|operand| operand.slot == "Grad").unwrap();
                grad.args = vec!["fc_0.w_0@GRAD".to_owned()];
            }),
            &["adam", "`Grad`"],
        ),
        (
            "an optimizer without a learning rate",
            op("adam", |op| op.inputs.retain(|operand| operand.slot != "LearningRate")),
            &["adam", "LearningRate"],
        ),
        (
            "a gradient by two numbers at once",
            op("softmax_with_cross_entropy_grad", |op| {
                let slot = |operand: &&mut Operand| operand.slot == "Loss@GRAD";
                let loss = op.inputs.iter_mut().find(slot).unwrap();
                loss.args.push("image".to_owned());
            }),
            &["softmax_with_cross_entropy_grad"],
        ),
        (
            "an operator of no release",
            op("relu_grad", |op| op.kind = "rely_grad".to_owned()),
            &["rely_grad"],
        ),
    ];
    for (name, change, wanted) in cases {
        let said = train(change).expect_err(name);
        for wanted in wanted {
            assert!(said.contains(wanted), "{name}: {said}");
        }
    }
}

#[test]
fn accumulators_of_other_dims_are_named_before_the_first_step() {
    let mut model = model();
    let moment = model.parameters.iter_mut().find(|one| one.name == "conv2d_0.w_0_moment1_0");
    let tensor = &mut moment.unwrap().tensor;
    tensor.shape.reverse();
    let said = Training::new(&model, data(), options()).unwrap_err().to_string();
    assert!(
        said.contains("`conv2d_0.w_0_moment1_0` is float32[3, 3, 1, 8], not float32[8, 1, 3, 3]"),
        "{said}"
    );
    // Also declared so.
    for var in &mut model.main_mut().unwrap().blocks[0].vars {
        if var.name == "conv2d_0.w_0_moment1_0" {
            var.value.tensor_type_mut().unwrap().shape.as_mut().unwrap().reverse();
        }
    }
    let said = train_model(&model).unwrap_err();
    assert!(said.contains("adam") && said.contains("Moment1"), "{said}");
}

#[test]
fn missing_variables_are_all_named() {
    let mut model = model();
    model.parameters.retain(|parameter| !parameter.name.contains("moment1"));
    let error = Training::new(&model, data(), options()).unwrap_err();
    let Error::NoValues(names) = &error else { panic!("{error:?}") };
    for name in ["conv2d_0.w_0_moment1_0", "fc_0.b_0_moment1_0"] {
        assert!(names.iter().any(|it| it == name) && error.to_string().contains(name), "{error}");
    }
}

#[test]
fn the_first_nan_is_reported_with_its_operator() {
    let mut model = model();
    let weight = model.parameters.iter_mut().find(|one| one.name == "conv2d_0.w_0").unwrap();
    let mut bytes = weight.tensor.data.bytes().unwrap().to_vec();
    bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    weight.tensor.data = lodstone::Blob::memory(bytes);
    let checked = options().with_check_finite(true);
    let said = Training::new(&model, data(), checked).unwrap().step().unwrap_err().to_string();
    assert!(said.contains("conv2d") && said.contains("NaN"), "{said}");
    // Without the check, training continues: `relu` returns 0 for NaN, as in PaddlePaddle 2.6.2.
    let mut unchecked = Training::new(&model, data(), options()).unwrap();
    assert!(unchecked.step().unwrap()[0].is_finite());
}

/// Returns a network with random initialization and dropout.
fn random_network() -> Network {
    let mut net = Network::new();
    let image = layers::data(&mut net, "image", &[None, Some(1), Some(8), Some(8)], DType::Float32);
    let label = layers::data(&mut net, "label", &[None, Some(1)], DType::Int64);
    let hidden = layers::fc(&mut net, &image, &Fc::new(16).act("relu")).unwrap();
    let hidden = layers::dropout(&mut net, &hidden, 0.5, false).unwrap();
    let logits = layers::fc(&mut net, &hidden, &Fc::new(10)).unwrap();
    let losses = layers::softmax_with_cross_entropy(&mut net, &logits, &label).unwrap();
    let loss = layers::mean(&mut net, &losses).unwrap();
    let rate = layers::exponential_decay(&mut net, 0.01, 2, 0.5, false).unwrap();
    Optimizer::new(Adam::default(), &rate).minimize(&mut net, &loss).unwrap();
    net
}

#[test]
fn a_saved_training_continues_with_the_same_random_numbers_and_samples() {
    let dir = tempfile::tempdir().unwrap();
    let saved = dir.path().join("saved");
    let net = random_network();
    let mut model = Model { programs: net.main.into(), ..Model::default() };
    model.programs.insert(Programs::STARTUP, net.startup);
    let samples = SampleOptions::default().with_batch(Some(7)).with_shuffle(Some(5));
    let options = TrainOptions::default().with_samples(samples);
    let mut training = Training::new(&model, data(), options.clone()).unwrap();
    for _ in 0..3 {
        training.step().unwrap();
    }
    let notes: [(&str, &[u8]); 1] = [("notes.txt", b"as they were")];
    training.save(&saved, &notes, &lodstone::WriteOptions::default()).unwrap();
    let opened = lodstone::train::open_training(&saved, None, &OpenOptions::default()).unwrap();
    let startup = opened.programs.get(Programs::STARTUP);
    assert_eq!(startup, model.programs.get(Programs::STARTUP));

    let mut manager = Manager::open(dir.path().join("serials"), ManagerOptions::default()).unwrap();
    let serial = manager.save(training.done(), &training.snapshot().unwrap()).unwrap().serial;
    // The initial values of the model are ignored.
    let again = options.with_resume(Some(serial));
    let mut resumed = Training::new(&model, data(), again.clone()).unwrap();
    assert_eq!(resumed.done(), 3);
    let reopened = lodstone::train::open_training(&saved, None, &OpenOptions::default()).unwrap();
    let mut reopened = Training::new(&reopened, data(), again.clone()).unwrap();
    for _ in 0..3 {
        let runs = [&mut training, &mut resumed, &mut reopened];
        let [whole, resumed, reopened] = runs.map(|one| one.step().unwrap());
        assert_eq!([&resumed, &reopened], [&whole, &whole]);
    }
    let other = samples.with_batch(Some(8));
    let said = Training::new(&model, data(), again.with_samples(other)).unwrap_err();
    assert!(said.to_string().contains(r#"{"batch":7,"shuffle":5}"#), "{said}");
}

/// Each operator removed, repeated, swapped with the next one, without each of its slots, with each of them doubled or
/// emptied: the program trains, or the error names a part of the operator.
#[test]
fn damaged_operators_are_errors_or_train() {
    let program = model().programs.into_main().unwrap();
    let count = program.blocks[0].ops.len();
    let (mut refused, mut trained) = (0, 0);
    let mut tried = |result: Result<Vec<f64>, String>| match result {
        Ok(_) => trained += 1,
        Err(said) => {
            let is_named = said.contains('`') || said.contains("cannot train");
            assert!(is_named && !said.contains("internal error"), "{said}");
            refused += 1;
        }
    };
    for at in 0..count {
        tried(train(|program| drop(program.blocks[0].ops.remove(at))));
        tried(train(|program| {
            let op = program.blocks[0].ops[at].clone();
            program.blocks[0].ops.insert(at, op);
        }));
        tried(train(|program| program.blocks[0].ops.swap(at, (at + 1) % count)));
        let op = &program.blocks[0].ops[at];
        for slot in 0..op.inputs.len() {
            tried(train(|program| drop(program.blocks[0].ops[at].inputs.remove(slot))));
            tried(train(|program| {
                let args = &mut program.blocks[0].ops[at].inputs[slot].args;
                args.extend(args.clone());
            }));
            tried(train(|program| program.blocks[0].ops[at].inputs[slot].args.clear()));
            tried(train(|program| {
                program.blocks[0].ops[at].inputs[slot].args = vec!["image".to_owned()];
            }));
        }
        for slot in 0..op.outputs.len() {
            tried(train(|program| drop(program.blocks[0].ops[at].outputs.remove(slot))));
            tried(train(|program| {
                program.blocks[0].ops[at].outputs[slot].args = vec!["conv2d_0.w_0".to_owned()];
            }));
        }
    }
    assert!(refused > 100 && trained > 10, "{refused} refused, {trained} trained");
}

#[test]
fn a_startup_program_that_the_format_cannot_hold_is_reported() {
    let model = lodstone::train::open_training(PROGRAM, None, &OpenOptions::default()).unwrap();
    let plain = lodstone::open(PROGRAM).unwrap();
    assert!(plain.programs.get(Programs::STARTUP).is_none());
    let dir = tempfile::tempdir().unwrap();
    for format in ["paddle", "safetensors"] {
        let to = Some(lodstone::Target::Format(format.to_owned()));
        let options = lodstone::ConvertOptions::default().with_to(to);
        let out = dir.path().join(format);
        let refused = lodstone::convert(model.clone(), &out, &options).unwrap_err();
        assert!(refused.to_string().contains("the program `startup` ("), "{refused}");
        let options = options.with_allow(vec![lodstone::Loss::Program]);
        let done = lodstone::convert(model.clone(), &out, &options).unwrap();
        let lost = &done.report.losses[&lodstone::Loss::Program];
        assert!(lost.iter().any(|place| place.starts_with("the program `startup` (")), "{lost:?}");
    }
}

//! Training continues from PaddlePaddle's checkpoints with the same losses
//! (`../golden/make_paddle_checkpoints.py`).

use std::path::{Path, PathBuf};

use lodstone_formats::{OpenOptions, paddle, paddle::pickle};
use lodstone_model::{DType, Limits, Model, Program, Tensor};
use lodstone_paddle::checkpoint::{RestoreOptions, restore_models};
use lodstone_paddle::executor::{Dirs, Prepared, Scope};
use lodstone_paddle::program::layers::{self, Fc};
use lodstone_paddle::program::optimizer::{Adam, Momentum, Optimizer};
use lodstone_paddle::program::{Network, ParamAttr};
use lodstone_store::{Blob, Location};
use serde::Deserialize;

/// The maximum relative difference of two losses.
const TOLERANCE: f64 = 1e-5;

/// The recordings and the checkpoints of each release.
const RELEASES: &[(&str, &str, &[&str])] = &[
    (
        "1.8.5",
        include_str!("../golden/paddle_checkpoints/1.8.5.json"),
        &["program", "variables", "combined"],
    ),
    (
        "2.6.2",
        include_str!("../golden/paddle_checkpoints/2.6.2.json"),
        &["program", "variables", "combined", "adam", "momentum"],
    ),
    (
        "3.3.1",
        include_str!("../golden/paddle_checkpoints/3.3.1.json"),
        &["program", "adam", "momentum"],
    ),
    (
        "3.3.1-old-program",
        include_str!("../golden/paddle_checkpoints/3.3.1-old-program.json"),
        &["program", "variables", "combined"],
    ),
];

/// The recording of two layers.
#[derive(Deserialize)]
struct Recorded {
    /// The rows of each step, and their classes.
    x: Vec<[[f32; 4]; 6]>,
    y: Vec<[[i64; 1]; 6]>,
    program: Case,
    adam: Option<Case>,
    momentum: Option<Case>,
}

/// The recording of one training: the names of its parameters, sorted, and the loss of each step.
#[derive(Deserialize)]
struct Case {
    parameters: Vec<String>,
    losses: Vec<f64>,
}

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/paddle_checkpoints").join(path)
}

fn open(release: &str, path: &str) -> Model {
    (paddle::BUNDLE.read)(&Location::from(&golden(release).join(path)), &OpenOptions::default())
        .unwrap()
}

/// Opens the parameters and the state of the optimizer, each in a pickle.
fn pickles(release: &str, name: &str) -> Vec<Model> {
    let read = |suffix: &str| {
        let path = golden(release).join(format!("{name}.{suffix}"));
        pickle::read_blob(&Blob::open(&path, false).unwrap(), &Limits::default()).unwrap()
    };
    ["pdparams", "pdopt"].map(read).into()
}

/// Builds the network of a recording for parameters of these names; returns its program and its loss.
fn built(name: &str, parameters: &[String]) -> (Program, String) {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None, Some(4)], DType::Float32);
    let y = layers::data(&mut net, "y", &[None, Some(1)], DType::Int64);
    let called =
        |place: usize| ParamAttr { name: Some(parameters[place].clone()), ..ParamAttr::default() };
    // Biases sort before weights.
    let dense =
        |size, place| Fc { weight: called(place + 1), bias: Some(called(place)), ..Fc::new(size) };
    let x = layers::fc(&mut net, &x, &dense(8, 0)).unwrap();
    let x = layers::relu(&mut net, &x).unwrap();
    let logits = layers::fc(&mut net, &x, &dense(3, 2)).unwrap();
    let loss = layers::softmax_with_cross_entropy(&mut net, &logits, &y).unwrap();
    let loss = layers::mean(&mut net, &loss).unwrap();
    match name {
        "program" => Optimizer::new(Adam::default(), 0.05).minimize(&mut net, &loss),
        "adam" => {
            let rate = layers::exponential_decay(&mut net, 0.1, 1, 0.8, false).unwrap();
            Optimizer::new(Adam::default(), &rate).minimize(&mut net, &loss)
        }
        _ => {
            let rate = layers::piecewise_decay(&mut net, &[4, 6], &[0.2, 0.1, 0.05]).unwrap();
            let momentum = Momentum { momentum: 0.9, ..Momentum::default() };
            Optimizer::new(momentum, &rate).minimize(&mut net, &loss)
        }
    }
    .unwrap();
    (net.main, loss.name().to_owned())
}

/// Opens the program that PaddlePaddle saved; returns it with its loss, the output of its first `mean`.
fn saved(release: &str) -> (Program, String) {
    let program = open(release, "program").programs.into_main().unwrap();
    let is_mean = |kind: &str| matches!(kind, "mean" | "reduce_mean");
    let loss = program.ops().find(|op| is_mean(&op.kind)).unwrap();
    let loss = loss.writes().next().unwrap().to_owned();
    (program, loss)
}

impl Recorded {
    fn case(&self, name: &str) -> &Case {
        match name {
            "adam" => self.adam.as_ref().unwrap(),
            "momentum" => self.momentum.as_ref().unwrap(),
            _ => &self.program,
        }
    }

    /// Returns the feeds of a step.
    fn feed(&self, step: usize) -> Vec<(&str, Tensor)> {
        let x =
            self.x[step].as_flattened().iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
        let y =
            self.y[step].as_flattened().iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
        vec![
            ("x", Tensor::dense(DType::Float32, vec![6, 4], Blob::memory(x))),
            ("y", Tensor::dense(DType::Int64, vec![6, 1], Blob::memory(y))),
        ]
    }
}

fn goes_on(release: &str, recorded: &Recorded, name: &str) {
    let case = recorded.case(name);
    let (models, (program, loss)) = match name {
        "adam" | "momentum" => (pickles(release, name), built(name, &case.parameters)),
        // Its program is in the PIR format.
        "program" if release == "3.3.1" => {
            (vec![open(release, name)], built(name, &case.parameters))
        }
        _ => (vec![open(release, name)], saved(release)),
    };
    let mut scope = Scope::default();
    let done = restore_models(&models, Some(&program), &mut scope, &RestoreOptions::default());
    done.unwrap_or_else(|error| panic!("{release}, {name}: {error}"));
    let prepared = Prepared::new(&program, &[&loss]).unwrap();
    assert!(!case.losses.is_empty());
    for (step, wanted) in case.losses.iter().enumerate() {
        let found = prepared.run(&mut scope, &recorded.feed(step), &Dirs::default()).unwrap();
        let found = found[0].data.read().unwrap();
        let found = f64::from(f32::from_le_bytes(found.as_ref().try_into().unwrap()));
        assert!(
            (found - wanted).abs() <= TOLERANCE * wanted,
            "{release}, {name}, step {step}: a loss of {found} rather than {wanted}"
        );
    }
}

#[test]
fn training_goes_on_from_each_checkpoint_with_the_same_losses() {
    for (release, recorded, names) in RELEASES {
        let recorded: Recorded = serde_json::from_str(recorded).unwrap();
        names.iter().for_each(|name| goes_on(release, &recorded, name));
    }
}

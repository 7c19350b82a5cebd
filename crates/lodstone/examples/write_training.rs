//! Builds training programs with every optimizer, and writes everything that another framework needs to run the same
//! steps.
//!
//!     cargo run --locked --package lodstone --example write_training -- OUT
//!     cargo run --locked --package lodstone --example write_training -- OUT check
//!
//! `OUT` gets a directory for each: the program, its variables before the first step, `feed.npz`, and `losses.npz` with
//! the losses of five steps. Then, `check` continues from the variables that the other framework wrote
//! (`further/__params__`), and compares its losses with the following ones of that framework (`further.npz`).

#![expect(clippy::disallowed_methods, reason = "makes its directory")]
#![expect(clippy::print_stdout, reason = "tells what it found")]

use std::path::Path;

use lodstone::model::Programs;
use lodstone::paddle::program::layers::{self, Conv2d, Fc, Pooling};
use lodstone::paddle::program::optimizer::{
    Adagrad, Adam, AdamW, Clip, Decay, Lamb, Momentum, Optimizer, RmsProp, Sgd,
};
use lodstone::paddle::program::{Network, Result as Built, Variable};
use lodstone::train::{TrainOptions, Training};
use lodstone::{ConvertOptions, DType, Inputs, Model, OpenOptions, Parameter, Tensor};

type Failure = Box<dyn std::error::Error>;

const STEPS: usize = 5;

/// The maximum relative difference of losses.
const NEAR: f64 = 1e-4;

/// Appends an optimizer.
type Minimize = fn(&mut Network, &Variable) -> Built<()>;

const OPTIMIZERS: &[(&str, Minimize)] = &[
    ("sgd", |net, loss| Optimizer::new(Sgd, 0.05).minimize(net, loss).map(drop)),
    ("momentum", |net, loss| {
        let rule = Momentum { use_nesterov: true, ..Momentum::default() };
        let rate = layers::exponential_decay(net, 0.05, 2, 0.8, true)?;
        Optimizer::new(rule, &rate).clip(Clip::GlobalNorm(1.0)).minimize(net, loss).map(drop)
    }),
    ("adagrad", |net, loss| {
        Optimizer::new(Adagrad::default(), 0.02)
            .decay(Decay::L1(1e-3))
            .minimize(net, loss)
            .map(drop)
    }),
    ("rmsprop", |net, loss| {
        let rule = RmsProp { centered: true, momentum: 0.5, ..RmsProp::default() };
        let rate = layers::piecewise_decay(net, &[2, 4], &[0.002, 0.001, 0.0005])?;
        Optimizer::new(rule, &rate).minimize(net, loss).map(drop)
    }),
    ("adam", |net, loss| {
        let rate = layers::noam_decay(net, 64, 4, 0.1)?;
        let optimizer = Optimizer::new(Adam::default(), &rate).decay(Decay::L2(1e-3));
        optimizer.clip(Clip::Norm(0.5)).minimize(net, loss).map(drop)
    }),
    ("adamw", |net, loss| {
        let rate = layers::cosine_decay(net, 0.01, 2, 4)?;
        Optimizer::new(AdamW::default(), &rate).minimize(net, loss).map(drop)
    }),
    ("lamb", |net, loss| {
        let optimizer = Optimizer::new(Lamb::default(), 0.01).clip(Clip::Value(-0.1, 0.1));
        optimizer.minimize(net, loss).map(drop)
    }),
];

fn main() -> Result<(), Failure> {
    let out = std::env::args().nth(1).ok_or("usage: write_training OUT")?;
    let checks = std::env::args().nth(2).is_some_and(|what| what == "check");
    std::fs::create_dir_all(&out)?;
    for (name, minimize) in OPTIMIZERS {
        let dir = Path::new(&out).join(name);
        if checks {
            check(&dir)?;
            continue;
        }
        let (mut net, loss) = network()?;
        minimize(&mut net, &loss)?;
        let mut model = Model { programs: net.main.into(), ..Model::default() };
        model.programs.insert(Programs::STARTUP, net.startup);
        let mut training = Training::new(&model, feed()?, TrainOptions::default())?;
        training.save(&dir, &[], &lodstone::WriteOptions::default())?;
        write(&dir.join("feed.npz"), samples()?)?;
        let losses = losses(&mut training)?;
        let steps = losses.iter().enumerate().map(|(step, loss)| {
            let name = format!("{}.{step}", training.watched()[0]);
            Ok(Parameter { name, tensor: Tensor::from_vec(vec![], vec![*loss])? })
        });
        write(&dir.join("losses.npz"), steps.collect::<Result<_, Failure>>()?)?;
        println!("{name}: {losses:?}");
    }
    Ok(())
}

fn losses(training: &mut Training) -> Result<Vec<f64>, Failure> {
    (0..STEPS).map(|_| Ok(training.step()?[0])).collect()
}

/// Continues from the variables that the other framework wrote.
fn check(dir: &Path) -> Result<(), Failure> {
    let params = Some(dir.join("further/__params__").into());
    let options = OpenOptions::default().with_params(params);
    let model = lodstone::open_with(dir.join("main_program"), &options)?;
    let found = losses(&mut Training::new(&model, feed()?, TrainOptions::default())?)?;
    let mut wanted = lodstone::open(dir.join("further.npz"))?;
    wanted.load()?;
    let wanted = wanted.parameters.first().ok_or("there are no losses")?;
    let wanted: Vec<f64> = wanted.tensor.to_vec()?;
    let near = |(found, wanted): (&f64, &f64)| (found - wanted).abs() <= NEAR * wanted.abs();
    if wanted.len() != STEPS || !found.iter().zip(&wanted).all(near) {
        return Err(format!("{}: {found:?}, not {wanted:?}", dir.display()).into());
    }
    println!("{}: {STEPS} steps go on as there", dir.display());
    Ok(())
}

/// A network with convolutions, normalization, a table and a loss.
fn network() -> Result<(Network, Variable), Failure> {
    let mut net = Network::new();
    let image = layers::data(&mut net, "image", &[None, Some(1), Some(8), Some(8)], DType::Float32);
    let word = layers::data(&mut net, "word", &[None], DType::Int64);
    let label = layers::data(&mut net, "label", &[None, Some(1)], DType::Int64);
    let conv = Conv2d { padding: [1, 1], ..Conv2d::new(4, 3) };
    let x = layers::conv2d(&mut net, &image, &conv)?;
    let x = layers::batch_norm(&mut net, &x, false)?;
    let x = layers::relu(&mut net, &x)?;
    let x = layers::pool2d(&mut net, &x, Pooling::Max, [2, 2], [2, 2], [0, 0])?;
    let x = layers::fc(&mut net, &x, &Fc::new(16).act("tanh"))?;
    let row = layers::embedding(&mut net, &word, [12, 16], None)?;
    let x = layers::elementwise(&mut net, "add", &x, &row, -1)?;
    let x = layers::layer_norm(&mut net, &x, 1)?;
    let logits = layers::fc(&mut net, &x, &Fc::new(10))?;
    let losses = layers::softmax_with_cross_entropy(&mut net, &logits, &label)?;
    let loss = layers::mean(&mut net, &losses)?;
    Ok((net, loss))
}

/// Six images, words and labels.
fn samples() -> Result<Vec<Parameter>, Failure> {
    let image = (0..6_i16 * 64).map(|number| f32::from(number * 37 % 101 - 50) / 50.0);
    let image = Tensor::from_vec(vec![6, 1, 8, 8], image.collect())?;
    let word = Tensor::from_vec(vec![6], vec![3_i64, 0, 11, 3, 7, 3])?;
    let label = Tensor::from_vec(vec![6, 1], vec![3_i64, 7, 0, 9, 1, 2])?;
    let named = |(name, tensor): (&str, Tensor)| Parameter { name: name.to_owned(), tensor };
    Ok([("image", image), ("word", word), ("label", label)].map(named).into())
}

fn feed() -> Result<Inputs, Failure> {
    let value = |it: Parameter| (Some(it.name), it.tensor.into());
    Ok(Inputs { values: samples()?.into_iter().map(value).collect(), ..Inputs::default() })
}

fn write(path: &Path, parameters: Vec<Parameter>) -> Result<(), Failure> {
    let model = Model { parameters, ..Model::default() };
    lodstone::convert(model, path, &ConvertOptions::default())?;
    Ok(())
}

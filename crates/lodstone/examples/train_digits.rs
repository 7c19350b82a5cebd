//! Trains a small convolutional network on handwritten digits, and saves it for inference.
//!
//!     cargo run --release --package lodstone --example train_digits -- OUT
//!
//! What is learned is checked in a process of its own, which opens `OUT` as it would any other model.

#![expect(clippy::print_stdout, reason = "tells what it does")]

use std::io::Write;
use std::path::Path;
use std::process::Command;

use lodstone::program::layers::{self, Conv2d, Fc, Pooling};
use lodstone::program::optimizer::{Adam, Optimizer};
use lodstone::program::{
    Form, Network, Parameter, Placement, SaveOptions, Variable, inference, persistables, save,
    save_program,
};
use lodstone::runtime::{Dirs, Executor, Prepared, Scope};
use lodstone::{DType, Inputs, Model, Tensor};

type Failure = Box<dyn std::error::Error>;

const EPOCHS: u64 = 12;
const BATCH: u64 = 32;
const RATE: f64 = 0.004;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().ok_or("usage: train_digits OUT")?;
    if arguments.next().is_some_and(|what| what == "check") {
        return check(Path::new(&out));
    }
    train(Path::new(&out))?;
    let checked = Command::new(std::env::current_exe()?).args([&out, "check"]).status()?;
    if checked.success() { Ok(()) } else { Err("the check failed".into()) }
}

/// The network: what it is given, the shares of the digits, and the loss.
fn network() -> Result<(Network, Variable, Variable), Failure> {
    let mut net = Network::new();
    let image = layers::data(&mut net, "image", &[None, Some(1), Some(8), Some(8)], DType::Float32);
    let label = layers::data(&mut net, "label", &[None, Some(1)], DType::Int64);
    let mut x = image;
    for filters in [16, 32] {
        let conv = Conv2d { padding: [1, 1], bias: None, ..Conv2d::new(filters, 3) };
        x = layers::conv2d(&mut net, &x, &conv)?;
        x = layers::batch_norm(&mut net, &x, false)?;
        x = layers::relu(&mut net, &x)?;
        x = layers::pool2d(&mut net, &x, Pooling::Max, [2, 2], [2, 2], [0, 0])?;
    }
    let x = layers::dropout(&mut net, &x, 0.2, false)?;
    let logits = layers::fc(&mut net, &x, &Fc { weight: Parameter::default(), ..Fc::new(10) })?;
    let shares = layers::softmax(&mut net, &logits)?;
    let losses = layers::softmax_with_cross_entropy(&mut net, &logits, &label)?;
    let loss = layers::mean(&mut net, &losses)?;
    Ok((net, shares, loss))
}

fn train(out: &Path) -> Result<(), Failure> {
    let (mut net, shares, loss) = network()?;
    // What infers is the program before it learns to train.
    let inferring = inference(&net.main, &["image"], &[shares.name()])?;
    Optimizer::new(Adam::default(), RATE).minimize(&mut net, &loss)?;

    let data = digits("train.npz")?;
    let (images, labels) = (tensor(&data, "image")?, tensor(&data, "label")?);
    let mut scope = Scope::default();
    Executor::default().run(&net.startup, &mut scope, &[], &[], &Dirs::default())?;
    let step = Prepared::new(&net.main, &[loss.name()])?;
    let count = images.shape[0];
    for epoch in 0..EPOCHS {
        let mut sum = 0.0;
        let order = shuffled(count, epoch);
        for rows in order.chunks_exact(usize::try_from(BATCH)?) {
            let feed = [("image", rows_of(images, rows)?), ("label", rows_of(labels, rows)?)];
            sum += number(&step.run(&mut scope, &feed, &Dirs::default())?[0])?;
        }
        #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
        let mean = sum / (count / BATCH) as f32;
        print!("\repoch {:2} of {EPOCHS}, loss {mean:.4}", epoch + 1);
        std::io::stdout().flush()?;
    }
    println!();

    let placement = Placement::Combined("__params__".to_owned());
    let options = SaveOptions { placement, ..SaveOptions::default() };
    let mut saver = inferring.clone();
    saver.blocks.iter_mut().for_each(|block| block.ops.clear());
    save(&mut saver, &persistables(&inferring, |_| true), "", &options)?;
    Executor::default().run(&saver, &mut scope, &[], &[], &Dirs::one(out))?;
    save_program(&inferring, out, Form::Binary)?;
    Ok(())
}

/// The share of held-out images that a saved model is right about.
fn check(out: &Path) -> Result<(), Failure> {
    let data = digits("test.npz")?;
    let (images, labels) = (tensor(&data, "images")?, tensor(&data, "labels")?);
    let inputs = Inputs { tensors: vec![(None, images.clone())], ..Inputs::default() };
    let shares = lodstone::run(&lodstone::open(out)?, inputs, &Dirs::default())?;
    let shares = singles(&shares.first().ok_or("the model gives nothing")?.tensor)?;
    let labels: Vec<i64> = {
        let bytes = labels.data.bytes()?;
        bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
    };
    let guess = |shares: &[f32]| {
        let best = shares.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
        best.and_then(|(digit, _)| i64::try_from(digit).ok())
    };
    let right =
        shares.chunks(10).zip(&labels).filter(|(shares, label)| guess(shares) == Some(**label));
    let (right, all) = (right.count(), labels.len());
    println!("{right} of {all} held-out images are recognized");
    if right * 100 >= all * 97 { Ok(()) } else { Err("fewer than 97 % are right".into()) }
}

fn digits(name: &str) -> Result<Model, Failure> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits");
    let mut model = lodstone::open(dir.join(name))?;
    model.load()?;
    Ok(model)
}

fn tensor<'m>(model: &'m Model, name: &str) -> Result<&'m Tensor, Failure> {
    model.parameter(name).ok_or_else(|| format!("there is no `{name}`").into())
}

/// Rows of a tensor, by number.
fn rows_of(tensor: &Tensor, rows: &[u64]) -> Result<Tensor, Failure> {
    let bytes = tensor.data.bytes()?;
    let size = bytes.len() / usize::try_from(tensor.shape[0])?;
    let row = |row: &u64| {
        let begin = usize::try_from(*row).unwrap_or(0) * size;
        bytes[begin..begin + size].iter().copied()
    };
    let made: Vec<u8> = rows.iter().flat_map(row).collect();
    let mut shape = tensor.shape.clone();
    shape[0] = rows.len() as u64;
    Ok(Tensor::dense(tensor.dtype, shape, lodstone::Blob::memory(made)))
}

fn singles(tensor: &Tensor) -> Result<Vec<f32>, Failure> {
    let bytes = tensor.data.bytes()?;
    Ok(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

fn number(tensor: &Tensor) -> Result<f32, Failure> {
    singles(tensor)?.first().copied().ok_or_else(|| "expected a number".into())
}

/// The numbers below `count` in an order that a seed decides (Fisher and Yates, by a congruential generator).
fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..count).collect();
    let mut state = seed.wrapping_add(1);
    for last in (1..order.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from(state >> 33).unwrap_or(0) % (last + 1);
        order.swap(last, other);
    }
    order
}

//! Code shared by the examples: a small convolutional network for handwritten digits, the images, and the accuracy of a
//! model.

#![allow(dead_code, reason = "each example takes what it needs")]

use std::path::Path;

use lodstone::RunOptions;
use lodstone::model::Program;
use lodstone::paddle::executor::{Dirs, Prepared, Scope};
use lodstone::paddle::program::layers::{self, Conv2d, Fc, Pooling};
use lodstone::paddle::program::{Network, ParamAttr, Variable};
use lodstone::{Blob, DType, Inputs, Model, Tensor};

/// The error of an example.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// The number of images per training step.
pub(crate) const BATCH: u64 = 32;

/// The network: its inputs, its probabilities, and the loss.
pub(crate) fn network() -> Result<(Network, Variable, Variable), Failure> {
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
    let logits = layers::fc(&mut net, &x, &Fc { weight: ParamAttr::default(), ..Fc::new(10) })?;
    let shares = layers::softmax(&mut net, &logits)?;
    let losses = layers::softmax_with_cross_entropy(&mut net, &logits, &label)?;
    let loss = layers::mean(&mut net, &losses)?;
    Ok((net, shares, loss))
}

/// Runs the training steps `from` to `to` of a program whose loss is named `loss`, each with the next images; returns
/// the mean of the losses. Operators that load and save do so in `dirs`.
pub(crate) fn train(
    main: &Program,
    loss: &str,
    scope: &mut Scope,
    (from, to): (u64, u64),
    dirs: &Dirs,
) -> Result<f32, Failure> {
    let data = digits("train.npz")?;
    let (images, labels) = (tensor(&data, "image")?, tensor(&data, "label")?);
    let run = Prepared::new(main, &[loss])?;
    let batches = images.shape[0] / BATCH;
    let mut sum = 0.0;
    for step in from..to {
        let order = shuffled(images.shape[0], step / batches);
        let turn = usize::try_from(step % batches)?;
        let rows = order.chunks(usize::try_from(BATCH)?).nth(turn).unwrap_or_default();
        let feed = [("image", rows_of(images, rows)?), ("label", rows_of(labels, rows)?)];
        sum += number(&run.run(scope, &feed, dirs)?[0])?;
    }
    #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
    let steps = (to - from) as f32;
    Ok(sum / steps)
}

/// Returns the number of held-out images that a model recognizes, and the number of all held-out images.
pub(crate) fn recognized(model: &Model) -> Result<(usize, usize), Failure> {
    let data = digits("test.npz")?;
    let (images, labels) = (tensor(&data, "images")?, tensor(&data, "labels")?);
    let inputs = Inputs { values: vec![(None, images.clone().into())], ..Inputs::default() };
    let shares = lodstone::run::tensors(lodstone::run(model, inputs, &RunOptions::default())?);
    let shares = shares.first().ok_or("the model gives nothing")?;
    let shares = shares.tensor.to_vec::<f32>()?;
    let labels = labels.to_vec::<i64>()?;
    let guess = |shares: &[f32]| {
        let best = shares.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
        best.and_then(|(digit, _)| i64::try_from(digit).ok())
    };
    let right =
        shares.chunks(10).zip(&labels).filter(|(shares, label)| guess(shares) == Some(**label));
    Ok((right.count(), labels.len()))
}

/// The digits of a file, in memory.
pub(crate) fn digits(name: &str) -> Result<Model, Failure> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits");
    let mut model = lodstone::open(dir.join(name))?;
    model.load()?;
    Ok(model)
}

pub(crate) fn tensor<'m>(model: &'m Model, name: &str) -> Result<&'m Tensor, Failure> {
    model.parameter(name).ok_or_else(|| format!("there is no `{name}`").into())
}

/// Returns rows of a tensor, by index.
pub(crate) fn rows_of(tensor: &Tensor, rows: &[u64]) -> Result<Tensor, Failure> {
    let bytes = tensor.data.bytes()?;
    let size = bytes.len() / usize::try_from(tensor.shape[0])?;
    let row = |row: &u64| {
        let begin = usize::try_from(*row).unwrap_or(0) * size;
        bytes[begin..begin + size].iter().copied()
    };
    let made: Vec<u8> = rows.iter().flat_map(row).collect();
    let mut shape = tensor.shape.clone();
    shape[0] = rows.len() as u64;
    Ok(Tensor::dense(tensor.dtype, shape, Blob::memory(made)))
}

/// Returns the only number of a tensor.
pub(crate) fn number(tensor: &Tensor) -> Result<f32, Failure> {
    tensor.to_vec::<f32>()?.first().copied().ok_or_else(|| "expected a number".into())
}

/// Returns the numbers below `count` in an order determined by a seed (Fisher and Yates, with a congruential
/// generator).
pub(crate) fn shuffled(count: u64, seed: u64) -> Vec<u64> {
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

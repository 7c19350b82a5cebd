//! The programs that are trained.

use lodstone::paddle::program::layers::{self, Conv2d, Fc, Pooling};
use lodstone::paddle::program::optimizer::{Adam, Optimizer, Sgd};
use lodstone::paddle::program::{Initializer, Network, Operator, ParamAttr, Result, Variable};
use lodstone::{Blob, DType, Lod, Tensor};

/// A program with its loss, and the inputs of each step.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) network: Network,
    pub(crate) loss: Variable,
    pub(crate) feed: Vec<(&'static str, Tensor)>,
    /// The number of steps that are timed together.
    pub(crate) steps: u32,
    /// Whether PaddlePaddle has the same losses. Its gradient of `lstm` is 0 for the gates if the size is a multiple of 8.
    pub(crate) agrees: bool,
}

/// Returns all networks.
pub(crate) fn cases() -> Result<Vec<Case>> {
    Ok(vec![perceptron()?, digits()?, lenet()?, transformer()?, lstm()?])
}

/// 784-512-10, 64 images per step.
fn perceptron() -> Result<Case> {
    let mut net = Network::new();
    let image = layers::data(&mut net, "image", &[None, Some(784)], DType::Float32);
    let label = layers::data(&mut net, "label", &[None, Some(1)], DType::Int64);
    let hidden = layers::fc(&mut net, &image, &Fc::new(512).act("relu"))?;
    let logits = layers::fc(&mut net, &hidden, &Fc::new(10))?;
    let losses = layers::softmax_with_cross_entropy(&mut net, &logits, &label)?;
    let loss = layers::mean(&mut net, &losses)?;
    Optimizer::new(Sgd, 0.01).minimize(&mut net, &loss)?;
    let feed = vec![("image", singles(&[64, 784])), ("label", classes(64, 10))];
    let name = "perceptron 784-512-10, 64 rows, SGD";
    Ok(Case { name, network: net, loss, feed, steps: 200, agrees: true })
}

/// The network of `examples/train_digits.rs`, without dropout, 32 images per step.
fn digits() -> Result<Case> {
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
    let logits = layers::fc(&mut net, &x, &Fc::new(10))?;
    let losses = layers::softmax_with_cross_entropy(&mut net, &logits, &label)?;
    let loss = layers::mean(&mut net, &losses)?;
    Optimizer::new(Adam::default(), 0.004).minimize(&mut net, &loss)?;
    let feed = vec![("image", singles(&[32, 1, 8, 8])), ("label", classes(32, 10))];
    let name = "digits, two convolutions, 32 images, Adam";
    Ok(Case { name, network: net, loss, feed, steps: 100, agrees: true })
}

/// LeNet on images of 28 x 28, 64 per step.
fn lenet() -> Result<Case> {
    let mut net = Network::new();
    let shape = [None, Some(1), Some(28), Some(28)];
    let image = layers::data(&mut net, "image", &shape, DType::Float32);
    let label = layers::data(&mut net, "label", &[None, Some(1)], DType::Int64);
    let mut x = image;
    for (filters, size, padding) in [(6, 3, 1), (16, 5, 0)] {
        let conv = Conv2d { padding: [padding; 2], ..Conv2d::new(filters, size) };
        x = layers::conv2d(&mut net, &x, &conv)?;
        x = layers::relu(&mut net, &x)?;
        x = layers::pool2d(&mut net, &x, Pooling::Max, [2, 2], [2, 2], [0, 0])?;
    }
    for size in [120, 84] {
        x = layers::fc(&mut net, &x, &Fc::new(size))?;
    }
    let logits = layers::fc(&mut net, &x, &Fc::new(10))?;
    let losses = layers::softmax_with_cross_entropy(&mut net, &logits, &label)?;
    let loss = layers::mean(&mut net, &losses)?;
    Optimizer::new(Adam::default(), 0.001).minimize(&mut net, &loss)?;
    let feed = vec![("image", singles(&[64, 1, 28, 28])), ("label", classes(64, 10))];
    Ok(Case { name: "LeNet, 64 images, Adam", network: net, loss, feed, steps: 30, agrees: true })
}

/// An LSTM over 16 sequences of 20 to 35 rows, whose last states are classified.
fn lstm() -> Result<Case> {
    const SIZE: u64 = 128;
    let mut net = Network::new();
    let x = layers::sequence_data(&mut net, "x", &[None, Some(SIZE)], DType::Float32, 1);
    let label = layers::data(&mut net, "label", &[None, Some(1)], DType::Int64);
    let gates = layers::fc(&mut net, &x, &Fc::new(4 * SIZE))?;
    let mut parameter = |base: &str, shape: &[u64]| {
        let default = Initializer::Xavier { seed: 0 };
        net.parameter(&ParamAttr::default(), base, DType::Float32, shape, default)
    };
    let (weight, bias) =
        (parameter("lstm.w", &[SIZE, 4 * SIZE])?, parameter("lstm.b", &[1, 7 * SIZE])?);
    let [cell, gate, active] =
        ["cell", "gate", "active"].map(|name| Variable::named(&net.name(name)));
    let cells = Operator::new("lstm").input("Input", [&gates]).input("Weight", [&weight]);
    let cells = cells.input("Bias", [&bias]).output("Cell", [&cell]).output("BatchGate", [&gate]);
    let cells = cells.output("BatchCellPreAct", [&active]).attribute("use_peepholes", true);
    let hidden = net.call("lstm", "Hidden", cells)?;
    let index = Variable::named(&net.name("index"));
    let last = Operator::new("sequence_pool").input("X", [&hidden]).output("MaxIndex", [&index]);
    let last = net.call("last", "Out", last.attribute("pooltype", "LAST"))?;
    let logits = layers::fc(&mut net, &last, &Fc::new(10))?;
    let losses = layers::softmax_with_cross_entropy(&mut net, &logits, &label)?;
    let loss = layers::mean(&mut net, &losses)?;
    Optimizer::new(Adam::default(), 0.001).minimize(&mut net, &loss)?;
    let mut offsets = vec![0];
    offsets.extend((20..36).scan(0, |end, length| {
        *end += length;
        Some(*end)
    }));
    let rows = offsets.last().copied().unwrap_or_default();
    let mut x = singles(&[rows, SIZE]);
    x.lod = Lod(vec![offsets]);
    let feed = vec![("x", x), ("label", classes(16, 10))];
    Ok(Case {
        name: "LSTM, 16 sequences of 128, Adam",
        network: net,
        loss,
        feed,
        steps: 20,
        agrees: false,
    })
}

/// The rows of a sequence, the dims of a row, and the number of heads.
const LENGTH: u64 = 64;
const WIDTH: u64 = 128;
const HEADS: i32 = 4;

/// A block of attention and a block of two layers, each normalized, over 8 sequences.
fn transformer() -> Result<Case> {
    let mut net = Network::new();
    let shape = [Some(8), Some(LENGTH), Some(WIDTH)];
    let x = layers::data(&mut net, "x", &shape, DType::Float32);
    let wanted = layers::data(&mut net, "wanted", &shape, DType::Float32);
    let dense = |net: &mut Network, x: &Variable, size: u64, act: Option<&'static str>| {
        layers::fc(net, x, &Fc { num_flatten_dims: 2, act, ..Fc::new(size) })
    };
    let normed = layers::layer_norm(&mut net, &x, 2)?;
    let mut parts = Vec::new();
    for _ in 0..3 {
        let all = dense(&mut net, &normed, WIDTH, None)?;
        let heads = layers::reshape(&mut net, &all, &[0, 0, HEADS, WIDTH as i32 / HEADS])?;
        parts.push(transposed(&mut net, &heads)?);
    }
    let scores = layers::matmul(&mut net, &parts[0], &parts[1], [false, true])?;
    let scores =
        layers::scale(&mut net, &scores, (WIDTH as f32 / HEADS as f32).sqrt().recip(), 0.0)?;
    let shares = layers::softmax(&mut net, &scores)?;
    let mixed = layers::matmul(&mut net, &shares, &parts[2], [false, false])?;
    let mixed = transposed(&mut net, &mixed)?;
    let mixed = layers::reshape(&mut net, &mixed, &[0, 0, WIDTH as i32])?;
    let mixed = dense(&mut net, &mixed, WIDTH, None)?;
    let x = layers::elementwise(&mut net, "add", &x, &mixed, -1)?;
    let normed = layers::layer_norm(&mut net, &x, 2)?;
    let wide = dense(&mut net, &normed, 4 * WIDTH, Some("gelu"))?;
    let narrow = dense(&mut net, &wide, WIDTH, None)?;
    let x = layers::elementwise(&mut net, "add", &x, &narrow, -1)?;
    let cost = layers::square_error_cost(&mut net, &x, &wanted)?;
    let loss = layers::mean(&mut net, &cost)?;
    Optimizer::new(Adam::default(), 0.001).minimize(&mut net, &loss)?;
    let shape = [8, LENGTH, WIDTH];
    let feed = vec![("x", singles(&shape)), ("wanted", singles(&shape))];
    let name = "transformer block, 8 x 64 x 128, 4 heads, Adam";
    Ok(Case { name, network: net, loss, feed, steps: 50, agrees: true })
}

/// Swaps the axes of heads and rows.
fn transposed(net: &mut Network, x: &Variable) -> Result<Variable> {
    let name = net.name("transpose2");
    let shapes = Variable::named(&net.name(&format!("{name}.tmp")));
    let transpose = Operator::new("transpose2").input("X", [x]).output("XShape", [&shapes]);
    net.call(&name, "Out", transpose.attribute("axis", vec![0, 2, 1, 3]))
}

/// Returns pseudo-random numbers from -1 to 1.
fn singles(shape: &[u64]) -> Tensor {
    let count = shape.iter().product::<u64>();
    let bytes = (0..count).flat_map(|place| {
        let mixed = place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        (mixed as f32 / (1 << 23) as f32 - 1.0).to_le_bytes()
    });
    Tensor::dense(DType::Float32, shape.to_vec(), Blob::memory(bytes.collect::<Vec<u8>>()))
}

fn classes(rows: u64, classes: u64) -> Tensor {
    let bytes: Vec<u8> = (0..rows).flat_map(|row| (row % classes).to_le_bytes()).collect();
    Tensor::dense(DType::Int64, vec![rows, 1], Blob::memory(bytes))
}

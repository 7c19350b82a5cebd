//! A small network with everything that makes exact resumption hard: dropout, Adam, a schedule, shuffled data.

use std::path::Path;

use lodstone_checkpoint::{Serial, Snapshot, latest};
use lodstone_formats::{OpenOptions, numpy};
use lodstone_model::{DType, Model, Tensor};
use lodstone_paddle::checkpoint::{Contents, restore};
use lodstone_paddle::executor::{Dirs, Executor, Prepared, Scope};
use lodstone_paddle::program::layers::{self, Conv2d, Fc, Pooling};
use lodstone_paddle::program::optimizer::{Adam, Optimizer};
use lodstone_paddle::program::{Network, Variable};
use lodstone_store::{Blob, Location};

/// The number of images of a step.
const BATCH: u64 = 16;

/// The metadata key of the state of the shuffle.
const ORDER: &str = "order";

/// A network for images of digits, trained by Adam with a decaying learning rate: its programs, its prediction, its loss.
pub(crate) fn digits() -> (Network, Variable, Variable) {
    let (mut net, shares, loss) = forward();
    let rate = layers::exponential_decay(&mut net, 0.01, 20, 0.9, false).unwrap();
    Optimizer::new(Adam::default(), &rate).minimize(&mut net, &loss).unwrap();
    (net, shares, loss)
}

/// The network without training operators.
pub(crate) fn forward() -> (Network, Variable, Variable) {
    let mut net = Network::new();
    let image = layers::data(&mut net, "image", &[None, Some(1), Some(8), Some(8)], DType::Float32);
    let label = layers::data(&mut net, "label", &[None, Some(1)], DType::Int64);
    let conv = Conv2d { padding: [1, 1], bias: None, ..Conv2d::new(4, 3) };
    let x = layers::conv2d(&mut net, &image, &conv).unwrap();
    let x = layers::batch_norm(&mut net, &x, false).unwrap();
    let x = layers::relu(&mut net, &x).unwrap();
    let x = layers::pool2d(&mut net, &x, Pooling::Max, [2, 2], [2, 2], [0, 0]).unwrap();
    let x = layers::dropout(&mut net, &x, 0.3, false).unwrap();
    let logits = layers::fc(&mut net, &x, &Fc::new(10)).unwrap();
    let shares = layers::softmax(&mut net, &logits).unwrap();
    let loss = layers::softmax_with_cross_entropy(&mut net, &logits, &label).unwrap();
    let loss = layers::mean(&mut net, &loss).unwrap();
    (net, shares, loss)
}

/// Returns a scope in which the startup program has run.
pub(crate) fn started(net: &Network) -> Scope {
    let mut scope = Scope::default();
    Executor::default().run(&net.startup, &mut scope, &[], &[], &Dirs::default()).unwrap();
    scope
}

/// The digits, in shuffled order.
pub(crate) struct Data {
    images: Tensor,
    labels: Tensor,
    /// The state of the shuffle.
    pub(crate) order: u64,
}

impl Data {
    pub(crate) fn new() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/train.npz");
        let mut model: Model =
            (numpy::NPZ.read)(&Location::from(&path), &OpenOptions::default()).unwrap();
        model.load().unwrap();
        let tensor = |name| model.parameter(name).unwrap().clone();
        Self { images: tensor("image"), labels: tensor("label"), order: 1 }
    }

    /// Returns the next images and their labels, drawn by a congruential generator.
    pub(crate) fn next(&mut self) -> Vec<(&'static str, Tensor)> {
        let rows: Vec<u64> = (0..BATCH).map(|_| self.draw() % self.images.shape[0]).collect();
        vec![("image", rows_of(&self.images, &rows)), ("label", rows_of(&self.labels, &rows))]
    }

    fn draw(&mut self) -> u64 {
        self.order = self.order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.order >> 33
    }
}

fn rows_of(tensor: &Tensor, rows: &[u64]) -> Tensor {
    let bytes = tensor.data.bytes().unwrap();
    let size = bytes.len() / usize::try_from(tensor.shape[0]).unwrap();
    let row = |row: &u64| &bytes[usize::try_from(*row).unwrap() * size..][..size];
    let made: Vec<u8> = rows.iter().flat_map(row).copied().collect();
    let mut shape = tensor.shape.clone();
    shape[0] = rows.len() as u64;
    Tensor::dense(tensor.dtype, shape, Blob::memory(made))
}

/// Training that resumes from the latest serial of a directory.
pub(crate) struct Training {
    pub(crate) net: Network,
    pub(crate) scope: Scope,
    pub(crate) data: Data,
    pub(crate) step: u64,
    pub(crate) contents: Contents,
    run: Prepared,
}

impl Training {
    pub(crate) fn begin() -> Self {
        let (net, _, loss) = digits();
        let run = Prepared::new(&net.main, &[loss.name()]).unwrap();
        let contents = Contents::of(&net.main, &net.startup, None).unwrap();
        let scope = started(&net);
        Self { net, scope, data: Data::new(), step: 0, contents, run }
    }

    pub(crate) fn resume(dir: &Path) -> Self {
        match latest(dir).unwrap() {
            Some(serial) => Self::of(&serial),
            None => Self::begin(),
        }
    }

    pub(crate) fn of(serial: &Serial) -> Self {
        let mut training = Self { scope: Scope::default(), ..Self::begin() };
        let restored = restore(serial, &mut training.scope).unwrap();
        training.step = restored.step;
        training.data.order = restored.metadata[ORDER].as_u64().unwrap();
        training
    }

    pub(crate) fn step(&mut self) {
        let feed = self.data.next();
        self.run.run(&mut self.scope, &feed, &Dirs::default()).unwrap();
        self.step += 1;
    }

    pub(crate) fn until(&mut self, step: u64) {
        while self.step < step {
            self.step();
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.contents.snapshot(&self.scope).unwrap().with(ORDER, self.data.order)
    }

    /// Returns the whole state of training, as bytes.
    pub(crate) fn state(&self) -> Vec<(String, Vec<u8>)> {
        state(&self.scope)
    }
}

/// Returns all tensors of a scope, as bytes.
pub(crate) fn state(scope: &Scope) -> Vec<(String, Vec<u8>)> {
    let bytes = |name: &str| scope.tensor(name).unwrap().data.bytes().unwrap().to_vec();
    scope.names().map(|name| (name.to_owned(), bytes(name))).collect()
}

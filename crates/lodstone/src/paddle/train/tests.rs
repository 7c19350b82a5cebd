//! The samples of training steps.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use lodstone_model::{Block, DType, Dialect, Dim, Lod, Program, Tensor, TensorType, Topology, Var};
use lodstone_store::Blob;

use super::SampleOptions;
use super::samples::Samples;

/// A program with `int64` inputs of these dims; -1 is dynamic.
fn program(vars: &[(&str, &[i64])]) -> Program {
    let dim = |size: &i64| match u64::try_from(*size) {
        Ok(size) => Dim::Known(size),
        Err(_) => Dim::Unknown,
    };
    let var = |(name, dims): &(&str, &[i64])| {
        let shape = Some(dims.iter().map(dim).collect());
        let value = TensorType::new(DType::Int64, shape).into();
        Var { name: (*name).to_owned(), value, ..Var::default() }
    };
    let block = Block { vars: vars.iter().map(var).collect(), ..Block::default() };
    Program::from(Topology { blocks: vec![block], ..Topology::new(Dialect::Paddle) })
}

/// A tensor with the elements 0, 1, 2, ...
fn tensor(shape: &[u64], lod: &[&[u64]]) -> Tensor {
    let count = shape.iter().product::<u64>();
    let bytes: Vec<u8> = (0..count).flat_map(u64::to_le_bytes).collect();
    let mut tensor = Tensor::dense(DType::Int64, shape.to_vec(), Blob::memory(bytes));
    tensor.lod = Lod(lod.iter().map(|level| level.to_vec()).collect());
    tensor
}

fn numbers(tensor: &Tensor) -> Vec<u64> {
    let bytes = tensor.data.bytes().unwrap();
    bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
}

fn samples(
    vars: &[(&str, &[i64])],
    fed: Vec<(&str, Tensor)>,
    batch: Option<u64>,
    shuffle: Option<u64>,
) -> Result<Samples, String> {
    let fed = fed.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect();
    let options = SampleOptions { batch, shuffle };
    Samples::new(&program(vars), fed, options).map_err(|error| error.to_string())
}

fn step(samples: &mut Samples, number: u64) -> Vec<Tensor> {
    samples.of_step(number).unwrap().into_iter().map(|(_, tensor)| tensor).collect()
}

#[test]
fn batches_are_in_file_order_and_a_partial_batch_starts_a_new_epoch() {
    let fed = vec![("x", tensor(&[5, 2], &[])), ("rate", tensor(&[1], &[]))];
    let mut some = samples(&[("x", &[-1, 2]), ("rate", &[1])], fed, Some(2), None).unwrap();
    for (number, wanted) in [(0, [0, 1, 2, 3]), (1, [4, 5, 6, 7]), (2, [0, 1, 2, 3])] {
        let fed = step(&mut some, number);
        // A tensor with the declared dims is passed whole.
        assert_eq!([fed[0].shape.as_slice(), fed[1].shape.as_slice()], [&[1][..], &[2, 2]]);
        assert_eq!(numbers(&fed[1]), wanted);
    }
}

#[test]
fn the_declared_batch_size_is_used() {
    let fed = || vec![("x", tensor(&[6, 1], &[]))];
    let mut some = samples(&[("x", &[4, 1])], fed(), None, None).unwrap();
    assert_eq!(numbers(&step(&mut some, 3)[0]), [0, 1, 2, 3]);
    let error = samples(&[("x", &[4, 1])], fed(), Some(3), None).unwrap_err();
    assert!(error.contains("`x`: the program declares a batch size of 4, not 3"), "{error}");
    let mut all = samples(&[("x", &[-1, 1])], fed(), None, None).unwrap();
    assert_eq!(step(&mut all, 7)[0].shape, [6, 1]);
    let error = samples(&[("x", &[-1, 2])], fed(), None, None).unwrap_err();
    assert!(error.contains("expected int64[?, 2], found int64[6, 1]"), "{error}");
}

#[test]
fn each_epoch_has_every_sample_once_in_its_own_order() {
    let fed = || vec![("x", tensor(&[12], &[]))];
    let epoch = |seed, first: u64| {
        let mut some = samples(&[("x", &[-1])], fed(), Some(4), Some(seed)).unwrap();
        (first..first + 3)
            .flat_map(|number| numbers(&step(&mut some, number)[0]))
            .collect::<Vec<_>>()
    };
    let (first, second, other) = (epoch(1, 0), epoch(1, 3), epoch(2, 0));
    for order in [&first, &second, &other] {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..12).collect::<Vec<_>>());
    }
    assert!(first != second && first != other && first == epoch(1, 0));
}

#[test]
fn a_sample_with_lod_includes_its_nested_sequences() {
    // Sequences of 2, 0 and 1 sentences; sentences of 1, 2 and 3 words.
    let words = tensor(&[6, 1], &[&[0, 2, 2, 3], &[0, 1, 3, 6]]);
    let fed = || vec![("words", words.clone()), ("label", tensor(&[3, 1], &[]))];
    let vars: &[(&str, &[i64])] = &[("words", &[-1, 1]), ("label", &[-1, 1])];
    let mut some = samples(vars, fed(), Some(1), None).unwrap();
    let found: Vec<_> = (0..3).map(|number| step(&mut some, number)[0].clone()).collect();
    assert_eq!(found[0].lod.0, [vec![0, 2], vec![0, 1, 3]]);
    assert_eq!(numbers(&found[0]), [0, 1, 2]);
    assert_eq!((found[1].lod.0.clone(), found[1].shape[0]), (vec![vec![0, 0], vec![0]], 0));
    assert_eq!(numbers(&found[2]), [3, 4, 5]);
    let mut mixed = samples(vars, fed(), Some(3), Some(11)).unwrap();
    let both = step(&mut mixed, 0);
    both[0].lod.check(6).unwrap();
    let label = numbers(&both[1]);
    let parts: Vec<u64> = label
        .iter()
        .flat_map(|label| match label {
            0 => vec![0, 1, 2],
            1 => vec![],
            _ => vec![3, 4, 5],
        })
        .collect();
    assert_eq!(numbers(&both[0]), parts);
    let broken = vec![("words", tensor(&[6, 1], &[&[0, 2, 7]])), ("label", tensor(&[2, 1], &[]))];
    assert!(samples(vars, broken, None, None).unwrap_err().contains("`words`: LoD level 0"));
}

//! Sizes for the dynamic dims of inputs: the smallest of a few plausible ones that the program accepts.
//!
//! A combination of sizes is accepted if the program can be lowered for it, and inference finds neither a contradiction nor an
//! empty output. Dims of one symbol have one size.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lodstone_model::{DType, Dim, Model};
use lodstone_schema::conventions;
use lodstone_schema::onnx::infer::{Options, infer};

use super::engine::lowered;
use super::typed::{Types, declared};

/// The number of combinations that are tried for a choice.
const MAX_TRIED: usize = 40;

/// The number of dims of weights that are plausible sizes.
const MAX_WIDTHS: usize = 8;

/// The meaning of a dim, by its axis and the rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Meaning {
    /// The number of examples: the first axis.
    Batch,
    /// The channels of images: the second of at least four axes.
    Channels,
    /// The height or width of images: the axes behind.
    Image,
    /// Anything else, such as the length of a sequence.
    Length,
}

impl Meaning {
    const ALL: [Self; 4] = [Self::Batch, Self::Channels, Self::Image, Self::Length];

    /// Returns plausible sizes, in the order in which they are tried. Channels and lengths may be those of the weights.
    fn plausible(self, model: &Model) -> Vec<u64> {
        match self {
            Self::Batch => vec![1, 2],
            Self::Channels => [3, 1].into_iter().chain(widths(model)).collect(),
            Self::Image => vec![32, 64, 28, 96, 128, 224, 256, 320, 416, 640, 1],
            Self::Length => [8, 16, 4, 2, 32, 128, 1].into_iter().chain(widths(model)).collect(),
        }
    }
}

/// Returns the first different dims of the model's weights, which have at least two.
fn widths(model: &Model) -> Vec<u64> {
    let mut widths = Vec::new();
    let shapes = model.parameters.iter().map(|parameter| &parameter.tensor.shape);
    for dim in shapes.filter(|shape| shape.len() > 1).flat_map(|shape| shape.iter().take(2)) {
        if widths.len() < MAX_WIDTHS && *dim > 0 && !widths.contains(dim) {
            widths.push(*dim);
        }
    }
    widths
}

/// An input that gets a shape.
pub(super) struct Open {
    pub(super) name: String,
    pub(super) dtype: DType,
    /// The declared dims, or those that are known otherwise.
    pub(super) dims: Vec<Dim>,
    pub(super) lod_level: u32,
}

impl Open {
    fn meaning(&self, axis: usize) -> Meaning {
        match (axis, self.dims.len()) {
            // The rows of all sequences.
            (0, _) if self.lod_level > 0 => Meaning::Length,
            (0, _) => Meaning::Batch,
            (1, 4..) => Meaning::Channels,
            (_, 4..) => Meaning::Image,
            _ => Meaning::Length,
        }
    }
}

/// A size for each meaning.
#[derive(Clone, Copy)]
struct Sizes {
    batch: u64,
    channels: u64,
    image: u64,
    length: u64,
}

impl Sizes {
    fn of(&self, meaning: Meaning) -> u64 {
        match meaning {
            Meaning::Batch => self.batch,
            Meaning::Channels => self.channels,
            Meaning::Image => self.image,
            Meaning::Length => self.length,
        }
    }
}

/// Returns shapes for the open inputs, in their order, and if `most` is 2 a second choice with other sizes, if one is accepted.
/// `given` has the types of the other inputs, `sequences` the number of sequences of an input with LoD: that of the examples. If
/// no combination is accepted, the first one is returned: a run reports why.
pub(super) fn chosen(
    model: &Model,
    open: &[Open],
    given: &Types,
    sequences: Option<u64>,
    most: usize,
) -> Vec<Vec<Vec<u64>>> {
    let symbols = symbols(open);
    let meaning = |input: &Open, axis: usize| {
        let symbol = match input.dims.get(axis) {
            Some(Dim::Symbol(symbol)) => symbols.get(symbol).copied(),
            _ => None,
        };
        symbol.unwrap_or_else(|| input.meaning(axis))
    };
    let shape = |input: &Open, sizes: &Sizes| {
        let dims = input.dims.iter().enumerate();
        let size = |(axis, dim): (usize, &Dim)| match dim {
            Dim::Known(size) => *size,
            _ => sizes.of(meaning(input, axis)),
        };
        dims.map(size).collect::<Vec<u64>>()
    };
    let shapes =
        |sizes: &Sizes| open.iter().map(|input| shape(input, sizes)).collect::<Vec<Vec<u64>>>();
    let dynamic: BTreeSet<Meaning> = open
        .iter()
        .flat_map(|input| (0..).zip(&input.dims).map(move |(axis, dim)| (input, axis, dim)))
        .filter(|(_, _, dim)| !matches!(dim, Dim::Known(_)))
        .map(|(input, axis, _)| meaning(input, axis))
        .collect();
    let all = combinations(model, &dynamic, sequences);
    let is_accepted = |sizes: &&Sizes| accepts(model, open, &shapes(sizes), given);
    let first = match dynamic.is_empty() {
        true => all.first(),
        false => all.iter().take(MAX_TRIED).find(is_accepted),
    };
    let Some(first) = first else { return all.first().map(shapes).into_iter().collect() };
    // Channels are a property of the network, and the number of sequences is given.
    let is_fixed = |meaning: &&Meaning| {
        **meaning == Meaning::Channels || (**meaning == Meaning::Batch && sequences.is_some())
    };
    let varies = |sizes: &&Sizes| {
        let others = dynamic.iter().filter(|meaning| !is_fixed(meaning));
        others.clone().count() > 0 && others.clone().all(|it| sizes.of(*it) != first.of(*it))
    };
    let mut others = all.iter().filter(varies).take(MAX_TRIED).filter(|_| most > 1);
    let second = others.find(is_accepted);
    [first].into_iter().chain(second).map(shapes).collect()
}

/// Returns the meaning of each symbol: that of the first dim with it.
fn symbols(open: &[Open]) -> BTreeMap<Arc<str>, Meaning> {
    let mut symbols = BTreeMap::new();
    for input in open {
        for (axis, dim) in input.dims.iter().enumerate() {
            if let Dim::Symbol(symbol) = dim {
                symbols.entry(Arc::clone(symbol)).or_insert_with(|| input.meaning(axis));
            }
        }
    }
    symbols
}

/// Returns all combinations of plausible sizes of the `dynamic` meanings; the others have their first one.
fn combinations(model: &Model, dynamic: &BTreeSet<Meaning>, sequences: Option<u64>) -> Vec<Sizes> {
    let [batches, channels, images, lengths] = Meaning::ALL.map(|meaning| {
        let plausible = match (meaning, sequences) {
            (Meaning::Batch, Some(sequences)) => vec![sequences],
            _ => meaning.plausible(model),
        };
        let count = if dynamic.contains(&meaning) { plausible.len() } else { 1 };
        plausible.into_iter().take(count).collect::<Vec<u64>>()
    });
    let mut all = Vec::new();
    for batch in batches {
        for &channels in &channels {
            for &image in &images {
                all.extend(lengths.iter().map(|&length| Sizes { batch, channels, image, length }));
            }
        }
    }
    all
}

/// Whether a program takes inputs of some shapes, as far as inference can tell.
fn accepts(model: &Model, open: &[Open], shapes: &[Vec<u64>], given: &Types) -> bool {
    let open = open.iter().zip(shapes);
    let types = open.map(|(input, shape)| (input.name.clone(), input.dtype, shape.clone()));
    let types: Types = types.chain(given.iter().cloned()).collect();
    let Ok((lowered, _)) = declared(model, &types).and_then(|model| lowered(&model)) else {
        return false;
    };
    let inference = infer(&lowered, &Options::default().with_graph_only(true));
    let is_empty = |name: &&str| {
        let value = inference.blocks.first().and_then(|values| values.get(*name));
        let shape = value.and_then(|value| value.shape());
        shape.is_some_and(|shape| shape.contains(&Dim::Known(0)))
    };
    let outputs = lowered.main().map(|program| (conventions(program).interface)(program).outputs);
    !inference.findings.breaks_rules() && !outputs.iter().flatten().any(is_empty)
}

//! The inputs of each training step: all samples, or a batch of them.
//!
//! A sample is an entry of the first axis of each tensor, or a sequence of its outermost LoD level.

use std::ops::Range;

use lodstone_model::{Dim, Lod, Program, Tensor};
use lodstone_schema::Finding;
use lodstone_store::Blob;

use super::SampleOptions;
use crate::{Error, Result};

/// The input tensors of a program, by name.
#[derive(Debug)]
pub(super) struct Samples {
    /// The tensors that each step reads completely.
    whole: Vec<(String, Tensor)>,
    /// The tensors from which each step reads a batch.
    cut: Vec<(String, Tensor)>,
    /// The batch size, and the number of samples.
    batch: u64,
    count: u64,
    /// The seed of the shuffle; without one, samples are in file order.
    shuffle: Option<u64>,
    /// The order of the most recent epoch, and its number.
    order: Option<(u64, Vec<u64>)>,
}

/// The part of a tensor that a step takes.
enum Takes {
    /// All of it.
    Whole,
    /// Any number of its samples.
    Any,
    /// A fixed number of its samples.
    Some(u64),
}

impl Samples {
    /// Creates the samples for a program.
    ///
    /// # Errors
    /// If a tensor does not match the program, or the tensors have different numbers of samples.
    pub(super) fn new(
        program: &Program,
        fed: Vec<(String, Tensor)>,
        options: SampleOptions,
    ) -> Result<Self> {
        let (mut whole, mut cut) = (Vec::new(), Vec::new());
        let mut batch = options.batch;
        for (name, tensor) in fed {
            match takes(program, &name, &tensor)? {
                Takes::Whole => whole.push((name, tensor)),
                Takes::Any => cut.push((name, tensor)),
                Takes::Some(wanted) => {
                    let batch = *batch.get_or_insert(wanted);
                    if batch != wanted {
                        return wrong(
                            &name,
                            format!("the program declares a batch size of {wanted}, not {batch}"),
                        );
                    }
                    cut.push((name, tensor));
                }
            }
        }
        let count = cut.first().map_or(0, |(_, tensor)| samples(tensor));
        let shuffle = options.shuffle;
        let Some(batch) = batch.or(shuffle.map(|_| count)) else {
            whole.append(&mut cut);
            return Ok(Self { whole, cut, batch: 0, count, shuffle, order: None });
        };
        for (name, tensor) in &cut {
            let found = samples(tensor);
            if found != count {
                let first = cut.first().map_or("", |(name, _)| name);
                return wrong(name, format!("it has {found} samples, but `{first}` has {count}"));
            }
            if batch == 0 || batch > count {
                let why = format!("expected a batch size from 1 to {count}, found {batch}");
                return match options.batch {
                    Some(_) => Err(Error::InvalidOption {
                        option: "batch",
                        why: format!("`{name}`: {why}"),
                    }),
                    None => wrong(name, why),
                };
            }
        }
        Ok(Self { whole, cut, batch, count, shuffle, order: None })
    }

    /// Returns the inputs of a step, counted from 0. When fewer samples than a batch are left, a new epoch starts, in
    /// file order or shuffled anew.
    pub(super) fn of_step(&mut self, step: u64) -> Result<Vec<(&str, Tensor)>> {
        let chosen = self.chosen(step).map_err(Error::Internal)?;
        let whole = self.whole.iter().map(|(name, tensor)| (name.as_str(), tensor.clone()));
        let mut fed: Vec<(&str, Tensor)> = whole.collect();
        for (name, tensor) in &self.cut {
            let picked = pick(tensor, &chosen);
            fed.push((name, picked.map_err(|finding| Error::input(name, finding))?));
        }
        Ok(fed)
    }

    /// Returns the indices of the samples of a step.
    fn chosen(&mut self, step: u64) -> Result<Vec<u64>, Finding> {
        if self.cut.is_empty() {
            return Ok(Vec::new());
        }
        let batches = self.count / self.batch;
        let (epoch, first) = (step / batches, step % batches * self.batch);
        let places = first..first + self.batch;
        let Some(seed) = self.shuffle else { return Ok(places.collect()) };
        let order = match self.order.take() {
            Some((known, order)) if known == epoch => order,
            _ => shuffled(self.count, seed, epoch),
        };
        let at = |place: u64| usize::try_from(place).ok().and_then(|place| order.get(place));
        let chosen = places.map(at).collect::<Option<Vec<_>>>();
        let chosen = chosen.map(|chosen| chosen.into_iter().copied().collect());
        let chosen = chosen.ok_or_else(|| Finding::internal("an epoch has too few samples"))?;
        self.order = Some((epoch, order));
        Ok(chosen)
    }
}

fn wrong<T>(name: &str, why: String) -> Result<T> {
    Err(Error::InvalidInput { name: name.to_owned(), why })
}

/// Returns the part of a tensor that a step of a program takes.
fn takes(program: &Program, name: &str, tensor: &Tensor) -> Result<Takes> {
    let rows = tensor.shape.first().copied().unwrap_or(0);
    if let Err(broken) = tensor.lod.check(rows) {
        return wrong(name, broken.to_string());
    }
    let vars = program.blocks.first().map_or(&[][..], |block| &block.vars);
    let var = vars.iter().find(|var| var.name == name);
    let Some(wanted) = var.and_then(|var| var.value.tensor_type()) else { return Ok(Takes::Any) };
    let dim = wanted.shape.as_ref().and_then(|dims| dims.first());
    let known = match dim {
        Some(Dim::Known(dim)) => Some(*dim),
        _ => None,
    };
    let mut some = tensor.shape.clone();
    some.iter_mut().zip(known).for_each(|(rows, known)| *rows = known);
    match known {
        _ if tensor.dtype != wanted.dtype || !wanted.admits(&some) => {
            let found = format!("{}{:?}", tensor.dtype, tensor.shape);
            wrong(name, format!("expected {wanted}, found {found}"))
        }
        None if dim.is_some() => Ok(Takes::Any),
        Some(known) if known != rows => Ok(Takes::Some(known)),
        _ => Ok(Takes::Whole),
    }
}

/// Returns the number of samples in a tensor.
fn samples(tensor: &Tensor) -> u64 {
    match tensor.lod.0.first() {
        Some(level) => (level.len() as u64).saturating_sub(1),
        None => tensor.shape.first().copied().unwrap_or(0),
    }
}

/// Selects samples of a tensor, in the given order.
fn pick(tensor: &Tensor, chosen: &[u64]) -> Result<Tensor, Finding> {
    let (lod, rows) = descend(&tensor.lod, chosen);
    let bytes = tensor.data.bytes().map_err(|error| error.to_string())?;
    let all = tensor.shape.first().copied().and_then(|rows| usize::try_from(rows).ok());
    let size = all.filter(|rows| *rows > 0 && bytes.len().is_multiple_of(*rows));
    let size =
        size.map(|rows| bytes.len() / rows).ok_or("its rows are not a whole number of bytes")?;
    let place = |rows: &Range<u64>| {
        let at = |row: u64| usize::try_from(row).ok()?.checked_mul(size);
        Some(at(rows.start)?..at(rows.end)?)
    };
    let is_joined = rows.windows(2).all(|pair| matches!(pair, [a, b] if a.end == b.start));
    let ends = rows.first().zip(rows.last()).filter(|_| is_joined);
    let picked = match ends.and_then(|(first, last)| place(&(first.start..last.end))) {
        Some(place) if place.end <= bytes.len() => bytes.slice(place),
        _ => {
            let rows = rows.iter().map(|rows| bytes.get(place(rows)?));
            rows.collect::<Option<Vec<&[u8]>>>()
                .ok_or("it has fewer rows than its shape declares")?
                .concat()
                .into()
        }
    };
    let mut shape = tensor.shape.clone();
    let count = rows.iter().map(|rows| rows.end - rows.start).sum();
    shape.iter_mut().take(1).for_each(|rows| *rows = count);
    let mut made = Tensor::dense(tensor.dtype, shape, Blob::memory(picked));
    made.lod = lod;
    Ok(made)
}

/// Returns the rows of some sequences, and their LoD levels.
fn descend(lod: &Lod, chosen: &[u64]) -> (Lod, Vec<Range<u64>>) {
    let mut parts: Vec<Range<u64>> = chosen.iter().map(|one| *one..*one + 1).collect();
    let mut levels = Vec::new();
    for level in &lod.0 {
        let offset = |entry: u64| {
            usize::try_from(entry).ok().and_then(|entry| level.get(entry)).copied().unwrap_or(0)
        };
        let mut offsets = vec![0];
        let entries = parts.iter().flat_map(|part| part.clone());
        let mut end = 0;
        offsets.extend(entries.map(|entry| {
            end += offset(entry + 1) - offset(entry);
            end
        }));
        levels.push(offsets);
        parts = parts.iter().map(|part| offset(part.start)..offset(part.end)).collect();
    }
    (Lod(levels), parts)
}

/// Returns a permutation of the indices below `count` for a seed and an epoch: the indices sorted by a hash (the
/// finalizer of SplitMix64; Steele et al., 2014), so that the order of any epoch can be computed directly.
fn shuffled(count: u64, seed: u64, epoch: u64) -> Vec<u64> {
    let mix = |value: u64| {
        let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    };
    let key = mix(mix(seed).wrapping_add(epoch));
    let mut order: Vec<u64> = (0..count).collect();
    order.sort_by_cached_key(|sample| mix(key.wrapping_add(*sample)));
    order
}

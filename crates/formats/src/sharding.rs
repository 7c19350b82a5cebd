//! Writes a model in shards: files that hold chunks of its tensors, as the processes of a distributed run do, and an index.
//!
//! A chunk is a box of a tensor. A [`Division`] assigns chunks to shards; a [`Sharding`] writes them, one file at a time and
//! in any order, and the index after them. Elements are read while they are written.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use lodstone_model::{Kind, Model, Parameter, Tensor};
use lodstone_store::{Blob, Output, Part, checksum};
use serde::Deserialize;

use crate::boxes::{self, Boxed};
use crate::error::{Error, Result};
use crate::lengths::at_most;
use crate::options::Holds;

/// A format of shards.
#[derive(Debug)]
pub struct ShardFormat {
    /// The name of the format.
    pub name: &'static str,
    /// Whether the chunks of a tensor may be in several files.
    pub divides: bool,
    /// What it can represent.
    pub holds: Holds,
    /// The keys of metadata that it can do without.
    pub spare: &'static [&'static str],
    /// The name of the index.
    pub index: &'static str,
    /// Returns the name of a file, of its number and the number of files.
    pub(crate) file: fn(usize, usize) -> String,
    /// Fails unless the format can represent a tensor.
    pub(crate) check: fn(&Parameter) -> Result<()>,
    /// Writes a file, and returns the place of each item.
    pub(crate) write: Write,
    /// Returns what files of this format keep of a model of the same format beside its tensors; `None` if they keep nothing.
    pub(crate) keep: fn(&Model) -> Result<Option<Kept>>,
    /// Writes the index.
    pub(crate) put_index: fn(&mut Output, &Sharding<'_>, &[Shard<'_>]) -> Result<()>,
}

/// Writes the items of a file, and returns the place of each.
type Write = fn(&mut Output, &Sharding<'_>, &[Item<'_>]) -> Result<Vec<Range<u64>>>;

/// A chunk of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The index of the tensor in the model.
    pub parameter: usize,
    /// The index of its first element along each axis.
    pub offsets: Vec<u64>,
    /// The number of elements along each axis.
    pub sizes: Vec<u64>,
}

/// The chunks of each shard.
pub type Division = Vec<Vec<Chunk>>;

/// An entry of a plan: a chunk of a named tensor, and its shard.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// The number of the shard, from 0.
    pub shard: usize,
    /// The index of the first element along each axis.
    pub offsets: Vec<u64>,
    /// The number of elements along each axis.
    pub sizes: Vec<u64>,
}

/// A model divided into files.
#[derive(Debug)]
pub struct Sharding<'a> {
    pub(crate) model: &'a Model,
    format: &'static ShardFormat,
    /// The chunks of each file; there is at least one in each.
    division: Division,
    /// What only the format of the model has, and is kept.
    pub(crate) kept: Kept,
}

/// The values of a checkpoint that are no tensors, and the keys of nested ones.
#[derive(Debug)]
pub struct Kept {
    pub(crate) values: Vec<(String, Blob)>,
    /// The tensors inside of values.
    pub(crate) inside: HashSet<String>,
    pub(crate) paths: HashMap<String, Vec<Key>>,
}

/// A key of a nested value: of a dict, or of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Name(String),
    Index(u64),
}

/// A part of a file.
pub(crate) enum Item<'a> {
    /// A chunk, as a tensor of its own.
    Chunk {
        whole: &'a Parameter,
        offsets: &'a [u64],
        data: Box<Tensor>,
    },
    Value {
        name: &'a str,
        bytes: Blob,
    },
}

impl Item<'_> {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Chunk { whole, .. } => &whole.name,
            Self::Value { name, .. } => name,
        }
    }

    /// Returns the chunk as a parameter.
    pub(crate) fn parameter(&self) -> Result<Parameter> {
        match self {
            Self::Chunk { whole, data, .. } => {
                Ok(Parameter { name: whole.name.clone(), tensor: Tensor::clone(data) })
            }
            Self::Value { .. } => Err(Error::internal("a value in a format of tensors")),
        }
    }
}

/// A written file: its name, its items and their places.
pub(crate) struct Shard<'a> {
    pub(crate) file: String,
    pub(crate) items: Vec<Item<'a>>,
    pub(crate) places: Vec<Range<u64>>,
}

/// Divides each tensor along an axis into `shards` chunks of equal size; the last ones may be smaller, or missing. `axis` returns
/// the axis for the name of a tensor. Scalars are in the first shard, and so are tensors without elements, or with elements of less
/// than a byte, as a whole.
///
/// # Errors
/// Fails if a tensor does not have the axis.
pub fn divided(model: &Model, shards: usize, axis: impl Fn(&str) -> usize) -> Result<Division> {
    let mut division = vec![Vec::new(); shards.max(1)];
    for (parameter, Parameter { name, tensor }) in model.parameters.iter().enumerate() {
        let (shape, axis) = (&tensor.shape, axis(name));
        let is_divisible = tensor.dtype.bits().is_some_and(|bits| bits % 8 == 0);
        let dim = match shape.get(axis) {
            Some(dim) => *dim,
            None if shape.is_empty() => 1,
            None => {
                let what = format!("axis {axis} of the tensor `{name}` of dims {shape:?}");
                return Err(Error::Incompatible { format: "a division", what });
            }
        };
        let chunk = Chunk { parameter, offsets: vec![0; shape.len()], sizes: shape.clone() };
        if shape.is_empty() || shape.contains(&0) || !is_divisible {
            if let Some(first) = division.first_mut() {
                first.push(chunk);
            }
            continue;
        }
        let step = dim.div_ceil(division.len() as u64);
        let next = |start: &u64| start.checked_add(step).filter(|start| *start < dim);
        let starts = std::iter::successors(Some(0), next);
        for (shard, start) in division.iter_mut().zip(starts) {
            let Chunk { mut offsets, mut sizes, .. } = chunk.clone();
            offsets.iter_mut().skip(axis).take(1).for_each(|offset| *offset = start);
            sizes.iter_mut().skip(axis).take(1).for_each(|size| *size = step.min(dim - start));
            shard.push(Chunk { parameter, offsets, sizes });
        }
    }
    Ok(division)
}

/// Distributes whole tensors over `shards` files of about equal size, in the order of the model.
pub fn distributed(model: &Model, shards: usize) -> Division {
    let mut division = vec![Vec::new(); shards.max(1)];
    let total: u64 = model.parameters.iter().map(|it| it.tensor.data.len()).sum();
    let share = total.div_ceil(division.len() as u64).max(1);
    let mut before = 0_u64;
    for (parameter, Parameter { tensor, .. }) in model.parameters.iter().enumerate() {
        // The file in which the middle of the tensor is.
        let middle = before + tensor.data.len() / 2;
        let number = at_most(middle / share, division.len() - 1);
        before += tensor.data.len();
        let (offsets, sizes) = (vec![0; tensor.shape.len()], tensor.shape.clone());
        if let Some(shard) = division.get_mut(number) {
            shard.push(Chunk { parameter, offsets, sizes });
        }
    }
    division
}

/// Replaces the chunks of tensors by those of a plan.
///
/// # Errors
/// Fails if the model lacks a tensor of the plan, or the division a shard.
pub fn replan(
    model: &Model,
    mut division: Division,
    plan: &BTreeMap<String, Vec<Planned>>,
) -> Result<Division> {
    let refuse = |what: String| Error::Incompatible { format: "a plan", what };
    let indices: HashMap<&str, usize> = (0..)
        .zip(&model.parameters)
        .map(|(index, parameter)| (parameter.name.as_str(), index))
        .collect();
    let find = |(name, chunks)| -> Result<_> {
        let index = indices.get(String::as_str(name));
        let unknown = || refuse(format!("a tensor `{name}`, which the model lacks"));
        Ok((*index.ok_or_else(unknown)?, name, chunks))
    };
    let found: Vec<(usize, &String, &Vec<Planned>)> =
        plan.iter().map(find).collect::<Result<_>>()?;
    let planned: HashSet<usize> = found.iter().map(|(parameter, ..)| *parameter).collect();
    division.iter_mut().for_each(|shard| shard.retain(|chunk| !planned.contains(&chunk.parameter)));
    let shards = division.len();
    for (parameter, name, chunks) in found {
        for Planned { shard, offsets, sizes } in chunks {
            let target = division.get_mut(*shard).ok_or_else(|| {
                refuse(format!("shard {shard} for the tensor `{name}`, of {shards} shards from 0"))
            })?;
            let (offsets, sizes) = (offsets.clone(), sizes.clone());
            target.push(Chunk { parameter, offsets, sizes });
        }
    }
    division.iter_mut().for_each(|shard| shard.sort_by_key(|chunk| chunk.parameter));
    Ok(division)
}

impl ShardFormat {
    /// Returns what files of this format keep of an unedited model beside its tensors; `None` if they keep nothing.
    ///
    /// # Errors
    /// Fails if the files of the model cannot be read.
    pub fn kept(&self, model: &Model) -> Result<Option<Kept>> {
        if model.format == self.name { (self.keep)(model) } else { Ok(None) }
    }
}

impl<'a> Sharding<'a> {
    /// Checks the chunks of a division: those of each tensor must cover it without overlaps. Shards without chunks are
    /// dropped. `kept` is what the format [keeps](ShardFormat::kept) of this model.
    ///
    /// # Errors
    /// Fails if the format cannot represent a tensor, chunks do not fit, or something is kept of a model of another format.
    pub fn new(
        model: &'a Model,
        format: &'static ShardFormat,
        division: Division,
        kept: Option<Kept>,
    ) -> Result<Self> {
        if kept.is_some() && model.format != format.name {
            return Err(Error::internal("values were kept of a model of another format"));
        }
        let kept = kept.unwrap_or(Kept {
            values: Vec::new(),
            inside: HashSet::new(),
            paths: HashMap::new(),
        });
        let mut sharding = Self { model, format, division, kept };
        sharding.check_names()?;
        let mut chunks: Vec<Vec<(usize, &Chunk)>> = vec![Vec::new(); model.parameters.len()];
        for (shard, of_shard) in sharding.division.iter().enumerate() {
            for chunk in of_shard {
                let of_parameter = chunks.get_mut(chunk.parameter);
                let unknown = || sharding.refuse(format!("tensor {} of a model", chunk.parameter));
                of_parameter.ok_or_else(unknown)?.push((shard, chunk));
            }
        }
        for (parameter, chunks) in model.parameters.iter().zip(&chunks) {
            if !sharding.kept.inside.contains(&parameter.name) {
                sharding.check(parameter, chunks)?;
            }
        }
        let is_item = |chunk: &Chunk| {
            let parameter = model.parameters.get(chunk.parameter);
            parameter.is_some_and(|it| !sharding.kept.inside.contains(&it.name))
        };
        let mut division = std::mem::take(&mut sharding.division);
        division.iter_mut().for_each(|shard| shard.retain(is_item));
        division.retain(|shard| !shard.is_empty());
        if division.is_empty() {
            division.push(Vec::new());
        }
        sharding.division = division;
        Ok(sharding)
    }

    fn refuse(&self, what: String) -> Error {
        Error::Incompatible { format: self.format.name, what }
    }

    /// Fails if two items, or two tensors inside of values, have the same name.
    fn check_names(&self) -> Result<()> {
        let mut items: HashSet<&String> = self.kept.values.iter().map(|(name, _)| name).collect();
        let mut inside = HashSet::new();
        for Parameter { name, .. } in &self.model.parameters {
            let names = if self.kept.inside.contains(name) { &mut inside } else { &mut items };
            if !names.insert(name) {
                return Err(self.refuse(format!("two tensors or values called `{name}`")));
            }
        }
        Ok(())
    }

    /// Fails unless the chunks of a tensor, with their shards, cover it.
    fn check(&self, parameter: &Parameter, chunks: &[(usize, &Chunk)]) -> Result<()> {
        let Parameter { name, tensor } = parameter;
        if !matches!(tensor.kind, Kind::Dense) || !tensor.lod.is_empty() {
            return Err(self.refuse(format!("the tensor `{name}`: it is not dense")));
        }
        (self.format.check)(parameter)?;
        let mut boxed = Vec::with_capacity(chunks.len());
        for (_, Chunk { offsets, sizes, .. }) in chunks {
            let data = chunk(tensor, offsets, sizes).ok_or_else(|| {
                let of = format!("{} {:?}", tensor.dtype, tensor.shape);
                let what =
                    format!("a chunk of {of} of `{name}` at {offsets:?} with dims {sizes:?}");
                self.refuse(what)
            })?;
            boxed.push(Boxed { offsets: offsets.clone(), sizes: sizes.clone(), data: data.data });
        }
        if let [(_, only)] = chunks
            && only.sizes == tensor.shape
        {
            return Ok(());
        }
        let refuse = |expected| self.refuse(format!("the chunks of `{name}`: expected {expected}"));
        let shards: HashSet<usize> = chunks.iter().map(|(shard, _)| *shard).collect();
        if !self.format.divides {
            return Err(refuse("whole tensors".to_owned()));
        }
        if shards.len() != chunks.len() {
            return Err(refuse("at most one in each file".to_owned()));
        }
        if chunks.is_empty() || boxed.iter().any(|chunk| chunk.data.is_empty()) {
            return Err(refuse("at least one, and none without elements".to_owned()));
        }
        let bits = tensor.dtype.bits();
        let bits = bits.ok_or_else(|| refuse("elements of a known size".to_owned()))?;
        boxes::assemble(&tensor.shape, u64::from(bits / 8), boxed).map(drop).map_err(refuse)
    }

    /// Returns the format.
    pub fn format(&self) -> &'static ShardFormat {
        self.format
    }

    /// Returns the model.
    pub fn model(&self) -> &'a Model {
        self.model
    }

    /// Returns the names of the files, without the index.
    pub fn files(&self) -> Vec<String> {
        let count = self.division.len();
        (0..count).map(|number| (self.format.file)(number, count)).collect()
    }

    /// Returns a checksum of all that decides the contents of the files, except for the elements.
    pub fn fingerprint(&self) -> u64 {
        let parameters = self.model.parameters.iter();
        let parameters = parameters.map(|it| (&it.name, it.tensor.dtype, &it.tensor.shape));
        let all = format!(
            "{} {:?} {:?} {:?} {:?}",
            self.format.name,
            parameters.collect::<Vec<_>>(),
            self.model.metadata,
            self.division,
            self.kept.values.iter().map(|(name, value)| (name, value.len())).collect::<Vec<_>>(),
        );
        checksum(all.as_bytes())
    }

    /// Writes a file, and returns the offset, the size in bytes and the name of each item.
    ///
    /// # Errors
    /// Fails if reading or writing fails.
    pub fn write(&self, number: usize, out: &mut Output) -> Result<Vec<(u64, u64, String)>> {
        let items = self.items(number)?;
        let places = (self.format.write)(out, self, &items)?;
        let names = items.iter().map(|item| item.name().to_owned());
        let placed = places.into_iter().zip(names);
        Ok(placed.map(|(place, name)| (place.start, place.end - place.start, name)).collect())
    }

    /// Writes the index. `parts` are those of each file, with the names of its items.
    ///
    /// # Errors
    /// Fails if the parts are not those of the files, or writing fails.
    pub fn put_index(&self, parts: &[&[Part]], out: &mut Output) -> Result<()> {
        let mut shards = Vec::with_capacity(parts.len());
        for ((number, file), parts) in self.files().into_iter().enumerate().zip(parts) {
            let mut found: HashMap<&str, Range<u64>> = HashMap::new();
            for part in *parts {
                if let Some(name) = &part.tensor {
                    found.insert(name, part.offset..part.offset + part.len);
                }
            }
            let items = self.items(number)?;
            // An item without bytes has no part.
            let places = items.iter().map(|item| found.remove(item.name()).unwrap_or(0..0));
            let places = places.collect();
            shards.push(Shard { file, items, places });
        }
        (self.format.put_index)(out, self, &shards)
    }

    /// Returns the items of a file. Values are in the first.
    fn items(&self, number: usize) -> Result<Vec<Item<'_>>> {
        let values: &[_] = if number == 0 { &self.kept.values } else { &[] };
        let mut items: Vec<Item<'_>> =
            values.iter().map(|(name, bytes)| Item::Value { name, bytes: bytes.clone() }).collect();
        for Chunk { parameter, offsets, sizes } in self.division.get(number).into_iter().flatten() {
            let odd = || Error::internal("a chunk was not checked");
            let whole = self.model.parameters.get(*parameter).ok_or_else(odd)?;
            let data = chunk(&whole.tensor, offsets, sizes).ok_or_else(odd)?;
            items.push(Item::Chunk { whole, offsets, data: Box::new(data) });
        }
        Ok(items)
    }
}

/// Returns a chunk of a tensor; `None` if it is not inside.
fn chunk(tensor: &Tensor, offsets: &[u64], sizes: &[u64]) -> Option<Tensor> {
    let data = match tensor.shape == sizes && offsets.iter().all(|offset| *offset == 0) {
        true if offsets.len() == sizes.len() => tensor.data.clone(),
        _ => {
            let bits = tensor.dtype.bits().filter(|bits| bits.is_multiple_of(8))?;
            boxes::cut(&tensor.data, (&tensor.shape, u64::from(bits) / 8), (offsets, sizes))?
        }
    };
    Some(Tensor::dense(tensor.dtype, sizes.to_vec(), data))
}

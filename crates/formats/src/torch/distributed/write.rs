//! Writes distributed checkpoints: items of `torch.save`, as `FileSystemWriter` does.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use lodstone_model::{Limits, Model, Parameter, Tensor};
use lodstone_store::Output;

use super::metadata::{Entry, Metadata};
use super::{Layout, checkpoint};
use crate::encoding::pickle::write::{self as put, Memo};
use crate::error::{Error, Result};
use crate::options::Holds;
use crate::sharding::{Item, Kept, Key, Shard, ShardFormat, Sharding};
use crate::torch::element::Element;
use crate::torch::saved::read_blob;
use crate::torch::write::{check_tensor, put_item};
use crate::torch::{DISTRIBUTED_NAME, SAVED};

/// Checkpoints with chunks of tensors.
pub(crate) static SHARDS: ShardFormat = ShardFormat {
    name: DISTRIBUTED_NAME,
    divides: true,
    holds: Holds { metadata: false, sparse: false, coo: false, ..SAVED.holds },
    spare: &[],
    index: checkpoint::METADATA,
    file: |number, _| format!("__{number}_0.distcp"),
    check: |Parameter { name, tensor }| check_tensor(DISTRIBUTED_NAME, name, tensor),
    write,
    keep,
    put_index,
};

const MODULE: &str = "torch.distributed.checkpoint.metadata";

fn write(out: &mut Output, _: &Sharding<'_>, items: &[Item<'_>]) -> Result<Vec<Range<u64>>> {
    let mut places = Vec::with_capacity(items.len());
    for item in items {
        let start = out.position();
        match item {
            Item::Chunk { whole, data, .. } => put_item(out, &whole.name, data)?,
            Item::Value { bytes, .. } => out.copy(bytes)?,
        }
        places.push(start..out.position());
    }
    Ok(places)
}

/// Returns the values of a checkpoint that are no tensors, as their items, and the keys of nested ones; `None` for shards without
/// metadata.
///
/// # Errors
/// Fails if the files of the model cannot be read, or a tensor has a type that the model does not represent.
fn keep(model: &Model) -> Result<Option<Kept>> {
    let layout = Layout::of(model)?.filter(|layout| layout.mains > 0);
    let Some(layout) = layout else { return Ok(None) };
    let limits = Limits::none();
    let open = |name: &str| Ok(layout.file(model, name));
    let mains = layout.names.get(..layout.mains).unwrap_or_default();
    let (metadata, mains) = checkpoint::merged(mains, &open, &limits)?;
    let main = mains.into_iter().next().unwrap_or_default();
    let Metadata { entries, places, paths, .. } = metadata;
    let mut kept = Kept { values: Vec::new(), inside: HashSet::new(), paths };
    let mut files = checkpoint::Files::new(&open, &main, &limits);
    for (name, entry) in entries {
        if let Entry::Tensor { element, .. } = entry {
            if Element::of(element.dtype) != Some(element) {
                let what = format!("the type {} of the tensor `{name}`", element.name);
                return Err(Error::Incompatible { format: DISTRIBUTED_NAME, what });
            }
            continue;
        }
        let place = places.get(&(name.clone(), None));
        let place = place.ok_or_else(|| checkpoint::no_place(&main))?;
        let item = files.item(place)?;
        let inner = read_blob(&item, &limits)?.parameters.into_iter();
        kept.inside.extend(inner.map(|inner| checkpoint::joined(&name, &inner.name)));
        kept.values.push((name, item));
    }
    Ok(Some(kept))
}

/// Writes the metadata: a pickle of classes that PyTorch 2.6 and all later releases have.
fn put_index(out: &mut Output, sharding: &Sharding<'_>, shards: &[Shard<'_>]) -> Result<()> {
    let mut memo = Memo::default();
    put::begin(out)?;
    memo.instance(out, MODULE, "Metadata")?;
    memo.dict(out, |memo, out| {
        memo.word(out, "state_dict_metadata")?;
        memo.dict(out, |memo, out| put_entries(memo, out, sharding, shards))?;
        memo.word(out, "planner_data")?;
        memo.dict(out, |memo, out| put_paths(memo, out, sharding))?;
        memo.word(out, "storage_data")?;
        memo.dict(out, |memo, out| put_places(memo, out, shards))
    })?;
    put::op(out, put::BUILD)?;
    Ok(put::end(out)?)
}

/// The offsets and sizes of chunks.
type Boxes<'a> = Vec<(&'a [u64], &'a [u64])>;

/// Writes what each name stands for: a tensor with its chunks, or another value.
fn put_entries(
    memo: &mut Memo,
    out: &mut Output,
    Sharding { model, kept, .. }: &Sharding<'_>,
    shards: &[Shard<'_>],
) -> Result<()> {
    let mut chunks: HashMap<&str, Boxes<'_>> = HashMap::new();
    for item in shards.iter().flat_map(|shard| &shard.items) {
        if let Item::Chunk { whole, offsets, data } = item {
            chunks.entry(&whole.name).or_default().push((offsets, &data.shape));
        }
    }
    for (name, _) in &kept.values {
        memo.word(out, name)?;
        memo.instance(out, MODULE, "BytesStorageMetadata")?;
    }
    for Parameter { name, tensor } in &model.parameters {
        let Some(chunks) = chunks.get(name.as_str()) else {
            // It is inside of a value.
            continue;
        };
        let element = element_of(tensor)?;
        memo.word(out, name)?;
        memo.instance(out, MODULE, "TensorStorageMetadata")?;
        memo.dict(out, |memo, out| -> Result<()> {
            memo.word(out, "properties")?;
            memo.instance(out, MODULE, "TensorProperties")?;
            put_properties(memo, out, element)?;
            memo.word(out, "size")?;
            put_size(memo, out, element, &tensor.shape)?;
            memo.word(out, "chunks")?;
            put::op(out, put::EMPTY_LIST)?;
            put::op(out, put::MARK)?;
            for (offsets, sizes) in chunks {
                memo.instance(out, MODULE, "ChunkStorageMetadata")?;
                memo.dict(out, |memo, out| -> Result<()> {
                    memo.word(out, "offsets")?;
                    put_size(memo, out, element, offsets)?;
                    memo.word(out, "sizes")?;
                    put_size(memo, out, element, sizes)
                })?;
                put::op(out, put::BUILD)?;
            }
            Ok(put::op(out, put::APPENDS)?)
        })?;
        put::op(out, put::BUILD)?;
    }
    Ok(())
}

/// Writes the state of `TensorProperties`: the type, the layout, whether a gradient is required, the memory format, and
/// whether the memory is pinned.
fn put_properties(memo: &mut Memo, out: &mut Output, element: &Element) -> Result<()> {
    put::op(out, put::MARK)?;
    memo.global(out, "torch", element.name)?;
    memo.shared(out, "layout", |memo, out| {
        memo.global(out, "torch.serialization", "_get_layout")?;
        put::op(out, put::MARK)?;
        put::text(out, "torch.strided")?;
        put::op(out, put::TUPLE)?;
        put::op(out, put::REDUCE)
    })?;
    put::bool(out, false)?;
    memo.shared(out, "contiguous", |memo, out| {
        memo.global(out, MODULE, "_MEM_FORMAT_ENCODING")?;
        put::tuple(out, &[0])?;
        put::op(out, put::REDUCE)
    })?;
    put::bool(out, false)?;
    put::op(out, put::TUPLE)?;
    Ok(put::op(out, put::BUILD)?)
}

/// Writes the keys of nested values, by name.
fn put_paths(memo: &mut Memo, out: &mut Output, sharding: &Sharding<'_>) -> Result<()> {
    let Sharding { model, kept, .. } = sharding;
    let tensors = model.parameters.iter().map(|parameter| &parameter.name);
    let tensors = tensors.filter(|name| !kept.inside.contains(*name));
    for name in kept.values.iter().map(|(name, _)| name).chain(tensors) {
        memo.word(out, name)?;
        put::op(out, put::MARK)?;
        match kept.paths.get(name) {
            Some(path) => path.iter().try_for_each(|key| match key {
                Key::Name(name) => memo.word(out, name),
                Key::Index(index) => put::number(out, *index),
            })?,
            None => memo.word(out, name)?,
        }
        put::op(out, put::TUPLE)?;
    }
    Ok(())
}

/// Writes the place of each item.
fn put_places(memo: &mut Memo, out: &mut Output, shards: &[Shard<'_>]) -> Result<()> {
    let mut count: HashMap<&str, u64> = HashMap::new();
    for Shard { file, items, places } in shards {
        for (item, place) in items.iter().zip(places) {
            memo.instance(out, MODULE, "MetadataIndex")?;
            memo.dict(out, |memo, out| -> Result<()> {
                memo.word(out, "fqn")?;
                memo.word(out, item.name())?;
                memo.word(out, "offset")?;
                match item {
                    Item::Chunk { offsets, data, .. } => {
                        put_size(memo, out, element_of(data)?, offsets)?;
                        memo.word(out, "index")?;
                        let index = count.entry(item.name()).or_default();
                        put::number(out, *index)?;
                        *index += 1;
                    }
                    Item::Value { .. } => {
                        put::op(out, put::NONE)?;
                        memo.word(out, "index")?;
                        put::op(out, put::NONE)?;
                    }
                }
                Ok(())
            })?;
            put::op(out, put::BUILD)?;
            memo.instance(out, "torch.distributed.checkpoint.filesystem", "_StorageInfo")?;
            memo.dict(out, |memo, out| {
                memo.word(out, "relative_path")?;
                memo.word(out, file)?;
                memo.word(out, "offset")?;
                put::number(out, place.start)?;
                memo.word(out, "length")?;
                put::number(out, place.end - place.start)
            })?;
            put::op(out, put::BUILD)?;
        }
    }
    Ok(())
}

/// Writes dims or offsets, as PyTorch counts them.
fn put_size(memo: &mut Memo, out: &mut Output, element: &Element, dims: &[u64]) -> Result<()> {
    let mut dims = dims.to_vec();
    dims.last_mut().into_iter().for_each(|last| *last /= element.packed);
    memo.global(out, "torch", "Size")?;
    put::op(out, put::MARK)?;
    put::tuple(out, &dims)?;
    put::op(out, put::TUPLE)?;
    Ok(put::op(out, put::REDUCE)?)
}

fn element_of(tensor: &Tensor) -> Result<&'static Element> {
    Element::of(tensor.dtype).ok_or_else(|| Error::internal("an element type was not checked"))
}

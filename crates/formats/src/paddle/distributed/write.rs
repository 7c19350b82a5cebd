//! Writes distributed checkpoints, as `paddle.distributed.save_state_dict` of 3.3 does.

use std::collections::HashMap;
use std::ops::Range;

use lodstone_model::{DType, Parameter};
use lodstone_store::Output;

use super::NAME;
use crate::encoding::array::code;
use crate::encoding::pickle::write::{self as put, Memo};
use crate::error::{Error, Result};
use crate::options::Holds;
use crate::paddle::bundle::PICKLE;
use crate::paddle::pickle::{AS_INTEGERS, TABLE, check, put_arrays};
use crate::sharding::{Item, Shard, ShardFormat, Sharding};

/// Checkpoints with chunks of tensors.
pub(crate) static SHARDS: ShardFormat = ShardFormat {
    name: NAME,
    divides: true,
    holds: Holds {
        metadata: false,
        unnamed: false,
        dtype: |dtype| code(dtype).is_some() || AS_INTEGERS.iter().any(|(of, _)| *of == dtype),
        ..PICKLE.holds
    },
    spare: &[TABLE],
    index: "0.metadata",
    file: |number, _| format!("{number}_0.distcp"),
    check: check_type,
    write,
    keep: |_| Ok(None),
    put_index,
};

const MODULE: &str = "paddle.distributed.flex_checkpoint.dcp.metadata";

fn check_type(parameter: &Parameter) -> Result<()> {
    let Parameter { name, tensor } = parameter;
    name_of(tensor.dtype).ok_or_else(|| Error::dtype(NAME, name, tensor.dtype))?;
    check(std::slice::from_ref(parameter), false)
}

/// Returns the name of an element type, which releases before 3.3 look up.
fn name_of(dtype: DType) -> Option<String> {
    let name = dtype.to_string();
    (DType::from_name(&name) == Some(dtype)).then_some(name)
}

fn write(out: &mut Output, _: &Sharding<'_>, items: &[Item<'_>]) -> Result<Vec<Range<u64>>> {
    let parameters = items.iter().map(Item::parameter).collect::<Result<Vec<_>>>()?;
    put_arrays(out, &parameters)
}

/// A chunk, and the file that holds it.
struct Placed<'a> {
    offsets: &'a [u64],
    sizes: &'a [u64],
    file: &'a str,
}

/// Writes the metadata: a pickle.
fn put_index(out: &mut Output, sharding: &Sharding<'_>, shards: &[Shard<'_>]) -> Result<()> {
    let mut chunks: HashMap<&str, Vec<Placed<'_>>> = HashMap::new();
    for Shard { file, items, .. } in shards {
        for item in items {
            if let Item::Chunk { whole, offsets, data } = item {
                let placed = Placed { offsets, sizes: &data.shape, file };
                chunks.entry(&whole.name).or_default().push(placed);
            }
        }
    }
    let named = || {
        let parameters = sharding.model.parameters.iter();
        parameters.filter_map(|whole| Some((whole, chunks.get(whole.name.as_str())?)))
    };
    let mut memo = Memo::default();
    put::begin(out)?;
    memo.instance(out, MODULE, "Metadata")?;
    memo.dict(out, |memo, out| {
        memo.word(out, "state_dict_metadata")?;
        memo.dict(out, |memo, out| {
            named().try_for_each(|(whole, chunks)| put_entry(memo, out, whole, chunks))
        })?;
        memo.word(out, "storage_metadata")?;
        memo.dict(out, |memo, out| {
            named().try_for_each(|(whole, chunks)| put_places(memo, out, &whole.name, chunks))
        })?;
        memo.word(out, "flat_mapping")?;
        memo.dict(out, |memo, out| -> Result<()> {
            for (Parameter { name, .. }, _) in named() {
                memo.word(out, name)?;
                put::op(out, put::MARK)?;
                memo.word(out, name)?;
                put::op(out, put::TUPLE)?;
            }
            Ok(())
        })
    })?;
    put::op(out, put::BUILD)?;
    Ok(put::end(out)?)
}

/// Writes the chunks of a tensor.
fn put_entry(
    memo: &mut Memo,
    out: &mut Output,
    Parameter { name, tensor }: &Parameter,
    chunks: &[Placed<'_>],
) -> Result<()> {
    let dtype = name_of(tensor.dtype);
    let dtype = dtype.ok_or_else(|| Error::internal("an element type was not checked"))?;
    memo.word(out, name)?;
    put::op(out, put::EMPTY_LIST)?;
    put::op(out, put::MARK)?;
    for Placed { offsets, sizes, .. } in chunks {
        memo.instance(out, MODULE, "LocalTensorMetadata")?;
        memo.dict(out, |memo, out| {
            memo.word(out, "global_offset")?;
            put::tuple(out, offsets)?;
            memo.word(out, "local_shape")?;
            put::tuple(out, sizes)?;
            memo.word(out, "dtype")?;
            memo.word(out, &dtype)?;
            memo.word(out, "global_shape")?;
            put::tuple(out, &tensor.shape)?;
            put_not_flat(memo, out)
        })?;
        put::op(out, put::BUILD)?;
    }
    Ok(put::op(out, put::APPENDS)?)
}

/// Writes the file of each chunk.
fn put_places(memo: &mut Memo, out: &mut Output, name: &str, chunks: &[Placed<'_>]) -> Result<()> {
    for Placed { offsets, sizes, file } in chunks {
        memo.instance(out, MODULE, "LocalTensorIndex")?;
        memo.dict(out, |memo, out| {
            memo.word(out, "tensor_key")?;
            memo.word(out, name)?;
            memo.word(out, "global_offset")?;
            put::tuple(out, offsets)?;
            put_not_flat(memo, out)?;
            memo.word(out, "replica_id")?;
            put::op(out, put::NONE)?;
            memo.word(out, "local_shape")?;
            put::tuple(out, sizes)
        })?;
        put::op(out, put::BUILD)?;
        memo.word(out, file)?;
    }
    Ok(())
}

fn put_not_flat(memo: &mut Memo, out: &mut Output) -> lodstone_store::Result<()> {
    memo.word(out, "is_flattened")?;
    put::bool(out, false)?;
    memo.word(out, "flattened_range")?;
    put::op(out, put::NONE)
}

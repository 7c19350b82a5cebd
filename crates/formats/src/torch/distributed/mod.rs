//! Models in several files: distributed checkpoints, and the shards of an index.
//!
//! A distributed checkpoint (`torch.distributed.checkpoint`) is a directory:
//!
//! | file | contents |
//! |---|---|
//! | `.metadata` | a pickle of `Metadata`: tensors with their chunks, and the place of each item |
//! | `__RANK_N.distcp` | items, one after the other: files of `torch.save`, of a chunk of a tensor or of another value |
//!
//! | attribute of `Metadata` | value |
//! |---|---|
//! | `state_dict_metadata` | by name: `TensorStorageMetadata` (`properties`, `size`, `chunks`: `offsets` and `sizes` of each), or `BytesStorageMetadata` |
//! | `storage_data` | by `MetadataIndex` (`fqn`, `offset`, `index`): `_StorageInfo` (`relative_path`, `offset`, `length`, `transform_descriptors`) |
//! | `planner_data` | by name: the keys of a value in nested dicts and lists; kept for writing |
//! | `storage_meta`, `version` | not read |
//!
//! With the serialization format `SAFETENSORS`, each file is one of safetensors, after its items that are no tensors. A
//! tensor is assembled from its chunks on read. Items that were transformed, for example compressed, are not supported.
//!
//! Shards are written as items of `torch.save`, with the values of a checkpoint that are no tensors in the first file.
//!
//! Without collectives, each process writes the metadata of its own items, `__RANK.metadata`. Names are those of one model
//! there, too; if several processes saved an item, that of the first is read.
//!
//! `HuggingFaceStorageWriter` writes files of safetensors (`shard-RANK-model-FILE-of-FILES.safetensors`) and no metadata,
//! unless it joins the tensors. The metadata of each file has the key `DCP_SHARDING_INFO`:
//! `{TENSOR: {"saved_offsets": [..]}, ..}`. Neither the dims of whole tensors nor the number of processes is recorded.
//!
//! An index (`pytorch_model.bin.index.json`) is `{"metadata": {..}, "weight_map": {TENSOR: FILE, ..}}`; each file is one
//! of `torch.save`.
//!
//! Source of truth: `torch/distributed/checkpoint` of PyTorch 2.15 and files that it wrote; `save_pretrained` of
//! `transformers` for the index.

mod checkpoint;
mod index;
mod metadata;
mod shards;
mod write;

pub(super) use checkpoint::{detect, read};
pub(super) use index::{INDEX, is_index, read as read_index};
pub(crate) use write::SHARDS;

use lodstone_model::{Limits, Model};
use lodstone_store::Blob;
use serde::{Deserialize, Serialize};

use super::DISTRIBUTED_NAME;
use crate::error::Result;
use crate::format;

/// The owner of the residual of a model: the names of its files.
const OWNER: &str = "torch layout";

/// The names of the files of a model, in the directory that they are in; the first refer to the others.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Layout {
    pub(super) names: Vec<String>,
    /// The number of files that refer to the others; 0 for shards without metadata.
    mains: usize,
    /// Whether a directory was opened, instead of the first file.
    pub(super) directory: bool,
}

impl Layout {
    fn remember(&self, model: &mut Model) -> Result<()> {
        format::remember(model, OWNER, self)
    }

    /// Returns the layout of a model that was read from several files.
    pub(super) fn of(model: &Model) -> Result<Option<Self>> {
        format::recall(model, OWNER)
    }

    /// Returns a file of a model.
    fn file(&self, model: &Model, name: &str) -> Option<Blob> {
        let index = self.names.iter().position(|known| known == name)?;
        model.files.get(index).cloned()
    }

    /// Reads the files of a model again.
    pub(super) fn read_again(&self, model: &Model, limits: &Limits) -> Result<Model> {
        let open = |name: &str| Ok(self.file(model, name));
        let main = model.files.first().cloned().unwrap_or_default();
        Ok(match (model.format.as_str(), self.names.get(..self.mains).unwrap_or_default()) {
            (DISTRIBUTED_NAME, []) => shards::assemble(&self.names, &open, limits)?,
            (DISTRIBUTED_NAME, mains) => checkpoint::assemble(mains, &open, limits)?.0,
            _ => index::collect(&main, &open, limits)?.0,
        })
    }
}

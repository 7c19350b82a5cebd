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
//! | `planner_data`, `storage_meta`, `version` | not read |
//!
//! With the serialization format `SAFETENSORS`, each file is one of safetensors. A tensor is assembled from its chunks
//! on read. Items that were transformed, for example compressed, are not supported.
//!
//! An index (`pytorch_model.bin.index.json`) is `{"metadata": {..}, "weight_map": {TENSOR: FILE, ..}}`; each file is one
//! of `torch.save`.
//!
//! Source of truth: `torch/distributed/checkpoint` of PyTorch 2.15 and files that it wrote; `save_pretrained` of
//! `transformers` for the index.

mod assembled;
mod checkpoint;
mod index;
mod metadata;

pub(super) use checkpoint::{detect, read};
pub(super) use index::{INDEX, is_index, read as read_index};

use lodstone_model::{Limits, Model};
use lodstone_store::Blob;
use serde::{Deserialize, Serialize};

use super::DISTRIBUTED_NAME;
use crate::Result;
use crate::format;

/// The owner of the residual of a model: the names of its files.
const OWNER: &str = "torch layout";

/// The names of the files of a model, in the directory that they are in; the first refers to the others.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Layout {
    pub(super) names: Vec<String>,
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

    /// Reads the files of a model again.
    pub(super) fn read_again(&self, model: &Model, limits: &Limits) -> Result<Model> {
        let open = |name: &str| -> Result<Option<Blob>> {
            let index = self.names.iter().position(|known| known == name);
            Ok(index.and_then(|index| model.files.get(index)).cloned())
        };
        let main = model.files.first().cloned().unwrap_or_default();
        let (model, _) = match model.format.as_str() {
            DISTRIBUTED_NAME => checkpoint::assemble(&main, &open, limits)?,
            _ => index::collect(&main, &open, limits)?,
        };
        Ok(model)
    }
}

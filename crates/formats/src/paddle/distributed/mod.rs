//! Distributed checkpoints of PaddlePaddle 3 (`paddle.distributed.save_state_dict`): a directory.
//!
//! | file | contents |
//! |---|---|
//! | `ID.metadata` | a pickle of `Metadata` |
//! | `RANK_ID.distcp` | the tensors of a process, a file of `paddle.save` |
//! | `RANK_ID.safetensors` | the same, with `safetensors=True` |
//!
//! | attribute of `Metadata` | value |
//! |---|---|
//! | `state_dict_metadata` | by name: a list of `LocalTensorMetadata` (`global_offset`, `local_shape`, `dtype`, `global_shape`, `is_flattened`, `flattened_range`) |
//! | `storage_metadata` | by `LocalTensorIndex` (`tensor_key`, `global_offset`, `is_flattened`, `flattened_range`, `replica_id`, `local_shape`): the name of a file |
//! | `flat_mapping` | by name: the keys of nested dicts; not read |
//!
//! A tensor is assembled from boxes. Of a flattened box, several processes hold ranges of its elements. Releases before
//! 3.3 have no `global_shape` and none of the later attributes. Replicas are not read. Element types are those of the
//! metadata: the pickles hold bfloat16 as uint16.
//!
//! A directory may hold several checkpoints; the one with the highest `ID` is opened, or that of a given file.
//!
//! Source of truth: `paddle/distributed/flex_checkpoint/dcp` of 3.3.1, `paddle/distributed/checkpoint` of 3.0, and
//! directories that both wrote.

mod checkpoint;
mod metadata;
mod write;

use write::SHARDS;

use crate::format::{Format, Writes};
use crate::options::Holds;
use crate::paddle::bundle::PICKLE;

/// The name of the format.
pub(crate) const NAME: &str = "paddle-distributed";

/// Distributed checkpoints.
pub(crate) static FORMAT: Format = Format {
    name: NAME,
    title: "distributed checkpoints of PaddlePaddle 3",
    holds: Holds { dtype: |_| true, ..PICKLE.holds },
    extension: "",
    other_extensions: &[],
    into_directory: true,
    writes: Writes::Unedited,
    files: &["0.metadata", "0_0.distcp", "1_0.distcp"],
    structure: None,
    shards: Some(&SHARDS),
    detect: checkpoint::detect,
    read: checkpoint::read,
    stage: checkpoint::write_back,
    ..PICKLE
};

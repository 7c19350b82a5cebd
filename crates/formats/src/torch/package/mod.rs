//! The weights of exported programs (`.pt2`).
//!
//! Archives since 2.8, whose `archive_format` is `pt2`:
//!
//! | member | contents |
//! |---|---|
//! | `models/NAME.json` | a program; several are allowed |
//! | `data/weights/weight_N` | a storage that parameters and buffers share |
//! | `data/weights/NAME_weights_config.json` | the views of the storages, by name |
//! | `data/constants/tensor_N`, `data/constants/NAME_constants_config.json` | constants and buffers that are not saved, in the same way |
//! | `data/constants/custom_obj_N`, `opaque_obj_N` | other objects, which are not read |
//! | `data/sample_inputs/NAME.pt` | a file of `torch.save`, which is not read |
//! | `data/aotinductor/NAME/..` | compiled code, which is not read |
//!
//! The first archives call the configurations `NAME_model_param_config.json` and `NAME_model_constants_config.json`, or
//! have files of `torch.save`, `data/weights/NAME.pt` and `data/constants/NAME.pt`.
//!
//! Archives until 2.7: `serialized_state_dict.pt` and `serialized_constants.pt`, files of `torch.save`.
//!
//! | key of a view | value |
//! |---|---|
//! | `path_name` | the storage, or the file of `torch.save` if `use_pickle` is set |
//! | `is_param` | whether it is a parameter |
//! | `tensor_meta` | `dtype`, `sizes`, `strides`, `storage_offset`, `layout`, `requires_grad`, `device` |
//!
//! The models of an archive with several are told apart by the prefix `NAME.` of their tensors.
//!
//! Source of truth: `torch/export/pt2_archive` and `torch/_export/serde/schema.py` of PyTorch 2.15, and files that 2.5
//! to 2.15 wrote.

mod config;
mod read;

pub(crate) use read::parameters;

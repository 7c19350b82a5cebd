//! PaddlePaddle programs: `__model__`, `.pdmodel`, and their text format.
//!
//! One protobuf message `ProgramDesc` (package `paddle.framework.proto`, proto2):
//!
//! | message | fields |
//! |---|---|
//! | `ProgramDesc` | 1 blocks\*, 3 `op_compatible_map` (1.7 and 1.8), 4 version, 5 `op_version_map` |
//! | `BlockDesc` | 1 idx, 2 `parent_idx`, 3 vars\*, 4 ops\*, 5 `forward_block_idx` |
//! | `VarDesc` | 1 name, 2 type, 3 persistable, 4 `need_check_feed`, 5 `is_parameter`, 6 `stop_gradient`, 7 attrs\* |
//! | `VarType` | 1 type, 2 `selected_rows`, 3 `lod_tensor`, 4 `tensor_array`, 5 reader, 7 tuple, 8-12 string .. `sparse_csr` |
//! | `OpDesc` | 1 inputs\*, 2 outputs\*, 3 type, 4 attrs\*, 5 `is_target` |
//!
//! Repeated values are written unpacked, but also read packed. Versions are integers such as
//! 2006002 (2.6.2); 0 is 1.2 and older; no version is rejected.
//!
//! Source of truth: `paddle/fluid/framework/framework.proto` of PaddlePaddle, and files that
//! 1.8.5, 2.6.2 and 3.3.1 wrote.
//!
//! Not supported: the pickled `__model__` of October and November 2017 and the first protobuf
//! layout (until January 2018), in which the type of a variable is a bare enum; the errors for both
//! name the layout.

mod detect;
mod read;
pub(crate) mod schema;
pub(crate) mod types;
mod write;

pub use detect::{is_binary, is_text};
pub use read::{open, read, read_text};
pub use write::{was_text, write, write_text};

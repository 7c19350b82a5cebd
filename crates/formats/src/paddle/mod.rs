//! PaddlePaddle.
//!
//! | module | contents |
//! |---|---|
//! | [`stream`] | tensors, SelectedRows, vocabularies: single, combined, size-prefixed, LoD last |
//! | [`program`] | `ProgramDesc`, binary and text |
//! | [`pickle`] | files of `paddle.save`: tensors and plain values in a pickle |
//! | [`pir`] | programs of PaddlePaddle 3, as JSON |
//! | [`saved`] | checkpoints that operators of a program have saved |
//! | `distributed` | distributed checkpoints of PaddlePaddle 3 |
//! | `bundle` | complete models: directories, prefixes, names of parameters; the formats |

mod bundle;
pub(crate) mod distributed;
pub mod pickle;
pub mod pir;
pub mod program;
pub mod saved;
pub mod stream;

pub use bundle::{
    BUNDLE, PARAMS, PARAMS_SIZED, PICKLE, PIR, PROGRAM, PROGRAM_TEXT, SAVE, TENSOR,
    TENSOR_LOD_LAST, VARS, open, open_record,
};

//! PaddlePaddle.
//!
//! | module | what is there |
//! |---|---|
//! | [`stream`] | tensors, SelectedRows, vocabularies: single, combined, size-prefixed, LoD last |
//! | [`program`] | `ProgramDesc`, binary and text |
//! | [`pickle`] | what `paddle.save` writes: tensors and plain values in a pickle |
//! | `pir` | names out of the JSON of PaddlePaddle 3 |
//! | `bundle` | all together: directories, prefixes, names of parameters; the formats |

mod bundle;
pub mod pickle;
mod pir;
pub mod program;
pub mod stream;

pub use bundle::{
    BUNDLE, PARAMS, PARAMS_SIZED, PICKLE, PIR, PROGRAM, PROGRAM_TEXT, SAVE, TENSOR,
    TENSOR_LOD_LAST, VARS, open, open_record,
};

//! The extension module `lodstone._lodstone`, on which the Python package is built.
//!
//! It exposes the facade: arguments become options, results with a JSON form become the objects that `json.loads`
//! returns, and errors become exceptions of `lodstone._errors`. Long work runs in a separate thread without the GIL,
//! while the calling thread checks for signals and reports progress.

mod arguments;
mod buffer;
mod checkpoint;
mod dlpack;
mod errors;
mod functions;
mod hint;
mod model;
mod paddle;
mod session;
mod sharded;
mod tensor;
mod work;

use paddle as program;

/// The module.
#[pyo3::pymodule(gil_used = false)]
mod _lodstone {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::buffer::Buffer;
    #[pymodule_export]
    use crate::checkpoint::{
        Manager, checkpoint_load, checkpoint_manifest, checkpoint_steps, checkpoint_verify,
    };
    #[pymodule_export]
    use crate::functions::{
        byte_map, convert, diff, main, open, open_bytes, operators, origins, save, save_bytes,
        scan, seal, verify,
    };
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::program::{
        Executor, Names, Operator, Program, ProgramContents, Scope, Training, append_backward,
        append_block, append_load, append_save, apply_optimizer, begin_block,
        build_checkpoint_loader, call_layer, checkpointed_program, cond, declare_data,
        declare_parameter, discard_block, get_checkpoint_loader, gradients, load_program,
        make_checkpoint, open_training, program_of, restore_checkpoint, save_model, save_program,
        schedule, while_loop,
    };
    #[pymodule_export]
    use crate::session::{Session, compare, random_inputs};
    #[pymodule_export]
    use crate::sharded::{ShardFiles, ShardPublication, write_item_file, write_shard_file};
    #[pymodule_export]
    use crate::tensor::Tensor;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

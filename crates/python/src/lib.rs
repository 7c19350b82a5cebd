//! The extension module `lodstone._lodstone`: what the Python package is made of.
//!
//! Everything here is the facade, in Python's words: arguments become options, results that have a
//! JSON form become what `json.loads` makes of it, errors become exceptions of `lodstone._errors`. Long
//! work runs on a thread of its own without the interpreter's lock, while this one looks for signals and
//! tells how far it is.

mod arguments;
mod buffer;
mod checkpoint;
mod dlpack;
mod errors;
mod functions;
mod model;
mod session;
mod tensor;
mod work;

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
        convert, diff, main, open, open_bytes, save, save_bytes, scan, seal, verify,
    };
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::session::{Session, compare, random_inputs};
    #[pymodule_export]
    use crate::tensor::Tensor;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

//! The objects in pickles of PyTorch: tensors, plain values, and instances of any class, none of which is created.
//!
//! | object | in the pickle | in the model |
//! |---|---|---|
//! | tensor | a call of a function of `torch._utils` with a storage, an offset, dims and strides | a tensor, named by its path |
//! | quantized tensor | the same with scales and zero points | its integers; `PATH@quantization`, and tensors `PATH@scales` and `PATH@zero_points` of channels |
//! | sparse tensor | the same with the parts of COO or compressed rows | a sparse tensor; of other layouts, a tensor for each part: `PATH@values` |
//! | nested tensor | a buffer, and dims, strides and offset of each part | a tensor for each part: `PATH.0` |
//! | tensor without elements (`meta`) | dims and strides | an absent tensor |
//! | tensor of a subclass | the call of a tensor in another one | the tensor, `PATH@class`, and its attributes |
//! | storage by itself | a persistent id | a tensor of one dim |
//! | `nn.Module` | an instance with `_parameters`, `_buffers`, `_modules` | its parameters, buffers and modules, as in `state_dict()` |
//! | NumPy array | an array | a tensor |
//! | instance of any other class | class, arguments, attributes | its tensors by their paths; without any, one value |
//! | anything else | plain values | metadata: path to JSON |
//!
//! A path joins keys, attributes and indices with dots: `model.0.weight`, `optimizer.state.0.exp_avg`; a tensor that is
//! the whole object has none. JSON has lists for tuples and sets, `{"__class__": NAME, ..}` for instances,
//! `{"__import__": NAME}` for imports, and strings for element types, devices and layouts. What only PyTorch's own
//! machinery uses is left out: hooks of modules, `training`, the versions of modules (`_metadata`).
//!
//! Types that the model does not have are bytes, and `PATH@dtype` is their name.
//!
//! Source of truth: `torch/_utils.py`, `torch/_tensor.py` and `torch/csrc/jit/serialization` of PyTorch 2.15.

mod contents;
mod form;
mod json;
mod value;

pub(crate) use contents::{Contents, contents};
pub(crate) use form::{Kind, Scheme};
pub(crate) use value::{Objects, Value};

use lodstone_store::Blob;

use super::element::Element;
use super::view::View;

/// The storages that the persistent ids of a pickle refer to.
pub(crate) trait Storages {
    /// Returns a storage of `count` elements.
    ///
    /// # Errors
    /// Fails with what was expected if it is missing, or has another size.
    fn storage(&self, key: &str, element: &'static Element, count: u64) -> Result<Blob, String>;

    /// Returns the tensor or storage of a number.
    ///
    /// # Errors
    /// Fails with what was expected if there is none.
    fn numbered(&self, number: &str) -> Result<View, String> {
        Err(format!("a persistent id of a storage, not the number {number}"))
    }

    /// Returns whether the storages are big-endian.
    fn is_big(&self) -> bool {
        false
    }
}

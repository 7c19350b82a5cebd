//! MXNet.
//!
//! | module | what is there |
//! |---|---|
//! | [`params`] | lists and dicts of arrays, V0 to V3; NumPy's archives as MXNet 2 writes them |
//! | [`symbol`] | programs, of every release |
//! | [`states`] | what optimizers remember: arrays and plain values in a pickle |
//! | `bundle` | programs and parameters together: directories, prefixes, epochs |

mod bundle;
pub mod params;
pub mod states;
pub mod symbol;

pub(crate) use bundle::BLOCK;
pub use bundle::{BUNDLE, SYMBOL, open};

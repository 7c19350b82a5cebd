//! MXNet.
//!
//! | module | contents |
//! |---|---|
//! | [`params`] | lists and dicts of arrays, V0 to V3; NumPy archives written by MXNet 2 |
//! | [`symbol`] | programs, of every release |
//! | [`states`] | optimizer states: arrays and plain values in a pickle |
//! | `bundle` | programs and parameters together: directories, prefixes, epochs |

mod bundle;
pub mod params;
pub mod states;
pub mod symbol;

pub(crate) use bundle::BLOCK;
pub use bundle::{BUNDLE, SYMBOL, open};

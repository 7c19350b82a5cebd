//! What operators read, by their attributes and dims: what reference kernels and fast kernels share.
//!
//! | file | contents |
//! |---|---|
//! | `windows.rs` | sliding windows |
//! | `pooling.rs` | the windows of pooling operators |
//! | `resize.rs` | the elements that `Resize` reads |

mod pooling;
pub(crate) mod resize;
mod windows;

pub(crate) use pooling::Pooling;
pub(crate) use windows::{Windows, spatial};
